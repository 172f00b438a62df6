"""The share consumer for asyncio; `ShareConsumer` is the same for threads.

    poll ── what the last one returned: accepted, or all of it acknowledged by the application
         ── records that were acquired, or renewed
         ── else a fetch to every leader, with what was said of the last ones

Between two calls of the application heartbeats go on by themselves, and a fetch that has brought nothing yet.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TypeVar, cast

from tidelog.client.arrow_extra import require_arrow
from tidelog.client.closing import AsyncClosedAtExit
from tidelog.client.cluster_metadata import ClusterMetadata
from tidelog.client.connections import Connections
from tidelog.client.consumer.blocking import CLOSE_TIMEOUT_MS
from tidelog.client.consumer.callbacks import call_here
from tidelog.client.consumer.errors import ConsumerStateError
from tidelog.client.consumer.fetched_partition import Row
from tidelog.client.consumer.heartbeats import HeartbeatParts
from tidelog.client.consumer.poll_waiting import PollWaiting
from tidelog.client.consumer.row_delivery import RowDelivery
from tidelog.client.consumer.topic_partition import TopicPartition, topic_partition
from tidelog.client.coordinators import Coordinators
from tidelog.client.errors import ClientError, ClosedError, SerializationError, refusal
from tidelog.client.given_names import given_topics, names_of
from tidelog.client.options import parse_options
from tidelog.client.seams import ClientSeams
from tidelog.client.share.acknowledgements import AcknowledgeType
from tidelog.client.share.acquired_partition import AcquiredPartition, DamagedRecordsError, Range
from tidelog.client.share.options import ShareOptions
from tidelog.client.share.records import SharedRecord, SharedRow
from tidelog.client.share.records_in_hand import Origin, RecordsInHand, Said, merged, offsets_of
from tidelog.client.share.share_fetcher import ShareFetcher
from tidelog.client.share.share_group import ShareGroup
from tidelog.client.share.share_member import ShareMember
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import random_uuid, uuid_to_text

if TYPE_CHECKING:
    import pyarrow as pa

T = TypeVar("T")

CommitCallback = Callable[[Mapping[TopicPartition, frozenset[int]], ClientError | None], object]

# Errors of a topic that are not retriable: the application has to be told.
_HOPELESS = frozenset({ErrorCode.INVALID_TOPIC_EXCEPTION, ErrorCode.TOPIC_AUTHORIZATION_FAILED})
# An iteration polls again and again; this is only how long one poll of it waits.
ITERATION_POLL_MS = 60_000


class _Failure(NamedTuple):
    """Records that cannot be delivered, and what becomes of them unless the application says something else."""

    error: ClientError
    origin: Origin
    ranges: list[Range]
    kind: AcknowledgeType


class AsyncShareConsumer(AsyncClosedAtExit):
    """Reads records as a member of a share group: each is one member's until it is acknowledged, or its lock ends.

    >>> async with AsyncShareConsumer("orders", bootstrap_servers="127.0.0.1:9092", group_id="packers") as consumer:
    ...     async for record in consumer:
    ...         print(record.offset, record.value, record.delivery_count)

    Topics given here are subscribed to. The options are those of `ShareOptions`: Kafka's names in Python's spelling. Lives on the
    loop that runs when it is made. One task at a time may use it.
    """

    def __init__(self, *topics: str, **options: Any) -> None:
        parsed = parse_options(ShareOptions, options)
        self._start(ClientSeams.of(asyncio.get_running_loop()), parsed, call_here)
        if topics:
            self.subscribe(given_topics(topics))

    @classmethod
    def _on(
        cls,
        seams: ClientSeams,
        options: ShareOptions,
        run_callback: Callable[[Callable[[], object]], Awaitable[object]],
    ) -> Self:
        """For the blocking front: other seams, and another place where callbacks run."""
        self = cls.__new__(cls)
        self._start(seams, options, run_callback)
        return self

    def _start(
        self,
        seams: ClientSeams,
        options: ShareOptions,
        run_callback: Callable[[Callable[[], object]], Awaitable[object]],
    ) -> None:
        options.check_together()
        self._options = options
        self._loop = seams.loop
        self._run_callback = run_callback
        self._connections = Connections(seams, options)
        self._waiting = PollWaiting(self._loop, self._connections, options.default_api_timeout_ms)
        self._metadata = ClusterMetadata(
            seams, self._connections, options, allow_auto_topic_creation=options.allow_auto_create_topics
        )
        self._metadata.on_change(self._metadata_changed)
        member = ShareMember(
            options.group_id, uuid_to_text(random_uuid(seams.random)), rack_id=options.client_rack or None
        )
        parts = HeartbeatParts(
            seams.loop,
            seams.random,
            self._connections,
            Coordinators(seams, self._connections, self._metadata, options),
            options,
            options.group_id,
            options.default_api_timeout_ms,
            options.max_poll_interval_ms,
        )
        self._group = ShareGroup(parts, self._metadata, member, self._group_changed)
        self._fetcher = ShareFetcher(
            seams, self._connections, self._metadata, options, member.member_id, self._waiting.news
        )
        self._in_hand = RecordsInHand()
        self._given_back: list[SharedRow] = []
        self._failure: _Failure | None = None
        self._finish = RowDelivery(options, self._give_back, remedy="it was released").finish
        self._callback: CommitCallback | None = None
        self._is_in_callback = False
        self._records_taken = 0
        self._is_closed = False

    async def __aiter__(self) -> AsyncIterator[SharedRow]:
        while not self._is_closed:
            for record in await self.poll(timeout_ms=ITERATION_POLL_MS):
                yield record

    # Choosing topics.

    def subscribe(self, topics: str | Iterable[str]) -> None:
        """Be given records of these topics, and of no others, from the next `poll` on."""
        self._check_usable()
        names = [topics] if isinstance(topics, str) else names_of(topics, "topics")
        self._metadata.set_topics(names)
        self._group.subscribe(frozenset(names))

    async def unsubscribe(self) -> None:
        """Leave the group. Records in hand can still be acknowledged."""
        self._check_usable()
        await self._group.leave(self._options.default_api_timeout_ms)
        self._group.member.subscribe_to_nothing()
        self._fetcher.set_places([])
        self._metadata.set_topics(())

    def subscription(self) -> frozenset[str]:
        """The topics that it is subscribed to."""
        return self._group.member.topics

    # Reading.

    async def poll(self, timeout_ms: float = 0) -> list[SharedRow]:
        """Records that are this member's now, or that become so within `timeout_ms`; an empty list if none do.

        >>> for record in await consumer.poll(timeout_ms=1000):
        ...     print(record.key, record.value, record.delivery_count)

        With implicit acknowledgement this accepts what the last poll returned; with explicit acknowledgement that must all have
        been acknowledged. Whole batches of the log are returned until there are `max_poll_records`. An application has to poll at
        least every `max_poll_interval_ms`.
        """
        rows = await self._poll(self._take_rows, self._in_hand.rows, timeout_ms)
        return [] if rows is None else rows

    async def poll_arrow(self, timeout_ms: float = 0) -> pa.RecordBatch | None:
        """What one fetch acquired of one partition as Arrow columns, `delivery_count` among them; None if nothing comes in time.

        >>> batch = await consumer.poll_arrow(timeout_ms=1000)
        >>> consumer.acknowledge(batch, AcknowledgeType.RELEASE)

        Deserializers see nothing of this.
        """
        require_arrow("poll_arrow")
        return await self._poll(self._take_columns, self._in_hand.columns, timeout_ms)

    async def _poll(self, take: Callable[[], T | None], renewed: Callable[[], T | None], timeout_ms: float) -> T | None:
        self._check_usable()
        await self._tell_outcomes()
        self._settle_last_poll()
        if not self._group.member.topics:
            raise ConsumerStateError("nothing to poll: subscribe to topics first")
        deadline_s = self._loop.time() + timeout_ms / 1000
        said = self._in_hand.take_said()
        is_fetching = False
        try:
            while True:
                self._waiting.begin_round()
                gives_up_s = self._waiting.gives_up_s()
                self._waiting.raise_if_woken()
                self._group.polled()
                self._raise_errors()
                self._take_in_renewals()
                self._in_hand.take_renewed()
                found = take() if not self._in_hand.has_renewals and not len(self._in_hand) else renewed()
                said = merged(said, self._in_hand.take_said() if not found else {})
                if found:
                    return found
                if not is_fetching or said:
                    is_fetching = True
                    riding, said = said, {}
                    self._fetcher.fetch(riding)
                if self._loop.time() >= deadline_s:
                    # An application that polls without waiting must still let the loop run.
                    await asyncio.sleep(0)
                    return None
                await self._waiting.wait(min(deadline_s, gives_up_s))
        finally:
            self._fetcher.acknowledge(said)
            self._raise_callback_error(await self._told_outcomes())

    def _settle_last_poll(self) -> None:
        if not self._options.is_explicit:
            self._in_hand.accept_all()
        elif not self._in_hand.is_settled:
            raise ConsumerStateError(
                "every record has to be acknowledged before the next poll, since share_acknowledgement_mode is explicit"
            )

    def _take_rows(self) -> list[SharedRow] | None:
        rows: list[SharedRow] = []
        count_max = self._options.max_poll_records
        while len(rows) < count_max and self._failure is None:
            acquired = self._next_acquired()
            if acquired is None:
                break
            origin = Origin(acquired.node_id, acquired.place)
            try:
                taken, gaps = acquired.take_rows(count_max - len(rows))
            except DamagedRecordsError as error:
                self._failure = _Failure(error, origin, error.ranges, AcknowledgeType.REJECT)
                break
            self._in_hand.add_rows(origin, (), gaps)
            delivered = self._finished(acquired, origin, taken)
            self._in_hand.add_rows(origin, delivered)
            rows = rows + delivered if rows else delivered
            if len(delivered) < len(taken):
                break
        if not rows:
            self._raise_failure()
        self._records_taken += len(rows)
        return rows

    def _finished(self, acquired: AcquiredPartition, origin: Origin, taken: list[SharedRow]) -> list[SharedRow]:
        """Deserialized, as far as that works. Those before one that does not are returned first, those behind it come next."""
        if not taken:
            return taken
        try:
            delivered = cast("list[SharedRow]", self._finish(cast("list[Row]", taken)))
        except SerializationError as error:
            failed, *behind = self._given_back
            self._failure = _Failure(error, origin, [(failed.offset, failed.offset)], AcknowledgeType.RELEASE)
            acquired.give_back(behind)
            self._given_back = []
            return []
        if self._given_back:
            acquired.give_back(self._given_back)
            self._given_back = []
        return delivered

    def _raise_failure(self) -> None:
        """Records that cannot be delivered are told of by a poll of their own, after which the application may say of them."""
        failure, self._failure = self._failure, None
        if failure is not None:
            self._in_hand.add_failed(failure.origin, failure.ranges, failure.kind)
            raise failure.error

    def _give_back(self, rows: list[Any]) -> None:
        self._given_back = rows

    def _take_columns(self) -> pa.RecordBatch | None:
        while self._failure is None and (acquired := self._next_acquired()) is not None:
            origin = Origin(acquired.node_id, acquired.place)
            try:
                batch, gaps = acquired.take_columns()
            except DamagedRecordsError as error:
                self._failure = _Failure(error, origin, error.ranges, AcknowledgeType.REJECT)
                break
            self._in_hand.add_columns(origin, batch, gaps)
            if batch is not None and batch.num_rows:
                self._records_taken += batch.num_rows
                return batch
        self._raise_failure()
        return None

    def _next_acquired(self) -> AcquiredPartition | None:
        waiting = self._fetcher.acquired
        while waiting and waiting[0].is_drained:
            waiting.popleft()
        return waiting[0] if waiting else None

    # Acknowledging.

    def acknowledge(self, records: SharedRow | pa.RecordBatch, kind: AcknowledgeType = AcknowledgeType.ACCEPT) -> None:
        """Say what becomes of a record, or of all rows of a batch, that the last poll returned: it is accepted unless said
        otherwise. With explicit acknowledgement only; the next poll or commit tells the cluster.

        >>> consumer.acknowledge(record, AcknowledgeType.RELEASE)
        """
        self._check_explicit()
        kind = AcknowledgeType(kind)
        if isinstance(records, SharedRecord):
            self._in_hand.acknowledge(TopicPartition(records.topic, records.partition), [records.offset], kind)
        elif records.num_rows:
            place = TopicPartition(records.column("topic")[0].as_py(), records.column("partition")[0].as_py())
            self._in_hand.acknowledge(place, offsets_of(records), kind)

    def acknowledge_failed(
        self, partition: tuple[str, int], offset: int, kind: AcknowledgeType = AcknowledgeType.ACCEPT
    ) -> None:
        """Say what becomes of a record that was not returned, since it could not be read: an error of the last poll has named it.
        Otherwise one that cannot be deserialized is released, and those of a damaged batch are rejected.

        >>> consumer.acknowledge_failed(("orders", 0), 7, AcknowledgeType.REJECT)
        """
        self._check_explicit()
        self._in_hand.acknowledge_failed(topic_partition(partition), offset, AcknowledgeType(kind))

    async def commit(self, timeout_ms: float | None = None) -> dict[TopicPartition, ClientError | None]:
        """Tell the cluster now what was said of records (with implicit acknowledgement: accept all that was returned), and wait
        until it has heard. For each partition None, or why it did not take it: InvalidRecordStateError where a lock had ended.

        >>> await consumer.commit()
        {TopicPartition(topic='orders', partition=0): None}
        """
        said = await self._to_commit()
        if not said:
            return {}
        limit_ms = self._options.default_api_timeout_ms if timeout_ms is None else timeout_ms
        try:
            heard = await self._fetcher.acknowledged_within(said, limit_ms)
        finally:
            self._raise_callback_error(await self._told_outcomes())
        made: dict[TopicPartition, ClientError | None] = {}
        for origin, error in heard.items():
            made[origin.place.partition] = made.get(origin.place.partition) or error
        return made

    async def commit_async(self) -> None:
        """Tell the cluster now what was said of records, without waiting. What becomes of it is told to the commit callback."""
        self._fetcher.acknowledge(await self._to_commit())

    async def _to_commit(self) -> Said:
        self._check_usable()
        await self._tell_outcomes()
        if not self._options.is_explicit:
            self._in_hand.accept_all()
        return self._in_hand.take_said()

    def set_acknowledgement_commit_callback(self, callback: CommitCallback | None) -> None:
        """Have `callback(offsets, error)` told, in later calls of `poll`, `commit` and `close`, of each partition what became of
        what was said: the offsets by partition, and None or why the leader did not take it. It must not use the consumer."""
        self._check_usable()
        self._callback = callback

    @property
    def acquisition_lock_timeout_ms(self) -> int | None:
        """How long a record is this member's, as the brokers said last; None before the first records."""
        return self._fetcher.lock_timeout_ms

    # What the parts tell.

    def _take_in_renewals(self) -> None:
        for outcome in self._fetcher.outcomes:
            self._in_hand.answered(outcome.origin, outcome.said, is_refused=outcome.error is not None)

    async def _tell_outcomes(self) -> None:
        self._raise_callback_error(await self._told_outcomes())

    async def _told_outcomes(self) -> Exception | None:
        """The first thing that the callback raises, once it was told all."""
        self._take_in_renewals()
        failure: Exception | None = None
        outcomes = self._fetcher.outcomes
        while outcomes:
            origin, said, error = outcomes.popleft()
            callback = self._callback
            if callback is None:
                continue
            self._is_in_callback = True
            try:
                await self._run_callback(_bound(callback, {origin.place.partition: said.offsets}, error))
            except Exception as raised:  # noqa: BLE001 - anything that an application may raise
                failure = failure or raised
            finally:
                self._is_in_callback = False
        return failure

    def _raise_callback_error(self, error: Exception | None) -> None:
        if error is not None:
            raise error

    def _group_changed(self) -> None:
        self._fetcher.set_places(self._group.places())
        if self._group.error is not None:
            self._waiting.news()

    def _metadata_changed(self) -> None:
        if self._metadata.error is not None:
            # For whoever polls: the cluster does not let this client in.
            self._waiting.news()
        for name in sorted(self._group.member.topics):
            topic = self._metadata.topics.get(name)
            if topic is not None and topic.error in _HOPELESS:
                self._fetcher.errors.append(refusal(topic.error, None, about=f"topic {name}"))
                self._waiting.news()
        self._fetcher.set_places(self._group.places())

    def _raise_errors(self) -> None:
        error = self._metadata.take_authentication_error() or self._group.take_error()
        if error is not None:
            raise error
        if self._fetcher.errors:
            raise self._fetcher.errors.popleft()

    def _check_usable(self) -> None:
        if self._is_closed:
            raise ClosedError("the consumer is closed")
        if self._is_in_callback:
            raise ConsumerStateError("the consumer cannot be used from its acknowledgement commit callback")

    def _check_explicit(self) -> None:
        self._check_usable()
        if not self._options.is_explicit:
            raise ConsumerStateError(
                "records are accepted by the next poll or commit; to acknowledge them, make the consumer with "
                "share_acknowledgement_mode='explicit'"
            )

    def metrics(self) -> dict[str, float]:
        """What this consumer has done so far."""
        return {
            "messaging.client.consumed.messages": self._records_taken,
            "messaging.kafka.consumer.bytes": self._fetcher.bytes_fetched,
            "messaging.kafka.consumer.fetches": self._fetcher.fetches_sent,
            "messaging.kafka.consumer.acknowledged": self._fetcher.records_acknowledged,
        }

    # The end.

    async def close(self, timeout_ms: float = CLOSE_TIMEOUT_MS) -> None:
        """Tell the cluster what was said of records, release all others that this member holds, leave the group, disconnect.

        This accepts nothing, also with implicit acknowledgement: `commit` first what the last poll returned, where it is done.
        """
        if self._is_closed:
            return
        failure: Exception | None = None
        try:
            await self._fetcher.close(self._in_hand.take_said(), timeout_ms)
            failure = await self._told_outcomes()
            await self._group.leave(timeout_ms)
        finally:
            self._is_closed = True
            self._fetcher.stop()
            self._group.stop()
            self._metadata.close()
            self._connections.close()
            self._waiting.news()
        self._raise_callback_error(failure)


def _bound(
    callback: CommitCallback, offsets: Mapping[TopicPartition, frozenset[int]], error: ClientError | None
) -> Callable[[], object]:
    return lambda: callback(offsets, error)
