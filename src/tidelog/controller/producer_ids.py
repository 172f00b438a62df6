"""Decisions about producer ids: AllocateProducerIds gives a broker a block of them, which nobody else will ever get."""

from __future__ import annotations

from tidelog.controller.cluster_view import checked_broker
from tidelog.controller.decision import Decision, Refusal, RefusedError
from tidelog.controller.image import ClusterImage
from tidelog.model.config import LONG_MAX
from tidelog.model.errors import ErrorCode
from tidelog.wire.internal_records import FramedRecord
from tidelog.wire.messages.internal.cluster_metadata import ProducerIdsRecord
from tidelog.wire.messages.producers import AllocateProducerIdsRequest, AllocateProducerIdsResponse

BLOCK_SIZE = 1000


def decide_allocate_producer_ids(
    image: ClusterImage, request: AllocateProducerIdsRequest
) -> Decision[AllocateProducerIdsResponse]:
    broker = checked_broker(image, request.broker_id, request.broker_epoch)
    first = image.next_producer_id
    if first > LONG_MAX - BLOCK_SIZE:
        raise RefusedError(ErrorCode.UNKNOWN_SERVER_ERROR, "All producer ids have been given out")
    record = ProducerIdsRecord(broker_id=broker.node_id, broker_epoch=broker.epoch, next_producer_id=first + BLOCK_SIZE)
    answer = AllocateProducerIdsResponse(
        throttle_time_ms=0, error_code=ErrorCode.NONE, producer_id_start=first, producer_id_len=BLOCK_SIZE
    )
    return Decision(answer, (FramedRecord(record, 0),))


def refuse_allocate_producer_ids(_request: AllocateProducerIdsRequest, refusal: Refusal) -> AllocateProducerIdsResponse:
    return AllocateProducerIdsResponse(
        throttle_time_ms=0, error_code=refusal.error, producer_id_start=-1, producer_id_len=0
    )
