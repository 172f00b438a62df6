"""A member of a classic group, as a pure machine: requests out, answers in, and what to do next.

    state \\ event   join answered   sync answered    rebalance seen   coordinator forgot us   left
    UNJOINED         -               -                -                -                       -
    JOINING          SYNCING         -                -                UNJOINED                UNJOINED
    SYNCING          -               STABLE           JOINING          UNJOINED                UNJOINED
    STABLE           -               -                JOINING          UNJOINED                UNJOINED

The member id survives a rebalance and is dropped when the coordinator does not know it any more; then what was assigned is lost
too. A static member (`group_instance_id`) that the coordinator calls fenced has a newer twin and never comes back.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from typing import NamedTuple

from tidelog.client.consumer.assignors import Assignor
from tidelog.client.consumer.assignors.assignor import NO_GENERATION, LastAssignment, MemberSubscription, PartitionRacks
from tidelog.client.consumer.group_protocol import (
    PROTOCOL_TYPE,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from tidelog.client.consumer.membership import Failed, Next
from tidelog.client.consumer.topic_partition import TopicPartition
from tidelog.client.errors import ClientError, FencedError, refusal
from tidelog.model.errors import ErrorCode
from tidelog.wire.messages.groups_classic import (
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
    LeaveGroupRequest,
    MemberIdentity,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)

_LEAVES_BY_LIST_VERSION = 3


class State(Enum):
    UNJOINED = "unjoined"
    JOINING = "joining"
    SYNCING = "syncing"
    STABLE = "stable"


class GroupSettings(NamedTuple):
    """What a member tells the coordinator about itself."""

    group_id: str
    group_instance_id: str | None = None
    session_timeout_ms: int = 45_000
    rebalance_timeout_ms: int = 300_000
    rack_id: str | None = None


class Leading(NamedTuple):
    """This member leads: it shares the partitions of these topics out among all members."""

    members: Mapping[str, MemberSubscription]

    @property
    def topics(self) -> set[str]:
        return {topic for each in self.members.values() for topic in each.topics}


class Assigned(NamedTuple):
    """The member's part in the new generation."""

    partitions: tuple[TopicPartition, ...]


_RETRIED = {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: Next.RETRY,
    ErrorCode.COORDINATOR_NOT_AVAILABLE: Next.FIND_COORDINATOR,
    ErrorCode.NOT_COORDINATOR: Next.FIND_COORDINATOR,
    ErrorCode.REQUEST_TIMED_OUT: Next.RETRY,
}


class ClassicMember:
    """One consumer's membership. The host sends what it asks for and tells it what came back."""

    def __init__(self, settings: GroupSettings, assignors: Sequence[Assignor]) -> None:
        self.settings = settings
        self.state = State.UNJOINED
        self.member_id = ""
        self.generation_id = NO_GENERATION
        self.protocol_name = ""
        self._assignors = {each.name: each for each in assignors}
        self._leads = False
        self._leader_skips = False
        self._last = LastAssignment()
        self._reason: str | None = None

    @property
    def is_cooperative(self) -> bool:
        """Whether partitions are kept during a rebalance: only if whatever the group chooses can do that."""
        return all(each.is_cooperative for each in self._assignors.values())

    @property
    def is_in_group(self) -> bool:
        """Whether commits carry this member's id and generation."""
        return self.generation_id != NO_GENERATION

    # Joining.

    def join_request(self, topics: Iterable[str], owned: Sequence[TopicPartition]) -> JoinGroupRequest:
        """Ask to be in the next generation. `owned` is what the member keeps meanwhile."""
        self.state = State.JOINING
        wanted = sorted(topics)
        return JoinGroupRequest(
            group_id=self.settings.group_id,
            session_timeout_ms=self.settings.session_timeout_ms,
            rebalance_timeout_ms=self.settings.rebalance_timeout_ms,
            member_id=self.member_id,
            group_instance_id=self.settings.group_instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocols=[
                JoinGroupRequestProtocol(
                    name=each.name,
                    metadata=encode_subscription(
                        each, wanted, owned=owned, last=self._last, rack_id=self.settings.rack_id
                    ),
                )
                for each in self._assignors.values()
            ],
            reason=self._reason,
        )

    def joined(self, answer: JoinGroupResponse) -> Leading | Next | Failed:
        """GO_ON for a follower, who asks for its assignment with `sync_request([])`."""
        code = ErrorCode.of(answer.error_code)
        if code is ErrorCode.NONE:
            return self._enter(answer)
        if code is ErrorCode.MEMBER_ID_REQUIRED:
            # The coordinator has given out an id; joining counts only with it (KIP-394).
            self.member_id = answer.member_id
            return Next.REJOIN
        if code is ErrorCode.REBALANCE_IN_PROGRESS:
            return Next.REJOIN
        return self._membership_refused(code)

    def _enter(self, answer: JoinGroupResponse) -> Leading | Next | Failed:
        if answer.protocol_type not in {None, PROTOCOL_TYPE} or answer.protocol_name not in self._assignors:
            return Failed(
                ClientError(
                    f"group {self.settings.group_id!r} chose the assignor {answer.protocol_name!r}, unknown here"
                )
            )
        self.state = State.SYNCING
        self.member_id = answer.member_id
        self.generation_id = answer.generation_id
        self.protocol_name = answer.protocol_name or ""
        self._leads = answer.leader == answer.member_id
        self._reason = None
        if not self._leads:
            return Next.GO_ON
        # A static leader that came back (KIP-814): the coordinator has the assignment, which nothing has changed.
        self._leader_skips = answer.skip_assignment
        try:
            return Leading(
                {
                    each.member_id: decode_subscription(bytes(each.metadata), each.group_instance_id)
                    for each in answer.members
                }
            )
        except ClientError as error:
            return Failed(error)

    def share_out(self, leading: Leading, partitions: PartitionRacks) -> list[SyncGroupRequestAssignment]:
        """The leader's work: what goes into its SyncGroup."""
        if self._leader_skips:
            return []
        shared = self._assignors[self.protocol_name].assign(partitions, leading.members)
        return [
            SyncGroupRequestAssignment(member_id=member, assignment=encode_assignment(assigned))
            for member, assigned in shared.items()
        ]

    def sync_request(self, assignments: list[SyncGroupRequestAssignment]) -> SyncGroupRequest:
        return SyncGroupRequest(
            group_id=self.settings.group_id,
            generation_id=self.generation_id,
            member_id=self.member_id,
            group_instance_id=self.settings.group_instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocol_name=self.protocol_name,
            assignments=assignments,
        )

    def synced(self, answer: SyncGroupResponse) -> Assigned | Next | Failed:
        code = ErrorCode.of(answer.error_code)
        if code is ErrorCode.NONE:
            try:
                partitions = decode_assignment(bytes(answer.assignment))
            except ClientError as error:
                return Failed(error)
            self.state = State.STABLE
            self._last = LastAssignment(partitions, self.generation_id)
            return Assigned(partitions)
        outcome = self._generation_ended(code)
        if outcome is Next.RETRY or outcome is Next.FIND_COORDINATOR:
            # Whether the coordinator has seen the assignment is unknown: the generation begins again.
            self.rejoin("the sync got no answer")
        return outcome

    # Staying.

    @property
    def leads(self) -> bool:
        return self._leads

    def heartbeat_request(self) -> HeartbeatRequest:
        return HeartbeatRequest(
            group_id=self.settings.group_id,
            generation_id=self.generation_id,
            member_id=self.member_id,
            group_instance_id=self.settings.group_instance_id,
        )

    def heartbeat_answered(self, error_code: int) -> Next | Failed:
        code = ErrorCode.of(error_code)
        if code is ErrorCode.NONE:
            return Next.GO_ON
        return self._generation_ended(code)

    def commit_refused(self, code: ErrorCode) -> Next | Failed:
        """What the error of a commit says about the membership."""
        return self._generation_ended(code)

    def _generation_ended(self, code: ErrorCode) -> Next | Failed:
        if code is ErrorCode.REBALANCE_IN_PROGRESS:
            self.rejoin("the group rebalances")
            return Next.REJOIN
        if code is ErrorCode.ILLEGAL_GENERATION:
            self.generation_id = NO_GENERATION
            self.rejoin("the generation is over")
            return Next.LOST
        return self._membership_refused(code)

    def _membership_refused(self, code: ErrorCode) -> Next | Failed:
        if code is ErrorCode.UNKNOWN_MEMBER_ID:
            self.forget_identity("the coordinator does not know the member id")
            return Next.LOST
        if code is ErrorCode.FENCED_INSTANCE_ID:
            return self._fenced()
        return _RETRIED.get(code) or Failed(refusal(code, None, about=f"group {self.settings.group_id!r}"))

    def _fenced(self) -> Failed:
        self.forget_identity("another member has the instance id")
        sentence = f"another consumer has taken over group_instance_id {self.settings.group_instance_id!r}"
        return Failed(FencedError(ErrorCode.FENCED_INSTANCE_ID, sentence))

    def rejoin(self, reason: str) -> None:
        """The next generation is due; the member stays who it is."""
        self._reason = self._reason or reason
        if self.state is not State.UNJOINED:
            self.state = State.JOINING

    def forget_identity(self, reason: str) -> None:
        """Begin again as a new member, who remembers what it had last."""
        self.state = State.UNJOINED
        self.member_id = ""
        self.generation_id = NO_GENERATION
        self._leads = False
        self._reason = reason

    # Leaving.

    def leave_request(self, version: int, reason: str) -> LeaveGroupRequest:
        if version < _LEAVES_BY_LIST_VERSION:
            return LeaveGroupRequest(group_id=self.settings.group_id, member_id=self.member_id, members=[])
        identity = MemberIdentity(
            member_id=self.member_id, group_instance_id=self.settings.group_instance_id, reason=reason
        )
        return LeaveGroupRequest(group_id=self.settings.group_id, members=[identity])
