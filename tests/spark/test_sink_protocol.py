"""The sink's protocol on a cluster in memory: whatever dies, fails, sleeps or times out, each row counts once."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings, strategies as st

from tests.spark.sink_model import IDENTITY, World
from tidelog.spark.errors import SinkError, UnfinishedError
from tidelog.spark.outputs.staged import StagedOutput, Target
from tidelog.spark.sink.sink_batch import BatchInput, BatchWork, TopicOutput
from tidelog.spark.sink.sink_participant import Participant, SinkIdentity, transactional_id
from tidelog.spark.sink.sink_protocol import (
    STRANGER_AGE_MS_MAX,
    TAKEOVERS_MAX,
    AbortOrphans,
    End,
    Ending,
    ListOpen,
    OpenTransaction,
    Record,
    TakeOver,
    commit,
)
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


def in_every_way(*, batches: int, faults: int = 0, sleepers: int = 0, timeouts: int = 0) -> int:
    """A query with everything that may go wrong; how many histories there are."""
    count = 0
    choices: Choices | None = Choices([])
    while choices is not None:
        world = World(choices, batches=batches, faults=faults, sleepers=sleepers, timeouts=timeouts)
        world.run_to_the_end()
        world.check()
        count += 1
        choices = choices.next()
    return count


def test_each_row_counts_once_wherever_a_driver_dies_or_fails() -> None:
    assert in_every_way(batches=2, faults=1) > 50


def test_each_row_counts_once_wherever_the_driver_after_it_dies_too() -> None:
    assert in_every_way(batches=1, faults=2) > 500


def test_each_row_counts_once_wherever_a_driver_sleeps_while_another_takes_over() -> None:
    assert in_every_way(batches=2, sleepers=1) > 100


def test_each_row_counts_once_wherever_a_driver_dies_beside_one_that_sleeps() -> None:
    assert in_every_way(batches=1, sleepers=1, faults=1) > 500


def test_a_time_out_never_doubles_a_row_and_never_loses_one_silently() -> None:
    assert in_every_way(batches=1, faults=1, timeouts=1) > 1000


@given(st.data())
@settings(max_examples=50)
def test_each_row_counts_once_in_long_histories(data: st.DataObject) -> None:
    def choose(of: int) -> int:
        # Most steps go well, or no history would be long.
        return data.draw(st.one_of(st.just(0), st.just(0), st.integers(0, of - 1)))

    world = World(choose, faults=3, sleepers=3, timeouts=1)
    world.run_to_the_end()
    world.check()


# Single steps.


def test_a_stranger_is_superseded_before_its_transaction_is_aborted_and_only_when_it_is_old() -> None:
    ours = transactional_id(IDENTITY, "run1", "worker", 0)
    strange = transactional_id(IDENTITY, "run2", "worker", 0)
    participant = Participant.of(ours, 1, 0, records=1, partitions=[("out", 0)])
    work = BatchWork.of_topic(4, [participant])
    known = SinkState(IDENTITY.prefix, "run1", finished=FinishedBatch(3))
    steps = commit(IDENTITY, "run1", work)
    both = (OpenTransaction(ours, 1), OpenTransaction(strange, 2))
    assert next(steps) == TakeOver()
    assert steps.send(known) == ListOpen()
    assert steps.send(both) == Record(known.decided(Decision.of(work)))
    assert steps.send(True) == End((participant,), True)
    assert steps.send((Ending.COMMITTED,)) == Record(known.with_finished(FinishedBatch(4)))
    assert steps.send(True) == ListOpen(is_for_sweep=True)

    assert steps.send(both[1:]) == ListOpen(is_for_sweep=True, age_ms_min=STRANGER_AGE_MS_MAX)

    superseding = msgspec.structs.replace(known.with_finished(FinishedBatch(4)), superseded=("run2",))
    assert steps.send(both[1:]) == Record(superseding)
    assert steps.send(True) == AbortOrphans((strange,))
    with pytest.raises(StopIteration):
        steps.send((strange,))


def test_a_decider_that_is_fenced_looks_again_and_gives_up_in_the_end() -> None:
    steps = commit(IDENTITY, "run1", BatchWork(0))
    state = SinkState(IDENTITY.prefix, "run1")
    assert next(steps) == TakeOver()
    for _ in range(TAKEOVERS_MAX - 1):
        assert steps.send(state) == Record(state.with_finished(FinishedBatch(0)))
        assert steps.send(False) == TakeOver()
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
