"""One share group (KIP-932): what the log says of it. Only replayed records change it.

Empty     no members
Stable    some members: whether all have caught up with the target makes no difference to others
"""

from __future__ import annotations

from collections.abc import Iterable

from tidelog.coordination.consumer.assignors.subscription import Assignment
from tidelog.coordination.group import EpochOf
from tidelog.coordination.share.member import ShareMember
from tidelog.coordination.share.records import group_tombstones
from tidelog.coordination.share.share_partitions import NO_PARTITIONS, SharePartitions
from tidelog.coordination.timeline import Earlier, all_as_committed, as_committed
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import TopicName
from tidelog.wire.internal_records import CoordinatorRecord

INITIAL_EPOCH = 1
SHARE_PROTOCOL_TYPE = "share"
EMPTY, STABLE = "Empty", "Stable"


class ShareGroup:
    """A group, its members and their assignments. Fits `coordination.group.Group`."""

    __slots__ = (
        "_subscribers",
        "assignment_epoch",
        "assignment_timestamp_ms",
        "earlier_epochs",
        "earlier_members",
        "epoch",
        "group_id",
        "has_nothing_to_assign",
        "has_nothing_to_begin",
        "looked_at_epoch",
        "members",
        "metadata_hash",
        "partitions",
        "targets",
    )

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.epoch = INITIAL_EPOCH
        self.metadata_hash = 0
        self.assignment_epoch = INITIAL_EPOCH
        self.assignment_timestamp_ms = 0
        self.members: dict[str, ShareMember] = {}
        self.targets: dict[str, Assignment] = {}
        self.partitions: SharePartitions = NO_PARTITIONS
        self.looked_at_epoch: int | None = None
        """The group's epoch when its topics were last compared with the cluster's; None: they are to be compared."""
        self.has_nothing_to_assign = False
        """Whether every partition with a state is known to be with a member. Forgotten with each record that it depends on."""
        self.has_nothing_to_begin = False
        """Whether it is known that all partitions of its topics have a state. Forgotten likewise, and when topics change."""
        self.earlier_epochs: Earlier[EpochOf, int] = {}
        self.earlier_members: Earlier[str, ShareMember] = {}
        """What uncommitted records have replaced, of all that others are told of the group."""
        self._subscribers: dict[TopicName, int] = {}

    # What others ask of any group

    @property
    def type_name(self) -> str:
        return "share"

    @property
    def protocol_type(self) -> str:
        return SHARE_PROTOCOL_TYPE

    @property
    def state_name(self) -> str:
        return STABLE if self.members else EMPTY

    @property
    def is_empty(self) -> bool:
        return not self.members

    @property
    def gives_way(self) -> bool:
        # It has states with the share coordinator, which would be left there.
        return False

    @property
    def has_offsets(self) -> bool:
        return False

    def is_subscribed_to(self, topic: str) -> bool:
        return topic in self._subscribers

    @property
    def offsets_may_expire(self) -> bool:
        return False

    def offsets_expire_from_ms(self) -> int | None:
        return None

    def check_commit(
        self,
        member_id: str,  # noqa: ARG002 - of the contract
        instance_id: str | None,  # noqa: ARG002
        epoch: int,  # noqa: ARG002
        api_version: int,  # noqa: ARG002
        now_ms: int,  # noqa: ARG002
        is_transactional: bool = False,  # noqa: ARG002
    ) -> ErrorCode:
        return ErrorCode.GROUP_ID_NOT_FOUND

    def check_fetch(self, member_id: str | None, epoch: int) -> ErrorCode:  # noqa: ARG002 - of the contract
        return ErrorCode.GROUP_ID_NOT_FOUND

    def check_delete(self) -> ErrorCode:
        return ErrorCode.NON_EMPTY_GROUP if self.members else ErrorCode.NONE

    def tombstones(self) -> tuple[CoordinatorRecord, ...]:
        return group_tombstones(self.group_id, self.members)

    def as_committed(self) -> ShareGroup:
        """Knows members and epochs: enough for its state and its description."""
        if not (self.earlier_members or self.earlier_epochs):
            return self
        committed = ShareGroup(self.group_id)
        committed.members = all_as_committed(self.members, self.earlier_members)
        epoch = as_committed(self.earlier_epochs, EpochOf.GROUP, self.epoch)
        assignment_epoch = as_committed(self.earlier_epochs, EpochOf.ASSIGNMENT, self.assignment_epoch)
        assert epoch is not None
        assert assignment_epoch is not None
        committed.epoch, committed.assignment_epoch = epoch, assignment_epoch
        return committed

    # What is decided from

    def subscribed_topics(self, without: ShareMember | None, with_member: ShareMember | None = None) -> set[TopicName]:
        """All topics that members read, if one left and one came."""
        leaving = () if without is None else without.subscribed_names
        topics = {name for name, count in self._subscribers.items() if count > (name in leaving)}
        if with_member is not None:
            topics.update(with_member.subscribed_names)
        return topics

    def reads_any(self, topics: Iterable[TopicName]) -> bool:
        """Whether a member reads one of them."""
        return not self._subscribers.keys().isdisjoint(topics)

    # Replay

    def set_member(self, member: ShareMember) -> None:
        self._count(self.members.get(member.member_id), -1)
        self.members[member.member_id] = member
        self._count(member, 1)

    def remove_member(self, member_id: str) -> None:
        self._count(self.members.pop(member_id, None), -1)

    def _count(self, member: ShareMember | None, by: int) -> None:
        for name in () if member is None else member.subscribed_names:
            count = self._subscribers.get(name, 0) + by
            if count:
                self._subscribers[name] = count
            else:
                del self._subscribers[name]
