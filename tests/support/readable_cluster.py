"""A scripted cluster that can be read from, and that keeps one classic group: for consumers on virtual time."""

from __future__ import annotations

from collections.abc import Mapping

from tests.support.scripted_cluster import ScriptedBroker, ScriptedCluster
from tidelog.model.errors import ErrorCode
from tidelog.wire.apis import ApiKey, api
from tidelog.wire.messages.api_versions import ApiVersion, ApiVersionsResponse
from tidelog.wire.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)
from tidelog.wire.messages.group_offsets import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from tidelog.wire.messages.groups_classic import (
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    JoinGroupResponseMember,
    LeaveGroupRequest,
    LeaveGroupResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)
from tidelog.wire.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from tidelog.wire.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)
from tidelog.wire.records import Record, build_batch
from tidelog.wire.schema import Request, Response

_KEYS = (
    ApiKey.FETCH,
    ApiKey.LIST_OFFSETS,
    ApiKey.METADATA,
    ApiKey.API_VERSIONS,
    ApiKey.FIND_COORDINATOR,
    ApiKey.OFFSET_FOR_LEADER_EPOCH,
    ApiKey.JOIN_GROUP,
    ApiKey.SYNC_GROUP,
    ApiKey.HEARTBEAT,
    ApiKey.LEAVE_GROUP,
    ApiKey.OFFSET_COMMIT,
    ApiKey.OFFSET_FETCH,
)
# As many records as one fetch returns: several fetches for a test of a few dozen.
FETCHED_MAX = 10


class ReadableCluster(ScriptedCluster):
    """Every record of a partition has the epoch in which it was added."""

    def __init__(self, *, brokers: int = 1, topics: Mapping[str, int] | None = None, seed: int = 1) -> None:
        super().__init__(seed=seed, brokers=brokers, topics=topics)
        self.epochs: dict[tuple[str, int], list[int]] = {}
        self.sessions: dict[int, dict[tuple[str, int], int]] = {}
        self.member_ids: list[str] = []
        self.generation_id = 0
        self.committed: dict[tuple[str, int], int] = {}

    def add(self, topic: str, partition: int, count: int) -> None:
        log = self.topics[topic][partition]
        log.values += [b"%d" % (len(log.values) + each) for each in range(count)]
        self.epochs.setdefault((topic, partition), []).extend([log.epoch] * count)

    def truncate(self, topic: str, partition: int, end: int) -> None:
        del self.topics[topic][partition].values[end:]
        del self.epochs[topic, partition][end:]

    def answer(self, broker: ScriptedBroker, request: Request) -> Response:
        match request:
            case FetchRequest():
                return self.fetch(broker, request)
            case ListOffsetsRequest():
                return self._list_offsets(request)
            case OffsetForLeaderEpochRequest():
                return self._epoch_ends(request)
            case JoinGroupRequest():
                return self._join(request)
            case SyncGroupRequest():
                mine = next(
                    (each.assignment for each in request.assignments if each.member_id == request.member_id), b""
                )
                return SyncGroupResponse(throttle_time_ms=0, error_code=0, assignment=mine)
            case HeartbeatRequest():
                return HeartbeatResponse(throttle_time_ms=0, error_code=self._member_error(request.member_id))
            case LeaveGroupRequest():
                self.member_ids = []
                return LeaveGroupResponse(throttle_time_ms=0, error_code=0, members=[])
            case OffsetCommitRequest():
                return self._commit(request)
            case OffsetFetchRequest():
                return self._committed(request)
        if request.api_key == ApiKey.API_VERSIONS:
            spoken = [
                ApiVersion(api_key=key, min_version=lowest, max_version=highest)
                for key in _KEYS
                for lowest, highest in [self.versions.get(key, tuple(api(key).announced_versions))]
            ]
            return ApiVersionsResponse(error_code=0, api_keys=spoken, throttle_time_ms=0)
        return super().answer(broker, request)

    def _name(self, topic_id: bytes) -> str:
        return next(each for each in self.topics if self.topic_id(each) == topic_id)

    def fetch(self, broker: ScriptedBroker, request: FetchRequest) -> FetchResponse:
        if request.session_epoch == 0:
            session_id = len(self.sessions) + 1
            self.sessions[session_id] = {}
        else:
            session_id = request.session_id
        wanted = self.sessions.get(session_id)
        if wanted is None:
            return FetchResponse(
                throttle_time_ms=0, error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND, session_id=0, responses=[]
            )
        for forgotten in request.forgotten_topics_data:
            for index in forgotten.partitions:
                wanted.pop((self._name(forgotten.topic_id), index), None)
        for topic in request.topics:
            wanted.update(
                {(self._name(topic.topic_id), each.partition): each.fetch_offset for each in topic.partitions}
            )
        responses = []
        for (name, index), offset in wanted.items():
            data = self._fetch_partition(broker, name, index, offset)
            # A full answer names everything that was asked for; one in a session, what is new.
            if data.records or data.error_code or request.session_epoch == 0:
                responses.append(FetchableTopicResponse(topic=name, topic_id=self.topic_id(name), partitions=[data]))
        endpoints = [NodeEndpoint(node_id=each, host=f"broker-{each}", port=9092) for each in self.brokers]
        return FetchResponse(
            throttle_time_ms=0, error_code=0, session_id=session_id, responses=responses, node_endpoints=endpoints
        )

    def _fetch_partition(self, broker: ScriptedBroker, name: str, index: int, offset: int) -> PartitionData:
        log = self.topics[name][index]
        end = len(log.values)
        data = PartitionData(
            partition_index=index,
            error_code=0,
            high_watermark=end,
            last_stable_offset=end,
            log_start_offset=0,
            aborted_transactions=None,
            records=b"",
        )
        if log.leader != broker.node_id:
            data.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
            data.current_leader = LeaderIdAndEpoch(leader_id=log.leader, leader_epoch=log.epoch)
        elif offset > end:
            data.error_code = ErrorCode.OFFSET_OUT_OF_RANGE
        elif offset < end:
            epochs = self.epochs[name, index]
            rows = [
                Record(each, 0, None, log.values[each])
                for each in range(offset, min(end, offset + FETCHED_MAX))
                if epochs[each] == epochs[offset]
            ]
            data.records = build_batch(rows, base_offset=offset, leader_epoch=epochs[offset])
        return data

    def _list_offsets(self, request: ListOffsetsRequest) -> ListOffsetsResponse:
        return ListOffsetsResponse(
            throttle_time_ms=0,
            topics=[
                ListOffsetsTopicResponse(
                    name=topic.name,
                    partitions=[
                        ListOffsetsPartitionResponse(
                            partition_index=each.partition_index,
                            error_code=0,
                            offset=0
                            if each.timestamp == -2
                            else len(self.topics[topic.name][each.partition_index].values),
                        )
                        for each in topic.partitions
                    ],
                )
                for topic in request.topics
            ],
        )

    def _epoch_ends(self, request: OffsetForLeaderEpochRequest) -> OffsetForLeaderEpochResponse:
        results = []
        for topic in request.topics:
            ends = []
            for each in topic.partitions:
                upto = [epoch for epoch in self.epochs[topic.topic, each.partition] if epoch <= each.leader_epoch]
                ends.append(
                    EpochEndOffset(
                        error_code=0,
                        partition=each.partition,
                        leader_epoch=max(upto, default=-1),
                        end_offset=len(upto) if upto else -1,
                    )
                )
            results.append(OffsetForLeaderTopicResult(topic=topic.topic, partitions=ends))
        return OffsetForLeaderEpochResponse(throttle_time_ms=0, topics=results)

    # A group of one member.

    def _member_error(self, member_id: str) -> ErrorCode:
        return ErrorCode.NONE if member_id in self.member_ids else ErrorCode.UNKNOWN_MEMBER_ID

    def _join(self, request: JoinGroupRequest) -> JoinGroupResponse:
        member_id = request.member_id
        error = ErrorCode.NONE
        if not member_id:
            self.generation_id += 1
            member_id = f"member-{self.generation_id}"
            self.member_ids = [member_id]
            error = ErrorCode.MEMBER_ID_REQUIRED
        elif member_id not in self.member_ids:
            error = ErrorCode.UNKNOWN_MEMBER_ID
        else:
            self.generation_id += 1
        return JoinGroupResponse(
            throttle_time_ms=0,
            error_code=error,
            generation_id=self.generation_id,
            protocol_type="consumer",
            protocol_name=request.protocols[0].name,
            leader=member_id,
            member_id=member_id,
            members=[JoinGroupResponseMember(member_id=member_id, metadata=request.protocols[0].metadata)],
        )

    def _commit(self, request: OffsetCommitRequest) -> OffsetCommitResponse:
        error = self._member_error(request.member_id)
        for topic in request.topics:
            for each in topic.partitions:
                if not error:
                    self.committed[self._name(topic.topic_id), each.partition_index] = each.committed_offset
        return OffsetCommitResponse(
            throttle_time_ms=0,
            topics=[
                OffsetCommitResponseTopic(
                    topic_id=topic.topic_id,
                    partitions=[
                        OffsetCommitResponsePartition(partition_index=each.partition_index, error_code=error)
                        for each in topic.partitions
                    ],
                )
                for topic in request.topics
            ],
        )

    def _committed(self, request: OffsetFetchRequest) -> OffsetFetchResponse:
        topics = [
            OffsetFetchResponseTopics(
                topic_id=topic.topic_id,
                partitions=[
                    OffsetFetchResponsePartitions(
                        partition_index=index,
                        committed_offset=self.committed.get((self._name(topic.topic_id), index), -1),
                        metadata="",
                        error_code=0,
                    )
                    for index in topic.partition_indexes
                ],
            )
            for topic in request.groups[0].topics or []
        ]
        group = OffsetFetchResponseGroup(group_id=request.groups[0].group_id, topics=topics)
        return OffsetFetchResponse(throttle_time_ms=0, groups=[group])
