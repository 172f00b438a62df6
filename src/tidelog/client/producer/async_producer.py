"""The producer of asyncio programs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, Unpack

from tidelog.client.errors import BufferFullError, TimedOutError
from tidelog.client.producer.batch import Delivery
from tidelog.client.producer.core import PreparedRecord, ProducerCore
from tidelog.client.producer.options import ProducerArguments, parse_producer_options
from tidelog.client.producer.record_metadata import Headers, OnDelivery
from tidelog.client.seams import ClientSeams

if TYPE_CHECKING:
    import pyarrow as pa

    from tidelog.client.producer.arrow_rows import ArrowDelivery


class AsyncProducer:
    """Sends records to topics of a Kafka cluster.

        async with AsyncProducer(bootstrap_servers="127.0.0.1:9092") as producer:
            delivery = await producer.send("orders", b'{"id": 1}', key=b"customer-7")
            metadata = await delivery              # RecordMetadata(topic, partition, offset, timestamp_ms)

    `send` returns once the record is in the buffer; it waits only while the buffer is full, or for a topic that is used for the
    first time. Records of one partition are written once, in the order of `send`, whatever happens on the way. It belongs to the
    loop that it is first used on: other threads need a producer of their own, or `Producer`. All options are keyword arguments
    under Kafka's names with underscores; ConfigError for one that does not exist.
    """

    def __init__(self, **options: Unpack[ProducerArguments]) -> None:
        self._options = parse_producer_options(options)
        self._core: ProducerCore | None = None
        self._given_seams: ClientSeams | None = None

    @classmethod
    def on(cls, seams: ClientSeams, **options: Unpack[ProducerArguments]) -> Self:
        """One that lives on a loop, a network and a clock of the caller's."""
        producer = cls(**options)
        producer._given_seams = seams
        return producer

    async def start(self) -> Self:
        """Bind to the running loop. `send` and `async with` do it themselves."""
        self._started()
        return self

    def _started(self) -> ProducerCore:
        if self._core is None:
            seams = self._given_seams or ClientSeams.of(asyncio.get_running_loop())
            self._core = ProducerCore(seams, self._options, self._wake)
        return self._core

    def _wake(self, run: Callable[[], None]) -> None:
        assert self._core is not None
        self._core.seams.loop.call_soon(run)

    async def send(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        *,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: Headers = (),
        on_delivery: OnDelivery | None = None,
    ) -> Delivery:
        """Put a record into the buffer. Await the returned delivery to know where it was written.

            await producer.send("orders", b"...", on_delivery=lambda error, metadata: ...)

        BufferFullError where there was no room for `max_block_ms`, TimedOutError where the topic was not found in that time,
        RecordTooLargeError, SerializationError.
        """
        core = self._core or self._started()
        if partition is None and (queues := core.plain_topics.get(topic)) is not None:
            # The usual case, without a step that it does not need: nobody else has a thread here, so there is no lock.
            delivery = queues.send(timestamp_ms, key, value, headers, on_delivery)
            if delivery is not None:
                return delivery
        core.check_open()
        record = core.prepare(topic, value, key, partition, timestamp_ms, headers, on_delivery)
        delivery = core.append(record)
        if delivery is None:
            return await self._send_slowly(core, record)
        # A batch was full, there were many in a row, or this is not the usual case: a moment to let the loop do its work.
        await asyncio.sleep(0)
        return delivery

    async def _send_slowly(self, core: ProducerCore, record: PreparedRecord) -> Delivery:
        """The first record to a topic, or one that waits for room."""
        loop = core.seams.loop
        deadline_s = loop.time() + core.options.max_block_ms / 1000
        if record.topic not in core.accumulator.topics:
            await core.find_topic(record.topic, core.options.max_block_ms)
        while True:
            core.check_open()
            delivery = core.append(record)
            if delivery is not None:
                core.accumulator.pass_on_room()
                return delivery
            await wait_for_room(core, deadline_s)

    async def send_arrow(
        self,
        topic: str,
        records: pa.Table | pa.RecordBatch,
        *,
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> ArrowDelivery:
        """Send the rows of a table: columns `value`, and where there are any `key`, `headers`, `partition` and `timestamp`.

            delivery = await producer.send_arrow("orders", pa.table({"key": keys, "value": values}))
            written = await delivery               # [BatchMetadata(topic, partition, base_offset, record_count), ...]

        No Python object is made for any row. Waits for room in the buffer as it goes. ValueError for columns that it cannot use.
        """
        from tidelog.client.producer.arrow_rows import send_arrow  # noqa: PLC0415 - pyarrow is an extra

        core = self._started()
        core.check_open()
        return await send_arrow(core, topic, records, partition, timestamp_ms)

    async def flush(self, timeout_ms: float | None = None) -> None:
        """Send everything now, and wait for the outcome of all that was sent before. TimedOutError after `timeout_ms`."""
        if self._core is None:
            return
        try:
            async with asyncio.timeout(None if timeout_ms is None else timeout_ms / 1000):
                await self._core.sender.flush()
        except TimeoutError:
            raise TimedOutError(f"not everything was delivered within {timeout_ms:g} ms") from None

    async def close(self, timeout_ms: float | None = None) -> None:
        """Flush, at most for `timeout_ms`, and end. Records without an outcome by then get ClosedError."""
        if self._core is None or self._core.is_closed:
            return
        try:
            async with asyncio.timeout(None if timeout_ms is None else timeout_ms / 1000):
                await self._core.close(flush=timeout_ms is None or timeout_ms > 0)
        except TimeoutError:
            raise TimedOutError(f"not everything was delivered within {timeout_ms:g} ms") from None

    def metrics(self) -> dict[str, int]:
        """Counts since the producer was made, under OpenTelemetry's names."""
        return {} if self._core is None else self._core.metrics.read(self._core.accumulator.used_bytes)

    async def partitions_for(self, topic: str) -> list[int]:
        """The partitions of a topic."""
        core = self._started()
        known = await core.metadata.topic(topic, core.options.max_block_ms)
        return [each.index for each in known.partitions]

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


async def wait_for_room(core: ProducerCore, deadline_s: float) -> None:
    """Until some memory was freed. BufferFullError at the deadline."""
    loop = core.seams.loop
    future: asyncio.Future[None] = loop.create_future()

    def room() -> None:
        if future.done():
            # Whoever waited has gone: the room is the next one's.
            core.accumulator.pass_on_room()
        else:
            future.set_result(None)

    core.accumulator.when_room(room)
    try:
        async with asyncio.timeout(max(0.0, deadline_s - loop.time())):
            await future
    except TimeoutError:
        raise BufferFullError(
            f"the buffer of {core.options.buffer_memory} bytes was full for {core.options.max_block_ms} ms: "
            "records come faster than the cluster takes them"
        ) from None
