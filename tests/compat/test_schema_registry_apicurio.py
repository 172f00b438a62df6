"""Apicurio's registry, which nobody here wrote: values both ways with confluent-kafka's own serializers, refusals, logins."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka.schema_registry import Schema as TheirSchema, SchemaReference, SchemaRegistryClient
from pyspark.sql import SparkSession

from tests.spark.topics import local_session
from tests.support.apicurio import apicurio_registry
from tests.support.confluent_formats import (
    AVRO,
    FORMATS,
    JSON,
    NEWER_PROTO,
    PROTO,
    TheirFormats,
    check_both_ways,
    message_class,
    reading,
)
from tidelog.spark.formats import schema_registry
from tidelog.spark.formats.registry_framing import protobuf_frame
from tidelog.spark.formats.schema_registry import (
    IncompatibleSchemaError,
    RegistryAddress,
    RegistryError,
    Schema,
    SchemaRegistry,
    UnknownSchemaError,
)

pytestmark = pytest.mark.compat

USER, PASSWORD = "ada", "secret of ada"


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    place = tmp_path_factory.mktemp("apicurio")
    with apicurio_registry(place / "errors", user=USER, password=PASSWORD) as found:
        yield found


@pytest.fixture(scope="module")
def registry(url: str, tmp_path_factory: pytest.TempPathFactory) -> RegistryAddress:
    place = tmp_path_factory.mktemp("secrets")
    (place / "password").write_text(PASSWORD)
    return RegistryAddress(url, USER, f"${{directory:{place}:password}}")


@pytest.fixture(scope="module")
def theirs(url: str) -> Iterator[TheirFormats]:
    with SchemaRegistryClient({"url": url, "basic.auth.user.info": f"{USER}:{PASSWORD}"}) as client:
        yield TheirFormats(client)


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    session = local_session(tmp_path_factory.mktemp("spark"))
    yield session
    session.stop()


@pytest.mark.parametrize("name", FORMATS)
def test_values_go_both_ways(name: str, spark: SparkSession, theirs: TheirFormats, registry: RegistryAddress) -> None:
    check_both_ways(spark, theirs, registry, name)


def test_protobuf_that_was_registered_as_text_is_read(
    spark: SparkSession, theirs: TheirFormats, registry: RegistryAddress
) -> None:
    theirs.register("text-value", "PROTOBUF", PROTO)
    newer = theirs.register("newer-value", "PROTOBUF", NEWER_PROTO)
    value = protobuf_frame(newer, [1]) + message_class(NEWER_PROTO)(id=5, tags=["x"], price=1.5).SerializeToString()

    rows = spark.createDataFrame([(value,)], "value binary")
    (found,) = rows.select(reading("protobuf", "text-value", registry).alias("row")).collect()

    assert found["row"].asDict() == {"id": 5, "name": None, "tags": ["x"]}


def test_a_schema_comes_with_what_it_refers_to(theirs: TheirFormats, registry: RegistryAddress) -> None:
    address = {"type": "record", "name": "Address", "namespace": "shop", "fields": [{"name": "city", "type": "string"}]}
    person = {"type": "record", "name": "Person", "fields": [{"name": "home", "type": "shop.Address"}]}
    theirs.register("address", "AVRO", json.dumps(address))
    reference = SchemaReference("shop.Address", "address", 1)
    number = theirs.client.register_schema("person", TheirSchema(json.dumps(person), "AVRO", [reference]))

    found = SchemaRegistry(registry).schema(number)

    assert json.loads(found.text) == person
    assert [(each.name, json.loads(each.text)) for each in found.references] == [("shop.Address", address)]


OTHERS: dict[str, tuple[str, str]] = {
    "AVRO": (json.dumps(AVRO), json.dumps({**AVRO, "fields": [*AVRO["fields"], {"name": "price", "type": "double"}]})),
    "JSON": (json.dumps(JSON), json.dumps({**JSON, "properties": {**JSON["properties"], "id": {"type": "string"}}})),
    "PROTOBUF": (PROTO, PROTO.replace("int64 id = 1", "string id = 1")),
}


@pytest.mark.parametrize("kind", OTHERS)
def test_a_schema_that_does_not_fit_is_refused_by_both_questions(
    kind: str, theirs: TheirFormats, registry: RegistryAddress
) -> None:
    subject, (first, other) = f"strict-{kind}", OTHERS[kind]
    ours = SchemaRegistry(registry)
    number = ours.register(subject, Schema(kind, first))
    theirs.client.set_compatibility(subject, "BACKWARD")

    with pytest.raises(IncompatibleSchemaError, match=f"the subject {subject} does not take the schema"):
        ours.check_compatible(subject, Schema(kind, other))
    with pytest.raises(IncompatibleSchemaError, match=f"the subject {subject} does not take the schema"):
        ours.register(subject, Schema(kind, other))

    ours.check_compatible(subject, Schema(kind, first))
    assert ours.register(subject, Schema(kind, first)) == number
    assert ours.find(subject, Schema(kind, first)) == number
    assert ours.find(subject, Schema(kind, other)) is None


def test_what_is_not_there_and_who_may_not_ask(
    url: str, registry: RegistryAddress, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = SchemaRegistry(registry)
    asked: tuple[tuple[Any, ...], ...] = ((ours.schema, 10**6), (ours.version, "nobody"), (ours.version, "nobody", 3))
    for ask, *arguments in asked:
        with pytest.raises(UnknownSchemaError, match="has no "):
            ask(*arguments)
    assert ours.find("nobody", Schema(schema_registry.AVRO, '"string"')) is None
    ours.check_compatible("nobody", Schema(schema_registry.AVRO, '"string"'))
    monkeypatch.setenv("WRONG", "x")
    for stranger in (RegistryAddress(url), RegistryAddress(url, USER, "${env:WRONG}")):
        with pytest.raises(RegistryError, match="does not let us ask for the subject nobody: it answers 401"):
            SchemaRegistry(stranger).version("nobody")
