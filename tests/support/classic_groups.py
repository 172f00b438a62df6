"""Classic groups without a broker: carries decisions out as a coordinator's host does, on a clock that a test moves."""

from __future__ import annotations

from random import Random
from typing import Any, TypeVar

from tidelog.coordination.classic.group import ClassicGroup
from tidelog.coordination.classic.groups import ClassicGroups
from tidelog.coordination.deadlines import Deadlines
from tidelog.coordination.decision import Caller, Decision
from tidelog.coordination.group import Group
from tidelog.coordination.group_settings import GroupSettings
from tidelog.model.errors import ErrorCode
from tidelog.model.pending import Pending
from tidelog.wire.internal_records import CoordinatorRecord, encode_version_prefixed
from tidelog.wire.messages.groups_classic import (
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)
from tidelog.wire.messages.internal.consumer_protocol import ConsumerProtocolSubscription
from tidelog.wire.messages.internal.offset_records import GroupMetadataKey, GroupMetadataValue

A = TypeVar("A")

GROUP = "payments"
START_MS = 1_000_000
SESSION_MS = 10_000
REBALANCE_MS = 60_000
DELAY_MS = 3_000


def subscription(*topics: str) -> bytes:
    """What a consumer that reads these topics tells the leader."""
    return encode_version_prefixed(ConsumerProtocolSubscription(topics=list(topics), owned_partitions=[]), 0)


def value_of(answer: A | Pending[A]) -> A:
    """An answer that has to be there."""
    return answer.value if isinstance(answer, Pending) else answer


def is_parked(answer: object) -> bool:
    return isinstance(answer, Pending) and not answer.is_complete


class ClassicDriver:
    """A shard with one group, its log, and a host. Appends are committed at once, unless `holds_commits`."""

    def __init__(self, settings: GroupSettings | None = None, seed: int = 7) -> None:
        self.settings = settings or GroupSettings(initial_rebalance_delay_ms=DELAY_MS)
        self.deadlines = Deadlines()
        self.groups: dict[str, Group] = {}
        self.classic = ClassicGroups(self.groups, self.deadlines, self.settings, Random(seed))
        self.now_ms = START_MS
        self.log: list[CoordinatorRecord] = []
        self.holds_commits = False
        self.append_error = ErrorCode.NONE
        self._uncommitted: list[Decision[Any]] = []
        self.has_failed = False

    @property
    def has_uncommitted(self) -> bool:
        return bool(self._uncommitted)

    @property
    def group(self) -> ClassicGroup:
        group = self.groups[GROUP]
        assert isinstance(group, ClassicGroup)
        return group

    # The host

    def carry_out(self, decision: Decision[A]) -> A | Pending[A]:
        if not decision.records:
            return decision.answer
        assert not decision.replays, "what is in memory already must not be replayed over it"
        if self.append_error:
            if decision.settled is not None:
                decision.settled(self.append_error)
            return decision.answer
        self.log.extend(decision.records)
        self._uncommitted.append(decision)
        if not self.holds_commits:
            self.commit()
        return decision.answer

    def commit(self, error: ErrorCode = ErrorCode.NONE) -> None:
        """Settle all that was appended."""
        decisions, self._uncommitted = self._uncommitted, []
        self.has_failed |= bool(error and decisions)
        for decision in decisions:
            if decision.settled is not None:
                decision.settled(error)

    def advance(self, duration_ms: int) -> None:
        """Let time pass; what is due happens at its time."""
        end_ms = self.now_ms + duration_ms
        while (next_ms := self.deadlines.next_ms) is not None and next_ms <= end_ms:
            self.now_ms = max(self.now_ms, next_ms)
            while (due := self.deadlines.take_due(self.now_ms)) is not None:
                _key, action = due
                decision = action(self.now_ms)
                if decision is not None:
                    self.carry_out(decision)
        self.now_ms = end_ms

    # Requests

    def join(
        self,
        member_id: str = "",
        *,
        version: int = 9,
        instance: str | None = None,
        protocols: dict[str, bytes] | None = None,
        protocol_type: str = "consumer",
        session_ms: int = SESSION_MS,
        rebalance_ms: int = REBALANCE_MS,
        client: str = "client",
        group: str = GROUP,
    ) -> JoinGroupResponse | Pending[JoinGroupResponse]:
        offered = {"range": subscription("orders")} if protocols is None else protocols
        request = JoinGroupRequest(
            group_id=group,
            session_timeout_ms=session_ms,
            rebalance_timeout_ms=rebalance_ms,
            member_id=member_id,
            group_instance_id=instance,
            protocol_type=protocol_type,
            protocols=[JoinGroupRequestProtocol(name=name, metadata=metadata) for name, metadata in offered.items()],
        )
        return self.carry_out(self.classic.join(request, caller(version, client), self.now_ms))

    def join_with_id(self, **said: Any) -> tuple[str, JoinGroupResponse | Pending[JoinGroupResponse]]:
        """Both rounds of a dynamic member: its id, and what its join gave."""
        first = value_of(self.join(**said))
        assert first.error_code == ErrorCode.MEMBER_ID_REQUIRED
        return first.member_id, self.join(first.member_id, **said)

    def sync(
        self,
        member_id: str,
        generation_id: int,
        assignments: dict[str, bytes] | None = None,
        *,
        instance: str | None = None,
        protocol_type: str | None = None,
        protocol_name: str | None = None,
        version: int = 4,
    ) -> SyncGroupResponse | Pending[SyncGroupResponse]:
        request = SyncGroupRequest(
            group_id=GROUP,
            generation_id=generation_id,
            member_id=member_id,
            group_instance_id=instance,
            protocol_type=protocol_type,
            protocol_name=protocol_name,
            assignments=[
                SyncGroupRequestAssignment(member_id=member, assignment=assignment)
                for member, assignment in (assignments or {}).items()
            ],
        )
        return self.carry_out(self.classic.sync(request, caller(version), self.now_ms))

    def heartbeat(self, member_id: str, generation_id: int, instance: str | None = None) -> ErrorCode:
        request = HeartbeatRequest(
            group_id=GROUP, generation_id=generation_id, member_id=member_id, group_instance_id=instance
        )
        answer = value_of(self.carry_out(self.classic.heartbeat(request, self.now_ms)))
        return ErrorCode.of(answer.error_code)

    def leave(self, *members: tuple[str, str | None], version: int = 5) -> LeaveGroupResponse:
        leavers = [MemberIdentity(member_id=member_id, group_instance_id=instance) for member_id, instance in members]
        request = LeaveGroupRequest(group_id=GROUP, member_id=members[0][0] if members else "", members=leavers)
        return value_of(self.carry_out(self.classic.leave(request, caller(version), self.now_ms)))

    # Situations

    def stable_group(self, size: int = 2, **said: Any) -> list[str]:
        """A group in its first generation whose members have `a0`, `a1`... assigned. The first one leads."""
        joins = [self.join_with_id(**said) for _ in range(size)]
        self.advance(2 * self.settings.initial_rebalance_delay_ms)
        members = [member_id for member_id, _ in joins]
        assert [value_of(answer).generation_id for _, answer in joins] == [1] * size
        given = {member_id: b"a%d" % number for number, member_id in enumerate(members)}
        syncs = [self.sync(member_id, 1, given if member_id == members[0] else None) for member_id in members]
        assert [value_of(answer).assignment for answer in syncs] == list(given.values())
        return members

    def restarted(self) -> ClassicDriver:
        """A coordinator that has loaded this one's log."""
        successor = ClassicDriver(self.settings, seed=8)
        successor.now_ms = self.now_ms
        for key, value, _version in self.log:
            assert isinstance(key, GroupMetadataKey)
            assert value is None or isinstance(value, GroupMetadataValue)
            successor.classic.replay_group(key, value, self.now_ms)
        for decision in successor.classic.loaded(self.now_ms):
            successor.carry_out(decision)
        return successor

    def last_written(self) -> GroupMetadataValue:
        value = self.log[-1].value
        assert isinstance(value, GroupMetadataValue)
        return value


def caller(version: int, client: str = "client") -> Caller:
    return Caller(client, "/127.0.0.1", version)
