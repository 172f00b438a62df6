"""Apache Kafka and Tidelog say the same about offsets, to members of the new protocol, and to administrators of groups.

Each conversation is held with both over raw sockets, in groups of its own, with the same topics; what each is told has to be
equal. (`test_classic_groups` does it for the members of classic groups.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

import pytest

from tests.support.apache_kafka import ApacheKafka, Node, wait_until
from tests.support.classic_groups import subscription
from tests.support.raw_client import RawClient
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import ZERO_UUID
from tidelog.testing.embedded_cluster import EmbeddedCluster
from tidelog.wire.messages.consumer_groups import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from tidelog.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from tidelog.wire.messages.group_admin import (
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    ListGroupsRequest,
    ListGroupsResponse,
)
from tidelog.wire.messages.group_offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
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
from tidelog.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from tidelog.wire.messages.topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from tidelog.wire.schema import Request, Response

pytestmark = pytest.mark.compat

R = TypeVar("R", bound=Response)
Told = tuple[object, ...]

TOPICS = {"orders": 3, "payments": 1}
STRANGE_ID = bytes(range(16))
# A coordinator that has just been made is not ready at once.
NOT_READY = {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
}
REBALANCE_MS = 8_000
NAMED_BY_ID = 10


def named(error_code: int) -> str:
    return ErrorCode.of(error_code).name


class Talk:
    """One side of a conversation. What it was told is in `told`, without what must differ: member ids, topic ids."""

    def __init__(self, bootstrap: str, group: str) -> None:
        self.group = group
        self._client = RawClient(bootstrap)
        self._names: dict[str, str] = {}
        self.told: list[Told] = []
        self.topic_ids = {
            topic.name or "": topic.topic_id
            for topic in self.call(
                MetadataRequest(
                    topics=[MetadataRequestTopic(topic_id=ZERO_UUID, name=name) for name in TOPICS],
                    include_topic_authorized_operations=False,
                ),
                MetadataResponse,
                12,
            ).topics
        }
        self.topic_names = {topic_id: name for name, topic_id in self.topic_ids.items()}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._client.__exit__(None, None, None)

    def call(self, request: Request, answer: type[R], version: int) -> R:
        return self._client.call(request, answer, version)

    def name(self, member_id: str | None) -> str | None:
        if not member_id or len(member_id) < 16:
            return member_id
        return self._names.setdefault(member_id, f"m{len(self._names)}")

    def topic_name(self, name: str, topic_id: bytes) -> str:
        return name or self.topic_names.get(topic_id, "an unknown one")

    # --- offsets -----------------------------------------------------------------------------------------------------------

    def commit(
        self,
        offsets: dict[tuple[str, int], int],
        *,
        member_id: str = "",
        epoch: int = -1,
        instance: str | None = None,
        version: int = 9,
        metadata: str | None = "m",
        group: str | None = None,
    ) -> None:
        by_topic: dict[str, list[OffsetCommitRequestPartition]] = {}
        for (topic, partition), offset in offsets.items():
            by_topic.setdefault(topic, []).append(
                OffsetCommitRequestPartition(
                    partition_index=partition, committed_offset=offset, committed_metadata=metadata
                )
            )
        request = OffsetCommitRequest(
            group_id=self.group if group is None else group,
            generation_id_or_member_epoch=epoch,
            member_id=member_id,
            group_instance_id=instance,
            topics=[
                OffsetCommitRequestTopic(
                    name=topic, topic_id=self.topic_ids.get(topic, STRANGE_ID), partitions=partitions
                )
                for topic, partitions in by_topic.items()
            ],
        )
        answer = self.call(request, OffsetCommitResponse, version)
        self.told.append(
            (
                "commit",
                sorted(
                    (self.topic_name(topic.name, topic.topic_id), each.partition_index, named(each.error_code))
                    for topic in answer.topics
                    for each in topic.partitions
                ),
            )
        )

    def fetch(
        self,
        partitions: dict[str, list[int]] | None,
        *,
        groups: list[str] | None = None,
        member_id: str | None = None,
        epoch: int = -1,
        version: int = 9,
        stable: bool = False,
    ) -> None:
        if version < 8:
            topics = None
            if partitions is not None:
                topics = [OffsetFetchRequestTopic(name=name, partition_indexes=of) for name, of in partitions.items()]
            group = self.group if groups is None else groups[0]
            request = OffsetFetchRequest(group_id=group, topics=topics, groups=[], require_stable=stable)
        else:
            wanted = None
            if partitions is not None:
                wanted = [
                    OffsetFetchRequestTopics(
                        name=name, topic_id=self.topic_ids.get(name, STRANGE_ID), partition_indexes=of
                    )
                    for name, of in partitions.items()
                ]
            asked = [
                OffsetFetchRequestGroup(group_id=each, member_id=member_id, member_epoch=epoch, topics=wanted)
                for each in ([self.group] if groups is None else groups)
            ]
            request = OffsetFetchRequest(groups=asked, require_stable=stable)
        answer = self.call(request, OffsetFetchResponse, version)
        found: list[object] = [
            (each.name, sorted(self._fetched(partition) for partition in each.partitions)) for each in answer.topics
        ]
        for one in answer.groups:
            rows = sorted(
                (
                    self.topic_name(each.name, each.topic_id),
                    sorted(self._fetched(partition) for partition in each.partitions),
                )
                for each in one.topics
            )
            found.append((one.group_id, named(one.error_code), rows))
        self.told.append(("fetch", named(answer.error_code), sorted(found, key=repr)))

    @staticmethod
    def _fetched(each: Any) -> Told:
        return (
            each.partition_index,
            each.committed_offset,
            each.committed_leader_epoch,
            each.metadata,
            named(each.error_code),
        )

    def delete_offsets(self, partitions: dict[str, list[int]], group: str | None = None) -> None:
        request = OffsetDeleteRequest(
            group_id=self.group if group is None else group,
            topics=[
                OffsetDeleteRequestTopic(
                    name=name, partitions=[OffsetDeleteRequestPartition(partition_index=index) for index in of]
                )
                for name, of in partitions.items()
            ],
        )
        answer = self.call(request, OffsetDeleteResponse, 0)
        self.told.append(
            (
                "delete offsets",
                named(answer.error_code),
                sorted(
                    (topic.name, each.partition_index, named(each.error_code))
                    for topic in answer.topics
                    for each in topic.partitions
                ),
            )
        )

    # --- the new protocol --------------------------------------------------------------------------------------------------

    def beat(
        self,
        member_id: str,
        epoch: int,
        *,
        version: int = 1,
        instance: str | None = None,
        rebalance_ms: int = -1,
        topics: list[str] | None = None,
        regex: str | None = None,
        assignor: str | None = None,
        owned: dict[str, list[int]] | None = None,
        group: str | None = None,
        says_message: bool = True,
    ) -> ConsumerGroupHeartbeatResponse:
        request = ConsumerGroupHeartbeatRequest(
            group_id=self.group if group is None else group,
            member_id=member_id,
            member_epoch=epoch,
            instance_id=instance,
            rebalance_timeout_ms=rebalance_ms,
            subscribed_topic_names=topics,
            subscribed_topic_regex=regex,
            server_assignor=assignor,
            topic_partitions=None
            if owned is None
            else [
                TopicPartitions(topic_id=self.topic_ids.get(name, STRANGE_ID), partitions=of)
                for name, of in owned.items()
            ],
        )
        answer = self.call(request, ConsumerGroupHeartbeatResponse, version)
        given = None
        if answer.assignment is not None:
            given = sorted(
                (self.topic_name("", each.topic_id), sorted(each.partitions))
                for each in answer.assignment.topic_partitions
            )
        self.told.append(
            (
                "beat",
                named(answer.error_code),
                answer.error_message if says_message else None,
                self.name(answer.member_id),
                answer.member_epoch,
                answer.heartbeat_interval_ms,
                given,
            )
        )
        return answer

    def enter(self, member_id: str = "member", **said: Any) -> int:
        """Joins and reads orders; the epoch once there is an assignment."""
        said = {"rebalance_ms": REBALANCE_MS, "topics": ["orders"], "owned": {}, **said}
        return self.beat(member_id, 0, **said).member_epoch

    def describe_consumer(self, *groups: str, version: int = 1) -> None:
        request = ConsumerGroupDescribeRequest(
            group_ids=list(groups or [self.group]), include_authorized_operations=True
        )
        answer = self.call(request, ConsumerGroupDescribeResponse, version)
        for group in sorted(answer.groups, key=lambda each: each.group_id):
            self.told.append(
                (
                    "describe",
                    named(group.error_code),
                    group.error_message,
                    group.group_id,
                    group.group_state,
                    group.group_epoch,
                    group.assignment_epoch,
                    group.assignor_name,
                    group.authorized_operations,
                    sorted(
                        (
                            self.name(each.member_id),
                            each.instance_id,
                            each.rack_id,
                            each.member_epoch,
                            each.client_id,
                            each.client_host,
                            sorted(each.subscribed_topic_names),
                            each.subscribed_topic_regex,
                            [
                                sorted((topic.topic_name, sorted(topic.partitions)) for topic in of.topic_partitions)
                                for of in (each.assignment, each.target_assignment)
                            ],
                            each.member_type,
                        )
                        for each in group.members
                    ),
                )
            )

    # --- administration ----------------------------------------------------------------------------------------------------

    def describe(self, *groups: str, version: int = 6) -> None:
        request = DescribeGroupsRequest(groups=list(groups or [self.group]), include_authorized_operations=version >= 3)
        answer = self.call(request, DescribeGroupsResponse, version)
        for group in sorted(answer.groups, key=lambda each: each.group_id):
            self.told.append(
                (
                    "describe classic",
                    named(group.error_code),
                    group.error_message,
                    group.group_id,
                    group.group_state,
                    group.protocol_type,
                    group.protocol_data,
                    group.authorized_operations,
                    sorted(
                        (
                            self.name(each.member_id),
                            each.group_instance_id,
                            each.client_id,
                            each.client_host,
                            each.member_metadata,
                            each.member_assignment,
                        )
                        for each in group.members
                    ),
                )
            )

    def list(self, states: list[str] | None = None, types: list[str] | None = None, version: int = 5) -> None:
        request = ListGroupsRequest(states_filter=states or [], types_filter=types or [])
        answer = self.call(request, ListGroupsResponse, version)
        self.told.append(
            (
                "list",
                named(answer.error_code),
                sorted(
                    (each.group_id, each.protocol_type, each.group_state, each.group_type)
                    for each in answer.groups
                    if each.group_id.startswith(self.group)
                ),
            )
        )

    def delete(self, *groups: str, version: int = 2) -> None:
        answer = self.call(
            DeleteGroupsRequest(groups_names=list(groups or [self.group])), DeleteGroupsResponse, version
        )
        self.told.append(("delete", sorted((each.group_id, named(each.error_code)) for each in answer.results)))

    def find(self, *keys: str, version: int = 6, key_type: int = 0) -> None:
        request = FindCoordinatorRequest(
            key=keys[0] if version < 4 else "", key_type=key_type, coordinator_keys=list(keys) if version >= 4 else []
        )
        answer = self.call(request, FindCoordinatorResponse, version)
        found = [(each.key, each.node_id, each.host, named(each.error_code)) for each in answer.coordinators]
        if version < 4:
            found = [("", answer.node_id, answer.host, named(answer.error_code))]
        self.told.append(("find", found))

    # --- classic members ---------------------------------------------------------------------------------------------------

    def join(
        self,
        member_id: str = "",
        *,
        instance: str | None = None,
        topics: tuple[str, ...] = ("orders",),
        protocol_type: str = "consumer",
        protocol: str = "range",
        version: int = 9,
    ) -> JoinGroupResponse:
        request = JoinGroupRequest(
            group_id=self.group,
            session_timeout_ms=10_000,
            rebalance_timeout_ms=REBALANCE_MS,
            member_id=member_id,
            group_instance_id=instance,
            protocol_type=protocol_type,
            protocols=[JoinGroupRequestProtocol(name=protocol, metadata=subscription(*topics))],
        )
        answer = self.call(request, JoinGroupResponse, version)
        self.told.append(
            (
                "join",
                named(answer.error_code),
                self.name(answer.member_id),
                answer.generation_id,
                answer.protocol_type,
                answer.protocol_name,
                self.name(answer.leader),
                len(answer.members),
            )
        )
        return answer

    def sync(self, member_id: str, generation_id: int, assignment: bytes = b"") -> SyncGroupResponse:
        request = SyncGroupRequest(
            group_id=self.group,
            generation_id=generation_id,
            member_id=member_id,
            protocol_type="consumer",
            protocol_name="range",
            assignments=[SyncGroupRequestAssignment(member_id=member_id, assignment=assignment)] if assignment else [],
        )
        answer = self.call(request, SyncGroupResponse, 5)
        self.told.append(
            ("sync", named(answer.error_code), answer.protocol_type, answer.protocol_name, answer.assignment)
        )
        return answer

    def stable(self, topics: tuple[str, ...] = ("orders",), instance: str | None = None) -> str:
        """The only member of a classic group in its first generation."""
        member_id = self.join(topics=topics, instance=instance).member_id
        if instance is None:
            self.join(member_id, topics=topics)
        self.sync(member_id, 1, b"all")
        return member_id

    def heartbeat(self, member_id: str, generation_id: int) -> None:
        request = HeartbeatRequest(group_id=self.group, generation_id=generation_id, member_id=member_id)
        self.told.append(("heartbeat", named(self.call(request, HeartbeatResponse, 4).error_code)))

    def leave(self, member_id: str, instance: str | None = None) -> None:
        request = LeaveGroupRequest(
            group_id=self.group,
            member_id="",
            members=[MemberIdentity(member_id=member_id, group_instance_id=instance)],
        )
        answer = self.call(request, LeaveGroupResponse, 5)
        self.told.append(
            (
                "leave",
                named(answer.error_code),
                [
                    (self.name(each.member_id), each.group_instance_id, named(each.error_code))
                    for each in answer.members
                ],
            )
        )


# --- conversations: offsets -----------------------------------------------------------------------------------------------

ONE = {("orders", 0): 5}


def simple_commits(talk: Talk, version: int) -> None:
    talk.commit(ONE, version=version)
    talk.commit({("orders", 1): 7, ("payments", 0): 0}, version=version, metadata=None)
    talk.commit({("orders", 2): -1}, version=version, metadata="")
    talk.fetch({"orders": [0, 1, 2], "payments": [0]})
    talk.list()


def commits_for_what_is_not_there(talk: Talk, version: int) -> None:
    talk.commit({("orders", 0): 1, ("orders", 3): 2, ("orders", -1): 2, ("nowhere", 0): 3}, version=version)
    talk.commit({("nowhere", 0): 3}, version=version)
    talk.commit({}, version=version)
    talk.commit(ONE, version=version, group="")
    talk.commit({("nowhere", 0): 3}, version=version, group="")
    talk.fetch(None)


def commits_of_strangers(talk: Talk, version: int) -> None:
    talk.commit(ONE, member_id="nobody", version=version)
    talk.commit(ONE, member_id="nobody", epoch=1, version=version)
    talk.commit(ONE, epoch=0, version=version)
    member_id = talk.stable()
    for who, epoch in (
        (member_id, 1),
        (member_id, 0),
        (member_id, 2),
        (member_id, -1),
        ("nobody", 1),
        ("", 1),
        ("", -1),
    ):
        talk.commit(ONE, member_id=who, epoch=epoch, version=version)
    if version >= 7:
        talk.commit(ONE, member_id=member_id, epoch=1, instance="i", version=version)
    talk.leave(member_id)
    talk.commit(ONE, member_id=member_id, epoch=1, version=version)
    talk.commit(ONE, version=version)


def commits_of_a_static_member(talk: Talk, version: int) -> None:
    before = talk.stable(instance="i")
    talk.commit(ONE, member_id=before, epoch=1, instance="i", version=version)
    after = talk.join(instance="i").member_id
    talk.commit(ONE, member_id=before, epoch=1, instance="i", version=version)
    talk.commit(ONE, member_id=after, epoch=1, instance="i", version=version)
    talk.commit(ONE, member_id=before, epoch=1, version=version)


def commits_between_join_and_sync(talk: Talk, version: int) -> None:
    member_id = talk.join().member_id
    talk.commit(ONE, member_id=member_id, epoch=0, version=version)
    talk.join(member_id)
    talk.commit(ONE, member_id=member_id, epoch=1, version=version)
    talk.commit(ONE, member_id=member_id, epoch=0, version=version)
    talk.sync(member_id, 1, b"all")
    talk.commit(ONE, member_id=member_id, epoch=1, version=version)


def commits_of_the_new_protocol(talk: Talk, version: int) -> None:
    epoch = talk.enter()
    for who, at in (("member", epoch), ("member", epoch - 1), ("member", epoch + 1), ("member", -1), ("nobody", epoch)):
        talk.commit(ONE, member_id=who, epoch=at, version=version)
    talk.commit(ONE, version=version)
    talk.commit(ONE, member_id="", epoch=epoch, version=version)
    talk.beat("member", -1)
    talk.commit(ONE, member_id="member", epoch=epoch, version=version)
    talk.commit(ONE, version=version)
    talk.fetch(None)


def long_metadata(talk: Talk, version: int) -> None:
    talk.commit({("orders", 0): 1, ("payments", 0): 1}, version=version, metadata="x" * 4096)
    talk.commit({("orders", 0): 2, ("payments", 0): 2}, version=version, metadata="x" * 4097)
    talk.commit({("orders", 0): 3}, version=version, metadata="ü" * 4096)
    talk.fetch(None)


def fetches(talk: Talk, version: int) -> None:
    talk.fetch({"orders": [0]}, version=version)
    talk.commit({("orders", 0): 5, ("payments", 0): 6})
    talk.fetch({"orders": [0, 1, 7], "nowhere": [0]}, version=version)
    talk.fetch({"orders": []}, version=version)
    talk.fetch({}, version=version)
    if version >= 2:
        talk.fetch(None, version=version)
        talk.fetch(None, groups=[f"{talk.group}-absent"], version=version)
    talk.fetch({"orders": [0]}, groups=[""], version=version)
    if version >= 7:
        talk.fetch({"orders": [0]}, version=version, stable=True)
    if version >= 8:
        talk.fetch({"orders": [0]}, groups=[talk.group, f"{talk.group}-absent"], version=version)
        talk.fetch(None, groups=[], version=version)


def fetches_of_members(talk: Talk, version: int) -> None:
    # Without an id but with an epoch, Kafka answers UNKNOWN_SERVER_ERROR, which is nothing to be equal to.
    talk.fetch({"orders": [0]}, member_id="nobody", epoch=1, version=version)
    epoch = talk.enter()
    talk.commit(ONE, member_id="member", epoch=epoch)
    for who, at in (
        ("member", epoch),
        ("member", epoch - 1),
        ("member", epoch + 1),
        ("member", -1),
        ("nobody", epoch),
        (None, -1),
        ("", -1),
        ("", 0),
    ):
        talk.fetch({"orders": [0]}, member_id=who, epoch=at, version=version)
        talk.fetch(None, member_id=who, epoch=at, version=version)


def fetches_of_classic_members(talk: Talk, version: int) -> None:
    member_id = talk.stable()
    for who, at in ((member_id, 1), (member_id, 0), ("nobody", 1), (None, -1)):
        talk.fetch({"orders": [0]}, member_id=who, epoch=at, version=version)


def deletes_of_offsets(talk: Talk, _version: int) -> None:
    talk.delete_offsets({"orders": [0]})
    talk.delete_offsets({"orders": [0]}, group="")
    talk.commit({("orders", 0): 5, ("orders", 1): 5, ("payments", 0): 6})
    talk.delete_offsets({"orders": [0, 2, 9], "nowhere": [0]})
    talk.fetch(None)
    talk.delete_offsets({})
    talk.delete_offsets({"nowhere": [0]})
    talk.delete_offsets({"nowhere": [0]}, group=f"{talk.group}-absent")
    talk.delete_offsets({"orders": [1], "payments": [0]})
    talk.fetch(None)
    talk.list()
    talk.describe()


def deletes_of_offsets_in_use(talk: Talk, _version: int) -> None:
    member_id = talk.stable(("orders",))
    talk.commit({("orders", 0): 5, ("payments", 0): 6}, member_id=member_id, epoch=1)
    talk.delete_offsets({"orders": [0], "payments": [0]})
    talk.fetch(None)
    talk.leave(member_id)
    talk.delete_offsets({"orders": [0], "payments": [0]})
    talk.fetch(None)


def deletes_of_offsets_of_the_new_protocol(talk: Talk, _version: int) -> None:
    epoch = talk.enter()
    talk.commit({("orders", 0): 5, ("payments", 0): 6}, member_id="member", epoch=epoch)
    talk.delete_offsets({"orders": [0], "payments": [0]})
    talk.fetch(None)
    talk.beat("member", -1)
    talk.delete_offsets({"orders": [0], "payments": [0]})
    talk.fetch(None)


def deletes_of_offsets_of_other_kinds_of_members(talk: Talk, _version: int) -> None:
    member_id = talk.join(protocol_type="connect").member_id
    talk.join(member_id, protocol_type="connect")
    talk.delete_offsets({"orders": [0]})
    talk.leave(member_id)
    talk.delete_offsets({"orders": [0]})
    talk.describe()


# --- conversations: administration ----------------------------------------------------------------------------------------


def lists(talk: Talk, version: int) -> None:
    talk.commit(ONE, group=f"{talk.group}-simple")
    talk.list(version=version)
    member_id = talk.stable()
    talk.list(version=version)
    if version >= 4:
        for states in (["Stable"], ["stable"], ["Empty"], ["Stable", "Empty"], ["Nonsense"], [""]):
            talk.list(states, version=version)
    if version >= 5:
        for types in (["classic"], ["CLASSIC"], ["consumer"], ["classic", "consumer"], ["Nonsense"], ["share"]):
            talk.list(None, types, version=version)
        talk.list(["Stable"], ["classic"], version=version)
        talk.list(["Stable"], ["consumer"], version=version)
    talk.leave(member_id)
    talk.list(version=version)


def lists_of_the_new_protocol(talk: Talk, version: int) -> None:
    talk.enter()
    talk.list(version=version)
    if version >= 4:
        for states in (["Stable"], ["Assigning"], ["Reconciling"], ["Empty"]):
            talk.list(states, version=version)
    talk.beat("member", -1)
    talk.list(version=version)


def descriptions(talk: Talk, version: int) -> None:
    talk.describe(version=version)
    talk.describe("", version=version)
    talk.commit(ONE)
    talk.describe(version=version)
    member_id = talk.join().member_id
    talk.describe(version=version)
    talk.join(member_id)
    talk.describe(version=version)
    talk.sync(member_id, 1, b"all")
    talk.describe(talk.group, f"{talk.group}-absent", version=version)
    talk.leave(member_id)
    talk.describe(version=version)


def descriptions_of_the_other_kind(talk: Talk, version: int) -> None:
    talk.enter()
    talk.describe(version=version)
    talk.beat("member", -1)
    talk.describe(version=version)


def consumer_descriptions(talk: Talk, version: int) -> None:
    talk.describe_consumer(version=version)
    talk.describe_consumer("", version=version)
    talk.commit(ONE)
    talk.describe_consumer(version=version)
    talk.enter(instance="i")
    talk.describe_consumer(talk.group, f"{talk.group}-absent", version=version)
    talk.beat("member", -1)
    talk.describe_consumer(version=version)


def deletions(talk: Talk, version: int) -> None:
    talk.delete(version=version)
    talk.delete("", version=version)
    talk.commit(ONE)
    talk.delete(talk.group, f"{talk.group}-absent", version=version)
    talk.fetch(None)
    talk.list()
    member_id = talk.stable()
    talk.commit(ONE, member_id=member_id, epoch=1)
    talk.delete(version=version)
    talk.leave(member_id)
    talk.delete(version=version)
    talk.list()
    talk.fetch(None)
    talk.heartbeat(member_id, 1)


def deletions_of_the_new_protocol(talk: Talk, version: int) -> None:
    talk.enter()
    talk.delete(version=version)
    talk.beat("member", -1)
    talk.delete(version=version)
    talk.delete(version=version)
    talk.describe_consumer()
    talk.list()


def finds(talk: Talk, version: int) -> None:
    talk.find(talk.group, version=version)
    talk.find("", version=version)
    if version >= 1:
        talk.find(talk.group, version=version, key_type=9)
    if version >= 4:
        talk.find(talk.group, f"{talk.group}-other", version=version)


# --- conversations: the new protocol --------------------------------------------------------------------------------------


def one_consumer(talk: Talk, version: int) -> None:
    epoch = talk.enter(version=version)
    talk.beat("member", epoch, version=version)
    talk.beat("member", epoch, owned={"orders": [0, 1, 2]}, version=version)
    talk.describe_consumer()
    talk.beat("member", -1, version=version)
    talk.beat("member", epoch, version=version)
    talk.describe_consumer()
    talk.list()


def beats_that_make_no_sense(talk: Talk, version: int) -> None:
    talk.beat("", 0, version=1, rebalance_ms=REBALANCE_MS, topics=["orders"], owned={})
    talk.beat("m", 0, group="", rebalance_ms=REBALANCE_MS, topics=["orders"], owned={}, version=version)
    talk.beat("m", 0, topics=["orders"], owned={}, version=version)
    talk.beat("m", 0, rebalance_ms=REBALANCE_MS, owned={}, version=version)
    talk.beat("m", 0, rebalance_ms=REBALANCE_MS, topics=["orders"], version=version)
    talk.beat("m", 0, rebalance_ms=REBALANCE_MS, topics=["orders"], owned={"orders": [0]}, version=version)
    talk.beat("m", 0, rebalance_ms=REBALANCE_MS, topics=["orders"], owned={}, assignor="nonsense", version=version)
    talk.beat("m", 0, rebalance_ms=REBALANCE_MS, topics=["orders"], owned={}, instance="", version=version)
    talk.beat("m", -3, version=version)
    talk.beat("m", -2, version=version)
    talk.beat("m", -1, version=version)
    talk.beat("m", 4, version=version)
    talk.beat("", 4, version=version)
    talk.beat("m", 0, rebalance_ms=0, topics=["orders"], owned={}, version=version)
    talk.describe_consumer()


def epochs_that_do_not_fit(talk: Talk, version: int) -> None:
    epoch = talk.enter(version=version)
    talk.beat("nobody", epoch, version=version)
    talk.beat("nobody", -1, version=version)
    talk.beat("member", epoch + 1, version=version)
    talk.beat("member", epoch - 1, version=version)
    talk.beat("member", epoch, version=version)
    talk.enter(version=version)
    talk.beat("member", epoch, version=version)
    talk.beat("member", -2, version=version)
    talk.beat("member", -1, version=version)


def subscriptions_that_change(talk: Talk, version: int) -> None:
    epoch = talk.enter(version=version)
    epoch = talk.beat("member", epoch, owned={"orders": [0, 1, 2]}, version=version).member_epoch
    answer = talk.beat("member", epoch, topics=["payments"], version=version)
    talk.beat("member", answer.member_epoch, owned={}, version=version)
    talk.describe_consumer()


def topics_that_are_not_there(talk: Talk, version: int) -> None:
    epoch = talk.enter(topics=["nowhere"], version=version)
    talk.beat("member", epoch, version=version)
    talk.describe_consumer()
    talk.beat("member", epoch, topics=[], version=version)
    talk.describe_consumer()


def expressions(talk: Talk, version: int) -> None:
    said: dict[str, Any] = {"rebalance_ms": REBALANCE_MS, "owned": {}, "version": version}
    talk.beat("bad", 0, regex="(", says_message=False, **said)
    talk.beat("bad", 0, regex="(?=x)", says_message=False, **said)
    talk.beat("none", 0, regex="", **said)
    talk.describe_consumer()
    talk.beat("none", -1, version=version)
    talk.describe_consumer()


def static_consumers(talk: Talk, version: int) -> None:
    epoch = talk.enter("one", instance="i", version=version)
    talk.beat("one", epoch, instance="i", owned={"orders": [0, 1, 2]}, version=version)
    talk.enter("two", instance="i", version=version)
    talk.beat("one", -2, instance="i", version=version)
    talk.describe_consumer()
    talk.beat("one", epoch, instance="i", version=version)
    talk.beat("two", -2, instance="i", version=version)
    talk.beat("two", -1, instance="j", version=version)
    epoch = talk.enter("two", instance="i", version=version)
    talk.beat("one", epoch, instance="i", version=version)
    talk.beat("one", -1, instance="i", version=version)
    talk.beat("two", epoch, instance="i", owned={"orders": [0, 1, 2]}, version=version)
    talk.describe_consumer()
    talk.beat("two", -1, instance="i", version=version)
    talk.describe_consumer()


def the_wrong_protocol(talk: Talk, version: int) -> None:
    """A group with members of one protocol, and requests of the other one that cannot convert it."""
    member_id = talk.join(protocol_type="connect").member_id
    talk.join(member_id, protocol_type="connect")
    talk.enter(version=version)
    talk.describe_consumer()
    talk.leave(member_id)
    talk.enter(version=version)
    talk.describe_consumer()


def classic_requests_to_a_consumer_group(talk: Talk, version: int) -> None:
    epoch = talk.enter(version=version)
    talk.heartbeat("member", epoch)
    talk.heartbeat("nobody", epoch)
    talk.sync("member", epoch)
    talk.sync("nobody", epoch)
    talk.leave("nobody")
    talk.join(protocol_type="connect")
    talk.join("nobody")
    talk.leave("member")
    talk.describe_consumer()
    talk.list()


def an_empty_group_changes_its_kind(talk: Talk, version: int) -> None:
    member_id = talk.stable()
    talk.commit(ONE, member_id=member_id, epoch=1)
    talk.leave(member_id)
    epoch = talk.enter(version=version)
    talk.list()
    talk.fetch(None)
    talk.commit({("orders", 1): 9}, member_id="member", epoch=epoch)
    talk.beat("member", -1, version=version)
    talk.stable()
    talk.list()
    talk.fetch(None)


def two_consumers(talk: Talk, assignor: str) -> None:
    """The second takes its share as the first one gives it up, and the first takes it back."""
    first = talk.enter("one", assignor=assignor)
    talk.beat("one", first, owned={"orders": [0, 1, 2]})
    second = talk.enter("two", assignor=assignor)
    talk.describe_consumer()
    talk.beat("two", second)
    answer = talk.beat("one", first)
    kept = [list(each.partitions) for each in answer.assignment.topic_partitions] if answer.assignment else [[0, 1, 2]]
    talk.describe_consumer()
    talk.beat("two", second)
    # Not all of it is given up yet.
    talk.beat("one", answer.member_epoch, owned={"orders": [0, 1, 2]})
    answer = talk.beat("one", answer.member_epoch, owned={"orders": kept[0]})
    second = talk.beat("two", second).member_epoch
    talk.describe_consumer()
    talk.beat("two", second, owned={"orders": [index for index in range(3) if index not in kept[0]]})
    talk.describe_consumer()
    talk.beat("two", -1)
    answer = talk.beat("one", answer.member_epoch)
    talk.beat("one", answer.member_epoch, owned={"orders": [0, 1, 2]})
    talk.describe_consumer()


def two_consumers_with_uniform(talk: Talk, _version: int) -> None:
    two_consumers(talk, "uniform")


def two_consumers_with_range(talk: Talk, _version: int) -> None:
    two_consumers(talk, "range")


def different_assignors(talk: Talk, version: int) -> None:
    talk.enter("one", assignor="range", version=version)
    talk.enter("two", assignor="uniform", version=version)
    talk.enter("three", assignor="uniform", version=version)
    talk.describe_consumer()
    talk.enter("without a wish", version=version)
    talk.describe_consumer()
    talk.enter("four", assignor="uniform", topics=["payments"], version=version)
    talk.describe_consumer()


def different_subscriptions(talk: Talk, version: int) -> None:
    talk.enter("one", topics=["orders", "payments"], version=version)
    talk.enter("two", topics=["payments", "nowhere"], version=version)
    talk.describe_consumer()
    talk.beat("one", -1, version=version)
    talk.beat("two", 3, owned={}, version=version)
    talk.describe_consumer()


def lost_answers(talk: Talk, version: int) -> None:
    """A member that did not get an answer asks again with what it had before."""
    first = talk.enter("one", version=version)
    talk.enter("one", version=version)
    talk.beat("one", first, owned={"orders": [0, 1, 2]}, version=version)
    talk.enter("two", version=version)
    talk.beat("two", -1, version=version)
    talk.beat("one", first, version=version)
    talk.beat("one", first, owned={"orders": [0, 1, 2]}, version=version)
    talk.beat("one", first, owned={"orders": [0, 1]}, version=version)
    talk.describe_consumer()


def a_classic_group_is_upgraded_and_downgraded(talk: Talk, _version: int) -> None:
    classic = talk.stable()
    talk.commit(ONE, member_id=classic, epoch=1)
    epoch = talk.enter("new")
    talk.list()
    talk.describe_consumer()
    talk.describe()
    talk.heartbeat(classic, 1)
    talk.commit(ONE, member_id=classic, epoch=1)
    talk.commit(ONE, member_id="new", epoch=epoch)
    talk.beat("new", -1)
    talk.list()
    talk.describe()
    talk.heartbeat(classic, 2)
    talk.fetch(None)


def a_consumer_group_is_downgraded(talk: Talk, _version: int) -> None:
    epoch = talk.enter("new")
    talk.beat("new", epoch, owned={"orders": [0, 1, 2]})
    joined = talk.join()
    talk.join(joined.member_id)
    talk.list()
    talk.describe_consumer()
    talk.sync(joined.member_id, epoch + 1)
    talk.heartbeat(joined.member_id, epoch + 1)
    talk.leave(joined.member_id)
    talk.describe_consumer()
    talk.list()


VERSIONED: list[tuple[Callable[[Talk, int], None], tuple[int, ...]]] = [
    (simple_commits, (2, 3, 4, 5, 6, 7, 8, 9, 10)),
    (commits_for_what_is_not_there, (2, 6, 9, 10)),
    (commits_of_strangers, (2, 6, 7, 8, 9, 10)),
    (commits_of_a_static_member, (7, 9, 10)),
    (commits_between_join_and_sync, (2, 8, 9)),
    (commits_of_the_new_protocol, (2, 8, 9, 10)),
    (long_metadata, (2, 9)),
    (fetches, (1, 2, 3, 4, 5, 6, 7, 8, 9, 10)),
    (fetches_of_members, (9, 10)),
    (fetches_of_classic_members, (9,)),
    (deletes_of_offsets, (0,)),
    (deletes_of_offsets_in_use, (0,)),
    (deletes_of_offsets_of_the_new_protocol, (0,)),
    (deletes_of_offsets_of_other_kinds_of_members, (0,)),
    (lists, (0, 1, 2, 3, 4, 5)),
    (lists_of_the_new_protocol, (0, 3, 4, 5)),
    (descriptions, (0, 1, 2, 3, 4, 5, 6)),
    (descriptions_of_the_other_kind, (0, 5, 6)),
    (consumer_descriptions, (0, 1)),
    (deletions, (0, 1, 2)),
    (deletions_of_the_new_protocol, (2,)),
    (finds, (0, 1, 2, 3, 4, 5, 6)),
    (one_consumer, (0, 1)),
    (beats_that_make_no_sense, (0, 1)),
    (epochs_that_do_not_fit, (0, 1)),
    (subscriptions_that_change, (1,)),
    (topics_that_are_not_there, (0, 1)),
    (expressions, (1,)),
    (static_consumers, (0, 1)),
    (the_wrong_protocol, (1,)),
    (classic_requests_to_a_consumer_group, (1,)),
    (an_empty_group_changes_its_kind, (1,)),
    (two_consumers_with_uniform, (1,)),
    (two_consumers_with_range, (1,)),
    (different_assignors, (0, 1)),
    (different_subscriptions, (0, 1)),
    (lost_answers, (0, 1)),
    (a_classic_group_is_upgraded_and_downgraded, (1,)),
    (a_consumer_group_is_downgraded, (1,)),
]
CONVERSATIONS = [(talk, version) for talk, versions in VERSIONED for version in versions]


@pytest.fixture(scope="module")
def apache(kafka: ApacheKafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    root: Path = tmp_path_factory.mktemp("apache")
    with Node(kafka, root, {"group.consumer.assignment.interval.ms": "0"}) as node:
        _prepare(node.bootstrap)
        yield node.bootstrap


@pytest.fixture(scope="module")
def tidelog() -> Iterator[str]:
    with EmbeddedCluster(config={"group.consumer.assignment.interval.ms": "0"}) as cluster:
        _prepare(cluster.bootstrap_servers)
        yield cluster.bootstrap_servers


def _prepare(bootstrap: str) -> None:
    with RawClient(bootstrap) as client:
        request = CreateTopicsRequest(
            topics=[
                CreatableTopic(name=name, num_partitions=count, replication_factor=1, assignments=[], configs=[])
                for name, count in TOPICS.items()
            ],
            timeout_ms=30_000,
        )
        assert {each.error_code for each in client.call(request, CreateTopicsResponse, 5).topics} == {0}
        wait_until(lambda: _coordinates(client), "there are coordinators")


def _coordinates(client: RawClient) -> bool:
    """Whether every partition of the groups' log has a coordinator that is ready."""
    for number in range(60):
        find = FindCoordinatorRequest(key=f"probe-{number}", key_type=0, coordinator_keys=[])
        if client.call(find, FindCoordinatorResponse, 3).error_code:
            return False
        probe = HeartbeatRequest(group_id=f"probe-{number}", generation_id=1, member_id="nobody")
        if client.call(probe, HeartbeatResponse, 3).error_code in {0, *NOT_READY}:
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
    assert differences == [], "\n".join(map(repr, differences))
