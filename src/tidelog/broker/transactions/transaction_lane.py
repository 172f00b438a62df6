"""The fast path for what producers send with every transaction: AddPartitionsToTxn of clients, and EndTxn.

    lane.take_end(connection, frame, begun_ns)      True: the request is plain; it is answered, or will be

A compiled kernel reads such a request without making a message of it, the coordinator is asked as the handlers ask it, and the
answer is packed by hand. A request with anything unusual is not taken, not even in part, and falls back to the handler. So does a
refusal to add partitions: the coordinator, asked again by the handler, decides the same. The refusal of an end is one number, and
is answered here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from struct import Struct as Layout
from typing import TypeVar

from tidelog.broker.handlers.add_partitions_to_txn import FENCED_VERSION as ADDING_FENCED_VERSION
from tidelog.broker.handlers.end_txn import EPOCH_BUMP_VERSION, FENCED_VERSION
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
    EndTxnRequest,
    EndTxnResponse,
)

_kernel = load("tidelog.wire.kernels", "transaction_kernel")

ADD_PARTITIONS_KEY: int = _kernel.ADD_PARTITIONS_KEY
END_TXN_KEY: int = _kernel.END_TXN_KEY

FLEXIBLE_VERSION = 3

_WRITE = AclOperation.WRITE
_TOPIC = ResourceType.TOPIC
_TRANSACTIONAL_ID = ResourceType.TRANSACTIONAL_ID

# Size and correlation id; no throttling; the error; from v3 on with the tagged fields of header and body, from v5 on with the
# producer's id and epoch.
_END_V0 = Layout(">iiih")
_END_V3 = Layout(">iiBihB")
_END_V5 = Layout(">iiBihqhB")

# The version by which clients go that add partitions themselves, and that of those whose every end raises the epoch.
_CLIENT_ADDS = 0
_EPOCH_BUMPS = 2

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
        return {ADD_PARTITIONS_KEY: self.take_add, END_TXN_KEY: self.take_end}

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

    # --- ending ------------------------------------------------------------------------------------------------------------

    def take_end(self, connection: Connection, frame: memoryview, begun_ns: int) -> bool:
        read = _kernel.read_end_txn(frame)
        if read is None:
            return False
        version, correlation_id, transactional_id, producer_id, producer_epoch, is_committed = read
        if not self._may_write(connection, _TRANSACTIONAL_ID, transactional_id):
            return False
        request = EndTxnRequest(
            transactional_id=transactional_id,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            committed=is_committed,
        )
        ended = self._node.transactions.end(request, _EPOCH_BUMPS if version >= EPOCH_BUMP_VERSION else 0)

        def packed(response: EndTxnResponse) -> tuple[bytes, int]:
            return _end_answer(version, correlation_id, response)

        if isinstance(ended, Pending):
            self._answer_later(connection, END_TXN_KEY, version, frame, begun_ns, ended, packed)
        else:
            self._answer(connection, END_TXN_KEY, version, frame, begun_ns, *packed(ended))
        return True

    # --- both --------------------------------------------------------------------------------------------------------------

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


def _end_answer(version: int, correlation_id: int, response: EndTxnResponse) -> tuple[bytes, int]:
    """The answer with its size in front, and its error."""
    error = response.error_code
    if error == ErrorCode.PRODUCER_FENCED and version < FENCED_VERSION:
        error = ErrorCode.INVALID_PRODUCER_EPOCH
    if version >= EPOCH_BUMP_VERSION:
        size = _END_V5.size - _SIZE_BYTES
        return _END_V5.pack(size, correlation_id, 0, 0, error, response.producer_id, response.producer_epoch, 0), error
    if version >= FLEXIBLE_VERSION:
        return _END_V3.pack(_END_V3.size - _SIZE_BYTES, correlation_id, 0, 0, error, 0), error
    return _END_V0.pack(_END_V0.size - _SIZE_BYTES, correlation_id, 0, error), error


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
