"""What `tidelog dump-log` prints: one line for each thing in a file, as JSON or for a person.

With `--json` every line is an object with a `type`:

    file      path, kind, size_bytes, what its name says. The lines that follow belong to it
    batch     position and size in the file, and the header
    record    offset, timestamp, key, value, headers; `control` or `decoded` in place of key and value where they are known
    entry     of an index, a snapshot or a checkpoint; the whole `content` of a file that is no list
    note      something worth knowing that is no damage: position, sentence
    damage    position of the first bad byte, sentence. The last line of its file
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from tidelog.cli.files.hidden_fields import HIDDEN
from tidelog.cli.rendering import Json, bytes_as_json, bytes_as_text, printable, quoted, time_as_text
from tidelog.wire.record_batch import BatchHeader, TimestampType
from tidelog.wire.records import Record


class Line(Protocol):
    """One line of output."""

    def as_json(self) -> Mapping[str, Json]: ...

    def as_text(self) -> str: ...


@dataclass(frozen=True, slots=True)
class FileLine:
    """The head of a file."""

    path: str
    kind: str
    size_bytes: int
    facts: Mapping[str, Json] = field(default_factory=dict)

    def as_json(self) -> Mapping[str, Json]:
        return {"type": "file", "path": self.path, "kind": self.kind, "size_bytes": self.size_bytes, **self.facts}

    def as_text(self) -> str:
        facts = "".join(f", {_words(name)} {value}" for name, value in self.facts.items())
        return f"{printable(self.path)}: {self.kind}, {self.size_bytes} bytes{facts}"


@dataclass(frozen=True, slots=True)
class BatchLine:
    """The header of a batch."""

    position: int
    header: BatchHeader

    def as_json(self) -> Mapping[str, Json]:
        header = self.header
        return {
            "type": "batch",
            "position": self.position,
            "size_bytes": header.size_bytes,
            "base_offset": header.base_offset,
            "last_offset": header.last_offset,
            "record_count": header.record_count,
            "partition_leader_epoch": header.partition_leader_epoch,
            "codec": header.codec.name.lower(),
            "timestamp_type": _timestamp_type(header),
            "base_timestamp": header.base_timestamp,
            "max_timestamp": header.max_timestamp,
            "producer_id": header.producer_id,
            "producer_epoch": header.producer_epoch,
            "base_sequence": header.base_sequence,
            "last_sequence": header.last_sequence,
            "is_transactional": header.is_transactional,
            "is_control": header.is_control,
            "delete_horizon_ms": header.delete_horizon_ms,
            "crc": header.crc,
        }

    def as_text(self) -> str:
        header = self.header
        parts = [
            f"batch {header.base_offset}..{header.last_offset}",
            f"at byte {self.position}, {header.size_bytes} bytes",
            f"{header.record_count} record{'' if header.record_count == 1 else 's'}",
            f"{_timestamp_type(header)} time up to {time_as_text(header.max_timestamp)}",
            f"leader epoch {header.partition_leader_epoch}",
        ]
        if header.codec:
            parts.append(header.codec.name.lower())
        if header.producer_id >= 0:
            parts.append(f"producer {header.producer_id} epoch {header.producer_epoch}")
            if header.base_sequence >= 0:
                parts.append(f"sequence {header.base_sequence}..{header.last_sequence}")
        if header.is_transactional:
            parts.append("transactional")
        if header.is_control:
            parts.append("control")
        if header.delete_horizon_ms is not None:
            parts.append(f"delete horizon {time_as_text(header.delete_horizon_ms)}")
        return "  ".join(parts)


@dataclass(frozen=True, slots=True)
class RecordLine:
    """A record. `control` and `decoded` are set where the record's meaning is known; `not_decoded` says why it is not."""

    record: Record
    control: Mapping[str, Json] | None = None
    decoded: Mapping[str, Json] | None = None
    not_decoded: str | None = None
    is_hidden: bool = False
    """Whether the bytes may hold secrets."""

    def as_json(self) -> Mapping[str, Json]:
        record = self.record
        fields: dict[str, Json] = {"type": "record", "offset": record.offset, "timestamp": record.timestamp}
        if self.control is not None:
            fields["control"] = self.control
        elif self.decoded is not None:
            fields["decoded"] = self.decoded
        elif self.is_hidden:
            fields["value"] = HIDDEN
        else:
            fields["key"] = bytes_as_json(record.key)
            fields["value"] = bytes_as_json(record.value)
        if self.not_decoded is not None:
            fields["not_decoded"] = self.not_decoded
        fields["headers"] = [{"key": key, "value": bytes_as_json(value)} for key, value in record.headers]
        return fields

    def as_text(self) -> str:
        record = self.record
        parts = [f"  {record.offset}", time_as_text(record.timestamp)]
        if self.control is not None:
            parts.append(_message_text(self.control))
        elif self.decoded is not None:
            parts.extend(f"{part} {_message_text(message)}" for part, message in self.decoded.items())
        elif self.is_hidden:
            parts.append(f"value {HIDDEN}")
        else:
            parts.append(f"key {bytes_as_text(record.key)}")
            parts.append(f"value {bytes_as_text(record.value)}")
        if record.headers:
            parts.append(
                "headers " + " ".join(f"{quoted(key)}={bytes_as_text(value)}" for key, value in record.headers)
            )
        if self.not_decoded is not None:
            parts.append(f"(not decoded: {self.not_decoded})")
        return "  ".join(parts)


@dataclass(frozen=True, slots=True)
class EntryLine:
    """One entry of a file that is a list of entries."""

    fields: Mapping[str, Json]

    def as_json(self) -> Mapping[str, Json]:
        return {"type": "entry", **self.fields}

    def as_text(self) -> str:
        return "  ".join(_field_text(name, value) for name, value in self.fields.items())


@dataclass(frozen=True, slots=True)
class NoteLine:
    """Something that a person would otherwise ask about."""

    position: int
    sentence: str

    def as_json(self) -> Mapping[str, Json]:
        return {"type": "note", "position": self.position, "sentence": self.sentence}

    def as_text(self) -> str:
        return f"byte {self.position}: {self.sentence}"


@dataclass(frozen=True, slots=True)
class DamageLine:
    """The first bad byte of a file. Nothing follows."""

    position: int
    sentence: str

    def as_json(self) -> Mapping[str, Json]:
        return {"type": "damage", "position": self.position, "sentence": self.sentence}

    def as_text(self) -> str:
        return f"damaged at byte {self.position}: {self.sentence}"


def _timestamp_type(header: BatchHeader) -> str:
    return "append" if header.timestamp_type is TimestampType.LOG_APPEND_TIME else "create"


def _words(name: str) -> str:
    return name.replace("_", " ")


def _field_text(name: str, value: Json) -> str:
    if name == "timestamp" and isinstance(value, int):
        return time_as_text(value)
    if name == "content":
        return _json_text(value)
    return f"{_words(name)} {_value_text(value)}"


def _value_text(value: Json) -> str:
    if isinstance(value, str):
        return printable(value) if value and " " not in value else quoted(value)
    return _json_text(value)


def _message_text(message: Json) -> str:
    """`Name v3 {...}` of a decoded message."""
    if not isinstance(message, Mapping):
        return _json_text(message)
    name, version, fields = message.get("message"), message.get("version"), message.get("fields")
    return f"{name} v{version} {_json_text(fields)}"


def _json_text(value: Json) -> str:
    """JSON that is harmless to a terminal."""
    if value is None or isinstance(value, bool | int | float):
        return json.dumps(value)
    if isinstance(value, str):
        return quoted(value)
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{quoted(name)}: {_json_text(item)}" for name, item in value.items()) + "}"
    return "[" + ", ".join(map(_json_text, value)) + "]"
