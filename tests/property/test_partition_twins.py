"""What happens to replicas, with appends, reads, other leaders and faults, ends the same with the compiled modules and in plain
Python: every answer, and every word to those who wait, in the same order.

Each process has one twin of them. So what both must come to is written down: a digest of all that was said.
`python -m tests.property.test_partition_twins` prints it, for a change that is meant.
"""

from __future__ import annotations

import errno
import hashlib
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import pytest

from tests.support.appends import checked, coordinated, produced
from tests.support.data_node import NODE, OTHER, THIRD, DataNode
from tests.support.log_builder import START_MS, LogBuilder, fetched_values
from tidelog.model.ids import NodeId
from tidelog.model.pending import Pending
from tidelog.replication.follower_progress import FetchClock, FollowerProgress
from tidelog.replication.partition import Partition
from tidelog.storage.append import AppendRule
from tidelog.storage.fetched import Fetched, FetchIsolation

BATCHES = LogBuilder()
THREE = (NODE, OTHER, THIRD)
PARTITIONS = 2

HISTORIES = [
    "c6f79820b754da1e",
    "c1280d0b2a953b16",
    "2348a6006546620b",
    "b3aff197e95a0cf0",
    "9e7effd764819fd8",
    "ec214c94007bf34a",
    "075e80e419dcf427",
    "9ec7a251d9350a8c",
    "e7d2f21fbbfb16f9",
    "a9426e4a5247e658",
    "cfbc891fd93a81c6",
    "08eeea98184e8794",
]


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
    """What happens to the replicas of a node, and all that can be seen of it."""

    def __init__(self, replicas: Sequence[NodeId], min_in_sync: int) -> None:
        self.told = hashlib.sha256()
        self.told_of: set[str] = set()
        self._holds = 0
        self._fetch_clock = FetchClock(START_MS)
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
        self.told.update(repr([_seen(word) for word in words]).encode())
        self.told_of.update(word for word in words if isinstance(word, str))

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


def a_step(random: Random) -> tuple[Any, ...]:
    """One of what may happen, with its arguments."""
    one, epoch = random.randrange(2), random.randrange(-1, 3)
    arguments: list[tuple[Any, ...]] = [
        ("append", random.choice([-1, 1])),
        (random.choice(["append_run", "append_run", "append_built"]), random.randint(1, 3)),
        ("wait", random.randrange(5)),
        ("read", random.randrange(5), random.choice(list(FetchIsolation)), epoch, random.randrange(-1, 3)),
        ("look", random.choice([0, 0, 1]), epoch),
        ("fetch", one, random.choice([0, 0, 1, 2])),
        (random.choice(["rest", "rouse", "join", "pass"]), one),
        ("isr", random.randrange(3)),
        ("leader", random.choice([1, 1, 2, -1])),
        ("configure", random.randint(1, 3)),
        (random.choice(["watch", "watch", "unwatch"]), random.randrange(3)),
        (random.choice(["hold", "release"]),),
        ("break",) if random.random() < 0.1 else ("append", 1),
    ]
    name, *rest = random.choice(arguments)
    return name, random.randrange(PARTITIONS), *rest


def history(seed: int) -> str:
    """Some of what happens to replicas, in many stories. The digest of all that was said."""
    random = Random(seed)
    told = hashlib.sha256()
    told_of: set[str] = set()
    for _ in range(60):
        story = Story(random.choice([(NODE,), (NODE, OTHER), THREE]), random.randint(1, 2))
        for _ in range(random.randint(20, 60)):
            story.do(a_step(random))
        story.end()
        told.update(story.told.digest())
        told_of |= story.told_of
    assert {"Leading", "Following", "Offline", "committed", "written from within", "2 has caught up"} <= told_of
    return told.hexdigest()[:16]


@pytest.mark.parametrize("seed", range(len(HISTORIES)))
def test_a_history_ends_as_it_did(seed: int) -> None:
    assert history(seed) == HISTORIES[seed]


if __name__ == "__main__":
    for number in range(12):
        print(f'    "{history(number)}",')
