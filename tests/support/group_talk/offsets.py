"""How far a group is: OffsetCommit, OffsetFetch, OffsetDelete."""

from __future__ import annotations

from collections.abc import Sequence

from tests.support.group_talk.notes import Notes, Told, error_name
from tidelog.wire.messages.group_offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
)

# The first version that asks for several groups at once.
_GROUPS_VERSION = 8


class OffsetsTalk(Notes):
    """Of members, and of those who are none."""

    def commit(
        self,
        offsets: dict[tuple[str, int], int],
        *,
        member_id: str = "",
        epoch: int = -1,
        instance: str | None = None,
        version: int = 9,
        metadata: str | None = "m",
        group: str | None = None,
    ) -> None:
        by_topic: dict[str, list[OffsetCommitRequestPartition]] = {}
        for (topic, partition), offset in offsets.items():
            by_topic.setdefault(topic, []).append(
                OffsetCommitRequestPartition(
                    partition_index=partition, committed_offset=offset, committed_metadata=metadata
                )
            )
        request = OffsetCommitRequest(
            group_id=self.group_or(group),
            generation_id_or_member_epoch=epoch,
            member_id=member_id,
            group_instance_id=instance,
            topics=[
                OffsetCommitRequestTopic(name=topic, topic_id=self.topic_id(topic), partitions=partitions)
                for topic, partitions in by_topic.items()
            ],
        )
        answer = self.call(request, OffsetCommitResponse, version)
        rows = [
            (self.topic_name(topic.name, topic.topic_id), each.partition_index, error_name(each.error_code))
            for topic in answer.topics
            for each in topic.partitions
        ]
        self.note("commit", sorted(rows))

    def fetch(
        self,
        partitions: dict[str, list[int]] | None,
        *,
        groups: list[str] | None = None,
        member_id: str | None = None,
        epoch: int = -1,
        version: int = 9,
        stable: bool = False,
    ) -> None:
        asked = [self.group] if groups is None else groups
        if version < _GROUPS_VERSION:
            request = _fetch_of_one(asked[0], partitions, stable=stable)
        else:
            wanted = None
            if partitions is not None:
                wanted = [
                    OffsetFetchRequestTopics(name=name, topic_id=self.topic_id(name), partition_indexes=of)
                    for name, of in partitions.items()
                ]
            each = [
                OffsetFetchRequestGroup(group_id=group, member_id=member_id, member_epoch=epoch, topics=wanted)
                for group in asked
            ]
            request = OffsetFetchRequest(groups=each, require_stable=stable)
        answer = self.call(request, OffsetFetchResponse, version)
        found: list[object] = [(topic.name, _fetched(topic.partitions)) for topic in answer.topics]
        for one in answer.groups:
            rows = [(self.topic_name(topic.name, topic.topic_id), _fetched(topic.partitions)) for topic in one.topics]
            found.append((one.group_id, error_name(one.error_code), sorted(rows)))
        self.note("fetch", error_name(answer.error_code), sorted(found, key=repr))

    def delete_offsets(self, partitions: dict[str, list[int]], group: str | None = None) -> None:
        request = OffsetDeleteRequest(
            group_id=self.group_or(group),
            topics=[
                OffsetDeleteRequestTopic(
                    name=name, partitions=[OffsetDeleteRequestPartition(partition_index=index) for index in of]
                )
                for name, of in partitions.items()
            ],
        )
        answer = self.call(request, OffsetDeleteResponse, 0)
        rows = [
            (topic.name, each.partition_index, error_name(each.error_code))
            for topic in answer.topics
            for each in topic.partitions
        ]
        self.note("delete offsets", error_name(answer.error_code), sorted(rows))


def _fetch_of_one(group: str, partitions: dict[str, list[int]] | None, *, stable: bool) -> OffsetFetchRequest:
    topics = None
    if partitions is not None:
        topics = [OffsetFetchRequestTopic(name=name, partition_indexes=of) for name, of in partitions.items()]
    return OffsetFetchRequest(group_id=group, topics=topics, groups=[], require_stable=stable)


def _fetched(partitions: Sequence[OffsetFetchResponsePartition | OffsetFetchResponsePartitions]) -> list[Told]:
    return sorted(
        (
            each.partition_index,
            each.committed_offset,
            each.committed_leader_epoch,
            each.metadata,
            error_name(each.error_code),
        )
        for each in partitions
    )
