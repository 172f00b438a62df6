"""How messages lie in Kafka's internal logs.

    cluster metadata     value: frame version 1, type, version (unsigned varints), body; no key
    coordinators         key: type (int16), body of key version 0; value: version (int16), body; no value is a tombstone
    control records      key: version and type (int16); value: a body that begins with its own version (int16)
    version-prefixed     version (int16), body: an end of transaction, a classic consumer's subscription and assignment

A record of a type or version that this release does not know raises `UnknownRecordError`, which names it: a log of a newer
release must not be half understood.
"""

from __future__ import annotations

import importlib
import struct
from collections.abc import Iterable, Mapping
from enum import StrEnum
from functools import cache
from types import ModuleType
from typing import NamedTuple, TypeVar

from tidelog.wire.codec import decode, decode_from, encode
from tidelog.wire.control_records import ControlType
from tidelog.wire.errors import MalformedError, UnknownRecordError
from tidelog.wire.messages import internal
from tidelog.wire.messages.internal import cluster_metadata, cluster_security
from tidelog.wire.messages.internal.consumer_protocol import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from tidelog.wire.messages.internal.control_records import (
    EndTxnMarker,
    KRaftVersionRecord,
    LeaderChangeMessage,
    SnapshotFooterRecord,
    SnapshotHeaderRecord,
    VotersRecord,
)
from tidelog.wire.schema import CoordinatorKey, CoordinatorValue, Message, MetadataRecord
from tidelog.wire.varint import Buffer, read_uvarint, write_uvarint

_M = TypeVar("_M", bound=Message)
_ConsumerProtocol = TypeVar("_ConsumerProtocol", ConsumerProtocolSubscription, ConsumerProtocolAssignment)

FRAME_VERSION = 1

_INT16 = struct.Struct(">h")


class CoordinatorLog(StrEnum):
    """The topics in which coordinators keep their state."""

    CONSUMER_OFFSETS = "__consumer_offsets"
    TRANSACTION_STATE = "__transaction_state"
    SHARE_GROUP_STATE = "__share_group_state"


class FramedRecord(NamedTuple):
    """A record of the metadata log and the version it was written in."""

    message: MetadataRecord
    version: int


class CoordinatorRecord(NamedTuple):
    """A record of a coordinator's log. Without a value it is a tombstone, and `version` is -1."""

    key: CoordinatorKey
    value: CoordinatorValue | None
    version: int


# Cluster metadata


def encode_metadata_record(record: MetadataRecord, version: int) -> bytes:
    """The value of a record in `__cluster_metadata` or `__remote_log_metadata`."""
    prefix = write_uvarint(FRAME_VERSION) + write_uvarint(record.api_key) + write_uvarint(version)
    return prefix + encode(record, version)


def decode_metadata_record(value: Buffer) -> FramedRecord:
    """The record that a value in `__cluster_metadata` holds."""
    return _decode_framed(_METADATA_RECORDS, "cluster metadata", value)


def decode_remote_log_record(value: Buffer) -> FramedRecord:
    """The record that a value in `__remote_log_metadata` holds."""
    return _decode_framed(_remote_log_records(), "remote log metadata", value)


def _decode_framed(types: Mapping[int, type[MetadataRecord]], log: str, value: Buffer) -> FramedRecord:
    try:
        frame_version, position = read_uvarint(value, 0)
        if frame_version != FRAME_VERSION:
            raise UnknownRecordError(f"a record of the {log} has frame version {frame_version}, not {FRAME_VERSION}")
        record_type, position = read_uvarint(value, position)
        version, position = read_uvarint(value, position)
    except IndexError:
        raise MalformedError(f"a record of the {log} ends inside its frame") from None
    if record_type not in types:
        raise UnknownRecordError(f"the {log} has a record of the unknown type {record_type}")
    cls = types[record_type]
    return FramedRecord(decode(cls, _known_version(cls, version), memoryview(value)[position:]), version)


# Coordinators


def encode_coordinator_key(key: CoordinatorKey) -> bytes:
    """The key of a record in a coordinator's log."""
    return _INT16.pack(key.api_key) + encode(key, key.versions.highest)


def encode_coordinator_value(value: CoordinatorValue, version: int) -> bytes:
    """The value of a record in a coordinator's log."""
    return encode_version_prefixed(value, version)


def decode_coordinator_record(log: CoordinatorLog, key: Buffer | None, value: Buffer | None) -> CoordinatorRecord:
    """The record that key and value hold in the log of one kind of coordinator."""
    if key is None or len(key) < _INT16.size:
        raise MalformedError(f"a record of {log} has a key that is too short to name its type")
    (record_type,) = _INT16.unpack_from(key)
    types = _coordinator_records(log)
    if record_type not in types:
        raise UnknownRecordError(f"{log} has a record of the unknown type {record_type}")
    key_cls, value_cls = types[record_type]
    decoded = decode(key_cls, key_cls.versions.highest, memoryview(key)[_INT16.size :])
    if value is None:
        return CoordinatorRecord(decoded, None, -1)
    version = _read_version(value_cls, value)
    body = decode(value_cls, _known_version(value_cls, version), memoryview(value)[_INT16.size :])
    return CoordinatorRecord(decoded, body, version)


# Control records


def encode_control_value(message: Message, version: int = 0) -> bytes:
    """The value of a control record; its key is `tidelog.wire.control_records.control_key`.

    A message of the Raft types begins with a field that repeats the version it is written in.
    """
    return encode_version_prefixed(message, version) if isinstance(message, EndTxnMarker) else encode(message, version)


def decode_control_value(control_type: ControlType, value: Buffer | None) -> Message:
    """What a control record of a known type says."""
    cls = _CONTROL_VALUES.get(control_type)
    if cls is None:
        raise UnknownRecordError("a control record has a type that this release does not know")
    if value is None:
        raise MalformedError(f"a control record of type {control_type.name} has no value")
    if cls is EndTxnMarker:
        return decode_version_prefixed(cls, value)
    return decode(cls, _known_version(cls, _read_version(cls, value)), value)


# Bodies behind their version


def encode_version_prefixed(message: Message, version: int) -> bytes:
    """An int16 of the version and the body in that version."""
    return _INT16.pack(version) + encode(message, version)


def decode_version_prefixed(cls: type[_M], value: Buffer) -> _M:
    """The body behind an int16 of its version."""
    return decode(cls, _known_version(cls, _read_version(cls, value)), memoryview(value)[_INT16.size :])


def decode_consumer_protocol(cls: type[_ConsumerProtocol], value: Buffer) -> _ConsumerProtocol:
    """A classic consumer's subscription or assignment. One of a newer version is read as far as it is known here."""
    version = min(_read_version(cls, value), cls.versions.highest)
    return decode_from(cls, _known_version(cls, version), memoryview(value)[_INT16.size :])[0]


def _read_version(cls: type[Message], value: Buffer) -> int:
    if len(value) < _INT16.size:
        raise MalformedError(f"{cls.__name__}: the value is too short to name its version")
    version: int = _INT16.unpack_from(value)[0]
    return version


def _known_version(cls: type[Message], version: int) -> int:
    if version not in cls.versions:
        raise UnknownRecordError(f"{cls.__name__} has the versions {cls.versions}, not version {version}")
    return version


# Types


def _by_type(base: type[_M], modules: Iterable[ModuleType]) -> dict[int, type[_M]]:
    classes = (value for module in modules for value in vars(module).values())
    return {cls.api_key: cls for cls in classes if isinstance(cls, type) and issubclass(cls, base) and cls is not base}


def _pairs(*modules: ModuleType) -> dict[int, tuple[type[CoordinatorKey], type[CoordinatorValue]]]:
    values = _by_type(CoordinatorValue, modules)
    return {record_type: (key, values[record_type]) for record_type, key in _by_type(CoordinatorKey, modules).items()}


_METADATA_RECORDS = _by_type(MetadataRecord, (cluster_metadata, cluster_security))

# A log's families are imported when it is first read: a node need not wait at its start for those of logs that it has not.
_COORDINATOR_FAMILIES = {
    CoordinatorLog.CONSUMER_OFFSETS: (
        "offset_records",
        "consumer_group_records",
        "share_group_records",
        "streams_group_records",
    ),
    CoordinatorLog.TRANSACTION_STATE: ("transaction_records",),
    CoordinatorLog.SHARE_GROUP_STATE: ("share_state_records",),
}


def _family(name: str) -> ModuleType:
    return importlib.import_module(f"{internal.__name__}.{name}")


@cache
def _remote_log_records() -> dict[int, type[MetadataRecord]]:
    return _by_type(MetadataRecord, (_family("remote_log_records"),))


@cache
def _coordinator_records(log: CoordinatorLog) -> dict[int, tuple[type[CoordinatorKey], type[CoordinatorValue]]]:
    return _pairs(*map(_family, _COORDINATOR_FAMILIES[log]))


_CONTROL_VALUES: dict[ControlType, type[Message]] = {
    ControlType.ABORT: EndTxnMarker,
    ControlType.COMMIT: EndTxnMarker,
    ControlType.LEADER_CHANGE: LeaderChangeMessage,
    ControlType.SNAPSHOT_HEADER: SnapshotHeaderRecord,
    ControlType.SNAPSHOT_FOOTER: SnapshotFooterRecord,
    ControlType.KRAFT_VERSION: KRaftVersionRecord,
    ControlType.KRAFT_VOTERS: VotersRecord,
}
