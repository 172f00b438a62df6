"""How far each micro-batch of a query goes, against a cluster that is a dictionary."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable

import pytest

from tidelog.client.consumer.topic_partition import TopicPartition
from tidelog.model.ids import TimestampMs
from tidelog.spark.errors import DataLossError
from tidelog.spark.source.chosen_topics import ChosenPartitions
from tidelog.spark.source.offset_bounds import OffsetBound, questions, resolve
from tidelog.spark.source.offset_ranges import OffsetRange
from tidelog.spark.source.partition_offsets import EARLIEST, PartitionOffsets
from tidelog.spark.source.source_options import parse_source_options
from tidelog.spark.source.stream_progress import StreamProgress

OLD, NEW = (f"{name}AAAAAAAAAAAAAAAAAAAAA" for name in "pq")
A, B, C = (TopicPartition("t", index) for index in range(3))


class FakeClock:
    def __init__(self) -> None:
        self.at_ms = 1_000_000

    def now_ms(self) -> TimestampMs:
        return TimestampMs(self.at_ms)

    def monotonic_ms(self) -> int:
        return self.at_ms

    def monotonic_ns(self) -> int:
        return self.at_ms * 1_000_000


class FakeCluster:
    """First and next offset of each partition."""

    def __init__(self, clock: FakeClock, logs: dict[TopicPartition, tuple[int, int]]) -> None:
        self.clock = clock
        self.logs = logs
        self.topic_ids: dict[str, str] = {}
        self.told_late: deque[dict[str, str]] = deque()
        """What a node that is behind says first."""
        self.asked = 0
        self.commits: list[dict[TopicPartition, int]] = []
        self.on_sleep: Callable[[], None] = lambda: None

    def chosen(self, *, missing_ok: bool = False) -> ChosenPartitions:
        self.asked += 1
        told = self.told_late.popleft() if self.told_late else self.topic_ids
        return ChosenPartitions(sorted(self.logs), told)

    def latest(
        self, partitions: Iterable[TopicPartition], start: PartitionOffsets | None = None
    ) -> dict[TopicPartition, int]:
        return {each: self.logs[each][1] for each in partitions if each in self.logs}

    def first_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int | None]:
        return {each: self.logs[each][0] if each in self.logs else None for each in partitions}

    def resolve(
        self, bound: OffsetBound, partitions: Iterable[TopicPartition], *, is_start: bool
    ) -> dict[TopicPartition, int]:
        chosen = list(partitions)
        answers: dict[TopicPartition, int | None] = {
            each: self.logs[each][0 if asked == EARLIEST else 1]
            for each, asked in questions(bound, chosen, name="startingOffsets").items()
        }
        return {each: offset or 0 for each, offset in resolve(bound, chosen, answers).items()}

    def commit(self, offsets: PartitionOffsets) -> None:
        self.commits.append(dict(offsets))

    def sleep(self, duration_ms: float) -> None:
        self.clock.at_ms += int(duration_ms)
        self.on_sleep()


class Query:
    """A query over the fake cluster, as Spark would run it."""

    def __init__(self, logs: dict[TopicPartition, tuple[int, int]], **more: str) -> None:
        self.clock = FakeClock()
        self.cluster = FakeCluster(self.clock, dict(logs))
        self.given = {"kafka.bootstrap.servers": "h:1", "subscribe": "t", **more}
        self.restart()

    def restart(self) -> None:
        self.progress = StreamProgress(parse_source_options(self.given), self.cluster, self.clock)

    def later(self, **logs: tuple[int, int]) -> None:
        """Some time passes, and partitions grow."""
        self.clock.at_ms += 2_000
        self.cluster.logs.update({TopicPartition("t", int(name[1:])): ends for name, ends in logs.items()})


def test_a_query_begins_where_it_is_told_and_goes_to_the_end() -> None:
    query = Query({A: (2, 10), B: (0, 5)}, startingOffsets="earliest")

    start = query.progress.initial()
    end = query.progress.latest(start, is_limited=False)

    assert start == {"t": {"0": 2, "1": 0}}
    assert end == {"t": {"0": 10, "1": 5}}
    assert query.progress.plan(start, end) == [OffsetRange(A, 2, 10), OffsetRange(B, 0, 5)]
    assert query.progress.reported() == end


def test_a_query_that_begins_at_the_end_writes_that_down_with_an_empty_batch() -> None:
    query = Query({A: (0, 10)})
    start = query.progress.initial()
    query.later(p0=(0, 12))

    first = query.progress.latest(start, is_limited=False)
    assert first == start == {"t": {"0": 10}}

    assert query.progress.latest(first, is_limited=False) == {"t": {"0": 12}}


def test_a_first_batch_that_is_run_again_after_a_crash_loses_nothing() -> None:
    query = Query({A: (0, 10)})
    written = query.progress.latest(query.progress.initial(), is_limited=False)
    query.later(p0=(0, 50))

    query.restart()
    again = query.progress.initial()
    assert again == {"t": {"0": 50}}
    assert query.progress.plan(again, written) == [], "it was empty and is so again"
    assert query.progress.latest(written, is_limited=False) == {"t": {"0": 50}}
    assert query.progress.plan(written, {"t": {"0": 50}}) == [OffsetRange(A, 10, 50)]


def test_an_idle_query_is_answered_late_and_at_once_when_something_comes() -> None:
    query = Query({A: (0, 10)}, startingOffsets="earliest")
    start = {"t": {"0": 10}}
    began_ms = query.clock.at_ms
    assert query.progress.latest(start, is_limited=False) == start
    assert query.clock.at_ms - began_ms >= 200

    query.cluster.on_sleep = lambda: query.cluster.logs.update({A: (0, 11)})
    began_ms = query.clock.at_ms
    assert query.progress.latest(start, is_limited=False) == {"t": {"0": 11}}
    assert query.clock.at_ms - began_ms < 50


def test_limits_hold_unless_all_is_asked_for() -> None:
    query = Query({A: (0, 30), B: (0, 10)}, startingOffsets="earliest", maxOffsetsPerTrigger="20")
    start = query.progress.initial()

    assert query.progress.latest(start, is_limited=True) == {"t": {"0": 15, "1": 5}}
    assert query.progress.latest(start, is_limited=False) == {"t": {"0": 30, "1": 10}}


def test_the_end_that_was_fixed_is_reached_in_steps_and_not_passed() -> None:
    query = Query({A: (0, 25)}, startingOffsets="earliest", maxOffsetsPerTrigger="10", minOffsetsPerTrigger="9")
    query.progress.fix_end()
    at = query.progress.initial()
    query.later(p0=(0, 99))

    ends = []
    for _ in range(4):
        at = query.progress.latest(at, is_limited=True)
        ends.append(at["t"]["0"])

    assert ends == [10, 20, 25, 25], "the least is not waited for, or the query would never end"


def test_a_query_of_what_is_there_begins_at_the_end_with_nothing() -> None:
    query = Query({A: (0, 25)})
    query.progress.fix_end()
    query.later(p0=(0, 30))
    start = query.progress.initial()

    assert start == {"t": {"0": 25}}
    assert query.progress.latest(start, is_limited=False) == start
    assert query.progress.latest(start, is_limited=False) == start


def test_new_partitions_are_read_from_their_beginning() -> None:
    query = Query({A: (0, 10)}, startingOffsets="earliest", maxOffsetsPerTrigger="1000")
    start = {"t": {"0": 10}}
    assert query.progress.latest(start, is_limited=True) == start
    query.later(p1=(0, 4), p2=(0, 0))

    end = query.progress.latest(start, is_limited=True)

    assert end == {"t": {"0": 10, "1": 4, "2": 0}}
    assert query.progress.plan(start, end) == [OffsetRange(B, 0, 4)]


def test_a_partition_that_is_gone_is_a_loss() -> None:
    query = Query({A: (0, 10), B: (0, 10)})
    start = {"t": {"0": 5, "1": 5}}
    query.progress.latest(start, is_limited=False)
    del query.cluster.logs[B]
    query.later()

    end = query.progress.latest(start, is_limited=False)

    assert end == {"t": {"0": 10}}
    with pytest.raises(DataLossError, match=r"t-1 is gone, or not chosen any more; .*failOnDataLoss"):
        query.progress.plan(start, end)


def test_a_loss_may_be_passed_over(caplog: pytest.LogCaptureFixture) -> None:
    query = Query({A: (0, 4)}, failOnDataLoss="false")

    assert query.progress.plan({"t": {"0": 100, "1": 5}}, {"t": {"0": 4}}) == []
    assert "t-1 is gone" in caplog.text
    assert "went back from 100 to 4" in caplog.text


def test_progress_is_committed_once_for_each_batch() -> None:
    query = Query({A: (0, 10)}, startingOffsets="earliest")
    for start in ({"t": {"0": 0}}, {"t": {"0": 10}}, {"t": {"0": 10}}):
        query.progress.latest(start, is_limited=False)

    assert query.cluster.commits == [{A: 0}, {A: 10}]


def test_the_plan_is_divided_as_the_options_say() -> None:
    query = Query({A: (0, 100)}, minPartitions="4")

    assert [each.size for each in query.progress.plan({"t": {"0": 0}}, {"t": {"0": 100}})] == [25] * 4


def test_offsets_go_with_the_ids_of_their_topics() -> None:
    query = Query({A: (0, 10)}, startingOffsets="earliest", minPartitions="2")
    query.cluster.topic_ids = {"t": OLD}

    start = query.progress.initial()
    end = query.progress.latest(start, is_limited=False)

    assert start == {"t": {"0": 0}, f"t#{OLD}": {}}
    assert end == {"t": {"0": 10}, f"t#{OLD}": {}}
    assert [each.topic_id for each in query.progress.plan(start, end)] == [OLD, OLD]
    assert query.progress.latest(end, is_limited=False) == end, "nothing has come"


@pytest.mark.parametrize("is_limited", [False, True])
def test_a_checkpoint_without_ids_goes_on_and_has_them_from_then_on(is_limited: bool) -> None:
    query = Query({A: (0, 10)}, maxOffsetsPerTrigger="100")
    query.cluster.topic_ids = {"t": OLD}
    start = {"t": {"0": 10}}

    end = query.progress.latest(start, is_limited=is_limited)

    assert end == {"t": {"0": 10}, f"t#{OLD}": {}}
    assert query.progress.plan(start, end) == []
    query.cluster.topic_ids = {}
    query.later(p0=(0, 12))
    assert query.progress.latest(end, is_limited=is_limited) == {"t": {"0": 12}, f"t#{OLD}": {}}, "it is not forgotten"


@pytest.mark.parametrize("runs", [True, False])
@pytest.mark.parametrize("end", [3, 10, 25])
def test_a_topic_that_was_created_again_is_an_error_wherever_it_ends(end: int, runs: bool) -> None:
    query = Query({A: (0, 10)}, startingOffsets="earliest")
    query.cluster.topic_ids = {"t": OLD}
    at = query.progress.latest(query.progress.initial(), is_limited=False)
    query.cluster.topic_ids = {"t": NEW}
    query.later(p0=(0, end))
    if not runs:
        query.restart()

    with pytest.raises(
        DataLossError,
        match=rf"topic t was deleted and created again: its id was {OLD} and is {NEW}, .*failOnDataLoss",
    ):
        query.progress.latest(at, is_limited=False)


@pytest.mark.parametrize("is_limited", [False, True])
@pytest.mark.parametrize("end", [3, 10, 25])
def test_or_it_is_read_from_its_beginning_with_a_warning(
    end: int, is_limited: bool, caplog: pytest.LogCaptureFixture
) -> None:
    query = Query({A: (0, 10), B: (0, 4)}, failOnDataLoss="false", maxOffsetsPerTrigger="100")
    start = {"t": {"0": 10, "1": 4}, f"t#{OLD}": {}}
    query.cluster.topic_ids = {"t": NEW}
    query.cluster.logs = {A: (0, end)}

    found = query.progress.latest(start, is_limited=is_limited)
    asked = query.cluster.asked

    assert found == {"t": {"0": end}, f"t#{NEW}": {}}
    assert query.progress.plan(start, found) == [OffsetRange(A, 0, end)]
    assert "topic t was deleted and created again" in caplog.text
    query.later()
    query.progress.latest(start, is_limited=is_limited)
    assert query.cluster.asked == asked + 1, "it is certain by now"


def test_a_node_that_is_behind_does_not_make_another_topic_of_it() -> None:
    query = Query({A: (0, 12)})
    query.cluster.topic_ids = {"t": NEW}
    query.cluster.told_late = deque([{"t": OLD}, {"t": OLD}])

    assert query.progress.latest({"t": {"0": 10}, f"t#{NEW}": {}}, is_limited=False)["t"] == {"0": 12}

    query.restart()
    query.cluster.told_late = deque([{"t": OLD}])
    query.progress.fix_end()
    end = query.progress.latest({"t": {"0": 10}, f"t#{NEW}": {}}, is_limited=False)
    assert end == {"t": {"0": 12}, f"t#{NEW}": {}}


def test_a_first_batch_that_is_run_again_reads_nothing_of_a_topic_that_came_since() -> None:
    query = Query({A: (0, 10)}, startingOffsets="earliest")
    query.cluster.topic_ids = {"t": OLD}
    written = query.progress.latest(query.progress.initial(), is_limited=False)
    query.restart()
    query.cluster.topic_ids = {"t": NEW}

    planned = query.progress.plan(query.progress.initial(), written)

    assert [(each, each.topic_id) for each in planned] == [(OffsetRange(A, 0, 10), OLD)], "tasks find the other topic"
