"""What all decisions about the share groups of a shard have in common: the groups, sessions, and the cluster's topics."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from tidelog.coordination.consumer.metadata_hash import MetadataHashes
from tidelog.coordination.consumer.refusal import RefusedError
from tidelog.coordination.deadlines import Deadlines
from tidelog.coordination.group import Group
from tidelog.coordination.group_settings import GroupSettings, is_assignment_due
from tidelog.coordination.member_sessions import MemberSessions
from tidelog.coordination.share.group import ShareGroup
from tidelog.coordination.share.share_partitions import NO_NAME
from tidelog.coordination.topics_view import TopicsView
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import TopicId, TopicName


class Refusal(NamedTuple):
    """Why something is not done, in Kafka's words."""

    error: ErrorCode
    message: str | None


class Beginning(NamedTuple):
    """States that the share coordinator is to be asked to begin; or why it is not asked."""

    group_id: str
    state_epoch: int
    offsets: Mapping[TopicId, Mapping[int, int]]
    """By topic and partition where to begin, -1: where the group's configuration says."""
    refusal: Refusal | None = None


class ShareContext:
    """One for each shard. `begin` is called with what the share coordinator is to be asked, once that is written down."""

    def __init__(
        self,
        groups: dict[str, Group],
        deadlines: Deadlines,
        settings: GroupSettings,
        topics: TopicsView,
        begin: Callable[[Beginning], None],
    ) -> None:
        self.groups = groups
        self.settings = settings
        self.topics = topics
        self.hashes = MetadataHashes()
        self.begin = begin
        self.sessions = MemberSessions(
            deadlines, lambda group_id: settings.share_limits_of(group_id).session_timeout_ms
        )

    def metadata_hash(self, topics: Iterable[TopicName]) -> int:
        return self.hashes.of_group(topics, self.topics)

    def known_group(self, group_id: str) -> ShareGroup:
        """The share group of this id, or RefusedError."""
        group = self.groups.get(group_id)
        if isinstance(group, ShareGroup):
            return group
        what = f"Group {group_id} not found." if group is None else f"Group {group_id} is not a share group."
        raise RefusedError(ErrorCode.GROUP_ID_NOT_FOUND, what)

    def topic_ids(self, names: Iterable[TopicName]) -> set[TopicId]:
        """The topics of these names, as far as they exist."""
        known = self.topics.topic_ids
        return {known[name] for name in names if name in known}

    def name_of(self, topic_id: TopicId) -> str:
        """A topic's name, as a record has it where the topic is gone."""
        topic = self.topics.topics.get(topic_id)
        return NO_NAME if topic is None else topic.name

    def may_assign(self, group: ShareGroup, now_ms: int) -> bool:
        """Whether the last target assignment is old enough: changes that come in a burst share one."""
        interval_ms = self.settings.share_limits_of(group.group_id).assignment_interval_ms
        return is_assignment_due(group.assignment_timestamp_ms, interval_ms, now_ms)
