"""What the async and the blocking producer share: everything but the way in which they wait."""

from __future__ import annotations

import operator
import os
from collections.abc import Callable, Mapping
from typing import Any
from weakref import WeakSet

from tidelog.client.cluster_metadata import ClusterMetadata
from tidelog.client.connections import Connections
from tidelog.client.coordinators import Coordinators
from tidelog.client.errors import (
    BufferFullError,
    ClientError,
    ClosedError,
    RefusedError,
    SerializationError,
    TimedOutError,
    TransactionStateError,
)
from tidelog.client.producer.accumulator import Accumulator, TopicQueues
from tidelog.client.producer.batch_builder import Delivery, checked_timestamp
from tidelog.client.producer.batch_sender import BatchSender
from tidelog.client.producer.observing import (
    ProducerMetrics,
    ProducerRecord,
    intercept_delivery,
    intercept_send,
)
from tidelog.client.producer.options import ProducerOptions
from tidelog.client.producer.partitioners import Partitioner, RoundRobin
from tidelog.client.producer.record_metadata import Headers, OnDelivery
from tidelog.client.producer.transaction_requests import TransactionRequests
from tidelog.client.producer.transactions import Transactions
from tidelog.client.seams import ClientSeams
from tidelog.model.errors import ErrorCode

_cores: WeakSet[ProducerCore] = WeakSet()

# Of a link that serves one transactional id after another. Each is looked up again when it is used again.
_COORDINATORS_KNOWN_MAX = 10_000


class ClusterLink:
    """What a producer has of its cluster, and can leave to the next one: connections, metadata, and who coordinates whom."""

    def __init__(self, seams: ClientSeams, options: ProducerOptions) -> None:
        self.connections = Connections(seams, options)
        self.metadata = ClusterMetadata(seams, self.connections, options)
        self.coordinators = Coordinators(seams, self.connections, self.metadata, options)

    def close(self) -> None:
        self.metadata.close()
        self.connections.close()


class PreparedRecord:
    """A record that is ready to be appended."""

    __slots__ = ("headers", "key", "on_delivery", "partition", "timestamp_ms", "topic", "value")

    def __init__(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None,
        partition: int | None,
        timestamp_ms: int | None,
        headers: Headers,
        on_delivery: OnDelivery | None,
    ) -> None:
        self.topic = topic
        self.value = value
        self.key = key
        self.partition = partition
        self.timestamp_ms = timestamp_ms
        self.headers = headers
        self.on_delivery = on_delivery


class ProducerCore:
    """The parts of one producer. `wake` makes the loop call `sender.run`, from whichever thread it is called."""

    def __init__(
        self,
        seams: ClientSeams,
        options: ProducerOptions,
        wake: Callable[[Callable[[], None]], None],
        link: ClusterLink | None = None,
    ) -> None:
        """`link` is one that nobody uses any more, of a producer whose options differ in nothing but the transactional id."""
        self.seams = seams
        self.options = options
        self._link = link or ClusterLink(seams, options)
        self.connections = self._link.connections
        self.metadata = self._link.metadata
        self.accumulator = Accumulator(options, seams.random, seams.clock, lambda: wake(self.sender.run))
        self.metrics = ProducerMetrics(options.observers)
        self.sender = BatchSender(seams, self.connections, self.metadata, self.accumulator, options, self.metrics)
        self.transactions: Transactions | None = None
        """Of a producer with a transactional id."""
        self.is_closed = False
        self.is_forked = False
        """Whether this is a child's copy: the loop that sends is the parent's."""
        self._partitioner: Partitioner | None = None
        if options.partitioner == "round_robin":
            self._partitioner = RoundRobin()
        elif not isinstance(options.partitioner, str):
            self._partitioner = options.partitioner
        is_plain = not (options.key_serializer or options.value_serializer or options.interceptors or self._partitioner)
        self._admitted_topics: Mapping[str, TopicQueues] = self.accumulator.topics if is_plain else {}
        self.plain_topics: Mapping[str, TopicQueues] = self._admitted_topics
        """The topics that `send` takes records for on the fast path; none where records need work (serializers, interceptors),
        or after the end.
        """
        self.lock = self.accumulator.lock
        if options.transactional_id is not None:
            requests = TransactionRequests(
                seams, self.connections, self._link.coordinators, options, options.transactional_id
            )
            self.transactions = Transactions(
                seams, self.connections, requests, options, self.sender, self._admit_records
            )
            self.sender.transactions = self.transactions
        _cores.add(self)

    def _admit_records(self, refusal: Callable[[], ClientError] | None) -> None:
        with self.lock:
            self.accumulator.refusal = refusal
            self.plain_topics = {} if refusal is not None or self.is_closed else self._admitted_topics

    def in_transactions(self) -> Transactions:
        """The transactions of a producer that can be used."""
        self.check_open()
        if self.transactions is None:
            raise TransactionStateError("transactions need a transactional_id: give the producer one")
        return self.transactions

    def check_open(self) -> None:
        if self.is_forked:
            raise ClosedError("a client does not survive a fork: make a new one in the child")
        if self.is_closed:
            raise ClosedError("the producer is closed")
        if self.sender.fatal_error is not None:
            raise ClientError(f"the producer cannot send any more: {self.sender.fatal_error}")

    def check_takes_records(self) -> None:
        """Whatever keeps `send` from taking any record, raised."""
        self.check_open()
        refusal = self.accumulator.refusal
        if refusal is not None:
            raise refusal()

    def prepare(
        self,
        topic: str,
        value: Any,
        key: Any,
        partition: int | None,
        timestamp_ms: int | None,
        headers: Headers,
        on_delivery: OnDelivery | None,
    ) -> PreparedRecord:
        """Intercepted and serialized. SerializationError where a serializer fails; TypeError or ValueError for a partition or a
        time that is none."""
        options = self.options
        if options.interceptors:
            record = ProducerRecord(topic, value, key, partition, timestamp_ms, headers)
            topic, value, key, partition, timestamp_ms, headers = intercept_send(options.interceptors, record)
            on_delivery = intercept_delivery(options.interceptors, on_delivery)
        if options.key_serializer is not None:
            key = _serialize(options.key_serializer, key, "key")
        if options.value_serializer is not None:
            value = _serialize(options.value_serializer, value, "value")
        if partition is not None:
            partition = _whole(partition)
        if timestamp_ms is not None:
            timestamp_ms = checked_timestamp(timestamp_ms)
        return PreparedRecord(topic, value, key, partition, timestamp_ms, headers, on_delivery)

    def append(self, record: PreparedRecord) -> Delivery | None:
        """The delivery; None where the topic is unknown as yet, or the buffer is full."""
        topic = self.accumulator.topics.get(record.topic)
        if topic is None:
            return None
        partition = record.partition
        if partition is None and self._partitioner is not None:
            partition = self._partitioner(record.topic, record.key, record.value, topic.partitions())
        if partition is None:
            partition = -1
        elif not 0 <= partition < topic.partitions():
            raise RefusedError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                f"{topic.name}: there is no partition {partition}: the topic has {topic.partitions()}",
            )
        timestamp_ms = self.seams.clock.now_ms() if record.timestamp_ms is None else record.timestamp_ms
        return self.accumulator.append(
            topic, partition, timestamp_ms, record.key, record.value, record.headers, record.on_delivery
        )

    async def find_topic(self, name: str, timeout_ms: float) -> TopicQueues:
        """The queues of a topic, once the cluster says that it exists."""
        known = await self.metadata.topic(name, timeout_ms)
        led = [each.index for each in known.partitions if each.leader is not None]
        return self.accumulator.topic(name, len(known.partitions), led)

    def buffer_full(self) -> BufferFullError:
        """There was no room for `max_block_ms`."""
        reason = self.connections.because(None) or ": records come faster than the cluster takes them"
        return BufferFullError(
            f"the buffer of {self.options.buffer_memory} bytes was full for {self.options.max_block_ms} ms{reason}"
        )

    def not_delivered(self, timeout_ms: float) -> TimedOutError:
        """A flush took longer than its caller wanted to wait."""
        reason = self.connections.because(self.metadata.error)
        return TimedOutError(f"not everything was delivered within {timeout_ms:g} ms{reason}")

    async def close(self, *, flush: bool) -> None:
        """Flush, which may be cancelled, and end. What has no outcome then gets ClosedError."""
        if self.is_forked:
            # The connections are the parent's, and so is what waits.
            self.is_closed = True
            return
        self.is_closed = True
        self.plain_topics = {}
        try:
            if flush and self.transactions is not None:
                await self.transactions.finish()
            if flush:
                await self.sender.flush()
        finally:
            self._end()
            self._link.close()

    def give_up_link(self) -> ClusterLink:
        """End, and leave the link to another core. A transaction that was handed over stays as it is."""
        self.check_open()
        self.is_closed = True
        self.plain_topics = {}
        self._end()
        self._link.coordinators.forget_beyond(_COORDINATORS_KNOWN_MAX)
        return self._link

    def _end(self) -> None:
        if self.transactions is not None:
            self.transactions.close()
        self.sender.close(ClosedError("the producer was closed before the record was delivered"))


def _whole(partition: Any) -> int:
    try:
        return operator.index(partition)
    except TypeError:
        raise TypeError(f"a partition is a whole number, not {type(partition).__name__}") from None


def _serialize(serializer: Callable[[Any], bytes | None], given: Any, what: str) -> bytes | None:
    try:
        return serializer(given)
    except Exception as error:
        raise SerializationError(f"the serializer of the {what} failed: {error}") from error


def _forked() -> None:
    for core in tuple(_cores):
        core.is_forked = True
        # Without a topic here every `send` falls back to the slow path, which checks.
        core.plain_topics = {}


os.register_at_fork(after_in_child=_forked)
