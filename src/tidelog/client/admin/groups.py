"""Groups of consumers, of every type: which there are, who is in them, and what each member has."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from tidelog.client.admin.outcomes import each_of, error_of, group_error, no_group, value_of
from tidelog.client.admin.requests import GroupCoordinator, OneBroker, Requests
from tidelog.client.admin.streams_groups import StreamsGroupDescription, streams_group
from tidelog.client.consumer.topic_partition import TopicPartition
from tidelog.client.errors import ClientError, RefusedError, UnsupportedError
from tidelog.client.given_names import names_of
from tidelog.model.errors import ErrorCode
from tidelog.wire.errors import WireError
from tidelog.wire.messages.consumer_groups import (
    ConsumerGroupDescribeAssignment,
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup as DescribedConsumerGroup,
    Member,
)
from tidelog.wire.messages.group_admin import (
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    ListGroupsRequest,
    ListGroupsResponse,
)
from tidelog.wire.messages.groups_classic import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from tidelog.wire.messages.internal.consumer_protocol import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from tidelog.wire.messages.share_groups import (
    DescribedGroup as DescribedShareGroup,
    Member as ShareMember,
    ShareGroupDescribeAssignment,
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
)
from tidelog.wire.messages.streams_groups import StreamsGroupDescribeRequest, StreamsGroupDescribeResponse

CONSUMER_PROTOCOL_TYPE = "consumer"
SHARE_PROTOCOL_TYPE = "share"
STREAMS_PROTOCOL_TYPE = "streams"

_NOT_OF_THIS_TYPE = frozenset({ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNSUPPORTED_VERSION})


class GroupState(StrEnum):
    """What a group is doing. The words are Kafka's."""

    UNKNOWN = "Unknown"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"
    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    NOT_READY = "NotReady"


class GroupType(StrEnum):
    """Which protocol a group speaks. The words are Kafka's."""

    UNKNOWN = "unknown"
    CLASSIC = "classic"
    CONSUMER = "consumer"
    SHARE = "share"
    STREAMS = "streams"


@dataclass(frozen=True, slots=True)
class GroupListing:
    group_id: str
    protocol_type: str
    """Empty for a group that only keeps offsets."""
    state: GroupState
    type: GroupType


@dataclass(frozen=True, slots=True)
class GroupMember:
    member_id: str
    group_instance_id: str | None
    client_id: str
    host: str
    assignment: tuple[TopicPartition, ...]
    subscribed_topics: tuple[str, ...] = ()
    subscribed_topic_regex: str | None = None
    rack_id: str | None = None
    epoch: int | None = None
    """None in classic groups, as `target_assignment` is, which share groups do not tell either."""
    target_assignment: tuple[TopicPartition, ...] | None = None
    is_classic: bool = True
    """Whether the member speaks the classic protocol, also in a group of the new one."""


@dataclass(frozen=True, slots=True)
class GroupDescription:
    group_id: str
    type: GroupType
    state: GroupState
    protocol_type: str
    assignor: str
    """Empty where the group has chosen none."""
    coordinator: int
    members: tuple[GroupMember, ...]
    epoch: int | None = None
    assignment_epoch: int | None = None


class GroupCalls:
    """What an admin does with groups and their members."""

    _requests: Requests

    async def list_groups(
        self, *, states: Iterable[GroupState] = (), types: Iterable[GroupType] = ()
    ) -> list[GroupListing]:
        """All groups of all brokers, by id, or those in some states and of some types.

        >>> [group.group_id for group in await admin.list_groups(states=[GroupState.EMPTY])]
        """
        wanted_states, wanted_types = [str(each) for each in states], [str(each) for each in types]

        def request(version: int) -> ListGroupsRequest:
            if (wanted_states and version < 4) or (wanted_types and version < 5):
                raise UnsupportedError("the cluster is too old to list groups by state or type")
            return ListGroupsRequest(states_filter=wanted_states, types_filter=wanted_types)

        async def list_on(node_id: int) -> list[GroupListing]:
            answer = await self._requests.ask(
                OneBroker(node_id), request, ListGroupsResponse, codes=lambda each: [each.error_code]
            )
            value_of(error_of(answer.error_code, about=f"broker {node_id}"))
            return [
                GroupListing(each.group_id, each.protocol_type, _state(each.group_state), _type(each.group_type))
                for each in answer.groups
            ]

        listed = await each_of(await self._requests.broker_ids(), list_on)
        groups = {group.group_id: group for found in listed.values() for group in value_of(found)}
        return [groups[group_id] for group_id in sorted(groups)]

    async def describe_groups(self, group_ids: Iterable[str]) -> dict[str, GroupDescription | ClientError]:
        """Groups of any protocol, share groups and streams groups too, with their members and what each has.

        >>> (await admin.describe_groups(["billing"]))["billing"].state
        """
        return await each_of(names_of(group_ids, "groups"), self.describe_group)

    async def describe_group(self, group_id: str) -> GroupDescription:
        """One group. RefusedError with the code GROUP_ID_NOT_FOUND where there is none of that id."""
        try:
            answer = await self._requests.ask(
                GroupCoordinator(group_id),
                ConsumerGroupDescribeRequest(group_ids=[group_id], include_authorized_operations=False),
                ConsumerGroupDescribeResponse,
                codes=lambda each: [group.error_code for group in each.groups],
            )
        except UnsupportedError:
            return await self._describe_classic(group_id)
        described = answer.groups[0]
        if described.error_code in _NOT_OF_THIS_TYPE:
            # Not a group of the new protocol; it may be one of the old, a share group, or a streams group.
            try:
                return await self._describe_classic(group_id)
            except RefusedError as error:
                if error.code is not ErrorCode.GROUP_ID_NOT_FOUND:
                    raise
                other = await self._describe_share(group_id) or await self._describe_streams(group_id)
                if other is None:
                    raise
                return other
        value_of(group_error(group_id, described.error_code, described.error_message))
        return _consumer_group(described, self._coordinator(group_id))

    async def describe_streams_groups(
        self, group_ids: Iterable[str]
    ) -> dict[str, StreamsGroupDescription | ClientError]:
        """Streams groups with their topology, and the tasks of each member. `describe_groups` tells of these too, as of any
        other group: by the partitions that they read.

        >>> (await admin.describe_streams_groups(["word-count"]))["word-count"].members[0].assignment.active
        """

        async def describe(group_id: str) -> StreamsGroupDescription:
            answer = await self._ask_streams(group_id)
            described = answer.groups[0]
            value_of(group_error(group_id, described.error_code, described.error_message))
            return streams_group(described, self._coordinator(group_id))

        return await each_of(names_of(group_ids, "groups"), describe)

    async def delete_groups(self, group_ids: Iterable[str]) -> dict[str, ClientError | None]:
        """Delete groups without members, with all that they have committed. The error of each, None where it is gone."""

        async def delete(group_id: str) -> None:
            answer = await self._requests.ask(
                GroupCoordinator(group_id),
                DeleteGroupsRequest(groups_names=[group_id]),
                DeleteGroupsResponse,
                codes=lambda each: [result.error_code for result in each.results],
                is_repeatable=False,
            )
            for each in answer.results:
                value_of(group_error(group_id, each.error_code))

        return await each_of(names_of(group_ids, "groups"), delete)

    async def delete_group(self, group_id: str) -> None:
        """Delete one group. RefusedError where there is none of that id, or it has members."""
        value_of((await self.delete_groups([group_id]))[group_id])

    async def remove_members(
        self,
        group_id: str,
        group_instance_ids: Iterable[str] | None = None,
        *,
        reason: str = "removed by an administrator",
    ) -> dict[str, ClientError | None]:
        """Have static members leave a group, or all members there are. By instance id, or member id where there is none.

        A consumer that still runs joins again.
        """
        if group_instance_ids is None:
            members = [
                MemberIdentity(
                    member_id="" if each.group_instance_id else each.member_id, group_instance_id=each.group_instance_id
                )
                for each in (await self.describe_group(group_id)).members
            ]
        else:
            members = [
                MemberIdentity(member_id="", group_instance_id=each) for each in dict.fromkeys(group_instance_ids)
            ]
        if not members:
            return {}
        for each in members:
            each.reason = reason

        def request(version: int) -> LeaveGroupRequest:
            if version < 3:
                raise UnsupportedError("the cluster is too old to remove members of a group")
            return LeaveGroupRequest(group_id=group_id, members=members)

        answer = await self._requests.ask(
            GroupCoordinator(group_id), request, LeaveGroupResponse, codes=lambda each: [each.error_code]
        )
        value_of(group_error(group_id, answer.error_code))
        outcomes: dict[str, ClientError | None] = {}
        for left in answer.members:
            name = left.group_instance_id or left.member_id
            outcomes[name] = error_of(left.error_code, about=f"member {name}")
        return outcomes

    async def _describe_classic(self, group_id: str) -> GroupDescription:
        answer = await self._requests.ask(
            GroupCoordinator(group_id),
            DescribeGroupsRequest(groups=[group_id], include_authorized_operations=False),
            DescribeGroupsResponse,
            codes=lambda each: [group.error_code for group in each.groups],
        )
        described = answer.groups[0]
        value_of(group_error(group_id, described.error_code, described.error_message))
        if _state(described.group_state) is GroupState.DEAD:
            # What versions before 6 say of a group that was never there.
            raise no_group(group_id)
        return _classic_group(described, self._coordinator(group_id))

    async def _describe_share(self, group_id: str) -> GroupDescription | None:
        """None where there is no share group of this id, or the cluster knows no share groups."""
        try:
            answer = await self._requests.ask(
                GroupCoordinator(group_id),
                ShareGroupDescribeRequest(group_ids=[group_id], include_authorized_operations=False),
                ShareGroupDescribeResponse,
                codes=lambda each: [group.error_code for group in each.groups],
            )
        except UnsupportedError:
            return None
        described = answer.groups[0]
        if described.error_code in _NOT_OF_THIS_TYPE:
            return None
        value_of(group_error(group_id, described.error_code, described.error_message))
        return _share_group(described, self._coordinator(group_id))

    async def _describe_streams(self, group_id: str) -> GroupDescription | None:
        """None where there is no streams group of this id, or the cluster knows no streams groups."""
        try:
            described = (await self._ask_streams(group_id)).groups[0]
        except UnsupportedError:
            return None
        if described.error_code in _NOT_OF_THIS_TYPE:
            return None
        value_of(group_error(group_id, described.error_code, described.error_message))
        return _streams_group(streams_group(described, self._coordinator(group_id)))

    async def _ask_streams(self, group_id: str) -> StreamsGroupDescribeResponse:
        return await self._requests.ask(
            GroupCoordinator(group_id),
            StreamsGroupDescribeRequest(group_ids=[group_id], include_authorized_operations=False),
            StreamsGroupDescribeResponse,
            codes=lambda each: [group.error_code for group in each.groups],
        )

    def _coordinator(self, group_id: str) -> int:
        known = self._requests.coordinator_of(group_id)
        return -1 if known is None else known


def _state(word: str) -> GroupState:
    # Groups of the new protocol are listed in lower case by some versions.
    return _STATES.get(word.lower(), GroupState.UNKNOWN)


_STATES = {state.value.lower(): state for state in GroupState}


def _type(word: str) -> GroupType:
    # A cluster that does not tell has only one type.
    return _TYPES.get(word.lower(), GroupType.UNKNOWN) if word else GroupType.CLASSIC


_TYPES = {kind.value: kind for kind in GroupType}


def _consumer_group(group: DescribedConsumerGroup, coordinator: int) -> GroupDescription:
    return GroupDescription(
        group.group_id,
        GroupType.CONSUMER,
        _state(group.group_state),
        CONSUMER_PROTOCOL_TYPE,
        group.assignor_name,
        coordinator,
        tuple(map(_consumer_member, sorted(group.members, key=lambda member: member.member_id))),
        group.group_epoch,
        group.assignment_epoch,
    )


def _consumer_member(member: Member) -> GroupMember:
    return GroupMember(
        member.member_id,
        member.instance_id,
        member.client_id,
        member.client_host,
        _assigned(member.assignment),
        tuple(member.subscribed_topic_names),
        member.subscribed_topic_regex or None,
        member.rack_id,
        member.member_epoch,
        _assigned(member.target_assignment),
        # -1 from versions that do not tell: then the group's own protocol is the better guess.
        is_classic=member.member_type == 0,
    )


def _share_group(group: DescribedShareGroup, coordinator: int) -> GroupDescription:
    return GroupDescription(
        group.group_id,
        GroupType.SHARE,
        _state(group.group_state),
        SHARE_PROTOCOL_TYPE,
        group.assignor_name,
        coordinator,
        tuple(map(_share_member, sorted(group.members, key=lambda member: member.member_id))),
        group.group_epoch,
        group.assignment_epoch,
    )


def _share_member(member: ShareMember) -> GroupMember:
    return GroupMember(
        member.member_id,
        None,
        member.client_id,
        member.client_host,
        _assigned(member.assignment),
        tuple(member.subscribed_topic_names),
        None,
        member.rack_id,
        member.member_epoch,
        is_classic=False,
    )


def _streams_group(group: StreamsGroupDescription) -> GroupDescription:
    """By the partitions that active tasks read, as other groups are described."""
    read = tuple(sorted({topic for part in group.subtopologies for topic in part.read_topics}))
    return GroupDescription(
        group.group_id,
        GroupType.STREAMS,
        _state(group.state),
        STREAMS_PROTOCOL_TYPE,
        "",
        group.coordinator,
        tuple(
            GroupMember(
                member.member_id,
                member.instance_id,
                member.client_id,
                member.host,
                group.partitions_of(member.assignment),
                read,
                None,
                member.rack_id,
                member.epoch,
                group.partitions_of(member.target_assignment),
                is_classic=False,
            )
            for member in group.members
        ),
        group.epoch,
        group.assignment_epoch,
    )


def _assigned(assignment: ConsumerGroupDescribeAssignment | ShareGroupDescribeAssignment) -> tuple[TopicPartition, ...]:
    return tuple(
        sorted(
            TopicPartition(topic.topic_name, index)
            for topic in assignment.topic_partitions
            for index in topic.partitions
        )
    )


def _classic_group(group: DescribedGroup, coordinator: int) -> GroupDescription:
    is_consumer = group.protocol_type in {CONSUMER_PROTOCOL_TYPE, ""}
    return GroupDescription(
        group.group_id,
        GroupType.CLASSIC,
        _state(group.group_state),
        group.protocol_type,
        group.protocol_data,
        coordinator,
        tuple(
            _classic_member(each, is_consumer=is_consumer)
            for each in sorted(group.members, key=lambda member: member.member_id)
        ),
    )


def _classic_member(member: DescribedGroupMember, *, is_consumer: bool) -> GroupMember:
    assignment: tuple[TopicPartition, ...] = ()
    topics: tuple[str, ...] = ()
    if is_consumer:
        from tidelog.wire.internal_records import decode_consumer_protocol  # noqa: PLC0415 - brings in all record formats

        # The bytes are the members' own affair: what cannot be read is shown as nothing.
        try:
            if member.member_assignment:
                read = decode_consumer_protocol(ConsumerProtocolAssignment, member.member_assignment)
                assignment = tuple(
                    sorted(
                        TopicPartition(each.topic, index)
                        for each in read.assigned_partitions
                        for index in each.partitions
                    )
                )
            if member.member_metadata:
                topics = tuple(decode_consumer_protocol(ConsumerProtocolSubscription, member.member_metadata).topics)
        except WireError:
            pass
    return GroupMember(
        member.member_id, member.group_instance_id, member.client_id, member.client_host, assignment, topics
    )
