# cython: annotation_typing=False, auto_pickle=False, binding=False, nonecheck=True
"""What all decisions about the consumer groups of a shard share: the groups, their deadlines, the cluster's topics."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from random import Random
from typing import TYPE_CHECKING

from tidelog.coordination.consumer.group import ConsumerGroup
from tidelog.coordination.consumer.member import ConsumerMember, MemberState
from tidelog.coordination.consumer.metadata_hash import MetadataHashes
from tidelog.coordination.deadlines import Action, Deadlines
from tidelog.coordination.group import Group
from tidelog.coordination.group_settings import GroupSettings, is_assignment_due
from tidelog.coordination.topics_view import TopicsView
from tidelog.model.ids import TopicName, random_uuid, uuid_to_text

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeAlias

    from tidelog.coordination.decision import Decision

    # Given the group's id, the member's id, why, and the time.
    Fence: TypeAlias = "Callable[[str, str, str, int], Decision[Any] | None]"


class GroupContext:
    """One for each shard."""

    __slots__ = ("deadlines", "fence", "groups", "hashes", "random", "settings", "topics", "topics_version")

    def __init__(
        self,
        groups: dict[str, Group],
        deadlines: Deadlines,
        settings: GroupSettings,
        random: Random,
        topics: TopicsView,
    ) -> None:
        self.groups = groups
        self.deadlines = deadlines
        self.settings = settings
        self.random = random
        self.topics = topics
        self.topics_version = 0
        """Rises with each change that brought new topics."""
        self.hashes = MetadataHashes()
        self.fence: Fence = lambda _group_id, _member_id, _reason, _now_ms: None

    def new_member_id(self) -> str:
        """An id for a member that brought none."""
        return uuid_to_text(random_uuid(self.random))

    def metadata_hash(self, topics: Iterable[TopicName]) -> int:
        return self.hashes.of_group(topics, self.topics)

    def may_assign(self, group: ConsumerGroup, now_ms: int) -> bool:
        """Whether the last target assignment is old enough: changes that come in a burst share one."""
        interval_ms = self.settings.consumer_limits_of(group.group_id).assignment_interval_ms
        return is_assignment_due(group.assignment_timestamp_ms, interval_ms, now_ms)

    # Deadlines of a member

    def renew_session(self, group_id: str, member_id: str, timeout_ms: int, now_ms: int) -> None:
        """The member lives; it has this long until its next sign of life."""
        key, at_ms = ("session", group_id, member_id), now_ms + timeout_ms
        # Nearly always it is enough to move the deadline, since its action stays the same.
        if not self.deadlines.move(key, at_ms):
            self.deadlines.set(key, at_ms, partial(self.fence, group_id, member_id, "its session expired"))

    def watch_member(self, group_id: str, member: ConsumerMember, now_ms: int) -> None:
        """Begin all deadlines of a member that this node has not watched so far."""
        self.renew_session(group_id, member.member_id, self.session_timeout_ms(group_id, member), now_ms)
        if member.state is MemberState.UNREVOKED_PARTITIONS and member.classic is None:
            self.watch_revocation(group_id, member, now_ms)

    def session_timeout_ms(self, group_id: str, member: ConsumerMember) -> int:
        """A member of the classic protocol brings its own; for the others the group's configuration has it."""
        if member.classic is not None:
            return member.classic.session_timeout_ms
        return self.settings.consumer_limits_of(group_id).session_timeout_ms

    def watch_revocation(self, group_id: str, member: ConsumerMember, now_ms: int) -> None:
        """The member has to let go of partitions within its rebalance time-out.

        Nobody cancels this: whether it has let go is looked up when the time has come, in what is written down by then.
        """
        epoch = member.member_epoch

        def expire(at_ms: int) -> Decision[Any] | None:
            group = self.groups.get(group_id)
            known = group.members.get(member.member_id) if isinstance(group, ConsumerGroup) else None
            if known is None or known.state is not MemberState.UNREVOKED_PARTITIONS or known.member_epoch != epoch:
                return None
            reason = f"it did not leave epoch {epoch} within {member.rebalance_timeout_ms} ms"
            return self.fence(group_id, member.member_id, reason, at_ms)

        self.deadlines.set(("rebalance", group_id, member.member_id), now_ms + member.rebalance_timeout_ms, expire)

    def await_join(self, group_id: str, member: ConsumerMember, now_ms: int) -> None:
        """A member of the classic protocol has been told to join again; it has its rebalance time-out for that, from now on."""
        key = ("join", group_id, member.member_id)
        if key not in self.deadlines:
            self._expect(key, "it did not join again in time", member.rebalance_timeout_ms, now_ms)

    def has_joined(self, group_id: str, member_id: str, timeout_ms: int, now_ms: int) -> None:
        """A member of the classic protocol has joined again, and has this long to sync."""
        self.deadlines.cancel(("join", group_id, member_id))
        self._expect(("sync", group_id, member_id), "it did not sync in time", timeout_ms, now_ms)

    def has_synced(self, group_id: str, member_id: str) -> None:
        self.deadlines.cancel(("sync", group_id, member_id))

    def forget_member(self, group_id: str, member_id: str) -> None:
        for kind in ("session", "rebalance", "join", "sync"):
            self.deadlines.cancel((kind, group_id, member_id))

    def _expect(self, key: tuple[str, str, str], reason: str, timeout_ms: int, now_ms: int) -> None:
        action: Action = partial(self.fence, key[1], key[2], reason)
        self.deadlines.set(key, now_ms + timeout_ms, action)
