"""The short way of what members of groups send all day: signs of life that change nothing, and commits.

    lane.take(connection, frame, begun_ns)      True: the request is plain; it is answered, or will be

Almost all heartbeats are of members that have what they should have, and almost all commits are of members that may make them,
for partitions that are there. A compiled kernel reads such a request without making a message of it, the group's own methods are
asked, a commit's records are made in one pass, and the answer is packed by hand. Whatever else there may be to a request is not
taken, not even in part, and goes the ordinary way: a refusal always comes from there. What a look at the group has left behind by
then (a session that goes on) the handler does again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from struct import Struct as Layout

from tidelog.broker.metrics.request_metrics import RequestCounts
from tidelog.broker.requests.caller import AllowAll, Authorizer
from tidelog.broker.requests.node_view import Node
from tidelog.controller.image import ClusterImage
from tidelog.coordination.classic.group import ClassicGroup
from tidelog.coordination.consumer.group import ConsumerGroup
from tidelog.coordination.group_shard import GroupShard
from tidelog.coordination.host import ActiveShard
from tidelog.coordination.offsets import Committed
from tidelog.kernel_choice import load
from tidelog.model.acl import AclOperation, ResourceType
from tidelog.model.bugs import BugError
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import PartitionIndex, TopicId, TopicName
from tidelog.model.pending import Pending
from tidelog.net.connection import Connection
from tidelog.wire.frames import response_frame
from tidelog.wire.messages.group_offsets import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

_kernel = load("tidelog.wire.kernels", "group_kernel")

HEARTBEAT_KEY: int = _kernel.HEARTBEAT_KEY
OFFSET_COMMIT_KEY: int = _kernel.OFFSET_COMMIT_KEY
CONSUMER_HEARTBEAT_KEY: int = _kernel.CONSUMER_HEARTBEAT_KEY

THROTTLE_VERSION = 1
FLEXIBLE_HEARTBEAT_VERSION = 4
TOPIC_ID_VERSION = 10

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

_NO_EXPIRY = -1
_NONE = ErrorCode.NONE
_SIZE_BYTES = 4

# The topic as the request names it, the partition, the offset, the leader's epoch and the metadata.
Commit = tuple[bytes, int, int, int, str]
# A topic's name as it is written, its id, its name, and its partitions.
KnownTopic = tuple[bytes, TopicId, TopicName, Mapping[PartitionIndex, object]]

# So many groups' shards are kept at hand.
_SHARDS_MAX = 16_384


class GroupLane:
    """For one listener."""

    __slots__ = (
        "_authorizer",
        "_by_id",
        "_by_name",
        "_commits",
        "_has_consumer_groups",
        "_image",
        "_is_open_to_all",
        "_node",
        "_now_ms",
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
        self._now_ms = node.clock.now_ms
        # What was looked up lately, and the image that it is of: topics that were committed for, and the shards of groups.
        self._image: ClusterImage | None = None
        self._by_name: dict[bytes, KnownTopic] = {}
        self._by_id: dict[bytes, KnownTopic] = {}
        self._shards: dict[str, ActiveShard[GroupShard]] = {}
        self._has_consumer_groups = False
        # The counts of commits, by version.
        self._commits: dict[int, RequestCounts] = {}

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
        if self._node.image is not self._image:
            self._look_anew()
        active = self._shards.get(group_id)
        if active is None or active.is_dropped:
            active = self._shard_of(group_id)
            if active is None:
                return False
        group = active.shard.groups.get(group_id)
        if type(group) is not ClassicGroup:
            return False
        if not active.shard.classic.stays(group, member_id, instance_id, generation_id, active.now_ms()):
            return False
        if version >= FLEXIBLE_HEARTBEAT_VERSION:
            answer = _HEARTBEAT_V4.pack(12, correlation_id, 0, 0, 0, 0)
        elif version >= THROTTLE_VERSION:
            answer = _HEARTBEAT_V1.pack(10, correlation_id, 0, 0)
        else:
            answer = _HEARTBEAT_V0.pack(6, correlation_id, 0)
        connection.answer_with_frames((answer,))
        self._count(HEARTBEAT_KEY, version, begun_ns, frame, answer, 1)
        return True

    def take_consumer_heartbeat(self, connection: Connection, frame: memoryview, begun_ns: int) -> bool:
        read = _kernel.read_consumer_heartbeat(frame)
        if read is None:
            return False
        version, correlation_id, client_id, group_id, member_id, epoch, instance_id, rack_id = read
        if self._node.image is not self._image:
            self._look_anew()
        if len(member_id) > _MEMBER_ID_BYTES_MAX or not self._has_consumer_groups:
            return False
        if not (self._is_open_to_all or self._may_read(connection, _GROUP, group_id)):
            return False
        active = self._shards.get(group_id)
        if active is None or active.is_dropped:
            active = self._shard_of(group_id)
            if active is None:
                return False
        shard = active.shard
        group = shard.groups.get(group_id)
        if type(group) is not ConsumerGroup:
            return False
        host = f"/{connection.peer_address.host}"
        interval_ms = shard.consumer.stays(
            group, member_id, epoch, instance_id, rack_id, client_id, host, active.now_ms()
        )
        if interval_ms is None:
            return False
        length = len(member_id)
        head = _CONSUMER_HEAD.pack(23 + length, correlation_id, 0, 0, 0, 0, length + 1)
        answer = b"".join((head, member_id.encode(), _CONSUMER_TAIL.pack(epoch, interval_ms, -1, 0)))
        connection.answer_with_frames((answer,))
        self._count(CONSUMER_HEARTBEAT_KEY, version, begun_ns, frame, answer, 1)
        return True

    # --- commits -----------------------------------------------------------------------------------------------------------

    def take_commit(self, connection: Connection, frame: memoryview, begun_ns: int) -> bool:
        read = _kernel.read_offset_commit(frame)
        if read is None:
            return False
        version, correlation_id, group_id, epoch, member_id, instance_id, commits, answer = read
        if self._node.image is not self._image:
            self._look_anew()
        active = self._shards.get(group_id)
        if active is None or active.is_dropped:
            active = self._shard_of(group_id)
            if active is None:
                return False
        shard = active.shard
        # A group that is not there yet is the ordinary way's: it would begin with this commit.
        group = shard.groups.get(group_id)
        if group is None or not (self._is_open_to_all or self._may_read(connection, _GROUP, group_id)):
            return False
        offsets = shard.offsets
        topics = self._topics_of(commits, connection, offsets.metadata_max, by_id=version >= TOPIC_ID_VERSION)
        if topics is None:
            return False
        now_ms = active.now_ms()
        if group.check_commit(member_id, instance_id, epoch, version, now_ms) is not _NONE:
            return False
        timestamp_ms = self._now_ms()
        batch = _kernel.offset_commit_batch(group_id, topics, commits, now_ms, timestamp_ms)
        count = len(commits)
        appended = active.append_built(batch, count, timestamp_ms)
        if appended is None:
            return False
        first_offset, is_committed = appended
        take_in = offsets.take_in if is_committed else offsets.take_in_uncommitted
        try:
            for (_, topic_id, name, _), (_, partition, offset, leader_epoch, metadata) in zip(
                topics, commits, strict=True
            ):
                committed = Committed(offset, leader_epoch, metadata, now_ms, _NO_EXPIRY, topic_id, first_offset)
                take_in(group_id, name, partition, committed)
                first_offset += 1
        except Exception as error:
            raise BugError(f"taking in a commit of group {group_id} broke off") from error
        if not is_committed:
            self._answer_later(connection, frame, begun_ns, active, version, correlation_id, topics, commits, answer)
            return True
        connection.answer_with_frames((answer,))
        counts = self._commits.get(version)
        if counts is None:
            counts = self._commits[version] = self._requests[OFFSET_COMMIT_KEY, version]
        counts.answered_together(1, self._now_ns() - begun_ns, len(frame), len(answer) - _SIZE_BYTES)
        counts.errors[0] += count
        return True

    def _answer_later(
        self,
        connection: Connection,
        frame: memoryview,
        begun_ns: int,
        active: ActiveShard[GroupShard],
        version: int,
        correlation_id: int,
        topics: Sequence[KnownTopic],
        commits: Sequence[Commit],
        answer: bytes,
    ) -> None:
        """A function of its own: what it hands to its inner one would cost every commit that has nobody to wait for."""
        outcome = active.when_committed()
        slot = connection.expect_answer()
        counts = self._requests[OFFSET_COMMIT_KEY, version]
        counts.waiting += 1
        request_bytes, local_ns = len(frame), self._now_ns() - begun_ns

        def settled(error: ErrorCode) -> None:
            given = answer if error is _NONE else _refusal(version, correlation_id, topics, commits, error)
            slot.send((memoryview(given)[_SIZE_BYTES:],))
            counts.waited(local_ns, self._now_ns() - begun_ns, request_bytes, len(given) - _SIZE_BYTES)
            counts.errors[error] += len(commits)

        if isinstance(outcome, Pending):
            outcome.then(settled)
        else:
            settled(outcome)

    def _topics_of(
        self, commits: Sequence[Commit], connection: Connection, metadata_max: int, *, by_id: bool
    ) -> list[KnownTopic] | None:
        """The topic of each partition, where all of them are there. None: somebody else is to say what is wrong."""
        known_topics = self._by_id if by_id else self._by_name
        topics: list[KnownTopic] = []
        last: bytes | None = None
        known: KnownTopic | None = None
        for topic, partition, _, _, metadata in commits:
            if topic is not last:
                last = topic
                known = known_topics.get(topic) or self._look_up(topic, by_id=by_id)
                if known is None:
                    return None
                if not self._is_open_to_all and not self._may_read(connection, _TOPIC, known[2]):
                    return None
            if known is None or partition not in known[3] or len(metadata) > metadata_max:
                return None
            topics.append(known)
        return topics

    def _look_up(self, topic: bytes, *, by_id: bool) -> KnownTopic | None:
        image = self._image
        if image is None or not (by_id or topic.isascii()):
            return None
        found = image.topics.get(TopicId(topic)) if by_id else image.topic(TopicName(topic.decode()))
        if found is None:
            return None
        known = (found.name.encode(), found.topic_id, found.name, found.partitions)
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

    def _shard_of(self, group_id: str) -> ActiveShard[GroupShard] | None:
        active = self._node.groups.active(group_id)
        if active is not None:
            if len(self._shards) >= _SHARDS_MAX:
                self._shards.clear()
            self._shards[group_id] = active
        return active

    def _may_read(self, connection: Connection, resource_type: ResourceType, name: str) -> bool:
        return self._authorizer.allows(connection.principal, connection.peer_address.host, _READ, resource_type, name)

    def _count(
        self, api_key: int, version: int, begun_ns: int, frame: memoryview, answer: bytes, answered: int
    ) -> None:
        counts = self._requests[api_key, version]
        counts.answered_together(1, self._now_ns() - begun_ns, len(frame), len(answer) - _SIZE_BYTES)
        counts.errors[0] += answered


def _refusal(
    version: int, correlation_id: int, topics: Sequence[KnownTopic], commits: Sequence[Commit], error: ErrorCode
) -> bytes:
    """The same error for all, as the handler would say it."""
    answered: list[OffsetCommitResponseTopic] = []
    last: KnownTopic | None = None
    for topic, (_, partition, _, _, _) in zip(topics, commits, strict=True):
        if topic is not last:
            last = topic
            _, topic_id, name, _ = topic
            answered.append(OffsetCommitResponseTopic(name=name, topic_id=topic_id, partitions=[]))
        answered[-1].partitions.append(OffsetCommitResponsePartition(partition_index=partition, error_code=error))
    return response_frame(OffsetCommitResponse(throttle_time_ms=0, topics=answered), version, correlation_id)
