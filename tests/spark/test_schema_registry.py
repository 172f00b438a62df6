"""A schema registry as it is asked: what it answers, and what it does not."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.support.schema_registry import RegistryServer, schema_registry
from tidelog.security.certificate_authority import CertificateAuthority
from tidelog.spark.errors import OptionError
from tidelog.spark.formats import known_schemas, schema_registry as module
from tidelog.spark.formats.known_schemas import SchemasById
from tidelog.spark.formats.schema_registry import (
    ATTEMPTS_MAX,
    IncompatibleSchemaError,
    ReferencedText,
    RegistryAddress,
    RegistryError,
    Schema,
    SchemaRegistry,
    UnknownSchemaError,
)
from tidelog.spark.formats.subject_schemas import subject_schema, writing_schema


def record(*fields: Any) -> str:
    return json.dumps({"type": "record", "name": "O", "fields": fields})


ID = {"name": "id", "type": "long"}
NOTE = {"name": "note", "type": "string", "default": ""}
FIRST, SECOND = record(ID), record(ID, NOTE)


@pytest.fixture
def server() -> Iterator[RegistryServer]:
    with schema_registry() as started:
        yield started


def client(server: RegistryServer, **how: Any) -> SchemaRegistry:
    return SchemaRegistry(RegistryAddress(server.url, **how), sleep=lambda _seconds: None)


def test_schemas_are_had_by_subject_by_version_and_by_id(server: RegistryServer) -> None:
    first, second = server.add("a/b-value", FIRST), server.add("a/b-value", SECOND)
    registry = client(server)

    assert registry.version("a/b-value") == (second, 2, Schema("AVRO", SECOND))
    assert registry.version("a/b-value", 1) == (first, 1, Schema("AVRO", FIRST))
    assert registry.schema(second) == Schema("AVRO", SECOND)
    for ask, sentence in (
        (lambda: registry.version("none"), "has no subject none"),
        (lambda: registry.version("a/b-value", 3), "has no version 3 of the subject a/b-value"),
        (lambda: registry.schema(9), "has no schema 9"),
    ):
        with pytest.raises(UnknownSchemaError, match=sentence):
            ask()
    with pytest.raises(RegistryError, match="the subject a/b-value has a schema of type AVRO, and not of JSON"):
        subject_schema(RegistryAddress(server.url), "a/b-value", None, "JSON")


def test_what_a_schema_refers_to_comes_with_it(server: RegistryServer) -> None:
    server.add("c", "C", "PROTOBUF")
    server.add("b", "B", "PROTOBUF", [{"name": "c.proto", "subject": "c", "version": 1}])
    named = [{"name": "b.proto", "subject": "b", "version": 1}, {"name": "c.proto", "subject": "c", "version": 1}]
    found = client(server).schema(server.add("a", "A", "PROTOBUF", named))

    assert found.references == (ReferencedText("c.proto", "C"), ReferencedText("b.proto", "B"))
    assert [each._asdict() for each in found.named] == named


def test_references_that_have_no_end_are_an_error(server: RegistryServer) -> None:
    circle = [{"name": "a", "subject": "a", "version": 1}]
    with pytest.raises(RegistryError, match="refer to themselves"):
        client(server).schema(server.add("a", "A", "PROTOBUF", circle))
    many = [{"name": str(n), "subject": f"s{n}", "version": 1} for n in range(module.REFERENCES_MAX + 1)]
    for each in many:
        server.add(str(each["subject"]), each["name"], "PROTOBUF")
    with pytest.raises(RegistryError, match="or to more than 100"):
        client(server).schema(server.add("many", "M", "PROTOBUF", many))


def test_a_schema_is_registered_once_and_only_if_it_is_compatible(server: RegistryServer) -> None:
    registry = client(server)
    bad = Schema("AVRO", record(ID, {"name": "x", "type": "int"}))
    registry.check_compatible("o", Schema("AVRO", FIRST))
    assert registry.find("o", Schema("AVRO", FIRST)) is None
    first = registry.register("o", Schema("AVRO", FIRST))
    assert registry.register("o", Schema("AVRO", FIRST)) == registry.find("o", Schema("AVRO", FIRST)) == first
    for refused in (registry.register, registry.check_compatible):
        with pytest.raises(IncompatibleSchemaError, match=r"the subject o does not take the schema.*x has no default"):
            refused("o", bad)

    address = RegistryAddress(server.url)
    assert writing_schema(address, "o", Schema("AVRO", FIRST), register=False).schema_id == first
    with pytest.raises(RegistryError, match="register=True would add it"):
        writing_schema(address, "o", Schema("AVRO", SECOND), register=False)
    later = writing_schema(address, "o", Schema("AVRO", SECOND), register=True)
    assert (later.schema_id, server.subjects["o"]) == (None, [first])
    assert later.registered_id() == later.registered_id() == server.subjects["o"][1]
    assert sum(each == "POST /subjects/o/versions" for each in server.asked) == 4


def test_a_registry_that_is_busy_is_asked_again_a_few_times(server: RegistryServer) -> None:
    server.add("o", FIRST)
    server.failures = ATTEMPTS_MAX - 1
    assert client(server).version("o").version == 1
    server.failures = ATTEMPTS_MAX
    with pytest.raises(RegistryError, match=r"the subject o cannot be had from http.*it answers 503, not now"):
        client(server).version("o")
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        nobody = RegistryAddress(f"http://127.0.0.1:{unused.getsockname()[1]}")
        with pytest.raises(RegistryError, match="Connection refused"):
            SchemaRegistry(nobody, sleep=lambda _seconds: None).schema(1)


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        (b"[]", "did not answer with schema 1"),
        (b"{", "did not answer with schema 1"),
        (b"[" * 100_000, "did not answer with schema 1"),
        (b'{"schema": 5}', "did not answer with schema 1"),
        (b'{"schema": "1", "references": [1]}', "its references are none"),
        (b" " * (module.ANSWER_BYTES_MAX + 1), "has more than 16777216 bytes"),
    ],
)
def test_an_answer_that_is_none_is_an_error(server: RegistryServer, answer: bytes, sentence: str) -> None:
    server.add("o", FIRST)
    server.answers = answer
    with pytest.raises(RegistryError, match=sentence):
        client(server).schema(1)


def test_whoever_asks_says_who_it_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("REGISTRY_PASSWORD", "s3:cret")
    (tmp_path / "token").write_text("abc\n")
    with schema_registry(user="ada:s3:cret") as server:
        server.add("o", FIRST)
        assert client(server, user="ada", password="${env:REGISTRY_PASSWORD}").version("o").version == 1
        with pytest.raises(RegistryError, match="does not let us ask for the subject o: it answers 401, Unauthorized"):
            client(server, user="ada").version("o")
    with schema_registry(token="abc") as server:
        server.add("o", FIRST)
        assert client(server, token=f"${{directory:{tmp_path}:token}}").version("o").version == 1
        with pytest.raises(OptionError, match="token of Registry refers to the variable NOBODY, which is not set"):
            client(server, token="${env:NOBODY}")
        assert "abc" not in repr(RegistryAddress(server.url, token="abc"))


def test_credentials_do_not_follow_a_redirect(server: RegistryServer) -> None:
    with schema_registry() as elsewhere:
        server.redirects_to = elsewhere.url
        with pytest.raises(RegistryError, match="it answers 302"):
            client(server, token="abc").schema(1)
        assert elsewhere.asked == []


def test_a_certificate_has_to_be_trusted(tmp_path: Path) -> None:
    authority = CertificateAuthority.create(datetime.now(UTC), name="Test CA")
    issued = authority.node_certificate(["127.0.0.1"])
    for name, content in (("cert", issued.chain_pem), ("key", issued.key_pem), ("ca", authority.certificate_pem)):
        (tmp_path / name).write_bytes(content)
    with schema_registry(tls=(tmp_path / "cert", tmp_path / "key")) as server:
        server.add("o", FIRST)
        assert client(server, ca=str(tmp_path / "ca")).version("o").version == 1
        with pytest.raises(RegistryError, match=r"the certificate of https://.* is not trusted"):
            client(server).version("o")
        with pytest.raises(RegistryError, match="the certificates in /nowhere cannot be read"):
            client(server, ca="/nowhere")


@pytest.mark.parametrize(
    ("url", "sentence"),
    [
        ("file:///etc", "is not the address of a schema registry"),
        ("http://", "is not the address"),
        ("http://h:port", "is not the address"),
        ("http://h/?a=b", "is not the address"),
        ("http://ada:secret@h", "holds credentials: give user= and password= instead"),
    ],
)
def test_what_is_no_address_is_refused(url: str, sentence: str) -> None:
    with pytest.raises(RegistryError, match=sentence) as told:
        SchemaRegistry(RegistryAddress(url))
    assert "secret" not in str(told.value)


def test_a_process_asks_once_for_an_id_and_keeps_so_many(
    server: RegistryServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(known_schemas, "SCHEMAS_MAX", 2)
    ids = [server.add(f"s{n}", record({"name": f"f{n}", "type": "int"})) for n in range(3)]
    for each in (*ids, *ids[1:]):
        assert SchemasById(RegistryAddress(server.url)).schema(each).kind == "AVRO"
    assert len(server.asked) == 3
    SchemasById(RegistryAddress(server.url)).schema(ids[0])
    assert len(server.asked) == 4
