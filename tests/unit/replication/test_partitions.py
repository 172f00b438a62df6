"""The replicas of a node as the metadata changes: made, moved between roles, configured, deleted; on disks that fail."""

from __future__ import annotations

import errno

import pytest

from tests.support.appends import produced
from tests.support.data_node import BROKER_RESOURCE, NODE, OTHER, DataNode
from tests.support.log_builder import LogBuilder, accepted
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import UNASSIGNED_DIRECTORY, DirectoryId, PartitionIndex, TopicName
from tidelog.model.pending import Pending
from tidelog.replication.partition import Partition
from tidelog.replication.roles import Leading, Offline
from tidelog.storage.checkpoint_file import read_offsets
from tidelog.wire.messages.internal.cluster_metadata import ConfigRecord

BATCHES = LogBuilder()
ORDERS = TopicName("orders")
FIRST_DIRECTORY = DirectoryId(bytes([0x40]) * 16)
SECOND_DIRECTORY = DirectoryId(bytes([0x41]) * 16)


@pytest.fixture
def node() -> DataNode:
    return DataNode()


def test_a_topic_gets_its_replicas_by_name_and_by_id(node: DataNode) -> None:
    topic_id = node.create_topic("orders", partitions=3)

    assert sorted(node.partitions.named(ORDERS)) == [0, 1, 2]
    assert node.partitions.identified(topic_id) == node.partitions.named(ORDERS)
    assert len(node.partitions) == len(list(node.partitions)) == 3
    assert node.directory_names() == ["orders-0", "orders-1", "orders-2"]


def test_a_partition_is_led_here_elsewhere_or_not_at_all(node: DataNode) -> None:
    node.create_topic("orders", replicas=(NODE, OTHER))
    node.create_topic("elsewhere", replicas=(OTHER,), leader=OTHER)

    assert isinstance(node.partitions.led_partition(ORDERS, PartitionIndex(0)), Partition)
    assert node.partitions.led_partition(ORDERS, PartitionIndex(1)) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert node.partitions.led_partition(TopicName("x"), PartitionIndex(0)) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    elsewhere = node.partitions.led_partition(TopicName("elsewhere"), PartitionIndex(0))
    assert elsewhere is ErrorCode.NOT_LEADER_OR_FOLLOWER
    node.change("orders", leader=OTHER)
    assert node.partitions.led_partition(ORDERS, PartitionIndex(0)) is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_deleted_topic_takes_its_logs_along_and_tells_who_waits(node: DataNode) -> None:
    node.create_topic("orders", replicas=(NODE, OTHER))
    partition = node.partition("orders")
    produced(partition, BATCHES.batch("a"))
    waiting = partition.when_committed(1)
    assert isinstance(waiting, Pending)

    node.delete_topic("orders")

    assert waiting.value is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert len(node.partitions) == 0
    assert node.partitions.named(ORDERS) == {}
    assert all(name.endswith("-delete") for name in node.directory_names())


def test_a_topic_recreated_under_its_name_starts_empty_with_another_id(node: DataNode) -> None:
    first = node.create_topic("orders")
    produced(node.partition("orders"), BATCHES.batch("a"))
    node.delete_topic("orders")

    second = node.create_topic("orders")

    assert node.partitions.identified(first) == {}
    assert node.log("orders").log_end_offset == 0
    assert node.log("orders").topic_id == second


def test_a_replica_that_moves_away_is_deleted_here(node: DataNode) -> None:
    node.create_topic("orders", replicas=(NODE, OTHER))

    node.change("orders", replicas=[OTHER], isr=[OTHER], leader=OTHER, directories=[bytes(16)])

    assert len(node.partitions) == 0
    assert node.partitions.missing(ORDERS, PartitionIndex(0)) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert all(name.endswith("-delete") for name in node.directory_names())


def test_after_a_restart_everything_is_there_again(node: DataNode) -> None:
    node.create_topic("orders", partitions=2)
    accepted(produced(node.partition("orders", 1), BATCHES.batch("a", "b")))

    for cleanly in (True, False):
        node.restart(cleanly=cleanly)

        assert node.log("orders", 1).log_end_offset == 2
        assert node.log("orders", 1).high_watermark == 2
        assert isinstance(node.partition("orders", 0).role, Leading)


def test_what_the_metadata_does_not_know_is_set_aside_on_a_start(node: DataNode) -> None:
    node.create_topic("orders")
    node.create_topic("gone")
    image = node.image
    node.delete_topic("gone")
    without = node.image
    node.image = image
    node.restart()
    node.image = without

    node.restart()

    kept, removed, stray = sorted(node.directory_names(), key=lambda name: not name.startswith("orders"))
    assert kept == "orders-0"
    assert {removed.rpartition("-")[2], stray.rpartition("-")[2]} == {"delete", "stray"}


def test_a_directory_of_another_topic_of_that_name_is_set_aside_and_not_taken_over(node: DataNode) -> None:
    node.log_directories.create_partition(
        LogBuilder().open().topic_partition,
        b"another topic id",  # type: ignore[arg-type]
    )

    topic_id = node.create_topic("orders")

    assert node.log("orders").topic_id == topic_id
    assert any(name.endswith("-stray") for name in node.directory_names())


# Configuration


def test_a_change_of_configuration_is_effective_at_once(node: DataNode) -> None:
    node.create_topic("orders", configs={"max.message.bytes": "1000"})
    assert node.partition("orders").config.max_message_bytes == 1000

    node.configure("orders", {"max.message.bytes": "2000", "segment.bytes": "1048576"})

    assert node.partition("orders").config.max_message_bytes == 2000
    assert node.log("orders").config.segment_bytes == 1048576


def test_a_configuration_that_changed_while_logs_were_loaded_is_effective_too(node: DataNode) -> None:
    node.create_topic("orders")
    before = node.image
    node.configure("orders", {"segment.bytes": "1048576"})
    after, node.image = node.image, before

    node.restart(then=after)

    assert node.log("orders").config.segment_bytes == 1048576


def test_a_partition_to_which_nothing_happened_stays_as_it_is(node: DataNode) -> None:
    node.create_topic("orders", partitions=2, replicas=(NODE, OTHER))
    role = node.partition("orders", 1).role

    node.change("orders", 0, isr=[NODE])

    assert node.partition("orders", 1).role is role


def test_a_changed_default_of_the_brokers_reaches_all_topics_that_do_not_say_otherwise(node: DataNode) -> None:
    node.create_topic("orders")
    node.create_topic("small", configs={"max.message.bytes": "1000"})

    node.commit(ConfigRecord(resource_type=BROKER_RESOURCE, resource_name="", name="message.max.bytes", value="5000"))

    assert node.partition("orders").config.max_message_bytes == 5000
    assert node.partition("small").config.max_message_bytes == 1000


# Directories and their faults


def test_a_replica_goes_to_the_directory_that_the_metadata_names() -> None:
    node = DataNode(directories=("/one", "/two"))

    node.create_topic("orders", directory=SECOND_DIRECTORY)

    assert node.directory_names("/two") == ["orders-0"]
    assert node.placed == []


def test_where_the_metadata_names_none_the_node_chooses_and_says_where() -> None:
    node = DataNode(directories=("/one", "/two"))

    topic_id = node.create_topic("orders", partitions=2, directory=UNASSIGNED_DIRECTORY)

    assert node.directory_names("/one") == ["orders-0"]
    assert node.directory_names("/two") == ["orders-1"]
    assert node.placed == [(topic_id, 0, FIRST_DIRECTORY), (topic_id, 1, SECOND_DIRECTORY)]


def test_a_directory_that_fails_takes_only_its_replicas_offline() -> None:
    node = DataNode(directories=("/one", "/two"))
    node.create_topic("orders", directory=FIRST_DIRECTORY)
    node.create_topic("payments", directory=SECOND_DIRECTORY)
    node.disk.fail("pwritev", "/one/*", errno.EIO)

    produced(node.partition("orders"), BATCHES.batch("a"))

    assert node.partitions.led_partition(ORDERS, PartitionIndex(0)) is ErrorCode.KAFKA_STORAGE_ERROR
    accepted(produced(node.partition("payments"), BATCHES.batch("a")))


def test_the_other_replicas_of_a_failed_directory_are_told_too() -> None:
    node = DataNode(directories=("/one", "/two"))
    node.create_topic("orders", partitions=2, replicas=(NODE, OTHER), directory=FIRST_DIRECTORY)
    quiet = node.partition("orders", 1)
    produced(quiet, BATCHES.batch("a"))
    waiting = quiet.when_committed(1)
    assert isinstance(waiting, Pending)
    node.disk.fail("pwritev", "/one/orders-0/*", errno.EIO)

    produced(node.partition("orders", 0), BATCHES.batch("a"))

    assert waiting.value is ErrorCode.KAFKA_STORAGE_ERROR
    assert isinstance(quiet.role, Offline)


def test_a_replica_of_an_offline_directory_is_not_begun_anew_elsewhere() -> None:
    node = DataNode(directories=("/one", "/two"))
    node.create_topic("orders", directory=FIRST_DIRECTORY)
    node.disk.fail("pwritev", "/one/*", errno.EIO)
    produced(node.partition("orders"), BATCHES.batch("a"))

    node.create_topic("late", directory=FIRST_DIRECTORY)

    assert node.partitions.led_partition(TopicName("late"), PartitionIndex(0)) is ErrorCode.KAFKA_STORAGE_ERROR
    assert node.directory_names("/two") == []


def test_a_replica_that_one_directory_cannot_take_goes_to_another() -> None:
    node = DataNode(directories=("/one", "/two"))
    node.disk.fail("make_directory", "/one/*", errno.ENOSPC)

    node.create_topic("orders", directory=UNASSIGNED_DIRECTORY)

    assert isinstance(node.partition("orders").role, Leading)
    assert node.directory_names("/two") == ["orders-0"]


def test_a_replica_that_no_directory_can_take_is_offline_until_one_can(node: DataNode) -> None:
    node.disk.fail("make_directory", "/data/*", errno.ENOSPC)

    node.create_topic("orders")

    assert node.partitions.led_partition(ORDERS, PartitionIndex(0)) is ErrorCode.KAFKA_STORAGE_ERROR
    node.disk.heal()
    node.restart(cleanly=False)
    assert isinstance(node.partition("orders").role, Leading)


def test_a_topic_of_a_failed_directory_can_be_deleted_from_the_metadata() -> None:
    node = DataNode(directories=("/one", "/two"))
    node.create_topic("orders", directory=FIRST_DIRECTORY)
    node.disk.fail("pwritev", "/one/*", errno.EIO)
    produced(node.partition("orders"), BATCHES.batch("a"))

    node.delete_topic("orders")

    assert len(node.partitions) == 0


def test_high_watermarks_are_written_down_for_the_next_start(node: DataNode) -> None:
    node.create_topic("orders")
    produced(node.partition("orders"), BATCHES.batch("a", "b", "c"))

    node.partitions.save_high_watermarks()

    saved = read_offsets(node.disk, "/data/replication-offset-checkpoint")
    assert {str(partition): offset for partition, offset in saved.items()} == {"orders-0": 3}


def test_a_disk_that_takes_no_high_watermarks_goes_offline_without_a_fuss(node: DataNode) -> None:
    node.create_topic("orders")
    node.disk.fail("open", "*replication-offset-checkpoint*", errno.EROFS)

    node.partitions.save_high_watermarks()

    assert isinstance(node.partition("orders").role, Offline)
