"""InitProducerId (22), v0-6: a new identity for an idempotent producer, or the next epoch of a transactional id.

v3 the id and epoch that the producer has (KIP-360), which only a transactional id makes use of
v4 PRODUCER_FENCED, before INVALID_PRODUCER_EPOCH · v5 TRANSACTION_ABORTABLE
v6 transactions of two phases (KIP-939): announced where `transaction.two.phase.commit.enable` is on

Where this differs from Kafka 4.3: v6 is not stable there, and `keepPreparedTxn` is refused. Here it does what the KIP says.
"""

from __future__ import annotations

from functools import partial

from tidelog.broker.requests.caller import Caller
from tidelog.broker.requests.handling import handles
from tidelog.broker.requests.node_view import Node
from tidelog.model.acl import CLUSTER_NAME, AclOperation, ResourceType
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from tidelog.model.pending import Pending, when_all
from tidelog.wire.messages.producers import InitProducerIdRequest, InitProducerIdResponse

FIRST_EPOCH = 0
FENCED_VERSION = 4


@handles(InitProducerIdRequest, versions=(0, 6))
def init_producer_id(
    request: InitProducerIdRequest, caller: Caller, node: Node
) -> InitProducerIdResponse | Pending[InitProducerIdResponse]:
    transactional_id = request.transactional_id
    if transactional_id is not None:
        operations = (
            (AclOperation.WRITE, AclOperation.TWO_PHASE_COMMIT) if request.enable_2pc else (AclOperation.WRITE,)
        )
        if not all(caller.may(each, ResourceType.TRANSACTIONAL_ID, transactional_id) for each in operations):
            return _failed(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    elif not _may_be_idempotent(caller):
        return _failed(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    is_half_known = (request.producer_id == NO_PRODUCER_ID) != (request.producer_epoch == NO_PRODUCER_EPOCH)
    if is_half_known or transactional_id == "":
        return _failed(ErrorCode.INVALID_REQUEST)
    if transactional_id is not None:
        given = node.transactions.init_producer_id(request)
        return given if caller.api_version >= FENCED_VERSION else when_all([given], _for_old_clients)
    answer: Pending[InitProducerIdResponse] = Pending()
    node.next_producer_id().then(partial(_complete, answer))
    return answer


def _may_be_idempotent(caller: Caller) -> bool:
    """Whoever may write to any topic may do so idempotently (KIP-679)."""
    return caller.may(
        AclOperation.IDEMPOTENT_WRITE, ResourceType.CLUSTER, CLUSTER_NAME, logs_denied=False
    ) or caller.may_by_resource_type(AclOperation.WRITE, ResourceType.TOPIC)


def _for_old_clients(answers: list[InitProducerIdResponse]) -> InitProducerIdResponse:
    answer = answers[0]
    if answer.error_code == ErrorCode.PRODUCER_FENCED:
        answer.error_code = ErrorCode.INVALID_PRODUCER_EPOCH
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
