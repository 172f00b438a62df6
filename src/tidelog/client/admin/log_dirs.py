"""The disks of brokers, and the replicas on them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tidelog.client.admin.outcomes import each_of, error_of, value_of
from tidelog.client.admin.requests import OneBroker, Requests
from tidelog.client.consumer.topic_partition import TopicPartition, by_topic
from tidelog.client.errors import ClientError, RefusedError
from tidelog.wire.messages.log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopic,
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
)


@dataclass(frozen=True, slots=True)
class ReplicaOnDisk:
    """A replica in a log directory. `is_future`: it is being moved there, and `offset_lag` behind the one in use."""

    size_bytes: int
    offset_lag: int
    is_future: bool


@dataclass(frozen=True, slots=True)
class LogDirDescription:
    path: str
    error: RefusedError | None
    """Set where the directory is offline."""
    replicas: Mapping[TopicPartition, ReplicaOnDisk]
    total_bytes: int | None
    usable_bytes: int | None
    is_cordoned: bool


class LogDirCalls:
    """What an admin does with log directories."""

    _requests: Requests

    async def describe_log_dirs(
        self, broker_ids: Iterable[int] | None = None, *, partitions: Iterable[tuple[str, int]] | None = None
    ) -> dict[int, dict[str, LogDirDescription] | ClientError]:
        """The log directories of these brokers, or of all, by path; with all replicas, or those of some partitions.

        >>> await admin.describe_log_dirs([1])
        """
        wanted = await self._requests.broker_ids() if broker_ids is None else list(broker_ids)
        topics = (
            None
            if partitions is None
            else [DescribableLogDirTopic(topic=topic, partitions=each) for topic, each in by_topic(partitions).items()]
        )

        async def describe(node_id: int) -> dict[str, LogDirDescription]:
            answer = await self._requests.ask(
                OneBroker(node_id), DescribeLogDirsRequest(topics=topics), DescribeLogDirsResponse
            )
            value_of(error_of(answer.error_code, about=f"broker {node_id}"))
            return {each.log_dir: _described(each) for each in answer.results}

        return await each_of(wanted, describe)

    async def alter_replica_log_dirs(
        self, moves: Mapping[tuple[str, int, int], str]
    ) -> dict[tuple[str, int, int], ClientError | None]:
        """Move replicas, each a topic, a partition and a broker, to other log directories of the same broker. An answer
        without error says that the move has begun.

        >>> await admin.alter_replica_log_dirs({("orders", 0, 1): "/disk2"})
        """
        by_broker: dict[int, dict[str, list[tuple[str, int]]]] = {}
        for (topic, partition, node_id), path in moves.items():
            by_broker.setdefault(node_id, {}).setdefault(path, []).append((topic, partition))

        async def move(node_id: int) -> dict[tuple[str, int], ClientError | None]:
            request = AlterReplicaLogDirsRequest(
                dirs=[
                    AlterReplicaLogDir(
                        path=path,
                        topics=[
                            AlterReplicaLogDirTopic(name=topic, partitions=indexes)
                            for topic, indexes in by_topic(replicas).items()
                        ],
                    )
                    for path, replicas in by_broker[node_id].items()
                ]
            )
            answer = await self._requests.ask(OneBroker(node_id), request, AlterReplicaLogDirsResponse)
            return {
                (topic.topic_name, each.partition_index): error_of(
                    each.error_code, about=f"{topic.topic_name}-{each.partition_index} on broker {node_id}"
                )
                for topic in answer.results
                for each in topic.partitions
            }

        answers = await each_of(by_broker, move)
        outcomes: dict[tuple[str, int, int], ClientError | None] = {}
        for topic, partition, node_id in moves:
            answered = answers[node_id]
            outcomes[topic, partition, node_id] = (
                answered if isinstance(answered, ClientError) else answered.get((topic, partition))
            )
        return outcomes


def _described(each: DescribeLogDirsResult) -> LogDirDescription:
    replicas = {
        TopicPartition(topic.name, replica.partition_index): ReplicaOnDisk(
            replica.partition_size, replica.offset_lag, replica.is_future_key
        )
        for topic in each.topics
        for replica in topic.partitions
    }
    return LogDirDescription(
        each.log_dir,
        error_of(each.error_code, about=each.log_dir),
        replicas,
        each.total_bytes if each.total_bytes >= 0 else None,
        each.usable_bytes if each.usable_bytes >= 0 else None,
        each.is_cordoned,
    )
