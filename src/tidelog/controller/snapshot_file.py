"""A snapshot of the cluster's metadata as a file: what the metadata log says up to an offset, in fewer records.

    00000000000000000040-0000000001.checkpoint        everything before offset 40, whose last record is of epoch 1
    00000000000000000040-0000000001.checkpoint.part   one that is being written or fetched; removed at a start
    bootstrap.checkpoint                              what the first leader writes to an empty log; lies in the log directory

    SnapshotHeader [KRaftVersion] [Voters]            one control batch: the header has the time of the last record contained
    metadata records                                  batches of them
    SnapshotFooter                                    one control batch: without it the file is not whole

Record batches as in a log, with offsets that count within the file.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct

from tidelog.controller.control_batches import control_rows, read_control, to_messages
from tidelog.model.ids import LeaderEpoch, Offset
from tidelog.raft.control_records import ControlRecord
from tidelog.raft.log_view import OffsetAndEpoch
from tidelog.storage.batch_scan import each_checked_batch
from tidelog.storage.errors import DamagedFileError
from tidelog.storage.files import File, Files
from tidelog.wire.batch_errors import CorruptBatchError
from tidelog.wire.control_records import ControlType, read_control_type
from tidelog.wire.errors import MalformedError
from tidelog.wire.internal_records import (
    FramedRecord,
    decode_control_value,
    decode_metadata_record,
    encode_metadata_record,
)
from tidelog.wire.messages.internal.control_records import SnapshotFooterRecord, SnapshotHeaderRecord
from tidelog.wire.records import Record, build_batch, decode_rows

SNAPSHOT_SUFFIX = ".checkpoint"
PART_SUFFIX = ".part"
BOOTSTRAP_FILE = "bootstrap.checkpoint"

# A batch is held in memory whole, by whoever writes it and whoever reads it.
BATCH_RECORD_BYTES_MAX = 1024 * 1024

_NAME = re.compile(r"(\d{20})-(\d{10})\.checkpoint\Z", re.ASCII)


def snapshot_name(snapshot_id: OffsetAndEpoch) -> str:
    return f"{snapshot_id.offset:020d}-{snapshot_id.epoch:010d}{SNAPSHOT_SUFFIX}"


def parse_snapshot_name(name: str) -> OffsetAndEpoch | None:
    """The id of the whole snapshot that a file of this name holds, or None where it is none."""
    match = _NAME.match(name)
    if match is None:
        return None
    return OffsetAndEpoch(offset=Offset(int(match[1])), epoch=LeaderEpoch(int(match[2])))


class SnapshotHead(Struct, frozen=True):
    """What a snapshot says beside the metadata."""

    last_contained_ms: int
    control: tuple[ControlRecord, ...] = ()


class Snapshot(Struct, frozen=True):
    """The content of a snapshot."""

    head: SnapshotHead
    records: tuple[FramedRecord, ...]


def build_snapshot(
    head: SnapshotHead, records: Iterable[FramedRecord], *, epoch: int, timestamp_ms: int
) -> Iterator[bytes]:
    """The batches of a snapshot, one after another."""
    header = SnapshotHeaderRecord(version=0, last_contained_log_timestamp=head.last_contained_ms)
    rows = control_rows([(ControlType.SNAPSHOT_HEADER, header), *to_messages(head.control)], 0, timestamp_ms)
    yield build_batch(rows, leader_epoch=epoch, is_control=True)
    offset = len(rows)
    for values in _pieces(records):
        rows = [Record(offset + position, timestamp_ms, None, value) for position, value in enumerate(values)]
        yield build_batch(rows, base_offset=offset, leader_epoch=epoch)
        offset += len(rows)
    rows = control_rows([(ControlType.SNAPSHOT_FOOTER, SnapshotFooterRecord(version=0))], offset, timestamp_ms)
    yield build_batch(rows, base_offset=offset, leader_epoch=epoch, is_control=True)


def _pieces(records: Iterable[FramedRecord]) -> Iterator[list[bytes]]:
    values: list[bytes] = []
    size = 0
    for record in records:
        value = encode_metadata_record(record.message, record.version)
        if values and size + len(value) > BATCH_RECORD_BYTES_MAX:
            yield values
            values, size = [], 0
        values.append(value)
        size += len(value)
    if values:
        yield values


def write_snapshot(files: Files, path: str, batches: Iterable[bytes]) -> int:
    """Write a whole snapshot under its name, durably and at once. Its size in bytes."""
    part = path + PART_SUFFIX
    file = files.open(part, create=True)
    try:
        file.truncate(0)
        position = 0
        for batch in batches:
            position += file.pwritev([batch], position)
        file.sync()
    finally:
        file.close()
    files.rename(part, path)
    files.sync_directory(path.rpartition("/")[0])
    return position


def read_snapshot(files: Files, path: str) -> Snapshot:
    """All of a snapshot. `DamagedFileError` where it is not whole and correct."""
    file = files.open(path, writable=False)
    try:
        return _read(file, path)
    except (CorruptBatchError, MalformedError) as error:
        raise DamagedFileError(path, str(error)) from error
    finally:
        file.close()


def read_snapshot_head(files: Files, path: str) -> SnapshotHead:
    """The head of a snapshot, without reading the rest."""
    file = files.open(path, writable=False)
    try:
        for position, header in each_checked_batch(file, 0, file.size()):
            if not header.is_control:
                break
            return _head(decode_rows(file.pread(header.size_bytes, position)), path)
    except (CorruptBatchError, MalformedError) as error:
        raise DamagedFileError(path, str(error)) from error
    finally:
        file.close()
    raise DamagedFileError(path, "it does not begin with the header of a snapshot")


def _read(file: File, path: str) -> Snapshot:
    head: SnapshotHead | None = None
    records: list[FramedRecord] = []
    is_whole = False
    for position, header in each_checked_batch(file, 0, file.size()):
        if is_whole:
            raise DamagedFileError(path, f"byte {position} comes after the footer of the snapshot")
        rows = decode_rows(file.pread(header.size_bytes, position))
        if head is None:
            if not header.is_control:
                break
            head = _head(rows, path)
        elif header.is_control:
            is_whole = any(read_control_type(row.key) is ControlType.SNAPSHOT_FOOTER for row in rows)
        else:
            records += map(_metadata_record, rows)
    if head is None:
        raise DamagedFileError(path, "it does not begin with the header of a snapshot")
    if not is_whole:
        raise DamagedFileError(path, "it has no footer, so it was never finished")
    return Snapshot(head, tuple(records))


def _head(rows: Sequence[Record], path: str) -> SnapshotHead:
    if read_control_type(rows[0].key) is not ControlType.SNAPSHOT_HEADER:
        raise DamagedFileError(path, "it does not begin with the header of a snapshot")
    header = decode_control_value(ControlType.SNAPSHOT_HEADER, rows[0].value)
    assert isinstance(header, SnapshotHeaderRecord)
    return SnapshotHead(header.last_contained_log_timestamp, read_control(rows))


def _metadata_record(row: Record) -> FramedRecord:
    if row.value is None:
        raise MalformedError(f"the record at {row.offset} has no value")
    return decode_metadata_record(row.value)
