"""The state of producers against a naive model that keeps the whole log and looks through it for every question."""

from __future__ import annotations

from typing import NamedTuple

from hypothesis import settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from tests.unit.storage.producers import batch, checked, control_batch
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import Offset
from tidelog.simulation.disk import SimulatedDisk
from tidelog.storage.append import AppendRule
from tidelog.storage.checked_batches import CheckedBatch
from tidelog.storage.producer import NO_TRANSACTION, Duplicate, EndTransactionMarker, ProducerState
from tidelog.storage.producer_state import ProducerStateTable

PRODUCERS = st.integers(1, 3)
EPOCHS = st.integers(0, 2)
MODULUS = 2**31


class Written(NamedTuple):
    """A batch of the log. A marker has no sequence."""

    producer_id: int
    epoch: int
    first_sequence: int
    first_offset: int
    records: int
    transactional: bool
    marker: str | None = None

    @property
    def last_offset(self) -> int:
        return self.first_offset + self.records - 1

    @property
    def next_sequence(self) -> int:
        return (self.first_sequence + self.records) % MODULUS


class Model:
    """Answers every question from the list of batches."""

    def __init__(self) -> None:
        self.log: list[Written] = []

    @property
    def end(self) -> int:
        return self.log[-1].last_offset + 1 if self.log else 0

    def epoch(self, producer_id: int) -> int:
        return next((item.epoch for item in reversed(self.log) if item.producer_id == producer_id), -1)

    def batches(self, producer_id: int) -> list[Written]:
        """The producer's batches in its present epoch, which no other has interrupted, the oldest first."""
        found: list[Written] = []
        for item in reversed(self.log):
            if item.producer_id == producer_id:
                if item.epoch != self.epoch(producer_id):
                    break
                if item.marker is None:
                    found.append(item)
        return found[::-1]

    def open_since(self, producer_id: int) -> int | None:
        first = None
        for item in self.log:
            if item.producer_id == producer_id:
                if item.marker is not None:
                    first = None
                elif item.transactional and first is None:
                    first = item.first_offset
        return first

    def verdict(self, wanted: Written) -> ErrorCode | Duplicate | None:
        epoch, batches = self.epoch(wanted.producer_id), self.batches(wanted.producer_id)
        if wanted.epoch == epoch:
            for known in batches[-5:]:
                if (known.first_sequence, known.records) == (wanted.first_sequence, wanted.records):
                    return Duplicate(known.first_offset, known.last_offset, 0)  # type: ignore[arg-type]
        if wanted.epoch < epoch:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        if epoch >= 0:
            expected = batches[-1].next_sequence if wanted.epoch == epoch and batches else 0
            if wanted.first_sequence != expected:
                return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        if self.open_since(wanted.producer_id) is not None and not wanted.transactional:
            return ErrorCode.INVALID_TXN_STATE
        return None

    def first_unstable(self, high_watermark: int) -> int | None:
        firsts = [first for producer_id in (1, 2, 3) if (first := self.open_since(producer_id)) is not None]
        opened: dict[int, int] = {}
        for item in self.log:
            if item.marker is not None:
                first = opened.pop(item.producer_id, None)
                if first is not None and item.last_offset >= high_watermark:
                    firsts.append(first)
            elif item.transactional:
                opened.setdefault(item.producer_id, item.first_offset)
        return min(firsts, default=None)


class ProducerStateMachine(RuleBasedStateMachine):
    """Batches good and bad, markers, watermarks, snapshots, truncation and restart."""

    def __init__(self) -> None:
        super().__init__()
        self.disk = SimulatedDisk()
        self.disk.make_directory("/logs")
        self.model = Model()
        self.high_watermark = 0
        self.table = self.reopened()

    def reopened(self) -> ProducerStateTable:
        return ProducerStateTable(self.disk, "/logs", producer_id_expiration_ms=10**9)

    @rule(
        producer_id=PRODUCERS,
        bump=st.sampled_from([0, 0, 0, 1, -1]),
        skip=st.sampled_from([0, 0, 0, 0, 1, -1]),
        count=st.integers(1, 3),
        transactional=st.booleans(),
        again=st.integers(0, 8),
        wrap=st.booleans(),
    )
    def append(
        self, producer_id: int, bump: int, skip: int, count: int, transactional: bool, again: int, wrap: bool
    ) -> None:
        epoch = max(0, self.model.epoch(producer_id) + bump)
        batches = self.model.batches(producer_id)
        if again and again <= len(batches):
            # A retry of one of the last batches, the oldest of which are forgotten.
            known = batches[-again]
            sequence, count, transactional = known.first_sequence, known.records, known.transactional
        elif self.model.epoch(producer_id) < 0:
            sequence = MODULUS - 2 if wrap else 0
        else:
            sequence = (batches[-1].next_sequence if batches and bump == 0 else 0) + skip
            sequence %= MODULUS
        wanted = Written(producer_id, epoch, sequence, self.model.end, count, transactional)
        expected = self.model.verdict(wanted)

        answer = self.table.judge(self.batch(wanted), AppendRule.LEADER)

        if expected is None:
            self.take(wanted, answer)
        else:
            assert answer == expected

    @rule(producer_id=PRODUCERS, commit=st.booleans(), bump=st.sampled_from([0, 1]))
    def end_transaction(self, producer_id: int, commit: bool, bump: int) -> None:
        epoch = max(0, self.model.epoch(producer_id) + bump)
        wanted = Written(producer_id, epoch, -1, self.model.end, 1, True, "commit" if commit else "abort")
        opened = self.model.open_since(producer_id)

        answer = self.table.judge(self.batch(wanted), AppendRule.MARKER)

        unreplicated = dict(self.table.unreplicated)
        self.take(wanted, answer)
        if opened is not None:
            unreplicated[Offset(opened)] = Offset(wanted.first_offset)
        assert dict(self.table.unreplicated) == unreplicated

    def batch(self, wanted: Written) -> CheckedBatch:
        if wanted.marker is not None:
            marker = EndTransactionMarker(wanted.marker == "commit", 0, 0)
            return checked(control_batch(wanted.producer_id, epoch=wanted.epoch), marker=marker)
        return checked(
            batch(
                wanted.producer_id,
                epoch=wanted.epoch,
                sequence=wanted.first_sequence,
                count=wanted.records,
                transactional=wanted.transactional,
            )
        )

    def take(self, written: Written, judged: ProducerState | Duplicate | ErrorCode) -> None:
        assert isinstance(judged, ProducerState), judged
        opened = self.model.open_since(written.producer_id)
        aborted = self.table.take_in(judged, self.batch(written), written.first_offset)
        if written.marker == "abort" and opened is not None:
            others = [
                first
                for producer_id in (1, 2, 3)
                if producer_id != written.producer_id and (first := self.model.open_since(producer_id)) is not None
            ]
            stable = min(others, default=written.last_offset + 1)
            assert aborted == (written.producer_id, opened, written.first_offset, stable)
        else:
            assert aborted is None
        self.model.log.append(written)
        self.table.map_end_offset = Offset(self.model.end)

    @rule(distance=st.integers(0, 5))
    def move_high_watermark(self, distance: int) -> None:
        self.high_watermark = max(self.high_watermark, self.model.end - distance)
        self.table.on_high_watermark_updated(self.high_watermark)

    @rule(sync=st.booleans())
    def take_snapshot(self, sync: bool) -> None:
        self.table.take_snapshot(sync=sync)

    @rule(keep=st.integers(0, 20), restart=st.booleans())
    def truncate(self, keep: int, restart: bool) -> None:
        """Cut the log after some batches, and bring the state back from a snapshot and the batches behind it."""
        self.model.log = self.model.log[:keep]
        # As in Kafka, the log that is left is taken to be replicated.
        self.high_watermark = self.model.end
        if restart:
            self.table = self.reopened()
        self.table.truncate_and_reload(0, self.model.end, now_ms=0)
        self.table.on_high_watermark_updated(self.high_watermark)
        replayed_from = self.table.map_end_offset
        assert replayed_from <= self.model.end
        for item in self.model.log:
            if item.first_offset >= replayed_from:
                state = self.table.judge(self.batch(item), AppendRule.FOLLOWER)
                assert isinstance(state, ProducerState)
                self.table.take_in(state, self.batch(item), item.first_offset)
        self.table.map_end_offset = Offset(self.model.end)
        self.table.on_high_watermark_updated(self.high_watermark)
        # Of the last five batches only the newest is in a snapshot.
        self.model_knows_only_what_was_kept(replayed_from)

    def model_knows_only_what_was_kept(self, replayed_from: int) -> None:
        for producer_id in (1, 2, 3):
            state = self.table.producer(producer_id)
            kept = [known.last_offset for known in state.batches] if state is not None else []
            expected = [item.last_offset for item in self.model.batches(producer_id)][-5:]
            assert kept == expected[len(expected) - len(kept) :]
            assert not expected or kept
            assert [offset for offset in expected if offset >= replayed_from] == [
                offset for offset in kept if offset >= replayed_from
            ]
        # Duplicates older than what is kept are not looked for: start over with a log that says the same.
        if any(
            state is not None and len(state.batches) != len(self.model.batches(producer_id)[-5:])
            for producer_id in (1, 2, 3)
            for state in [self.table.producer(producer_id)]
        ):
            self.fill_up()

    def fill_up(self) -> None:
        """End what is open and begin new epochs, so that model and table remember the same batches again."""
        for producer_id in (1, 2, 3):
            if self.model.epoch(producer_id) >= 0:
                self.end_transaction(producer_id, commit=True, bump=1)

    @invariant()
    def agrees_with_the_model(self) -> None:
        assert self.table.first_unstable_offset == self.model.first_unstable(self.high_watermark)
        assert self.table.map_end_offset == self.model.end
        for producer_id in (1, 2, 3):
            state = self.table.producer(producer_id)
            if state is None:
                assert self.model.epoch(producer_id) < 0
                continue
            opened = self.model.open_since(producer_id)
            assert state.epoch == self.model.epoch(producer_id)
            assert state.transaction_first_offset == (NO_TRANSACTION if opened is None else opened)
            assert [(known.first_offset, known.last_offset) for known in state.batches] == [
                (item.first_offset, item.last_offset) for item in self.model.batches(producer_id)[-5:]
            ]


TestProducerState = ProducerStateMachine.TestCase
TestProducerState.settings = settings(stateful_step_count=40)
