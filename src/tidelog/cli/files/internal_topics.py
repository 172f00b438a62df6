"""The records of Kafka's own topics and its control records, decoded for a person to read.

A decoded message is `{"message": name, "version": n, "fields": {...}}`. What cannot be decoded raises WireError or
CorruptBatchError, whose sentence says why.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from struct import Struct as Layout
from typing import TypeAlias

from tidelog.cli.files.hidden_fields import HIDDEN, hidden_fields
from tidelog.cli.rendering import Json, message_as_json
from tidelog.wire.control_records import read_control_type
from tidelog.wire.errors import MalformedError
from tidelog.wire.internal_records import (
    CoordinatorLog,
    FramedRecord,
    decode_control_value,
    decode_coordinator_record,
    decode_metadata_record,
    decode_remote_log_record,
)
from tidelog.wire.records import Record
from tidelog.wire.schema import Message

RecordDecoder: TypeAlias = Callable[[Record], Mapping[str, Json]]

CLUSTER_METADATA = "__cluster_metadata"
REMOTE_LOG_METADATA = "__remote_log_metadata"

_VERSION = Layout(">h")


def decoder_of(topic: str, *, shows_secrets: bool = False) -> RecordDecoder | None:
    """How to decode the records of a topic; None for one that is not Kafka's own."""
    if topic == CLUSTER_METADATA and not shows_secrets:
        return _decode_metadata_without_secrets
    return _DECODERS.get(topic)


def hides_secrets(decoder: RecordDecoder | None) -> bool:
    """Whether what a decoder cannot decode is not to be shown either: nobody knows what is in it."""
    return decoder is _decode_metadata_without_secrets


def decode_control(record: Record) -> Mapping[str, Json]:
    """What a control record says, under the name of its type."""
    control_type = read_control_type(record.key)
    message = decode_control_value(control_type, record.value)
    # Every control value begins with its version, as a prefix or as its first field.
    (version,) = _VERSION.unpack_from(record.value or b"")
    return {"message": control_type.name, "version": version, "fields": message_as_json(message, version)}


def _decode_framed(decode: Callable[[bytes], FramedRecord], record: Record) -> Mapping[str, Json]:
    if record.value is None:
        raise MalformedError("the record has no value")
    framed = decode(record.value)
    return {"value": _named(framed.message, framed.version)}


def _decode_metadata_without_secrets(record: Record) -> Mapping[str, Json]:
    if record.value is None:
        raise MalformedError("the record has no value")
    framed = decode_metadata_record(record.value)
    fields = message_as_json(framed.message, framed.version) | dict.fromkeys(hidden_fields(framed.message), HIDDEN)
    return {"value": {"message": type(framed.message).__name__, "version": framed.version, "fields": fields}}


def _decode_coordinator(log: CoordinatorLog, record: Record) -> Mapping[str, Json]:
    decoded = decode_coordinator_record(log, record.key, record.value)
    key = _named(decoded.key, decoded.key.versions.highest)
    return {"key": key, "value": _named(decoded.value, decoded.version) if decoded.value is not None else None}


def _named(message: Message, version: int) -> Mapping[str, Json]:
    return {"message": type(message).__name__, "version": version, "fields": message_as_json(message, version)}


_DECODERS: dict[str, RecordDecoder] = {
    CLUSTER_METADATA: partial(_decode_framed, decode_metadata_record),
    REMOTE_LOG_METADATA: partial(_decode_framed, decode_remote_log_record),
    **{log.value: partial(_decode_coordinator, log) for log in CoordinatorLog},
}

DECODABLE_TOPICS = tuple(_DECODERS)
