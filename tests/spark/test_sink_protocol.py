"""The sink's protocol on a cluster in memory: whatever dies, fails, sleeps or times out, each row counts once."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest
from hypothesis import given, settings, strategies as st

from tests.spark.sink_model import IDENTITY, Model, Shape, World
from tidelog.spark.errors import (
    BatchInputError,
    OutputStoppedError,
    SinkError,
    SupersededError,
    UndecidedError,
    UnfinishedError,
)
from tidelog.spark.outputs.staged import StagedOutput, Target
from tidelog.spark.sink.audit_entry import (
    AuditEntry,
    ReplayedWith,
    SinkAudit,
    decode_audit,
    decode_audit_key,
    encode_audit,
    encode_audit_key,
)
from tidelog.spark.sink.sink_batch import BatchInput, BatchWork, ReplayCheck, TopicOutput
from tidelog.spark.sink.sink_effects import (
    AbortOrphans,
    Answer,
    CheckStaged,
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
    Steps,
    T,
    TakeOver,
    Unended,
)
from tidelog.spark.sink.sink_participant import Participant, SinkIdentity, attempt_id, transactional_id
from tidelog.spark.sink.sink_protocol import STRANGER_AGE_MS_MAX, TAKEOVERS_MAX, abort, commit, recover
from tidelog.spark.sink.sink_state import (
    SUPERSEDED_MAX,
    Decision,
    FinishedBatch,
    SinkState,
    decode_key,
    decode_state,
    encode_key,
    encode_state,
)


class Choices:
    """A sequence of choices, and the next one after it: every way in turn."""

    def __init__(self, taken: list[int]) -> None:
        self._taken = taken
        self._path: list[tuple[int, int]] = []

    def __call__(self, of: int) -> int:
        chosen = self._taken[len(self._path)] if len(self._path) < len(self._taken) else 0
        self._path.append((chosen, of))
        return chosen

    def next(self) -> Choices | None:
        path = list(self._path)
        while path and path[-1][0] == path[-1][1] - 1:
            path.pop()
        return Choices([chosen for chosen, _ in path[:-1]] + [path[-1][0] + 1]) if path else None


TOPIC = Shape()
UNPINNED = Shape(can_pin=False)
TABLE = Shape((), ("table",))
FILES = Shape((), ("files",))
UNPINNED_TABLE = Shape(("",), ("table",), can_pin=False)
ALL = Shape(("",), ("table", "database"))
CLUSTERS = Shape(("", "other:9092"))
CLUSTERS_TABLE = Shape(("", "other:9092"), ("table",))
EVERY = {
    "topic": TOPIC,
    "unpinned": UNPINNED,
    "table": TABLE,
    "database": Shape((), ("database",)),
    "files": FILES,
    "unpinned table": UNPINNED_TABLE,
    "unpinned files": Shape(("",), ("files",), can_pin=False),
    "topic and database": Shape(("",), ("database",)),
    "topic and files": Shape(("",), ("files",)),
    "two tables": Shape((), ("table1", "table2")),
    "two databases": Shape((), ("database1", "database2")),
    "two of files": Shape((), ("files1", "files2")),
    "table and database": Shape((), ("table", "database")),
    "table and files": Shape((), ("table", "files")),
    "database and files": Shape((), ("database", "files")),
    "all": ALL,
    "clusters": CLUSTERS,
    "clusters and table": CLUSTERS_TABLE,
}

every_shape = pytest.mark.parametrize("shape", EVERY.values(), ids=EVERY)


def in_every_way(
    shape: Shape,
    *,
    batches: int,
    faults: int = 0,
    sleepers: int = 0,
    timeouts: int = 0,
    refusals: int = 0,
    strangers: int = 0,
) -> int:
    """A query with everything that may go wrong; how many histories there are."""
    count = 0
    choices: Choices | None = Choices([])
    while choices is not None:
        world = World(
            choices,
            shape,
            batches=batches,
            faults=faults,
            sleepers=sleepers,
            timeouts=timeouts,
            refusals=refusals,
            strangers=strangers,
        )
        world.run_to_the_end()
        world.check()
        count += 1
        choices = choices.next()
    return count


@every_shape
def test_each_row_counts_once_wherever_a_driver_dies_or_fails(shape: Shape) -> None:
    assert in_every_way(shape, batches=2, faults=1) > 40


# Two clusters alone are the same with a table less, and take as long.
@pytest.mark.parametrize("name", [each for each in EVERY if each != "clusters"])
def test_each_row_counts_once_wherever_the_driver_after_it_dies_too(name: str) -> None:
    assert in_every_way(EVERY[name], batches=1, faults=2) > 500


@every_shape
def test_each_row_counts_once_wherever_a_driver_sleeps_while_another_takes_over(shape: Shape) -> None:
    assert in_every_way(shape, batches=2, sleepers=1) > 100


@pytest.mark.parametrize("shape", [TOPIC, TABLE, FILES], ids=["topic", "table", "files"])
def test_each_row_counts_once_wherever_a_driver_dies_beside_one_that_sleeps(shape: Shape) -> None:
    assert in_every_way(shape, batches=1, sleepers=1, faults=1) > 500


@pytest.mark.parametrize("name", ["topic", "unpinned", "unpinned table", "all", "clusters and table"])
def test_a_time_out_never_doubles_a_row_and_never_loses_one_silently(name: str) -> None:
    assert in_every_way(EVERY[name], batches=1, faults=1, timeouts=1) > 1000


@pytest.mark.parametrize("name", ["table", "two tables", "database and files", "all"])
def test_each_row_counts_once_where_a_table_does_not_take_it_at_first(name: str) -> None:
    assert in_every_way(EVERY[name], batches=1, faults=1, refusals=1) > 200


def test_each_row_counts_once_where_somebody_recovers_at_a_cluster_that_has_not_the_decisions() -> None:
    assert in_every_way(CLUSTERS, batches=1, faults=1, strangers=1) > 500


@given(st.data())
@settings(max_examples=100)
def test_each_row_counts_once_in_long_histories(data: st.DataObject) -> None:
    def choose(of: int) -> int:
        # Most steps go well, or no history would be long.
        return data.draw(st.one_of(st.just(0), st.just(0), st.integers(0, of - 1)))

    world = World(
        choose,
        data.draw(st.sampled_from(list(EVERY.values()))),
        faults=3,
        sleepers=3,
        timeouts=1,
        refusals=1,
        strangers=1,
    )
    world.run_to_the_end()
    world.check()


# A batch is known again by its input.


def test_a_checkpoint_that_is_one_batch_old_is_an_error_and_loses_nothing_in_silence() -> None:
    model = Model()
    for batch_id in range(2):
        model.run(commit(IDENTITY, "run1", model.work("run1", batch_id)))

    # Batch 1 comes again, and Spark has put more into it since.
    work = model.work("run2", 1, source=" and more")
    with pytest.raises(
        BatchInputError, match=r"batch 1 of orders is written already, and from other input.*checkpoint"
    ):
        model.run(commit(IDENTITY, "run2", work))
    model.run(abort(IDENTITY, "run2", work))

    assert len(model.seen) == 4
    assert model.open_names == []


def test_two_writes_under_one_version_are_told_apart_by_their_rows() -> None:
    model = Model()
    first, second = BatchInput(None, 500, 11), BatchInput(None, 500, 22)
    model.run(commit(IDENTITY, "run1", msgspec.structs.replace(model.work("run1", 7), input=first)))

    def again(given: BatchInput, check: ReplayCheck) -> None:
        work = msgspec.structs.replace(model.work("run2", 7), input=given, replay_check=check)
        try:
            model.run(commit(IDENTITY, "run2", work))
        finally:
            model.run(abort(IDENTITY, "run2", work))

    again(first, ReplayCheck.CHECKSUM)
    with pytest.raises(BatchInputError, match=r"with 500 rows, and this one has 500, or others.*txnAppId.*replayCheck"):
        again(second, ReplayCheck.CHECKSUM)
    again(second, ReplayCheck.COUNT)
    with pytest.raises(BatchInputError):
        again(BatchInput(None, 501, 11), ReplayCheck.COUNT)
    again(BatchInput(None, 501, 11), ReplayCheck.NONE)

    assert len(model.seen) == 2
    assert model.open_names == []
    assert model.warnings == []


def test_two_runs_from_copies_of_one_checkpoint_do_not_take_the_others_batch_for_theirs() -> None:
    model = Model(ALL)
    model.run(commit(IDENTITY, "run1", model.work("run1", 0)))
    model.run(commit(IDENTITY, "run1", model.work("run1", 1, source=" of the one")))

    work = model.work("run2", 1, source=" of the other")
    with pytest.raises(BatchInputError):
        model.run(commit(IDENTITY, "run2", work))
    model.run(abort(IDENTITY, "run2", work))
    with pytest.raises(SupersededError):
        model.run(commit(IDENTITY, "run1", model.work("run1", 2)))

    assert len(model.seen) == 4 * 3
    assert [each for each in model.tables["table"].staged if "run2" in each] == []


def test_a_replay_with_other_rows_from_the_same_input_is_recorded_and_told() -> None:
    model = Model()
    entry = AuditEntry("orders", "orders", "run1", 0, (), "0", (SinkAudit("topic", "topic", "out", 2, 0),), "1", 5)
    model.run(commit(IDENTITY, "run1", msgspec.structs.replace(model.work("run1", 0), audit=entry), now_ms=lambda: 7))
    other = BatchInput("0", 3, 1)
    again = msgspec.structs.replace(model.work("run2", 0), input=other, audit=entry)

    model.run(commit(IDENTITY, "run2", again, now_ms=lambda: 9))

    assert len(model.seen) == 2
    assert model.newest is not None
    assert model.newest.finished == FinishedBatch(0, BatchInput("0", 2, 0), replayed_with=other)
    assert model.warnings == [
        "batch 0 of orders is a replay of the same input, but had 2 rows then and 3 now, or others: what was written first counts"
    ]
    assert model.audit == [
        msgspec.structs.replace(entry, decided_ms=7, finished_ms=7),
        msgspec.structs.replace(entry, sinks=(), finished_ms=9, replayed_with=ReplayedWith(3, 1)),
    ]
    assert [decode_audit(encode_audit(each)) for each in model.audit] == model.audit
    assert decode_audit_key(encode_audit_key(entry)) == ("orders", 0)


def test_a_batch_that_version_1_has_finished_is_known_by_its_number_and_that_is_told() -> None:
    model = Model()
    model.states.append(SinkState(IDENTITY.prefix, "run1", finished=FinishedBatch(41)))

    model.run(commit(IDENTITY, "run2", model.work("run2", 41)))

    assert model.seen == []
    assert [each for each in model.warnings if "its number alone" in each] == model.warnings != []


def test_what_version_1_has_decided_is_finished_and_then_the_next_batch_is_known_by_its_input() -> None:
    model = Model()
    before = model.work("run1", 5)
    model.states.append(
        SinkState(IDENTITY.prefix, "run1", finished=FinishedBatch(4)).decided(Decision(5, topics=before.topics))
    )

    model.run(commit(IDENTITY, "run2", model.work("run2", 5)))
    model.run(commit(IDENTITY, "run2", model.work("run2", 6)))

    assert sorted(model.seen) == [("topic", batch_id, task) for batch_id in (5, 6) for task in range(2)]
    assert model.newest is not None
    assert model.newest.finished is not None
    assert model.newest.finished.input == BatchInput("6", 2, 6)


# Staged outputs.


def answered(steps: Steps[T], model: Model, answers: Callable[[Effect], Answer]) -> T:
    """Run steps on a model, but for the effects that `answers` has an answer to."""
    taken_over = -1
    try:
        effect = next(steps)
        while True:
            given = answers(effect)
            answer = model.perform(effect, taken_over) if given is None else given
            taken_over = model.decider_epoch if isinstance(effect, TakeOver) else taken_over
            effect = steps.send(answer)
    except StopIteration as done:
        value: T = done.value
        return value


def full(effect: Effect) -> Answer:
    """The database takes nothing."""
    is_it = isinstance(effect, EndStaged) and effect.output.sink == "database"
    return Unended("it is full", is_refused=True) if is_it else None


def test_a_sink_that_refuses_what_is_decided_stops_the_query_until_it_is_skipped() -> None:
    model = Model(ALL)
    work = model.work("run1", 0)
    sentence = (
        r"batch 0 of orders is decided, but its sink database \(database\) refuses its 2 rows, which are staged in "
        r"database/0/run1: it is full; .*`tidelog pipeline recover orders --skip-sink database`"
    )

    with pytest.raises(OutputStoppedError, match=sentence):
        answered(commit(IDENTITY, "run1", work), model, full)
    with pytest.raises(OutputStoppedError):
        answered(abort(IDENTITY, "run1", work), model, full)
    # What could be ended is, and is not asked for again: nobody waits for the rest of the batch.
    assert sorted({sink for sink, _, _ in model.seen}) == ["table", "topic"]
    assert model.open_names == []
    with pytest.raises(OutputStoppedError):
        answered(commit(IDENTITY, "run2", model.work("run2", 0)), model, full)
    told = answered(recover(IDENTITY, "recovery1"), model, full)
    assert (told.ended, len(told.stopped), told.skipped) == (("table",), 1, ())
    other = answered(recover(IDENTITY, "recovery2", skip_sinks=["nobody"]), model, full)
    assert (other.skipped, other.staged, len(other.stopped)) == ((), ("table", "database"), 1)
    skipped = answered(recover(IDENTITY, "recovery3", skip_sinks=["database"]), model, full)
    assert (skipped.ended, skipped.stopped, skipped.skipped) == (("table",), (), ("database",))
    assert skipped.state.finished == FinishedBatch(0, BatchInput("0", 2, 0), ("table/0/run1",), ("database",))

    model.run(commit(IDENTITY, "run3", model.work("run3", 0)))
    model.run(commit(IDENTITY, "run3", model.work("run3", 1)))
    assert sorted(batch_id for sink, batch_id, _ in model.seen if sink == "database") == [1, 1]


def test_a_sink_that_is_not_reached_is_skipped_only_by_more_words() -> None:
    model = Model(ALL)

    def away(effect: Effect) -> Answer:
        is_it = isinstance(effect, EndStaged) and effect.output.sink == "database"
        return Unended("it is away", is_refused=False) if is_it else None

    with pytest.raises(UnfinishedError):
        answered(commit(IDENTITY, "run1", model.work("run1", 0)), model, away)

    told = answered(recover(IDENTITY, "recovery1", skip_sinks=["database"]), model, away)
    assert told.skipped == ()
    assert "is not reached, and may have its 2 rows" in told.stopped[0]
    assert "--skip-sink database --skip-unreached" in told.stopped[0]
    skipped = answered(recover(IDENTITY, "recovery2", skip_sinks=["database"], skips_unreached=True), model, away)
    assert (skipped.skipped, skipped.stopped) == (("database",), ())


def test_what_has_a_time_out_is_ended_before_a_table_that_may_take_long() -> None:
    model = Model(Shape(("", "other:9092"), ("table",)))
    model.clusters["other:9092"].can_pin = False
    ends: list[str] = []

    def listening(effect: Effect) -> Answer:
        if isinstance(effect, End):
            ends.extend(each.sink for each in effect.topics)
        elif isinstance(effect, EndStaged):
            ends.append(effect.output.sink)
        return None

    answered(commit(IDENTITY, "run1", model.work("run1", 0)), model, listening)

    assert ends == ["topicother:9092", "table", "topic"]
    assert len(model.seen) == 6


def test_a_transaction_that_follows_the_one_that_was_handed_over_is_not_decided_on() -> None:
    model = Model(UNPINNED)
    work = model.work("run1", 0)
    # The same producer has opened another one under the same id: what was handed over has ended.
    model.clusters[""].write(work.participants[0].transactional_id, [("topic", 0, 9)])

    with pytest.raises(UndecidedError, match="1 of its 2 transactions"):
        model.run(commit(IDENTITY, "run1", work))
    model.run(abort(IDENTITY, "run1", work))

    assert model.seen == []


def test_a_sink_that_is_well_again_is_not_skipped() -> None:
    model = Model(ALL)
    with pytest.raises(OutputStoppedError):
        answered(commit(IDENTITY, "run1", model.work("run1", 0)), model, full)

    told = answered(recover(IDENTITY, "recovery1", skip_sinks=["database"]), model, lambda _effect: None)

    assert (told.ended, told.skipped) == (("table", "database"), ())
    assert len(model.seen) == 6


def test_a_sink_that_would_refuse_its_rows_is_heard_before_the_decision() -> None:
    model = Model(ALL)
    work = model.work("run1", 0)

    with pytest.raises(
        UndecidedError, match="batch 0 of orders is not written: its sink table does not take it: no column x"
    ):
        answered(
            commit(IDENTITY, "run1", work),
            model,
            lambda effect: ("no column x", "") if isinstance(effect, CheckStaged) else None,
        )
    model.run(abort(IDENTITY, "run1", work))

    assert model.seen == []
    assert model.open_names == []
    assert [each.staged for each in model.tables.values()] == [{}, {}]


def _dies_at_the_decision(effect: Effect) -> Answer:
    if isinstance(effect, Record) and effect.state is not None and effect.state.decision is not None:
        raise UnfinishedError("dead")
    return None


def test_transactions_on_a_cluster_that_a_query_has_left_are_ended_by_its_next_run() -> None:
    model = Model(CLUSTERS)

    # It dies with everything pinned, and the next run has one topic left.
    with pytest.raises(UnfinishedError):
        answered(commit(IDENTITY, "run1", model.work("run1", 0)), model, _dies_at_the_decision)
    assert len(model.open_names) == 6
    left = model.work("run2", 0)
    model.clusters["other:9092"].transactions = {
        name: each for name, each in model.clusters["other:9092"].transactions.items() if ".run1" in name
    }
    model.run(commit(IDENTITY, "run2", msgspec.structs.replace(left, topics=left.topics[:1])))

    assert model.open_names == []
    assert len(model.seen) == 2


def test_a_cluster_that_was_left_and_does_not_answer_is_asked_by_the_run_after_it() -> None:
    model = Model(CLUSTERS)
    work = model.work("run1", 0)
    model.run(commit(IDENTITY, "run1", work))
    # It dies in its second batch, and the next run has one topic left.
    left = model.work("run1", 1)
    with pytest.raises(UnfinishedError):
        answered(commit(IDENTITY, "run1", left), model, _dies_at_the_decision)
    model.away = {"other:9092"}
    near = model.work("run2", 1).topics[:1]
    other = model.clusters["other:9092"]
    other.transactions = {name: each for name, each in other.transactions.items() if ".run1" in name}

    model.run(commit(IDENTITY, "run2", msgspec.structs.replace(left, topics=near)))
    assert [cluster for cluster, _ in model.open_names] == ["other:9092"] * 3
    assert model.newest is not None
    assert [each.place for each in model.newest.clusters] == ["other:9092"]
    model.away = set()
    model.run(commit(IDENTITY, "run3", BatchWork(2)))
    assert model.open_names == []
    model.run(commit(IDENTITY, "run4", BatchWork(3)))

    assert model.newest.clusters == ()


# A batch that nobody comes with again.


def test_a_batch_of_a_fresh_identity_looks_for_nothing_and_leaves_nothing() -> None:
    model = Model()
    asked: list[Effect] = []

    def listening(effect: Effect) -> Answer:
        asked.append(effect)
        return None

    work = msgspec.structs.replace(model.work("run1", 0), is_once=True)
    answered(commit(IDENTITY, "run1", work), model, listening)

    assert asked[0] == TakeOver("run1", is_fresh=True)
    assert [each is None for each in model.states] == [False, True]
    assert len(model.seen) == 2
    assert model.open_names == []
    asked.clear()
    answered(commit(IDENTITY, "run2", BatchWork(0, is_once=True)), model, listening)
    assert asked == [ListOpen((None,), is_for_sweep=True)]


def test_a_batch_of_a_fresh_identity_that_was_fenced_looks_again() -> None:
    model = Model()
    work = msgspec.structs.replace(model.work("run1", 0), is_once=True)
    steps = commit(IDENTITY, "run1", work)
    assert next(steps) == TakeOver("run1", is_fresh=True)
    pin = steps.send(None)
    assert isinstance(pin, Pin)
    assert isinstance(steps.send(model.perform(pin, 0)), Record)

    assert steps.send(False) == TakeOver("run1")

    # The recovery has taken it over; what this run has open is aborted.
    abort_own = steps.send(SinkState(IDENTITY.prefix, "recovery", ("run1",)))
    assert isinstance(abort_own, AbortOrphans)
    aborted = model.perform(abort_own, 0)
    with pytest.raises(SupersededError):
        steps.send(aborted)
    assert [name for _, name in model.open_names] == [attempt_id(IDENTITY, "run1", 0, 0, 1)]


# Single steps.


def test_a_stranger_is_superseded_before_its_transaction_is_aborted_and_only_when_it_is_old() -> None:
    ours = transactional_id(IDENTITY, "run1", "worker", 0)
    strange = transactional_id(IDENTITY, "run2", "worker", 0)
    participant = Participant.of(ours, 1, 0, records=1, partitions=[("out", 0)])
    work = BatchWork.of_topic(4, [participant])
    known = SinkState(IDENTITY.prefix, "run1", finished=FinishedBatch(3))
    steps = commit(IDENTITY, "run1", work)
    both = (OpenTransaction(ours, 1), OpenTransaction(strange, 2))
    assert next(steps) == TakeOver("run1")
    assert steps.send(known) == Pin(work.topics)
    assert steps.send((Held((participant,)),)) == Record(known.decided(Decision.of(work)))
    assert steps.send(True) == End(work.topics)
    assert steps.send((Ending.COMMITTED,)) == Record(known.with_finished(FinishedBatch(4)))
    assert steps.send(True) == ListOpen(is_for_sweep=True)

    assert steps.send(Listing(both[1:])) == ListOpen(is_for_sweep=True, age_ms_min=STRANGER_AGE_MS_MAX)

    superseding = msgspec.structs.replace(known.with_finished(FinishedBatch(4)), superseded=("run2",))
    assert steps.send(Listing(both[1:])) == Record(superseding)
    assert steps.send(True) == AbortOrphans((both[1],))
    with pytest.raises(StopIteration):
        steps.send((strange,))


def test_a_decider_that_is_fenced_looks_again_and_gives_up_in_the_end() -> None:
    steps = commit(IDENTITY, "run1", BatchWork(0))
    state = SinkState(IDENTITY.prefix, "run1")
    assert next(steps) == TakeOver("run1")
    for _ in range(TAKEOVERS_MAX - 1):
        assert steps.send(state) == Record(state.with_finished(FinishedBatch(0)))
        assert steps.send(False) == TakeOver("run1")
    steps.send(state)

    with pytest.raises(UnfinishedError, match="keeps taking over"):
        steps.send(False)


def test_only_so_many_superseded_runs_are_remembered() -> None:
    state = SinkState("prefix", "")
    for number in range(SUPERSEDED_MAX + 10):
        state = state.claimed(f"run{number}", ())

    assert len(state.superseded) == SUPERSEDED_MAX
    assert state.superseded[-1] == f"run{SUPERSEDED_MAX + 8}"


def test_a_state_is_read_back_and_one_of_a_later_release_is_refused() -> None:
    finished = FinishedBatch(3, BatchInput("ab", 9, 2**64 - 1), ("/staging/manifest-3.json",), ("table",))
    topic = TopicOutput(
        "out",
        Target("topic", "broker:9092", options={"security.protocol": "SSL"}),
        (Participant.of("id", 7, 1, records=9, checksum=5, partitions=[("out", 2)]),),
    )
    staged = StagedOutput("table", Target("delta", "/table"), "/staging/manifest-4.json", 10, "cd", 9, 5)
    decision = Decision(4, BatchInput(None, 9, 5), (topic,), (staged,))
    state = SinkState("prefix", "run2", ("run1",), finished).decided(decision)
    data = encode_state(state)

    assert decode_state(data) == state
    assert decode_state(encode_state(state.with_finished(decision.finished))).finished == FinishedBatch(
        4, BatchInput(None, 9, 5), ("/staging/manifest-4.json",)
    )
    assert decode_key(encode_key(SinkIdentity("größe", "a"))) == ("größe", "a")
    assert decode_key(b"somebody else's") is None
    with pytest.raises(SinkError, match="has version 3"):
        decode_state(data.replace(b'"version":2', b'"version":3'))
    with pytest.raises(SinkError, match="cannot be read"):
        decode_state(b"{")


def test_a_state_that_version_1_has_recorded_is_read_as_what_it_means() -> None:
    recorded = (
        b'{"version":1,"state":{"prefix":"tidelog-spark","owner":"run2","superseded":["run1"],"finished_batch_id":41,'
        b'"decision":{"batch_id":42,"participants":[{"transactional_id":"tidelog-spark.q.run2.w.0","producer_id":4000,'
        b'"producer_epoch":3,"records":5120,"partitions":[["out",0],["out",1],["out",2],["out",3],["out",4],["out",5]]}]}}}'
    )
    participant = Participant(
        "tidelog-spark.q.run2.w.0", 4000, 3, 5120, 0, 6, tuple(("out", number) for number in range(6))
    )

    state = decode_state(recorded)

    assert state == SinkState(
        "tidelog-spark",
        "run2",
        ("run1",),
        FinishedBatch(41, None),
        Decision(42, topics=(TopicOutput("", participants=(participant,)),)),
    )
    assert decode_state(encode_state(state)) == state
    nothing = (
        b'{"version":1,"state":{"prefix":"p","owner":"r","superseded":[],"finished_batch_id":null,"decision":null}}'
    )
    assert decode_state(nothing) == SinkState("p", "r")


def test_a_participant_names_few_of_its_partitions_and_counts_all() -> None:
    found = Participant.of("id", 1, 0, records=1, partitions={("out", number) for number in range(1000)})

    assert (found.partition_count, found.partitions) == (1000, tuple(("out", number) for number in range(5)))
