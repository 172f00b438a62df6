"""A partition on disk: appending against a bare write, reading from few and many segments, opening many partitions.

python -m benchmarks.storage

Appending is compared with what no log can do without: one `os.pwrite` of the same 16 KB. Both sides write fresh pages, and
both give them back every 256 MB. Reading and opening are compared with themselves at a hundredth and a tenth of the size: they
must cost the same for each read, and for each partition. A thousand segments do not fit the processor's caches as ten do, which
is worth a factor of 1.2 or so; anything that grows with their number would be worth far more. Syncs are left out on both
sides: they measure the disk.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from struct import Struct as Layout

from benchmarks.compare import Comparison, compare, finish
from tidelog.model.clock import SystemClock
from tidelog.model.ids import BrokerEpoch, PartitionIndex, TopicId, TopicName, TopicPartition
from tidelog.model.slow_work import InlineSlowWork
from tidelog.storage.append import AppendRule
from tidelog.storage.checked_batches import CheckedBatch, check_produced
from tidelog.storage.clean_shutdown import FILE_NAME as CLEAN_SHUTDOWN
from tidelog.storage.fetched import Fetched, FetchIsolation
from tidelog.storage.files import File
from tidelog.storage.log_config import LogConfig
from tidelog.storage.log_directory import LogDirectory
from tidelog.storage.open_segments import OpenSegments
from tidelog.storage.os_file import OsFile
from tidelog.storage.os_files import OsFiles
from tidelog.storage.partition_log import PartitionLog
from tidelog.storage.seams import Seams
from tidelog.wire.record_batch import BytesLike, read_header
from tidelog.wire.records import Record, build_batch

BATCH_BYTES = 16 * 1024
WRAP_BYTES = 256 * 1024 * 1024
READ_BYTES = 1024 * 1024
TOPIC_ID = TopicId(bytes(range(16)))

_OFFSET = Layout(">q")


class UnsyncedFile(OsFile):
    """A file that is never forced to disk."""

    __slots__ = ()

    def sync(self) -> None:
        return


class UnsyncedFiles(OsFiles):
    """A file system that is never forced to disk."""

    def open(self, path: str, *, create: bool = False, writable: bool = True) -> File:
        file = super().open(path, create=create, writable=writable)
        return UnsyncedFile(path, os.dup(file.fileno()), writable=writable)

    def sync_directory(self, path: str) -> None:
        del path


class ClosedLogs(UnsyncedFiles):
    """Proves that no byte of a log is read: not even the file may be opened."""

    def open(self, path: str, *, create: bool = False, writable: bool = True) -> File:
        if path.endswith(".log"):
            raise AssertionError(f"{path} was opened, although the directory was stopped cleanly")
        return super().open(path, create=create, writable=writable)


def open_directory(path: str, config: LogConfig, files: OsFiles | None = None) -> LogDirectory:
    """A directory, loaded. Open files are bounded as on a node that may have some ten thousand of them."""
    seams = Seams(files or UnsyncedFiles(), SystemClock(), InlineSlowWork(), Random(1))
    directory = LogDirectory.open(
        seams, path, config_of=lambda _topic: config, open_segments=OpenSegments(open_max=4096)
    )
    directory.load()
    return directory


def create_log(directory: LogDirectory, number: int = 0) -> PartitionLog:
    return directory.create_partition(TopicPartition(TopicName("orders"), PartitionIndex(number)), TOPIC_ID)


def batch_of(size_bytes: int, *, producer_id: int = -1) -> bytearray:
    """A batch of 100-byte records that takes about `size_bytes`."""
    rows = [Record(number, 1_700_000_000_000 + number, None, bytes(88)) for number in range(size_bytes // 100)]
    return bytearray(
        build_batch(
            rows, producer_id=producer_id, producer_epoch=min(0, producer_id), base_sequence=min(0, producer_id)
        )
    )


@contextmanager
def temporary_directory() -> Iterator[str]:
    path = tempfile.mkdtemp(prefix="tidelog-benchmark-")
    try:
        yield path
    finally:
        shutil.rmtree(path)


def produced_batch(records: BytesLike) -> CheckedBatch:
    batch = check_produced(records)
    assert isinstance(batch, CheckedBatch)
    return batch


def append(path: str) -> list[Comparison]:
    directory = open_directory(f"{path}/append", LogConfig(file_delete_delay_ms=0))
    log = create_log(directory)
    batch = batch_of(BATCH_BYTES)
    bare = os.open(f"{path}/bare", os.O_RDWR | os.O_CREAT)
    position = 0
    wrap_offset = WRAP_BYTES // len(batch) * read_header(batch).record_count

    def ours() -> None:
        # A produced batch says offset 0; this one has been restamped by the call before.
        _OFFSET.pack_into(batch, 0, 0)
        log.append([produced_batch(batch)], AppendRule.LEADER, 0)
        if log.log_end_offset >= wrap_offset:
            log.truncate_fully_and_start_at(0)
            directory.removals.run_due()

    def pwrite() -> None:
        nonlocal position
        os.pwrite(bare, batch, position)
        position += len(batch)
        if position > WRAP_BYTES:
            os.ftruncate(bare, 0)
            position = 0

    try:
        return [
            compare(
                f"append one batch of {len(batch)} bytes, CRC checked; CPU against os.pwrite",
                {"tidelog": ours, "os.pwrite": pwrite},
                at_most=3,
                per_call=len(batch),
                unit="bytes",
            )
        ]
    finally:
        os.close(bare)
        directory.abandon()


def build_segments(path: str, count: int) -> tuple[LogDirectory, PartitionLog]:
    """A log of `count` segments, each a little larger than what is read at once."""
    directory = open_directory(path, LogConfig(segment_bytes=READ_BYTES * 5 // 4, segment_index_bytes=16 * 1024))
    log = create_log(directory)
    batch = batch_of(BATCH_BYTES)
    while len(log.segment_base_offsets) <= count:
        _OFFSET.pack_into(batch, 0, 0)
        assert isinstance(log.append([produced_batch(batch)], AppendRule.LEADER, 0)[0], int)
    return directory, log


def reader(log: PartitionLog) -> Callable[[], None]:
    random = Random(5)
    end = log.log_end_offset

    def read() -> None:
        fetched = log.read(random.randrange(end), READ_BYTES, upper_bound=FetchIsolation.LOG_END)
        assert isinstance(fetched, Fetched)
        assert fetched.regions

    # Whoever reads at random opens a segment's files once; that is not what is measured.
    for base_offset in log.segment_base_offsets[:-1]:
        log.read(base_offset + 1, READ_BYTES, upper_bound=FetchIsolation.LOG_END)
    return read


def read(path: str) -> list[Comparison]:
    many_directory, many = build_segments(f"{path}/many", 1000)
    few_directory, few = build_segments(f"{path}/few", 10)
    try:
        return [
            compare(
                "read 1 MB as a region by random offset: 1,000 segments against 10",
                {"1,000 segments": reader(many), "10 segments": reader(few)},
                at_most=1.5,
                unit="reads",
            )
        ]
    finally:
        many_directory.abandon()
        few_directory.abandon()


def build_partitions(path: str, count: int) -> None:
    """A cleanly stopped directory. A tenth of its partitions has a producer, all have a few segments' worth of batches."""
    directory = open_directory(path, LogConfig(segment_bytes=64 * 1024, segment_index_bytes=4096))
    for number in range(count):
        log = create_log(directory, number)
        for _ in range(6):
            batch = batch_of(BATCH_BYTES, producer_id=number if number % 10 == 0 else -1)
            log.append([produced_batch(batch)], AppendRule.LEADER, 0)
    directory.close(BrokerEpoch(1))


def opener(path: str, count: int, times: int) -> Callable[[], None]:
    mark = Path(path, CLEAN_SHUTDOWN).read_bytes()

    def open_all() -> None:
        for _ in range(times):
            Path(path, CLEAN_SHUTDOWN).write_bytes(mark)
            directory = open_directory(path, LogConfig(segment_bytes=64 * 1024), ClosedLogs())
            assert directory.fault is None
            assert len(directory.partitions) == count
            directory.abandon()

    return open_all


def open_many(path: str) -> list[Comparison]:
    build_partitions(f"{path}/1000", 1000)
    build_partitions(f"{path}/100", 100)
    return [
        compare(
            "open 1,000 cleanly stopped partitions, no log opened: one directory against 10 of 100",
            {"1 x 1,000": opener(f"{path}/1000", 1000, 1), "10 x 100": opener(f"{path}/100", 100, 10)},
            at_most=1.3,
            per_call=1000,
            unit="partitions",
        )
    ]


def main() -> None:
    with temporary_directory() as path:
        finish("storage", [*append(path), *read(path), *open_many(path)])


if __name__ == "__main__":
    main()
