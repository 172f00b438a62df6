"""The consumer for asyncio; `Consumer` is the same for threads.

    poll ── group: callbacks, joins        (only here do partitions come and go)
         ── auto commit of what earlier polls returned
         ── positions: a round for those that have none
         ── take what has been fetched, and see that more is

Between two calls of the application fetches, heartbeats and rounds of positions go on by themselves.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Self, TypeVar

from tidelog.client.arrow_extra import require_arrow
from tidelog.client.closing import AsyncClosedAtExit
from tidelog.client.cluster_metadata import ClusterMetadata
from tidelog.client.connections import Connections
from tidelog.client.consumer.blocking import CLOSE_TIMEOUT_MS
from tidelog.client.consumer.callbacks import call_here
from tidelog.client.consumer.classic_group import ClassicGroup
from tidelog.client.consumer.committed_offsets import CommittedOffsets
from tidelog.client.consumer.consumer_group import ConsumerGroup
from tidelog.client.consumer.errors import ConsumerStateError
from tidelog.client.consumer.fetched_partition import Row
from tidelog.client.consumer.fetcher import Fetcher
from tidelog.client.consumer.group import GroupParts
from tidelog.client.consumer.membership import CallbackListener, RebalanceListener
from tidelog.client.consumer.offset_commits import OffsetCommits, Told
from tidelog.client.consumer.offset_lookup import OffsetLookup
from tidelog.client.consumer.options import ConsumerOptions
from tidelog.client.consumer.poll_waiting import PollWaiting
from tidelog.client.consumer.positions import Positions
from tidelog.client.consumer.records import (
    GroupMetadata,
    OffsetAndMetadata,
    OffsetAndTimestamp,
    Offsets,
)
from tidelog.client.consumer.row_delivery import RowDelivery
from tidelog.client.consumer.subscription import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, Mode, Subscription
from tidelog.client.consumer.topic_partition import TopicPartition, topic_partition, topic_partitions
from tidelog.client.coordinators import Coordinators
from tidelog.client.errors import (
    ClosedError,
    ConfigError,
    TimedOutError,
    refusal,
)
from tidelog.client.given_names import given_topics, names_of
from tidelog.client.options import parse_options
from tidelog.client.seams import ClientSeams
from tidelog.model.errors import ErrorCode
from tidelog.model.internal_topics import is_bookkeeping

if TYPE_CHECKING:
    import pyarrow as pa

log = logging.getLogger(__name__)

T = TypeVar("T")
Partition = tuple[str, int]

# Errors of a topic that are not retriable: the application has to be told.
_HOPELESS = frozenset({ErrorCode.INVALID_TOPIC_EXCEPTION, ErrorCode.TOPIC_AUTHORIZATION_FAILED})
# An iteration polls again and again; this is only how long one poll of it waits.
_ITERATION_POLL_MS = 60_000


class AsyncConsumer(AsyncClosedAtExit):
    """Reads records of any Kafka cluster, alone or as a member of a group.

    >>> async with AsyncConsumer("orders", bootstrap_servers="127.0.0.1:9092", group_id="billing") as consumer:
    ...     async for record in consumer:
    ...         print(record.partition, record.offset, record.value)

    Topics given here are subscribed to. The options are those of `ConsumerOptions`: Kafka's names in Python's spelling. Lives on
    the loop that runs when it is made. One task at a time may use it.
    """

    def __init__(self, *topics: str, **options: Any) -> None:
        parsed = parse_options(ConsumerOptions, options)
        self._start(ClientSeams.of(asyncio.get_running_loop()), parsed, call_here)
        if topics:
            self.subscribe(given_topics(topics))

    @classmethod
    def _on(
        cls,
        seams: ClientSeams,
        options: ConsumerOptions,
        run_callback: Callable[[Callable[[], object]], Awaitable[object]] | None = None,
    ) -> Self:
        """For the blocking front and for the simulator: other seams, and another place where callbacks run."""
        self = cls.__new__(cls)
        self._start(seams, options, run_callback or call_here)
        return self

    def _start(
        self,
        seams: ClientSeams,
        options: ConsumerOptions,
        run_callback: Callable[[Callable[[], object]], Awaitable[object]],
    ) -> None:
        options.check_together()
        self._options = options
        self._seams = seams
        self._loop = seams.loop
        self._run_callback = run_callback
        self._subscription = Subscription()
        self._connections = Connections(seams, options)
        self._waiting = PollWaiting(self._loop, self._connections, options.default_api_timeout_ms)
        self._news = self._waiting.news
        self._metadata = ClusterMetadata(
            seams, self._connections, options, allow_auto_topic_creation=options.allow_auto_create_topics
        )
        self._metadata.on_change(self._metadata_changed)
        self._coordinators = Coordinators(seams, self._connections, self._metadata, options)
        self._lookup = OffsetLookup(
            seams, self._connections, self._metadata, options, reads_committed=options.reads_committed
        )
        committed: CommittedOffsets | None = None
        self._group: ClassicGroup | ConsumerGroup | None = None
        if options.group_id is not None:
            committed = CommittedOffsets(
                seams, self._connections, self._coordinators, self._metadata, options, options.group_id
            )
            parts = GroupParts(
                seams,
                self._connections,
                self._coordinators,
                self._metadata,
                self._subscription,
                options,
                self,
                self._news,
            )
            self._group = ConsumerGroup(parts) if options.group_protocol == "consumer" else ClassicGroup(parts)
        self._commits = OffsetCommits(self._loop, self._subscription, committed, self._group, options)
        self._finished = RowDelivery(
            options,
            self._subscription.go_back,
            interceptors=options.interceptors,
            remedy="seek behind it to go on",
        ).finish
        self._fetcher = Fetcher(seams, self._connections, self._metadata, self._subscription, options, self._news)
        self._positions = Positions(
            seams,
            self._subscription,
            self._lookup,
            committed,
            self._commits.fetch_committer,
            options,
            self._has_leader,
            self._news,
        )
        self._listener: RebalanceListener | None = None
        self._callback_error: Exception | None = None
        self._is_closed = False

    async def __aiter__(self) -> AsyncIterator[Row]:
        while not self._is_closed:
            for record in await self.poll(timeout_ms=_ITERATION_POLL_MS):
                yield record

    # Choosing partitions.

    def subscribe(
        self,
        topics: str | Iterable[str] = (),
        *,
        pattern: str | re.Pattern[str] | None = None,
        listener: RebalanceListener | None = None,
        on_assigned: Callable[[list[TopicPartition]], object] | None = None,
        on_revoked: Callable[[list[TopicPartition]], object] | None = None,
        on_lost: Callable[[list[TopicPartition]], object] | None = None,
    ) -> None:
        """Share the partitions of these topics with the other members of the group, from the next `poll` on.

        >>> consumer.subscribe(["orders", "payments"], on_assigned=print)
        >>> consumer.subscribe(pattern="metrics[.].*")

        A `pattern` matches whole names: with `group_protocol="classic"` it is Python's and matched here, with `"consumer"`
        it is RE2's and matched by the coordinator. A listener, or the functions given, hear of partitions that come and go.

        Without a group all partitions are this consumer's, also those that the topics get later: these are read from their
        beginning, the others from where `auto_offset_reset` says. Nobody is to be listened to then.
        """
        self._check_open()
        if self._group is None and (listener or on_assigned or on_revoked or on_lost):
            raise ConfigError("without a group_id all partitions are this consumer's: there is nothing to listen to")
        if listener is not None and (on_assigned or on_revoked or on_lost):
            raise ConfigError("give a listener or functions, not both")
        names = [topics] if isinstance(topics, str) else names_of(topics, "topics")
        if bool(names) == (pattern is not None):
            raise ConfigError("subscribe to topics by name, or to those that match a pattern")
        if pattern is None:
            changed = self._subscription.subscribe(names)
            self._metadata.add_topics(names)
        elif self._options.group_protocol == "consumer" and self._group is not None:
            written = pattern if isinstance(pattern, str) else pattern.pattern
            changed = self._subscription.subscribe_server_pattern(written)
        else:
            changed = self._subscription.subscribe_pattern(re.compile(pattern))
            self._metadata.want_all_topics()
            self._match_pattern()
        self._listener = listener or CallbackListener(on_assigned, on_revoked, on_lost)
        if self._group is None:
            self._take_whole_topics()
        elif changed:
            self._group.subscription_changed()

    def assign(self, partitions: Iterable[Partition]) -> None:
        """Read exactly these partitions, whatever others do. What was assigned before keeps its position.

        >>> consumer.assign([("orders", 0), ("orders", 1)])
        """
        self._check_open()
        wanted = topic_partitions(partitions)
        self._subscription.assign(wanted)
        self._metadata.set_topics({each.topic for each in wanted})

    async def unsubscribe(self) -> None:
        """Give up all partitions, and leave the group."""
        self._check_open()
        await self._leave(self._options.default_api_timeout_ms)
        self._subscription.unsubscribe()
        self._metadata.want_all_topics(False)
        self._metadata.set_topics(())
        self._raise_callback_error()

    def assignment(self) -> frozenset[TopicPartition]:
        """The partitions that this consumer reads at the moment."""
        return self._subscription.assignment

    def subscription(self) -> frozenset[str]:
        """The topics that it is subscribed to, or that its pattern matches."""
        return self._subscription.topics

    def group_metadata(self) -> GroupMetadata:
        """Who this consumer is in its group, for a transactional producer."""
        if self._group is None or self._options.group_id is None:
            raise ConsumerStateError("a consumer without a group_id is in no group")
        committer = self._group.committer()
        return GroupMetadata(
            self._options.group_id, committer.generation_id, committer.member_id, self._options.group_instance_id
        )

    # Reading.

    async def poll(self, timeout_ms: float = 0, max_records: int | None = None) -> list[Row]:
        """Records that are there, or that come within `timeout_ms`; an empty list if none do.

        >>> for record in await consumer.poll(timeout_ms=1000):
        ...     print(record.key, record.value)

        Up to `max_records`, or `max_poll_records`. Rebalances, callbacks and automatic commits happen here, so that an
        application in a group has to poll at least every `max_poll_interval_ms`. A node that is gone is waited for; TimedOutError
        where no bootstrap server was ever reached, after `default_api_timeout_ms` of polling.
        """
        count_max = self._options.max_poll_records if max_records is None else max_records
        rows = await self._poll(lambda: self._fetcher.take_rows(count_max), timeout_ms)
        return [] if rows is None else self._finished(rows)

    async def poll_arrow(self, timeout_ms: float = 0) -> pa.RecordBatch | None:
        """The records of one fetch of one partition as Arrow columns (see `arrow_records`); None if none come in time.

        >>> batch = await consumer.poll_arrow(timeout_ms=1000)

        Deserializers and interceptors see nothing of this.
        """
        require_arrow("poll_arrow")
        from tidelog.client.consumer.arrow_records import with_place  # noqa: PLC0415 - pyarrow is an extra

        taken = await self._poll(self._fetcher.take_columns, timeout_ms)
        return None if taken is None else with_place(*taken)

    async def _poll(self, take: Callable[[], T | None], timeout_ms: float) -> T | None:
        self._check_open()
        if self._subscription.mode is Mode.NONE:
            raise ConsumerStateError("nothing to poll: subscribe to topics or assign partitions first")
        deadline_s = self._loop.time() + timeout_ms / 1000
        while True:
            self._waiting.begin_round()
            gives_up_s = self._waiting.gives_up_s()
            self._waiting.raise_if_woken()
            if self._group is not None and self._subscription.uses_group:
                self._group.polled()
                if self._group.needs_attention:
                    await self._group.advance()
                    self._raise_callback_error()
            self._commits.commit_if_due()
            self._raise_errors()
            self._positions.begin_round()
            taken = take()
            self._fetcher.send_fetches()
            if taken:
                return taken
            if self._loop.time() >= deadline_s:
                # An application that polls without waiting must still let the loop run.
                await asyncio.sleep(0)
                return None
            await self._waiting.wait(min(deadline_s, gives_up_s))

    @property
    def _can_take_directly(self) -> bool:
        """Whether a blocking application may take records on its own thread: nothing else is due on the loop."""
        return (
            self._fetcher.has_data
            and not self._is_closed
            and not self._waiting.was_woken
            and not self._fetcher.errors
            and not self._positions.errors
            and (self._group is None or not self._group.needs_attention)
            and not self._commits.is_due
        )

    def pause(self, *partitions: Partition) -> None:
        """Return no records of these until `resume`; the consumer stays in its group all the while."""
        for each in partitions:
            self._subscription.of(each).is_paused = True

    def resume(self, *partitions: Partition) -> None:
        """Go on with partitions that were paused."""
        for each in partitions:
            self._subscription.of(each).is_paused = False
        self._fetcher.resume()
        self._fetcher.send_fetches()

    def paused(self) -> frozenset[TopicPartition]:
        return frozenset(each.partition for each in self._subscription if each.is_paused)

    # Positions.

    def seek(self, partition: Partition, offset: int | OffsetAndMetadata) -> None:
        """Go on from this offset.

        >>> consumer.seek(("orders", 0), 42)
        """
        known = offset if isinstance(offset, OffsetAndMetadata) else OffsetAndMetadata(offset)
        if known.offset < 0:
            raise ConfigError(f"the offset {known.offset} is negative; see seek_to_beginning and seek_to_end")
        self._subscription.of(partition).seek(known.offset, known.leader_epoch)
        self._news()

    def seek_to_beginning(self, *partitions: Partition) -> None:
        """Go on from the first offset that there is; of all assigned partitions where none is named."""
        self._reset(partitions, EARLIEST_TIMESTAMP)

    def seek_to_end(self, *partitions: Partition) -> None:
        """Go on with what comes after the last record that there is."""
        self._reset(partitions, LATEST_TIMESTAMP)

    def seek_to_time(self, timestamp_ms: int, *partitions: Partition) -> None:
        """Go on from the first record that is not older than this; at the end where all are."""
        if timestamp_ms < 0:
            raise ConfigError(f"the time {timestamp_ms} is negative; it is in milliseconds since 1970")
        self._reset(partitions, timestamp_ms)

    def _reset(self, partitions: Iterable[Partition], timestamp: int) -> None:
        for each in list(partitions) or self._subscription.assignment:
            self._subscription.of(each).await_reset(timestamp)
        self._news()

    async def position(self, partition: Partition, timeout_ms: float | None = None) -> int:
        """The offset of the next record that `poll` returns of a partition, found out where needed."""
        assigned = self._subscription.of(partition)
        deadline_s = self._deadline_s(timeout_ms)
        while not assigned.has_position:
            self._raise_errors()
            self._waiting.begin_round()
            self._positions.begin_round()
            if self._loop.time() >= deadline_s:
                reason = self._connections.because(self._metadata.error)
                raise TimedOutError(f"the position of {assigned.partition} was not found in time{reason}")
            await self._waiting.wait(deadline_s)
            assigned = self._subscription.of(partition)
        return assigned.position

    async def committed(
        self, partitions: Iterable[Partition] | None = None, timeout_ms: float | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """What the group has committed for these partitions (all assigned ones where none are named); None for nothing."""
        self._check_open()
        wanted = self._subscription.assignment if partitions is None else frozenset(topic_partitions(partitions))
        if not wanted:
            return {}
        return await self._commits.of_group().fetch(
            sorted(wanted), self._commits.fetch_committer, self._timeout_ms(timeout_ms)
        )

    async def lag(self, partition: Partition, timeout_ms: float | None = None) -> int:
        """How many offsets lie between the position and the end of a partition."""
        assigned = self._subscription.of(partition)
        position = await self.position(partition, timeout_ms)
        known = assigned.lag(reads_committed=self._options.reads_committed)
        if known is not None:
            return known
        ends = await self.end_offsets([partition], timeout_ms)
        return max(0, ends[assigned.partition] - position)

    async def beginning_offsets(
        self, partitions: Iterable[Partition], timeout_ms: float | None = None
    ) -> dict[TopicPartition, int]:
        """The first offset that each partition has. RefusedError for one that is not there."""
        return await self._ends(partitions, EARLIEST_TIMESTAMP, timeout_ms)

    async def end_offsets(
        self, partitions: Iterable[Partition], timeout_ms: float | None = None
    ) -> dict[TopicPartition, int]:
        """The offset that the next record of each partition will get; with `read_committed`, that of the first open one."""
        return await self._ends(partitions, LATEST_TIMESTAMP, timeout_ms)

    async def _ends(
        self, partitions: Iterable[Partition], timestamp: int, timeout_ms: float | None
    ) -> dict[TopicPartition, int]:
        self._check_open()
        wanted = dict.fromkeys(topic_partitions(partitions), timestamp)
        found = await self._lookup.list_existing(wanted, self._timeout_ms(timeout_ms))
        return {partition: each.offset for partition, each in found.items() if each is not None}

    async def offsets_for_times(
        self, timestamps_ms: Mapping[Partition, int], timeout_ms: float | None = None
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """The first record of each partition that is not older than a time; None where all are."""
        self._check_open()
        wanted = {topic_partition(partition): each for partition, each in timestamps_ms.items()}
        return await self._lookup.list_existing(wanted, self._timeout_ms(timeout_ms))

    async def partitions_for(self, topic: str, timeout_ms: float | None = None) -> list[TopicPartition]:
        """The partitions of a topic."""
        self._check_open()
        known = await self._metadata.topic(topic, self._timeout_ms(timeout_ms))
        return [TopicPartition(topic, each.index) for each in known.partitions]

    # Committing.

    async def commit(self, offsets: Offsets | None = None, timeout_ms: float | None = None) -> None:
        """Commit these offsets, or those of all that polls have returned; returns when the group has them.

        >>> await consumer.commit({("orders", 0): 42})
        """
        self._check_open()
        await self._commits.commit(offsets, self._timeout_ms(timeout_ms))

    def commit_async(
        self,
        offsets: Offsets | None = None,
        on_done: Told | None = None,
    ) -> None:
        """Commit without waiting. `on_done` hears how it went."""
        self._check_open()
        self._commits.commit_soon(offsets, on_done)

    def consumed_offsets(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """The offsets behind all that polls have returned: what `commit` commits, for a producer that does it instead.

        >>> await producer.send_offsets_to_transaction(consumer.consumed_offsets(), consumer.group_metadata())
        """
        return self._commits.consumed()

    # What the group asks for.

    async def before_revoke(self) -> None:
        """Commit what was read before partitions go, where that is automatic."""
        await self._commits.commit_before_revoke()

    async def tell_assigned(self, partitions: list[TopicPartition]) -> None:
        if self._listener is not None:
            await self._tell(self._listener.on_partitions_assigned, partitions)

    async def tell_revoked(self, partitions: list[TopicPartition]) -> None:
        if self._listener is not None:
            await self._tell(self._listener.on_partitions_revoked, partitions)

    async def tell_lost(self, partitions: list[TopicPartition]) -> None:
        if self._listener is not None:
            await self._tell(self._listener.on_partitions_lost, partitions)

    async def _tell(self, callback: Callable[[list[TopicPartition]], object], partitions: list[TopicPartition]) -> None:
        """Run a callback of the application. What it raises comes out of the call that it runs in, once all is in order."""
        try:
            await self._run_callback(lambda: callback(partitions))
        except Exception as error:  # noqa: BLE001 - anything that an application may raise
            self._callback_error = self._callback_error or error

    def _raise_callback_error(self) -> None:
        error, self._callback_error = self._callback_error, None
        if error is not None:
            raise error

    # Metrics.

    def metrics(self) -> dict[str, float | dict[TopicPartition, int]]:
        """What this consumer has done so far, and its lag where that is known.

        >>> consumer.metrics()["messaging.kafka.consumer.lag"]
        {TopicPartition(topic='orders', partition=0): 12}
        """
        reads_committed = self._options.reads_committed
        lags = {each.partition: each.lag(reads_committed=reads_committed) for each in self._subscription}
        return {
            "messaging.client.consumed.messages": self._fetcher.records_taken,
            "messaging.kafka.consumer.bytes": self._fetcher.bytes_fetched,
            "messaging.kafka.consumer.fetches": self._fetcher.fetches_sent,
            "messaging.kafka.consumer.assigned_partitions": len(self._subscription),
            "messaging.kafka.consumer.lag": {each: lag for each, lag in lags.items() if lag is not None},
        }

    # The end.

    async def close(self, timeout_ms: float = CLOSE_TIMEOUT_MS) -> None:
        """Commit where that is automatic, give up the partitions, leave the group (a static member stays in it), disconnect."""
        if self._is_closed:
            return
        try:
            await self._leave(timeout_ms)
        finally:
            self._is_closed = True
            self._positions.stop()
            self._commits.stop()
            self._fetcher.close()
            if self._group is not None:
                self._group.stop()
            self._metadata.close()
            self._connections.close()
            self._news()
        self._raise_callback_error()

    async def _leave(self, timeout_ms: float) -> None:
        if self._group is None:
            return
        if self._commits.is_automatic and len(self._subscription):
            try:
                async with asyncio.timeout(timeout_ms / 1000):
                    await self.before_revoke()
            except TimeoutError:
                log.warning("offsets were not committed within %d ms", timeout_ms)
        if self._subscription.uses_group:
            await self._group.leave(timeout_ms)

    # What the parts ask and tell.

    def _has_leader(self, partition: TopicPartition) -> bool:
        assigned, topic = self._subscription.get(partition), self._metadata.topics.get(partition.topic)
        if assigned is not None and topic is not None:
            # Before it has a position, so that a topic that takes this one's place does not inherit that.
            assigned.is_of(topic.id)
        return topic is not None and topic.leader_of(partition.partition) is not None

    def _metadata_changed(self) -> None:
        if self._metadata.error is not None:
            # For whoever polls: the cluster does not let this client in.
            self._news()
        topics = self._metadata.topics
        for each in self._subscription:
            if (topic := topics.get(each.partition.topic)) is not None:
                each.is_of(topic.id)
        if self._subscription.mode is Mode.PATTERN and self._match_pattern() and self._group is not None:
            self._group.subscription_changed()
            self._news()
        if self._group is None and self._subscription.uses_group:
            self._take_whole_topics()
        self._subscription.leaders_changed(
            {
                each.partition: topic.partitions[each.partition.partition].leader_epoch
                for each in self._subscription
                if (topic := topics.get(each.partition.topic)) is not None
                and each.partition.partition < len(topic.partitions)
            }
        )
        for name in sorted(self._subscription.topics | self._subscription.assigned_topics):
            topic = topics.get(name)
            if topic is not None and topic.error in _HOPELESS:
                self._positions.errors.append(refusal(topic.error, None, about=f"topic {name}"))
                self._news()
        self._fetcher.send_fetches()
        self._positions.begin_round()

    def _take_whole_topics(self) -> None:
        """Without a group: all partitions of the topics that are subscribed to, as far as the metadata tells."""
        subscription, topics = self._subscription, self._metadata.topics
        wanted = {
            TopicPartition(name, each.index)
            for name in subscription.topics
            if (topic := topics.get(name)) is not None
            for each in topic.partitions
        }
        had, known = subscription.assignment, subscription.assigned_topics
        if wanted == had:
            return
        subscription.share_out(wanted)
        for partition in sorted(wanted - had):
            assigned = subscription.of(partition)
            assigned.is_of(topics[partition.topic].id)
            if partition.topic in known:
                # It was not there when the topic was begun with: nothing of it has been passed over.
                assigned.await_reset(EARLIEST_TIMESTAMP)
        self._news()

    def _match_pattern(self) -> bool:
        internal_too = not self._options.exclude_internal_topics
        return self._subscription.match(
            name
            for name, topic in self._metadata.topics.items()
            if topic.partitions and (internal_too or not (topic.is_internal or is_bookkeeping(name)))
        )

    def _raise_errors(self) -> None:
        not_let_in = self._metadata.take_authentication_error()
        if not_let_in is not None:
            raise not_let_in
        for errors in (self._fetcher.errors, self._positions.errors):
            if errors:
                raise errors.popleft()

    def _check_open(self) -> None:
        if self._is_closed:
            raise ClosedError("the consumer is closed")

    def _timeout_ms(self, timeout_ms: float | None) -> float:
        return self._options.default_api_timeout_ms if timeout_ms is None else timeout_ms

    def _deadline_s(self, timeout_ms: float | None) -> float:
        return self._loop.time() + self._timeout_ms(timeout_ms) / 1000
