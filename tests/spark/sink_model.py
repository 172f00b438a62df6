"""Clusters, tables and drivers for the sink's protocol, in memory: everything that can go wrong is a choice of the test's.

A driver runs batch after batch as Spark does: tasks write, each in a transaction of its own or into a staging place, then
`commit`; where that raises, `abort`, and the run is over. Before, in the middle of and after every effect it may die, fail, or
fall asleep and go on later, when another run has long taken its place. Transactions may time out, and tables may not take their
rows.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass, field

import msgspec

from tidelog.spark.errors import LostTransactionError, SinkError, UnfinishedError
from tidelog.spark.outputs.kind import OutputRefusedError, OutputUnreachableError
from tidelog.spark.outputs.staged import StagedOutput, Target
from tidelog.spark.sink.audit_entry import AuditEntry
from tidelog.spark.sink.sink_batch import BatchInput, BatchWork, TopicOutput
from tidelog.spark.sink.sink_effects import (
    AbortOrphans,
    Answer,
    CheckStaged,
    Discard,
    Effect,
    End,
    Ending,
    EndStaged,
    Held,
    Listing,
    ListOpen,
    OpenTransaction,
    Pin,
    Record,
    TakeOver,
    Warn,
)
from tidelog.spark.sink.sink_participant import (
    DecidingCluster,
    Participant,
    SinkIdentity,
    attempt_id,
    may_be_decided_at,
)
from tidelog.spark.sink.sink_protocol import abort, commit, recover
from tidelog.spark.sink.sink_state import SinkState
from tidelog.spark.sink.staged_ends import unended_by

IDENTITY = SinkIdentity("orders")
TASKS = 2
HOME = DecidingCluster("home", "home:9092")
"""The cluster of the decisions."""

Row = tuple[str, int, int]
"""Sink, batch and task."""

Choose = Callable[[int], int]
"""One of so many; 0 is that all goes well."""


class EndPart(EndStaged, frozen=True):
    """An end that stops half-way, of a kind whose ends are several steps."""

    steps: int = 0


@dataclass(frozen=True)
class Shape:
    """The sinks of a query: topics by the cluster that they are on, and names of tables."""

    topics: tuple[str, ...] = ("",)
    """An empty name is the cluster of the decisions."""
    tables: tuple[str, ...] = ()
    """`table`, `database` and `files` are what their names say; what follows a name tells two of a kind apart."""
    can_pin: bool = True

    @property
    def sinks(self) -> tuple[str, ...]:
        return (*(f"topic{each}" for each in self.topics), *self.tables)


@dataclass
class Transaction:
    producer_id: int
    epoch: int
    rows: list[Row]
    pinned_epoch: int | None = None
    is_open: bool = True

    @property
    def last_epoch(self) -> int:
        """Of whoever may end it."""
        return self.epoch if self.pinned_epoch is None else self.pinned_epoch


@dataclass
class Cluster:
    """Transactions, and the rows that committed ones have made visible."""

    can_pin: bool = True
    transactions: dict[str, Transaction] = field(default_factory=dict)
    endings: dict[tuple[str, int], Ending] = field(default_factory=dict)
    seen: list[Row] = field(default_factory=list)

    def write(self, name: str, rows: list[Row]) -> Participant:
        """A task attempt. What is open under its id is aborted, as InitProducerId does."""
        before = self.transactions.get(name)
        if before is not None:
            self.abort(name)
        number = len(self.transactions) if before is None else before.producer_id
        epoch = 0 if before is None else before.last_epoch + 1
        self.transactions[name] = Transaction(number, epoch, rows)
        return Participant.of(name, number, epoch, records=len(rows), partitions=[("out", 0)])

    def pin(self, participant: Participant) -> Participant | None:
        found = self.transactions[participant.transactional_id]
        if not found.is_open:
            return None
        found.pinned_epoch = found.last_epoch + 1
        if found.epoch != participant.producer_epoch:
            return None
        return msgspec.structs.replace(participant, producer_epoch=found.pinned_epoch)

    def seen_open(self, participant: Participant) -> Participant | None:
        found = self.transactions[participant.transactional_id]
        return participant if found.is_open and found.epoch == participant.producer_epoch else None

    def end(self, participant: Participant) -> Ending:
        name, epoch = participant.transactional_id, participant.producer_epoch
        found = self.transactions[name]
        if found.last_epoch != epoch:
            return Ending.UNKNOWN
        if found.is_open:
            self._end(name, is_committed=True)
        return self.endings[name, epoch]

    def abort(self, name: str) -> bool:
        """A time-out, or somebody who cleans up."""
        is_open = name in self.transactions and self.transactions[name].is_open
        if is_open:
            self._end(name, is_committed=False)
        return is_open

    def _end(self, name: str, *, is_committed: bool) -> None:
        found = self.transactions[name]
        found.is_open = False
        self.endings[name, found.last_epoch] = Ending.COMMITTED if is_committed else Ending.ABORTED
        if is_committed:
            self.seen += found.rows
            assert len(set(self.seen)) == len(self.seen), "a row is there twice"

    @property
    def open_names(self) -> list[str]:
        return [name for name, each in self.transactions.items() if each.is_open]


@dataclass
class Table:
    """As Delta and Iceberg have it: it knows its last batch, and what is staged becomes its own in one step."""

    staged: dict[str, list[Row]] = field(default_factory=dict)
    """By the path of a manifest."""
    ended: dict[int, str] = field(default_factory=dict)
    seen: list[Row] = field(default_factory=list)

    def stage(self, path: str, rows: list[Row]) -> None:
        self.staged[path] = rows

    def end(self, path: str, steps: int | None = None) -> None:
        """All of it, or its first steps."""
        if not self._has(path):
            assert path in self.staged, "what is decided was discarded"
            self._count(path, steps)

    def discard(self, path: str) -> None:
        assert path not in self.ended.values(), "what counts is discarded"
        self.staged.pop(path, None)

    @property
    def parts(self) -> range:
        """How many steps of an end may be made before it is cut."""
        return range(0)

    def _has(self, path: str) -> bool:
        batch_id = int(path.split("/")[1])
        if batch_id in self.ended:
            assert self.ended[batch_id] == path, "a batch is ended from two manifests"
        return batch_id <= max(self.ended, default=-1)

    def _count(self, path: str, steps: int | None) -> None:
        self.ended[int(path.split("/")[1])] = path
        self.seen += self.staged[path]


class Database(Table):
    """Rows are merged in one transaction, and what was staged is cleared then: an end that is asked again finds none of it."""

    @property
    def parts(self) -> range:
        return range(1, 2)

    def _count(self, path: str, steps: int | None) -> None:
        super()._count(path, steps)
        if steps is None:
            del self.staged[path]

    def end(self, path: str, steps: int | None = None) -> None:
        super().end(path, steps)
        if steps is None:
            self.staged.pop(path, None)

    def discard(self, path: str) -> None:
        # The table has rows of its own by then.
        self.staged.pop(path, None)


@dataclass
class Files(Table):
    """Each file is renamed for itself, and seen from then on; that all of them are is written down at the end."""

    renamed: dict[str, int] = field(default_factory=dict)
    """How many files of a manifest."""

    @property
    def parts(self) -> range:
        return range(1, TASKS + 1)

    def _count(self, path: str, steps: int | None) -> None:
        # A rename that was made is found made.
        done = self.renamed.get(path, 0)
        files = self.staged[path][:steps]
        self.seen += files[done:]
        self.renamed[path] = max(done, len(files))
        if steps is None:
            self.ended[int(path.split("/")[1])] = path

    def discard(self, path: str) -> None:
        assert path not in self.renamed, "what is seen already is discarded"
        super().discard(path)


_KINDS: dict[str, type[Table]] = {"table": Table, "database": Database, "files": Files}


class Model:
    """Everything outside of drivers: clusters by name, tables, and the topic of decisions."""

    def __init__(self, shape: Shape = Shape(), cluster_id: str = HOME.cluster_id) -> None:  # noqa: B008 - immutable
        self.shape = shape
        self.cluster_id = cluster_id
        self.clusters = {each: Cluster(shape.can_pin) for each in ("", *shape.topics)}
        self.tables = {each: _KINDS[each.rstrip("0123456789")]() for each in shape.tables}
        self.states: list[SinkState | None] = []
        self.audit: list[AuditEntry] = []
        self.warnings: list[str] = []
        self.decider_epoch = 0
        self.away: set[str] = set()
        """Clusters that do not answer who lists transactions."""

    def seen_from(self, cluster: str) -> Model:
        """The same with another cluster as that of the decisions: a person who asks at the wrong one."""
        found = Model(Shape((), ()), cluster)
        found.clusters = {"": self.clusters[cluster]}
        return found

    @property
    def newest(self) -> SinkState | None:
        return self.states[-1] if self.states else None

    @property
    def seen(self) -> list[Row]:
        places: list[Cluster | Table] = [*self.clusters.values(), *self.tables.values()]
        return [row for each in places for row in each.seen]

    @property
    def open_names(self) -> list[tuple[str, str]]:
        return [(cluster, name) for cluster, each in self.clusters.items() for name in each.open_names]

    def work(self, run: str, batch_id: int, *, source: str = "") -> BatchWork:
        """Every task at every sink, and one attempt that nobody hears of. `source` tells inputs apart."""
        topics = []
        for cluster in self.shape.topics:
            sink = f"topic{cluster}"
            decided_at = HOME if cluster else None
            written = [
                self._write(cluster, attempt_id(IDENTITY, run, task, 0, 0, decided_at), [(sink, batch_id, task)])
                for task in range(TASKS)
            ]
            self._write(cluster, attempt_id(IDENTITY, run, 0, 0, 1, decided_at), [(sink, batch_id, 0)])
            target = Target("topic", cluster) if cluster else None
            topics.append(TopicOutput(sink, target, tuple(written)))
        staged = []
        for name, table in self.tables.items():
            path = f"{name}/{batch_id}/{run}"
            table.stage(path, [(name, batch_id, task) for task in range(TASKS)])
            staged.append(StagedOutput(name, Target("files", name), path, 1, "", TASKS, 0))
        given = BatchInput(f"{batch_id}{source}", TASKS, batch_id)
        return BatchWork(batch_id, given, tuple(topics), tuple(staged))

    def _write(self, cluster: str, name: str, rows: list[Row]) -> Participant:
        named = self.newest.named_ids if self.newest is not None else ()
        assert name not in named, "a task uses the id of a decided transaction"
        return self.clusters[cluster].write(name, rows)

    def perform(self, effect: Effect, taken_over: int) -> Answer:
        """`taken_over` is the decider's epoch of whoever asks."""
        match effect:
            case TakeOver():
                self.decider_epoch += 1
                return self.newest
            case Record(state, audit):
                if taken_over != self.decider_epoch:
                    return False
                self.states.append(state)
                self.audit += [] if audit is None else [audit]
                return True
            case CheckStaged(staged):
                return ("",) * len(staged)
            case Pin(topics):
                return tuple(self._held(each) for each in topics)
            case EndPart(output, steps):
                self.tables[output.sink].end(output.manifest_path, steps)
                return None
            case EndStaged(output):
                self.tables[output.sink].end(output.manifest_path)
                return None
            case End(topics):
                return tuple(self._on(topic.cluster).end(each) for topic in topics for each in topic.participants)
            case Discard(staged):
                for each in staged:
                    self.tables[each.sink].discard(each.manifest_path)
                return None
            case ListOpen(age_ms_min=age_ms_min) if age_ms_min:
                return Listing()
            case ListOpen(clusters):
                found = tuple(
                    OpenTransaction(name, self._on(cluster).transactions[name].producer_id, cluster)
                    for cluster in clusters
                    if cluster is None or cluster.place not in self.away
                    for name in self._on(cluster).open_names
                    if may_be_decided_at(self.cluster_id, name)
                )
                return Listing(found, tuple(each for each in clusters if each is not None and each.place in self.away))
            case AbortOrphans(orphans):
                return tuple(
                    each.transactional_id for each in orphans if self._on(each.cluster).abort(each.transactional_id)
                )
            case Warn(text):
                self.warnings.append(text)
                return None

    def _held(self, topic: TopicOutput) -> Held:
        cluster = self._on(topic.cluster)
        hold = cluster.pin if cluster.can_pin else cluster.seen_open
        return Held(tuple(map(hold, topic.participants)), has_timeout=not cluster.can_pin)

    def _on(self, target: Target | None) -> Cluster:
        return self.clusters["" if target is None else target.place]

    def run(self, steps: Generator[Effect, Answer, object]) -> None:
        """All of it, without anything that goes wrong."""
        taken_over = -1
        try:
            effect = next(steps)
            while True:
                answer = self.perform(effect, taken_over)
                if isinstance(effect, TakeOver):
                    taken_over = self.decider_epoch
                effect = steps.send(answer)
        except StopIteration:
            return


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
            work = world.model.work(self.run, batch_id)
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
    """The model, Spark's checkpoint, one driver that runs and others that sleep."""

    def __init__(
        self,
        choose: Choose,
        shape: Shape = Shape(),  # noqa: B008 - immutable
        *,
        batches: int = 2,
        faults: int = 0,
        sleepers: int = 0,
        timeouts: int = 0,
        refusals: int = 0,
        strangers: int = 0,
    ) -> None:
        """How often something of each kind may go wrong. Each is chosen for, wherever it can be."""
        self._choose = choose
        self._was_decided = False
        self._faults_left = faults
        self._sleepers_left = sleepers
        self._timeouts_left = timeouts
        self._refusals_left = refusals
        self._strangers_left = strangers
        self._sleeping: list[Driver] = []
        self._runs = 0
        self.model = Model(shape)
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
        self._faults_left = self._sleepers_left = self._timeouts_left = self._refusals_left = self._strangers_left = 0
        self.checkpoint -= 1
        driver = self._new_driver()
        while driver.pending is not None:
            self._step(driver)

    @property
    def _is_stuck(self) -> bool:
        """A part of a decided batch is lost: nobody goes on."""
        return any(isinstance(each, LostTransactionError) for each in self.errors)

    def check(self) -> None:
        model = self.model
        rows = [
            (sink, batch_id, task)
            for sink in model.shape.sinks
            for batch_id in range(self.batches)
            for task in range(TASKS)
        ]
        if self._is_stuck:
            assert self._was_decided, "only a time-out of what is decided can lose a row"
            assert set(model.seen) < set(rows)
            return
        assert sorted(model.seen) == sorted(rows), model.seen
        assert model.open_names == []
        newest = model.newest
        assert newest is not None
        assert newest.decision is None
        assert newest.finished_batch_id == self.batches - 1
        assert model.warnings == []

    def _new_driver(self) -> Driver:
        self._runs += 1
        return Driver(self, f"run{self._runs}")

    def _step(self, driver: Driver) -> bool:
        """One effect, and what goes wrong with it. Whether the driver is still there."""
        effect = driver.pending
        assert effect is not None
        self._time_out(effect)
        self._recover_elsewhere()
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
        if self._refusals_left and isinstance(effect, CheckStaged | EndStaged) and (kind := self._choose(4)):
            self._refusals_left -= 1
            if isinstance(effect, EndStaged):
                # Refused, not reached, or an error that no kind should raise.
                errors = (OutputRefusedError("full"), OutputUnreachableError("away"), ZeroDivisionError("odd"))
                driver.answer(unended_by(errors[kind - 1]))
            else:
                driver.answer(("",) * (len(effect.staged) - 1) + ("it is full",))
            return True
        driver.answer(self._perform(driver, effect))
        return True

    def _time_out(self, effect: Effect) -> None:
        model = self.model
        if not self._timeouts_left:
            return
        names = [
            each for each in model.open_names if model.clusters[each[0]].transactions[each[1]].pinned_epoch is None
        ]
        if names and (chosen := self._choose(1 + len(names))):
            self._timeouts_left -= 1
            cluster, name = names[chosen - 1]
            # A decision that is on its way counts: its transactions were open when they were looked at.
            states = [model.newest, *([effect.state] if isinstance(effect, Record) else [])]
            self._was_decided |= any(each is not None and name in each.named_ids for each in states)
            model.clusters[cluster].abort(name)

    def _recover_elsewhere(self) -> None:
        """Somebody asks for a recovery at a cluster that has not the decisions, and sees readers wait."""
        others = [each for each in self.model.clusters if each]
        if others and self._strangers_left and (chosen := self._choose(1 + len(others))):
            self._strangers_left -= 1
            self.model.seen_from(others[chosen - 1]).run(recover(IDENTITY, "stranger"))

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
            case End(topics) | Pin(topics):
                parts += [type(effect)((each,)) for each in _singly(topics)]
            case EndStaged(output):
                parts += [EndPart(output, steps) for steps in self.model.tables[output.sink].parts]
            case AbortOrphans(orphans):
                parts += [AbortOrphans((each,)) for each in orphans if len(orphans) > 1]
            case Discard(staged):
                parts += [Discard((each,)) for each in staged if len(staged) > 1]
            case ListOpen() | CheckStaged() | Warn():
                # Looking changes nothing.
                return [None]
        return parts

    def _perform(self, driver: Driver, effect: Effect) -> Answer:
        answer = self.model.perform(effect, driver.decider_epoch)
        if isinstance(effect, TakeOver):
            driver.decider_epoch = self.model.decider_epoch
        return answer


def _singly(topics: Iterable[TopicOutput]) -> list[TopicOutput]:
    """One participant at a time."""
    return [
        msgspec.structs.replace(topic, participants=(each,))
        for topic in topics
        for each in topic.participants
        if len(topic.participants) > 1
    ]
