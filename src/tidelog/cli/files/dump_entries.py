"""The lines of the files that are lists of entries: indexes, producer snapshots, checkpoints and the other small files."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from itertools import islice
from struct import Struct as Layout
from typing import Any

from tidelog.cli.files.dump_lines import DamageLine, EntryLine, Line, NoteLine
from tidelog.cli.rendering import Json
from tidelog.storage import producer_snapshot
from tidelog.storage.errors import DamagedFileError
from tidelog.storage.files import File
from tidelog.storage.properties import parse_properties
from tidelog.storage.verification.index_scan import IndexScan, OffsetIndexScan, TimeIndexScan, TransactionIndexScan
from tidelog.wire.crc32c import crc32c

# What the largest checkpoint takes (`checkpoint_file.FILE_BYTES_MAX`); all other small files are far smaller.
SMALL_FILE_BYTES_MAX = 64 * 1024 * 1024

_INT64_TEXT_MAX = 20

# Version, checksum of what follows it, number of producers.
_SNAPSHOT_HEADER = Layout(">hIi")
_SNAPSHOT_CRC_POSITION = 2
_SNAPSHOT_CHECKED_POSITION = 6


def each_offset_index_line(file: File, base_offset: int, start_offset: int, limit: int | None) -> Iterator[Line]:
    return _each_index_line(OffsetIndexScan(file, base_offset), lambda entry: entry.offset, start_offset, limit)


def each_time_index_line(file: File, base_offset: int, start_offset: int, limit: int | None) -> Iterator[Line]:
    return _each_index_line(TimeIndexScan(file, base_offset), lambda entry: entry.offset, start_offset, limit)


def each_transaction_index_line(file: File, base_offset: int, start_offset: int, limit: int | None) -> Iterator[Line]:
    return _each_index_line(
        TransactionIndexScan(file, base_offset), lambda entry: entry.last_offset, start_offset, limit
    )


def _each_index_line(
    scan: IndexScan[Any], offset_of: Callable[[Any], int], start_offset: int, limit: int | None
) -> Iterator[Line]:
    """The entries from `start_offset` on, `limit` of them at most, and how the file ends."""
    width = scan.layout.size
    wanted = ((position, entry) for position, entry in scan if offset_of(entry) >= start_offset)
    shown = 0
    for position, entry in islice(wanted, limit):
        shown += 1
        yield EntryLine({"entry": position // width, **entry._asdict()})
    if shown == limit:
        return
    if scan.zeros:
        yield NoteLine(
            scan.size - scan.zeros,
            f"{scan.zeros} zero bytes to the end of the file: space that was preallocated, no damage",
        )
    if scan.damage is not None:
        yield DamageLine(*scan.damage)


def each_producer_line(content: bytes, limit: int | None) -> Iterator[Line]:
    """The producers of a snapshot, if its checksum is right: there is no telling which of them is wrong otherwise."""
    if len(content) < _SNAPSHOT_HEADER.size:
        yield DamageLine(0, f"only {len(content)} bytes, and the header of a snapshot takes {_SNAPSHOT_HEADER.size}")
        return
    version, crc, _ = _SNAPSHOT_HEADER.unpack_from(content)
    if version != producer_snapshot.VERSION:
        yield DamageLine(0, f"the version {version}; only version {producer_snapshot.VERSION} is known")
        return
    computed = crc32c(memoryview(content)[_SNAPSHOT_CHECKED_POSITION:])
    if computed != crc:
        yield DamageLine(
            _SNAPSHOT_CRC_POSITION, f"the bytes have the CRC {computed:#010x}, and the header says {crc:#010x}"
        )
        return
    try:
        producers = producer_snapshot.decode_snapshot("", content)
    except DamagedFileError as error:
        yield DamageLine(_SNAPSHOT_CHECKED_POSITION, error.reason)
        return
    for producer in islice(producers, limit):
        yield EntryLine(producer._asdict())


def each_offset_checkpoint_line(content: bytes, limit: int | None) -> Iterator[Line]:
    """`topic partition offset` for each partition."""
    return _limited(_each_checkpoint_line(content, ("topic", "partition", "offset")), limit)


def each_leader_epoch_line(content: bytes, limit: int | None) -> Iterator[Line]:
    """`epoch start_offset` for each leader epoch."""
    return _limited(_each_checkpoint_line(content, ("epoch", "start_offset")), limit)


def _limited(lines: Iterator[Line], limit: int | None) -> Iterator[Line]:
    """No more lines of entries than `limit`, and nothing behind the last of them."""
    shown = 0
    for line in lines:
        if shown == limit:
            return
        yield line
        shown += isinstance(line, EntryLine)


def _each_checkpoint_line(content: bytes, names: tuple[str, ...]) -> Iterator[Line]:
    if not content:
        yield NoteLine(0, "empty: no entries, as Kafka creates it")
        return
    position = 0
    announced: int | None = None
    entries = 0
    for number, raw in enumerate(content.split(b"\n")):
        at, position = position, position + len(raw) + 1
        if at >= len(content):
            break
        line = raw.rstrip(b"\r")
        if number == 0:
            if line != b"0":
                yield DamageLine(at, f"the version {_shown(line)}; only version 0 exists")
                return
            continue
        if number == 1:
            announced = _integer(line)
            if announced is None or announced < 0:
                yield DamageLine(at, f"{_shown(line)} where the number of entries should be")
                return
            continue
        fields = _checkpoint_fields(line, names)
        if fields is None:
            yield DamageLine(at, f"line {number + 1}, {_shown(line)}, is not of the form {' '.join(names)!r}")
            return
        entries += 1
        if announced is not None and entries > announced:
            yield DamageLine(at, f"line {number + 1} is one more than the {announced} entries that line 2 announces")
            return
        yield EntryLine(fields)
    if announced is not None and entries < announced:
        yield DamageLine(
            len(content), f"the file ends after {entries} of the {announced} entries that line 2 announces"
        )


def _checkpoint_fields(line: bytes, names: tuple[str, ...]) -> dict[str, Json] | None:
    try:
        parts = line.decode("utf-8").split()
    except UnicodeDecodeError:
        return None
    if len(parts) != len(names):
        return None
    fields: dict[str, Json] = {}
    for name, part in zip(names, parts, strict=True):
        if name == "topic":
            fields[name] = part
            continue
        number = _integer(part.encode())
        if number is None:
            return None
        fields[name] = number
    return fields


def _integer(text: bytes) -> int | None:
    digits = text[1:] if text[:1] in {b"-", b"+"} else text
    return int(text) if digits.isdigit() and len(text) <= _INT64_TEXT_MAX else None


def each_property_line(read: Callable[[], object], content: bytes) -> Iterator[Line]:
    """The `key=value` lines of `meta.properties` and `partition.metadata`; `read` is the reader whose doubts count."""
    yield EntryLine({"content": parse_properties(content)})
    try:
        read()
    except DamagedFileError as error:
        yield DamageLine(0, error.reason)


def each_json_file_line(content: bytes) -> Iterator[Line]:
    """The fields of `quorum-state` or `.kafka_cleanshutdown`, which are one JSON object each."""
    try:
        value = json.loads(content)
    except UnicodeDecodeError as error:
        yield DamageLine(error.start, "a byte that is not UTF-8")
        return
    except json.JSONDecodeError as error:
        yield DamageLine(len(error.doc[: error.pos].encode()), f"not JSON: {error.msg}")
        return
    except RecursionError:
        yield DamageLine(0, "not JSON that anybody wrote: it is nested too deeply")
        return
    if not isinstance(value, dict):
        yield DamageLine(0, f"a JSON object is expected, and this is {type(value).__name__}")
        return
    yield EntryLine({"content": value})


def _shown(line: bytes) -> str:
    return repr(line[:100].decode("utf-8", "backslashreplace"))
