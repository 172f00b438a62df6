"""Brings the markers of transactions to where their partitions are led: on this node, or by WriteTxnMarkers to another broker.

Who leads a partition is asked of the metadata each time, so that a marker that is tried again goes to the new leader.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from itertools import groupby
from typing import NamedTuple

from tidelog.broker.coordinators.broker_requests import BrokerRequests, LinkTo, Words
from tidelog.broker.coordinators.coordinator_elections import Hosting
from tidelog.broker.transactions.transaction_markers import LocalMarkers, Marker
from tidelog.controller.image import ClusterImage
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import NodeId, TopicPartition
from tidelog.model.pending import Pending
from tidelog.wire.messages.transactions import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from tidelog.wire.schema import Response

_ELSEWHERE = ErrorCode.NOT_LEADER_OR_FOLLOWER


class ClusterMarkers:
    """`transaction_markers.MarkerWriter` for all partitions of the cluster."""

    def __init__(self, node: Hosting, local: LocalMarkers, link_to: LinkTo, turn: AbstractContextManager[None]) -> None:
        self._node = node
        self._local = local
        self._others: BrokerRequests[_Sent] = BrokerRequests(
            link_to, turn, Words("transaction-markers", _producer_id, _request, _answered)
        )

    def write(self, marker: Marker, partitions: tuple[TopicPartition, ...]) -> list[ErrorCode | Pending[ErrorCode]]:
        """The same marker for each partition: NONE once it is committed, or why it is not written."""
        outcomes = self._local.write(marker, partitions)
        sent: dict[NodeId, _Sent] = {}
        for position, outcome in enumerate(outcomes):
            if outcome is not _ELSEWHERE:
                continue
            leader = self._leader_of(partitions[position])
            if leader is None:
                continue
            waiting: Pending[ErrorCode] = Pending()
            outcomes[position] = waiting
            sent.setdefault(leader, _Sent(marker, {})).outcomes[partitions[position]] = waiting
        for leader, each in sent.items():
            self._others.ask(leader, each)
        return outcomes

    def follow(self, image: ClusterImage) -> None:
        """Wait no longer for brokers that are gone."""
        self._others.follow(image)

    def stop(self) -> None:
        self._others.stop()

    def _leader_of(self, where: TopicPartition) -> NodeId | None:
        """The other broker that leads a partition."""
        topic = self._node.image.topic(where.topic)
        metadata = None if topic is None else topic.partitions.get(where.partition)
        if metadata is None or metadata.leader < 0 or metadata.leader == self._node.node_id:
            return None
        return metadata.leader


class _Sent(NamedTuple):
    """One marker on its way to the partitions that one broker leads."""

    marker: Marker
    outcomes: dict[TopicPartition, Pending[ErrorCode]]


def _producer_id(sent: _Sent) -> int:
    return sent.marker.producer_id


def _request(sent: list[_Sent]) -> WriteTxnMarkersRequest:
    return WriteTxnMarkersRequest(
        markers=[
            WritableTxnMarker(
                producer_id=marker.producer_id,
                producer_epoch=marker.producer_epoch,
                transaction_result=marker.is_committed,
                topics=[
                    WritableTxnMarkerTopic(name=name, partition_indexes=[each.partition for each in partitions])
                    for name, partitions in groupby(sorted(outcomes), key=lambda each: each.topic)
                ],
                coordinator_epoch=marker.coordinator_epoch,
                transaction_version=marker.transaction_version,
            )
            for marker, outcomes in sent
        ]
    )


def _answered(sent: list[_Sent], answer: Response | None) -> None:
    errors: dict[tuple[int, str, int], int] = {}
    if isinstance(answer, WriteTxnMarkersResponse):
        errors = {
            (marker.producer_id, topic.name, partition.partition_index): partition.error_code
            for marker in answer.markers
            for topic in marker.topics
            for partition in topic.partitions
        }
    for marker, outcomes in sent:
        for (topic, index), outcome in outcomes.items():
            error = errors.get((marker.producer_id, topic, index))
            outcome.complete(ErrorCode.NETWORK_EXCEPTION if error is None else _as_seen_from_here(error))


def _as_seen_from_here(code: int) -> ErrorCode:
    error = ErrorCode.of(code)
    # A broker may not have heard of a topic yet. That there is none is for this node's own metadata to say.
    return _ELSEWHERE if error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION else error
