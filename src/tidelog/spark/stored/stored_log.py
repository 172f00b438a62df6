"""A partition's files, read without a node and without changing a byte: a stopped cluster, a backup, a copy.

    stored_logs(files, "/data", topics) -> [StoredLog, ...]      of a data directory, or of one partition's directory

The indexes bound what is looked at. They are a help and not trusted: an entry that does not lead to a batch where it should is
passed over, and the segment is walked from its start. The last segment may end in a batch that was being written when its node
died; it ends before that.
"""

from __future__ import annotations

import re
import struct
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass

from tidelog.client.consumer.topic_partition import TopicPartition
from tidelog.spark.errors import OptionError, UnreadableError
from tidelog.spark.source.chosen_topics import Assigned, ChosenTopics, Matching, Subscribed
from tidelog.storage.batch_scan import each_checked_batch, each_header
from tidelog.storage.checkpoint_file import LOG_START_OFFSET_CHECKPOINT, read_offsets
from tidelog.storage.errors import StorageError
from tidelog.storage.files import File, Files
from tidelog.storage.partition_directory import DirectoryKind, parse_name
from tidelog.wire.batch_errors import CorruptBatchError
from tidelog.wire.record_batch import HEADER_BYTES, BatchHeader, read_header
from tidelog.wire.records import decode_batch

_SEGMENT = re.compile(r"([0-9]{20})\.log", re.ASCII)
_OFFSET_ENTRY = struct.Struct(">ii")
_TIME_ENTRY = struct.Struct(">qi")
# What an index can have: `segment.index.bytes` is 10 MB unless somebody wanted it larger.
_INDEX_BYTES_MAX = 1 << 30
# Kafka's own topics are read only where they are named.
_INTERNAL_PREFIX = "__"


@dataclass(frozen=True, slots=True)
class StoredSegment:
    """One `.log` file and the indexes beside it."""

    base_offset: int
    path: str
    """Without its suffix."""
    size_bytes: int

    @property
    def log_path(self) -> str:
        return f"{self.path}.log"


class StoredLog:
    """The segments of one partition, as they were when it was opened."""

    def __init__(self, files: Files, partition: TopicPartition, directory: str, log_start_offset: int) -> None:
        self.partition = partition
        self.directory = directory
        self.files = files
        names = files.list_directory(directory)
        if any(name.endswith(".swap") for name in names):
            raise UnreadableError(
                f"{directory} was left in the middle of compaction: start a node on it once, or take a copy of a stopped one"
            )
        self.segments = [
            StoredSegment(int(found[1]), f"{directory}/{found[1]}", files.size_of(f"{directory}/{name}"))
            for name in names
            if (found := _SEGMENT.fullmatch(name)) is not None
        ]
        first = self.segments[0].base_offset if self.segments else 0
        self.log_start_offset = max(log_start_offset, first)
        self.end_offset = max(self.log_start_offset, self._end())

    def _end(self) -> int:
        """Behind the last whole batch."""
        end = 0
        for segment in reversed(self.segments):
            end = segment.base_offset
            with opened(self.files, segment.log_path) as file:
                start = self.position_before(segment, file, 2**63 - 1)
                last = None
                try:
                    for _, header in each_checked_batch(file, start, segment.size_bytes):
                        last = header
                except CorruptBatchError:
                    # A write that its node did not live to finish. What lies before it is whole.
                    if segment is not self.segments[-1]:
                        raise
            if last is not None:
                return last.next_offset
        return end

    def segment_ranges(self, start: int, end: int) -> Iterator[tuple[StoredSegment, int, int]]:
        """The segments with offsets from `start` up to `end`, and what of it each of them has."""
        bases = [segment.base_offset for segment in self.segments]
        for segment, following in zip(self.segments, [*bases[1:], self.end_offset], strict=True):
            first, last = max(start, segment.base_offset), min(end, following)
            if first < last:
                yield segment, first, last

    def offset_of_time(self, timestamp_ms: int) -> int | None:
        """The first record that is not older; None where all are."""
        for segment in self.segments:
            is_last = segment is self.segments[-1]
            times = _index_bytes(self.files, f"{segment.path}.timeindex", _TIME_ENTRY)
            largest = _TIME_ENTRY.unpack_from(times, len(times) - _TIME_ENTRY.size)[0] if times else None
            if largest is not None and largest < timestamp_ms and not is_last:
                continue
            found = self._time_in(segment, times, timestamp_ms)
            if found is not None:
                return found
        return None

    def _time_in(self, segment: StoredSegment, times: bytes, timestamp_ms: int) -> int | None:
        entries = range(len(times) // _TIME_ENTRY.size)
        before = bisect_right(entries, timestamp_ms - 1, key=lambda slot: _TIME_ENTRY.unpack_from(times, slot * 12)[0])
        # All before this entry's offset is older than the time.
        start = segment.base_offset
        if before:
            start += _TIME_ENTRY.unpack_from(times, (before - 1) * _TIME_ENTRY.size)[1]
        with opened(self.files, segment.log_path) as file:
            for position, header in self.headers(segment, file, self.position_before(segment, file, start)):
                # A marker has a time like any record, and a node would name its offset too.
                if header.max_timestamp < timestamp_ms or header.next_offset <= self.log_start_offset:
                    continue
                for record in decode_batch(file.pread(header.size_bytes, position), header):
                    if record.timestamp >= timestamp_ms and record.offset >= self.log_start_offset:
                        return int(record.offset)
        return None

    def headers(self, segment: StoredSegment, file: File, position: int = 0) -> Iterator[tuple[int, BatchHeader]]:
        """The batches of a segment from a position on, up to the end of the log."""
        try:
            for at, header in each_header(file, position, segment.size_bytes):
                if header.base_offset >= self.end_offset:
                    return
                yield at, header
        except CorruptBatchError:
            if segment is not self.segments[-1]:
                raise

    def position_before(self, segment: StoredSegment, file: File, offset: int) -> int:
        return position_before(self.files, segment, file, offset)


def position_before(files: Files, segment: StoredSegment, file: File, offset: int) -> int:
    """Where to begin looking for an offset: a batch at or before it, as near as the index knows; else the segment's start."""
    entries = _index_bytes(files, f"{segment.path}.index", _OFFSET_ENTRY)
    slots = range(len(entries) // _OFFSET_ENTRY.size)
    wanted = offset - segment.base_offset
    slot = bisect_right(slots, wanted, key=lambda each: _OFFSET_ENTRY.unpack_from(entries, each * 8)[0])
    if slot == 0:
        return 0
    relative, position = _OFFSET_ENTRY.unpack_from(entries, (slot - 1) * _OFFSET_ENTRY.size)
    if 0 <= position <= segment.size_bytes - HEADER_BYTES:
        try:
            header = read_header(file.pread(HEADER_BYTES, position))
        except CorruptBatchError:
            return 0
        if header.base_offset <= segment.base_offset + relative <= header.last_offset and header.base_offset <= offset:
            return int(position)
    return 0


def _index_bytes(files: Files, path: str, entry: struct.Struct) -> bytes:
    """The whole entries of an index without its preallocated tail of zeros; nothing where there is no index."""
    if not files.exists(path):
        return b""
    content = files.read_bytes(path, _INDEX_BYTES_MAX)
    used = len(content.rstrip(b"\0"))
    return content[: -(-used // entry.size) * entry.size]


class opened:  # noqa: N801 - a context manager, used as a function
    """A file for reading, closed at the end of the block; faults of the disk become one sentence."""

    def __init__(self, files: Files, path: str) -> None:
        self._file = files.open(path, writable=False)

    def __enter__(self) -> File:
        return self._file

    def __exit__(self, *_: object) -> None:
        self._file.close()


def stored_logs(files: Files, path: str, topics: ChosenTopics | None) -> list[StoredLog]:
    """The partitions under a path, those of the chosen topics where some are chosen. OptionError where there are none."""
    directory = path.removeprefix("file://").rstrip("/") or "/"
    if not files.is_dir(directory):
        raise OptionError(f"the path {directory} is no directory")
    try:
        found = _partitions(files, directory)
        starts = _log_starts(files, directory if not _is_partition(files, directory) else _parent(directory))
        chosen = {partition: at for partition, at in found.items() if _is_chosen(partition, topics)}
        if not chosen:
            what = "no partition" if topics is None else "no partition of the chosen topics"
            raise OptionError(
                f"the path {directory} holds {what}: it is a data directory, or the directory of a partition"
            )
        return [StoredLog(files, partition, at, starts.get(partition, 0)) for partition, at in sorted(chosen.items())]
    except (StorageError, CorruptBatchError) as error:
        raise UnreadableError(f"{directory} cannot be read: {error}") from error


def _partitions(files: Files, directory: str) -> dict[TopicPartition, str]:
    if _is_partition(files, directory):
        named = parse_name(directory.rpartition("/")[2])
        if named is None:
            raise OptionError(f"the name of {directory} is not that of a partition, such as orders-0")
        return {TopicPartition(*named.topic_partition): directory}
    found = {}
    for name in files.list_directory(directory):
        named = parse_name(name)
        if named is not None and named.kind is DirectoryKind.CURRENT and _is_partition(files, f"{directory}/{name}"):
            found[TopicPartition(*named.topic_partition)] = f"{directory}/{name}"
    return found


def _is_partition(files: Files, directory: str) -> bool:
    return files.is_dir(directory) and any(_SEGMENT.fullmatch(name) for name in files.list_directory(directory))


def _parent(directory: str) -> str:
    return directory.rpartition("/")[0] or "/"


def _log_starts(files: Files, directory: str) -> dict[TopicPartition, int]:
    path = f"{directory}/{LOG_START_OFFSET_CHECKPOINT}"
    if not files.exists(path):
        return {}
    return {TopicPartition(*partition): offset for partition, offset in read_offsets(files, path).items()}


def _is_chosen(partition: TopicPartition, topics: ChosenTopics | None) -> bool:
    match topics:
        case None:
            return not partition.topic.startswith(_INTERNAL_PREFIX)
        case Subscribed(names):
            return partition.topic in names
        case Matching() as matching:
            return matching.has(partition.topic, is_internal=partition.topic.startswith(_INTERNAL_PREFIX))
        case Assigned(partitions):
            return partition in partitions
