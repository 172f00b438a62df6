"""The share consumer for threads: `AsyncShareConsumer` on the background loop."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from tidelog.client.consumer.blocking import CLOSE_TIMEOUT_MS, BlockingConsumer
from tidelog.client.consumer.topic_partition import TopicPartition
from tidelog.client.errors import ClientError
from tidelog.client.given_names import given_topics
from tidelog.client.options import parse_options
from tidelog.client.seams import ClientSeams
from tidelog.client.share.acknowledgements import AcknowledgeType
from tidelog.client.share.async_share_consumer import ITERATION_POLL_MS, AsyncShareConsumer, CommitCallback
from tidelog.client.share.options import ShareOptions
from tidelog.client.share.records import SharedRow

if TYPE_CHECKING:
    import pyarrow as pa


class ShareConsumer(BlockingConsumer):
    """Reads records as a member of a share group: each is one member's until it is acknowledged, or its lock ends.

    >>> with ShareConsumer("orders", bootstrap_servers="127.0.0.1:9092", group_id="packers") as consumer:
    ...     for record in consumer:
    ...         print(record.offset, record.value, record.delivery_count)

    Topics given here are subscribed to. The options are those of `ShareOptions`: Kafka's names in Python's spelling. One thread
    at a time may use it; only `wakeup` may come from another one.
    """

    def __init__(self, *topics: str, **options: Any) -> None:
        parsed = parse_options(ShareOptions, options)
        parsed.check_together()

        async def start() -> None:
            loop = asyncio.get_running_loop()
            self._core = AsyncShareConsumer._on(ClientSeams.of(loop), parsed, self._run_callback)  # noqa: SLF001
            if topics:
                self._core.subscribe(given_topics(topics))

        super().__init__(start)

    def __iter__(self) -> Iterator[SharedRow]:
        while not self._is_closed:
            yield from self.poll(timeout_ms=ITERATION_POLL_MS)

    def subscribe(self, topics: str | Iterable[str]) -> None:
        """Be given records of these topics, and of no others, from the next `poll` on."""
        self._call(lambda: self._core.subscribe(topics))

    def unsubscribe(self) -> None:
        """Leave the group. Records in hand can still be acknowledged."""
        self._run(self._core.unsubscribe())

    def subscription(self) -> frozenset[str]:
        """The topics that it is subscribed to."""
        return self._core.subscription()

    def poll(self, timeout_ms: float = 0) -> list[SharedRow]:
        """Records that are this member's now, or that become so within `timeout_ms`; an empty list if none do. See
        `AsyncShareConsumer.poll`.

        >>> for record in consumer.poll(timeout_ms=1000):
        ...     print(record.key, record.value, record.delivery_count)
        """
        return self._run(self._core.poll(timeout_ms))

    def poll_arrow(self, timeout_ms: float = 0) -> pa.RecordBatch | None:
        """What one fetch acquired of one partition as Arrow columns, `delivery_count` among them; None if nothing comes in time.

        >>> batch = consumer.poll_arrow(timeout_ms=1000)
        >>> consumer.acknowledge(batch, AcknowledgeType.RELEASE)
        """
        return self._run(self._core.poll_arrow(timeout_ms))

    def acknowledge(self, records: SharedRow | pa.RecordBatch, kind: AcknowledgeType = AcknowledgeType.ACCEPT) -> None:
        """Say what becomes of a record, or of all rows of a batch, that the last poll returned; the next poll or commit tells the
        cluster. With explicit acknowledgement only.

        >>> consumer.acknowledge(record, AcknowledgeType.RELEASE)
        """
        with self._acquired():
            self._core.acknowledge(records, kind)

    def acknowledge_failed(
        self, partition: tuple[str, int], offset: int, kind: AcknowledgeType = AcknowledgeType.ACCEPT
    ) -> None:
        """Say what becomes of a record that could not be read: an error of the last poll has named it.

        >>> consumer.acknowledge_failed(("orders", 0), 7, AcknowledgeType.REJECT)
        """
        with self._acquired():
            self._core.acknowledge_failed(partition, offset, kind)

    def commit(self, timeout_ms: float | None = None) -> dict[TopicPartition, ClientError | None]:
        """Tell the cluster now what was said of records, and wait until it has heard. For each partition None, or why it did not
        take it.

        >>> consumer.commit()
        {TopicPartition(topic='orders', partition=0): None}
        """
        return self._run(self._core.commit(timeout_ms))

    def commit_async(self) -> None:
        """Tell the cluster now what was said of records, without waiting. What becomes of it is told to the commit callback."""
        self._run(self._core.commit_async())

    def set_acknowledgement_commit_callback(self, callback: CommitCallback | None) -> None:
        """Have `callback(offsets, error)` told, in later calls of `poll`, `commit` and `close`, of each partition what became of
        what was said. It runs on the thread of that call, and must not use the consumer."""
        self._call(lambda: self._core.set_acknowledgement_commit_callback(callback))

    @property
    def acquisition_lock_timeout_ms(self) -> int | None:
        """How long a record is this member's, as the brokers said last; None before the first records."""
        return self._core.acquisition_lock_timeout_ms

    def wakeup(self) -> None:
        """From another thread: the call that waits, or else the next `poll`, raises WakeupError."""
        if not self._is_closed:
            self._background.loop.call_soon_threadsafe(self._core._waiting.wake_up)  # noqa: SLF001

    def metrics(self) -> dict[str, float]:
        """What this consumer has done so far."""
        return self._core.metrics()

    def close(self, timeout_ms: float = CLOSE_TIMEOUT_MS) -> None:
        """Tell the cluster what was said of records, release all others that this member holds, leave the group, disconnect."""
        if not self._is_closed:
            self._close(self._core.close(timeout_ms))
