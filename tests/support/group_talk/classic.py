"""What members of the classic protocol say: JoinGroup, SyncGroup, Heartbeat, LeaveGroup."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Any

from tests.support.classic_groups import subscription
from tests.support.group_talk.notes import REBALANCE_MS, Notes, error_name
from tests.support.raw_client import RawClient
from tidelog.wire.internal_records import encode_version_prefixed
from tidelog.wire.messages.groups_classic import (
    HeartbeatRequest,
    HeartbeatResponse,
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
from tidelog.wire.messages.internal.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartition,
)

ORDERS = {"range": subscription("orders")}
ALL_OF_ORDERS = encode_version_prefixed(
    ConsumerProtocolAssignment(assigned_partitions=[TopicPartition(topic="orders", partitions=[0, 1, 2])]), 1
)
SESSION_MS = 10_000
# The first version of a subscription that says which partitions a member has.
_OWNED_VERSION = 1
_ANSWER_TIMEOUT_S = 30


def orders_with(*owned: int) -> dict[str, bytes]:
    """What a consumer of orders says that has these partitions."""
    partitions = [TopicPartition(topic="orders", partitions=list(owned))] if owned else []
    said = ConsumerProtocolSubscription(topics=["orders"], owned_partitions=partitions)
    return {"range": encode_version_prefixed(said, _OWNED_VERSION)}


class ClassicTalk(Notes):
    """A join or a sync may have to wait for others, so that each goes down a connection of its own."""

    def __init__(self, bootstrap: str, group: str) -> None:
        super().__init__(bootstrap, group)
        self._threads = ThreadPoolExecutor(8)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        super().__exit__(kind, error, trace)
        self._threads.shutdown()

    def ask_join(self, member_id: str = "", **said: Any) -> Future[JoinGroupResponse]:
        """A join that may have to wait; `heard` has its answer."""
        return self._threads.submit(self._join, member_id, **said)

    def _join(
        self,
        member_id: str = "",
        *,
        version: int = 9,
        instance: str | None = None,
        protocols: dict[str, bytes] = ORDERS,
        protocol_type: str = "consumer",
        session_ms: int = SESSION_MS,
        rebalance_ms: int = REBALANCE_MS,
        group: str | None = None,
    ) -> JoinGroupResponse:
        request = JoinGroupRequest(
            group_id=self.group_or(group),
            session_timeout_ms=session_ms,
            rebalance_timeout_ms=rebalance_ms,
            member_id=member_id,
            group_instance_id=instance,
            protocol_type=protocol_type,
            protocols=[JoinGroupRequestProtocol(name=name, metadata=metadata) for name, metadata in protocols.items()],
        )
        with RawClient(self.bootstrap) as client:
            return client.call(request, JoinGroupResponse, version)

    def heard(self, asked: Future[JoinGroupResponse]) -> str:
        """Notes the answer to a join; the member's id."""
        answer = asked.result(_ANSWER_TIMEOUT_S)
        members = [(self.name(each.member_id), each.group_instance_id, each.metadata) for each in answer.members]
        self.note(
            "join",
            error_name(answer.error_code),
            self.name(answer.member_id),
            answer.generation_id,
            answer.protocol_type,
            answer.protocol_name,
            self.name(answer.leader),
            answer.skip_assignment,
            sorted(members, key=repr),
        )
        return answer.member_id

    def join(self, member_id: str = "", **said: Any) -> str:
        return self.heard(self.ask_join(member_id, **said))

    def member(self, **said: Any) -> str:
        """A dynamic member that has joined, in two rounds."""
        return self.join(self.join(**said), **said)

    def stable_member(self, version: int = 9, assignment: bytes = b"all", **said: Any) -> str:
        """The only member of a stable first generation."""
        needs_id = version >= 4 and "instance" not in said
        member_id = self.member(version=version, **said) if needs_id else self.join(version=version, **said)
        instance = said.get("instance")
        self.sync(member_id, 1, {member_id: assignment}, instance=instance if isinstance(instance, str) else None)
        return member_id

    def sync(
        self, member_id: str, generation_id: int, assignments: dict[str, bytes] | None = None, **said: Any
    ) -> None:
        self.heard_sync(self.ask_sync(member_id, generation_id, assignments, **said))

    def heard_sync(self, asked: Future[SyncGroupResponse]) -> None:
        """Notes the answer to a sync."""
        answer = asked.result(_ANSWER_TIMEOUT_S)
        self.note("sync", error_name(answer.error_code), answer.protocol_type, answer.protocol_name, answer.assignment)

    def ask_sync(
        self, member_id: str, generation_id: int, assignments: dict[str, bytes] | None = None, **said: Any
    ) -> Future[SyncGroupResponse]:
        """A sync that may have to wait for the leader's."""
        return self._threads.submit(self._sync, member_id, generation_id, assignments, **said)

    def _sync(
        self,
        member_id: str,
        generation_id: int,
        assignments: dict[str, bytes] | None = None,
        *,
        version: int = 5,
        instance: str | None = None,
        protocol_type: str | None = "consumer",
        protocol_name: str | None = "range",
        group: str | None = None,
    ) -> SyncGroupResponse:
        request = SyncGroupRequest(
            group_id=self.group_or(group),
            generation_id=generation_id,
            member_id=member_id,
            group_instance_id=instance,
            protocol_type=protocol_type,
            protocol_name=protocol_name,
            assignments=[
                SyncGroupRequestAssignment(member_id=assigned, assignment=assignment)
                for assigned, assignment in (assignments or {}).items()
            ],
        )
        with RawClient(self.bootstrap) as client:
            return client.call(request, SyncGroupResponse, version)

    def heartbeat(self, member_id: str, generation_id: int, **said: Any) -> None:
        self.note("heartbeat", self.ask_heartbeat(member_id, generation_id, **said))

    def ask_heartbeat(
        self,
        member_id: str,
        generation_id: int,
        *,
        version: int = 4,
        instance: str | None = None,
        group: str | None = None,
    ) -> str:
        """The answer's error, which is not noted."""
        request = HeartbeatRequest(
            group_id=self.group_or(group),
            generation_id=generation_id,
            member_id=member_id,
            group_instance_id=instance,
        )
        return error_name(self.call(request, HeartbeatResponse, version).error_code)

    def leave(self, *leavers: tuple[str, str | None], version: int = 5, group: str | None = None) -> None:
        members = [MemberIdentity(member_id=member_id, group_instance_id=instance) for member_id, instance in leavers]
        request = LeaveGroupRequest(
            group_id=self.group_or(group),
            member_id=leavers[0][0] if version < 3 else "",
            members=members if version >= 3 else [],
        )
        answer = self.call(request, LeaveGroupResponse, version)
        each = [
            (self.name(member.member_id), member.group_instance_id, error_name(member.error_code))
            for member in answer.members
        ]
        self.note("leave", error_name(answer.error_code), each)
