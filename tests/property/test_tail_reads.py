"""Reads of a log against a list of its batches, at its tail above all: where readers wait, and most is kept in mind for them.

Every way to append takes part, with and without somebody who waits; the high watermark moves, the log rolls, is cut, begins
anew, loses its old segments. After each of these, reads at any offset, of any kind and with any limit give the bytes that the
list says, no more and no less, and the aborted transactions among them.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from random import Random
from typing import NamedTuple

from hypothesis import given, strategies as st

from tests.support.appends import as_coordinator, as_follower, as_leader, checked
from tests.support.both_ways import TRANSACTIONAL, a_marker
from tests.support.examples import examples
from tests.support.log_builder import START_MS, LogBuilder, accepted
from tidelog.model.errors import ErrorCode
from tidelog.storage.append import FRESH_BYTES_MAX, AppendInfo, AppendRule
from tidelog.storage.fetched import Fetched, FetchIsolation
from tidelog.storage.file_region import FreshRegion
from tidelog.storage.log_config import LogConfig
from tidelog.storage.partition_log import PartitionLog
from tidelog.storage.producer import NO_TRANSACTION
from tidelog.wire.record_batch import read_header
from tidelog.wire.records import Record, build_batch

# Two or three of the largest batches to a segment; or all of a run in one.
CONFIGS = [
    LogConfig(segment_bytes=100_000, segment_index_bytes=1200, index_interval_bytes=interval, file_delete_delay_ms=1000)
    for interval in (100, 4096)
]
# Around what is kept for those who wait, and around nothing.
VALUE_BYTES = (0, 1, 50, 50, 300, 300, 5000, FRESH_BYTES_MAX - 100, FRESH_BYTES_MAX - 60, 17_000, 40_000)


class Batch(NamedTuple):
    """A batch as the log should hold it."""

    base_offset: int
    next_offset: int
    data: bytes
    producer_id: int
    is_transactional: bool
    is_marker: bool = False
    is_abort: bool = False


class Transaction(NamedTuple):
    producer_id: int
    first_offset: int
    marker_offset: int | None
    is_aborted: bool


class Model:
    """The log as a list. Where its segments begin is the log's own affair."""

    def __init__(self) -> None:
        self.batches: list[Batch] = []
        self.start = self.end = self.high_watermark = 0
        self.was_cut = False

    def append(self, data: bytes, leader_epoch: int, *, is_abort: bool = False) -> None:
        placed = bytearray(data)
        placed[:8] = self.end.to_bytes(8, "big")
        placed[12:16] = leader_epoch.to_bytes(4, "big")
        header = read_header(placed)
        self.batches.append(
            Batch(
                self.end,
                header.next_offset,
                bytes(placed),
                header.producer_id,
                header.is_transactional,
                header.is_control,
                is_abort,
            )
        )
        self.end = header.next_offset

    def cut(self, offset: int) -> None:
        lost = [batch.base_offset for batch in self.batches if batch.next_offset > offset]
        self.end = min([self.end, offset, *lost])
        self.batches = [batch for batch in self.batches if batch.next_offset <= self.end]
        self.start = min(self.start, self.end)
        self.high_watermark = min(self.high_watermark, self.end)
        self.was_cut = True

    def begin_anew(self, offset: int) -> None:
        self.batches.clear()
        self.start = self.end = self.high_watermark = offset
        self.was_cut = True

    def transactions(self) -> list[Transaction]:
        found: list[Transaction] = []
        opened: dict[int, int] = {}
        for batch in self.batches:
            if batch.is_marker:
                first = opened.pop(batch.producer_id, None)
                if first is not None:
                    found.append(Transaction(batch.producer_id, first, batch.base_offset, batch.is_abort))
            elif batch.is_transactional:
                opened.setdefault(batch.producer_id, batch.base_offset)
        found += [Transaction(producer_id, first, None, False) for producer_id, first in opened.items()]
        return found

    def last_stable_offsets(self) -> tuple[int, int]:
        """Where the last stable offset is, and how far it may be at the most once the log was cut: the log reads its producers
        anew then, and may not know of transactions which have ended above the high watermark."""
        exact = [
            each.first_offset
            for each in self.transactions()
            if each.marker_offset is None or each.marker_offset >= self.high_watermark
        ]
        still_open = [each.first_offset for each in self.transactions() if each.marker_offset is None]
        low, high = (max(self.start, min([self.high_watermark, *firsts])) for firsts in (exact, still_open))
        return low, high if self.was_cut else low

    def read(
        self, offset: int, bound: int, bytes_max: int, segments: Sequence[int], *, min_one_batch: bool
    ) -> tuple[bytes, bool]:
        """The bytes, and whether the first batch was too large."""
        holder = next(batch for batch in self.batches if batch.next_offset > offset)
        segment_end = next((base for base in segments if base > holder.base_offset), self.end)
        there = [
            batch
            for batch in self.batches
            if batch.base_offset >= holder.base_offset
            and batch.next_offset <= segment_end
            and not bound < batch.next_offset
        ]
        if not there:
            return b"", False
        first_bytes = len(there[0].data)
        if first_bytes > bytes_max and not min_one_batch:
            return b"", True
        return b"".join(batch.data for batch in there)[: max(bytes_max, first_bytes)], False


class Run:
    """A log, its model, and what happens to both."""

    def __init__(self, seed: int) -> None:
        self.random = random = Random(seed)
        self.logs = LogBuilder(open_segments_max=random.choice([1, 100]))
        self.log: PartitionLog = self.logs.open(random.choice(CONFIGS))
        self.model = Model()
        self.epoch = 0
        self.served_from_memory = 0

    # --- appending ---------------------------------------------------------------------------------------------------------

    def batch(self, producer_id: int = -1, value_bytes: int | None = None, *, sequence: int = -1) -> bytes:
        random = self.random
        count = random.choice([1, 1, 1, 2, 5]) if value_bytes is None else 1
        size = random.choice(VALUE_BYTES) if value_bytes is None else value_bytes
        values = [b"v" * (size // count)] * count
        return build_batch(
            [Record(n, START_MS, None, value, ()) for n, value in enumerate(values)],
            producer_id=producer_id,
            producer_epoch=-1 if producer_id < 0 else 0,
            base_sequence=sequence,
            is_transactional=producer_id >= 0,
        )

    def next_sequence(self, producer_id: int) -> int:
        state = self.log.producers.producer(producer_id)
        return 0 if state is None else state.last_sequence + 1

    def append_run(self) -> None:
        """As Produce does. At most one batch of a producer, so that its sequence is known."""
        random = self.random
        who = random.sample((-1, -1, *TRANSACTIONAL), random.choice([1, 1, 1, 2, 3]))
        run = [self.batch(each, sequence=self.next_sequence(each) if each >= 0 else -1) for each in who]
        self._append_run(run, is_awaited=random.random() < 0.8)

    def _append_run(self, run: Sequence[bytes], *, is_awaited: bool) -> None:
        batches = [checked(each) for each in run]
        outcomes = self.log.append(batches, AppendRule.LEADER, self.epoch, is_awaited)
        for data, outcome in zip(run, outcomes, strict=True):
            first = outcome.first_offset if isinstance(outcome, AppendInfo) else outcome
            assert first == self.model.end
            self.model.append(data, self.epoch)

    def append_in_the_ordinary_way(self) -> None:
        producer_id = self.random.choice((-1, *TRANSACTIONAL))
        data = self.batch(producer_id, sequence=self.next_sequence(producer_id) if producer_id >= 0 else -1)
        accepted(as_leader(self.log, data, self.epoch))
        self.model.append(data, self.epoch)

    def append_as_coordinator(self) -> None:
        data = self.batch()
        accepted(as_coordinator(self.log, data, self.epoch))
        self.model.append(data, self.epoch)

    def append_as_follower(self) -> None:
        sent, end = b"", self.model.end
        for _ in range(self.random.choice([1, 1, 2, 3])):
            data = bytearray(self.batch())
            data[:8] = end.to_bytes(8, "big")
            data[12:16] = self.epoch.to_bytes(4, "big")
            end = read_header(data).next_offset
            sent += data
            self.model.append(bytes(data), self.epoch)
        accepted(as_follower(self.log, sent))

    def end_transaction(self, producer_id: int | None = None) -> None:
        random = self.random
        if producer_id is None:
            producer_id = random.choice(self.open_transactions() or TRANSACTIONAL)
        commit = random.random() < 0.3
        # Of the time of the records: a producer whose last word is older than a day is forgotten when the log is cut.
        marker = a_marker(self.log, producer_id, commit=commit, time_ms=START_MS)
        accepted(as_coordinator(self.log, marker, self.epoch))
        self.model.append(marker, self.epoch, is_abort=not commit)

    def cross_transactions(self) -> None:
        """One producer's records are kept for those who wait; another one's go the ordinary way; either may end first, or stay
        open, before all of it is committed."""
        random = self.random
        while self.open_transactions():
            self.end_transaction()
        awaited, other = random.sample(TRANSACTIONAL, 2)
        steps = [
            [
                partial(self.append_in_transaction, producer_id, is_awaited=producer_id == awaited),
                *[partial(self.end_transaction, producer_id)] * random.choice([0, 1, 1]),
            ]
            for producer_id in (awaited, other)
        ]
        while steps := [each for each in steps if each]:
            random.choice(steps).pop(0)()
        self.commit()

    def append_in_transaction(self, producer_id: int, *, is_awaited: bool = False) -> None:
        data = self.batch(producer_id, self.random.choice([1, 50]), sequence=self.next_sequence(producer_id))
        if is_awaited:
            self._append_run([data], is_awaited=True)
            return
        accepted(as_leader(self.log, data, self.epoch))
        self.model.append(data, self.epoch)

    def open_transactions(self) -> list[int]:
        states = self.log.producers.each_producer()
        return [each.producer_id for each in states if each.transaction_first_offset != NO_TRANSACTION]

    # --- what else happens -------------------------------------------------------------------------------------------------

    def commit(self) -> None:
        model = self.model
        offset = self.random.choice([model.end, self.random.randint(model.high_watermark, model.end)])
        if offset > model.high_watermark and self.random.random() < 0.5:
            self.log.commit_up_to(offset)
        else:
            self.log.set_high_watermark(offset)
        model.high_watermark = offset
        # Those who waited are told, and read.
        self.check_reads()
        self.log.forget_fresh()

    def begin_epoch(self) -> None:
        self.epoch += 1
        self.log.begin_leader_epoch(self.epoch)

    def roll(self) -> None:
        self.log.roll()

    def move_start(self) -> None:
        # Not into a transaction that is undecided: where it would be said to begin then is another matter.
        model = self.model
        target = self.random.randint(model.start, max(model.start, model.last_stable_offsets()[0]))
        assert self.log.delete_records_before(target) is ErrorCode.NONE
        model.start = target
        if self.random.random() < 0.7:
            self.log.remove_segments_before_start()
            self.logs.clock.advance(600)
            self.logs.removals.run_due()

    def truncate(self) -> None:
        # Into what is committed only as long as the log starts with its first record: else a transaction might be open again
        # that began before the start.
        model = self.model
        lowest = model.high_watermark if model.start else 0
        near = max(lowest, model.end - self.random.choice([0, 1, 2, 5]))
        target = self.random.choice([near, near, self.random.randint(lowest, model.end)])
        self.log.truncate_to(target)
        model.cut(target)

    def start_anew(self) -> None:
        target = self.model.end + self.random.choice([0, 3])
        self.log.truncate_fully_and_start_at(target)
        self.model.begin_anew(target)

    # --- what must hold ----------------------------------------------------------------------------------------------------

    def check_reads(self) -> None:
        log, model, random = self.log, self.model, self.random
        assert (log.log_start_offset, log.log_end_offset) == (model.start, model.end)
        low, high = model.last_stable_offsets()
        stable = log.last_stable_offset
        assert low <= stable <= high
        tail = [batch.base_offset for batch in model.batches[-3:]]
        offsets = [model.end, model.high_watermark, stable, *tail, *tail, random.randint(model.start, model.end)]
        sizes = [len(batch.data) for batch in model.batches[-3:]] or [100]
        for offset in random.choices([*offsets, model.start - 1, model.end + 1], k=4):
            size = random.choice([random.choice(sizes), sum(sizes)])
            bytes_max = random.choice([0, 1, size - 1, size, size + 1, size + 61, 1 << 20, 1 << 20])
            for isolation in FetchIsolation:
                self.check_read(offset, bytes_max, isolation, stable, min_one_batch=random.random() < 0.7)

    def check_read(
        self, offset: int, bytes_max: int, isolation: FetchIsolation, stable: int, *, min_one_batch: bool
    ) -> None:
        log, model = self.log, self.model
        fetched = log.read(offset, bytes_max, upper_bound=isolation, min_one_batch=min_one_batch)
        if not model.start <= offset <= model.end:
            assert fetched is ErrorCode.OFFSET_OUT_OF_RANGE
            return
        assert isinstance(fetched, Fetched)
        bounds = {FetchIsolation.LOG_END: model.end, FetchIsolation.HIGH_WATERMARK: model.high_watermark}
        bound = bounds.get(isolation, stable)
        data, too_large = b"", False
        if offset < bound:
            segments = log.segment_base_offsets
            data, too_large = model.read(offset, bound, bytes_max, segments, min_one_batch=min_one_batch)
        assert b"".join(region.read() for region in fetched.regions) == data
        assert b"".join(region.file.pread(region.count, region.position) for region in fetched.regions) == data
        assert fetched.first_batch_too_large == too_large
        assert (fetched.log_start_offset, fetched.log_end_offset) == (model.start, model.end)
        assert (fetched.high_watermark, fetched.last_stable_offset) == (model.high_watermark, stable)
        self.served_from_memory += any(isinstance(region, FreshRegion) for region in fetched.regions)
        if isolation is not FetchIsolation.LAST_STABLE_OFFSET:
            assert fetched.aborted_transactions is None
            return
        found = {(each.producer_id, each.first_offset) for each in fetched.aborted_transactions or ()}
        aborted = [each for each in model.transactions() if each.is_aborted and (each.marker_offset or 0) >= offset]
        assert found <= {(each.producer_id, each.first_offset) for each in aborted}
        if data:
            read_until = self.end_of(data, offset)
            needed = {(each.producer_id, each.first_offset) for each in aborted if each.first_offset < read_until}
            assert needed <= found

    def end_of(self, data: bytes, offset: int) -> int:
        """The offset behind the last batch that an answer from `offset` has any byte of."""
        left, end = len(data), offset
        for batch in self.model.batches:
            if batch.next_offset > offset and left > 0:
                left -= len(batch.data)
                end = batch.next_offset
        return end


OPERATIONS = {
    Run.append_run: 8,
    Run.append_in_the_ordinary_way: 3,
    Run.append_as_coordinator: 1,
    Run.append_as_follower: 2,
    Run.end_transaction: 3,
    Run.cross_transactions: 4,
    Run.commit: 7,
    Run.begin_epoch: 1,
    Run.roll: 1,
    Run.move_start: 1,
    Run.truncate: 2,
    Run.start_anew: 0.3,
}


@examples(80)
@given(seed=st.integers(0, 2**32))
def test_a_read_gives_what_the_list_says(seed: int) -> None:
    run = Run(seed)
    for operation in run.random.choices(list(OPERATIONS), list(OPERATIONS.values()), k=run.random.randrange(10, 60)):
        operation(run)
        run.check_reads()


def test_some_of_these_reads_are_served_from_memory() -> None:
    """The test above would prove little of it otherwise."""
    run = Run(1)
    for operation in run.random.choices(list(OPERATIONS), list(OPERATIONS.values()), k=300):
        operation(run)
        run.check_reads()
    assert run.served_from_memory > 20
