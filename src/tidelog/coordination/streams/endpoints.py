"""Which member has the state of which partitions, for applications that ask each other (interactive queries).

A task stands for one partition of each topic that its subtopology reads. Where topics have different numbers of partitions, the
highest tasks have nothing of the shorter ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tidelog.coordination.streams.configured_topology import ConfiguredTopology
from tidelog.coordination.streams.member import StreamsMember
from tidelog.coordination.topics_view import TopicsView
from tidelog.wire.messages.streams_groups import Endpoint, EndpointToPartitions, TopicPartition


def partitions_by_endpoint(
    members: Iterable[StreamsMember], configured: ConfiguredTopology, topics: TopicsView
) -> list[EndpointToPartitions]:
    """Of each member that has said where it answers."""
    return [
        EndpointToPartitions(
            user_endpoint=Endpoint(host=member.user_endpoint.host, port=member.user_endpoint.port),
            active_partitions=_partitions(member.assigned.active, configured, topics),
            standby_partitions=_partitions(member.assigned.standby, configured, topics),
        )
        for member in members
        if member.user_endpoint is not None
    ]


def _partitions(
    tasks: Mapping[str, Iterable[int]], configured: ConfiguredTopology, topics: TopicsView
) -> list[TopicPartition]:
    found: list[TopicPartition] = []
    for subtopology_id, numbers in tasks.items():
        subtopology = configured.subtopologies.get(subtopology_id)
        # Where the topology cannot be configured any more, or a topic was just deleted, there is nothing to ask for.
        for name in () if subtopology is None else sorted(set(subtopology.part.read_topics)):
            topic_id = topics.topic_ids.get(name)
            if topic_id is None:
                continue
            mine = sorted(numbers)
            # As in Kafka: as many as the topic has partitions, from the lowest on.
            found.append(TopicPartition(topic=name, partitions=mine[: len(topics.topics[topic_id].partitions)]))
    return found
