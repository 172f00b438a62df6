"""Reading a data directory in Spark: planned by segments, read by tasks straight from the files."""

from __future__ import annotations

import mmap
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa

from tidelog.client.consumer.fetched_partition import FetchedPartition
from tidelog.client.consumer.topic_partition import TopicPartition
from tidelog.spark.errors import UnreadableError
from tidelog.spark.source.chosen_topics import ChosenPartitions
from tidelog.spark.source.offset_bounds import OffsetBound, look_up
from tidelog.spark.source.offset_ranges import OffsetRange
from tidelog.spark.source.partition_offsets import EARLIEST, LATEST
from tidelog.spark.source.planning import divide, plan_read
from tidelog.spark.source.range_reader import rows_before
from tidelog.spark.source.record_columns import RecordColumns
from tidelog.spark.source.source_options import SourceOptions
from tidelog.spark.stored.stored_log import StoredSegment, opened, position_before, stored_logs
from tidelog.spark.stored.stored_transactions import StoredAbort, StoredTransactions, stored_transactions
from tidelog.storage.errors import StorageError
from tidelog.storage.files import File, Files
from tidelog.storage.os_files import OsFiles
from tidelog.wire.batch_errors import CorruptBatchError
from tidelog.wire.messages.fetch import AbortedTransaction
from tidelog.wire.record_batch import HEADER_BYTES, BatchHeader, read_header

# Some batches of Spark's favourite size at a time; a larger batch of the log comes alone.
_WINDOW_BYTES = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class SegmentRange:
    """What one task reads: offsets of one segment. `aborted` is None where uncommitted records are wanted too."""

    wanted: OffsetRange
    segment: StoredSegment
    aborted: tuple[StoredAbort, ...] | None


class StoredRecords:
    """The partitions under a path, as a plan asks about them."""

    def __init__(self, options: SourceOptions) -> None:
        assert options.path is not None
        self._options = options
        self.logs = {log.partition: log for log in stored_logs(OsFiles(), options.path, options.topics)}
        self.transactions: dict[TopicPartition, StoredTransactions] = {}
        if options.reads_committed:
            self.transactions = {partition: stored_transactions(log) for partition, log in self.logs.items()}

    def chosen(self) -> ChosenPartitions:
        # Files do not become those of another topic while they are read.
        return ChosenPartitions(list(self.logs), {})

    def first_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int | None]:
        return {partition: self.logs[partition].log_start_offset for partition in partitions}

    def latest(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Up to the last stable offset, where only committed records are wanted."""
        return {partition: self._end(partition) for partition in partitions}

    def resolve(
        self, bound: OffsetBound, partitions: Iterable[TopicPartition], *, is_start: bool
    ) -> dict[TopicPartition, int]:
        on_no_match = self._options.on_no_match
        return look_up(bound, list(partitions), self._offsets, is_start=is_start, on_no_match=on_no_match)

    def _offsets(self, wanted: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        return {partition: self._offset(partition, asked) for partition, asked in wanted.items()}

    def _offset(self, partition: TopicPartition, asked: int) -> int | None:
        log = self.logs[partition]
        match asked:
            case _ if asked == EARLIEST:
                return log.log_start_offset
            case _ if asked == LATEST:
                return self._end(partition)
        try:
            found = log.offset_of_time(asked)
        except (StorageError, CorruptBatchError) as error:
            raise UnreadableError(f"{log.directory} cannot be read: {error}") from error
        return None if found is None or found >= self._end(partition) else found

    def _end(self, partition: TopicPartition) -> int:
        known = self.transactions.get(partition)
        return self.logs[partition].end_offset if known is None else known.last_stable_offset


def plan_stored_read(options: SourceOptions, starting: OffsetBound, ending: OffsetBound) -> list[SegmentRange]:
    """The work of a batch over files, at least one task for each segment. Errors are those of a cluster, in the same words."""
    records = StoredRecords(options)
    segments: dict[tuple[TopicPartition, int], StoredSegment] = {}
    pieces: list[OffsetRange] = []
    for whole in plan_read(records, options, starting, ending):
        for segment, start, end in records.logs[whole.partition].segment_ranges(whole.start, whole.end):
            pieces.append(OffsetRange(whole.partition, start, end))
            segments[whole.partition, start] = segment
    tasks: list[SegmentRange] = []
    current: StoredSegment | None = None
    for each in divide(pieces, options):
        # Pieces of a segment follow each other, and the first of them begins where the segment's part of the read does.
        current = segments.get((each.partition, each.start), current)
        assert current is not None
        known = records.transactions.get(each.partition)
        tasks.append(SegmentRange(each, current, None if known is None else known.aborted_in(each.start, each.end)))
    return tasks


def read_segment(options: SourceOptions, task: SegmentRange) -> Iterator[pa.RecordBatch]:
    """The records of a task in Spark's columns."""
    columns = RecordColumns(options.columns, task.wanted.partition)
    files = OsFiles()
    try:
        with opened(files, task.segment.log_path) as file:
            for window in _windows(files, file, task):
                fetched = FetchedPartition(task.wanted.partition, window.offset, window.data, aborted=window.aborted)
                while (taken := fetched.take_columns(headers=columns.with_headers)) is not None:
                    yield from columns.batches(rows_before(taken[0], task.wanted.end), taken[1])
    except (StorageError, CorruptBatchError) as error:
        raise UnreadableError(f"{task.segment.log_path} cannot be read: {error}") from error


@dataclass(frozen=True, slots=True)
class _Window:
    """Whole batches of a segment, and from which offset on they are wanted."""

    offset: int
    data: memoryview
    aborted: list[AbortedTransaction] | None


def _windows(files: Files, file: File, task: SegmentRange) -> Iterator[_Window]:
    """The windows share memory: each is used before the next is read. Their records are copied into columns."""
    size = task.segment.size_bytes
    # Anonymous memory that stays mapped: new bytes for each window would cost as much as reading them.
    buffer = memoryview(mmap.mmap(-1, _WINDOW_BYTES))
    position = position_before(files, task.segment, file, task.wanted.start)
    offset = task.wanted.start
    while position < size and offset < task.wanted.end:
        data = buffer[: file.preadv([buffer[: size - position]], position)]
        first = read_header(data)
        if first.size_bytes > len(data):
            data = memoryview(file.pread(min(first.size_bytes, size - position), position))
        used, last = _whole_batches(data, task.wanted.end)
        if last is None:
            # Behind the end, or a batch that is cut off there.
            return
        if last.next_offset > offset:
            aborted = None if task.aborted is None else _aborted(task.aborted, offset, last.next_offset)
            yield _Window(offset, data[:used], aborted)
            offset = last.next_offset
        position += used


def _whole_batches(data: memoryview, end_offset: int) -> tuple[int, BatchHeader | None]:
    """How many bytes of whole batches there are that begin before `end_offset`, and the last of them."""
    position, last = 0, None
    while len(data) - position >= HEADER_BYTES:
        header = read_header(data, position)
        if position + header.size_bytes > len(data) or header.base_offset >= end_offset:
            break
        position += header.size_bytes
        last = header
    return position, last


def _aborted(known: Iterable[StoredAbort], start: int, end: int) -> list[AbortedTransaction]:
    return [
        AbortedTransaction(producer_id=each.producer_id, first_offset=each.first_offset)
        for each in known
        if each.first_offset < end and each.last_offset >= start
    ]
