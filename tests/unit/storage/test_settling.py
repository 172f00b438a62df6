"""New logs reach the disk many at a time, and without anybody waiting for it."""

from __future__ import annotations

from collections.abc import Callable
from errno import EIO
from random import Random
from typing import TypeVar

import pytest

from tests.support.appends import as_leader
from tests.support.log_builder import LogBuilder, ManualClock, accepted
from tidelog.model.ids import BrokerEpoch, PartitionIndex, TopicId, TopicName, TopicPartition
from tidelog.model.slow_work import InlineSlowWork
from tidelog.simulation.disk import SimulatedDisk
from tidelog.storage.log_config import LogConfig
from tidelog.storage.log_directory import LogDirectory
from tidelog.storage.seams import Seams
from tidelog.storage.settling import GROUP_MAX, GROUPS_UNDER_WAY_MAX

T = TypeVar("T")

ID = TopicId(b"0123456789abcdef")
DIRECTORY = "/logs"


class StepwiseSlowWork:
    """Does nothing until it is told to, and then one piece of work at a time, in order."""

    def __init__(self) -> None:
        self.held: list[Callable[[], None]] = []

    def submit(self, work: Callable[[], T], then: Callable[[T | BaseException], None] | None = None) -> None:
        self.held.append(lambda: InlineSlowWork().submit(work, then))

    def run(self, count: int) -> None:
        for _ in range(count):
            self.held.pop(0)()

    def run_all(self) -> None:
        while self.held:
            self.run(1)


class Node:
    def __init__(self) -> None:
        self.clock = ManualClock()
        self.disk = SimulatedDisk(self.clock)
        self.disk.make_directory(DIRECTORY)
        self.disk.sync_directory("/")
        self.slow_work = StepwiseSlowWork()
        self.offline: list[str] = []
        self.directory = self.open()

    def open(self) -> LogDirectory:
        directory = LogDirectory.open(
            Seams(self.disk, self.clock, self.slow_work, Random(3)),
            DIRECTORY,
            config_of=lambda _topic: LogConfig(),
            on_offline=lambda failed, _error: self.offline.append(failed.path),
        )
        directory.load()
        return directory


def orders(index: int) -> TopicPartition:
    return TopicPartition(TopicName("orders"), PartitionIndex(index))


@pytest.fixture
def node() -> Node:
    return Node()


def test_a_log_is_used_while_the_disk_is_waited_for(node: Node) -> None:
    log = node.directory.create_partition(orders(0), ID)
    node.directory.settle_new()

    assert node.slow_work.held
    accepted(as_leader(log, LogBuilder().batch("a"), 0))

    assert log.is_settled
    node.slow_work.run_all()
    assert node.offline == []
    assert node.disk.list_directory(log.directory).count("partition.metadata") == 1


@pytest.mark.parametrize("steps", [0, 1, 2])
def test_a_record_may_come_at_any_step(node: Node, steps: int) -> None:
    log = node.directory.create_partition(orders(0), ID)
    node.directory.settle_new()
    node.slow_work.run(steps)

    accepted(as_leader(log, LogBuilder().batch("a"), 0))
    node.slow_work.run_all()

    node.disk.crash(Random(1))
    found = node.open().partitions[orders(0)]
    assert found.topic_id == ID
    assert not node.offline


def test_many_are_settled_together_and_only_so_many_at_a_time(node: Node) -> None:
    count = GROUP_MAX * GROUPS_UNDER_WAY_MAX + 1
    logs = [node.directory.create_partition(orders(index), ID) for index in range(count)]

    node.directory.settle_new()

    assert len(node.slow_work.held) == GROUPS_UNDER_WAY_MAX
    node.slow_work.run_all()
    assert all(log.is_settled for log in logs)
    node.disk.crash(Random(2))
    assert {log.topic_id for log in node.open().partitions.values()} == {ID}


@pytest.mark.parametrize("steps", [0, 1])
def test_one_that_is_deleted_meanwhile_is_no_fault(node: Node, steps: int) -> None:
    node.directory.create_partition(orders(0), ID)
    kept = node.directory.create_partition(orders(1), ID)
    node.directory.settle_new()
    node.slow_work.run(steps)

    node.directory.delete_partition(orders(0))
    node.slow_work.run_all()

    assert node.offline == []
    assert kept.is_settled


def test_a_disk_that_fails_takes_its_directory_offline(node: Node) -> None:
    node.directory.create_partition(orders(0), ID)
    node.directory.settle_new()

    node.disk.fail("sync", "*partition.metadata.tmp", EIO)
    node.slow_work.run_all()

    assert node.offline == [DIRECTORY]


def test_a_settled_log_without_a_record_has_nothing_to_write_at_a_stop(node: Node) -> None:
    log = node.directory.create_partition(orders(0), ID)
    node.directory.settle_new()
    node.slow_work.run_all()

    assert log.prepare_close() is None
    node.directory.close(BrokerEpoch(1))

    directory = node.open()
    assert directory.was_clean
    assert directory.partitions[orders(0)].topic_id == ID
