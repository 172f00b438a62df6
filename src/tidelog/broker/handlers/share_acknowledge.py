"""ShareAcknowledge (79), v1-2: a member of a share group says what it has done with records, and fetches none (KIP-932).

v1 the first stable version · v2 renewal of locks (KIP-1222), and how long a lock lasts

Belongs to the member's share session and counts in it; it may end the session, but not open one. Each partition succeeds or
fails by itself, and the answer leaves once what was said is committed.
"""

from __future__ import annotations

from tidelog.broker.requests.caller import Caller
from tidelog.broker.requests.handling import Answer, handles
from tidelog.broker.requests.node_view import Node
from tidelog.broker.share.acknowledgement import Refusal
from tidelog.broker.share.share_answers import ByTopic, Hints
from tidelog.broker.share.share_requests import (
    RENEW_VERSION,
    KnownTopics,
    Outcome,
    Said,
    acknowledge_all,
    named,
    refusal_of_request,
)
from tidelog.broker.share.share_sessions import FINAL_EPOCH, INITIAL_EPOCH, SessionKey, ShareSession
from tidelog.model.errors import ErrorCode
from tidelog.model.pending import when_all
from tidelog.wire.messages.share_fetch import (
    ShareAcknowledgePartitionData,
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
    ShareAcknowledgeTopicResponse,
)


@handles(ShareAcknowledgeRequest)
def share_acknowledge(request: ShareAcknowledgeRequest, caller: Caller, node: Node) -> Answer[ShareAcknowledgeResponse]:
    error = refusal_of_request(request.group_id, request.member_id, caller, node)
    if error is None and request.share_session_epoch == INITIAL_EPOCH:
        error = ErrorCode.INVALID_SHARE_SESSION_EPOCH
    if error is not None:
        return _refuse(error)
    assert request.group_id is not None
    assert request.member_id is not None
    key = SessionKey(request.group_id, request.member_id)
    session = node.share_leader.sessions.go_on(key, request.share_session_epoch)
    if isinstance(session, ErrorCode):
        return _refuse(session)
    said = [
        Said(named(topic.topic_id, each.partition_index), each.acknowledgement_batches)
        for topic in request.topics
        for each in topic.partitions
    ]
    can_renew = caller.api_version >= RENEW_VERSION
    outcomes = acknowledge_all(
        said,
        key,
        KnownTopics([each.partition for each in said], caller, node),
        node,
        can_renew=can_renew,
        renews=can_renew and request.is_renew_ack,
    )
    return when_all(
        [each.refusal for each in outcomes],
        lambda refusals: _answer(request, session, outcomes, refusals, caller, node),
    )


def _refuse(error: ErrorCode) -> ShareAcknowledgeResponse:
    return ShareAcknowledgeResponse(
        throttle_time_ms=0, error_code=error, acquisition_lock_timeout_ms=0, responses=[], node_endpoints=[]
    )


def _answer(
    request: ShareAcknowledgeRequest,
    session: ShareSession,
    outcomes: list[Outcome],
    refusals: list[Refusal | None],
    caller: Caller,
    node: Node,
) -> ShareAcknowledgeResponse:
    if request.share_session_epoch == FINAL_EPOCH:
        node.share_leader.sessions.close(session)
    hints = Hints(caller, node)
    by_topic: ByTopic[ShareAcknowledgePartitionData] = ByTopic()
    for (partition, _), refusal in zip(outcomes, refusals, strict=True):
        error = ErrorCode.NONE if refusal is None else refusal.error
        by_topic.add(
            partition,
            ShareAcknowledgePartitionData(
                partition_index=partition.partition,
                error_code=error,
                error_message=None if refusal is None else refusal.message,
                current_leader=hints.leader_of(partition, error),
            ),
        )
    return ShareAcknowledgeResponse(
        throttle_time_ms=0,
        error_code=0,
        acquisition_lock_timeout_ms=node.share_leader.limits_of(session.key.group_id).settings.lock_duration_ms,
        responses=[
            ShareAcknowledgeTopicResponse(topic_id=topic_id, partitions=list(partitions.values()))
            for topic_id, partitions in by_topic.topics.items()
        ],
        node_endpoints=hints.endpoints(),
    )
