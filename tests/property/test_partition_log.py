"""The log against a plain list: random appends, rolls, truncations, flushes, stops and crashes at every write.

What was synced is never lost, nothing invented appears, indexes and producers always agree with the log.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import partial
from random import Random
from typing import NamedTuple

import pytest
from hypothesis import given, settings, strategies as st

from tests.support.appends import as_coordinator, as_follower, as_leader
from tests.support.log_builder import START_MS, HeldSlowWork, LogBuilder, accepted, fetched_values
from tidelog.model.slow_work import InlineSlowWork
from tidelog.simulation.disk import SimulatedCrash
from tidelog.storage.fetched import Fetched, FetchIsolation
from tidelog.storage.log_config import LogConfig
from tidelog.storage.partition_log import PartitionLog
from tidelog.storage.producer import NO_TRANSACTION
from tidelog.storage.transaction_index import AbortedTransaction
from tidelog.wire.compression import Compression
from tidelog.wire.control_records import ControlType, build_end_txn_marker
from tidelog.wire.record_batch import read_header

# Small enough that a few appends roll, and that indexes fill up.
CONFIG = LogConfig(segment_bytes=900, segment_index_bytes=80, index_interval_bytes=100, file_delete_delay_ms=1000)
CODECS = (Compression.NONE, Compression.NONE, Compression.GZIP, Compression.LZ4, Compression.ZSTD, Compression.SNAPPY)


class Batch(NamedTuple):
    """A batch that the log should hold."""

    base_offset: int
    values: tuple[str, ...]
    timestamps: tuple[int, ...]
    producer_id: int = -1
    producer_epoch: int = -1
    base_sequence: int = -1
    is_transactional: bool = False
    marker: ControlType | None = None

    @property
    def next_offset(self) -> int:
        return self.base_offset + len(self.values)

    @property
    def last_sequence(self) -> int:
        return self.base_sequence + len(self.values) - 1


@dataclass(frozen=True)
class Model:
    """The log as a list. `synced_end`: what no crash may take. `saved_start`: where the log may start again after one."""

    batches: tuple[Batch, ...] = ()
    start: int = 0
    end: int = 0
    synced_end: int = 0
    saved_start: int = 0

    def appended(self, batch: Batch) -> Model:
        return replace(self, batches=(*self.batches, batch), end=batch.next_offset)

    def truncated(self, offset: int) -> Model:
        kept = tuple(batch for batch in self.batches if batch.next_offset <= offset)
        cut = [batch for batch in self.batches if batch.next_offset > offset]
        end = min([offset, self.end, *(batch.base_offset for batch in cut)])
        return Model(kept, min(self.start, end), end, min(self.synced_end, end), min(self.saved_start, end))

    def until(self, end: int) -> Model:
        """What is left when everything from `end` on is lost; None-like emptiness if `end` is inside a batch."""
        return replace(self, batches=tuple(batch for batch in self.batches if batch.next_offset <= end), end=end)

    def values(self, start: int) -> list[str]:
        return [
            value
            for batch in self.batches
            if batch.marker is None
            for number, value in enumerate(batch.values)
            if batch.base_offset + number >= start
        ]


@dataclass
class Run:
    """One test run: the log, its model, and what an operation that is under way will make of it."""

    logs: LogBuilder
    random: Random
    log: PartitionLog
    model: Model = field(default_factory=Model)
    after: Model | None = None
    halfway: Model | None = None
    count: int = 0
    next_sequence: dict[int, int] = field(default_factory=dict)
    open_transactions: set[int] = field(default_factory=set)
    crash_random: Random = field(default_factory=lambda: Random(11))

    # --- operations: each says what it will do before it does it

    def append(self, producer_id: int = -1, *, is_transactional: bool = False) -> None:
        random = self.random
        size = random.choice((1, 1, 2, 5))
        self.count += 1
        values = tuple(f"{self.count}.{number}" + "x" * random.choice((0, 3, 60)) for number in range(size))
        timestamps = tuple(START_MS + self.count * 10 - random.randrange(30) for _ in values)
        sequence = self.next_sequence.get(producer_id, 0) if producer_id >= 0 else -1
        epoch = 0 if producer_id >= 0 else -1
        batch = Batch(self.model.end, values, timestamps, producer_id, epoch, sequence, is_transactional)
        self.after = self.model.appended(batch)
        buffer = self.logs.batch(
            *values,
            codec=random.choice(CODECS),
            timestamps=timestamps,
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=sequence,
            is_transactional=is_transactional,
        )
        info = accepted(as_leader(self.log, buffer, 0))
        assert not info.is_duplicate
        assert info.first_offset == batch.base_offset
        if producer_id >= 0:
            self.next_sequence[producer_id] = sequence + size
        if is_transactional:
            self.open_transactions.add(producer_id)

    def done(self) -> None:
        """The operation came to its end."""
        if self.after is not None:
            self.model, self.after = self.after, None
        self.halfway = None

    def append_copied(self) -> None:
        self.count += 1
        batch = Batch(self.model.end, (f"{self.count}",), (START_MS + self.count * 10,))
        self.after = self.model.appended(batch)
        buffer = self.logs.batch(
            *batch.values, timestamps=batch.timestamps, base_offset=batch.base_offset, leader_epoch=0
        )
        # A fetch may end in the middle of a batch.
        accepted(as_follower(self.log, buffer + buffer[: self.random.randrange(60)]))

    def end_transaction(self, producer_id: int) -> None:
        if producer_id not in self.open_transactions:
            return
        kind = self.random.choice((ControlType.COMMIT, ControlType.ABORT))
        self.count += 1
        timestamp = START_MS + self.count * 10
        batch = Batch(self.model.end, ("",), (timestamp,), producer_id, 0, -1, is_transactional=True, marker=kind)
        self.after = self.model.appended(batch)
        marker = build_end_txn_marker(
            kind, producer_id=producer_id, producer_epoch=0, coordinator_epoch=0, timestamp=timestamp
        )
        accepted(as_coordinator(self.log, marker, 0))
        self.open_transactions.discard(producer_id)

    def truncate(self, *, deep: bool = False) -> None:
        target = self.random.randint(self.model.start, self.model.end)
        if deep:
            target = min(self.model.start + 1, self.model.end)
        self.after = self.model.truncated(target)
        self.halfway = replace(self.model, synced_end=self.after.synced_end)
        self.log.truncate_to(target)
        self._recall_producers(self.after)

    def start_anew(self) -> None:
        target = self.model.end + self.random.randrange(3)
        self.after = Model((), target, target, 0, target)
        self.halfway = replace(self.model, synced_end=0)
        self.log.truncate_fully_and_start_at(target)
        self._recall_producers(self.after)

    def delete_records(self, *, deep: bool = False) -> None:
        target = self.random.randint(self.model.start, self.model.end)
        if deep:
            target = max(self.model.start, self.model.end - 1)
        self.log.set_high_watermark(self.model.end)
        self.after = replace(self.model, start=target)
        self.log.delete_records_before(target)

    def remove_segments(self) -> None:
        self.after = replace(self.model, saved_start=self.model.start)
        self.log.remove_segments_before_start()
        # Nothing was removed, so nothing had to be saved.
        if self.logs.log_start_offset < self.model.start:
            self.after = self.model

    def flush(self) -> None:
        self.after = replace(self.model, synced_end=self.model.end)
        self.log.flush()

    def save(self) -> None:
        self.logs.save_recovery_points()
        self.logs.save_log_start_offsets()
        self.after = replace(self.model, saved_start=self.model.start)

    def roll(self) -> None:
        self.log.roll()

    def settle(self) -> None:
        """Slow work gets done, and time passes."""
        if isinstance(self.logs.seams.slow_work, HeldSlowWork):
            self.logs.seams.slow_work.run()
        self.logs.clock.advance(500)
        self.logs.removals.run_due()

    def stop(self) -> None:
        self.after = replace(self.model, synced_end=self.model.end, saved_start=self.model.start)
        self.logs.stop(self.log)
        self.log = self.logs.reopen(was_clean=True)
        self.check_whole()

    def kill(self) -> None:
        """The process dies; what it wrote is all there."""
        self.logs.disk.kill()
        self.lose_slow_work()
        self.log = self.logs.reopen()
        assert (self.log.log_start_offset, self.log.log_end_offset) == (
            max(self.logs.log_start_offset, self.log.segment_base_offsets[0]),
            self.model.end,
        )
        self.adopt(self.log.log_start_offset, self.model.end, self.model)

    # --- crashes

    def crash(self) -> None:
        self.logs.disk.crash(self.crash_random)
        self.lose_slow_work()
        while True:
            try:
                self.log = self.logs.reopen()
            except SimulatedCrash:
                self.logs.disk.crash(self.crash_random)
            else:
                break
        start, end = self.log.log_start_offset, self.log.log_end_offset
        found = self.logs.values(self.log)
        candidates = [each for each in (self.model, self.after, self.halfway) if each is not None]
        for candidate in candidates:
            if candidate.synced_end <= end <= candidate.end and candidate.saved_start <= start <= candidate.end:
                kept = candidate.until(end)
                # An empty log begins where the log's start was saved, be it within a batch that was lost.
                ends_well = start == end or not kept.batches or kept.batches[-1].next_offset == end
                if ends_well and kept.values(start) == found:
                    self.adopt(start, end, candidate)
                    return
        raise AssertionError(f"[{start}, {end}) with {found} can be none of {candidates}")

    def lose_slow_work(self) -> None:
        if isinstance(self.logs.seams.slow_work, HeldSlowWork):
            self.logs.seams.slow_work.held.clear()

    def adopt(self, start: int, end: int, candidate: Model) -> None:
        """Go on with what was left."""
        self.model = replace(candidate.until(end), start=start, saved_start=min(candidate.saved_start, start))
        self.after = self.halfway = None
        self._recall_producers(self.model)
        self.check_whole()

    def _recall_producers(self, model: Model) -> None:
        """Where producers go on. Of one whose records all lie before the log's start the log may know more, or nothing."""
        self.next_sequence.clear()
        self.open_transactions.clear()
        for state in self.log.producers.each_producer():
            self.next_sequence[state.producer_id] = state.last_sequence + 1
            if state.transaction_first_offset != NO_TRANSACTION:
                self.open_transactions.add(state.producer_id)
        held = {batch.producer_id for batch in model.batches if batch.next_offset > model.start}
        for batch in model.batches:
            if batch.producer_id not in held:
                continue
            if batch.marker is not None:
                self.open_transactions.discard(batch.producer_id)
            elif batch.producer_id >= 0:
                self.next_sequence[batch.producer_id] = batch.last_sequence + 1
                if batch.is_transactional:
                    self.open_transactions.add(batch.producer_id)

    # --- what must hold at any time

    def check_whole(self) -> None:
        log, model = self.log, self.model
        assert (log.log_start_offset, log.log_end_offset) == (model.start, model.end)
        assert self.logs.values(log) == model.values(model.start)
        log.set_high_watermark(model.end)
        self.check_reads()
        self.check_indexes()
        self.check_producers()
        self.check_timestamps()

    def check_reads(self) -> None:
        log, model = self.log, self.model
        for batch in model.batches:
            for offset in range(max(batch.base_offset, model.start), batch.next_offset):
                fetched = log.read(offset, 1, upper_bound=FetchIsolation.LOG_END)
                assert isinstance(fetched, Fetched)
                header = read_header(fetched.regions[0].read())
                assert (header.base_offset, header.next_offset) == (batch.base_offset, batch.next_offset)
        assert fetched_values(log.read(model.end, 100)) == []

    def check_indexes(self) -> None:
        following = None
        for segment in self.log.segments.from_offset(self.model.start):
            assert following is None or segment.base_offset == following
            batches = dict(segment.headers_from(0))
            following = max((header.next_offset for header in batches.values()), default=segment.base_offset)
            for entry in segment.offset_index.each_entry():
                assert batches[entry.position].last_offset == entry.offset
            by_last_offset = {header.last_offset: header for header in batches.values()}
            for timestamp, offset in segment.time_index.each_entry():
                assert by_last_offset[offset].max_timestamp == timestamp
                assert max(h.max_timestamp for h in batches.values() if h.last_offset <= offset) == timestamp

    def check_producers(self) -> None:
        log, model = self.log, self.model
        held = [batch for batch in model.batches if batch.next_offset > model.start]
        last = {batch.producer_id: batch for batch in held if batch.producer_id >= 0 and batch.marker is None}
        for producer_id, batch in last.items():
            state = log.producers.producer(producer_id)
            assert state is not None
            assert (state.epoch, state.last_sequence) == (batch.producer_epoch, batch.last_sequence)
        self.check_transactions()

    def check_transactions(self) -> None:
        """Of a transaction that began before the log's start, the log may know that, or see it begin with what is left of it."""
        log, model = self.log, self.model
        opened: dict[int, list[int]] = {}
        aborted: dict[int, list[int]] = {}
        for batch in model.batches:
            if batch.is_transactional and batch.marker is None:
                opened.setdefault(batch.producer_id, []).append(batch.base_offset)
            elif batch.marker is not None:
                offsets = opened.pop(batch.producer_id, [])
                if batch.marker is ControlType.ABORT and batch.base_offset >= model.start:
                    aborted[batch.base_offset] = offsets
        bounds = [self.first_offsets(offsets) for offsets in opened.values()]
        assert min([model.end, *(low for low, _ in bounds)]) <= log.last_stable_offset
        assert log.last_stable_offset <= min([model.end, *(high for _, high in bounds if high is not None)])
        found: dict[int, AbortedTransaction] = {
            each.last_offset: each for each in log.aborted_transactions(model.start, model.end)
        }
        assert found.keys() <= aborted.keys()
        for marker_offset, offsets in aborted.items():
            _, high = self.first_offsets(offsets)
            if high is not None:
                assert min(offsets) <= found[marker_offset].first_offset <= high

    def first_offsets(self, offsets: list[int]) -> tuple[int, int | None]:
        """Where a transaction with batches at `offsets` begins at the earliest, and at the latest if any of it is left."""
        start = self.model.start
        left = [batch.base_offset for batch in self.model.batches if batch.next_offset > start]
        surviving = [offset for offset in offsets if offset in left]
        return max(min(offsets, default=start), start), max(start, min(surviving)) if surviving else None

    def check_timestamps(self) -> None:
        log, model = self.log, self.model
        records = [
            (timestamp, batch.base_offset + number)
            for batch in model.batches
            for number, timestamp in enumerate(batch.timestamps)
            if batch.base_offset + number >= model.start
        ]
        for wanted in {START_MS, *(timestamp for timestamp, _ in records[:: max(1, len(records) // 5)])}:
            expected = next(((t, offset) for t, offset in records if t >= wanted), None)
            found = log.offset_for_timestamp(wanted)
            assert (None if found is None else (found[0], found[1])) == expected  # type: ignore[index]


def _append_a_lot(run: Run) -> None:
    for _ in range(6):
        run.append()
        run.done()


OPERATIONS: dict[str, Callable[[Run], None]] = {
    "append": Run.append,
    "append a lot": _append_a_lot,
    "append as 1": partial(Run.append, producer_id=1),
    "append as 2": partial(Run.append, producer_id=2),
    "append in the transaction of 8": partial(Run.append, producer_id=8, is_transactional=True),
    "append in the transaction of 9": partial(Run.append, producer_id=9, is_transactional=True),
    "end the transaction of 8": partial(Run.end_transaction, producer_id=8),
    "end the transaction of 9": partial(Run.end_transaction, producer_id=9),
    "append copied": Run.append_copied,
    "roll": Run.roll,
    "truncate": Run.truncate,
    "truncate deep": partial(Run.truncate, deep=True),
    "start anew": Run.start_anew,
    "delete records": Run.delete_records,
    "delete most records": partial(Run.delete_records, deep=True),
    "remove segments": Run.remove_segments,
    "flush": Run.flush,
    "save": Run.save,
    "settle": Run.settle,
    "stop": Run.stop,
    "kill": Run.kill,
    "crash": Run.crash,
}


def perform(run: Run, operations: Iterable[str]) -> None:
    """Do it all, going on after a crash with what it left."""
    for operation in operations:
        try:
            OPERATIONS[operation](run)
        except SimulatedCrash:
            run.crash()
        run.done()
    run.check_whole()


def new_run(seed: int, *, holds_slow_work: bool) -> Run:
    logs = LogBuilder(slow_work=HeldSlowWork() if holds_slow_work else InlineSlowWork())
    return Run(logs, Random(seed), logs.open(CONFIG), crash_random=Random(seed + 1))


@given(
    operations=st.lists(st.sampled_from(sorted(OPERATIONS)), min_size=1, max_size=40),
    crash_after=st.none() | st.integers(1, 150),
    seed=st.integers(0, 2**32),
    holds_slow_work=st.booleans(),
)
@settings(deadline=None)
def test_a_log_is_a_list_whatever_happens(
    operations: list[str], crash_after: int | None, seed: int, holds_slow_work: bool
) -> None:
    run = new_run(seed, holds_slow_work=holds_slow_work)
    if crash_after is not None:
        run.logs.disk.crash_at(run.logs.disk.changes + crash_after)
    perform(run, operations)


FILL = ("append a lot", "append as 1", "append in the transaction of 8", "append a lot")
DURABLE = ("settle", "flush", "save")

SCENARIOS = {
    "truncating durable segments": (*FILL, *DURABLE, "truncate deep", "append a lot", "settle"),
    "truncating what is not durable": (*FILL, "truncate deep", "append a lot", "settle", "save"),
    "starting anew": (*FILL, *DURABLE, "start anew", "append", "append a lot"),
    "removing old segments": (*FILL, *DURABLE, "delete most records", "remove segments", "append a lot", "settle"),
    "rolling": (*FILL, "end the transaction of 8", "append a lot", "settle", "save", "append"),
    "rolling what is durable": ("append a lot", *DURABLE, "roll", "save", "append", "roll", "append", "settle"),
    "stopping": (*FILL, "stop", "append", "append as 1", "stop", "roll", "save", "append"),
}


@pytest.mark.parametrize("holds_slow_work", [False, True], ids=["slow work at once", "slow work held back"])
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_crash_at_any_write_leaves_a_log(scenario: str, holds_slow_work: bool) -> None:
    operations = (*SCENARIOS[scenario], "crash")
    whole = new_run(1, holds_slow_work=holds_slow_work)
    started = whole.logs.disk.changes
    perform(whole, operations)

    for change in range(started + 1, whole.logs.disk.changes + 1):
        run = new_run(1, holds_slow_work=holds_slow_work)
        run.logs.disk.crash_at(change)
        # The operations are the same up to the crash; what survives it is another matter of chance each time.
        run.crash_random = Random(change)
        perform(run, operations)
