"""What `tidelog cluster status` makes of what a cluster tells."""

from __future__ import annotations

from tidelog.cli.admin.cluster_status import NodeStatus, node_statuses, partition_statuses
from tidelog.client.admin import (
    BrokerDescription,
    ClusterDescription,
    PartitionDescription,
    QuorumDescription,
    QuorumReplica,
    TopicDescription,
)
from tidelog.client.consumer.topic_partition import TopicPartition


def topic(name: str, *partitions: PartitionDescription) -> TopicDescription:
    return TopicDescription(name, None, False, partitions)


def partition(index: int, leader: int | None, in_sync: tuple[int, ...]) -> PartitionDescription:
    return PartitionDescription(index, leader, 3, (1, 2, 3), in_sync, ())


def test_a_node_is_what_it_is_registered_and_votes_as() -> None:
    cluster = ClusterDescription(
        "one",
        1,
        (BrokerDescription(1, "a", 9092, None, False), BrokerDescription(2, "b", 9092, None, True)),
    )
    quorum = QuorumDescription(
        1, 7, 100, (QuorumReplica(1, 110), QuorumReplica(3, -1)), (QuorumReplica(2, 90), QuorumReplica(4, 120))
    )
    topics = [topic("orders", partition(0, 1, (1, 2, 3)), partition(1, 1, (1,)))]

    assert node_statuses(cluster, quorum, topics) == [
        NodeStatus(1, ("broker", "controller"), "a:9092", "serves", True, 0, 2, 2),
        NodeStatus(2, ("broker",), "b:9092", "fenced", False, 20, 0, 2),
        NodeStatus(3, ("controller",), None, "votes", False, None, 0, 2),
        NodeStatus(4, ("observer",), None, "observes", False, 0, 0, 0),
    ]


def test_a_replica_that_is_only_being_added_is_not_missed() -> None:
    topics = [topic("orders", partition(0, 1, (1, 2)), partition(1, 1, (1,)))]
    adding = {TopicPartition("orders", 0): (3,), TopicPartition("orders", 1): (3,)}

    told = [(each.index, each.problem) for each in partition_statuses(topics, {}, adding)]

    assert told == [(1, "under-replicated")]


def test_a_partition_is_listed_under_the_worst_that_holds() -> None:
    topics = [
        topic("orders", partition(0, 1, (1, 2, 3)), partition(1, 1, (1, 2)), partition(2, 1, (1,))),
        topic("audit", partition(0, None, (3,)), partition(1, 2, (2,))),
    ]

    told = [(each.topic, each.index, each.problem) for each in partition_statuses(topics, {"orders": 2})]

    assert told == [
        ("audit", 0, "offline"),
        ("orders", 2, "under min ISR"),
        ("audit", 1, "under-replicated"),
        ("orders", 1, "under-replicated"),
    ]
