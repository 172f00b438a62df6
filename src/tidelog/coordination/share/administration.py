"""What administrators have a share group do: begin elsewhere, forget where it is, end. And what the share coordinator has done.

Each takes two decisions: the first notes what the share coordinator is to be asked, the second what it answered. In between a
group says so in its record, so that whoever comes after a crash knows, and the same may be asked again.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from tidelog.coordination.consumer.refusal import RefusedError
from tidelog.coordination.decision import Decision
from tidelog.coordination.share.context import Beginning, Refusal, ShareContext
from tidelog.coordination.share.group import ShareGroup
from tidelog.coordination.share.records import share_partitions_record
from tidelog.coordination.share.share_partitions import (
    NO_PARTITIONS,
    SharePartitions,
    TopicPartitions,
    TopicsPartitions,
)
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import TopicId, TopicName
from tidelog.wire.internal_records import CoordinatorRecord

NOTHING_TO_DELETE = "There is no offset information to delete."


class Ending(NamedTuple):
    """States that the share coordinator is to be asked to forget, and topics of which it has none; or why it is not asked."""

    partitions: Mapping[TopicId, Collection[int]]
    refused: Mapping[str, Refusal]
    refusal: Refusal | None = None


class ShareAdministration:
    """Decides about the partitions of share groups, members apart."""

    def __init__(self, context: ShareContext) -> None:
        self._context = context

    # --- offsets -----------------------------------------------------------------------------------------------------------

    def alter_offsets(
        self, group_id: str, offsets: Mapping[TopicId, Mapping[int, int]], now_ms: int
    ) -> Decision[Beginning]:
        """Have the group begin at these offsets, of partitions that exist. A group that is not there comes about."""
        known = self._context.groups.get(group_id)
        if known is None:
            group = ShareGroup(group_id)
        elif isinstance(known, ShareGroup):
            group = known
        else:
            error, why = ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a share group."
            return Decision(not_begun(group_id, Refusal(error, why)))
        if group.members:
            return Decision(not_begun(group_id, refusal_of(ErrorCode.NON_EMPTY_GROUP)))
        beginning = Beginning(group_id, group.epoch, offsets)
        if not offsets:
            return Decision(beginning)
        topics = {
            topic_id: TopicPartitions(self._context.name_of(topic_id), tuple(sorted(partitions)), now_ms)
            for topic_id, partitions in offsets.items()
        }
        return Decision(beginning, self._noted(group, group.partitions.beginning(topics)))

    def delete_offsets(self, group_id: str, names: Collection[str]) -> Decision[Ending]:
        """Have the group forget where it is in these topics."""
        try:
            group = self._context.known_group(group_id)
        except RefusedError as refused:
            return Decision(not_ended(Refusal(refused.code, refused.message)))
        if group.members:
            return Decision(not_ended(refusal_of(ErrorCode.NON_EMPTY_GROUP)))
        ending: dict[TopicId, Collection[int]] = {}
        refused_topics: dict[str, Refusal] = {}
        for name in names:
            topic_id = self._context.topics.topic_ids.get(TopicName(name))
            if topic_id is None:
                refused_topics[name] = refusal_of(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            elif topic_id in group.partitions.initialised:
                ending[topic_id] = group.partitions.initialised[topic_id].partitions
            elif topic_id in group.partitions.deleting:
                # An attempt before this one did not come to its end.
                ending[topic_id] = range(len(self._context.topics.topics[topic_id].partitions))
            else:
                refused_topics[name] = Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, NOTHING_TO_DELETE)
        answer = Ending(ending, refused_topics)
        if not ending:
            return Decision(answer)
        names_of_ending = {topic_id: self._context.name_of(topic_id) for topic_id in ending}
        return Decision(answer, self._noted(group, group.partitions.ending(names_of_ending)))

    def initialised(self, group_id: str) -> TopicsPartitions:
        """The partitions that the group has a state of; of a group that is not there, none."""
        group = self._context.groups.get(group_id)
        return group.partitions.initialised if isinstance(group, ShareGroup) else {}

    # --- the group's end ---------------------------------------------------------------------------------------------------

    def end_states(self, group_id: str) -> Decision[Ending]:
        """Before the group goes: its states. Of a group of another kind, or of none, there are none."""
        group = self._context.groups.get(group_id)
        if not isinstance(group, ShareGroup):
            return Decision(Ending({}, {}))
        if group.members:
            return Decision(not_ended(refusal_of(ErrorCode.NON_EMPTY_GROUP)))
        partitions: dict[TopicId, set[int]] = {}
        for topics in (group.partitions.initialised, group.partitions.initialising):
            for topic_id, each in topics.items():
                partitions.setdefault(topic_id, set()).update(each.partitions)
        for topic_id in group.partitions.deleting:
            topic = self._context.topics.topics.get(topic_id)
            if topic is not None:
                # An attempt before this one did not come to its end.
                partitions.setdefault(topic_id, set()).update(range(len(topic.partitions)))
        ending = Ending({topic_id: sorted(each) for topic_id, each in partitions.items()}, {})
        if group.partitions == NO_PARTITIONS:
            return Decision(ending)
        deleting = {topic_id: self._context.name_of(topic_id) for topic_id in partitions}
        return Decision(ending, self._noted(group, SharePartitions(deleting=deleting)))

    # --- what the share coordinator has done -------------------------------------------------------------------------------

    def states_begun(
        self,
        group_id: str,
        begun: Mapping[TopicId, Collection[int]],
        failed: Mapping[TopicId, Collection[int]],
        now_ms: int,
    ) -> Decision[None]:
        """It has states of some partitions, and none of others."""
        group = self._context.groups.get(group_id)
        if not isinstance(group, ShareGroup):
            return Decision(None)
        # A topic that is gone by now has been forgotten, and the state with it.
        topics = {
            topic_id: TopicPartitions(self._context.name_of(topic_id), tuple(sorted(partitions)), now_ms)
            for topic_id, partitions in begun.items()
            if topic_id in self._context.topics.topics
        }
        partitions = group.partitions.not_begun(failed).begun(topics)
        return Decision(None, self._noted(group, partitions) if partitions != group.partitions else ())

    def states_ended(self, group_id: str, topic_ids: Collection[TopicId]) -> Decision[None]:
        """It has forgotten its states of these topics."""
        group = self._context.groups.get(group_id)
        if not isinstance(group, ShareGroup):
            return Decision(None)
        return Decision(None, self._noted(group, group.partitions.ended(topic_ids)))

    # --- the cluster -------------------------------------------------------------------------------------------------------

    def forget_deleted_topics(self) -> list[CoordinatorRecord]:
        """Groups forget topics that are gone; the share coordinator hears of them by itself."""
        records: list[CoordinatorRecord] = []
        for group in self._context.groups.values():
            if isinstance(group, ShareGroup):
                gone = group.partitions.topic_ids - self._context.topics.topics.keys()
                if gone:
                    records += self._noted(group, group.partitions.without(gone))
        return records

    @staticmethod
    def _noted(group: ShareGroup, partitions: SharePartitions) -> tuple[CoordinatorRecord, ...]:
        return (share_partitions_record(group.group_id, partitions),)


def refusal_of(error: ErrorCode) -> Refusal:
    return Refusal(error, error.message)


def not_begun(group_id: str, refusal: Refusal) -> Beginning:
    """The share coordinator is not asked for anything."""
    return Beginning(group_id, 0, {}, refusal)


def not_ended(refusal: Refusal) -> Ending:
    return Ending({}, {}, refusal)
