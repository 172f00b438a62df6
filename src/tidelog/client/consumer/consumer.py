"""The consumer for threads: `AsyncConsumer` on the background loop.

A poll that finds records waiting takes them right here, without the loop: one hand-over for each fetch, not for each poll. All
else is a call to the loop that waits.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from tidelog.client.arrow_extra import require_arrow
from tidelog.client.consumer.async_consumer import AsyncConsumer, Partition
from tidelog.client.consumer.blocking import CLOSE_TIMEOUT_MS, BlockingConsumer
from tidelog.client.consumer.fetched_partition import Row
from tidelog.client.consumer.membership import RebalanceListener
from tidelog.client.consumer.options import ConsumerOptions
from tidelog.client.consumer.records import GroupMetadata, OffsetAndMetadata, OffsetAndTimestamp, Offsets
from tidelog.client.consumer.topic_partition import TopicPartition
from tidelog.client.errors import ClientError
from tidelog.client.given_names import given_topics
from tidelog.client.options import parse_options
from tidelog.client.seams import ClientSeams

if TYPE_CHECKING:
    import pyarrow as pa

_ITERATION_POLL_MS = 60_000


class Consumer(BlockingConsumer):
    """Reads records of any Kafka cluster, alone or as a member of a group.

    >>> with Consumer("orders", bootstrap_servers="127.0.0.1:9092", group_id="billing") as consumer:
    ...     for record in consumer:
    ...         print(record.partition, record.offset, record.value)

    Topics given here are subscribed to. The options are those of `ConsumerOptions`: Kafka's names in Python's spelling. One
    thread at a time may use it; only `wakeup` may come from another one.
    """

    def __init__(self, *topics: str, **options: Any) -> None:
        parsed = parse_options(ConsumerOptions, options)
        parsed.check_together()

        async def start() -> None:
            loop = asyncio.get_running_loop()
            self._core = AsyncConsumer._on(ClientSeams.of(loop), parsed, self._run_callback)  # noqa: SLF001
            if topics:
                self._core.subscribe(given_topics(topics))

        super().__init__(start)

    def __iter__(self) -> Iterator[Row]:
        while not self._is_closed:
            yield from self.poll(timeout_ms=_ITERATION_POLL_MS)

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
        """See `AsyncConsumer.subscribe`. Callbacks run on the thread that polls, and may use the consumer.

        >>> consumer.subscribe(["orders"], on_assigned=lambda partitions: consumer.seek_to_beginning(*partitions))
        """
        self._call(
            lambda: self._core.subscribe(
                topics,
                pattern=pattern,
                listener=listener,
                on_assigned=on_assigned,
                on_revoked=on_revoked,
                on_lost=on_lost,
            )
        )

    def assign(self, partitions: Iterable[Partition]) -> None:
        """Read exactly these partitions, whatever others do.

        >>> consumer.assign([("orders", 0), ("orders", 1)])
        """
        self._call(lambda: self._core.assign(partitions))

    def unsubscribe(self) -> None:
        """Give up all partitions, and leave the group."""
        self._run(self._core.unsubscribe())

    def assignment(self) -> frozenset[TopicPartition]:
        """The partitions that this consumer reads at the moment."""
        return self._core.assignment()

    def subscription(self) -> frozenset[str]:
        """The topics that it is subscribed to, or that its pattern matches."""
        return self._core.subscription()

    def group_metadata(self) -> GroupMetadata:
        """Who this consumer is in its group, for a transactional producer."""
        return self._call(self._core.group_metadata)

    # Reading.

    def poll(self, timeout_ms: float = 0, max_records: int | None = None) -> list[Row]:
        """Records that are there, or that come within `timeout_ms`; an empty list if none do. See `AsyncConsumer.poll`.

        >>> for record in consumer.poll(timeout_ms=1000):
        ...     print(record.key, record.value)
        """
        core = self._core
        with self._acquired():
            if core._can_take_directly:  # noqa: SLF001 - two halves of one class
                rows = self._take_directly(
                    core._options.max_poll_records if max_records is None else max_records  # noqa: SLF001
                )
                if rows:
                    return rows
            return self._run(core.poll(timeout_ms, max_records))

    def _take_directly(self, count_max: int) -> list[Row]:
        fetcher = self._core._fetcher  # noqa: SLF001
        if self._core._group is not None:  # noqa: SLF001
            self._core._group.polled()  # noqa: SLF001
        read_before = fetcher.bytes_read
        rows = fetcher.take_rows(count_max)
        if fetcher.bytes_read != read_before:
            self._background.loop.call_soon_threadsafe(fetcher.send_fetches)
        return self._finished(rows) if rows else rows

    def _finished(self, rows: list[Row]) -> list[Row]:
        options = self._core._options  # noqa: SLF001
        if options.key_deserializer is None and options.value_deserializer is None and not options.interceptors:
            return rows
        return self._call(lambda: self._core._finished(rows))  # noqa: SLF001

    def poll_arrow(self, timeout_ms: float = 0) -> pa.RecordBatch | None:
        """The records of one fetch of one partition as Arrow columns; None if none come in time.

        >>> batch = consumer.poll_arrow(timeout_ms=1000)
        """
        require_arrow("poll_arrow")
        core = self._core
        with self._acquired():
            if core._can_take_directly:  # noqa: SLF001
                from tidelog.client.consumer.arrow_records import with_place  # noqa: PLC0415 - pyarrow is an extra

                fetcher = core._fetcher  # noqa: SLF001
                if core._group is not None:  # noqa: SLF001
                    core._group.polled()  # noqa: SLF001
                taken = fetcher.take_columns()
                self._background.loop.call_soon_threadsafe(fetcher.send_fetches)
                if taken is not None:
                    return with_place(*taken)
            return self._run(core.poll_arrow(timeout_ms))

    def wakeup(self) -> None:
        """From another thread: the call that waits, or else the next `poll`, raises WakeupError."""
        if not self._is_closed:
            self._background.loop.call_soon_threadsafe(self._core._waiting.wake_up)  # noqa: SLF001

    def pause(self, *partitions: Partition) -> None:
        """Return no records of these until `resume`; the consumer stays in its group all the while."""
        self._call(lambda: self._core.pause(*partitions))

    def resume(self, *partitions: Partition) -> None:
        """Go on with partitions that were paused."""
        self._call(lambda: self._core.resume(*partitions))

    def paused(self) -> frozenset[TopicPartition]:
        return self._core.paused()

    # Positions.

    def seek(self, partition: Partition, offset: int | OffsetAndMetadata) -> None:
        """Go on from this offset.

        >>> consumer.seek(("orders", 0), 42)
        """
        self._call(lambda: self._core.seek(partition, offset))

    def seek_to_beginning(self, *partitions: Partition) -> None:
        """Go on from the first offset that there is; of all assigned partitions where none is named."""
        self._call(lambda: self._core.seek_to_beginning(*partitions))

    def seek_to_end(self, *partitions: Partition) -> None:
        """Go on with what comes after the last record that there is."""
        self._call(lambda: self._core.seek_to_end(*partitions))

    def seek_to_time(self, timestamp_ms: int, *partitions: Partition) -> None:
        """Go on from the first record that is not older than this; at the end where all are."""
        self._call(lambda: self._core.seek_to_time(timestamp_ms, *partitions))

    def position(self, partition: Partition, timeout_ms: float | None = None) -> int:
        """The offset of the next record that `poll` returns of a partition, found out where needed."""
        return self._run(self._core.position(partition, timeout_ms))

    def committed(
        self, partitions: Iterable[Partition] | None = None, timeout_ms: float | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """What the group has committed for these partitions (all assigned ones where none are named); None for nothing."""
        return self._run(self._core.committed(partitions, timeout_ms))

    def lag(self, partition: Partition, timeout_ms: float | None = None) -> int:
        """How many offsets lie between the position and the end of a partition."""
        return self._run(self._core.lag(partition, timeout_ms))

    def beginning_offsets(
        self, partitions: Iterable[Partition], timeout_ms: float | None = None
    ) -> dict[TopicPartition, int]:
        """The first offset that each partition has."""
        return self._run(self._core.beginning_offsets(partitions, timeout_ms))

    def end_offsets(
        self, partitions: Iterable[Partition], timeout_ms: float | None = None
    ) -> dict[TopicPartition, int]:
        """The offset that the next record of each partition will get."""
        return self._run(self._core.end_offsets(partitions, timeout_ms))

    def offsets_for_times(
        self, timestamps_ms: Mapping[Partition, int], timeout_ms: float | None = None
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """The first record of each partition that is not older than a time; None where all are."""
        return self._run(self._core.offsets_for_times(timestamps_ms, timeout_ms))

    def partitions_for(self, topic: str, timeout_ms: float | None = None) -> list[TopicPartition]:
        """The partitions of a topic."""
        return self._run(self._core.partitions_for(topic, timeout_ms))

    # Committing.

    def commit(self, offsets: Offsets | None = None, timeout_ms: float | None = None) -> None:
        """Commit these offsets, or those of all that polls have returned; returns when the group has them.

        >>> consumer.commit({("orders", 0): 42})
        """
        self._run(self._core.commit(offsets, timeout_ms))

    def consumed_offsets(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """The offsets behind all that polls have returned: what `commit` commits, for a producer that does it instead.

        >>> producer.send_offsets_to_transaction(consumer.consumed_offsets(), consumer.group_metadata())
        """
        return self._call(self._core.consumed_offsets)

    def commit_async(
        self,
        offsets: Offsets | None = None,
        on_done: Callable[[dict[TopicPartition, OffsetAndMetadata], ClientError | None], object] | None = None,
    ) -> None:
        """Commit without waiting. `on_done` hears how it went, on a thread of the client's: it must not use the consumer."""
        self._call(lambda: self._core.commit_async(offsets, on_done))

    def metrics(self) -> dict[str, float | dict[TopicPartition, int]]:
        """What this consumer has done so far, and its lag where that is known."""
        return self._core.metrics()

    def close(self, timeout_ms: float = CLOSE_TIMEOUT_MS) -> None:
        """Commit where that is automatic, give up the partitions, leave the group (a static member stays in it), disconnect."""
        if self._is_closed:
            return
        self._close(self._core.close(timeout_ms))
