"""Fetching: one request at a time to each broker, sent while the application works on what the last ones brought.

A partition is fetched from where its unread data ends, so that there is always more under way: up to `max_partition_fetch_bytes`
wait to be read before another fetch is sent, and `max_buffered_bytes` of all partitions together. A broker of which any partition
has that much is left alone for the moment. Leaving out only that partition would let the fetch wait for the others at the
broker, with this one behind it.

Everything runs on the loop but `take_*`, which also a blocking application calls on its own thread: they read what waits in
`_fetched`, and write only positions and what has been read, which nothing else writes between two calls of the application.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, NamedTuple

from tidelog.client.cluster_metadata import ClusterMetadata, Leader
from tidelog.client.connections import Connections
from tidelog.client.consumer.errors import CorruptRecordsError
from tidelog.client.consumer.fetch_session import FetchFrom, FetchSession, SessionRequest
from tidelog.client.consumer.fetched_partition import FetchedPartition, Row
from tidelog.client.consumer.options import ConsumerOptions
from tidelog.client.consumer.subscription import AssignedPartition, Subscription
from tidelog.client.consumer.topic_partition import TopicPartition
from tidelog.client.errors import ClientError, ClosedError, OffsetOutOfRangeError, refusal
from tidelog.client.retries import RetryBackoff, needs_metadata
from tidelog.client.seams import ClientSeams
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import ZERO_UUID
from tidelog.net.address import Address
from tidelog.wire.batch_errors import CorruptBatchError
from tidelog.wire.messages.fetch import FetchRequest, FetchResponse, PartitionData
from tidelog.wire.record_batch import TimestampType

if TYPE_CHECKING:
    import pyarrow as pa

# Transient errors that nothing has to be done about: the next fetch may succeed.
_RETRIED = frozenset({ErrorCode.OFFSET_NOT_AVAILABLE, ErrorCode.UNKNOWN_SERVER_ERROR})


class _Asked(NamedTuple):
    """A partition as it was when a fetch for it was sent."""

    assigned: AssignedPartition
    version: int
    fetch_offset: int


class _Fetched(NamedTuple):
    """Data that waits, and for which position it was meant."""

    data: FetchedPartition
    assigned: AssignedPartition
    version: int


class Fetcher:
    """The fetches of one consumer."""

    def __init__(
        self,
        seams: ClientSeams,
        connections: Connections,
        metadata: ClusterMetadata,
        subscription: Subscription,
        options: ConsumerOptions,
        on_news: Callable[[], None],
    ) -> None:
        """`on_news` is called when there is data, or an error in `errors`."""
        self._loop = seams.loop
        self._clock = seams.clock
        self._connections = connections
        self._metadata = metadata
        self._subscription = subscription
        self._options = options
        self._on_news = on_news
        self._backoff = RetryBackoff(seams.random, options.retry_backoff_ms, options.retry_backoff_max_ms)
        self._sessions: dict[int, FetchSession] = {}
        self._in_flight: set[int] = set()
        self._retry_nodes_at_ms: dict[int, float] = {}
        self._retry_timer_at_ms: float | None = None
        self._fetched: deque[_Fetched] = deque()
        self._held: list[_Fetched] = []
        self._fetched_bytes = 0
        self._read_bytes = 0
        self._is_closed = False
        self.errors: deque[ClientError] = deque()
        self.records_taken = 0
        self.bytes_fetched = 0
        self.fetches_sent = 0

    # Sending.

    @property
    def has_data(self) -> bool:
        return bool(self._fetched)

    @property
    def bytes_read(self) -> int:
        """Counts what was taken whole: when it grows, there may be room for another fetch."""
        return self._read_bytes

    def send_fetches(self) -> None:
        """Send what can be sent now. Cheap where nothing can."""
        if self._is_closed or self._fetched_bytes - self._read_bytes >= self._options.max_buffered_bytes:
            return
        now_ms = self._clock.monotonic_ms()
        for node_id, wanted in self._wanted(now_ms).items():
            if node_id not in self._in_flight and self._retry_nodes_at_ms.get(node_id, 0) <= now_ms:
                self._send(node_id, wanted)

    def _wanted(self, now_ms: int) -> dict[int, list[AssignedPartition]]:
        """The partitions to fetch by the broker to fetch them from, without brokers that are left alone."""
        by_node: dict[int, list[AssignedPartition]] = {}
        full: set[int] = set()
        for assigned in self._subscription:
            if not assigned.is_fetchable:
                continue
            if assigned.retry_at_ms > now_ms:
                self._look_again_at(assigned.retry_at_ms)
                continue
            node_id = self._node_of(assigned, now_ms)
            if node_id is None:
                continue
            if assigned.unread_bytes >= self._options.max_partition_fetch_bytes:
                full.add(node_id)
            by_node.setdefault(node_id, []).append(assigned)
        for node_id in full:
            del by_node[node_id]
        return by_node

    def _node_of(self, assigned: AssignedPartition, now_ms: int) -> int | None:
        if assigned.preferred_replica is not None:
            if now_ms < assigned.preferred_until_ms and assigned.preferred_replica in self._metadata.brokers:
                return assigned.preferred_replica
            assigned.preferred_replica = None
        leader = self._metadata.leader_of(*assigned.partition)
        if leader is None:
            self._metadata.request_update()
            return None
        return leader.node_id

    def _send(self, node_id: int, wanted: Iterable[AssignedPartition]) -> None:
        session = self._sessions.get(node_id)
        if session is None:
            session = self._sessions[node_id] = FetchSession()
        asked: dict[TopicPartition, _Asked] = {}
        named: dict[bytes, str] = {}
        fetches: dict[TopicPartition, FetchFrom] = {}
        for assigned in wanted:
            # A position that the application read meanwhile is never behind what is asked for.
            offset = max(assigned.fetch_offset, assigned.position)
            topic = self._metadata.topics.get(assigned.partition.topic)
            topic_id = topic.id if topic is not None else ZERO_UUID
            named[topic_id] = assigned.partition.topic
            leader = self._metadata.leader_of(*assigned.partition)
            asked[assigned.partition] = _Asked(assigned, assigned.version, offset)
            fetches[assigned.partition] = FetchFrom(
                topic_id, offset, leader.epoch if leader else -1, self._options.max_partition_fetch_bytes
            )
        self._in_flight.add(node_id)
        self.fetches_sent += 1
        is_incremental = False

        def request(version: int) -> FetchRequest:
            nonlocal is_incremental
            part = session.next_request(fetches, version)
            is_incremental = part.session_epoch > 0
            return self._request(part)

        def answered(answer: FetchResponse | ClientError) -> None:
            if self._is_closed:
                self._in_flight.discard(node_id)
                return
            try:
                if isinstance(answer, ClientError):
                    self._failed(node_id, session, answer)
                elif session.answered(answer):
                    self._retry_nodes_at_ms.pop(node_id, None)
                    self._take_in(node_id, asked, named, answer)
                    if is_incremental:
                        self._note_unchanged(asked, answer, named)
                elif not ErrorCode.of(answer.error_code).retriable:
                    self._failed(node_id, session, refusal(answer.error_code, None, about=f"broker {node_id}"))
            finally:
                # Not sooner: one partition's news of its leader has fetches sent, and would ask again for the records of another
                # one that are in this answer and are not taken in yet.
                self._in_flight.discard(node_id)
            self.send_fetches()

        timeout_ms = self._options.request_timeout_ms + self._options.fetch_max_wait_ms
        self._connections.send(node_id, request, FetchResponse, answered, timeout_ms=timeout_ms)

    def _request(self, part: SessionRequest) -> FetchRequest:
        return FetchRequest(
            max_wait_ms=self._options.fetch_max_wait_ms,
            min_bytes=self._options.fetch_min_bytes,
            max_bytes=self._options.fetch_max_bytes,
            isolation_level=1 if self._options.reads_committed else 0,
            session_id=part.session_id,
            session_epoch=part.session_epoch,
            topics=part.topics,
            forgotten_topics_data=part.forgotten,
            rack_id=self._options.client_rack,
        )

    # Answers.

    def _failed(self, node_id: int, session: FetchSession, error: ClientError) -> None:
        session.restart()
        if isinstance(error, ClosedError):
            return
        if not error.retriable:
            self.errors.append(error)
            self._on_news()
        for assigned in self._subscription:
            if assigned.preferred_replica == node_id:
                assigned.preferred_replica = None
        self._metadata.request_update()
        retry_at_ms = self._clock.monotonic_ms() + self._backoff.after(1)
        self._retry_nodes_at_ms[node_id] = retry_at_ms
        self._look_again_at(retry_at_ms)

    def _take_in(
        self, node_id: int, asked: dict[TopicPartition, _Asked], named: dict[bytes, str], answer: FetchResponse
    ) -> None:
        news = False
        for topic in answer.responses:
            name = topic.topic or named.get(topic.topic_id, "")
            for data in topic.partitions:
                question = asked.get(TopicPartition(name, data.partition_index))
                if question is None or not self._subscription.is_current(question.assigned, question.version):
                    continue
                if data.error_code != ErrorCode.NONE:
                    self._refused(question, data, answer)
                    news = news or bool(self.errors)
                else:
                    news = self._take_in_partition(node_id, question, data) or news
        if news:
            self._on_news()

    def _note_unchanged(
        self, asked: dict[TopicPartition, _Asked], answer: FetchResponse, named: dict[bytes, str]
    ) -> None:
        """In a session an answer leaves out the partitions that have nothing new, their high watermark included."""
        told = {
            (topic.topic or named.get(topic.topic_id, ""), data.partition_index)
            for topic in answer.responses
            for data in topic.partitions
        }
        for partition, question in asked.items():
            if partition not in told and self._subscription.is_current(question.assigned, question.version):
                question.assigned.nothing_at = question.fetch_offset

    def _take_in_partition(self, node_id: int, question: _Asked, data: PartitionData) -> bool:
        assigned = question.assigned
        assigned.failures = 0
        assigned.high_watermark = data.high_watermark
        assigned.last_stable_offset = data.last_stable_offset
        assigned.log_start_offset = data.log_start_offset
        if data.preferred_read_replica >= 0 and data.preferred_read_replica != node_id:
            assigned.preferred_replica = data.preferred_read_replica
            assigned.preferred_until_ms = self._clock.monotonic_ms() + self._options.metadata_max_age_ms
        if not data.records:
            if data.preferred_read_replica < 0:
                assigned.nothing_at = question.fetch_offset
            return False
        aborted = (data.aborted_transactions or ()) if self._options.reads_committed else None
        fetched = FetchedPartition(
            assigned.partition,
            question.fetch_offset,
            data.records,  # type: ignore[arg-type]  # bytes of an answer, never a region of a file
            aborted=aborted,
            check_crcs=self._options.check_crcs,
        )
        assigned.fetch_offset = fetched.end_offset
        assigned.fetched_bytes += fetched.size_bytes
        self._fetched_bytes += fetched.size_bytes
        self.bytes_fetched += fetched.size_bytes
        self._fetched.append(_Fetched(fetched, assigned, question.version))
        return True

    def _refused(self, question: _Asked, data: PartitionData, answer: FetchResponse) -> None:
        assigned = question.assigned
        code = ErrorCode.of(data.error_code)
        if code is ErrorCode.OFFSET_OUT_OF_RANGE:
            self._out_of_range(question)
            return
        assigned.preferred_replica = None
        if needs_metadata(code):
            endpoints = [(each.node_id, Address(each.host, each.port)) for each in answer.node_endpoints]
            hint = Leader(data.current_leader.leader_id, data.current_leader.leader_epoch)
            if self._metadata.learn_leader(assigned.partition.topic, assigned.partition.partition, hint, endpoints):
                return
            self._metadata.request_update()
        elif code not in _RETRIED and not code.retriable:
            self.errors.append(refusal(code, None, about=str(assigned.partition)))
        self._retry_later(assigned)

    def _out_of_range(self, question: _Asked) -> None:
        assigned = question.assigned
        if assigned.preferred_replica is not None or question.fetch_offset != assigned.position:
            # A follower may be behind; and what has been fetched is read before anything is reset.
            assigned.preferred_replica = None
            self._retry_later(assigned)
            return
        timestamp = self._options.auto_offset_reset.at(self._clock.now_ms())
        if timestamp is None:
            sentence = f"{assigned.partition} has no offset {assigned.position}, and auto_offset_reset is none"
            self.errors.append(OffsetOutOfRangeError(ErrorCode.OFFSET_OUT_OF_RANGE, sentence))
            self._retry_later(assigned)
        else:
            assigned.await_reset(timestamp)
            self._on_news()

    def _retry_later(self, assigned: AssignedPartition) -> None:
        assigned.failures += 1
        assigned.retry_at_ms = int(self._clock.monotonic_ms() + self._backoff.after(assigned.failures))
        self._look_again_at(assigned.retry_at_ms)

    def _look_again_at(self, at_ms: float) -> None:
        now_ms = self._clock.monotonic_ms()
        pending = self._retry_timer_at_ms
        if pending is not None and now_ms < pending <= at_ms:
            return
        self._retry_timer_at_ms = at_ms
        self._loop.call_later(max(1.0, at_ms - now_ms) / 1000, self._look_again)

    def _look_again(self) -> None:
        self._retry_timer_at_ms = None
        self.send_fetches()

    # Taking: also on the application's own thread.

    def take_rows(self, count_max: int) -> list[Row]:
        """Records that wait, up to `count_max`; they count as read. CorruptRecordsError if the next ones are damaged."""
        taken: list[Row] = []
        while len(taken) < count_max:
            fetched = self._next()
            if fetched is None:
                break
            try:
                rows = fetched.data.take_rows(count_max - len(taken))
            except CorruptBatchError as error:
                if taken:
                    break
                raise self._damaged(fetched, error) from error
            finally:
                self._passed(fetched)
            if rows:
                if taken:
                    taken += rows
                else:
                    taken = rows
        self.records_taken += len(taken)
        return taken

    def take_columns(self, *, headers: bool = True) -> tuple[TopicPartition, pa.RecordBatch, TimestampType] | None:
        """The records of one fetch of one partition; None where nothing waits."""
        while True:
            fetched = self._next()
            if fetched is None:
                return None
            try:
                taken = fetched.data.take_columns(headers=headers)
            except CorruptBatchError as error:
                raise self._damaged(fetched, error) from error
            finally:
                self._passed(fetched)
            if taken is not None and taken[0].num_rows:
                self.records_taken += taken[0].num_rows
                return fetched.data.partition, *taken

    def _next(self) -> _Fetched | None:
        """What is to be read next; void data, and that of paused partitions, is put aside."""
        while self._fetched:
            fetched = self._fetched[0]
            assigned = fetched.assigned
            if not self._subscription.is_current(assigned, fetched.version) or assigned.is_revoking:
                self._drop_first(fetched)
            elif assigned.is_paused:
                self._held.append(self._fetched.popleft())
            elif fetched.data.is_drained and fetched.data.damage is None:
                self._drop_first(fetched)
            else:
                return fetched
        return None

    def _passed(self, fetched: _Fetched) -> None:
        """Move the position over what has been taken."""
        fetched.assigned.read_up_to(fetched.data.next_offset, fetched.data.last_leader_epoch)
        if fetched.data.is_drained and fetched.data.damage is None:
            self._drop_first(fetched)

    def _drop_first(self, fetched: _Fetched) -> None:
        self._fetched.popleft()
        self._read_bytes += fetched.data.size_bytes
        fetched.assigned.read_bytes += fetched.data.size_bytes

    def _damaged(self, fetched: _Fetched, error: CorruptBatchError) -> CorruptRecordsError:
        return CorruptRecordsError(fetched.data.partition, fetched.data.next_offset, str(error))

    def resume(self) -> None:
        """Partitions that were paused may be read again."""
        held, self._held = self._held, []
        self._fetched.extendleft(reversed(held))

    # The end.

    def close(self) -> None:
        """Fetch no more; the brokers are told that their sessions are over, and nobody waits for what they say."""
        self._is_closed = True
        self._fetched.clear()
        for node_id, session in self._sessions.items():
            closing = session.closing_request()
            if closing is not None and node_id not in self._in_flight:
                self._connections.send(node_id, self._request(closing), FetchResponse, _ignore)


def _ignore(_answer: FetchResponse | ClientError) -> None:
    return
