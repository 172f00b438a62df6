"""Secrets in options of Spark's: referred to, resolved where a client is made, and printed nowhere."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from tidelog.client.consumer.options import ConsumerOptions
from tidelog.spark.client_settings import client_arguments, client_settings, common_settings, is_secret
from tidelog.spark.errors import OptionError
from tidelog.spark.pipelines import FromTopic, Json, Pipeline, ToTable, ToTopic
from tidelog.spark.pipelines.query_options import dead_letter_options, sink_options, source_options
from tidelog.spark.pipelines.validation import check_pipeline, problems_of
from tidelog.spark.secret_references import FILE_BYTES_MAX, resolved
from tidelog.spark.sink.sink_options import parse_sink_options
from tidelog.spark.source.source_options import parse_source_options

CLUSTER = {"kafka.bootstrap.servers": "127.0.0.1:9092"}
LOGIN = {
    "kafka.security.protocol": "SASL_SSL",
    "kafka.sasl.mechanism": "PLAIN",
    "kafka.sasl.username": "alice",
    "kafka.sasl.password": "hunter2",
}
FOR_PIPELINE = {name.removeprefix("kafka."): text for name, text in LOGIN.items()}


def test_a_reference_is_resolved_when_a_client_is_made_and_not_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KAFKA_USER", "alice")
    file = tmp_path / "kafka.properties"
    file.write_text("password=a\\tb\n")
    (tmp_path / "ca.pem").write_text("line 1\nline 2\n")
    given = {
        **CLUSTER,
        **LOGIN,
        "kafka.sasl.username": "${env:KAFKA_USER}",
        "kafka.sasl.password": f"${{file:{file}:password}}",
        "kafka.ssl.truststore.certificates": f"${{directory:{tmp_path}:ca.pem}}",
    }

    settings = client_settings(ConsumerOptions, given)

    assert settings["sasl_username"] == "${env:KAFKA_USER}"
    made = client_arguments(pickle.loads(pickle.dumps(settings)))
    assert (made["sasl_username"], made["sasl_password"]) == ("alice", "a\tb")
    assert made["ssl_truststore_certificates"] == "line 1\nline 2"
    assert common_settings(settings)["sasl_password"] == "a\tb"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("${env:NOT_THERE}", "kafka.sasl.password refers to the variable NOT_THERE, which is not set in this process"),
        ("${file:HERE/none:x}", "kafka.sasl.password refers to HERE/none, which cannot be read here: No such file"),
        ("${file:HERE/p:x}", "kafka.sasl.password refers to the key x of HERE/p, which is not there"),
        ("${file:x}", "kafka.sasl.password refers to a file without a path: expected ${file:PATH:x}"),
        ("${directory:HERE:../../etc/passwd}", "kafka.sasl.password refers to HERE/passwd, which cannot be read here"),
        ("${directory:HERE:large}", "kafka.sasl.password refers to HERE/large, which has more than 1048576 bytes"),
    ],
)
def test_what_is_not_there_is_one_sentence(text: str, sentence: str, tmp_path: Path) -> None:
    (tmp_path / "p").write_text("password=hunter2\n")
    (tmp_path / "large").write_bytes(b"x" * (FILE_BYTES_MAX + 1))

    with pytest.raises(OptionError) as caught:
        resolved({"sasl_password": text.replace("HERE", str(tmp_path))})

    assert str(caught.value).startswith(sentence.replace("HERE", str(tmp_path)))
    assert "hunter2" not in str(caught.value)


def test_what_only_looks_like_a_reference_is_a_text() -> None:
    assert resolved({"sasl_password": "a${b", "client_id": "$x", "linger_ms": 5}) == {
        "sasl_password": "a${b",
        "client_id": "$x",
        "linger_ms": 5,
    }


def test_no_secret_is_in_what_options_look_like() -> None:
    source = parse_source_options({**CLUSTER, **LOGIN, "subscribe": "t"})
    sink = parse_sink_options({**CLUSTER, **LOGIN, "topic": "t"}, is_stream=True)

    for each in (source, sink):
        assert "alice" in repr(each)
        assert "hunter2" not in repr(each)
        assert each.client["sasl_password"] == "hunter2"


def test_a_key_that_spark_would_show_is_refused() -> None:
    given = {**CLUSTER, "kafka.security.protocol": "SSL", "kafka.ssl.keystore.certificate.chain": "c"}

    with pytest.raises(OptionError, match="which Spark would show in its plans") as caught:
        client_settings(ConsumerOptions, {**given, "kafka.ssl.keystore.key": "k3y"})
    assert "k3y" not in str(caught.value)
    client_settings(ConsumerOptions, {**given, "kafka.ssl.keystore.key": "${env:KEY}"})


def test_secrets_are_known_by_their_names_in_any_case() -> None:
    assert is_secret("kafka.SASL.jaas.config")
    assert not is_secret("kafka.sasl.mechanism")
    assert not is_secret("sasl.jaas.config")


def test_a_pipeline_has_one_login_for_all_its_clients() -> None:
    table = Pipeline(
        name="p",
        source=FromTopic("orders", Json("a int"), dead_letters="dead"),
        sink=ToTable("out"),
        kafka=FOR_PIPELINE,
    )
    topic = Pipeline(name="q", source=FromTopic("orders"), sink=ToTopic("out", encode="columns"), kafka=FOR_PIPELINE)

    assert problems_of([table, topic]) == []
    assert isinstance(topic.sink, ToTopic)
    for options in (
        source_options(table, table.sources[0], group_id="p"),
        dead_letter_options(table),
        sink_options(topic, topic.sink),
        dead_letter_options(topic),
    ):
        assert options.items() >= LOGIN.items()
    assert "hunter2" not in repr(table) + repr(topic)


def test_the_login_of_a_source_is_checked_as_a_whole() -> None:
    def problems(options: dict[str, str | int | bool]) -> list[str]:
        return list(
            check_pipeline(
                Pipeline(name="p", source=FromTopic("orders", options=options), sink=ToTopic("out", encode="columns"))
            ).problems
        )

    assert problems(dict(LOGIN)) == []
    half = {name: text for name, text in LOGIN.items() if name != "kafka.sasl.password"}
    assert problems(dict(half)) == [
        (
            "source: an option that begins with kafka. is wrong: "
            "PLAIN needs sasl.username and sasl.password, or sasl.jaas.config"
        )
    ]


def test_no_mistake_in_a_pipeline_repeats_its_secrets() -> None:
    wrong: dict[str, str | int | bool] = {**FOR_PIPELINE, "bootstrap.servers": "a:1"}
    untyped: dict[str, object] = {**LOGIN, "kafka.acks": None}

    found = problems_of(
        [
            Pipeline(name="p", source=FromTopic("orders"), sink=ToTable("out"), kafka=wrong),
            Pipeline(name="q", source=FromTopic("orders", options=untyped), sink=ToTable("out")),  # type: ignore[arg-type]
        ]
    )

    assert "p: the option bootstrap.servers is said by bootstrap=: leave it out" in found
    assert not [each for each in found if "hunter2" in each]
