"""The reader of Kafka's schemas notices what differs, and prints what a declaration looks like."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

from tidelog.wire.messages.groups_classic import HeartbeatRequest
from tools.read_schemas import Printer, declared_facts, differences, main, read_jars

HEARTBEAT: dict[str, Any] = {
    "apiKey": 12,
    "type": "request",
    "listeners": ["broker"],
    "name": "HeartbeatRequest",
    "validVersions": "0-4",
    "flexibleVersions": "4+",
    "fields": [
        {"name": "GroupId", "type": "string", "versions": "0+"},
        {"name": "GenerationId", "type": "int32", "versions": "0+"},
        {"name": "MemberId", "type": "string", "versions": "0+"},
        {"name": "GroupInstanceId", "type": "string", "versions": "3+", "nullableVersions": "3+", "default": "null"},
    ],
}

SAMPLE = """
// A comment, as Kafka's schemas have them.
{
  "type": "data", "name": "Sample", "validVersions": "2-5", "flexibleVersions": "3+",
  "fields": [
    { "name": "KRaftVersion", "type": "int16", "versions": "0+" },
    { "name": "OldName", "type": "string", "versions": "0-3", "ignorable": true },
    { "name": "Limit", "type": "int64", "versions": "4+", "default": "0x7fffffffffffffff" },
    { "name": "Names", "type": "[]string", "versions": "2+", "nullableVersions": "3+" },
    { "name": "Leader", "type": "Node", "versions": "4+", "taggedVersions": "4+", "tag": 1 },
    { "name": "Nodes", "type": "[]Node", "versions": "2+" },
    { "name": "Never", "type": "int8", "versions": "0-1" }
  ],
  "commonStructs": [
    { "name": "Node", "versions": "0+", "fields": [
      { "name": "Id", "type": "int32", "versions": "0+", "default": "-1" },
      { "name": "DirectoryId", "type": "uuid", "versions": "5+" } ] }
  ]
}
"""

PRINTED = """\
class Node(Struct):
    id: Int32 = -1
    directory_id: Uuid = since(5)


class Sample(Message, versions="2-5", flexible="3+"):
    kraft_version: Int16
    old_name: String = until(3, default="", ignorable=True)
    limit: Int64 = since(4, default=INT64_MAX)
    names: Array[String] | None = field(nullable="3+")
    leader: Node = tagged(1, 4, default_factory=Node)
    nodes: Array[Node]"""


def jar(directory: Path, name: str, schema: str) -> Path:
    with zipfile.ZipFile(directory / "kafka-clients-1.jar", "w") as archive:
        archive.writestr(f"common/message/{name}.json", schema)
    return directory


def test_a_schema_prints_in_our_form(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    jar(tmp_path, "Sample", SAMPLE)

    assert main(["print", str(tmp_path), "Sample"]) == 0
    assert capsys.readouterr().out.strip() == PRINTED


def test_equal_structs_are_printed_once_and_others_told_apart(tmp_path: Path) -> None:
    def message(name: str, inner: str) -> dict[str, Any]:
        fields = [{"name": inner, "type": "int32", "versions": "0+"}]
        nested = [{"name": "Parts", "type": "[]Part", "versions": "0+", "fields": fields}]
        return {"type": "data", "name": name, "validVersions": "0", "flexibleVersions": "none", "fields": nested}

    printer = Printer()
    for name, inner in (("FirstRequest", "Id"), ("SecondRequest", "Id"), ("ThirdRequest", "Size")):
        printer.message(read_jars(jar(tmp_path, name, json.dumps(message(name, inner))))[name])

    heads = [line for line in printer.lines if line.startswith("class") and "(Struct)" in line]
    assert heads == ["class Part(Struct):", "class ThirdPart(Struct):"]


def test_a_declaration_that_agrees_has_no_differences(tmp_path: Path) -> None:
    schemas = read_jars(jar(tmp_path, "HeartbeatRequest", json.dumps(HEARTBEAT)))

    assert list(differences(schemas["HeartbeatRequest"], declared_facts(HeartbeatRequest))) == []


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"validVersions": "0-5"}, "versions is 0-5 in Kafka, 0-4 here"),
        ({"flexibleVersions": "3+"}, "flexible is 3-4 in Kafka, 4 here"),
        ({"apiKey": 13}, "api_key is 13 in Kafka, 12 here"),
        ({"listeners": ["broker", "controller"]}, "listeners is"),
        ({"latestVersionUnstable": True}, "latest_version_unstable is True in Kafka, False here"),
        ({"type": "response"}, "a response in Kafka, a request here"),
    ],
)
def test_a_message_that_differs_is_named(tmp_path: Path, change: dict[str, object], sentence: str) -> None:
    assert sentence in difference_of(tmp_path, {**HEARTBEAT, **change})


@pytest.mark.parametrize(
    ("field", "change", "sentence"),
    [
        (0, {"name": "Group"}, "the fields are ['group', "),
        (1, {"type": "int64"}, "generation_id: type is int64 in Kafka, int32 here"),
        (1, {"default": "-1"}, "generation_id: default is -1 in Kafka, 0 here"),
        (3, {"versions": "2+"}, "group_instance_id: versions is 2-4 in Kafka, 3-4 here"),
        (3, {"nullableVersions": "4+"}, "group_instance_id: nullable is 4 in Kafka, 3-4 here"),
        (3, {"ignorable": True}, "group_instance_id: ignorable is True in Kafka, False here"),
        (3, {"versions": "4+", "taggedVersions": "4+", "tag": 0}, "group_instance_id: tag is 0 in Kafka, None here"),
    ],
)
def test_a_field_that_differs_is_named(tmp_path: Path, field: int, change: dict[str, object], sentence: str) -> None:
    fields = [{**each, **(change if index == field else {})} for index, each in enumerate(HEARTBEAT["fields"])]

    assert sentence in difference_of(tmp_path, {**HEARTBEAT, "fields": fields})


def difference_of(directory: Path, schema: dict[str, Any]) -> str:
    schemas = read_jars(jar(directory, "HeartbeatRequest", json.dumps(schema)))
    return "\n".join(differences(schemas["HeartbeatRequest"], declared_facts(HeartbeatRequest)))


def test_the_command_fails_where_a_message_is_missing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    jar(tmp_path, "Sample", SAMPLE)

    assert main(["check", str(tmp_path)]) == 1
    assert "Sample is not declared" in capsys.readouterr().out
    assert main([]) == 2
