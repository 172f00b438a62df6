"""The fast path for AddPartitionsToTxn of clients, which older ones send with every transaction.

    lane.take_add(connection, frame, begun_ns)      True: the request is plain; it is answered, or will be

A compiled kernel reads such a request without making a message of it, the coordinator is asked as the handler asks it, and the
answer is packed by hand. A request with anything unusual is not taken, not even in part, and falls back to the handler. So does a
refusal: the coordinator, asked again by the handler, decides the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from tidelog.broker.handlers.add_partitions_to_txn import FENCED_VERSION as ADDING_FENCED_VERSION
from tidelog.broker.requests.caller import AllowAll, Authorizer
from tidelog.broker.requests.node_view import Node
from tidelog.kernel_choice import load
from tidelog.model.acl import AclOperation, ResourceType
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import PartitionIndex, TopicName, TopicPartition
from tidelog.model.internal_topics import INTERNAL_TOPICS
from tidelog.model.pending import Pending
from tidelog.net.connection import Connection
from tidelog.wire.frames import response_frame
from tidelog.wire.messages.transactions import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopicResult,
)

_kernel = load("tidelog.wire.kernels", "transaction_kernel")

ADD_PARTITIONS_KEY: int = _kernel.ADD_PARTITIONS_KEY

_WRITE = AclOperation.WRITE
_TOPIC = ResourceType.TOPIC
_TRANSACTIONAL_ID = ResourceType.TRANSACTIONAL_ID

# The version by which clients go that add partitions themselves.
_CLIENT_ADDS = 0

_NONE = ErrorCode.NONE
_SIZE_BYTES = 4

A = TypeVar("A")
Topics = Sequence[tuple[str, Sequence[int]]]


class TransactionLane:
    """For one listener."""

    __slots__ = ("_authorizer", "_is_open_to_all", "_node", "_now_ns", "_requests")

    def __init__(self, node: Node, authorizer: Authorizer) -> None:
        self._node = node
        self._authorizer = authorizer
        # Nobody has to be asked then.
        self._is_open_to_all = type(authorizer) is AllowAll
        self._requests = node.metrics.requests
        self._now_ns = node.clock.monotonic_ns

    def takers(self) -> dict[int, Callable[[Connection, memoryview, int], bool]]:
        """What takes which API's requests. If it does not, nothing of the request was noted or changed."""
        return {ADD_PARTITIONS_KEY: self.take_add}

    # --- adding partitions -------------------------------------------------------------------------------------------------

    def take_add(self, connection: Connection, frame: memoryview, begun_ns: int) -> bool:
        read = _kernel.read_add_partitions(frame)
        if read is None:
            return False
        version, correlation_id, transactional_id, producer_id, producer_epoch, topics, answer = read
        partitions = self._partitions_of(connection, transactional_id, topics)
        if partitions is None:
            return False
        outcome = self._node.transactions.add_partitions(
            transactional_id, producer_id, producer_epoch, partitions, _CLIENT_ADDS
        )
        if outcome is _NONE:
            self._answer(connection, ADD_PARTITIONS_KEY, version, frame, begun_ns, answer, _NONE)
            return True
        if not isinstance(outcome, Pending):
            return False

        def packed(error: ErrorCode) -> tuple[bytes, int]:
            # The codes of partitions are not counted, as the handler's are not.
            return (answer if error is _NONE else _not_added(version, correlation_id, topics, error)), _NONE

        self._answer_later(connection, ADD_PARTITIONS_KEY, version, frame, begun_ns, outcome, packed)
        return True

    def _partitions_of(
        self, connection: Connection, transactional_id: str, topics: Topics
    ) -> list[TopicPartition] | None:
        """The partitions that are to be added. None where one of them cannot be, or is named twice."""
        if not self._may_write(connection, _TRANSACTIONAL_ID, transactional_id):
            return None
        image = self._node.image
        partitions: list[TopicPartition] = []
        for name, indexes in topics:
            topic = image.topic(TopicName(name))
            if topic is None or topic.name in INTERNAL_TOPICS or not self._may_write(connection, _TOPIC, name):
                return None
            for index in indexes:
                if PartitionIndex(index) not in topic.partitions:
                    return None
                partitions.append(TopicPartition(topic.name, PartitionIndex(index)))
        if len(partitions) > 1 and len(set(partitions)) != len(partitions):
            return None
        return partitions if len(topics) == 1 or len({name for name, _ in topics}) == len(topics) else None

    # --- answers -------------------------------------------------------------------------------------------------------------

    def _may_write(self, connection: Connection, resource_type: ResourceType, name: str) -> bool:
        return self._is_open_to_all or self._authorizer.allows(
            connection.principal, connection.peer_address.host, _WRITE, resource_type, name
        )

    def _answer(
        self,
        connection: Connection,
        api_key: int,
        version: int,
        frame: memoryview,
        begun_ns: int,
        answer: bytes,
        error: int,
    ) -> None:
        connection.answer_with_frames((answer,))
        counts = self._requests[api_key, version]
        counts.answered_together(1, self._now_ns() - begun_ns, len(frame), len(answer) - _SIZE_BYTES)
        counts.errors[error] += 1

    def _answer_later(
        self,
        connection: Connection,
        api_key: int,
        version: int,
        frame: memoryview,
        begun_ns: int,
        outcome: Pending[A],
        packed: Callable[[A], tuple[bytes, int]],
    ) -> None:
        slot = connection.expect_answer()
        counts = self._requests[api_key, version]
        counts.waiting += 1
        request_bytes, local_ns = len(frame), self._now_ns() - begun_ns

        def settled(value: A) -> None:
            answer, error = packed(value)
            slot.send((memoryview(answer)[_SIZE_BYTES:],))
            counts.waited(local_ns, self._now_ns() - begun_ns, request_bytes, len(answer) - _SIZE_BYTES)
            counts.errors[error] += 1

        outcome.then(settled)


def _not_added(version: int, correlation_id: int, topics: Topics, error: ErrorCode) -> bytes:
    """The same error for all, as the handler would say it."""
    if error is ErrorCode.PRODUCER_FENCED and version < ADDING_FENCED_VERSION:
        error = ErrorCode.INVALID_PRODUCER_EPOCH
    results = [
        AddPartitionsToTxnTopicResult(
            name=name,
            results_by_partition=[
                AddPartitionsToTxnPartitionResult(partition_index=index, partition_error_code=error)
                for index in indexes
            ],
        )
        for name, indexes in topics
    ]
    response = AddPartitionsToTxnResponse(
        throttle_time_ms=0, error_code=0, results_by_transaction=[], results_by_topic_v3_and_below=results
    )
    return response_frame(response, version, correlation_id)
