"""Takes batches from the accumulator to the brokers that lead their partitions, and sees each to its end.

A batch is sent when it is full, when it has lingered long enough, or when somebody waits: for memory, for a flush, for the end.
A request holds one batch of each of several partitions. A broker has `max_in_flight_requests_per_connection` of them at most.

What an answer means for a batch:

    written, or written before        done
    error that may pass               back to its place in the queue, after a wait, which a new leader ends; the metadata is
                                      asked for if it was old
    out of order                      behind one that failed: back to its place. First in line: the broker misses what came
                                      before, so the producer's epoch is raised and the partition begins anew
    too large, two records or more    halves, in its place
    any other                         given up; once nothing else is under way, the gap in the numbers has the epoch raised

In a transaction a batch that is given up takes the transaction with it, and the epoch is the coordinator's to raise: see
`transactions`. Halves share the numbers of the whole.

After an error a partition sends one batch at a time until one is written: what is behind it could only fail. Everything here runs
on the loop's thread.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable, Sequence
from typing import Protocol

from tidelog.client.cluster_metadata import ClusterMetadata, Leader
from tidelog.client.connections import Connections
from tidelog.client.errors import (
    AuthenticationError,
    ClientError,
    ClosedError,
    DeliveryFailedError,
    NotReachedError,
    RefusedError,
    UnsupportedError,
    refusal,
)
from tidelog.client.producer.accumulator import Accumulator, PartitionQueue
from tidelog.client.producer.batch import ProducerBatch
from tidelog.client.producer.observing import BatchReport, ProducerMetrics
from tidelog.client.producer.options import IDEMPOTENT_IN_FLIGHT_MAX, ProducerOptions
from tidelog.client.producer.sequences import ProducerIdentity, following
from tidelog.client.retries import CONCURRENT_BACKOFF_MS, RetryBackoff, needs_metadata
from tidelog.client.seams import ClientSeams
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import ZERO_UUID
from tidelog.net.address import Address
from tidelog.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from tidelog.wire.messages.producers import InitProducerIdRequest, InitProducerIdResponse

log = logging.getLogger(__name__)

Sent = tuple[PartitionQueue, ProducerBatch]


class InTransactions(Protocol):
    """The transactions of the producer, as its sender sees them."""

    @property
    def produce_version_max(self) -> int | None: ...
    def admits(self, queue: PartitionQueue) -> bool: ...
    def batch_left(self) -> None: ...
    def batch_failed(self, error: ClientError) -> None: ...


# Room for the names and numbers around a batch in a request.
_REQUEST_OVERHEAD = 512

_INT32_MAX = 2**31 - 1


class BatchSender:
    """One for each producer."""

    def __init__(
        self,
        seams: ClientSeams,
        connections: Connections,
        metadata: ClusterMetadata,
        accumulator: Accumulator,
        options: ProducerOptions,
        metrics: ProducerMetrics,
    ) -> None:
        self._loop = seams.loop
        self._clock = seams.clock
        self._connections = connections
        self._metadata = metadata
        self._accumulator = accumulator
        self._options = options
        self._metrics = metrics
        self._backoff = RetryBackoff(seams.random, options.retry_backoff_ms, options.retry_backoff_max_ms)
        self._concurrent_backoff = RetryBackoff(
            seams.random, min(CONCURRENT_BACKOFF_MS, options.retry_backoff_ms), options.retry_backoff_max_ms
        )
        self.identity = ProducerIdentity()
        self.transactions: InTransactions | None = None
        """Set for a producer with a transactional id, before anything is sent."""
        self._asking_identity = False
        self._identity_failures = 0
        self._identity_not_before_ms = 0.0
        self._fatal: ClientError | None = None
        self._requests: dict[int, int] = {}
        # Queues with something in flight.
        self._busy: dict[PartitionQueue, None] = {}
        self._flushes = 0
        self._timer: asyncio.TimerHandle | None = None
        self._is_closed = False
        # While an answer is read, some batches are neither in flight nor back in their queues: nothing may be sent then.
        self._is_reading = False
        metadata.on_change(self._metadata_changed)

    def now_ms(self) -> float:
        return self._clock.monotonic_ns() / 1e6

    # Waiting for everything.

    async def flush(self) -> None:
        """Send what there is without lingering, and wait for every outcome."""
        self._flushes += 1
        try:
            unfinished = self._accumulator.unfinished()
            self.run()
            for batch in unfinished:
                if not batch.is_done:
                    await batch.done()
        finally:
            self._flushes -= 1

    def close(self, error: ClientError) -> None:
        """The end: whatever has no outcome gets this one."""
        if not self._is_closed:
            # The metadata may outlive its sender.
            self._metadata.off_change(self._metadata_changed)
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()
        for topic in self._accumulator.topics.values():
            for queue in topic.queues:
                while queue.unsent:
                    self._finish(self._accumulator.take_first(queue), error)
                in_flight, queue.in_flight = queue.in_flight, []
                for batch in in_flight:
                    self._finish(batch, error)

    # Looking at the queues.

    def run(self) -> None:
        """Send what is ready, and set a timer for the rest."""
        if self._is_closed or self._is_reading:
            return
        accumulator = self._accumulator
        accumulator.woken()
        now_ms = self.now_ms()
        due_ms = math.inf
        ready: dict[int, list[PartitionQueue]] = {}
        for queue in list(accumulator.active):
            due_ms = min(due_ms, self._look_at(queue, now_ms, ready))
        for queue in list(self._busy):
            due_ms = min(due_ms, self._expire_in_flight(queue, now_ms))
        if ready:
            with self._connections.turn:
                for node_id, queues in ready.items():
                    self._send_to(node_id, queues, now_ms)
        self._look_again(due_ms - now_ms)

    def _look_again(self, delay_ms: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if delay_ms == math.inf:
            return
        # A timer that goes off a moment early would find nothing due, and come again at once.
        self._timer = self._loop.call_later(max(0.0, delay_ms) / 1000 + 0.0005, self.run)

    def _look_at(self, queue: PartitionQueue, now_ms: float, ready: dict[int, list[PartitionQueue]]) -> float:
        """When to look again at a queue. One with something to send goes to its node's list."""
        expires_ms = self._expire(queue, now_ms)
        if self._fatal is not None:
            self._fail_all(self._fatal)
        if not queue.unsent:
            return expires_ms
        if self.transactions is not None:
            if not self._settle_in_transaction(queue, self.transactions):
                # Looked at again when the state of the transaction changes.
                return expires_ms
        elif self._options.is_idempotent and not self._settle_identity(queue, now_ms):
            return min(expires_ms, max(now_ms + 1, self._identity_not_before_ms))
        head = queue.unsent[0]
        if queue.not_before_ms > now_ms and not self._has_new_leader(queue):
            return min(expires_ms, queue.not_before_ms)
        if not self._may_send(queue):
            # Looked at again when an answer comes.
            return expires_ms
        lingers_until_ms = head.created_ms + self._options.linger_ms
        if not (
            lingers_until_ms <= now_ms
            or head.attempts
            or self._flushes
            or self._accumulator.is_complete(queue, head)
            or self._accumulator.is_short_of_memory
        ):
            return min(expires_ms, lingers_until_ms)
        leader = self._metadata.leader_of(queue.topic, queue.index)
        if leader is None:
            # Looked at again when the metadata has changed.
            self._metadata.request_update()
        elif not queue.in_flight or queue.node_id == leader.node_id:
            ready.setdefault(leader.node_id, []).append(queue)
        return expires_ms

    def _has_new_leader(self, queue: PartitionQueue) -> bool:
        """Whether there has been an election since the last attempt failed: then there is nothing to wait for."""
        leader = self._metadata.leader_of(queue.topic, queue.index)
        return leader is not None and leader.epoch > queue.failed_epoch >= 0

    def _may_send(self, queue: PartitionQueue) -> bool:
        in_flight = queue.in_flight
        if not in_flight:
            return True
        # One that was tried before goes alone: after it has failed again, what is behind it would fail as well.
        if queue.unsent[0].attempts or in_flight[0].attempts > 1 or queue.sequences.wants_new_epoch:
            return False
        if not self._options.is_idempotent:
            return True
        return queue.sequences.is_begun and len(in_flight) < IDEMPOTENT_IN_FLIGHT_MAX

    def _send_to(self, node_id: int, queues: Sequence[PartitionQueue], now_ms: float) -> None:
        limit = self._options.max_in_flight_requests_per_connection
        waiting = list(queues)
        while waiting and self._requests.get(node_id, 0) < limit:
            sent: list[Sent] = []
            size = _REQUEST_OVERHEAD
            later: list[PartitionQueue] = []
            for queue in waiting:
                batch_bytes = queue.unsent[0].size_bytes + _REQUEST_OVERHEAD
                if sent and size + batch_bytes > self._options.max_request_size:
                    later.append(queue)
                    continue
                size += batch_bytes
                sent.append((queue, self._drain(queue)))
                queue.node_id = node_id
                if self._is_ready_again(queue, now_ms):
                    later.append(queue)
            self._send(node_id, sent)
            waiting = later

    def _is_ready_again(self, queue: PartitionQueue, now_ms: float) -> bool:
        """Whether the next batch can leave as well, in a request of its own."""
        if not queue.unsent or not self._may_send(queue):
            return False
        head = queue.unsent[0]
        return bool(
            self._flushes
            or self._accumulator.is_complete(queue, head)
            or head.created_ms + self._options.linger_ms <= now_ms
            or self._accumulator.is_short_of_memory
        )

    def _drain(self, queue: PartitionQueue) -> ProducerBatch:
        batch = self._accumulator.take_first(queue)
        if self._options.is_idempotent and not batch.has_sequence:
            sequences = queue.sequences
            batch.stamp(sequences.producer_id, sequences.epoch, sequences.take(batch.record_count))
        batch.seal(self._options.codec, self._options.compression_level, is_transactional=self.transactions is not None)
        if self.transactions is not None:
            self.transactions.batch_left()
        batch.attempts += 1
        queue.in_flight.append(batch)
        self._busy[queue] = None
        return batch

    # Identity.

    def _settle_identity(self, queue: PartitionQueue, now_ms: float) -> bool:
        """Whether a queue's next batch can be given a number."""
        sequences, identity = queue.sequences, self.identity
        if sequences.has_gap and not queue.in_flight and not queue.unsent[0].has_sequence:
            # Some batch was given up, and nobody is left who could tell whether the broker has it.
            sequences.wants_new_epoch = True
        if sequences.wants_new_epoch and not queue.in_flight:
            if sequences.is_current(identity):
                log.info("%s: begins anew under another epoch", queue)
                identity.raise_epoch()
            if identity.is_known:
                self._begin(queue)
        if not identity.is_known:
            self._ask_identity(now_ms)
            return False
        if not sequences.is_current(identity) and not queue.in_flight and not queue.unsent[0].has_sequence:
            self._begin(queue)
        return sequences.producer_id >= 0

    def _settle_in_transaction(self, queue: PartitionQueue, transactions: InTransactions) -> bool:
        """The same within a transaction, where only the coordinator gives identities."""
        if not transactions.admits(queue):
            return False
        if not queue.unsent[0].has_sequence and not queue.sequences.is_current(self.identity):
            # Nothing of an earlier epoch is left: its transaction would not have ended.
            self._begin(queue)
        return True

    def give_up_unsent(self, error: ClientError, *, numbered_too: bool) -> None:
        """Batches that wait get this outcome: those that were never sent, or all of them."""
        for queue in list(self._accumulator.active):
            for batch in self._accumulator.take_unsent(queue, numbered_too=numbered_too):
                self._finish(batch, DeliveryFailedError(error.code or ErrorCode.UNKNOWN_SERVER_ERROR, str(error)))

    def _begin(self, queue: PartitionQueue) -> None:
        queue.sequences.begin(self.identity)
        for batch in queue.unsent:
            if batch.has_sequence:
                batch.unstamp()

    def _ask_identity(self, now_ms: float) -> None:
        if self._asking_identity or now_ms < self._identity_not_before_ms:
            return
        node_id = self._connections.least_loaded()
        if node_id is None:
            self._metadata.request_update()
            self._identity_failed(self._connections.not_reached())
            return
        self._asking_identity = True
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=_INT32_MAX)
        self._connections.send(node_id, request, InitProducerIdResponse, self._identity_answered)

    def _identity_answered(self, answer: InitProducerIdResponse | ClientError) -> None:
        self._asking_identity = False
        if self._is_closed:
            return
        if isinstance(answer, ClientError):
            self._identity_failed(answer)
        elif answer.error_code:
            self._identity_failed(refusal(answer.error_code, None, about="the producer's id"))
        else:
            self._identity_failures = 0
            self.identity.given(answer.producer_id, answer.producer_epoch)
        self.run()

    def _identity_failed(self, error: ClientError) -> None:
        if error.retriable:
            self._identity_failures += 1
            self._identity_not_before_ms = self.now_ms() + self._backoff.after(self._identity_failures)
        else:
            self._fail_all(error)

    def _fail_all(self, error: ClientError) -> None:
        """Nothing can be sent by this producer now; and not later either, unless it was only not let in."""
        if isinstance(error, AuthenticationError):
            outcome: ClientError = error
        else:
            self._fatal = error
            outcome = DeliveryFailedError(error.code or ErrorCode.UNKNOWN_SERVER_ERROR, str(error))
        for queue in list(self._accumulator.active):
            while queue.unsent:
                self._finish(self._accumulator.take_first(queue), outcome)

    @property
    def fatal_error(self) -> ClientError | None:
        """Why nothing can be sent any more, if so."""
        return self._fatal

    # Requests.

    def _send(self, node_id: int, sent: list[Sent]) -> None:
        self._requests[node_id] = self._requests.get(node_id, 0) + 1
        self._metrics.requests += 1
        request = self._request(sent)
        if self._options.acks == 0:
            self._connections.send_unanswered(node_id, request, lambda error: self._left(node_id, sent, error))
        else:
            self._connections.send(
                node_id,
                request,
                ProduceResponse,
                lambda answer: self._answered(node_id, sent, answer),
                version_max=None if self.transactions is None else self.transactions.produce_version_max,
            )

    def _request(self, sent: Sequence[Sent]) -> Callable[[int], ProduceRequest]:
        def request(_version: int) -> ProduceRequest:
            by_topic: dict[str, list[PartitionProduceData]] = {}
            for queue, batch in sent:
                # A batch may have been given up while the connection was opened.
                if batch.sealed is not None:
                    data = PartitionProduceData(index=queue.index, records=memoryview(batch.sealed))
                    by_topic.setdefault(queue.topic, []).append(data)
            return ProduceRequest(
                transactional_id=self._options.transactional_id,
                acks=self._options.acks,
                timeout_ms=self._options.request_timeout_ms,
                topic_data=[
                    TopicProduceData(name=name, topic_id=self._topic_id(name), partition_data=data)
                    for name, data in by_topic.items()
                ],
            )

        return request

    def _topic_id(self, name: str) -> bytes:
        known = self._metadata.topics.get(name)
        return ZERO_UUID if known is None else known.id

    def _left(self, node_id: int, sent: Sequence[Sent], error: ClientError | None) -> None:
        """With acks=0 there is no answer: a batch is done once it is sent."""
        self._requests[node_id] -= 1
        if self._is_closed:
            return
        for queue, batch in sent:
            if self._take_back(queue, batch):
                if error is None:
                    self._succeeded(queue, batch, -1, -1)
                else:
                    self._failed(queue, batch, error)
        self.run()

    def _answered(self, node_id: int, sent: Sequence[Sent], answer: ProduceResponse | ClientError) -> None:
        self._requests[node_id] -= 1
        if self._is_closed:
            return
        if isinstance(answer, ClientError):
            if not isinstance(answer, ClosedError):
                self._metadata.request_update()
            for queue, batch in sent:
                if self._take_back(queue, batch):
                    self._failed(queue, batch, answer)
        else:
            self._is_reading = True
            try:
                self._read(sent, answer)
            finally:
                self._is_reading = False
        self.run()

    def _read(self, sent: Sequence[Sent], answer: ProduceResponse) -> None:
        outcomes: dict[tuple[str, int], PartitionProduceResponse] = {}
        for topic in answer.responses:
            name = topic.name or self._metadata.names_by_id.get(topic.topic_id) or self._name_of(sent, topic.topic_id)
            for partition in topic.partition_responses:
                outcomes[name, partition.index] = partition
        endpoints = [(each.node_id, Address(each.host, each.port)) for each in answer.node_endpoints]
        for queue, batch in sent:
            outcome = outcomes.get((queue.topic, queue.index))
            if not self._take_back(queue, batch):
                continue
            if outcome is None:
                self._failed(queue, batch, NotReachedError(f"the answer says nothing of {queue}"))
            elif outcome.error_code in {ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER}:
                offset = outcome.base_offset if outcome.error_code == ErrorCode.NONE else -1
                self._succeeded(queue, batch, offset, outcome.log_append_time_ms)
            else:
                self._refused(queue, batch, outcome, endpoints)

    def _name_of(self, sent: Sequence[Sent], topic_id: bytes) -> str:
        """The topic of an id that the metadata has forgotten while the request was under way."""
        names = {queue.topic for queue, _ in sent}
        return names.pop() if len(names) == 1 else f"?{topic_id.hex()}"

    def _take_back(self, queue: PartitionQueue, batch: ProducerBatch) -> bool:
        """Whether a batch was still waited for: it may have been given up in the meantime."""
        if batch not in queue.in_flight:
            return False
        queue.in_flight.remove(batch)
        if not queue.in_flight:
            self._busy.pop(queue, None)
        return True

    # Outcomes.

    def _succeeded(self, queue: PartitionQueue, batch: ProducerBatch, offset: int, append_time_ms: int) -> None:
        queue.failures = 0
        queue.not_before_ms = 0.0
        if batch.has_sequence and batch.producer_epoch == queue.sequences.epoch:
            queue.sequences.acknowledged(batch.sequence, batch.record_count)
        report = self._report(batch, None)
        batch.complete(offset, append_time_ms)
        self._accumulator.release(batch)
        self._metrics.finished(report)

    def _refused(
        self,
        queue: PartitionQueue,
        batch: ProducerBatch,
        outcome: PartitionProduceResponse,
        endpoints: Sequence[tuple[int, Address]],
    ) -> None:
        code = ErrorCode.of(outcome.error_code)
        if code is ErrorCode.MESSAGE_TOO_LARGE and batch.record_count > 1:
            self._split(queue, batch)
            return
        leader = outcome.current_leader
        is_news = leader.leader_id >= 0 and self._metadata.learn_leader(
            queue.topic, queue.index, Leader(leader.leader_id, leader.leader_epoch), endpoints
        )
        if needs_metadata(code) and not is_news:
            self._metadata.request_update()
        error = refusal(outcome.error_code, outcome.error_message, about=str(queue), kind=DeliveryFailedError)
        if is_news:
            # The new leader is known: there is nothing to wait for.
            self._requeue(queue, batch, error, wait=False)
        else:
            self._failed(queue, batch, error)

    def _failed(self, queue: PartitionQueue, batch: ProducerBatch, error: ClientError) -> None:
        """Try again where that can help, else give up."""
        if self._can_retry(queue, batch, error):
            self._requeue(queue, batch, error, wait=True)
            return
        if not isinstance(error, (AuthenticationError, RefusedError)):
            code = error.code or ErrorCode.UNKNOWN_SERVER_ERROR
            error = DeliveryFailedError(code, f"{queue}: {error}")
        self._finish(batch, error)

    def _can_retry(self, queue: PartitionQueue, batch: ProducerBatch, error: ClientError) -> bool:
        if batch.attempts > self._options.retries or isinstance(error, UnsupportedError):
            return False
        if self.now_ms() - batch.created_ms >= self._options.delivery_timeout_ms:
            return False
        if self.transactions is not None:
            if error.code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
                return not queue.is_first(batch)
        elif batch.has_sequence:
            if error.code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
                if queue.is_first(batch):
                    queue.sequences.wants_new_epoch = True
                return True
            if error.code is ErrorCode.UNKNOWN_PRODUCER_ID:
                queue.sequences.wants_new_epoch = True
                return True
        return error.retriable

    def _requeue(self, queue: PartitionQueue, batch: ProducerBatch, error: ClientError, *, wait: bool) -> None:
        batch.last_error = error
        self._metrics.retried_batches += 1
        if wait:
            leader = self._metadata.leader_of(queue.topic, queue.index)
            queue.failed_epoch = -1 if leader is None else leader.epoch
            now_ms = self.now_ms()
            # Several under way that fail together are one failure.
            if queue.not_before_ms <= now_ms:
                queue.failures += 1
                backoff = self._concurrent_backoff if error.code is ErrorCode.CONCURRENT_TRANSACTIONS else self._backoff
                queue.not_before_ms = now_ms + backoff.after(queue.failures)
        self._accumulator.put_back(queue, [batch])

    def _split(self, queue: PartitionQueue, batch: ProducerBatch) -> None:
        """Halves take the batch's place. Their numbers are new, and so are those of what follows."""
        self._metrics.split_batches += 1
        log.info("%s: a batch of %d records is too large for the cluster and is split", queue, batch.record_count)
        if batch.has_sequence and self.transactions is None:
            queue.sequences.wants_new_epoch = True
        parts = batch.split()
        if self.transactions is not None:
            sequence = batch.sequence
            for part in parts:
                part.stamp(batch.producer_id, batch.producer_epoch, sequence)
                sequence = following(sequence, part.record_count)
        batch.when_done(lambda: self._accumulator.release(batch))
        self._accumulator.put_back(queue, parts)

    # Time.

    def _expire(self, queue: PartitionQueue, now_ms: float) -> float:
        """Give up what waited for too long; when the next one will have."""
        while queue.unsent:
            head = queue.unsent[0]
            expires_ms = head.created_ms + self._options.delivery_timeout_ms
            if expires_ms > now_ms:
                return expires_ms
            self._accumulator.take_first(queue)
            self._finish(head, self._timed_out(queue, head))
        return math.inf

    def _expire_in_flight(self, queue: PartitionQueue, now_ms: float) -> float:
        while queue.in_flight:
            oldest = queue.in_flight[0]
            expires_ms = oldest.created_ms + self._options.delivery_timeout_ms
            if expires_ms > now_ms:
                return expires_ms
            self._take_back(queue, oldest)
            self._finish(oldest, self._timed_out(queue, oldest))
        return math.inf

    def _timed_out(self, queue: PartitionQueue, batch: ProducerBatch) -> DeliveryFailedError:
        reason = self._connections.because(batch.last_error or self._metadata.error)
        sentence = f"{queue}: not delivered within {self._options.delivery_timeout_ms} ms{reason}"
        return DeliveryFailedError(ErrorCode.REQUEST_TIMED_OUT, sentence)

    def _metadata_changed(self) -> None:
        for topic in self._accumulator.topics.values():
            known = self._metadata.topics.get(topic.name)
            if known is not None and known.partitions:
                led = [each.index for each in known.partitions if each.leader is not None]
                self._accumulator.topic(topic.name, len(known.partitions), led)
        if self._accumulator.active:
            self.run()

    def _finish(self, batch: ProducerBatch, error: ClientError) -> None:
        report = self._report(batch, error)
        if self.transactions is not None and not self._is_closed:
            self.transactions.batch_failed(error)
        batch.fail(error)
        self._accumulator.release(batch)
        self._metrics.finished(report)

    def _report(self, batch: ProducerBatch, error: ClientError | None) -> BatchReport:
        size = batch.size_bytes if batch.sealed is None else len(batch.sealed)
        return BatchReport(
            batch.topic,
            batch.partition,
            batch.record_count,
            size,
            batch.attempts,
            self.now_ms() - batch.created_ms,
            error,
        )
