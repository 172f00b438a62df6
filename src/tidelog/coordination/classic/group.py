# cython: annotation_typing=False, auto_pickle=False, binding=False, nonecheck=True
"""A group of the classic protocol: its members, its generation, and the state in which both are.

    from \\ to              Empty   PreparingRebalance   CompletingRebalance   Stable   Dead
    Empty                  -       a member joins       -                     -        unloaded, deleted
    PreparingRebalance     nobody  -                    all (or those in      -        unloaded
                           left                         time) have joined
    CompletingRebalance    -       a member joins anew, -                     leader's unloaded
                                   leaves or fails                            assignment is written
    Stable                 -       as above, or the     -                     -        unloaded
                                   leader joins again

`transition_to` is the one gate. The generation rises when the joining ends. Who has joined since then is in memory only: a
group that is loaded is Stable with the members of its last generation, or Empty.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from tidelog.coordination.classic.member import ClassicMember, ParkedJoin, Protocols
from tidelog.coordination.classic.protocols import SupportedProtocols
from tidelog.coordination.decision import tombstone
from tidelog.model.errors import ErrorCode
from tidelog.wire.codec import decode_from
from tidelog.wire.errors import MalformedError
from tidelog.wire.internal_records import CoordinatorRecord
from tidelog.wire.messages.groups_classic import JoinGroupResponseMember
from tidelog.wire.messages.internal.consumer_protocol import ConsumerProtocolSubscription
from tidelog.wire.messages.internal.offset_records import GroupMetadataKey

if TYPE_CHECKING:
    from tidelog.coordination.classic.sessions import Sessions

CONSUMER_PROTOCOL_TYPE: Final = "consumer"
# A subscription begins with its version. Version 0 is a prefix of all others, and has all that is read here.
_VERSION_BYTES = 2


class GroupState(StrEnum):
    """By the names that ListGroups and DescribeGroups have."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


# Enum members as module constants, since every commit needs them: see docs/style.md.
_EMPTY, _COMPLETING_REBALANCE, _DEAD = GroupState.EMPTY, GroupState.COMPLETING_REBALANCE, GroupState.DEAD
_NONE = ErrorCode.NONE

_COMES_FROM: dict[GroupState, tuple[GroupState, ...]] = {
    GroupState.EMPTY: (GroupState.PREPARING_REBALANCE,),
    GroupState.PREPARING_REBALANCE: (GroupState.STABLE, GroupState.COMPLETING_REBALANCE, GroupState.EMPTY),
    GroupState.COMPLETING_REBALANCE: (GroupState.PREPARING_REBALANCE,),
    GroupState.STABLE: (GroupState.COMPLETING_REBALANCE,),
    GroupState.DEAD: tuple(GroupState),
}


class ClassicGroup:
    """A `Group`. Those who decide about it (`rebalances`, `joining`...) change it through its methods."""

    def __init__(self, group_id: str, *, state_since_ms: int | None, state: GroupState = GroupState.EMPTY) -> None:
        self.group_id = group_id
        self.state = state
        self.previous_state = GroupState.DEAD
        self.state_since_ms = state_since_ms
        self.generation_id = 0
        self.protocol_type = ""
        self.protocol_name: str | None = None
        self.leader_id: str | None = None
        self.members: dict[str, ClassicMember] = {}
        self.static_member_ids: dict[str, str] = {}
        # Ordered sets: they were given an id and are expected to join with it; they have joined and are expected to sync.
        self.pending_joins: dict[str, None] = {}
        self.pending_syncs: dict[str, None] = {}
        self.awaiting_joins_count = 0
        self.new_member_added = False
        self.sessions: Sessions | None = None
        """Where members give signs of life. None until a coordinator takes the group in."""
        self._supported = SupportedProtocols()
        self._subscriptions: tuple[bytes, ...] | None = None
        self._subscribed_topics: frozenset[str] | None = None

    @classmethod
    def from_members(
        cls, group_id: str, generation_id: int, members: Iterable[ClassicMember], now_ms: int
    ) -> ClassicGroup:
        """A stable group of consumers that have their assignments already: what a group of the new protocol becomes.

        The protocol is chosen by their votes and the first one leads. RuntimeError where they have no protocol in common.
        """
        group = cls(group_id, state_since_ms=now_ms, state=GroupState.STABLE)
        group.generation_id = generation_id
        group.protocol_type = CONSUMER_PROTOCOL_TYPE
        for member in members:
            group.add(member)
        group.protocol_name = group.select_protocol()
        group.note_subscriptions()
        return group

    # What a Group is

    @property
    def type_name(self) -> str:
        return "classic"

    @property
    def state_name(self) -> str:
        return self.state.value

    @property
    def is_empty(self) -> bool:
        return self.state is GroupState.EMPTY

    @property
    def gives_way(self) -> bool:
        return True

    @property
    def has_offsets(self) -> bool:
        return True

    def is_subscribed_to(self, topic: str) -> bool:
        topics = self._topics()
        if topics is not None:
            return topic in topics
        # Consumers whose subscription cannot be read, or members that are something else than consumers.
        return self.is_consumers or not self.is_empty

    def offsets_expire_from_ms(self) -> int | None:
        return self.state_since_ms if self.protocol_type and self.is_empty else None

    @property
    def offsets_may_expire(self) -> bool:
        """False while members rebalance, and while their subscriptions are unknown."""
        if not self.protocol_type or self.is_empty:
            return True
        return self.is_consumers and self.state is GroupState.STABLE and self._topics() is not None

    def check_commit(
        self,
        member_id: str,
        instance_id: str | None,
        epoch: int,
        api_version: int,  # noqa: ARG002 - all versions say the same to a classic group
        now_ms: int,
        is_transactional: bool = False,
    ) -> ErrorCode:
        state = self.state
        if state is _DEAD:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        if epoch < 0 and state is _EMPTY:
            # An administrator, or a consumer that is not a member of anything.
            return _NONE
        if epoch < 0 and not member_id and instance_id is None:
            return _NONE if is_transactional else ErrorCode.UNKNOWN_MEMBER_ID
        error = self.check_member(member_id, instance_id)
        if error is not _NONE:
            return error
        if epoch != self.generation_id:
            return ErrorCode.ILLEGAL_GENERATION
        if state is _COMPLETING_REBALANCE and not is_transactional:
            # It knows the new generation, but not yet whether it still owns what it commits.
            return ErrorCode.REBALANCE_IN_PROGRESS
        if self.sessions is not None:
            self.sessions.renew(self, self.members[member_id], now_ms)
        return _NONE

    def as_committed(self) -> ClassicGroup:
        # Records do not make it what it is, they follow: it becomes stable when they are committed. As in Kafka.
        return self

    def check_fetch(self, member_id: str | None, epoch: int) -> ErrorCode:
        del member_id, epoch  # Anyone may read the offsets of a classic group.
        return ErrorCode.GROUP_ID_NOT_FOUND if self.state is GroupState.DEAD else ErrorCode.NONE

    def check_delete(self) -> ErrorCode:
        if self.state is GroupState.DEAD:
            return ErrorCode.GROUP_ID_NOT_FOUND
        return ErrorCode.NONE if self.is_empty else ErrorCode.NON_EMPTY_GROUP

    def check_offset_delete(self) -> ErrorCode:
        """Whether single offsets may be deleted: of consumers those that nobody reads, of other members none."""
        return ErrorCode.NONE if self.is_consumers else self.check_delete()

    def tombstones(self) -> tuple[CoordinatorRecord, ...]:
        return (tombstone(GroupMetadataKey(group=self.group_id)),)

    # What a conversion to the new protocol needs

    @property
    def is_consumers(self) -> bool:
        """Whether the members are consumers, whose subscriptions and assignments can be read."""
        return self.protocol_type == CONSUMER_PROTOCOL_TYPE

    @property
    def is_simple(self) -> bool:
        """Whether it only keeps offsets: nobody has ever joined, nor is about to."""
        return not self.protocol_type and self.is_empty and not self.pending_joins

    # State

    def transition_to(self, state: GroupState, now_ms: int) -> None:
        """The one place where the state changes. RuntimeError for a transition that the table above does not have."""
        if self.state not in _COMES_FROM[state]:
            raise RuntimeError(f"group {self.group_id} cannot become {state} while it is {self.state}")
        self.previous_state = self.state
        self.state = state
        self.state_since_ms = now_ms

    @property
    def can_rebalance(self) -> bool:
        return self.state in _COMES_FROM[GroupState.PREPARING_REBALANCE]

    @property
    def is_initial_rebalance(self) -> bool:
        """Whether members that join are waited for a while, since there were none before."""
        return self.state is GroupState.PREPARING_REBALANCE and self.previous_state is GroupState.EMPTY

    @property
    def have_all_joined(self) -> bool:
        return len(self.members) == self.awaiting_joins_count and not self.pending_joins

    def next_generation(self, now_ms: int) -> None:
        """The joining has ended: with members they choose a protocol, without them the group is empty."""
        self.generation_id += 1
        self.protocol_name = self.select_protocol() if self.members else None
        self.note_subscriptions()
        self.pending_syncs.clear()
        self.transition_to(GroupState.COMPLETING_REBALANCE if self.members else GroupState.EMPTY, now_ms)

    def elect_leader(self) -> bool:
        """Make a member that has joined the leader. False where none has."""
        leader = self.members.get(self.leader_id) if self.leader_id is not None else None
        if leader is not None and leader.awaits_join:
            return True
        for member in self.members.values():
            if member.awaits_join:
                self.leader_id = member.member_id
                return True
        return False

    # Members

    def check_member(self, member_id: str, instance_id: str | None) -> ErrorCode:
        if instance_id is not None:
            known = self.static_member_ids.get(instance_id)
            if known is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            if known != member_id:
                return ErrorCode.FENCED_INSTANCE_ID
        return _NONE if member_id in self.members else ErrorCode.UNKNOWN_MEMBER_ID

    def add(self, member: ClassicMember, parked: ParkedJoin | None = None) -> None:
        """A new member; the first one decides on the type of protocol, and leads."""
        if not self.members:
            self.protocol_type = member.protocol_type
        if self.leader_id is None:
            self.leader_id = member.member_id
        self.members[member.member_id] = member
        if member.instance_id is not None:
            self.static_member_ids[member.instance_id] = member.member_id
        self._supported.add(member.protocols)
        self.pending_joins.pop(member.member_id, None)
        self.park_join(member, parked)

    def remove(self, member_id: str) -> ClassicMember | None:
        """End a membership, a pending one too. What the member has parked is left to the caller, who has to answer it."""
        self.pending_joins.pop(member_id, None)
        self.pending_syncs.pop(member_id, None)
        member = self.members.pop(member_id, None)
        if member is None:
            return None
        self._supported.remove(member.protocols)
        if member.awaits_join:
            self.awaiting_joins_count -= 1
        if member.instance_id is not None:
            del self.static_member_ids[member.instance_id]
        if self.leader_id == member_id:
            self.leader_id = next(iter(self.members), None)
        return member

    def replace_static(self, old_member_id: str, new_member_id: str) -> ClassicMember:
        """Hand a static membership over to another id. The new member has the old one's place and assignment, nothing parked."""
        old = self.members[old_member_id]
        is_leader = self.leader_id == old_member_id
        self.remove(old_member_id)
        member = ClassicMember(
            new_member_id,
            old.instance_id,
            old.client_id,
            old.client_host,
            rebalance_timeout_ms=old.rebalance_timeout_ms,
            session_timeout_ms=old.session_timeout_ms,
            protocol_type=old.protocol_type,
            protocols=old.protocols,
            assignment=old.assignment,
        )
        self.add(member)
        if is_leader:
            self.leader_id = new_member_id
        return member

    def update(
        self, member: ClassicMember, protocols: Protocols, rebalance_timeout_ms: int, session_timeout_ms: int
    ) -> None:
        self._supported.remove(member.protocols)
        member.protocols = protocols
        self._supported.add(protocols)
        member.rebalance_timeout_ms = rebalance_timeout_ms
        member.session_timeout_ms = session_timeout_ms

    def park_join(self, member: ClassicMember, parked: ParkedJoin | None) -> ParkedJoin | None:
        """Let a member wait for the others (or not, with None). Returns what was parked before, for the caller to answer."""
        before = member.parked_join
        member.parked_join = parked
        self.awaiting_joins_count += (parked is not None) - (before is not None)
        return before

    # Protocols

    def supports(self, protocol_type: str, protocols: Protocols) -> bool:
        """Whether a member with these protocols can take part."""
        if self.is_empty:
            return bool(protocol_type and protocols)
        return protocol_type == self.protocol_type and self._supported.has_one_for_all(protocols, len(self.members))

    def select_protocol(self) -> str:
        return self._supported.select(self.members.values(), len(self.members))

    @property
    def rebalance_timeout_ms(self) -> int:
        """The longest that any member may take."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    def members_for_leader(self) -> list[JoinGroupResponseMember]:
        return [
            JoinGroupResponseMember(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                metadata=member.metadata(self.protocol_name),
            )
            for member in self.members.values()
        ]

    # Topics

    def note_subscriptions(self) -> None:
        """Remember what the members of this generation read. It is decoded only if somebody asks."""
        self._subscribed_topics = None
        if not self.is_consumers or (self.members and self.protocol_name is None):
            self._subscriptions = None
            return
        self._subscriptions = tuple(member.metadata(self.protocol_name) for member in self.members.values())

    def _topics(self) -> frozenset[str] | None:
        """All that the members read; None where that is unknown."""
        if self._subscribed_topics is None and self._subscriptions is not None:
            try:
                self._subscribed_topics = frozenset(
                    topic for metadata in self._subscriptions for topic in _topics_of(metadata)
                )
            except MalformedError:
                self._subscriptions = None
        return self._subscribed_topics


def _topics_of(metadata: bytes) -> list[str]:
    return decode_from(ConsumerProtocolSubscription, 0, metadata, _VERSION_BYTES)[0].topics
