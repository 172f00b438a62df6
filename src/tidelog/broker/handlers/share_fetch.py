"""ShareFetch (78), v1-2: a member of a share group acquires records, and says what it has done with those it had (KIP-932).

v1 the first stable version · v2 renewal of locks (KIP-1222), and acquiring no more than was asked for (KIP-1206)

What is said of records is begun first, then records are acquired; both outcomes are in one answer, which leaves once what was
said is committed. All partitions of the member's session are fetched. An answer names those with records, an error, or an
outcome of what was said; the first also those with nothing.

Where this differs from Kafka: a fetch that has waited while another request of its session came, or is throttled, has acquired
nothing. There, such records are nobody's until their locks end.
"""

from __future__ import annotations

from typing import cast

from tidelog.broker.requests.caller import AllowAll, Caller
from tidelog.broker.requests.handling import Answer, handles
from tidelog.broker.requests.node_view import Node
from tidelog.broker.share.acknowledgement import Refusal
from tidelog.broker.share.acquisition import Wish
from tidelog.broker.share.delayed_share_fetch import WAIT_MS_MAX, DelayedShareFetch, FetchBounds, ShareFetchEntry
from tidelog.broker.share.share_answers import ByTopic, Hints, RecordBytes
from tidelog.broker.share.share_requests import (
    RENEW_VERSION,
    KnownTopics,
    Outcome,
    Said,
    acknowledge_all,
    named,
    refusal_of_request,
)
from tidelog.broker.share.share_sessions import FINAL_EPOCH, INITIAL_EPOCH, FetchedPartition, SessionKey, ShareSession
from tidelog.model.acl import AclOperation, ResourceType
from tidelog.model.errors import ErrorCode
from tidelog.model.pending import Pending, when_all
from tidelog.wire.codec import encode_parts, parts_bytes
from tidelog.wire.messages.share_fetch import (
    AcquiredRecords,
    PartitionData,
    ShareFetchableTopicResponse,
    ShareFetchRequest,
    ShareFetchResponse,
)

# `share_acquire_mode`: not more records than were asked for.
RECORD_LIMIT = 1

_SIZE_BYTES = 4


@handles(ShareFetchRequest, wakes=True)
def share_fetch(request: ShareFetchRequest, caller: Caller, node: Node) -> Answer[ShareFetchResponse]:
    error = refusal_of_request(request.group_id, request.member_id, caller, node)
    if error is None and _renews(request, caller) and _fetches(request):
        error = ErrorCode.INVALID_REQUEST
    if error is not None:
        return _refuse(error)
    assert request.group_id is not None
    assert request.member_id is not None
    key = SessionKey(request.group_id, request.member_id)
    session = _session_of(request, key, caller, node)
    if session is ErrorCode.SHARE_SESSION_LIMIT_REACHED:
        return _refuse_later(session, request.max_wait_ms, node)
    if isinstance(session, ErrorCode):
        return _refuse(session)
    return _ShareFetch(request, session, caller, node).answer()


def _renews(request: ShareFetchRequest, caller: Caller) -> bool:
    return caller.api_version >= RENEW_VERSION and request.is_renew_ack


def _fetches(request: ShareFetchRequest) -> bool:
    """Whether it asks for records, or would wait for them: locks that are renewed must not end meanwhile."""
    return bool(request.max_bytes or request.min_bytes or request.max_records or request.max_wait_ms)


def _refuse(error: ErrorCode) -> ShareFetchResponse:
    return ShareFetchResponse(
        throttle_time_ms=0, error_code=error, acquisition_lock_timeout_ms=0, responses=[], node_endpoints=[]
    )


def _refuse_later(error: ErrorCode, wait_ms: int, node: Node) -> Pending[ShareFetchResponse]:
    """Who finds no room for a session comes back at once otherwise."""
    refused: Pending[ShareFetchResponse] = Pending()

    def over() -> None:
        refused.complete(_refuse(error))

    node.timers.after(min(max(0, wait_ms), WAIT_MS_MAX), over)
    return refused


def _session_of(request: ShareFetchRequest, key: SessionKey, caller: Caller, node: Node) -> ShareSession | ErrorCode:
    """The session that a request opens, goes on with or ends."""
    sessions = node.share_leader.sessions
    partitions = [
        named(topic.topic_id, partition.partition_index) for topic in request.topics for partition in topic.partitions
    ]
    epoch = request.share_session_epoch
    if epoch == INITIAL_EPOCH:
        if any(partition.acknowledgement_batches for topic in request.topics for partition in topic.partitions):
            return ErrorCode.INVALID_REQUEST
        return sessions.open(key, partitions, caller.connection.connection_id)
    session = sessions.go_on(key, epoch)
    if isinstance(session, ShareSession) and epoch != FINAL_EPOCH:
        forgotten = [
            named(topic.topic_id, each) for topic in request.forgotten_topics_data for each in topic.partitions
        ]
        if not session.update(partitions, forgotten):
            sessions.close(session)
            return ErrorCode.SHARE_SESSION_NOT_FOUND
    return session


class _ShareFetch:
    """One request of a session."""

    def __init__(self, request: ShareFetchRequest, session: ShareSession, caller: Caller, node: Node) -> None:
        self._request = request
        self._session = session
        self._caller = caller
        self._node = node
        self._meter = caller.meter
        self._revision = caller.authorizer.revision
        self._limits = node.share_leader.limits_of(session.key.group_id)
        epoch = request.share_session_epoch
        self._partitions = [] if epoch == FINAL_EPOCH else session.in_turn(epoch)
        self._said = [
            Said(named(topic.topic_id, each.partition_index), each.acknowledgement_batches)
            for topic in request.topics
            for each in topic.partitions
        ]
        self._topics = KnownTopics([*self._partitions, *(each.partition for each in self._said)], caller, node)
        self._fetch: DelayedShareFetch | None = None

    def answer(self) -> Answer[ShareFetchResponse]:
        outcomes = acknowledge_all(
            self._said,
            self._session.key,
            self._topics,
            self._node,
            can_renew=self._caller.api_version >= RENEW_VERSION,
            renews=_renews(self._request, self._caller),
        )
        waited: list[object] = [each.refusal for each in outcomes]
        waited.append(True if _renews(self._request, self._caller) else self._start_fetch())
        return when_all(waited, lambda values: self._build(outcomes, values))

    # --- fetching ----------------------------------------------------------------------------------------------------------

    def _start_fetch(self) -> bool | Pending[bool]:
        request, node = self._request, self._node
        max_bytes = min(request.max_bytes, node.fetch_sessions.max_bytes)
        bytes_max = -1 if self._meter is None else self._meter.fetch_bytes_max()
        if bytes_max >= 0:
            # More would be refused, and refused again.
            max_bytes = min(max_bytes, bytes_max)
        entries = [self._entry(each) for each in self._partitions]
        topics = [each.topic for each in entries if each.topic is not None]
        node.share_leader.metrics.count_requests("total_share_fetch_requests", topics)
        fetch = self._fetch = DelayedShareFetch(
            entries,
            Wish(
                self._session.key.member_id,
                request.max_records,
                request.batch_size,
                self._caller.api_version >= RENEW_VERSION and request.share_acquire_mode == RECORD_LIMIT,
            ),
            FetchBounds(min(request.min_bytes, max_bytes), max_bytes, request.max_wait_ms),
            self._limits.isolation,
            self._session,
            clock=node.clock,
            timers=node.timers,
            metrics=node.share_leader.metrics,
            may_read=self._may_still_read,
        )
        return fetch.start()

    def _entry(self, partition: FetchedPartition) -> ShareFetchEntry:
        entry = ShareFetchEntry(self._topics.name_of(partition.topic_id), partition)
        refused = self._topics.refusal_of(partition)
        if refused is not None:
            entry.refuse(refused)
            return entry
        replica = self._node.partitions.identified(partition.topic_id).get(partition.partition)
        if replica is None or not replica.is_leading:
            entry.refuse(ErrorCode.NOT_LEADER_OR_FOLLOWER)
            return entry
        entry.led = self._node.share_leader.lead(self._session.key.group_id, replica)
        return entry

    def _may_still_read(self, entry: ShareFetchEntry) -> bool:
        """Where the rules have changed while it waited, whoever has lost the right gets nothing more."""
        caller = self._caller
        if type(caller.authorizer) is AllowAll or caller.authorizer.revision == self._revision:
            return True
        return entry.topic is not None and caller.may(AclOperation.READ, ResourceType.TOPIC, entry.topic)

    # --- the answer --------------------------------------------------------------------------------------------------------

    def _build(self, outcomes: list[Outcome], values: list[object]) -> ShareFetchResponse:
        if self._request.share_session_epoch == FINAL_EPOCH:
            self._node.share_leader.sessions.close(self._session)
        is_current = values.pop()
        if not is_current:
            return _refuse(ErrorCode.INVALID_SHARE_SESSION_EPOCH)
        by_topic: ByTopic[PartitionData] = ByTopic()
        hints = Hints(self._caller, self._node)
        if self._fetch is not None:
            self._add_fetched(self._fetch, by_topic, hints)
        for (partition, _), refusal in zip(outcomes, cast("list[Refusal | None]", values), strict=True):
            data = by_topic.get(partition)
            if data is None:
                data = _partition_data(partition, ErrorCode.NONE, None, hints)
                by_topic.add(partition, data)
            if refusal is not None:
                data.acknowledge_error_code = refusal.error
                data.acknowledge_error_message = refusal.message
        response = ShareFetchResponse(
            throttle_time_ms=0,
            error_code=0,
            acquisition_lock_timeout_ms=self._limits.settings.lock_duration_ms,
            responses=[
                ShareFetchableTopicResponse(topic_id=topic_id, partitions=list(partitions.values()))
                for topic_id, partitions in by_topic.topics.items()
            ],
            node_endpoints=hints.endpoints(),
        )
        return self._metered(response)

    def _add_fetched(self, fetch: DelayedShareFetch, by_topic: ByTopic[PartitionData], hints: Hints) -> None:
        is_first = self._request.share_session_epoch == INITIAL_EPOCH
        told = self._session.partitions
        records = RecordBytes()
        failed = []
        for entry in fetch.entries:
            refusal = entry.refusal
            if entry.records is None and refusal is None and not is_first and not told.get(entry.partition):
                continue
            # An error is told every time, and its end is news as well.
            if entry.partition in told:
                told[entry.partition] = refusal is not None
            error = ErrorCode.NONE if refusal is None else refusal.error
            data = _partition_data(entry.partition, error, None if refusal is None else refusal.message, hints)
            if refusal is not None and entry.topic is not None:
                failed.append(entry.topic)
            if entry.records is not None:
                data.records = records.of(entry.records)
                data.acquired_records = [
                    AcquiredRecords(first_offset=first, last_offset=last, delivery_count=count)
                    for first, last, count in entry.acquired
                ]
            by_topic.add(entry.partition, data)
        self._node.share_leader.metrics.count_requests("failed_share_fetch_requests", failed)

    def _metered(self, response: ShareFetchResponse) -> ShareFetchResponse:
        """The same, unless the client has had too much: then it is told nothing for now, and has acquired nothing."""
        fetch, meter = self._fetch, self._meter
        if meter is not None:
            size_bytes = _SIZE_BYTES + parts_bytes(encode_parts(response, self._caller.api_version))
            throttle_ms = meter.fetched(size_bytes)
            if throttle_ms:
                if fetch is not None:
                    fetch.give_back()
                throttled = _refuse(ErrorCode.NONE)
                throttled.throttle_time_ms = throttle_ms
                throttled.acquisition_lock_timeout_ms = response.acquisition_lock_timeout_ms
                throttled.responses = _outcomes_alone(response.responses)
                return throttled
        if fetch is not None:
            for entry in fetch.entries:
                if entry.records is not None and entry.topic is not None:
                    self._node.metrics.topics[entry.topic].bytes_out += entry.records.count
        return response


def _outcomes_alone(responses: list[ShareFetchableTopicResponse]) -> list[ShareFetchableTopicResponse]:
    """What was said of records is told in any case: it is not said again."""
    left = []
    for topic in responses:
        refused = [each for each in topic.partitions if each.acknowledge_error_code]
        for each in refused:
            each.error_code, each.error_message = 0, None
            each.records, each.acquired_records = b"", []
        if refused:
            left.append(ShareFetchableTopicResponse(topic_id=topic.topic_id, partitions=refused))
    return left


def _partition_data(partition: FetchedPartition, error: ErrorCode, message: str | None, hints: Hints) -> PartitionData:
    return PartitionData(
        partition_index=partition.partition,
        error_code=error,
        error_message=message,
        acknowledge_error_code=0,
        current_leader=hints.leader_of(partition, error),
        records=b"",
        acquired_records=[],
    )
