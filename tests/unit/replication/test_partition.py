"""One replica: its roles, what it appends and reads in each, and how far the high watermark goes."""

from __future__ import annotations

import errno
from collections.abc import Mapping

import pytest

from tests.support.appends import coordinated, produced
from tests.support.data_node import NODE, OTHER, THIRD, DataNode
from tests.support.log_builder import LogBuilder, accepted, fetched_values, refused
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import NodeId
from tidelog.model.pending import Pending
from tidelog.replication.divergence import Diverged
from tidelog.replication.partition import UP_TO_HIGH_WATERMARK, Partition
from tidelog.replication.roles import Following, Leading, Offline, Role
from tidelog.storage.fetched import Fetched, FetchIsolation
from tidelog.storage.leader_epochs import EpochEndOffset
from tidelog.wire.control_records import ControlType, build_end_txn_marker

BATCHES = LogBuilder()
EVERYTHING = 1 << 20
HIGH_WATERMARK = FetchIsolation.HIGH_WATERMARK
THREE = (NODE, OTHER, THIRD)


@pytest.fixture
def node() -> DataNode:
    return DataNode()


def single(node: DataNode) -> Partition:
    node.create_topic("orders")
    return node.partition("orders")


def replicated(node: DataNode, configs: Mapping[str, str] | None = None) -> Partition:
    node.create_topic("orders", replicas=THREE, configs=configs)
    return node.partition("orders")


def fetch_as(partition: Partition, follower: NodeId, offset: int, *, log_start_offset: int = 0) -> Fetched:
    outcome = partition.read_as_follower(
        follower,
        offset,
        EVERYTHING,
        broker_epoch=7,
        log_start_offset=log_start_offset,
        current_leader_epoch=partition.leader_epoch,
    )
    assert isinstance(outcome, Fetched), outcome
    return outcome


def high_watermark(partition: Partition) -> int:
    assert partition.log is not None
    return partition.log.high_watermark


# Roles


def test_a_replica_leads_follows_and_leads_again_as_the_metadata_says(node: DataNode) -> None:
    partition = replicated(node)
    log = node.log("orders")
    roles: list[Role] = [partition.role]

    for leader in (OTHER, -1, NODE):
        node.change("orders", leader=leader)
        roles.append(partition.role)

    assert isinstance(roles[0], Leading)
    followed = [role for role in roles if isinstance(role, Following)]
    assert [(role.log, role.leader) for role in followed] == [(log, OTHER), (log, NodeId(-1))]
    assert isinstance(roles[3], Leading)
    assert partition.leader_epoch == 3


def test_metadata_that_is_older_than_what_is_known_is_passed_over(node: DataNode) -> None:
    partition = replicated(node)
    topic = node.image.topics[partition.topic_id]
    old = topic.partitions[partition.topic_partition.partition]
    node.change("orders", isr=[NODE])

    partition.lead(node.log("orders"), old)
    partition.follow(node.log("orders"), old)

    assert isinstance(partition.role, Leading)
    assert partition.role.isr == (NODE,)


def test_a_new_epoch_is_known_to_the_log_before_its_first_record_and_on_disk_when_that_is(node: DataNode) -> None:
    partition = single(node)
    produced(partition, BATCHES.batch("a", "b"))
    node.log("orders").flush()
    node.change("orders", leader=NODE)
    path = "/data/orders-0/leader-epoch-checkpoint"
    assert node.disk.read_bytes(path, 1000) == b"0\n1\n0 0\n"
    assert partition.end_offset_for_epoch(1, 1) == EpochEndOffset(1, 2)  # type: ignore[arg-type]

    produced(partition, BATCHES.batch("c"))
    node.log("orders").flush()

    assert node.disk.read_bytes(path, 1000) == b"0\n2\n0 0\n1 2\n"


# Appending with one replica


def test_with_one_replica_the_high_watermark_moves_with_every_append(node: DataNode) -> None:
    partition = single(node)

    info = accepted(produced(partition, BATCHES.batch("a", "b")))

    assert (info.first_offset, info.last_offset) == (0, 1)
    assert high_watermark(partition) == 2
    assert partition.when_committed(2) is ErrorCode.NONE
    assert fetched_values(partition.read(0, EVERYTHING, HIGH_WATERMARK)) == ["a", "b"]


def test_one_replica_is_enough_whatever_min_insync_replicas_says(node: DataNode) -> None:
    node.create_topic("orders", configs={"min.insync.replicas": "2"})
    partition = node.partition("orders")

    accepted(produced(partition, BATCHES.batch("a")))

    assert high_watermark(partition) == 1


def test_a_duplicate_is_answered_and_tells_nobody(node: DataNode) -> None:
    partition = single(node)
    batch = BATCHES.batch("a", producer_id=9, producer_epoch=0, base_sequence=0)
    accepted(produced(partition, bytearray(batch)))
    told: list[Partition] = []

    class Watcher:
        is_waiting = True

        def partition_changed(self, changed: Partition) -> None:
            told.append(changed)

    partition.watch(Watcher())
    again = accepted(produced(partition, bytearray(batch)))

    assert again.is_duplicate
    assert again.first_offset == 0
    assert told == []


def test_a_follower_appends_nothing(node: DataNode) -> None:
    node.create_topic("orders", replicas=THREE, leader=OTHER)
    partition = node.partition("orders")

    assert refused(produced(partition, BATCHES.batch("a"))).error is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert partition.when_committed(1) is ErrorCode.NOT_LEADER_OR_FOLLOWER


# Several replicas


def test_the_high_watermark_is_the_smallest_log_end_of_the_in_sync_replicas(node: DataNode) -> None:
    partition = replicated(node)
    produced(partition, BATCHES.batch("a", "b", "c"))
    assert high_watermark(partition) == 0

    fetch_as(partition, OTHER, 3)
    assert high_watermark(partition) == 0
    fetch_as(partition, THIRD, 2)
    assert high_watermark(partition) == 2
    assert fetched_values(partition.read(0, EVERYTHING, FetchIsolation.LOG_END)) == ["a", "b", "c"]
    fetch_as(partition, THIRD, 3)

    assert high_watermark(partition) == 3


def test_the_high_watermark_never_goes_back(node: DataNode) -> None:
    partition = replicated(node)
    produced(partition, BATCHES.batch("a", "b"))
    for follower in (OTHER, THIRD):
        fetch_as(partition, follower, 2)

    fetch_as(partition, THIRD, 0)

    assert high_watermark(partition) == 2


def test_a_follower_that_leaves_the_in_sync_set_holds_nothing_back(node: DataNode) -> None:
    partition = replicated(node)
    produced(partition, BATCHES.batch("a"))
    fetch_as(partition, OTHER, 1)
    waiting = partition.when_committed(1)
    assert isinstance(waiting, Pending)

    node.change("orders", isr=[NODE, OTHER])

    assert high_watermark(partition) == 1
    assert waiting.value is ErrorCode.NONE


def test_a_write_waits_for_the_high_watermark(node: DataNode) -> None:
    partition = replicated(node)
    info = accepted(produced(partition, BATCHES.batch("a")))
    waiting = partition.when_committed(info.last_offset + 1)
    assert isinstance(waiting, Pending)
    fetch_as(partition, OTHER, 1)
    assert not waiting.is_complete

    fetch_as(partition, THIRD, 1)

    assert waiting.value is ErrorCode.NONE


def test_a_write_that_waits_is_told_when_another_one_leads(node: DataNode) -> None:
    partition = replicated(node)
    produced(partition, BATCHES.batch("a"))
    waiting = partition.when_committed(1)
    assert isinstance(waiting, Pending)

    node.change("orders", leader=OTHER)

    assert waiting.value is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_too_few_in_sync_replicas_refuse_acks_all_and_hold_the_high_watermark(node: DataNode) -> None:
    partition = replicated(node, configs={"min.insync.replicas": "2"})
    node.change("orders", isr=[NODE])

    assert refused(produced(partition, BATCHES.batch("a"))).error is ErrorCode.NOT_ENOUGH_REPLICAS
    accepted(produced(partition, BATCHES.batch("b"), 1))
    assert high_watermark(partition) == 0

    node.configure("orders", {"min.insync.replicas": "1"})

    assert high_watermark(partition) == 1


def test_what_was_committed_before_the_in_sync_set_shrank_says_so(node: DataNode) -> None:
    partition = replicated(node, configs={"min.insync.replicas": "2"})
    produced(partition, BATCHES.batch("a"))
    for follower in (OTHER, THIRD):
        fetch_as(partition, follower, 1)
    node.change("orders", isr=[NODE])

    assert partition.when_committed(1) is ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND


def test_in_a_new_epoch_a_follower_has_to_show_again_how_far_it_is(node: DataNode) -> None:
    partition = replicated(node)
    produced(partition, BATCHES.batch("a"))
    for follower in (OTHER, THIRD):
        fetch_as(partition, follower, 1)

    node.change("orders", leader=NODE)
    produced(partition, BATCHES.batch("b"))

    assert high_watermark(partition) == 1


def test_a_broker_that_is_no_replica_is_not_taken_for_one(node: DataNode) -> None:
    partition = replicated(node)

    with_epoch = partition.read_as_follower(
        NodeId(9), 0, EVERYTHING, broker_epoch=1, log_start_offset=0, current_leader_epoch=0
    )
    without = partition.read_as_follower(NodeId(9), 0, EVERYTHING, broker_epoch=1, log_start_offset=0)

    assert with_epoch is ErrorCode.UNKNOWN_LEADER_EPOCH
    assert without is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_follower_counts_as_caught_up_when_it_reaches_the_end_that_was(node: DataNode) -> None:
    partition = replicated(node)
    assert isinstance(partition.role, Leading)
    progress = partition.role.followers[OTHER]
    start = node.clock.ms
    produced(partition, BATCHES.batch("a"))

    node.clock.advance(10)
    fetch_as(partition, OTHER, 0)
    assert progress.last_caught_up_ms == start
    produced(partition, BATCHES.batch("b"))
    node.clock.advance(10)
    fetch_as(partition, OTHER, 1)
    assert progress.last_caught_up_ms == start + 10
    node.clock.advance(10)
    fetch_as(partition, OTHER, 2)

    assert progress.last_caught_up_ms == start + 30
    assert progress.broker_epoch == 7


# Reading


@pytest.mark.parametrize(
    ("epoch", "expected"), [(0, ErrorCode.FENCED_LEADER_EPOCH), (2, ErrorCode.UNKNOWN_LEADER_EPOCH), (1, None)]
)
def test_a_reader_with_another_epoch_is_told_who_is_behind(
    node: DataNode, epoch: int, expected: ErrorCode | None
) -> None:
    partition = single(node)
    node.change("orders", leader=NODE)

    outcome = partition.read(0, EVERYTHING, HIGH_WATERMARK, current_leader_epoch=epoch)

    assert outcome is expected if expected is not None else isinstance(outcome, Fetched)


def test_a_follower_serves_readers_that_do_not_insist_on_the_leader(node: DataNode) -> None:
    partition = replicated(node)
    produced(partition, BATCHES.batch("a"))
    for follower in (OTHER, THIRD):
        fetch_as(partition, follower, 1)
    node.change("orders", leader=OTHER)

    assert partition.read(0, EVERYTHING, HIGH_WATERMARK) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert fetched_values(partition.read(0, EVERYTHING, HIGH_WATERMARK, leader_only=False)) == ["a"]


def test_a_reader_whose_last_epoch_ended_earlier_here_is_sent_back(node: DataNode) -> None:
    partition = single(node)
    produced(partition, BATCHES.batch("a", "b"))
    for _ in range(3):
        node.change("orders", leader=NODE)
    produced(partition, BATCHES.batch("c"))

    diverged = partition.read(3, EVERYTHING, HIGH_WATERMARK, last_fetched_epoch=0)
    unknown_epoch = partition.read(2, EVERYTHING, HIGH_WATERMARK, last_fetched_epoch=2)
    right = partition.read(2, EVERYTHING, HIGH_WATERMARK, last_fetched_epoch=0)
    future = partition.read(2, EVERYTHING, HIGH_WATERMARK, last_fetched_epoch=9)

    assert isinstance(diverged, Diverged)
    assert diverged.end == (0, 2)
    assert isinstance(unknown_epoch, Diverged)
    assert unknown_epoch.end == (0, 2)
    assert fetched_values(right) == ["c"]
    assert future is ErrorCode.OFFSET_OUT_OF_RANGE


def test_an_offset_before_the_log_is_out_of_range_whatever_the_epochs_say(node: DataNode) -> None:
    partition = single(node)
    produced(partition, BATCHES.batch("a", "b"))
    for _ in range(2):
        node.change("orders", leader=NODE)
    produced(partition, BATCHES.batch("c"))
    partition.delete_records(1)

    assert partition.read(0, EVERYTHING, HIGH_WATERMARK, last_fetched_epoch=1) is ErrorCode.OFFSET_OUT_OF_RANGE


def test_an_offset_that_the_log_does_not_have_is_out_of_range(node: DataNode) -> None:
    partition = single(node)
    produced(partition, BATCHES.batch("a"))

    assert partition.read(2, EVERYTHING, HIGH_WATERMARK) is ErrorCode.OFFSET_OUT_OF_RANGE
    assert partition.read(-1, EVERYTHING, HIGH_WATERMARK) is ErrorCode.OFFSET_OUT_OF_RANGE


def test_a_reader_of_committed_records_stops_at_an_open_transaction(node: DataNode) -> None:
    partition = single(node)
    produced(partition, BATCHES.batch("a"))
    open_batch = BATCHES.batch("b", producer_id=5, producer_epoch=0, base_sequence=0, is_transactional=True)
    accepted(produced(partition, open_batch))

    assert fetched_values(partition.read(0, EVERYTHING, FetchIsolation.LAST_STABLE_OFFSET)) == ["a"]
    marker = build_end_txn_marker(
        ControlType.ABORT, producer_id=5, producer_epoch=0, coordinator_epoch=0, timestamp=node.clock.ms
    )
    accepted(coordinated(partition, marker))
    after = partition.read(0, EVERYTHING, FetchIsolation.LAST_STABLE_OFFSET)

    assert isinstance(after, Fetched)
    assert after.aborted_transactions is not None
    assert [(each.producer_id, each.first_offset) for each in after.aborted_transactions] == [(5, 1)]


# Deleting records


def test_records_are_deleted_up_to_an_offset_or_to_the_high_watermark(node: DataNode) -> None:
    partition = single(node)
    produced(partition, BATCHES.batch("a", "b", "c"))

    assert partition.delete_records(1) == 1
    assert partition.low_watermark == 1
    assert partition.read(0, EVERYTHING, HIGH_WATERMARK) is ErrorCode.OFFSET_OUT_OF_RANGE
    assert partition.delete_records(4) is ErrorCode.OFFSET_OUT_OF_RANGE
    assert partition.delete_records(-2) is ErrorCode.OFFSET_OUT_OF_RANGE
    assert partition.delete_records(0) == 0
    assert partition.delete_records(UP_TO_HIGH_WATERMARK) == 3

    assert partition.low_watermark == 3
    assert partition.when_deleted(3) is ErrorCode.NONE


def test_a_topic_that_is_only_compacted_keeps_its_records(node: DataNode) -> None:
    node.create_topic("orders", configs={"cleanup.policy": "compact"})

    assert node.partition("orders").delete_records(0) is ErrorCode.POLICY_VIOLATION


def test_a_deletion_is_through_when_the_in_sync_followers_have_followed(node: DataNode) -> None:
    partition = replicated(node)
    produced(partition, BATCHES.batch("a", "b"))
    for follower in (OTHER, THIRD):
        fetch_as(partition, follower, 2)
    offset = partition.delete_records(2)
    assert offset == 2
    waiting = partition.when_deleted(2)
    assert isinstance(waiting, Pending)

    fetch_as(partition, OTHER, 2, log_start_offset=2)
    assert not waiting.is_complete
    assert partition.low_watermark == 0
    fetch_as(partition, THIRD, 2, log_start_offset=2)

    assert waiting.value is ErrorCode.NONE
    assert partition.low_watermark == 2


# Faults of the disk


def test_a_fault_of_the_disk_takes_the_replica_offline_and_tells_everybody_who_waits(node: DataNode) -> None:
    partition = replicated(node)
    produced(partition, BATCHES.batch("a"))
    waiting = partition.when_committed(1)
    assert isinstance(waiting, Pending)
    node.disk.fail("pwritev", "*.log", errno.EIO)

    outcome = refused(produced(partition, BATCHES.batch("b")))

    assert outcome.error is ErrorCode.KAFKA_STORAGE_ERROR
    assert isinstance(partition.role, Offline)
    assert waiting.value is ErrorCode.KAFKA_STORAGE_ERROR
    assert partition.read(0, EVERYTHING, HIGH_WATERMARK) is ErrorCode.KAFKA_STORAGE_ERROR
    assert partition.delete_records(0) is ErrorCode.KAFKA_STORAGE_ERROR
    assert partition.when_committed(1) is ErrorCode.KAFKA_STORAGE_ERROR
    assert refused(produced(partition, BATCHES.batch("c"))).error is ErrorCode.KAFKA_STORAGE_ERROR
    assert partition.log is None
