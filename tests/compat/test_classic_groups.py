"""Apache Kafka and Tidelog say the same to members of a classic group, good ones and bad ones.

Each conversation is held with both over raw sockets, in a group of its own. Member ids are replaced by the order in which they
were first seen; everything else that a member is told has to be equal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

import pytest

from tests.support.apache_kafka import ApacheKafka, Node, wait_until
from tests.support.classic_groups import subscription
from tests.support.raw_client import RawClient
from tidelog.model.errors import ErrorCode
from tidelog.testing.embedded_cluster import EmbeddedCluster
from tidelog.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from tidelog.wire.messages.group_admin import DescribeGroupsRequest, DescribeGroupsResponse
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
from tidelog.wire.schema import Request, Response

pytestmark = pytest.mark.compat

R = TypeVar("R", bound=Response)
Told = tuple[object, ...]

ORDERS = {"range": subscription("orders")}
BOTH = {"range": subscription("orders"), "roundrobin": subscription("orders")}
ROUND_ROBIN = {"roundrobin": subscription("orders")}
# A coordinator that has just been made is not ready at once.
NOT_READY = {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
}


class Talk:
    """One side of a conversation: requests of several members in one group, each down a connection of its own."""

    def __init__(self, bootstrap: str, group: str) -> None:
        self._bootstrap = bootstrap
        self._group = group
        self._threads = ThreadPoolExecutor(8)
        self._clients: list[RawClient] = []
        self._names: dict[str, str] = {}
        self.told: list[Told] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for client in self._clients:
            client.__exit__(None, None, None)
        self._threads.shutdown()

    def call(self, request: Request, answer: type[R], version: int) -> R:
        client = RawClient(self._bootstrap)
        self._clients.append(client)
        return client.call(request, answer, version)

    def name(self, member_id: str) -> str:
        return self._names.setdefault(member_id, f"m{len(self._names)}") if member_id else ""

    # Requests. Each notes what was told.

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
        session_ms: int = 10_000,
        group: str | None = None,
    ) -> JoinGroupResponse:
        request = JoinGroupRequest(
            group_id=self._group if group is None else group,
            session_timeout_ms=session_ms,
            rebalance_timeout_ms=8_000,
            member_id=member_id,
            group_instance_id=instance,
            protocol_type=protocol_type,
            protocols=[JoinGroupRequestProtocol(name=name, metadata=metadata) for name, metadata in protocols.items()],
        )
        return self.call(request, JoinGroupResponse, version)

    def heard(self, asked: Future[JoinGroupResponse]) -> str:
        answer = asked.result(30)
        members = [
            (self.name(member.member_id), member.group_instance_id, member.metadata) for member in answer.members
        ]
        self.told.append(
            (
                "join",
                ErrorCode.of(answer.error_code).name,
                self.name(answer.member_id),
                answer.generation_id,
                answer.protocol_type,
                answer.protocol_name,
                self.name(answer.leader),
                answer.skip_assignment,
                sorted(members, key=repr),
            )
        )
        return answer.member_id

    def join(self, member_id: str = "", **said: Any) -> str:
        return self.heard(self.ask_join(member_id, **said))

    def member(self, **said: Any) -> str:
        """A dynamic member that has joined, in two rounds."""
        return self.join(self.join(**said), **said)

    def sync(
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
    ) -> None:
        request = SyncGroupRequest(
            group_id=self._group if group is None else group,
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
        answer = self.call(request, SyncGroupResponse, version)
        error = ErrorCode.of(answer.error_code).name
        self.told.append(("sync", error, answer.protocol_type, answer.protocol_name, answer.assignment))

    def heartbeat(
        self,
        member_id: str,
        generation_id: int,
        *,
        version: int = 4,
        instance: str | None = None,
        group: str | None = None,
    ) -> None:
        request = HeartbeatRequest(
            group_id=self._group if group is None else group,
            generation_id=generation_id,
            member_id=member_id,
            group_instance_id=instance,
        )
        answer = self.call(request, HeartbeatResponse, version)
        self.told.append(("heartbeat", ErrorCode.of(answer.error_code).name))

    def leave(self, *leavers: tuple[str, str | None], version: int = 5, group: str | None = None) -> None:
        members = [MemberIdentity(member_id=member_id, group_instance_id=instance) for member_id, instance in leavers]
        request = LeaveGroupRequest(
            group_id=self._group if group is None else group,
            member_id=leavers[0][0] if version < 3 else "",
            members=members if version >= 3 else [],
        )
        answer = self.call(request, LeaveGroupResponse, version)
        each = [
            (self.name(member.member_id), member.group_instance_id, ErrorCode.of(member.error_code).name)
            for member in answer.members
        ]
        self.told.append(("leave", ErrorCode.of(answer.error_code).name, each))

    def state(self) -> None:
        answer = self.call(
            DescribeGroupsRequest(groups=[self._group], include_authorized_operations=False), DescribeGroupsResponse, 5
        )
        (group,) = answer.groups
        members = [
            (
                self.name(member.member_id),
                member.group_instance_id,
                member.client_id,
                member.client_host,
                member.member_metadata,
                member.member_assignment,
            )
            for member in group.members
        ]
        self.told.append(
            (group.error_code, group.group_state, group.protocol_type, group.protocol_data, sorted(members, key=repr))
        )

    # Situations

    def stable_member(self, version: int = 9, **said: Any) -> str:
        """The only member of a stable first generation."""
        if version < 4 or "instance" in said:
            member_id = self.join(version=version, **said)
        else:
            member_id = self.member(version=version, **said)
        instance = said.get("instance")
        self.sync(member_id, 1, {member_id: b"all"}, instance=instance if isinstance(instance, str) else None)
        return member_id


# Conversations


def one_member(talk: Talk, version: int) -> None:
    member_id = talk.stable_member(version)
    talk.heartbeat(member_id, 1)
    talk.state()
    talk.leave((member_id, None))
    talk.state()
    talk.heartbeat(member_id, 2)


def heartbeats(talk: Talk, version: int) -> None:
    talk.heartbeat("nobody", 1, version=version)
    member_id = talk.stable_member()
    for who, generation_id in ((member_id, 1), (member_id, 0), (member_id, 2), (member_id, -1), ("nobody", 1), ("", 1)):
        talk.heartbeat(who, generation_id, version=version)
    talk.heartbeat(member_id, 1, version=version, group="")
    if version >= 3:
        talk.heartbeat(member_id, 1, version=version, instance="i")


def syncs(talk: Talk, version: int) -> None:
    talk.sync("nobody", 1, version=version)
    member_id = talk.stable_member()
    for who, generation_id in ((member_id, 1), (member_id, 0), (member_id, 2), ("nobody", 1), ("", -1)):
        talk.sync(who, generation_id, version=version)
    talk.sync(member_id, 1, {member_id: b"other"}, version=version)
    talk.sync(member_id, 1, version=version, group="")
    if version >= 3:
        talk.sync(member_id, 1, version=version, instance="i")
    if version >= 5:
        talk.sync(member_id, 1, protocol_type=None)
        talk.sync(member_id, 1, protocol_name=None)
        talk.sync(member_id, 1, protocol_type="connect", protocol_name="range")
        talk.sync(member_id, 1, protocol_type="consumer", protocol_name="roundrobin")
        talk.sync(member_id, 1, protocol_type="consumer", protocol_name="range")


def leaves(talk: Talk, version: int) -> None:
    talk.leave(("nobody", None), version=version)
    member_id = talk.stable_member()
    talk.leave(("nobody", None), version=version)
    talk.leave((member_id, None), version=version, group="")
    talk.leave((member_id, None), version=version)
    talk.leave((member_id, None), version=version)
    talk.state()


def batch_leaves(talk: Talk, version: int) -> None:
    member_id = talk.stable_member(instance="i1")
    pending = talk.join()
    talk.leave(("nobody", None), ("", None), ("", "i2"), ("nobody", "i1"), (pending, None), ("", "i1"), version=version)
    talk.heartbeat(member_id, 1)
    talk.leave(version=version)
    talk.state()


def joins_of_strangers(talk: Talk, version: int) -> None:
    talk.join("nobody", version=version)
    member_id = talk.stable_member(version)
    talk.join("nobody", version=version)
    talk.join(member_id, version=version, session_ms=5_999)
    talk.join(version=version, session_ms=1_800_001)
    talk.join(version=version, group="")
    talk.heartbeat(member_id, 1)


def protocols_that_do_not_fit(talk: Talk, version: int) -> None:
    talk.join(version=version, protocol_type="")
    talk.join(version=version, protocols={})
    member_id = talk.stable_member(version)
    talk.join(version=version, protocols=ROUND_ROBIN)
    talk.join(version=version, protocols={})
    talk.join(version=version, protocol_type="connect")
    talk.join(member_id, version=version, protocols=ROUND_ROBIN)
    talk.state()


def a_second_member(talk: Talk, version: int) -> None:
    first = talk.stable_member(version, protocols=BOTH)
    second = talk.join(version=version, protocols=ORDERS) if version >= 4 else ""
    joining = talk.ask_join(second, version=version, protocols=ORDERS)
    wait_until(lambda: _is_rebalancing(talk, first), "the group rebalances")
    talk.sync(first, 1)
    leads = talk.ask_join(first, version=version, protocols=BOTH)
    talk.heard(leads)
    second = talk.heard(joining)
    talk.sync(first, 2, {first: b"a", second: b"b"})
    talk.sync(second, 2)
    talk.state()
    talk.join(second, version=version, protocols=ORDERS)
    talk.leave((first, None))
    talk.heartbeat(second, 2)
    talk.join(second, version=version, protocols=ORDERS)


def between_join_and_sync(talk: Talk, version: int) -> None:
    member_id = talk.member(version=version)
    talk.heartbeat(member_id, 1)
    talk.state()
    talk.join(member_id, version=version)
    talk.join(member_id, version=version, protocols=BOTH)
    talk.sync(member_id, 1, {member_id: b"late"})
    talk.sync(member_id, 2, {"nobody": b"x"})
    talk.sync(member_id, 2)


def a_leader_joins_again(talk: Talk, version: int) -> None:
    member_id = talk.stable_member(version)
    talk.join(member_id, version=version)
    talk.state()
    talk.heartbeat(member_id, 1)
    talk.heartbeat(member_id, 2)


def a_static_leader_comes_back(talk: Talk, version: int) -> None:
    before = talk.stable_member(version, instance="i1")
    after = talk.join(version=version, instance="i1")
    talk.heartbeat(before, 1, instance="i1")
    talk.heartbeat(before, 1)
    talk.sync(before, 1, instance="i1")
    talk.join(before, version=version, instance="i1")
    talk.leave((before, "i1"))
    talk.sync(after, 1, instance="i1")
    talk.state()
    talk.join(version=version, instance="i1", protocols=BOTH)
    talk.state()


def static_names(talk: Talk, version: int) -> None:
    member_id = talk.stable_member(version, instance="i1")
    talk.join(member_id, version=version, instance="i2")
    talk.join("nobody", version=version, instance="i1")
    talk.heartbeat(member_id, 1, instance="i2")
    pending = talk.join(version=version)
    talk.join(pending, version=version, instance="i3")


def an_id_that_was_given_out(talk: Talk, version: int) -> None:
    pending = talk.join(version=version)
    talk.state()
    talk.heartbeat(pending, 0)
    talk.sync(pending, 0)
    talk.leave((pending, None))
    talk.join(pending, version=version)


def _is_rebalancing(talk: Talk, member_id: str) -> bool:
    told = len(talk.told)
    talk.heartbeat(member_id, 1)
    _, error = talk.told.pop()
    assert len(talk.told) == told
    return error == "REBALANCE_IN_PROGRESS"


CONVERSATIONS: list[tuple[Callable[[Talk, int], None], int]] = [
    *((one_member, version) for version in (0, 1, 2, 3, 4, 5, 6, 7, 8, 9)),
    *((heartbeats, version) for version in (0, 2, 3, 4)),
    *((syncs, version) for version in (0, 3, 4, 5)),
    *((leaves, version) for version in (0, 2, 3, 4, 5)),
    *((batch_leaves, version) for version in (3, 5)),
    *((joins_of_strangers, version) for version in (0, 3, 4, 9)),
    *((protocols_that_do_not_fit, version) for version in (2, 6, 9)),
    *((a_second_member, version) for version in (3, 5, 9)),
    *((between_join_and_sync, version) for version in (4, 9)),
    *((a_leader_joins_again, version) for version in (3, 9)),
    *((a_static_leader_comes_back, version) for version in (5, 8, 9)),
    *((static_names, version) for version in (5, 9)),
    *((an_id_that_was_given_out, version) for version in (4, 9)),
]


@pytest.fixture(scope="module")
def apache(kafka: ApacheKafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    root: Path = tmp_path_factory.mktemp("apache")
    with Node(kafka, root) as node:
        wait_until(lambda: _has_coordinators(node.bootstrap), "Apache Kafka coordinates groups")
        yield node.bootstrap


@pytest.fixture(scope="module")
def tidelog() -> Iterator[str]:
    with EmbeddedCluster() as cluster:
        wait_until(lambda: _has_coordinators(cluster.bootstrap_servers), "Tidelog coordinates groups")
        yield cluster.bootstrap_servers


def _has_coordinators(bootstrap: str) -> bool:
    """Whether every partition of the groups' log has a coordinator that is ready."""
    with RawClient(bootstrap) as client:
        for number in range(60):
            find = FindCoordinatorRequest(key=f"probe-{number}", key_type=0, coordinator_keys=[])
            if client.call(find, FindCoordinatorResponse, 3).error_code:
                return False
            probe = LeaveGroupRequest(group_id=f"probe-{number}", member_id="nobody", members=[])
            if client.call(probe, LeaveGroupResponse, 2).error_code in NOT_READY:
                return False
    return True


@pytest.mark.parametrize(
    ("conversation", "version"), CONVERSATIONS, ids=[f"{talk.__name__}-v{version}" for talk, version in CONVERSATIONS]
)
def test_both_answer_alike(conversation: Callable[[Talk, int], None], version: int, apache: str, tidelog: str) -> None:
    group = f"{conversation.__name__}-{version}"
    with Talk(apache, group) as theirs, Talk(tidelog, group) as ours:
        conversation(theirs, version)
        conversation(ours, version)

    differences = [
        (place, *each) for place, each in enumerate(zip(ours.told, theirs.told, strict=True)) if each[0] != each[1]
    ]
    assert differences == []
