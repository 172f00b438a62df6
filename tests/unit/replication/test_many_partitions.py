"""What one image brings is done a few replicas at a time, and whatever else happens meanwhile counts."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.support.appends import produced
from tests.support.data_node import NODE, DataNode
from tests.support.log_builder import LogBuilder, accepted
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import TopicName
from tidelog.model.internal_topics import CONSUMER_OFFSETS
from tidelog.replication.partition import Partition
from tidelog.replication.partitions import PER_TURN_MAX, TURN_MS_MAX, Partitions
from tidelog.storage.partition_directory import DirectoryKind, parse_name

MANY = TopicName("many")
BATCHES = LogBuilder()


class Turns(DataNode):
    """A node on which what is put off waits for the test."""

    def __init__(self) -> None:
        self.put_off: list[Callable[[], None]] = []
        super().__init__()

    def _new_partitions(self) -> Partitions:
        partitions = Partitions(
            self.node_id,
            self.log_directories,
            self.clock,
            config_of=self.topic_config,
            later=self.put_off.append,
        )
        for directory in self.log_directories:
            directory.load(is_stray=lambda log: partitions.is_stray(self.image, log))
        return partitions

    def turn(self) -> None:
        (work,) = self.put_off
        self.put_off.clear()
        work()

    def turns(self) -> int:
        count = 0
        while self.put_off:
            self.turn()
            count += 1
        return count

    def kept(self) -> list[str]:
        """The directories that are not deleted."""
        kinds = ((name, parse_name(name)) for name in self.directory_names())
        return [name for name, parsed in kinds if parsed is not None and parsed.kind is DirectoryKind.CURRENT]


@pytest.fixture
def node() -> Turns:
    return Turns()


def test_a_few_are_opened_at_once_and_the_others_a_few_at_a_time(node: Turns) -> None:
    node.create_topic(MANY, partitions=3 * PER_TURN_MAX)
    assert len(node.partitions) == PER_TURN_MAX

    node.turn()
    assert len(node.partitions) == 2 * PER_TURN_MAX

    assert node.turns() == 1
    assert len(node.partitions) == 3 * PER_TURN_MAX
    assert len(node.kept()) == 3 * PER_TURN_MAX


def test_a_slow_disk_makes_the_turns_shorter(node: Turns) -> None:
    make_directory = node.disk.make_directory

    def slowly(path: str) -> None:
        node.clock.advance(TURN_MS_MAX + 1)
        make_directory(path)

    node.disk.make_directory = slowly  # type: ignore[method-assign]
    node.create_topic(MANY, partitions=3)

    assert len(node.partitions) == 1
    assert node.turns() == 2


def test_others_are_served_meanwhile_and_who_comes_too_early_is_told_to_try_again(node: Turns) -> None:
    node.create_topic("orders")
    node.create_topic(MANY, partitions=2 * PER_TURN_MAX)
    assert node.put_off

    accepted(produced(node.partition("orders"), BATCHES.batch("a")))

    assert node.partitions.led_partition(MANY, PER_TURN_MAX) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    node.turns()
    assert isinstance(node.partitions.led_partition(MANY, PER_TURN_MAX), Partition)


def test_who_waits_is_told_when_all_are_there(node: Turns) -> None:
    assert node.partitions.opened().is_complete
    node.create_topic(MANY, partitions=3 * PER_TURN_MAX)
    opened = node.partitions.opened()

    node.turn()
    assert not opened.is_complete

    node.turns()
    assert opened.is_complete


def test_a_coordinator_finds_its_partitions_at_once(node: Turns) -> None:
    node.create_topic(CONSUMER_OFFSETS, partitions=2 * PER_TURN_MAX)

    assert len(node.partitions.named(CONSUMER_OFFSETS)) == 2 * PER_TURN_MAX
    assert not node.put_off


def test_a_topic_that_is_deleted_before_it_is_opened_leaves_nothing(node: Turns) -> None:
    node.create_topic(MANY, partitions=3 * PER_TURN_MAX)
    opened = node.partitions.opened()

    node.delete_topic(MANY)
    node.turns()

    assert opened.is_complete
    assert len(node.partitions) == 0
    assert node.kept() == []


def test_a_replica_that_moves_before_it_is_opened_is_opened_as_it_is_by_then(node: Turns) -> None:
    node.create_topic(MANY, partitions=PER_TURN_MAX + 2)

    node.change(MANY, PER_TURN_MAX, replicas=[2], isr=[2], leader=2)
    node.change(MANY, PER_TURN_MAX + 1, leader=NODE)
    node.turns()

    assert PER_TURN_MAX not in node.partitions.named(MANY)
    assert node.partition(MANY, PER_TURN_MAX + 1).partition_epoch == 1


def test_deleted_replicas_serve_nobody_from_the_first_moment_on(node: Turns) -> None:
    node.create_topic(MANY, partitions=3 * PER_TURN_MAX)
    node.turns()

    node.delete_topic(MANY)

    assert node.partitions.led_partition(MANY, 2 * PER_TURN_MAX) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert len(node.kept()) == 2 * PER_TURN_MAX
    node.turns()
    assert node.kept() == []


def test_a_name_may_come_back_before_the_last_of_it_is_deleted(node: Turns) -> None:
    node.create_topic(MANY, partitions=2 * PER_TURN_MAX)
    node.turns()
    last = 2 * PER_TURN_MAX - 1
    accepted(produced(node.partition(MANY, last), BATCHES.batch("old")))
    node.delete_topic(MANY)

    topic_id = node.create_topic(MANY, partitions=2 * PER_TURN_MAX)
    node.turns()

    assert len(node.kept()) == 2 * PER_TURN_MAX
    assert node.log(MANY, last).is_empty
    assert node.log(MANY, last).topic_id == topic_id


def test_a_log_that_a_crash_left_without_an_owner_is_its_topics_as_long_as_it_is_empty(node: Turns) -> None:
    topic_id = node.create_topic("orders", partitions=2)
    accepted(produced(node.partition("orders", 1), BATCHES.batch("a")))
    for index in range(2):
        node.disk.remove(f"/data/orders-{index}/partition.metadata")

    node.restart(cleanly=False)

    assert node.log("orders", 0).topic_id == topic_id
    assert node.disk.exists("/data/orders-0/partition.metadata")
    assert [parse_name(name) for name in node.directory_names() if name.endswith("-stray")]
    assert node.log("orders", 1).is_empty
