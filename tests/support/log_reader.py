"""Reads our logs as a consumer would, and opens log directories at a moment of the test's choice."""

from __future__ import annotations

from pathlib import Path
from random import Random

from tests.support.kafka_driver import Received
from tidelog.model.ids import TimestampMs, TopicName
from tidelog.model.slow_work import InlineSlowWork
from tidelog.storage.errors import StorageError
from tidelog.storage.fetched import Fetched, FetchIsolation
from tidelog.storage.log_config import LogConfig
from tidelog.storage.log_directory import LogDirectory
from tidelog.storage.os_files import OsFiles
from tidelog.storage.partition_log import PartitionLog
from tidelog.storage.seams import Seams
from tidelog.storage.transaction_index import AbortedTransaction
from tidelog.wire.record_batch import each_batch
from tidelog.wire.records import decode_batch

READ_BYTES = 700


class StoppedClock:
    """Always the same moment."""

    def __init__(self, now_ms: int) -> None:
        self._now_ms = TimestampMs(now_ms)

    def now_ms(self) -> TimestampMs:
        return self._now_ms

    def monotonic_ms(self) -> int:
        return 0

    def monotonic_ns(self) -> int:
        return 0


def open_directory(path: Path, now_ms: int, configs: dict[str, LogConfig] | None = None) -> LogDirectory:
    """The log directory at `path` with all its partitions, on the real disk. A fault is raised."""
    seams = Seams(OsFiles(), StoppedClock(now_ms), InlineSlowWork(), Random(0))
    known = configs or {}

    def config_of(topic: TopicName) -> LogConfig:
        return known.get(topic, known.get("", LogConfig()))

    def on_offline(_: LogDirectory, error: StorageError) -> None:
        raise error

    directory = LogDirectory.open(seams, str(path), config_of=config_of, on_offline=on_offline)
    directory.load()
    return directory


def read_rows(log: PartitionLog, *, committed: bool = False) -> list[Received]:
    """What a consumer gets: rows from the log's start on, markers left out; committed ones only, if asked for.

    Reads are small, so that many of them are needed, and follow the answer's aborted transactions as clients do.
    """
    isolation = FetchIsolation.LAST_STABLE_OFFSET if committed else FetchIsolation.HIGH_WATERMARK
    rows: list[Received] = []
    offset: int = log.log_start_offset
    while True:
        fetched = log.read(offset, READ_BYTES, upper_bound=isolation)
        assert isinstance(fetched, Fetched), fetched
        if not fetched.regions:
            return rows
        buffer = b"".join(region.read() for region in fetched.regions)
        batches = list(each_batch(buffer))
        assert batches, f"a read at offset {offset} gave no whole batch"
        for position, header in batches:
            is_aborted = any(
                _covers(each, header.producer_id, header.base_offset) for each in fetched.aborted_transactions or ()
            )
            if not header.is_control and not (header.is_transactional and is_aborted):
                rows += [Received(*row) for row in decode_batch(buffer, header, position) if row.offset >= offset]
        offset = batches[-1][1].next_offset


def _covers(aborted: AbortedTransaction, producer_id: int, offset: int) -> bool:
    return aborted.producer_id == producer_id and aborted.first_offset <= offset <= aborted.last_offset
