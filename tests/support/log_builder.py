"""Logs for tests: on a simulated disk, with a clock that stands still, and batches with a few words in them.

logs = LogBuilder()
log = logs.open()
logs.append(log, "a", "b")
assert logs.values(log) == ["a", "b"]
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from random import Random
from typing import TypeVar

from tests.support.appends import as_coordinator, as_leader
from tidelog.model.ids import Offset, PartitionIndex, TimestampMs, TopicName, TopicPartition
from tidelog.model.slow_work import InlineSlowWork, SlowWork
from tidelog.simulation.disk import SimulatedDisk
from tidelog.storage.append import AppendInfo, AppendRefused
from tidelog.storage.errors import StorageError
from tidelog.storage.fetched import Fetched, FetchIsolation
from tidelog.storage.files import Files
from tidelog.storage.log_config import LogConfig
from tidelog.storage.open_segments import OpenSegments
from tidelog.storage.partition_log import PartitionLog
from tidelog.storage.recovery import LastKnown, open_log
from tidelog.storage.removals import DelayedRemovals
from tidelog.storage.seams import Seams
from tidelog.wire.compression import Compression
from tidelog.wire.control_records import ControlType, build_end_txn_marker
from tidelog.wire.record_batch import HEADER_BYTES, TimestampType, each_batch
from tidelog.wire.records import Record, build_batch, each_record

T = TypeVar("T")

ORDERS = TopicPartition(TopicName("orders"), PartitionIndex(0))
DIRECTORY = "/logs"
LOG_PATH = f"{DIRECTORY}/orders-0"

# A Sunday afternoon: old enough to expire nothing by accident, since the tests' clock starts there too.
START_MS = 1_700_000_000_000

# About four batches of `LogBuilder.fill` to a segment.
SMALL_SEGMENTS = LogConfig(
    segment_bytes=400, index_interval_bytes=50, segment_index_bytes=1200, file_delete_delay_ms=1000
)


class ManualClock:
    """Time that passes when a test says so."""

    def __init__(self, now_ms: int = START_MS) -> None:
        self.ms = now_ms

    def now_ms(self) -> TimestampMs:
        return TimestampMs(self.ms)

    def monotonic_ms(self) -> int:
        return self.ms

    def monotonic_ns(self) -> int:
        return self.ms * 1_000_000

    def advance(self, ms: int) -> None:
        self.ms += ms


class HeldSlowWork:
    """Keeps what is submitted until a test lets it run."""

    def __init__(self) -> None:
        self.held: list[Callable[[], None]] = []

    def submit(self, work: Callable[[], T], then: Callable[[T | BaseException], None] | None = None) -> None:
        self.held.append(lambda: InlineSlowWork().submit(work, then))

    def run(self) -> None:
        held, self.held = self.held, []
        for each in held:
            each()


class LogBuilder:
    """The log directory, as far as one log needs it, and short ways to fill and read the log."""

    def __init__(
        self, *, files: Files | None = None, slow_work: SlowWork | None = None, open_segments_max: int = 100
    ) -> None:
        self.clock = ManualClock()
        self.disk = SimulatedDisk(self.clock)
        self.seams = Seams(
            files if files is not None else self.disk,
            self.clock,
            slow_work if slow_work is not None else InlineSlowWork(),
            Random(7),
        )
        self._open_segments_max = open_segments_max
        self.open_segments = OpenSegments(open_segments_max)
        self.faults: list[StorageError] = []
        self.removals = DelayedRemovals(self.seams, self.report_fault)
        self.log: PartitionLog | None = None
        # What the checkpoints of the log directory would say.
        self.recovery_point = Offset(0)
        self.log_start_offset = Offset(0)
        self.cleaner_offset = Offset(0)

    # LogHost

    def report_fault(self, error: StorageError) -> None:
        self.faults.append(error)

    def save_recovery_points(self) -> None:
        if self.log is not None:
            self.recovery_point = self.log.recovery_point

    def save_log_start_offsets(self) -> None:
        if self.log is not None:
            self.log_start_offset = self.log.log_start_offset
            self.log.log_start_saved()

    def note_truncated(self, topic_partition: TopicPartition, offset: Offset) -> None:
        assert topic_partition == ORDERS
        self.cleaner_offset = min(self.cleaner_offset, offset)

    # Opening

    def open(self, config: LogConfig | None = None, *, was_clean: bool = False, path: str = LOG_PATH) -> PartitionLog:
        """Open the log as a start of the node would."""
        files = self.seams.files
        if not files.is_dir(path):
            files.make_directory(path)
            files.sync_directory(path.rpartition("/")[0])
            files.sync_directory("/")
        known = LastKnown(self.log_start_offset, self.recovery_point, was_clean)
        self.open_segments = OpenSegments(self._open_segments_max)
        self.log = open_log(
            self, path, ORDERS, config or LogConfig(), known, producer_id_expiration_ms=24 * 60 * 60 * 1000
        )
        if not was_clean:
            self.save_recovery_points()
            self.save_log_start_offsets()
        return self.log

    def stop(self, log: PartitionLog) -> None:
        """A clean stop."""
        log.close()
        self.save_recovery_points()
        self.save_log_start_offsets()

    def reopen(self, config: LogConfig | None = None, *, was_clean: bool = False) -> PartitionLog:
        """Open the log again, in another life of the process."""
        if self.log is not None:
            config = config or self.log.config
        return self.open(config, was_clean=was_clean)

    # Filling

    def batch(
        self,
        *values: str,
        codec: Compression = Compression.NONE,
        timestamps: Sequence[int] = (),
        base_offset: int = 0,
        leader_epoch: int = -1,
        producer_id: int = -1,
        producer_epoch: int = -1,
        base_sequence: int = -1,
        is_transactional: bool = False,
        timestamp_type: TimestampType = TimestampType.CREATE_TIME,
    ) -> bytearray:
        """One batch, each value a record."""
        times = timestamps or [self.clock.ms] * len(values)
        rows = [
            Record(base_offset + number, time, None, value.encode())
            for number, (value, time) in enumerate(zip(values, times, strict=True))
        ]
        return bytearray(
            build_batch(
                rows,
                base_offset=base_offset,
                codec=codec,
                leader_epoch=leader_epoch,
                producer_id=producer_id,
                producer_epoch=producer_epoch,
                base_sequence=base_sequence,
                is_transactional=is_transactional,
                timestamp_type=timestamp_type,
            )
        )

    def append(
        self,
        log: PartitionLog,
        *values: str,
        epoch: int = 0,
        codec: Compression = Compression.NONE,
        timestamps: Sequence[int] = (),
        producer: tuple[int, int, int] | None = None,
        is_transactional: bool = False,
    ) -> AppendInfo:
        """Append one batch, which must be accepted. `producer` is (id, epoch, first sequence)."""
        producer_id, producer_epoch, base_sequence = producer or (-1, -1, -1)
        batch = self.batch(
            *values,
            codec=codec,
            timestamps=timestamps,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=base_sequence,
            is_transactional=is_transactional,
        )
        return accepted(as_leader(log, batch, epoch))

    def fill(self, log: PartitionLog, count: int) -> None:
        """Append `count` records, each a batch of its own and ten milliseconds after the one before."""
        for number in range(count):
            self.append(log, f"{number}".ljust(30), timestamps=[START_MS + number * 10])

    def end_transaction(
        self, log: PartitionLog, producer_id: int, producer_epoch: int, *, commit: bool, epoch: int = 0
    ) -> AppendInfo:
        """Append the marker that ends a producer's transaction."""
        marker = build_end_txn_marker(
            ControlType.COMMIT if commit else ControlType.ABORT,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            coordinator_epoch=0,
            timestamp=self.clock.ms,
        )
        return accepted(as_coordinator(log, marker, epoch))

    # Reading

    def records(self, log: PartitionLog, start: int | None = None) -> list[Record]:
        """All records of the log, read as a follower reads them."""
        offset = log.log_start_offset if start is None else start
        found: list[Record] = []
        while True:
            fetched = log.read(offset, 1 << 20, upper_bound=FetchIsolation.LOG_END)
            assert isinstance(fetched, Fetched), fetched
            if not fetched.regions:
                return found
            records = list(each_record(fetched.regions[0].read()))
            batch_end = offset_after(fetched)
            found += [record for record in records if record.offset >= offset]
            offset = batch_end

    def values(self, log: PartitionLog, start: int | None = None) -> list[str]:
        """The values of all records."""
        return [(record.value or b"").decode() for record in self.records(log, start)]


def offset_after(fetched: Fetched) -> Offset:
    """The offset after the last whole batch of an answer."""
    end = Offset(-1)
    for _, header in each_batch(fetched.regions[0].read()):
        end = Offset(header.next_offset)
    return end


def accepted(outcome: AppendInfo | AppendRefused) -> AppendInfo:
    assert isinstance(outcome, AppendInfo), outcome
    return outcome


def refused(outcome: AppendInfo | AppendRefused) -> AppendRefused:
    assert isinstance(outcome, AppendRefused), outcome
    return outcome


def fetched_values(fetched: object) -> list[str]:
    """The values in the answer to a read."""
    assert isinstance(fetched, Fetched), fetched
    return [(record.value or b"").decode() for region in fetched.regions for record in each_record(region.read())]


def sizes(batches: Iterable[bytes | bytearray]) -> int:
    """The bytes of several batches."""
    return sum(len(batch) for batch in batches)


# A batch of one record with a short value: small enough that many fit a test's segment.
SMALL_BATCH_BYTES = HEADER_BYTES + 8
