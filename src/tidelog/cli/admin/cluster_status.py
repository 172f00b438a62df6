"""`tidelog cluster status`: whether a cluster is whole, and what of it is not.

A node is known as a broker by its registration, and as a controller by its vote. One that only follows the metadata, and is no
broker, is an observer. A partition is

    offline             without a leader: nobody can read or write it
    under min ISR       in sync on fewer replicas than `min.insync.replicas`: writes with acks=all are refused
    under-replicated    in sync on fewer replicas than it has: it works, with less to fall back on

and listed under the worst that holds. One that is being reassigned has too many replicas for a while, and is listed with where it
goes. The exit code tells only whether there was an answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tidelog.cli.admin_session import administer, comma_separated, complain_later, print_json, print_line, print_table
from tidelog.cli.rendering import Json
from tidelog.client.admin import (
    AsyncAdmin,
    ClusterDescription,
    ConfigResource,
    PartitionDescription,
    PartitionReassignment,
    QuorumDescription,
    ResourceKind,
    TopicDescription,
)
from tidelog.client.consumer.topic_partition import TopicPartition
from tidelog.client.errors import ClientError

_COMMAND = "cluster"
_MIN_IN_SYNC = "min.insync.replicas"

_OFFLINE = "offline"
_UNDER_MIN_ISR = "under min ISR"
_UNDER_REPLICATED = "under-replicated"
_PROBLEMS = (_OFFLINE, _UNDER_MIN_ISR, _UNDER_REPLICATED)


@dataclass(frozen=True, slots=True)
class NodeStatus:
    node_id: int
    roles: tuple[str, ...]
    address: str | None
    """None for a node that is no broker: where controllers listen is not told."""
    state: str
    """`serves` or `fenced` for a broker, `votes` or `observes` for others."""
    is_leader: bool
    """Whether it leads the metadata."""
    lag: int | None
    """How many records of the metadata it has to get; None where that is not known."""
    leads: int
    replicas: int


@dataclass(frozen=True, slots=True)
class PartitionStatus:
    topic: str
    index: int
    problem: str
    leader: int | None
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]


def show_status(bootstrap: str, *, as_json: bool) -> int:
    async def work(admin: AsyncAdmin) -> None:
        cluster = await admin.describe_cluster(include_fenced_brokers=True)
        quorum = await admin.describe_quorum()
        described = await admin.describe_topics()
        topics = [each for each in described.values() if isinstance(each, TopicDescription)]
        moving = await admin.list_partition_reassignments()
        adding = {place: each.adding_replicas for place, each in moving.items()}
        troubled = [topic for topic in topics if any(_is_reduced(topic, each, adding) for each in topic.partitions)]
        minima = await _minima(admin, [topic.name for topic in troubled])
        nodes = node_statuses(cluster, quorum, topics)
        partitions = partition_statuses(troubled, minima, adding)
        if as_json:
            print_json([_as_json(cluster, quorum, nodes, topics, partitions, moving)])
        else:
            _print(cluster, quorum, nodes, topics, partitions)
            _print_moving(moving)
        complain_later([each for each in described.values() if isinstance(each, ClientError)])

    return administer(_COMMAND, bootstrap, work)


def node_statuses(
    cluster: ClusterDescription, quorum: QuorumDescription, topics: Iterable[TopicDescription]
) -> list[NodeStatus]:
    """All nodes that are known, by number."""
    partitions = [each for topic in topics for each in topic.partitions]
    brokers = {each.node_id: each for each in cluster.brokers}
    voters = {each.node_id: each for each in quorum.voters}
    replicas = {**{each.node_id: each for each in quorum.observers}, **voters}
    end = next((each.log_end_offset for each in quorum.voters if each.node_id == quorum.leader_id), -1)
    statuses = []
    for node_id in sorted(brokers.keys() | replicas.keys()):
        broker, replica = brokers.get(node_id), replicas.get(node_id)
        roles = [name for name, known in (("broker", brokers), ("controller", voters)) if node_id in known]
        state = "votes" if node_id in voters else "observes"
        if broker is not None:
            state = "fenced" if broker.is_fenced else "serves"
        # A replica that the leader has not heard of since its election has no end.
        is_known = replica is not None and replica.log_end_offset >= 0 and end >= 0
        statuses.append(
            NodeStatus(
                node_id,
                tuple(roles) or ("observer",),
                None if broker is None else f"{broker.host}:{broker.port}",
                state,
                node_id == quorum.leader_id,
                max(0, end - replica.log_end_offset) if replica is not None and is_known else None,
                sum(each.leader == node_id for each in partitions),
                sum(node_id in each.replicas for each in partitions),
            )
        )
    return statuses


def partition_statuses(
    topics: Iterable[TopicDescription],
    minima: Mapping[str, int],
    adding: Mapping[TopicPartition, Sequence[int]] | None = None,
) -> list[PartitionStatus]:
    """The partitions that are not whole, the worst first. `minima` has `min.insync.replicas` by topic, as far as it is known;
    `adding` the replicas that are only on their way, and not missed yet."""
    statuses = []
    for topic in topics:
        for each in topic.partitions:
            if not _is_reduced(topic, each, adding or {}):
                continue
            if each.leader is None:
                problem = _OFFLINE
            elif len(each.in_sync) < minima.get(topic.name, 1):
                problem = _UNDER_MIN_ISR
            else:
                problem = _UNDER_REPLICATED
            statuses.append(PartitionStatus(topic.name, each.index, problem, each.leader, each.replicas, each.in_sync))
    return sorted(statuses, key=lambda each: (_PROBLEMS.index(each.problem), each.topic, each.index))


def _is_reduced(
    topic: TopicDescription, partition: PartitionDescription, adding: Mapping[TopicPartition, Sequence[int]]
) -> bool:
    coming = adding.get(TopicPartition(topic.name, partition.index), ())
    return partition.leader is None or len(partition.in_sync) < len(partition.replicas) - len(coming)


async def _minima(admin: AsyncAdmin, topics: Sequence[str]) -> dict[str, int]:
    """What is configured for these topics; one that was deleted meanwhile is left out."""
    if not topics:
        return {}
    resources = [ConfigResource(ResourceKind.TOPIC, name) for name in topics]
    minima = {}
    for resource, entries in (await admin.describe_configs(resources, keys=[_MIN_IN_SYNC])).items():
        entry = None if isinstance(entries, ClientError) else entries.get(_MIN_IN_SYNC)
        if entry is not None and entry.value is not None:
            minima[resource.name] = int(entry.value)
    return minima


def _counts(partitions: Iterable[PartitionStatus]) -> dict[str, int]:
    problems = [each.problem for each in partitions]
    return {problem: problems.count(problem) for problem in _PROBLEMS}


def _as_json(
    cluster: ClusterDescription,
    quorum: QuorumDescription,
    nodes: Sequence[NodeStatus],
    topics: Sequence[TopicDescription],
    partitions: Sequence[PartitionStatus],
    moving: Mapping[TopicPartition, PartitionReassignment],
) -> dict[str, Json]:
    counts = _counts(partitions)
    return {
        "cluster": cluster.cluster_id,
        "quorum": {
            "leader": quorum.leader_id,
            "epoch": quorum.leader_epoch,
            "high_watermark": quorum.high_watermark,
            "voters": [each.node_id for each in quorum.voters],
        },
        "nodes": [
            {
                "node": each.node_id,
                "roles": list(each.roles),
                "address": each.address,
                "state": each.state,
                "leads_metadata": each.is_leader,
                "metadata_lag": each.lag,
                "leaders": each.leads,
                "replicas": each.replicas,
            }
            for each in nodes
        ],
        "topics": len(topics),
        "partitions": sum(len(topic.partitions) for topic in topics),
        "offline": counts[_OFFLINE],
        "under_min_isr": counts[_UNDER_MIN_ISR],
        "under_replicated": counts[_UNDER_REPLICATED],
        "troubled": [
            {
                "topic": each.topic,
                "partition": each.index,
                "problem": each.problem.replace(" ", "_").replace("-", "_").lower(),
                "leader": each.leader,
                "replicas": list(each.replicas),
                "in_sync": list(each.in_sync),
            }
            for each in partitions
        ],
        "reassigned": [
            {
                "topic": topic,
                "partition": index,
                "target": list(each.target_replicas),
                "adding": list(each.adding_replicas),
                "removing": list(each.removing_replicas),
            }
            for (topic, index), each in sorted(moving.items())
        ],
    }


def _print(
    cluster: ClusterDescription,
    quorum: QuorumDescription,
    nodes: Sequence[NodeStatus],
    topics: Sequence[TopicDescription],
    partitions: Sequence[PartitionStatus],
) -> None:
    print_line(f"cluster {cluster.cluster_id}")
    print_line(
        f"metadata led by node {quorum.leader_id} in epoch {quorum.leader_epoch}, committed up to {quorum.high_watermark}, "
        f"voters {comma_separated(each.node_id for each in quorum.voters)}"
    )
    rows = [
        (
            each.node_id,
            ",".join(each.roles),
            each.address or "-",
            each.state,
            "leads" if each.is_leader else "-" if each.lag is None else f"{each.lag} behind",
            each.leads,
            each.replicas,
        )
        for each in nodes
    ]
    print_table(["node", "roles", "address", "state", "metadata", "leaders", "replicas"], rows)
    total = sum(len(topic.partitions) for topic in topics)
    said = ", ".join(f"{count} {problem}" for problem, count in _counts(partitions).items())
    print_line(f"{len(topics)} topics with {total} partitions: {said}")
    if partitions:
        print_table(
            ["topic", "partition", "state", "leader", "replicas", "in sync"],
            [
                (
                    each.topic,
                    each.index,
                    each.problem,
                    "-" if each.leader is None else str(each.leader),
                    comma_separated(each.replicas),
                    comma_separated(each.in_sync),
                )
                for each in partitions
            ],
        )


def _print_moving(moving: Mapping[TopicPartition, PartitionReassignment]) -> None:
    if not moving:
        return
    print_line(f"{len(moving)} partitions are being reassigned; `tidelog reassign status` tells how far they are")
    print_table(
        ["topic", "partition", "to", "adds", "removes"],
        [
            (
                topic,
                index,
                comma_separated(each.target_replicas),
                comma_separated(each.adding_replicas),
                comma_separated(each.removing_replicas),
            )
            for (topic, index), each in sorted(moving.items())
        ],
    )
