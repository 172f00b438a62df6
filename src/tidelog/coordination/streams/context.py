"""What all decisions about the streams groups of a shard have in common: the groups, deadlines, and the cluster's topics."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from tidelog.coordination.consumer.metadata_hash import MetadataHashes
from tidelog.coordination.consumer.refusal import RefusedError
from tidelog.coordination.deadlines import Deadlines
from tidelog.coordination.decision import Decision
from tidelog.coordination.group import Group
from tidelog.coordination.group_settings import GroupSettings, is_assignment_due
from tidelog.coordination.member_sessions import MemberSessions
from tidelog.coordination.streams.group import StreamsGroup
from tidelog.coordination.streams.member import MemberState, StreamsMember
from tidelog.coordination.topics_view import TopicsView
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import TopicName

# The one setting that an assignment depends on, as it is written down.
NUM_STANDBY_REPLICAS = "num.standby.replicas"


class StreamsContext:
    """One for each shard."""

    def __init__(
        self, groups: dict[str, Group], deadlines: Deadlines, settings: GroupSettings, topics: TopicsView
    ) -> None:
        self.groups = groups
        self.settings = settings
        self.topics = topics
        self.hashes = MetadataHashes()
        self.sessions = MemberSessions(
            deadlines, lambda group_id: settings.streams_limits_of(group_id).session_timeout_ms
        )
        self._deadlines = deadlines

    def known_group(self, group_id: str) -> StreamsGroup:
        """The streams group of this id, or RefusedError."""
        group = self.groups.get(group_id)
        if isinstance(group, StreamsGroup):
            return group
        what = f"Group {group_id} not found." if group is None else f"Group {group_id} is not a streams group."
        raise RefusedError(ErrorCode.GROUP_ID_NOT_FOUND, what)

    def metadata_hash(self, names: Iterable[TopicName]) -> int:
        return self.hashes.of_group(names, self.topics)

    def may_assign(self, group: StreamsGroup, now_ms: int) -> bool:
        interval_ms = self.settings.streams_limits_of(group.group_id).assignment_interval_ms
        return is_assignment_due(group.assignment_timestamp_ms, interval_ms, now_ms)

    def assignment_configs(self, group_id: str) -> Mapping[str, str]:
        """What the assignor is told, and when it changes the group is assigned anew."""
        return {NUM_STANDBY_REPLICAS: str(self.settings.streams_limits_of(group_id).num_standby_replicas)}

    # The first assignment

    def delay_first_assignment(
        self, group_id: str, now_ms: int, assign: Callable[[str, int], Decision[Any] | None]
    ) -> None:
        """Wait for more members, unless the group does so already."""
        delay_ms = self.settings.streams_limits_of(group_id).initial_rebalance_delay_ms
        if delay_ms and not self.is_delayed(group_id):
            self._deadlines.set(
                ("first assignment", group_id), now_ms + delay_ms, lambda at_ms: assign(group_id, at_ms)
            )

    def is_delayed(self, group_id: str) -> bool:
        return ("first assignment", group_id) in self._deadlines

    def forget_group(self, group_id: str) -> None:
        self._deadlines.cancel(("first assignment", group_id))

    # Deadlines of a member

    def watch_revocation(
        self,
        group_id: str,
        member: StreamsMember,
        now_ms: int,
        fence: Callable[[str, str, str], Decision[Any] | None],
    ) -> None:
        """The member has to let go of tasks within its rebalance time-out.

        Nobody cancels this: whether it has let go is looked up when the time has come, in what is written down by then.
        """
        epoch = member.member_epoch

        def expire(_at_ms: int) -> Decision[Any] | None:
            group = self.groups.get(group_id)
            known = group.members.get(member.member_id) if isinstance(group, StreamsGroup) else None
            if known is None or known.state is not MemberState.UNREVOKED_TASKS or known.member_epoch != epoch:
                return None
            reason = f"it did not leave epoch {epoch} within {member.rebalance_timeout_ms} ms"
            return fence(group_id, member.member_id, reason)

        self._deadlines.set(("rebalance", group_id, member.member_id), now_ms + member.rebalance_timeout_ms, expire)

    def forget_member(self, group_id: str, member_id: str) -> None:
        self.sessions.forget(group_id, member_id)
        self._deadlines.cancel(("rebalance", group_id, member_id))
