"""The state of a partition's producers at one offset, on disk: `00000000000000001184.snapshot`.

    version: int16 = 1
    crc: uint32                 CRC-32C of all that follows
    count: int32, then as many entries of 46 bytes:
        producer id: int64, epoch: int16, last sequence: int32, last offset: int64, offset delta: int32, timestamp: int64,
        coordinator epoch: int32, first offset of the open transaction or -1: int64

The number in the name is the offset after the last one that the state covers. Of a producer's last five batches only the
last is kept. A snapshot that was cut off or changed is found out by its checksum and thrown away: an earlier one and the
log behind it say the same.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable
from typing import NamedTuple

from tidelog.model.ids import Offset
from tidelog.storage.errors import DamagedFileError
from tidelog.storage.files import Files
from tidelog.wire.crc32c import crc32c

SUFFIX = ".snapshot"
VERSION = 1

_PREFIX = struct.Struct(">hI")
_COUNT = struct.Struct(">i")
_ENTRY = struct.Struct(">qhiqiqiq")

# Some twenty million producers: far more than fit the memory of the broker that wrote it.
FILE_BYTES_MAX = 1024 * 1024 * 1024

_NAME = re.compile(r"([0-9]{20})\.snapshot", re.ASCII)


class ProducerSnapshotEntry(NamedTuple):
    """One producer. Sequence and offset are -1 if no batch of its is known, as behind a marker that began a new epoch."""

    producer_id: int
    epoch: int
    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int
    coordinator_epoch: int
    transaction_first_offset: int


def snapshot_name(offset: int) -> str:
    return f"{offset:020d}{SUFFIX}"


def offset_of_snapshot(name: str) -> Offset | None:
    """The offset in a snapshot's name; None for the name of anything else."""
    match = _NAME.fullmatch(name)
    return Offset(int(match[1])) if match is not None else None


def encode_snapshot(entries: Iterable[ProducerSnapshotEntry]) -> bytes:
    packed = [_ENTRY.pack(*entry) for entry in entries]
    body = b"".join([_COUNT.pack(len(packed)), *packed])
    return _PREFIX.pack(VERSION, crc32c(body)) + body


def decode_snapshot(path: str, content: bytes) -> list[ProducerSnapshotEntry]:
    """The producers of a snapshot. `DamagedFileError` unless every byte is as it was written."""
    if len(content) < _PREFIX.size + _COUNT.size:
        raise DamagedFileError(path, f"it ends after {len(content)} bytes, within the header")
    version, crc = _PREFIX.unpack_from(content)
    if version != VERSION:
        raise DamagedFileError(path, f"it has version {version}; only version {VERSION} is known")
    body = memoryview(content)[_PREFIX.size :]
    (count,) = _COUNT.unpack_from(body)
    if count < 0 or len(body) != _COUNT.size + count * _ENTRY.size:
        raise DamagedFileError(path, f"it announces {count} producers, but is {len(content)} bytes long")
    if crc32c(body) != crc:
        raise DamagedFileError(path, f"its checksum is wrong: the header says {crc:#010x}")
    return [ProducerSnapshotEntry(*fields) for fields in _ENTRY.iter_unpack(body[_COUNT.size :])]


def read_snapshot(files: Files, path: str) -> list[ProducerSnapshotEntry]:
    return decode_snapshot(path, files.read_bytes(path, FILE_BYTES_MAX))


def write_snapshot(files: Files, path: str, entries: Iterable[ProducerSnapshotEntry], *, sync: bool) -> None:
    """Write a snapshot in place. There is no need of a rename: half a snapshot is found out and does no harm."""
    file = files.open(path, create=True)
    try:
        file.truncate(0)
        file.pwritev([encode_snapshot(entries)], 0)
        if sync:
            file.sync()
    finally:
        file.close()
