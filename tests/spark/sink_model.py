"""A cluster and its drivers for the sink's protocol, in memory: everything that can go wrong is a choice of the test's.

A driver runs batch after batch as Spark does: tasks write, each in a transaction of its own, then `commit`; where that raises,
`abort`, and the run is over. Before, in the middle of and after every effect it may die, fail, or fall asleep and go on later,
when another run has long taken its place. Transactions may time out.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass, field

from tidelog.spark.errors import LostTransactionError, SinkError, UnfinishedError
from tidelog.spark.sink.sink_batch import BatchWork
from tidelog.spark.sink.sink_participant import Participant, SinkIdentity, transactional_id
from tidelog.spark.sink.sink_protocol import (
    AbortOrphans,
    Answer,
    Effect,
    End,
    Ending,
    ListOpen,
    OpenTransaction,
    Record,
    TakeOver,
    abort,
    commit,
)
from tidelog.spark.sink.sink_state import SinkState

IDENTITY = SinkIdentity("orders")
TASKS = 2

Row = tuple[int, int]
"""Batch and task."""

Choose = Callable[[int], int]
"""One of so many; 0 is that all goes well."""


@dataclass
class Transaction:
    producer_id: int
    epoch: int
    rows: list[Row]
    is_open: bool = True


@dataclass
class Cluster:
    """Transactions, the rows that committed ones have made visible, and the topic of decisions."""

    transactions: dict[str, Transaction] = field(default_factory=dict)
    endings: dict[tuple[str, int], Ending] = field(default_factory=dict)
    seen: list[Row] = field(default_factory=list)
    states: list[SinkState] = field(default_factory=list)
    decider_epoch: int = 0

    def write(self, name: str, rows: list[Row]) -> Participant | None:
        """A task attempt. None where the id is not free: its transaction has not ended."""
        before = self.transactions.get(name)
        if before is not None and before.is_open:
            return None
        number = len(self.transactions) if before is None else before.producer_id
        epoch = 0 if before is None else before.epoch + 1
        self.transactions[name] = Transaction(number, epoch, rows)
        return Participant.of(name, number, epoch, records=len(rows), partitions=[("out", 0)])

    def end(self, participant: Participant, *, is_committed: bool) -> Ending:
        name, epoch = participant.transactional_id, participant.producer_epoch
        found = self.transactions[name]
        if found.is_open and found.epoch == epoch:
            self._end(name, is_committed=is_committed)
        return self.endings.get((name, epoch), Ending.UNKNOWN) if found.epoch == epoch else Ending.UNKNOWN

    def abort(self, name: str) -> None:
        """A time-out, or somebody who cleans up."""
        if self.transactions[name].is_open:
            self._end(name, is_committed=False)

    def _end(self, name: str, *, is_committed: bool) -> None:
        found = self.transactions[name]
        found.is_open = False
        self.endings[name, found.epoch] = Ending.COMMITTED if is_committed else Ending.ABORTED
        if is_committed:
            self.seen += found.rows
            assert len(set(self.seen)) == len(self.seen), "a row is there twice"

    @property
    def open_names(self) -> list[str]:
        return [name for name, each in self.transactions.items() if each.is_open]


class Driver:
    """One run of the query. `pending` is what it wants done next; None once it is over."""

    def __init__(self, world: World, run: str) -> None:
        self.run = run
        self.decider_epoch = -1
        self._world = world
        self._steps = self._batches()
        self.pending: Effect | None = next(self._steps, None)

    def answer(self, answer: Answer) -> None:
        try:
            self.pending = self._steps.send(answer)
        except StopIteration:
            self.pending = None

    def fail(self) -> None:
        """The effect was not done, or its answer did not come."""
        try:
            self.pending = self._steps.throw(UnfinishedError("the cluster was not reached"))
        except StopIteration:
            self.pending = None

    def _batches(self) -> Generator[Effect, Answer, None]:
        world = self._world
        batch_id = world.checkpoint
        while batch_id < world.batches:
            work = BatchWork.of_topic(batch_id, world.tasks(self.run, batch_id))
            try:
                yield from commit(IDENTITY, self.run, work)
            except SinkError as error:
                world.errors.append(error)
                try:
                    yield from abort(IDENTITY, self.run, work)
                except SinkError as second:
                    world.errors.append(second)
                return
            batch_id += 1
            world.checkpoint = max(world.checkpoint, batch_id)


class World:
    """The cluster, Spark's checkpoint, one driver that runs and others that sleep."""

    def __init__(
        self, choose: Choose, *, batches: int = 2, faults: int = 0, sleepers: int = 0, timeouts: int = 0
    ) -> None:
        """How often something of each kind may go wrong. Each is chosen for, wherever it can be."""
        self._choose = choose
        self._was_decided = False
        self._faults_left = faults
        self._sleepers_left = sleepers
        self._timeouts_left = timeouts
        self._sleeping: list[Driver] = []
        self._runs = 0
        self.cluster = Cluster()
        self.batches = batches
        self.checkpoint = 0
        self.errors: list[SinkError] = []

    def run_to_the_end(self) -> None:
        """Runs of the query, one after the other, until every batch is written, and once more for what sleepers have left."""
        for _ in range(20):
            driver = self._new_driver()
            while driver.pending is not None and self._step(driver):
                self._let_others()
            if self._is_stuck:
                return
            if self.checkpoint == self.batches:
                break
        assert self.checkpoint == self.batches, f"the query does not come to its end: {self.errors}"
        while self._sleeping:
            self._wake(self._sleeping.pop())
        self._faults_left = self._sleepers_left = self._timeouts_left = 0
        self.checkpoint -= 1
        driver = self._new_driver()
        while driver.pending is not None:
            self._step(driver)

    @property
    def _is_stuck(self) -> bool:
        """A part of a decided batch is lost: nobody goes on."""
        return any(isinstance(each, LostTransactionError) for each in self.errors)

    def check(self) -> None:
        rows = {(batch_id, task) for batch_id in range(self.batches) for task in range(TASKS)}
        if self._is_stuck:
            assert self._was_decided, "only a time-out of what is decided can lose a row"
            assert set(self.cluster.seen) < rows
            return
        assert sorted(self.cluster.seen) == sorted(rows), self.cluster.seen
        assert self.cluster.open_names == []
        newest = self.cluster.states[-1]
        assert newest.decision is None
        assert newest.finished_batch_id == self.batches - 1

    def tasks(self, run: str, batch_id: int) -> list[Participant]:
        """Every task, and one attempt that nobody hears of. Ids are used again where their last transaction has ended."""
        participants: list[Participant] = []
        number = 0
        for task in range(TASKS):
            while True:
                name = transactional_id(IDENTITY, run, "worker", number)
                participant = self.cluster.write(name, [(batch_id, task)])
                number += 1
                if participant is not None:
                    participants.append(participant)
                    break
        self.cluster.write(transactional_id(IDENTITY, run, f"lost{batch_id}", 0), [(batch_id, 0)])
        return participants

    def _new_driver(self) -> Driver:
        self._runs += 1
        return Driver(self, f"run{self._runs}")

    def _step(self, driver: Driver) -> bool:
        """One effect, and what goes wrong with it. Whether the driver is still there."""
        effect = driver.pending
        assert effect is not None
        self._time_out(effect)
        parts = self._parts(effect)
        # Before it, in the middle, or after it; and then the driver dies, is told of a failure, or sleeps.
        if self._faults_left and (fault := self._choose(1 + 2 * len(parts))):
            self._faults_left -= 1
            part, is_told = parts[(fault - 1) // 2], fault % 2 == 0
            if part is not None:
                self._perform(driver, part)
            if is_told:
                driver.fail()
            return is_told
        if self._sleepers_left and self._choose(2):
            self._sleepers_left -= 1
            self._sleeping.append(driver)
            return False
        driver.answer(self._perform(driver, effect))
        return True

    def _time_out(self, effect: Effect) -> None:
        if self._timeouts_left and (names := self.cluster.open_names) and (chosen := self._choose(1 + len(names))):
            self._timeouts_left -= 1
            name = names[chosen - 1]
            # A decision that is on its way counts: its transactions were open when they were looked at.
            states = [*self.cluster.states[-1:], *([effect.state] if isinstance(effect, Record) else [])]
            self._was_decided |= any(name in each.named_ids for each in states)
            self.cluster.abort(name)

    def _let_others(self) -> None:
        if self._sleeping and self._choose(2):
            self._wake(self._sleeping.pop())

    def _wake(self, driver: Driver) -> None:
        """It goes on as if nothing had been, for some effects or to its end."""
        while driver.pending is not None:
            if self._sleepers_left and self._choose(2):
                self._sleepers_left -= 1
                self._sleeping.append(driver)
                return
            driver.answer(self._perform(driver, driver.pending))

    def _parts(self, effect: Effect) -> list[Effect | None]:
        """How much of an effect may be done: nothing, some, all."""
        parts: list[Effect | None] = [None, effect]
        match effect:
            case End(participants, is_committed):
                parts += [End((each,), is_committed) for each in participants if len(participants) > 1]
            case AbortOrphans(names):
                parts += [AbortOrphans((each,)) for each in names if len(names) > 1]
            case ListOpen():
                # Looking changes nothing.
                return [None]
        return parts

    def _perform(self, driver: Driver, effect: Effect) -> Answer:
        cluster = self.cluster
        match effect:
            case TakeOver():
                cluster.decider_epoch += 1
                driver.decider_epoch = cluster.decider_epoch
                return cluster.states[-1] if cluster.states else None
            case Record(state):
                if driver.decider_epoch != cluster.decider_epoch:
                    return False
                cluster.states.append(state)
                return True
            case End(participants, is_committed):
                return tuple(cluster.end(each, is_committed=is_committed) for each in participants)
            case ListOpen(age_ms_min=age_ms_min) if age_ms_min:
                return ()
            case ListOpen():
                return tuple(
                    OpenTransaction(each, cluster.transactions[each].producer_id) for each in cluster.open_names
                )
            case AbortOrphans(names):
                for each in names:
                    cluster.abort(each)
                return names
