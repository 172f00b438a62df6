"""InitProducerId without a transactional id, and what it says to one with."""

from __future__ import annotations

import pytest

from tests.support.data_node import DataNode, Denying
from tidelog.broker.handlers.init_producer_id import init_producer_id
from tidelog.broker.handling import HANDLERS
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
    version: int = LATEST,
) -> tuple[int, int, int]:
    """Error, producer id and epoch."""
    request = InitProducerIdRequest(
        transactional_id=transactional_id,
        transaction_timeout_ms=1000,
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


def test_when_the_controller_gives_no_ids_the_client_may_try_again() -> None:
    node = DataNode()
    node.producer_ids = []

    assert ask(node) == (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, -1, -1)
    assert ErrorCode.COORDINATOR_LOAD_IN_PROGRESS.retriable


def test_transactions_are_refused_for_good() -> None:
    assert ask(DataNode(), "payments") == (ErrorCode.UNSUPPORTED_VERSION, -1, -1)
    assert ask(DataNode(), "") == (ErrorCode.INVALID_REQUEST, -1, -1)
    assert not ErrorCode.UNSUPPORTED_VERSION.retriable


def test_who_may_not_get_an_id() -> None:
    idempotent = DataNode(authorizer=Denying((AclOperation.IDEMPOTENT_WRITE, None)))
    transactional = DataNode(authorizer=Denying((AclOperation.WRITE, "payments")))

    assert ask(idempotent) == (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, -1, -1)
    assert ask(transactional, "payments") == (ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, -1, -1)


def test_the_version_that_is_not_stable_yet_is_not_offered() -> None:
    assert HANDLERS[InitProducerIdRequest.api_key].highest == LATEST
