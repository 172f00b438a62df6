"""`--command-config` and `-X`: which commands have them, and what they come to."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import typer
from typer.main import get_command
from typer.testing import CliRunner

from tidelog.cli import cluster_login
from tidelog.cli.cluster_login import login_properties, login_settings, take
from tidelog.cli.commands import all_commands, command_line
from tidelog.client.admin.options import AdminOptions
from tidelog.client.consumer.options import ConsumerOptions


@pytest.fixture(autouse=True)
def _forgotten() -> Iterator[None]:
    yield
    take("topics", None, ())


def commands() -> Iterator[tuple[str, list[str]]]:
    """Each command with the names of its options."""
    waiting = [("tidelog", get_command(all_commands()))]
    while waiting:
        name, command = waiting.pop()
        below = getattr(command, "commands", {})
        waiting += [(f"{name} {word}", each) for word, each in below.items()]
        if not below:
            yield name, [option for param in command.params for option in param.opts]


def test_every_command_that_has_a_cluster_can_log_in_there() -> None:
    with_cluster = {name for name, options in commands() if "--bootstrap" in options}

    assert len(with_cluster) > 20
    assert with_cluster == {name for name, options in commands() if "--command-config" in options and "-X" in options}


def test_a_file_and_keys_of_the_command_line_are_read_and_the_latter_win(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text("# who\nsecurity.protocol=SSL\nssl.truststore.location = ca.pem\nrequest.timeout.ms=7\n")

    code = take("topics", str(file), ["security.protocol=SASL_SSL", "sasl.mechanism=PLAIN", *USER])

    assert code == 0
    assert login_settings(ConsumerOptions) == {
        "security_protocol": "SASL_SSL",
        "ssl_truststore_location": "ca.pem",
        "request_timeout_ms": 7,
        "sasl_mechanism": "PLAIN",
        "sasl_username": "alice",
        "sasl_password": "a=b ",
    }
    assert set(login_properties()) == {
        "security.protocol",
        "ssl.truststore.location",
        "sasl.mechanism",
        "sasl.username",
        "sasl.password",
    }


USER = ["sasl.username=alice", "sasl.password=a=b "]


def test_nothing_of_one_command_is_left_for_the_next() -> None:
    take("topics", None, ["security.protocol=SSL"])
    take("topics", None, [])

    assert login_settings(AdminOptions) == {}


def test_a_key_that_no_client_has_is_said_and_one_of_another_client_is_not(capsys: pytest.CaptureFixture[str]) -> None:
    assert take("topics", None, ["linger.ms=5", "group.id=g", "ssl.provider=SunJSSE"]) == 0

    assert capsys.readouterr().err == "tidelog topics: no client has ssl.provider, which is ignored\n"


@pytest.mark.parametrize(
    ("pairs", "sentence"),
    [
        (["s3cret"], "the value of -X number 1 is no KEY=VALUE, as in security.protocol=SSL"),
        (
            ["security.protocol=SASL_SSL"],
            (
                "security.protocol is SASL_SSL, and sasl.mechanism is not set: "
                "PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER, GSSAPI"
            ),
        ),
        (["request.timeout.ms=x"], "request.timeout.ms is 'x'; it is a whole number"),
    ],
)
def test_a_wrong_login_is_one_sentence_in_kafkas_names(
    pairs: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert take("consume", None, pairs) == 2

    assert capsys.readouterr().err == f"tidelog consume: {sentence}\n"


def test_a_file_that_cannot_be_one_is_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    large = tmp_path / "large"
    large.write_bytes(b"x" * (cluster_login.FILE_BYTES_MAX + 1))

    assert take("topics", str(tmp_path / "none"), ()) == 2
    assert take("topics", str(large), ()) == 2

    assert capsys.readouterr().err.splitlines() == [
        f"tidelog topics: {tmp_path / 'none'} cannot be read: No such file or directory",
        f"tidelog topics: {large} has more than 1048576 bytes: it is no client.properties",
    ]


@pytest.mark.parametrize(
    ("arguments", "servers"),
    [
        ([], "127.0.0.1:2"),
        (["--bootstrap", "127.0.0.1:3"], "127.0.0.1:3"),
    ],
)
def test_the_servers_of_the_file_are_asked_where_the_command_line_names_none(
    arguments: list[str], servers: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TIDELOG_BOOTSTRAP", raising=False)
    file = tmp_path / "client.properties"
    file.write_text("bootstrap.servers=127.0.0.1:2\n")
    monkeypatch.setenv("TIDELOG_COMMAND_CONFIG", str(file))
    asked: list[str] = []

    def ask(bootstrap: str, *, as_json: bool) -> int:
        asked.append(bootstrap)
        return int(as_json)

    monkeypatch.setattr("tidelog.cli.admin.topics.list_topics", ask)
    app: typer.Typer = command_line("topics")

    outcome = CliRunner().invoke(app, ["topics", "list", *arguments])

    assert (outcome.exit_code, asked) == (0, [servers])
