"""A replica of the compiled twin against one of the plain twin: whatever happens to both, every answer, and every word to those
who wait, is the same, in the same order."""

from __future__ import annotations

import errno
from collections.abc import Callable, Sequence
from typing import Any

from hypothesis import given, strategies as st

from tests.support.appends import checked, coordinated, produced
from tests.support.data_node import NODE, OTHER, THIRD, DataNode
from tests.support.kernel_twins import TWINS
from tests.support.log_builder import START_MS, LogBuilder, fetched_values
from tests.support.replication_twins import replicas_of, replication_kernel
from tidelog.kernel_choice import Twin
from tidelog.model.ids import NodeId
from tidelog.model.pending import Pending
from tidelog.replication.follower_progress import FollowerProgress
from tidelog.replication.partition import Partition
from tidelog.storage.append import AppendRule
from tidelog.storage.fetched import Fetched, FetchIsolation

BATCHES = LogBuilder()
THREE = (NODE, OTHER, THIRD)
PARTITIONS = 2


class Watcher:
    """Reads when it is told, and may do more."""

    is_waiting = True

    def __init__(self, story: Story, name: str) -> None:
        self._story = story
        self._name = name
        self.then: Callable[[Partition], None] | None = None

    def partition_changed(self, partition: Partition) -> None:
        found = partition.read(0, 1 << 20, FetchIsolation.HIGH_WATERMARK, leader_only=False)
        self._story.say(f"{self._name} hears of {partition.topic_partition}", found)
        if self.then is not None:
            self.then(partition)


class Story:
    """What happens to the replicas of one twin, and all that can be seen of it."""

    def __init__(self, twin: Twin, replicas: Sequence[NodeId], min_in_sync: int) -> None:
        self.told: list[object] = []
        self._holds = 0
        self._fetch_clock = replication_kernel(twin).FetchClock(START_MS)
        with replicas_of(twin):
            self.node = DataNode()
        self.node.create_topic(
            "orders",
            partitions=PARTITIONS,
            replicas=replicas,
            configs={"min.insync.replicas": str(min_in_sync)},
            topic_id=b"o" * 16,
        )
        self._followers = [each for each in replicas if each != NODE]
        self._replicas = [self.node.partition("orders", index) for index in range(PARTITIONS)]
        self._watchers = [Watcher(self, name) for name in ("first", "second", "third")]
        self._watchers[1].then = self._leave
        self._watchers[2].then = self._write
        self.node.partitions.wakeups.on_caught_up = lambda partition, follower: self.say(
            f"{follower} has caught up", str(partition.topic_partition)
        )

    def _leave(self, partition: Partition) -> None:
        partition.unwatch(self._watchers[1])
        partition.unwatch(self._watchers[0])

    def _write(self, partition: Partition) -> None:
        partition.unwatch(self._watchers[2])
        other = self._replicas[0 if partition is self._replicas[1] else 1]
        self.say("written from within", produced(other, BATCHES.batch("w")))

    def say(self, *words: object) -> None:
        self.told.append([_seen(word) for word in words])

    def do(self, step: tuple[Any, ...]) -> None:
        name, index, *args = step
        partition = self._replicas[index]
        self.say(step, getattr(self, f"do_{name}")(partition, *args))
        role: Any = partition.role
        log = partition.log
        self.say(
            type(role).__name__,
            repr(partition),
            partition.is_leading,
            partition.watcher_count,
            partition.low_watermark,
            [(node, *_progress(each)) for node, each in role.followers.items()] if partition.is_leading else (),
            [partition.takes_writes(acks) for acks in (-1, 0, 1)],
            [partition.commits_at_once(acks) for acks in (-1, 0, 1)],
            log and (log.log_start_offset, log.high_watermark, log.log_end_offset),
            len(partition._committed),
            len(partition._deleted),
        )

    def end(self) -> None:
        """Lets go of what is held, and shows all that was written."""
        for _ in range(self._holds):
            self.node.partitions.wakeups.release()
        self.say(self.node.files())

    # What may happen.

    def do_append(self, partition: Partition, acks: int) -> object:
        return produced(partition, BATCHES.batch("a", "b"), acks)

    def do_append_run(self, partition: Partition, count: int) -> object:
        return partition.append([checked(BATCHES.batch(str(number))) for number in range(count)], AppendRule.LEADER, 1)

    def do_append_built(self, partition: Partition, count: int) -> object:
        return coordinated(partition, BATCHES.batch(*"c" * count))

    def do_wait(self, partition: Partition, ahead: int) -> object:
        log = partition.log
        outcome = partition.when_committed(ahead + (0 if log is None else log.high_watermark))
        if isinstance(outcome, Pending):
            outcome.then(lambda error: self.say("committed", error))
        return type(outcome).__name__

    def do_read(self, partition: Partition, offset: int, isolation: FetchIsolation, epoch: int, last: int) -> object:
        return partition.read(
            offset, 1 << 20, isolation, current_leader_epoch=epoch, last_fetched_epoch=last, leader_only=offset % 2 == 0
        )

    def do_look(self, partition: Partition, behind: int, epoch: int) -> object:
        log = partition.log
        offset = -behind if log is None else log.high_watermark - behind
        return partition.has_nothing_new(offset, epoch, offset, 0)

    def do_fetch(self, partition: Partition, follower: int, offset: int) -> object:
        log = partition.log
        end = 0 if log is None else log.log_end_offset
        return partition.read_as_follower(
            self._follower(follower),
            max(0, end - offset),
            1 << 20,
            broker_epoch=7,
            log_start_offset=0,
            current_leader_epoch=partition.leader_epoch,
        )

    def do_pass(self, _partition: Partition, ms: int) -> None:
        self.node.clock.advance(ms)
        self._fetch_clock.last_fetch_ms += ms

    def do_rouse(self, partition: Partition, follower: int) -> None:
        partition.rouse_follower(self._follower(follower))

    def do_rest(self, partition: Partition, follower: int) -> object:
        return partition.rest_follower(self._follower(follower), self._fetch_clock)

    def do_join(self, partition: Partition, follower: int) -> None:
        partition.count_joining((self._follower(follower),) if follower else ())

    def do_isr(self, partition: Partition, count: int) -> None:
        self._change(partition, isr=[NODE, *self._followers[:count]])

    def do_leader(self, partition: Partition, leader: int) -> None:
        self._change(partition, leader=leader)

    def do_configure(self, _partition: Partition, min_in_sync: int) -> None:
        self.node.configure("orders", {"min.insync.replicas": str(min_in_sync)})

    def do_watch(self, partition: Partition, watcher: int) -> None:
        partition.watch(self._watchers[watcher])

    def do_unwatch(self, partition: Partition, watcher: int) -> None:
        partition.unwatch(self._watchers[watcher])

    def do_hold(self, _partition: Partition) -> None:
        self._holds += 1
        self.node.partitions.wakeups.hold()

    def do_release(self, _partition: Partition) -> None:
        if self._holds:
            self._holds -= 1
            self.node.partitions.wakeups.release()

    def do_break(self, partition: Partition) -> object:
        self.node.disk.fail("pwritev", "*.log", errno.EIO)
        return self.do_append_run(partition, 1)

    def _follower(self, number: int) -> NodeId:
        return self._followers[number % len(self._followers)] if self._followers else OTHER

    def _change(self, partition: Partition, **changes: Any) -> None:
        self.node.change("orders", partition.topic_partition.partition, **changes)


def _progress(follower: FollowerProgress) -> tuple[int, ...]:
    return (
        follower.log_end_offset,
        follower.log_start_offset,
        follower.broker_epoch,
        follower.last_caught_up_ms,
    )


def _seen(word: object) -> object:
    if isinstance(word, Fetched):
        return fetched_values(word), word.high_watermark, word.log_end_offset, word.last_stable_offset
    if isinstance(word, (list, tuple)):
        return [_seen(each) for each in word]
    return word


_partition = st.integers(0, PARTITIONS - 1)
_offset = st.integers(0, 4)
_epoch = st.integers(-1, 2)
STEPS = st.one_of(
    st.tuples(st.just("append"), _partition, st.sampled_from([-1, 1])),
    st.tuples(st.sampled_from(["append_run", "append_run", "append_built"]), _partition, st.integers(1, 3)),
    st.tuples(st.just("wait"), _partition, _offset),
    st.tuples(st.just("read"), _partition, _offset, st.sampled_from(FetchIsolation), _epoch, _epoch),
    st.tuples(st.just("look"), _partition, st.sampled_from([0, 0, 1]), _epoch),
    st.tuples(st.just("fetch"), _partition, st.integers(0, 1), st.sampled_from([0, 0, 1, 2])),
    st.tuples(st.sampled_from(["rest", "rouse", "join", "pass"]), _partition, st.integers(0, 1)),
    st.tuples(st.just("isr"), _partition, st.integers(0, 2)),
    st.tuples(st.just("leader"), _partition, st.sampled_from([1, 1, 2, -1])),
    st.tuples(st.just("configure"), _partition, st.integers(1, 3)),
    st.tuples(st.sampled_from(["watch", "watch", "unwatch"]), _partition, st.integers(0, 2)),
    st.tuples(st.sampled_from(["hold", "release"]), _partition),
    st.tuples(st.just("break"), _partition),
)


@given(
    replicas=st.sampled_from([(NODE,), (NODE, OTHER), THREE]),
    min_in_sync=st.integers(1, 2),
    steps=st.lists(STEPS, min_size=15, max_size=40),
)
def test_both_twins_tell_the_same_story(
    replicas: tuple[NodeId, ...], min_in_sync: int, steps: list[tuple[Any, ...]]
) -> None:
    plain, compiled = (Story(twin, replicas, min_in_sync) for twin in TWINS)
    for step in steps:
        plain.do(step)
        compiled.do(step)
        assert compiled.told == plain.told
    plain.end()
    compiled.end()
    assert compiled.told == plain.told
