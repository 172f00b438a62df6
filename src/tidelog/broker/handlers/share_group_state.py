"""What the brokers of a cluster ask its share coordinators (KIP-932): the state of share partitions is begun anew, read, written,
deleted and summed up.

InitializeShareGroupState (83), v0 · ReadShareGroupState (84), v0 · DeleteShareGroupState (86), v0 · WriteShareGroupState (85) and
ReadShareGroupStateSummary (87), v0-1: v1 the count of settled offsets (KIP-1226)

For other brokers alone. As in Kafka, a request without a group or with a topic of no partitions is answered with nothing.
"""

from __future__ import annotations

from typing import Any, TypeVar, cast

from tidelog.broker.requests.caller import Caller
from tidelog.broker.requests.handling import Answer, handles
from tidelog.broker.requests.node_view import Node
from tidelog.broker.share import state_apis
from tidelog.broker.share.state_apis import StateApi
from tidelog.coordination.share_state.share_partition_key import SharePartitionKey
from tidelog.model.acl import CLUSTER_NAME, AclOperation, ResourceType
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import PartitionIndex, TopicId
from tidelog.model.pending import when_all
from tidelog.wire.messages.share_group_state import (
    DeleteShareGroupStateRequest,
    DeleteShareGroupStateResponse,
    InitializeShareGroupStateRequest,
    InitializeShareGroupStateResponse,
    ReadShareGroupStateRequest,
    ReadShareGroupStateResponse,
    ReadShareGroupStateSummaryRequest,
    ReadShareGroupStateSummaryResponse,
    WriteShareGroupStateRequest,
    WriteShareGroupStateResponse,
)
from tidelog.wire.schema import Response

A = TypeVar("A", bound=Response)


@handles(InitializeShareGroupStateRequest)
def initialize_share_group_state(
    request: InitializeShareGroupStateRequest, caller: Caller, node: Node
) -> Answer[InitializeShareGroupStateResponse]:
    return _answer(state_apis.INITIALISE, InitializeShareGroupStateResponse, request, caller, node)


@handles(ReadShareGroupStateRequest)
def read_share_group_state(
    request: ReadShareGroupStateRequest, caller: Caller, node: Node
) -> Answer[ReadShareGroupStateResponse]:
    return _answer(state_apis.READ, ReadShareGroupStateResponse, request, caller, node)


@handles(WriteShareGroupStateRequest)
def write_share_group_state(
    request: WriteShareGroupStateRequest, caller: Caller, node: Node
) -> Answer[WriteShareGroupStateResponse]:
    return _answer(state_apis.WRITE, WriteShareGroupStateResponse, request, caller, node)


@handles(DeleteShareGroupStateRequest)
def delete_share_group_state(
    request: DeleteShareGroupStateRequest, caller: Caller, node: Node
) -> Answer[DeleteShareGroupStateResponse]:
    return _answer(state_apis.DELETE, DeleteShareGroupStateResponse, request, caller, node)


@handles(ReadShareGroupStateSummaryRequest)
def read_share_group_state_summary(
    request: ReadShareGroupStateSummaryRequest, caller: Caller, node: Node
) -> Answer[ReadShareGroupStateSummaryResponse]:
    return _answer(state_apis.SUMMARY, ReadShareGroupStateSummaryResponse, request, caller, node)


def _answer(api: StateApi, answer: type[A], request: Any, caller: Caller, node: Node) -> Answer[A]:
    """`answer` is the API's response, and `request` its request."""
    may_ask = caller.may(AclOperation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME)
    if may_ask and not (request.group_id and all(topic.partitions for topic in request.topics)):
        return cast("A", api.to_response([], []))
    outcomes = []
    for topic in request.topics:
        for asked in topic.partitions:
            key = SharePartitionKey(request.group_id, TopicId(topic.topic_id), PartitionIndex(asked.partition))
            if may_ask:
                outcomes.append(api.ask(node.share_coordinator, key, asked))
            else:
                error = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
                outcomes.append(api.refuse(key, error, error.message))

    def respond(answers: list[Any]) -> A:
        left = iter(answers)
        of_topics = [[next(left) for _ in topic.partitions] for topic in request.topics]
        response = api.to_response([topic.topic_id for topic in request.topics], of_topics)
        assert isinstance(response, answer)
        return response

    return when_all(outcomes, respond)
