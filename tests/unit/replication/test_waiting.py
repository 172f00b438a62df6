"""Who waits for an offset, and who watches a partition."""

from __future__ import annotations

import pytest

from tests.support.appends import produced
from tests.support.data_node import DataNode
from tests.support.log_builder import LogBuilder
from tidelog.model.bugs import BugError
from tidelog.model.errors import ErrorCode
from tidelog.replication.partition import Partition
from tidelog.replication.waiting import OffsetWaiters

BATCHES = LogBuilder()


class Recorder:
    """A watcher that remembers what it was told, and may leave."""

    is_waiting = True

    def __init__(self, *, once: bool = False) -> None:
        self.told: list[str] = []
        self._once = once

    def partition_changed(self, partition: Partition) -> None:
        self.told.append(str(partition.topic_partition))
        if self._once:
            partition.unwatch(self)


def test_waiters_are_told_in_the_order_of_their_offsets_and_of_their_coming() -> None:
    waiters = OffsetWaiters()
    told: list[str] = []
    waiters.wait_for(7).then(lambda _error: told.append("7"))
    waiters.wait_for(5).then(lambda _error: told.append("5a"))
    waiters.wait_for(5).then(lambda _error: told.append("5b"))

    waiters.reached(4)
    assert told == []
    waiters.reached(6)
    assert told == ["5a", "5b"]
    waiters.reached(7)

    assert told == ["5a", "5b", "7"]
    assert len(waiters) == 0


def test_waiters_get_the_error_that_came_between() -> None:
    waiters = OffsetWaiters()
    outcomes = [waiters.wait_for(offset) for offset in (3, 1, 2)]

    waiters.fail(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    assert [outcome.value for outcome in outcomes] == [ErrorCode.NOT_LEADER_OR_FOLLOWER] * 3
    assert len(waiters) == 0


def test_a_watcher_is_told_of_an_append_at_once_and_until_it_leaves() -> None:
    node = DataNode()
    node.create_topic("orders")
    partition, watcher = node.partition("orders"), Recorder()
    partition.watch(watcher)

    produced(partition, BATCHES.batch("a"))
    produced(partition, BATCHES.batch("b"))
    partition.unwatch(watcher)
    produced(partition, BATCHES.batch("c"))

    assert watcher.told == ["orders-0", "orders-0"]


def test_under_a_hold_a_watcher_is_told_once_after_the_last_append() -> None:
    node = DataNode()
    node.create_topic("orders", partitions=2)
    watcher = Recorder()
    wakeups = node.partitions.wakeups
    for index in (0, 1):
        node.partition("orders", index).watch(watcher)

    wakeups.hold()
    wakeups.hold()
    for index in (1, 0, 1):
        produced(node.partition("orders", index), BATCHES.batch("a"))
    wakeups.release()
    assert watcher.told == []
    wakeups.release()

    assert watcher.told == ["orders-1", "orders-0"]


def test_a_watcher_that_another_one_takes_off_is_not_told() -> None:
    node = DataNode()
    node.create_topic("orders")
    partition = node.partition("orders")
    second = Recorder()

    class First:
        is_waiting = True

        def partition_changed(self, changed: Partition) -> None:
            changed.unwatch(second)

    partition.watch(First())
    partition.watch(second)

    produced(partition, BATCHES.batch("a"))

    assert second.told == []


def test_a_change_that_a_watcher_causes_is_told_too() -> None:
    node = DataNode()
    node.create_topic("orders", partitions=2)
    watcher = Recorder()
    node.partition("orders", 1).watch(watcher)

    class Copying:
        is_waiting = True

        def partition_changed(self, changed: Partition) -> None:
            changed.unwatch(self)
            produced(node.partition("orders", 1), BATCHES.batch("copy"))

    node.partition("orders", 0).watch(Copying())

    node.partitions.wakeups.hold()
    produced(node.partition("orders", 0), BATCHES.batch("a"))
    node.partitions.wakeups.release()

    assert watcher.told == ["orders-1"]


def _fail(*_args: object) -> None:
    raise ValueError("a bug")


def test_a_waiter_that_fails_is_a_bug_which_stops_the_node() -> None:
    waiters = OffsetWaiters()
    waiters.wait_for(1).then(_fail)

    with pytest.raises(BugError, match="telling those who wait for an offset broke off"):
        waiters.reached(1)


def test_a_watcher_that_fails_is_a_bug_which_stops_the_node() -> None:
    node = DataNode()
    node.create_topic("orders")

    class Failing:
        is_waiting = True
        partition_changed = _fail

    node.partition("orders").watch(Failing())

    with pytest.raises(BugError, match="telling the watchers of orders-0 broke off"):
        produced(node.partition("orders"), BATCHES.batch("a"))
