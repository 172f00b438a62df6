"""Control records: what brokers write between the records of users.

A control batch holds them in place of user records, and its `is_control` is set. The key of a control record is a version and
a type, both int16. The value of an end-of-transaction marker is a version (int16, 0) and the coordinator's epoch (int32); the
values of the Raft types are messages, and `tidelog.wire.internal_records` reads those.
"""

from __future__ import annotations

from enum import IntEnum
from struct import Struct as Layout
from typing import NamedTuple

from tidelog.model.ids import NO_SEQUENCE
from tidelog.wire.batch_errors import CorruptBatchError
from tidelog.wire.crc32c import crc32c
from tidelog.wire.record_batch import BATCH_OVERHEAD, CONTROL_BIT, MAGIC, TRANSACTIONAL_BIT, BytesLike
from tidelog.wire.records import Record

_KEY_LAYOUT = Layout(">hh")
_MARKER_LAYOUT = Layout(">hi")
_CONTROL_VERSION = 0

# A whole batch of one marker, without what the next one holds: base offset, length, leader's epoch, magic, checksum.
_MARKED_LAYOUT = Layout(">hiqqqhiiBBBBBhhBhiB")
_MARKED_HEAD_LAYOUT = Layout(">qiiBI")
_MARKER_ATTRIBUTES = TRANSACTIONAL_BIT | CONTROL_BIT
# Behind the length of the record: no attributes, no deltas, key and value with their lengths, no headers. All lengths zigzag.
_RECORD_LENGTH = 2 * 16
_KEY_LENGTH = 2 * 4
_VALUE_LENGTH = 2 * 6


class ControlType(IntEnum):
    """What a control record says. A reader passes over types that it does not know."""

    UNKNOWN = -1
    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6


class EndTxnMarker(NamedTuple):
    """The end of a producer's transaction in one partition."""

    control_type: ControlType
    coordinator_epoch: int


def control_key(control_type: ControlType) -> bytes:
    """The key of a control record."""
    return _KEY_LAYOUT.pack(_CONTROL_VERSION, control_type)


def read_control_type(key: BytesLike | None) -> ControlType:
    """The type that a control record's key names; UNKNOWN for one that is not known here."""
    if key is None or len(key) < _KEY_LAYOUT.size:
        raise CorruptBatchError("the key of a control record is too short to name its type")
    version, number = _KEY_LAYOUT.unpack_from(key)
    if version < 0:
        raise CorruptBatchError(f"the key of a control record has version {version}")
    try:
        return ControlType(number)
    except ValueError:
        return ControlType.UNKNOWN


def read_end_txn_marker(record: Record) -> EndTxnMarker:
    """What a record of type ABORT or COMMIT says. Later versions may append to it and are read as far as is known."""
    control_type = read_control_type(record.key)
    if control_type not in {ControlType.ABORT, ControlType.COMMIT}:
        raise CorruptBatchError(f"a control record of type {control_type.name} ends no transaction")
    if record.value is None or len(record.value) < _MARKER_LAYOUT.size:
        raise CorruptBatchError("the value of an end-of-transaction marker is too short")
    version, coordinator_epoch = _MARKER_LAYOUT.unpack_from(record.value)
    if version < 0:
        raise CorruptBatchError(f"an end-of-transaction marker has version {version}")
    return EndTxnMarker(control_type, coordinator_epoch)


def build_end_txn_marker(
    control_type: ControlType,
    *,
    producer_id: int,
    producer_epoch: int,
    coordinator_epoch: int,
    timestamp: int,
    base_offset: int = 0,
    leader_epoch: int = -1,
) -> bytes:
    """The batch that commits or aborts a producer's transaction in one partition."""
    if control_type not in {ControlType.ABORT, ControlType.COMMIT}:
        raise ValueError(f"a control record of type {control_type.name} ends no transaction")
    # Written out, since every partition of every transaction gets one: what `build_batch` would make of the record.
    marked = _MARKED_LAYOUT.pack(
        _MARKER_ATTRIBUTES,
        0,
        timestamp,
        timestamp,
        producer_id,
        producer_epoch,
        NO_SEQUENCE,
        1,
        _RECORD_LENGTH,
        0,
        0,
        0,
        _KEY_LENGTH,
        _CONTROL_VERSION,
        control_type,
        _VALUE_LENGTH,
        _CONTROL_VERSION,
        coordinator_epoch,
        0,
    )
    head = _MARKED_HEAD_LAYOUT.pack(
        base_offset,
        _MARKED_HEAD_LAYOUT.size - BATCH_OVERHEAD + _MARKED_LAYOUT.size,
        leader_epoch,
        MAGIC,
        crc32c(marked),
    )
    return head + marked
