"""Topics whose values a schema registry knows: what is wrong with such declarations, and pipelines over schemas that change."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import fastavro
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from tests.spark.test_pipeline_definition import REVENUE, problems, with_source
from tests.spark.test_pipeline_run import committed, run_to_the_end, send
from tests.spark.written import committed_rows
from tests.support.confluent_formats import MESSAGE, NEWER_PROTO, PROTO, compiled, message_class
from tests.support.schema_registry import schema_registry
from tidelog.spark.formats.protobuf_columns import ProtobufMessage
from tidelog.spark.formats.registry_framing import frame, protobuf_frame
from tidelog.spark.pipelines import Avro, FromTopic, Json, Pipeline, Protobuf, Registry, Text, ToTable, ToTopic
from tidelog.spark.pipelines.errors import DefinitionError
from tidelog.spark.pipelines.pipeline_file import PipelineFile
from tidelog.spark.pipelines.pipeline_run import PipelineRun
from tidelog.spark.pipelines.query_plan import plan_pipeline
from tidelog.testing import EmbeddedCluster

# As somebody writes them who does not look at types.
avro: Any = Avro
registry_of: Any = Registry


REGISTRY = Registry("https://registry:8081", user="ada", password="${env:PW}", ca="/etc/ca.pem")
OF_SUBJECT: dict[str, Any] = {"subject": "orders-value", "registry": REGISTRY}


def test_a_subject_stands_for_a_schema_both_ways() -> None:
    for decode in (
        Avro(**OF_SUBJECT),
        Json(**OF_SUBJECT, version=2),
        Avro(subject="o", registry="http://h:8081"),
        Protobuf("shop.Order", **OF_SUBJECT),
    ):
        assert with_source(decode=decode) == []
        assert problems(sink=ToTopic("x", encode=decode)) == []
    for encode in (Avro('{"type":"record","name":"O","fields":[]}', **OF_SUBJECT), Json(**OF_SUBJECT, register=True)):
        assert problems(sink=ToTopic("x", key="id", encode=encode)) == []
    assert with_source(decode=Json('{"type": "object", "properties": {"id": {"type": "integer"}}}')) == []
    assert "PW" not in repr(REGISTRY)


@pytest.mark.parametrize(
    ("decode", "sentence"),
    [
        (Avro(), "Avro needs schema=, in JSON, or the subject= of a registry"),
        (Json(), "Json needs schema=, its columns, as in 'id bigint, price double', or the subject= of a registry"),
        (Avro(subject="o"), "the subject o is one of a registry: give registry="),
        (Protobuf("A"), "Protobuf needs descriptor_set=, as protoc writes it, or the subject= of a registry"),
        (Protobuf("A", b"", **OF_SUBJECT), "the schema is the subject's: leave descriptor_set= out, or subject="),
        (Protobuf("A", b"", registry="http://h"), "Protobuf needs framed=True for it"),
        (Protobuf("A", b"\xff"), "the message of Protobuf is wrong: the descriptor set is wrong"),
        (Avro('"string"', **OF_SUBJECT), "the schema is the subject's: leave schema= out, or subject="),
        (Avro('"string"', version=1), "version= is one of a subject"),
        (Json("id int", registry="http://h"), "Json needs subject= for it"),
        (Avro(**OF_SUBJECT, register=True), "register= is for encoding"),
        (Avro(**OF_SUBJECT, version=0), "versions of a subject begin with 1"),
        (avro(**OF_SUBJECT, version="1"), "version is '1'; it is a whole number, or None"),
        (Avro(subject=" ", registry="http://h"), "subject is ' '; it is a name"),
        (avro(subject="o", registry=5), "registry is a int; it is an address"),
        (Avro(subject="o", registry="ftp://h"), "'ftp://h' is not the address of a schema registry"),
        (Json('{"type": "string"}'), "the schema of Json is wrong: the JSON schema is of no object"),
        (Avro(subject="o", registry=registry_of()), "Registry needs url="),
        (Avro(subject="o", registry=Registry("http://h", token="t")), "Registry holds the token itself"),
        (
            Avro(subject="o", registry=Registry("http://h", user="u", password="p")),
            "Registry holds the password itself",
        ),
        (Avro(subject="o", registry=Registry("http://h", password="${env:P}")), "Registry has a password, and no user"),
        (Avro(subject="o", registry=Registry("http://h", user="u", token="${env:T}")), "give one of them"),
        (Avro(subject="o", registry=registry_of("http://h", ca=1)), "ca of Registry is a int; it is text"),
        (Avro(subject="o", registry=registry_of("http://h", cert="x")), "Registry has no argument cert"),
    ],
)
def test_what_is_wrong_with_a_subject_is_told(decode: Any, sentence: str) -> None:
    assert any(sentence in each for each in with_source(decode=decode)), with_source(decode=decode)


@pytest.mark.parametrize(
    ("encode", "sentence"),
    [
        (Avro('"string"'), "sink: Avro writes for readers who ask a registry: it needs subject="),
        (Text(), "encode is Text(column='text'); it is text, or Avro, Json or Protobuf with a subject"),
        (Json("id int", **OF_SUBJECT), "Json writes by a JSON Schema"),
        (Json(**OF_SUBJECT, options={"a": "b"}), "options of Json are for reading"),
        (Avro(**OF_SUBJECT, register=True, version=1), "version= is of a schema that the subject has"),
        (Avro("{", **OF_SUBJECT), "the schema of Avro is wrong"),
        (Protobuf("A", b""), "Protobuf writes for readers who ask a registry: it needs subject="),
        (
            Protobuf("A", **OF_SUBJECT, register=True),
            "Protobuf registers the file of its message: give descriptor_set=",
        ),
        (Protobuf("A", b"", **OF_SUBJECT), "the message of Protobuf is wrong: the descriptor set has no message A"),
        (avro(**OF_SUBJECT, regster=True), "Avro has no argument regster; did you mean register?"),
    ],
)
def test_what_is_wrong_with_an_encoding_is_told(encode: Any, sentence: str) -> None:
    found = problems(sink=ToTopic("x", encode=encode))
    assert any(sentence in each for each in found), found


ID, NOTE = {"name": "id", "type": "long"}, {"name": "note", "type": "string", "default": "-"}


def order(*fields: Any) -> dict[str, Any]:
    return {"type": "record", "name": "Order", "fields": fields}


def values(schema_id: int, schema: Any, rows: Iterable[dict[str, Any]]) -> list[bytes]:
    found = []
    for each in rows:
        stream = io.BytesIO()
        fastavro.schemaless_writer(stream, schema, each)
        found.append(frame(schema_id) + stream.getvalue())
    return found


def test_a_running_pipeline_goes_on_when_the_schema_changes_and_a_restart_has_the_new_column(
    spark: SparkSession, cluster: EmbeddedCluster, topic: str, tmp_path: Path
) -> None:
    with schema_registry() as server:
        pipeline = Pipeline(
            name=f"orders-{topic}",
            source=FromTopic(
                topic,
                Avro(subject=f"{topic}-value", registry=server.url),
                name="orders",
                dead_letters=f"{topic}.dead",
            ),
            sink=[
                ToTable("table", format="delta"),
                ToTopic(
                    f"{topic}.out",
                    encode=Avro(subject=f"{topic}.out-value", registry=server.url, register=True),
                    where="id < 100",
                ),
            ],
            bootstrap=cluster.bootstrap_servers,
        )
        for name in (f"{topic}.out", f"{topic}.dead"):
            cluster.create_topic(name, partitions=1)
        old_id = server.add(f"{topic}-value", order(ID))
        send(cluster, topic, values(old_id, order(ID), [{"id": 1}]))
        run = PipelineRun(spark, PipelineFile(tmp_path / "jobs.py", [pipeline], []))
        run.start()
        new_id: list[int] = []

        def on_progress(found: Any) -> None:
            rows = sum(each.run_rows for each in found[0].queries if each.query == pipeline.name)
            if rows >= 1 and not new_id:
                new_id.append(server.add(f"{topic}-value", order(ID, NOTE)))
                later = values(new_id[0], order(ID, NOTE), [{"id": 2, "note": "new"}])
                send(cluster, topic, [*later, frame(99) + b"\2", b"no frame"])
            elif rows >= 4:
                run.stop()

        run.follow(on_progress)

        assert DeltaTable(str(tmp_path / "table")).to_pyarrow_table().sort_by("id").to_pylist() == [
            {"id": 1},
            {"id": 2},
        ]
        send(cluster, topic, values(new_id[0], order(ID, NOTE), [{"id": 3, "note": "newer"}, {"id": 300, "note": ""}]))
        (progress,) = run_to_the_end(spark, tmp_path, pipeline)

        assert {each.state for each in progress.queries} == {"caught up"}
        found = DeltaTable(str(tmp_path / "table")).to_pyarrow_table().sort_by("id").to_pylist()
        assert [(each["id"], each["note"]) for each in found] == [(1, None), (2, None), (3, "newer"), (300, "")]
        letters = committed(cluster, f"{topic}.dead", 2)
        assert {headers["tidelog.dead-letter.reason"] for _, _, headers in letters} == {"the value cannot be decoded"}
        # The topic's own readers find the ids of both of its schemas.
        first, second = server.subjects[f"{topic}.out-value"]
        assert [each["name"] for each in json.loads(server.schemas[second]["schema"])["fields"]] == ["id", "note"]
        out = [value.encode() for _, value, _ in committed(cluster, f"{topic}.out", 3)]
        assert sorted(each[:5] for each in out) == sorted([frame(first), frame(first), frame(second)])


def test_messages_of_one_topic_are_messages_of_another(
    spark: SparkSession, cluster: EmbeddedCluster, topic: str, tmp_path: Path
) -> None:
    newer = NEWER_PROTO.replace("package shop", "package bills")
    with schema_registry() as server:
        old_id, newer_id = (server.add(f"{topic}-{n}", text, "PROTOBUF") for n, text in enumerate((PROTO, NEWER_PROTO)))
        encode = Protobuf(
            "bills.Order", compiled(newer), subject=f"{topic}.out-value", registry=server.url, register=True
        )
        pipeline = Pipeline(
            name=f"orders-{topic}",
            source=FromTopic(
                topic,
                Protobuf(MESSAGE, subject=f"{topic}-0", registry=server.url),
                name="orders",
                dead_letters=f"{topic}.dead",
            ),
            transform="SELECT id, upper(name) AS name, tags, 1.5D AS price FROM orders",
            sink=ToTopic(f"{topic}.out", encode=encode),
            bootstrap=cluster.bootstrap_servers,
        )
        for name in (f"{topic}.out", f"{topic}.dead"):
            cluster.create_topic(name, partitions=1)
        message = message_class(PROTO)(id=1, name="ada", tags=["x"]).SerializeToString()
        send(cluster, topic, [protobuf_frame(each, [1]) + message for each in (old_id, newer_id, 99)])

        run_to_the_end(spark, tmp_path, pipeline)

        values = [row.value or b"" for row in committed_rows(cluster.bootstrap_servers, f"{topic}.out")]
        (out_id,) = server.subjects[f"{topic}.out-value"]
    assert {each[:7] for each in values} == {protobuf_frame(out_id, [1])}
    read = ProtobufMessage(compiled(newer), "bills.Order")
    assert [read.decode(each, 7) for each in values] == [{"id": 1, "name": "ADA", "tags": ["x"], "price": 1.5}] * 2
    (dead,) = committed_rows(cluster.bootstrap_servers, f"{topic}.dead")
    assert (dead.value or b"")[:5] == frame(99)


def test_what_a_registry_says_against_a_pipeline_is_told_before_anything_runs(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REGISTRY_TOKEN", "abc")
    with schema_registry(token="abc") as server:
        known = Registry(server.url, token="${env:REGISTRY_TOKEN}")
        server.add("narrow-value", order(ID))
        pipeline = replace(REVENUE, source=FromTopic("orders", Json("id int, price double")))

        def told(**changes: Any) -> str:
            with pytest.raises(DefinitionError) as found:
                plan_pipeline(spark, replace(pipeline, **changes))
            return str(found.value)

        narrow = Avro(subject="narrow-value", registry=known)
        assert "the column price is no field of the Avro schema" in told(sink=ToTopic("x", encode=narrow))
        assert plan_pipeline(
            spark, replace(pipeline, transform="SELECT id FROM orders", sink=ToTopic("x", encode=narrow))
        )
        adding = Avro(
            json.dumps(order(ID, {"name": "price", "type": "double"})),
            subject="narrow-value",
            registry=known,
            register=True,
        )
        assert "the subject narrow-value does not take the schema" in told(sink=ToTopic("x", encode=adding))
        assert "has no subject none" in told(source=FromTopic("orders", Avro(subject="none", registry=known)))
        monkeypatch.delenv("REGISTRY_TOKEN")
        assert "refers to the variable REGISTRY_TOKEN" in told(source=FromTopic("orders", narrow))
        assert len(server.subjects) == 1
