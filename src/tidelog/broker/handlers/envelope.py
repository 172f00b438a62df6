"""Envelope (58), v0: a client's request that a broker passes on to the active controller (KIP-590).

Only nodes may pass anything on. What is inside is judged here, as its own principal, address, client id and API: no broker of
Kafka's judges what it passes on. It is answered in its own version, and that this node is not the active controller is said on
the envelope, so that the broker tries the next one.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from tidelog.broker.cluster import envelopes
from tidelog.broker.requests.caller import Caller
from tidelog.broker.requests.handling import HANDLERS, Answer, handles
from tidelog.broker.requests.node_view import Node
from tidelog.controller.requests import cut_to_version, is_not_controller
from tidelog.model.acl import CLUSTER_NAME, AclOperation, ResourceType
from tidelog.model.errors import ErrorCode
from tidelog.model.pending import Failed, Pending
from tidelog.wire.errors import WireError
from tidelog.wire.messages.envelope import EnvelopeRequest, EnvelopeResponse
from tidelog.wire.messages.headers import RequestHeader
from tidelog.wire.schema import Response

if TYPE_CHECKING:
    from tidelog.broker.quotas.meter import Meter

logger = logging.getLogger(__name__)


@handles(EnvelopeRequest)
def envelope(request: EnvelopeRequest, caller: Caller, node: Node) -> Answer[EnvelopeResponse]:
    if not caller.may(AclOperation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME):
        return EnvelopeResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    try:
        opened = envelopes.unwrap(request)
    except envelopes.EnvelopeError as unreadable:
        return EnvelopeResponse(error_code=unreadable.error)
    if not _is_served(opened.header):
        return EnvelopeResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    meter = caller.meter
    if meter is not None:
        meter.passed_on(opened.header.request_api_key, opened.context.principal, opened.context.client_id)
    answered: Pending[EnvelopeResponse] = Pending()
    node.decide(opened.request, opened.context).then(lambda answer: answered.complete(_sealed(opened, answer, meter)))
    return answered


def _is_served(header: RequestHeader) -> bool:
    handler = HANDLERS.get(header.request_api_key)
    return handler is not None and handler.lowest <= header.request_api_version <= handler.highest


def _sealed(opened: envelopes.Opened, answer: Response | Failed, meter: Meter | None) -> EnvelopeResponse:
    header = opened.header
    if isinstance(answer, Failed):
        # A bug in one answer. To close the connection for it would cost the answers of all others who wait on it.
        logger.error("an answer failed: %r", answer.error, exc_info=answer.error)
        return EnvelopeResponse(error_code=ErrorCode.UNKNOWN_SERVER_ERROR)
    if is_not_controller(opened.request, answer):
        return EnvelopeResponse(error_code=ErrorCode.NOT_CONTROLLER)
    if meter is not None:
        answer = meter.settled(answer)
    cut_to_version(opened.request, answer, header.request_api_version)
    try:
        data = envelopes.answer_bytes(answer, header)
    except WireError:
        logger.exception("an answer cannot be encoded")
        return EnvelopeResponse(error_code=ErrorCode.UNKNOWN_SERVER_ERROR)
    return EnvelopeResponse(response_data=data, error_code=ErrorCode.NONE)
