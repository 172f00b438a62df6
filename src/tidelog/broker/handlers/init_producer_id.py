"""InitProducerId (22), v0-5: a new identity for an idempotent producer.

v3 the id and epoch that the producer has (KIP-360), which only a transactional id makes use of · v4 PRODUCER_FENCED

Where this differs from Kafka: transactions are not there yet. A request with a transactional id gets UNSUPPORTED_VERSION, which
every client takes as final; NOT_COORDINATOR would have it search for a coordinator until its time is over.
"""

from __future__ import annotations

from functools import partial

from tidelog.broker.caller import Caller
from tidelog.broker.handling import handles
from tidelog.broker.node_view import Node
from tidelog.model.acl import CLUSTER_NAME, AclOperation, ResourceType
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from tidelog.model.pending import Pending
from tidelog.wire.messages.producers import InitProducerIdRequest, InitProducerIdResponse

FIRST_EPOCH = 0


@handles(InitProducerIdRequest)
def init_producer_id(
    request: InitProducerIdRequest, caller: Caller, node: Node
) -> InitProducerIdResponse | Pending[InitProducerIdResponse]:
    transactional_id = request.transactional_id
    if transactional_id is not None:
        if not caller.may(AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, transactional_id):
            return _failed(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    elif not caller.may(AclOperation.IDEMPOTENT_WRITE, ResourceType.CLUSTER, CLUSTER_NAME):
        return _failed(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    if (request.producer_id == NO_PRODUCER_ID) != (request.producer_epoch == NO_PRODUCER_EPOCH):
        return _failed(ErrorCode.INVALID_REQUEST)
    if transactional_id is not None:
        return _failed(ErrorCode.UNSUPPORTED_VERSION if transactional_id else ErrorCode.INVALID_REQUEST)
    answer: Pending[InitProducerIdResponse] = Pending()
    node.next_producer_id().then(partial(_complete, answer))
    return answer


def _complete(answer: Pending[InitProducerIdResponse], producer_id: int) -> None:
    if producer_id < 0:
        # Clients try again after this one.
        answer.complete(_failed(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))
    else:
        answer.complete(
            InitProducerIdResponse(
                throttle_time_ms=0, error_code=0, producer_id=producer_id, producer_epoch=FIRST_EPOCH
            )
        )


def _failed(error: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(
        throttle_time_ms=0, error_code=error, producer_id=NO_PRODUCER_ID, producer_epoch=NO_PRODUCER_EPOCH
    )
