# cython: annotation_typing=False, auto_pickle=False, binding=False, nonecheck=True
"""One group of the consumer protocol: what the log says of it. Only replayed records change it.

Its state is what its members and epochs say, nothing that is kept:

    Empty          no members
    Assigning      the group's epoch is ahead of the target assignment's
    Reconciling    some member has not reached the target yet
    Stable         all have
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set as AbstractSet

from tidelog.coordination.consumer.assignors.subscription import NOTHING, Assignment
from tidelog.coordination.consumer.member import ConsumerMember, MemberState, OwnedPartitions
from tidelog.coordination.consumer.records import ResolvedRegex, group_tombstones
from tidelog.coordination.group import EpochOf
from tidelog.coordination.timeline import Earlier, all_as_committed, as_committed
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import TopicId, TopicName
from tidelog.wire.internal_records import CoordinatorRecord

INITIAL_EPOCH = 1
CONSUMER_PROTOCOL_TYPE = "consumer"
# The first version of OffsetCommit that carries a member epoch in place of a generation.
_EPOCH_COMMIT_VERSION = 9
# What a producer says that does not know the member's epoch.
_NO_EPOCH = -1


class ConsumerGroup:
    """A group, its members and their assignments. Fits `coordination.group.Group`."""

    __slots__ = (
        "_owners",
        "_subscribers",
        "assignment_epoch",
        "assignment_timestamp_ms",
        "earlier_epochs",
        "earlier_members",
        "earlier_targets",
        "epoch",
        "group_id",
        "has_partition_metadata",
        "looked_at_epoch",
        "members",
        "metadata_hash",
        "regex_subscribers",
        "regexes_version",
        "resolved_regexes",
        "static_members",
        "targets",
    )

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.epoch = INITIAL_EPOCH
        self.metadata_hash = 0
        self.assignment_epoch = INITIAL_EPOCH
        self.assignment_timestamp_ms = 0
        self.members: dict[str, ConsumerMember] = {}
        self.static_members: dict[str, str] = {}
        """Member ids by instance id."""
        self.targets: dict[str, Assignment] = {}
        self.resolved_regexes: dict[str, ResolvedRegex] = {}
        self.regex_subscribers: dict[str, int] = {}
        """How many members subscribe by each expression."""
        self.has_partition_metadata = False
        """Whether a release before 4.1 left a record of partition metadata."""
        self.looked_at_epoch: int | None = None
        """The group's epoch when its topics were last compared with the cluster's; None: they are to be compared."""
        self.regexes_version: int | None = None
        """Up to which change of topics the expressions are resolved; None where this node has not done so yet."""
        self.earlier_epochs: Earlier[EpochOf, int] = {}
        self.earlier_members: Earlier[str, ConsumerMember] = {}
        self.earlier_targets: Earlier[str, Assignment] = {}
        """What uncommitted records have replaced, of all that others are told of the group."""
        self._subscribers: dict[TopicName, int] = {}
        self._owners: dict[TopicId, dict[int, str]] = {}

    # What others ask of any group

    @property
    def type_name(self) -> str:
        return "consumer"

    @property
    def protocol_type(self) -> str:
        return CONSUMER_PROTOCOL_TYPE

    @property
    def state_name(self) -> str:
        if not self.members:
            return "Empty"
        if self.epoch > self.assignment_epoch:
            return "Assigning"
        if all(member.is_reconciled_to(self.assignment_epoch) for member in self.members.values()):
            return "Stable"
        return "Reconciling"

    @property
    def is_empty(self) -> bool:
        return not self.members

    @property
    def gives_way(self) -> bool:
        return True

    @property
    def has_offsets(self) -> bool:
        return True

    def is_subscribed_to(self, topic: str) -> bool:
        return topic in self._subscribers or any(topic in found.topics for found in self.resolved_regexes.values())

    def reads_any(self, topics: AbstractSet[TopicName]) -> bool:
        """Whether a member reads one of them."""
        if not self._subscribers.keys().isdisjoint(topics):
            return True
        return any(not topics.isdisjoint(found.topics) for found in self.resolved_regexes.values())

    @property
    def offsets_may_expire(self) -> bool:
        # What its members are subscribed to is always known.
        return True

    def offsets_expire_from_ms(self) -> int | None:
        return None

    def check_commit(
        self,
        member_id: str,
        instance_id: str | None,
        epoch: int,
        api_version: int,
        now_ms: int,  # noqa: ARG002 - only heartbeats keep a member alive
        is_transactional: bool = False,
    ) -> ErrorCode:
        """An epoch before the member's own may be right for some partitions: see `check_commit_of`."""
        if epoch < 0 and not self.members:
            return ErrorCode.NONE
        if is_transactional and epoch == _NO_EPOCH and not member_id and instance_id is None:
            return ErrorCode.NONE
        member = self.members.get(member_id)
        if member is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if member.classic is None and api_version < _EPOCH_COMMIT_VERSION and not is_transactional:
            return ErrorCode.UNSUPPORTED_VERSION
        return _epoch_error(member) if epoch != member.member_epoch else ErrorCode.NONE

    def check_commit_of(self, member_id: str, epoch: int, topic_id: TopicId, partition: int) -> ErrorCode:
        """Whether the member may commit one partition's offset with an epoch that `check_commit` found wrong.

        It may with an earlier epoch, as long as it has had the partition since then: only a commit from before the
        partition came to it could be a zombie's.
        """
        member = self.members.get(member_id)
        if member is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if epoch == member.member_epoch:
            return ErrorCode.NONE
        since = member.assignment_epoch(topic_id, partition)
        if epoch > member.member_epoch or since is None or epoch < since:
            return _epoch_error(member)
        return ErrorCode.NONE

    def as_committed(self) -> ConsumerGroup:
        """Knows members, targets and epochs: enough for its state, its description, and who may fetch offsets."""
        if not (self.earlier_members or self.earlier_targets or self.earlier_epochs):
            return self
        committed = ConsumerGroup(self.group_id)
        committed.members = all_as_committed(self.members, self.earlier_members)
        committed.targets = all_as_committed(self.targets, self.earlier_targets)
        epoch = as_committed(self.earlier_epochs, EpochOf.GROUP, self.epoch)
        assignment_epoch = as_committed(self.earlier_epochs, EpochOf.ASSIGNMENT, self.assignment_epoch)
        assert epoch is not None
        assert assignment_epoch is not None
        committed.epoch, committed.assignment_epoch = epoch, assignment_epoch
        return committed

    def check_fetch(self, member_id: str | None, epoch: int) -> ErrorCode:
        if member_id is None and epoch < 0:
            return ErrorCode.NONE
        member = None if member_id is None else self.members.get(member_id)
        if member is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        return _epoch_error(member) if epoch != member.member_epoch else ErrorCode.NONE

    def check_delete(self) -> ErrorCode:
        return ErrorCode.NON_EMPTY_GROUP if self.members else ErrorCode.NONE

    def tombstones(self) -> tuple[CoordinatorRecord, ...]:
        return group_tombstones(self.group_id, list(self.members), list(self.resolved_regexes))

    # What is decided from

    def static_member(self, instance_id: str | None) -> ConsumerMember | None:
        member_id = None if instance_id is None else self.static_members.get(instance_id)
        return None if member_id is None else self.members.get(member_id)

    def target_of(self, member: ConsumerMember) -> Assignment:
        """What a member should have. One that takes the place of a static member should have what that one should."""
        previous = self.static_members.get(member.instance_id) if member.instance_id is not None else None
        return self.targets.get(previous or member.member_id, NOTHING)

    def owner_of(self, topic_id: TopicId, partition: int) -> str | None:
        """The member that has the partition, or has yet to let go of it."""
        owners = self._owners.get(topic_id)
        return None if owners is None else owners.get(partition)

    def subscribed_topics(
        self,
        without: Iterable[ConsumerMember] = (),
        with_member: ConsumerMember | None = None,
        resolved: Mapping[str, ResolvedRegex] | None = None,
    ) -> set[TopicName]:
        """All topics that members read, if some left, one came, and the expressions were resolved like this."""
        counts: dict[TopicName, int] = {}
        for member in without:
            for name in member.subscribed_names:
                counts[name] = counts.get(name, 0) + 1
        topics = {name for name, count in self._subscribers.items() if count > counts.get(name, 0)}
        if with_member is not None:
            topics.update(with_member.subscribed_names)
        for found in (self.resolved_regexes if resolved is None else resolved).values():
            topics.update(found.topics)
        return topics

    def regexes_with(self, without: Iterable[ConsumerMember], with_member: ConsumerMember | None = None) -> list[str]:
        """The expressions that members subscribe by, if some left and one came."""
        counts = dict(self.regex_subscribers)
        for member in without:
            if member.subscribed_regex:
                counts[member.subscribed_regex] -= 1
        if with_member is not None and with_member.subscribed_regex:
            counts[with_member.subscribed_regex] = counts.get(with_member.subscribed_regex, 0) + 1
        return [regex for regex, count in counts.items() if count > 0]

    def preferred_assignor(
        self, without: ConsumerMember | None = None, with_member: ConsumerMember | None = None
    ) -> str | None:
        """The assignor that most members ask for, and the first of those by name; None where nobody asks."""
        votes: dict[str, int] = {}
        for member in self.members.values():
            if member is not without and member.server_assignor is not None:
                votes[member.server_assignor] = votes.get(member.server_assignor, 0) + 1
        if with_member is not None and with_member.server_assignor is not None:
            votes[with_member.server_assignor] = votes.get(with_member.server_assignor, 0) + 1
        return min(votes, key=lambda name: (-votes[name], name)) if votes else None

    def is_waiting_for_others(self, member: ConsumerMember) -> bool:
        """Whether a partition that the member should have is still with somebody else."""
        if member.state is not MemberState.UNRELEASED_PARTITIONS:
            return False
        return any(
            partition not in member.assigned.get(topic, {}) and self.owner_of(topic, partition) is not None
            for topic, partitions in self.targets.get(member.member_id, NOTHING).items()
            for partition in partitions
        )

    @property
    def classic_members(self) -> int:
        """How many members speak the classic protocol."""
        return sum(member.classic is not None for member in self.members.values())

    # Replay

    def set_member(self, member: ConsumerMember) -> None:
        old = self.members.get(member.member_id)
        self._forget(old)
        self.members[member.member_id] = member
        for name in member.subscribed_names:
            self._subscribers[name] = self._subscribers.get(name, 0) + 1
        regex = member.subscribed_regex
        if regex:
            self.regex_subscribers[regex] = self.regex_subscribers.get(regex, 0) + 1
        if member.instance_id is not None:
            self.static_members[member.instance_id] = member.member_id
        self._own(member.assigned, member.member_id)
        self._own(member.pending_revocation, member.member_id)

    def remove_member(self, member_id: str) -> None:
        self._forget(self.members.pop(member_id, None))

    def _forget(self, member: ConsumerMember | None) -> None:
        if member is None:
            return
        for name in member.subscribed_names:
            self._subscribers[name] -= 1
            if not self._subscribers[name]:
                del self._subscribers[name]
        regex = member.subscribed_regex
        if regex:
            self.regex_subscribers[regex] -= 1
            if not self.regex_subscribers[regex]:
                del self.regex_subscribers[regex]
        if member.instance_id is not None and self.static_members.get(member.instance_id) == member.member_id:
            del self.static_members[member.instance_id]
        self._disown(member.assigned, member.member_id)
        self._disown(member.pending_revocation, member.member_id)

    def _own(self, owned: OwnedPartitions, member_id: str) -> None:
        for topic, partitions in owned.items():
            self._owners.setdefault(topic, {}).update(dict.fromkeys(partitions, member_id))

    def _disown(self, owned: OwnedPartitions, member_id: str) -> None:
        for topic, partitions in owned.items():
            owners = self._owners.get(topic, {})
            for partition in partitions:
                if owners.get(partition) == member_id:
                    del owners[partition]
            if not owners:
                self._owners.pop(topic, None)


def _epoch_error(member: ConsumerMember) -> ErrorCode:
    return ErrorCode.STALE_MEMBER_EPOCH if member.classic is None else ErrorCode.ILLEGAL_GENERATION
