"""AlterPartitionReassignments, ListPartitionReassignments, and how AlterPartition completes what they begin."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.support.metadata_node import MetadataNode, directory_id
from tidelog.controller.image import LeaderRecovery, Partition
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import NodeId, PartitionIndex, TopicName
from tidelog.wire.messages import alter_partition as alter, reassignments as wire
from tidelog.wire.messages.internal.cluster_metadata import PartitionChangeRecord

ORDERS = TopicName("orders")


@pytest.fixture
def node() -> MetadataNode:
    """Five active brokers, and a topic of two partitions with three replicas each on the first three."""
    node = MetadataNode(config={"metadata.max.idle.interval.ms": "0"})
    node.start()
    node.serve(1, 2, 3, 4, 5)
    node.create_topic("orders", assignments={0: [1, 2, 3], 1: [2, 3, 1]})
    return node


def partition(node: MetadataNode, index: int = 0, topic: TopicName = ORDERS) -> Partition:
    found = node.image.topic(topic)
    assert found is not None
    return found.partitions[PartitionIndex(index)]


def ask(
    node: MetadataNode,
    replicas: Sequence[int] | None,
    *,
    index: int = 0,
    topic: str = "orders",
    allow_factor_change: bool = True,
) -> tuple[int, str | None]:
    """Begin a reassignment, or take it back. Error code and message."""
    wanted = wire.ReassignablePartition(partition_index=index, replicas=None if replicas is None else list(replicas))
    request = wire.AlterPartitionReassignmentsRequest(
        allow_replication_factor_change=allow_factor_change,
        topics=[wire.ReassignableTopic(name=topic, partitions=[wanted])],
    )
    answer = node.ask(request, wire.AlterPartitionReassignmentsResponse)
    assert (answer.error_code, answer.error_message) == (0, None)
    [told] = answer.responses
    [result] = told.partitions
    assert (told.name, result.partition_index) == (topic, index)
    return result.error_code, result.error_message


def in_sync(node: MetadataNode, *isr: int) -> int:
    """The leader of partition 0 proposes an in-sync set. The error code."""
    before = partition(node)
    data = alter.PartitionData(
        partition_index=0,
        leader_epoch=before.leader_epoch,
        partition_epoch=before.partition_epoch,
        new_isr_with_epochs=[alter.BrokerState(broker_id=each, broker_epoch=-1) for each in isr],
    )
    request = alter.AlterPartitionRequest(
        broker_id=before.leader,
        broker_epoch=node.image.brokers[before.leader].epoch,
        topics=[alter.TopicData(topic_id=node.image.topic_ids[ORDERS], partitions=[data])],
    )
    return node.ask(request, alter.AlterPartitionResponse).topics[0].partitions[0].error_code


def fence(node: MetadataNode, *brokers: int) -> None:
    for broker in brokers:
        node.heartbeat(broker, node.image.brokers[NodeId(broker)].epoch, want_fence=True)


class TestBeginning:
    def test_the_new_ones_come_before_the_old_ones_go(self, node: MetadataNode) -> None:
        assert ask(node, [4, 5, 1]) == (0, None)

        now = partition(node)
        assert now.replicas == (4, 5, 1, 2, 3)
        assert (now.adding_replicas, now.removing_replicas) == ((4, 5), (2, 3))
        assert (now.isr, now.leader, now.leader_epoch, now.partition_epoch) == ((1, 2, 3), 1, 0, 1)

    def test_each_replica_has_a_directory(self, node: MetadataNode) -> None:
        ask(node, [4, 1, 2])

        assert partition(node).directories == tuple(directory_id(broker) for broker in (4, 1, 2, 3))

    def test_another_order_takes_one_record(self, node: MetadataNode) -> None:
        end = node.image.offset

        assert ask(node, [3, 2, 1]) == (0, None)

        assert node.records(end + 1) == [
            PartitionChangeRecord(
                partition_id=0,
                topic_id=node.image.topic_ids[ORDERS],
                replicas=[3, 2, 1],
                directories=[directory_id(broker) for broker in (3, 2, 1)],
            )
        ]
        assert partition(node).leader == 1

    def test_what_is_so_already_writes_nothing(self, node: MetadataNode) -> None:
        end = node.image.offset

        assert ask(node, [1, 2, 3]) == (0, None)
        assert node.image.offset == end

    def test_fewer_replicas_take_one_record(self, node: MetadataNode) -> None:
        assert ask(node, [2, 3]) == (0, None)

        now = partition(node)
        assert (now.replicas, now.isr, now.adding_replicas, now.removing_replicas) == ((2, 3), (2, 3), (), ())
        assert (now.leader, now.leader_epoch) == (2, 1)

    def test_the_epoch_tells_those_who_left_that_they_did(self, node: MetadataNode) -> None:
        ask(node, [1, 2])

        assert (partition(node).leader, partition(node).leader_epoch) == (1, 1)

    def test_fewer_replicas_wait_until_all_who_stay_are_in_sync(self, node: MetadataNode) -> None:
        in_sync(node, 1, 3)

        ask(node, [1, 2])
        between = partition(node)
        in_sync(node, 1, 3, 2)

        assert (between.replicas, between.isr, between.removing_replicas) == ((1, 2, 3), (1, 3), (3,))
        assert (partition(node).replicas, partition(node).isr) == ((1, 2), (1, 2))

    def test_a_fenced_broker_may_be_named(self, node: MetadataNode) -> None:
        fence(node, 4)

        assert ask(node, [4, 2, 3]) == (0, None)
        assert partition(node).adding_replicas == (4,)

    @pytest.mark.parametrize(
        ("replicas", "message"),
        [
            ([], "includes an empty replica list"),
            ([1, 9], "includes broker 9, but no such broker is registered"),
            ([1, -1], "includes broker -1"),
            ([1, 2, 2], "includes the broker 2 more than once"),
        ],
    )
    def test_replicas_that_cannot_be(self, node: MetadataNode, replicas: list[int], message: str) -> None:
        end = node.image.offset

        error, told = ask(node, replicas)

        assert error == ErrorCode.INVALID_REPLICA_ASSIGNMENT
        assert message in (told or "")
        assert node.image.offset == end

    def test_what_is_not_there(self, node: MetadataNode) -> None:
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

        assert ask(node, [1], topic="missing") == (unknown, "Unable to find a topic named missing.")
        assert ask(node, [1], index=7) == (unknown, "Unable to find partition orders:7.")

    def test_one_partition_twice(self, node: MetadataNode) -> None:
        wanted = [wire.ReassignablePartition(partition_index=0, replicas=[each, 2, 3]) for each in (4, 5)]
        request = wire.AlterPartitionReassignmentsRequest(
            topics=[wire.ReassignableTopic(name="orders", partitions=wanted)]
        )

        [told] = node.ask(request, wire.AlterPartitionReassignmentsResponse).responses

        assert [each.error_code for each in told.partitions] == [0, ErrorCode.INVALID_REQUEST]
        assert partition(node).adding_replicas == (4,)

    def test_more_than_one_batch_holds(self, node: MetadataNode) -> None:
        many = [wire.ReassignablePartition(partition_index=index, replicas=[1]) for index in range(10_001)]
        request = wire.AlterPartitionReassignmentsRequest(
            topics=[wire.ReassignableTopic(name="orders", partitions=many)]
        )

        answer = node.ask(request, wire.AlterPartitionReassignmentsResponse)

        assert answer.error_code == ErrorCode.POLICY_VIOLATION
        assert {each.error_code for each in answer.responses[0].partitions} == {ErrorCode.POLICY_VIOLATION}


class TestReplicationFactor:
    @pytest.mark.parametrize("replicas", [[1, 2], [1, 2, 3, 4]])
    def test_it_may_have_to_stay(self, node: MetadataNode, replicas: list[int]) -> None:
        error, told = ask(node, replicas, allow_factor_change=False)

        assert error == ErrorCode.INVALID_REPLICATION_FACTOR
        assert told == f"The replication factor is changed from 3 to {len(replicas)}"
        assert ask(node, replicas) == (0, None)

    def test_it_is_the_one_that_a_reassignment_leads_to(self, node: MetadataNode) -> None:
        ask(node, [4, 5, 1, 2])

        assert ask(node, [1, 2, 3], allow_factor_change=False)[0] == ErrorCode.INVALID_REPLICATION_FACTOR
        assert ask(node, [4, 3, 1, 2], allow_factor_change=False) == (0, None)


class TestCompletion:
    def test_it_is_done_when_all_new_ones_are_in_sync(self, node: MetadataNode) -> None:
        ask(node, [4, 5, 1])

        first = in_sync(node, 1, 2, 3, 4)
        between = partition(node)
        second = in_sync(node, 1, 2, 3, 4, 5)

        assert (first, second) == (0, 0)
        assert between.adding_replicas == (4, 5)
        now = partition(node)
        assert (now.replicas, now.isr) == ((4, 5, 1), (1, 4, 5))
        assert (now.adding_replicas, now.removing_replicas) == ((), ())
        assert (now.leader, now.leader_epoch) == (1, 1)

    def test_a_leader_that_leaves_hears_that_another_one_leads(self, node: MetadataNode) -> None:
        ask(node, [4, 5])

        in_sync(node, 1, 2, 3, 4)
        error = in_sync(node, 1, 2, 3, 4, 5)

        assert error == ErrorCode.NEW_LEADER_ELECTED
        now = partition(node)
        assert (now.replicas, now.isr, now.leader, now.leader_epoch) == ((4, 5), (4, 5), 4, 1)

    def test_one_for_one_does_not_wait_for_the_others(self, node: MetadataNode) -> None:
        in_sync(node, 1, 2)

        ask(node, [1, 3, 4])
        in_sync(node, 1, 2, 4)

        now = partition(node)
        assert (now.replicas, now.isr, now.adding_replicas) == ((1, 3, 4), (1, 4), ())

    def test_nobody_who_leaves_counts_for_it(self, node: MetadataNode) -> None:
        """The only one in sync is to go: it stays until another one is."""
        in_sync(node, 1)

        ask(node, [2, 3])

        now = partition(node)
        assert (now.replicas, now.isr, now.leader, now.removing_replicas) == ((2, 3, 1), (1,), 1, (1,))

    def test_the_loss_of_a_broker_does_not_end_it(self, node: MetadataNode) -> None:
        ask(node, [4, 5, 1])

        fence(node, 1)

        now = partition(node)
        assert (now.leader, now.isr, now.adding_replicas) == (2, (2, 3), (4, 5))


class TestAnotherRequest:
    def test_it_goes_on_from_all_that_are_there(self, node: MetadataNode) -> None:
        ask(node, [4, 2, 3])

        assert ask(node, [5, 2, 3]) == (0, None)

        now = partition(node)
        assert (now.replicas, now.adding_replicas, now.removing_replicas) == ((5, 2, 3, 1, 4), (5,), (1, 4))

    def test_the_way_back_is_short(self, node: MetadataNode) -> None:
        ask(node, [4, 2, 3])

        assert ask(node, [1, 2, 3]) == (0, None)

        now = partition(node)
        assert (now.replicas, now.adding_replicas, now.removing_replicas) == ((1, 2, 3), (), ())

    def test_who_was_to_go_may_stay(self, node: MetadataNode) -> None:
        ask(node, [4, 2, 3])

        ask(node, [4, 2, 3, 1])
        between = partition(node)
        in_sync(node, 1, 2, 3, 4)

        assert (between.replicas, between.adding_replicas, between.removing_replicas) == ((4, 2, 3, 1), (4,), ())
        assert (partition(node).replicas, partition(node).adding_replicas) == ((4, 2, 3, 1), ())


class TestTakingBack:
    def test_the_new_ones_go_again(self, node: MetadataNode) -> None:
        ask(node, [4, 5, 1])
        in_sync(node, 1, 2, 3, 4)

        assert ask(node, None) == (0, None)

        now = partition(node)
        assert (now.replicas, now.isr) == ((1, 2, 3), (1, 2, 3))
        assert (now.adding_replicas, now.removing_replicas) == ((), ())
        assert (now.leader, now.leader_epoch) == (1, 1)

    def test_there_is_nothing_to_take_back(self, node: MetadataNode) -> None:
        error = ErrorCode.NO_REASSIGNMENT_IN_PROGRESS

        assert ask(node, None) == (error, error.message)

    def only_a_new_one(self, node: MetadataNode) -> None:
        """Whoever is to go has gone, and the new one alone is in sync."""
        ask(node, [4, 5])
        in_sync(node, 1, 2, 3, 4)
        fence(node, 1, 2, 3)
        assert partition(node).isr == (4,)

    def test_not_at_the_price_of_records(self, node: MetadataNode) -> None:
        self.only_a_new_one(node)

        error, told = ask(node, None)

        assert error == ErrorCode.INVALID_REPLICA_ASSIGNMENT
        assert "would require an unclean leader election" in (told or "")

    def test_unless_the_topic_allows_it(self) -> None:
        node = MetadataNode(config={"metadata.max.idle.interval.ms": "0"})
        node.start()
        node.serve(1, 2, 3, 4, 5)
        configs = {"unclean.leader.election.enable": "true"}
        node.create_topic("orders", assignments={0: [1, 2, 3]}, configs=configs)
        self.only_a_new_one(node)
        node.heartbeat(1, node.image.brokers[NodeId(1)].epoch)

        assert ask(node, None) == (0, None)

        now = partition(node)
        assert (now.replicas, now.leader, now.isr) == ((1, 2, 3), 1, (1,))
        assert now.leader_recovery is LeaderRecovery.RECOVERED


class TestListing:
    def listed(
        self, node: MetadataNode, topics: dict[str, list[int]] | None
    ) -> dict[tuple[str, int], tuple[list[int], list[int], list[int]]]:
        asked = (
            None
            if topics is None
            else [
                wire.ListPartitionReassignmentsTopics(name=name, partition_indexes=indexes)
                for name, indexes in topics.items()
            ]
        )
        request = wire.ListPartitionReassignmentsRequest(topics=asked)
        answer = node.ask(request, wire.ListPartitionReassignmentsResponse)
        assert (answer.error_code, answer.error_message) == (0, None)
        return {
            (topic.name, each.partition_index): (each.replicas, each.adding_replicas, each.removing_replicas)
            for topic in answer.topics
            for each in topic.partitions
        }

    def test_all_that_are_under_way(self, node: MetadataNode) -> None:
        node.create_topic("quiet", assignments={0: [1]})
        ask(node, [4, 2, 3])
        ask(node, [5, 3], index=1)

        assert self.listed(node, None) == {
            ("orders", 0): ([4, 2, 3, 1], [4], [1]),
            ("orders", 1): ([5, 3, 1, 2], [5], [1, 2]),
        }

    def test_some_of_them(self, node: MetadataNode) -> None:
        ask(node, [4, 2, 3])

        assert self.listed(node, {"orders": [1, 0, 9], "missing": [0]}) == {("orders", 0): ([4, 2, 3, 1], [4], [1])}

    def test_none(self, node: MetadataNode) -> None:
        assert self.listed(node, None) == {}
