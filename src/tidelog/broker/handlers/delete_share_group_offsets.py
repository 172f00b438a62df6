"""DeleteShareGroupOffsets (92), v0: a share group without members forgets where it is in some topics (KIP-932)."""

from __future__ import annotations

from tidelog.broker.requests.caller import Caller
from tidelog.broker.requests.handling import Answer, handles
from tidelog.broker.requests.node_view import Node
from tidelog.broker.share.group_states import Deleted
from tidelog.coordination.share.context import Refusal
from tidelog.model.acl import AclOperation, ResourceType
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import ZERO_UUID, TopicName
from tidelog.model.pending import when_all
from tidelog.wire.messages.share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsResponse,
    DeleteShareGroupOffsetsResponseTopic,
)


@handles(DeleteShareGroupOffsetsRequest)
def delete_share_group_offsets(
    request: DeleteShareGroupOffsetsRequest, caller: Caller, node: Node
) -> Answer[DeleteShareGroupOffsetsResponse]:
    if not node.groups.serves_share_protocol:
        return _refused(ErrorCode.UNSUPPORTED_VERSION)
    if not caller.may(AclOperation.DELETE, ResourceType.GROUP, request.group_id):
        return _refused(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    names = list(dict.fromkeys(topic.topic_name for topic in request.topics))
    allowed = [name for name in names if caller.may(AclOperation.READ, ResourceType.TOPIC, name)]
    if not request.group_id:
        return _refused(ErrorCode.INVALID_GROUP_ID)
    hidden = [
        _topic(name, ZERO_UUID, Refusal(error, error.message))
        for error in [ErrorCode.TOPIC_AUTHORIZATION_FAILED]
        for name in names
        if name not in allowed
    ]
    # A topic may be gone when the answer comes.
    topic_ids = {name: node.image.topic_ids.get(TopicName(name), ZERO_UUID) for name in allowed}

    def answer(outcome: list[Deleted]) -> DeleteShareGroupOffsetsResponse:
        refusal, refused = outcome[0]
        if refusal is not None:
            return _refused(refusal.error, refusal.message)
        topics = [_topic(name, topic_ids[name], refused.get(name)) for name in allowed]
        return DeleteShareGroupOffsetsResponse(
            throttle_time_ms=0, error_code=ErrorCode.NONE, responses=[*hidden, *topics]
        )

    return when_all([node.group_states.delete_offsets(request.group_id, allowed)], answer)


def _topic(name: str, topic_id: bytes, refusal: Refusal | None) -> DeleteShareGroupOffsetsResponseTopic:
    error, message = (ErrorCode.NONE, None) if refusal is None else refusal
    is_known = error is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return DeleteShareGroupOffsetsResponseTopic(
        topic_name=name, topic_id=topic_id if is_known else ZERO_UUID, error_code=error, error_message=message
    )


def _refused(error: ErrorCode, message: str | None = None) -> DeleteShareGroupOffsetsResponse:
    return DeleteShareGroupOffsetsResponse(
        throttle_time_ms=0, error_code=error, error_message=message or error.message, responses=[]
    )
