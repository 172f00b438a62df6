"""Where partitions have their replicas, and the way to other ones."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tidelog.client.admin.outcomes import error_of, value_of
from tidelog.client.admin.requests import CONTROLLER, Requests
from tidelog.client.consumer.topic_partition import TopicPartition, by_topic
from tidelog.client.errors import ClientError, UnsupportedError
from tidelog.wire.messages.reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    ListPartitionReassignmentsTopics,
    ReassignablePartition,
    ReassignableTopic,
)


@dataclass(frozen=True, slots=True)
class PartitionReassignment:
    """A partition on its way to other replicas."""

    replicas: tuple[int, ...]
    """All that have it now: those that stay, come, and go."""
    adding_replicas: tuple[int, ...]
    removing_replicas: tuple[int, ...]

    @property
    def target_replicas(self) -> tuple[int, ...]:
        """Those that it will have."""
        return tuple(replica for replica in self.replicas if replica not in self.removing_replicas)


class ReassignmentCalls:
    """What an admin does with the places of replicas."""

    _requests: Requests

    async def alter_partition_reassignments(
        self,
        reassignments: Mapping[tuple[str, int], Sequence[int] | None],
        *,
        allow_replication_factor_change: bool = True,
    ) -> dict[TopicPartition, ClientError | None]:
        """Give partitions other replicas, the preferred leader first; None takes back what is under way. An outcome without
        error says that it has begun: `list_partition_reassignments` tells when it is done.

        >>> await admin.alter_partition_reassignments({("orders", 0): [1, 2, 4], ("orders", 1): None})
        """
        topics = [
            ReassignableTopic(
                name=topic,
                partitions=[
                    ReassignablePartition(partition_index=index, replicas=_listed(reassignments[topic, index]))
                    for index in indexes
                ],
            )
            for topic, indexes in by_topic(reassignments).items()
        ]

        def request(version: int) -> AlterPartitionReassignmentsRequest:
            if version == 0 and not allow_replication_factor_change:
                raise UnsupportedError("the cluster is too old to hold on to the replication factor")
            return AlterPartitionReassignmentsRequest(
                timeout_ms=self._requests.options.change_timeout_ms,
                allow_replication_factor_change=allow_replication_factor_change,
                topics=topics,
            )

        answer = await self._requests.ask(
            CONTROLLER,
            request,
            AlterPartitionReassignmentsResponse,
            codes=lambda each: [each.error_code],
            # What has been taken back cannot be taken back again.
            is_repeatable=None not in reassignments.values(),
        )
        value_of(error_of(answer.error_code, answer.error_message))
        return {
            TopicPartition(topic.name, each.partition_index): error_of(
                each.error_code, each.error_message, about=f"{topic.name}-{each.partition_index}"
            )
            for topic in answer.responses
            for each in topic.partitions
        }

    async def list_partition_reassignments(
        self, partitions: Iterable[tuple[str, int]] | None = None
    ) -> dict[TopicPartition, PartitionReassignment]:
        """Those of these partitions, or of all, that are on their way to other replicas.

        >>> while await admin.list_partition_reassignments([("orders", 0)]): ...
        """
        topics = (
            None
            if partitions is None
            else [
                ListPartitionReassignmentsTopics(name=topic, partition_indexes=indexes)
                for topic, indexes in by_topic(partitions).items()
            ]
        )
        answer = await self._requests.ask(
            CONTROLLER,
            ListPartitionReassignmentsRequest(timeout_ms=self._requests.options.change_timeout_ms, topics=topics),
            ListPartitionReassignmentsResponse,
            codes=lambda each: [each.error_code],
        )
        value_of(error_of(answer.error_code, answer.error_message))
        return {
            TopicPartition(topic.name, each.partition_index): PartitionReassignment(
                tuple(each.replicas), tuple(each.adding_replicas), tuple(each.removing_replicas)
            )
            for topic in answer.topics
            for each in topic.partitions
        }


def _listed(replicas: Sequence[int] | None) -> list[int] | None:
    return None if replicas is None else list(replicas)
