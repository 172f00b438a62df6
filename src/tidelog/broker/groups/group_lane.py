"""The fast path of what members of groups send all day: heartbeats without news, and commits.

    lane.take(connection, frame, begun_ns)      True: the request is plain; it is answered, or will be

A compiled kernel reads such a request in one pass, and nearly always the answer is packed by hand. What is decided, written and
taken in between is the same as for the handlers: the shard's decision, carried out by its host. A request with anything unusual
about it is not taken, and falls back to the handler; nothing is decided before that.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from struct import Struct as Layout
from typing import TypeVar

from tidelog.broker.handlers.consumer_group_heartbeat import refuse as refuse_consumer_heartbeat
from tidelog.broker.handlers.heartbeat import refuse as refuse_heartbeat
from tidelog.broker.handlers.offset_commit import TOPIC_ID_VERSION, all_refused
from tidelog.broker.requests.caller import AllowAll, Authorizer
from tidelog.broker.requests.node_view import Node
from tidelog.controller.image import ClusterImage
from tidelog.coordination.decision import Caller, every_topic
from tidelog.coordination.group_shard import GroupShard
from tidelog.coordination.host import ActiveShard
from tidelog.kernel_choice import load
from tidelog.model.acl import AclOperation, ResourceType
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import PartitionIndex, TopicId, TopicName
from tidelog.model.pending import Pending
from tidelog.net.connection import Connection
from tidelog.wire.frames import response_frame
from tidelog.wire.messages.consumer_groups import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from tidelog.wire.messages.group_offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from tidelog.wire.messages.groups_classic import HeartbeatRequest, HeartbeatResponse
from tidelog.wire.schema import Response

A = TypeVar("A", bound=Response)

_kernel = load("tidelog.wire.kernels", "group_kernel")

HEARTBEAT_KEY: int = _kernel.HEARTBEAT_KEY
OFFSET_COMMIT_KEY: int = _kernel.OFFSET_COMMIT_KEY
CONSUMER_HEARTBEAT_KEY: int = _kernel.CONSUMER_HEARTBEAT_KEY

THROTTLE_VERSION = 1
FLEXIBLE_HEARTBEAT_VERSION = 4

_READ = AclOperation.READ
_GROUP = ResourceType.GROUP
_TOPIC = ResourceType.TOPIC

# Size and correlation id; no throttling from v1 on; no error; in v4 with the tagged fields of header and body.
_HEARTBEAT_V0 = Layout(">iih")
_HEARTBEAT_V1 = Layout(">iiih")
_HEARTBEAT_V4 = Layout(">iiBihB")
# Size, correlation id and its tagged fields; no throttling, no error, no message; the length of the member's id.
_CONSUMER_HEAD = Layout(">iiBihBB")
# The member's epoch, the interval; no assignment, no tagged fields.
_CONSUMER_TAIL = Layout(">iibB")
# Longer ids have a longer length; nobody has them.
_MEMBER_ID_BYTES_MAX = 126

_SIZE_BYTES = 4

# The topic as the request names it, the partition, the offset, the leader's epoch and the metadata.
Commit = tuple[bytes, int, int, int, str]
# A topic's id, its name, and its partitions.
KnownTopic = tuple[TopicId, TopicName, Mapping[PartitionIndex, object]]

# So many groups' shards are kept at hand.
_SHARDS_MAX = 16_384


class GroupLane:
    """For one listener."""

    __slots__ = (
        "_authorizer",
        "_by_id",
        "_by_name",
        "_has_consumer_groups",
        "_image",
        "_is_open_to_all",
        "_node",
        "_now_ns",
        "_requests",
        "_shards",
    )

    def __init__(self, node: Node, authorizer: Authorizer) -> None:
        self._node = node
        self._authorizer = authorizer
        # Nobody has to be asked then.
        self._is_open_to_all = type(authorizer) is AllowAll
        self._requests = node.metrics.requests
        self._now_ns = node.clock.monotonic_ns
        # What was looked up lately, and the image that it is of: topics that were committed for, and the shards of groups.
        self._image: ClusterImage | None = None
        self._by_name: dict[bytes, KnownTopic] = {}
        self._by_id: dict[bytes, KnownTopic] = {}
        self._shards: dict[str, ActiveShard[GroupShard]] = {}
        self._has_consumer_groups = False

    def takers(self) -> dict[int, Callable[[Connection, memoryview, int], bool]]:
        """What takes which API's requests. If it does not, nothing of the request was noted or changed."""
        return {
            HEARTBEAT_KEY: self.take_heartbeat,
            CONSUMER_HEARTBEAT_KEY: self.take_consumer_heartbeat,
            OFFSET_COMMIT_KEY: self.take_commit,
        }

    # --- signs of life -----------------------------------------------------------------------------------------------------

    def take_heartbeat(self, connection: Connection, frame: memoryview, begun_ns: int) -> bool:
        read = _kernel.read_heartbeat(frame)
        if read is None:
            return False
        version, correlation_id, group_id, generation_id, member_id, instance_id = read
        if not group_id or not (self._is_open_to_all or self._may_read(connection, _GROUP, group_id)):
            return False
        active = self._active(group_id)
        if active is None:
            return False
        request = HeartbeatRequest(
            group_id=group_id, generation_id=generation_id, member_id=member_id, group_instance_id=instance_id
        )
        decided = active.carry_out(active.shard.heartbeat(request, active.now_ms()), refuse_heartbeat)

        def packed(answer: HeartbeatResponse) -> bytes:
            error = answer.error_code
            if version >= FLEXIBLE_HEARTBEAT_VERSION:
                return _HEARTBEAT_V4.pack(12, correlation_id, 0, 0, error, 0)
            if version >= THROTTLE_VERSION:
                return _HEARTBEAT_V1.pack(10, correlation_id, 0, error)
            return _HEARTBEAT_V0.pack(6, correlation_id, error)

        self._answer(connection, HEARTBEAT_KEY, version, frame, begun_ns, decided, packed)
        return True

    def take_consumer_heartbeat(self, connection: Connection, frame: memoryview, begun_ns: int) -> bool:
        read = _kernel.read_consumer_heartbeat(frame)
        if read is None:
            return False
        version, correlation_id, client_id, group_id, member_id, epoch, instance_id, rack_id = read
        if not (self._is_open_to_all or self._may_read(connection, _GROUP, group_id)):
            return False
        active = self._active(group_id)
        if active is None or not self._has_consumer_groups:
            return False
        request = ConsumerGroupHeartbeatRequest(
            group_id=group_id, member_id=member_id, member_epoch=epoch, instance_id=instance_id, rack_id=rack_id
        )
        host = connection.peer_address.host
        # An expression stands for the topics that the caller may know of.
        may_describe = every_topic if self._is_open_to_all else partial(self._may_describe, connection)
        caller = Caller(client_id, f"/{host}", version, may_describe)
        decided = active.carry_out(
            active.shard.consumer_heartbeat(request, caller, active.now_ms()), refuse_consumer_heartbeat
        )

        def packed(answer: ConsumerGroupHeartbeatResponse) -> bytes:
            told_id = answer.member_id
            if answer.error_code or answer.assignment is not None or told_id is None:
                return response_frame(answer, version, correlation_id)
            length = len(told_id)
            if length > _MEMBER_ID_BYTES_MAX:
                return response_frame(answer, version, correlation_id)
            head = _CONSUMER_HEAD.pack(23 + length, correlation_id, 0, 0, 0, 0, length + 1)
            tail = _CONSUMER_TAIL.pack(answer.member_epoch, answer.heartbeat_interval_ms, -1, 0)
            return b"".join((head, told_id.encode(), tail))

        self._answer(connection, CONSUMER_HEARTBEAT_KEY, version, frame, begun_ns, decided, packed)
        return True

    # --- commits -----------------------------------------------------------------------------------------------------------

    def take_commit(self, connection: Connection, frame: memoryview, begun_ns: int) -> bool:
        read = _kernel.read_offset_commit(frame)
        if read is None:
            return False
        version, correlation_id, group_id, epoch, member_id, instance_id, commits, answer = read
        active = self._active(group_id)
        if active is None or not (self._is_open_to_all or self._may_read(connection, _GROUP, group_id)):
            return False
        topics = self._topics_of(commits, connection, by_id=version >= TOPIC_ID_VERSION)
        if topics is None:
            return False
        request = OffsetCommitRequest(
            group_id=group_id,
            generation_id_or_member_epoch=epoch,
            member_id=member_id,
            group_instance_id=instance_id,
            topics=topics,
        )

        def refuse(error: ErrorCode) -> OffsetCommitResponse:
            return all_refused(topics, error)

        # Of a commit the caller's version is all that counts.
        caller = Caller("", "", version)
        decision = active.shard.commit_offsets(request, caller, active.now_ms(), refuse)
        granted = decision.answer if len(decision.records) == len(commits) else None

        def packed(response: OffsetCommitResponse) -> bytes:
            return answer if response is granted else response_frame(response, version, correlation_id)

        self._answer(
            connection,
            OFFSET_COMMIT_KEY,
            version,
            frame,
            begun_ns,
            active.carry_out(decision, refuse),
            packed,
        )
        return True

    def _topics_of(
        self, commits: Sequence[Commit], connection: Connection, *, by_id: bool
    ) -> list[OffsetCommitRequestTopic] | None:
        """What is committed, by topic, where all partitions exist. None: falls back to the handler, which says what is wrong."""
        known_topics = self._by_id if by_id else self._by_name
        topics: list[OffsetCommitRequestTopic] = []
        last: bytes | None = None
        known: KnownTopic | None = None
        for topic, partition, offset, leader_epoch, metadata in commits:
            if topic is not last:
                last = topic
                known = known_topics.get(topic) or self._look_up(topic, by_id=by_id)
                if known is None:
                    return None
                if not self._is_open_to_all and not self._may_read(connection, _TOPIC, known[1]):
                    return None
                topics.append(OffsetCommitRequestTopic(name=known[1], topic_id=known[0], partitions=[]))
            if known is None or partition not in known[2]:
                return None
            topics[-1].partitions.append(
                OffsetCommitRequestPartition(
                    partition_index=partition,
                    committed_offset=offset,
                    committed_leader_epoch=leader_epoch,
                    committed_metadata=metadata,
                )
            )
        return topics

    def _look_up(self, topic: bytes, *, by_id: bool) -> KnownTopic | None:
        image = self._image
        if image is None or not (by_id or topic.isascii()):
            return None
        found = image.topics.get(TopicId(topic)) if by_id else image.topic(TopicName(topic.decode()))
        if found is None:
            return None
        known = (found.topic_id, found.name, found.partitions)
        (self._by_id if by_id else self._by_name)[topic] = known
        return known

    # --- both --------------------------------------------------------------------------------------------------------------

    def _look_anew(self) -> None:
        """The cluster has changed: what was looked up in it before may be different now."""
        self._image = self._node.image
        self._by_name.clear()
        self._by_id.clear()
        self._shards.clear()
        self._has_consumer_groups = self._node.groups.serves_consumer_protocol

    def _active(self, group_id: str) -> ActiveShard[GroupShard] | None:
        """The shard of a group, if it is here and decides."""
        if self._node.image is not self._image:
            self._look_anew()
        active = self._shards.get(group_id)
        if active is None or active.is_dropped:
            active = self._node.groups.active(group_id)
            if active is not None:
                if len(self._shards) >= _SHARDS_MAX:
                    self._shards.clear()
                self._shards[group_id] = active
        return active

    def _may_read(self, connection: Connection, resource_type: ResourceType, name: str) -> bool:
        return self._authorizer.allows(connection.principal, connection.peer_address.host, _READ, resource_type, name)

    def _may_describe(self, connection: Connection, topic: TopicName) -> bool:
        return self._authorizer.allows(
            connection.principal, connection.peer_address.host, AclOperation.DESCRIBE, _TOPIC, topic
        )

    def _answer(
        self,
        connection: Connection,
        api_key: int,
        version: int,
        frame: memoryview,
        begun_ns: int,
        decided: A | Pending[A],
        packed: Callable[[A], bytes],
    ) -> None:
        """Give the answer, as `packed` makes it with its size in front, now or once it is there."""
        counts = self._requests[api_key, version]
        if not isinstance(decided, Pending):
            frame_out = packed(decided)
            connection.answer_with_frames((frame_out,))
            counts.answered_together(1, self._now_ns() - begun_ns, len(frame), len(frame_out) - _SIZE_BYTES)
            counts.count_errors(decided)
            return
        slot = connection.expect_answer()
        counts.waiting += 1
        request_bytes, local_ns = len(frame), self._now_ns() - begun_ns

        def settled(answer: A) -> None:
            frame_out = packed(answer)
            slot.send((memoryview(frame_out)[_SIZE_BYTES:],))
            sent_bytes = len(frame_out) - _SIZE_BYTES
            counts.answered_later(local_ns, self._now_ns() - begun_ns, request_bytes, sent_bytes, answer)

        decided.then(settled)
