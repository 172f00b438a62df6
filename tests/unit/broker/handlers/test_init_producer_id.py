"""InitProducerId, without a transactional id and with one."""

from __future__ import annotations

import pytest

from tests.support.data_node import DataNode, Denying
from tests.unit.broker.transaction_node import TransactionNode
from tidelog.broker.handlers.api_versions import announced_versions
from tidelog.broker.handlers.init_producer_id import init_producer_id
from tidelog.broker.requests.handling import HANDLERS
from tidelog.model.acl import AclOperation
from tidelog.model.errors import ErrorCode
from tidelog.wire.codec import decode, encode
from tidelog.wire.messages.producers import InitProducerIdRequest, InitProducerIdResponse

LATEST = 5


def ask(
    node: DataNode,
    transactional_id: str | None = None,
    *,
    producer_id: int = -1,
    producer_epoch: int = -1,
    timeout_ms: int = 1000,
    version: int = LATEST,
) -> tuple[int, int, int]:
    """Error, producer id and epoch."""
    request = InitProducerIdRequest(
        transactional_id=transactional_id,
        transaction_timeout_ms=timeout_ms,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
    )
    response = node.answered(init_producer_id, request, version)
    response = decode(InitProducerIdResponse, version, encode(response, version))
    return response.error_code, response.producer_id, response.producer_epoch


@pytest.mark.parametrize("version", range(6))
def test_every_producer_gets_an_id_of_its_own(version: int) -> None:
    node = DataNode()

    assert ask(node, version=version) == (0, 1000, 0)
    assert ask(node, version=version) == (0, 1001, 0)


def test_a_producer_that_has_an_id_gets_a_new_one_all_the_same() -> None:
    assert ask(DataNode(), producer_id=7, producer_epoch=3) == (0, 1000, 0)


@pytest.mark.parametrize(("producer_id", "producer_epoch"), [(7, -1), (-1, 3)])
def test_an_id_without_its_epoch_makes_no_sense(producer_id: int, producer_epoch: int) -> None:
    answer = ask(DataNode(), producer_id=producer_id, producer_epoch=producer_epoch)

    assert answer == (ErrorCode.INVALID_REQUEST, -1, -1)


def test_an_empty_name_is_refused_wherever_it_is_asked_for() -> None:
    # This node has no coordinator of transactions at all.
    assert ask(DataNode(), "") == (ErrorCode.INVALID_REQUEST, -1, -1)


def test_when_the_controller_gives_no_ids_the_client_may_try_again() -> None:
    node = DataNode()
    node.producer_ids = []

    assert ask(node) == (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, -1, -1)
    assert ErrorCode.COORDINATOR_LOAD_IN_PROGRESS.retriable


@pytest.mark.parametrize("version", range(7))
def test_a_transactional_id_keeps_its_producer_id_and_its_epoch_rises(version: int) -> None:
    node = TransactionNode()

    assert ask(node, "payments", version=version) == (0, 1000, 0)
    assert ask(node, "payments", version=version) == (0, 1000, 1)
    assert ask(node, "orders", version=version) == (0, 1001, 0)


def test_what_a_transactional_id_cannot_be_had_with() -> None:
    node = TransactionNode(transaction_max_timeout_ms="5000")

    assert ask(node, "") == (ErrorCode.INVALID_REQUEST, -1, -1)
    assert ask(node, "payments", timeout_ms=5001) == (ErrorCode.INVALID_TRANSACTION_TIMEOUT, -1, -1)
    node.producer_ids = []
    assert ask(node, "payments") == (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, -1, -1)


@pytest.mark.parametrize(("version", "error"), [(3, ErrorCode.INVALID_PRODUCER_EPOCH), (4, ErrorCode.PRODUCER_FENCED)])
def test_a_producer_that_somebody_came_after_is_fenced_in_words_that_it_knows(version: int, error: ErrorCode) -> None:
    node = TransactionNode()
    for _ in range(3):
        ask(node, "payments")

    assert ask(node, "payments", producer_id=1000, producer_epoch=0, version=version) == (error, -1, -1)


def test_who_may_not_get_an_id() -> None:
    idempotent = DataNode(authorizer=Denying((AclOperation.IDEMPOTENT_WRITE, None), (AclOperation.WRITE, None)))
    transactional = DataNode(authorizer=Denying((AclOperation.WRITE, "payments")))

    assert ask(idempotent) == (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, -1, -1)
    assert ask(transactional, "payments") == (ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, -1, -1)


def test_whoever_may_write_to_any_topic_gets_an_id() -> None:
    node = DataNode(authorizer=Denying((AclOperation.IDEMPOTENT_WRITE, None)))

    assert ask(node)[0] == ErrorCode.NONE


@pytest.mark.parametrize(("two_phase_commit", "highest"), [(False, 5), (True, 6)])
def test_the_version_of_two_phases_is_offered_where_they_are_enabled(two_phase_commit: bool, highest: int) -> None:
    handler = HANDLERS[InitProducerIdRequest.api_key]

    assert announced_versions(handler, two_phase_commit=two_phase_commit).max_version == highest


def test_transactions_of_two_phases_have_to_be_enabled() -> None:
    request = InitProducerIdRequest(transactional_id="payments", transaction_timeout_ms=1000, enable_2pc=True)
    failed = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED

    assert TransactionNode().tell(init_producer_id, request, InitProducerIdResponse, 6).error_code == failed
    node = TransactionNode(transaction_two_phase_commit_enable="true")
    assert node.tell(init_producer_id, request, InitProducerIdResponse, 6).error_code == ErrorCode.NONE
    node.authorizer = Denying((AclOperation.TWO_PHASE_COMMIT, "payments"))
    assert node.tell(init_producer_id, request, InitProducerIdResponse, 6).error_code == failed


def test_a_prepared_transaction_is_kept_for_the_next_of_its_name() -> None:
    node = TransactionNode(transaction_two_phase_commit_enable="true")
    node.create_topic("orders")
    request = InitProducerIdRequest(transactional_id="payments", transaction_timeout_ms=1000, enable_2pc=True)
    node.tell(init_producer_id, request, InitProducerIdResponse, 6)
    zombie = node.producer()
    assert zombie.send("orders", "a") is ErrorCode.NONE

    request.keep_prepared_txn = True
    given = node.tell(init_producer_id, request, InitProducerIdResponse, 6)

    assert given.error_code == ErrorCode.NONE
    assert (given.ongoing_txn_producer_id, given.ongoing_txn_producer_epoch) == (zombie.producer_id, zombie.epoch)
    assert zombie.end(commit=True) is ErrorCode.PRODUCER_FENCED
    zombie.producer_id, zombie.epoch = given.producer_id, given.producer_epoch
    assert zombie.end(commit=True) is ErrorCode.NONE
    assert node.log("orders").last_stable_offset == 2
