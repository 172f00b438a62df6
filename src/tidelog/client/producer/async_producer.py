"""The producer of asyncio programs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Self, Unpack

from tidelog.client.arrow_extra import require_arrow
from tidelog.client.closing import AsyncClosedAtExit
from tidelog.client.consumer.records import GroupMetadata, Offsets, as_group_metadata, offsets_to_commit
from tidelog.client.producer.batch_builder import Delivery
from tidelog.client.producer.core import PreparedRecord, ProducerCore
from tidelog.client.producer.options import ProducerArguments, parse_producer_options
from tidelog.client.producer.prepared_transaction import PreparedTransaction
from tidelog.client.producer.record_metadata import Headers, OnDelivery
from tidelog.client.producer.transaction_state import State
from tidelog.client.seams import ClientSeams

if TYPE_CHECKING:
    import pyarrow as pa

    from tidelog.client.producer.arrow_rows import ArrowDelivery


class AsyncProducer(AsyncClosedAtExit):
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
            # Fast path. No lock: all of this runs on the loop's thread.
            delivery = queues.send(timestamp_ms, key, value, headers, on_delivery)
            if delivery is not None:
                return delivery
        core.check_takes_records()
        record = core.prepare(topic, value, key, partition, timestamp_ms, headers, on_delivery)
        delivery = core.append(record)
        if delivery is None:
            return await self._send_slowly(core, record)
        # Slow path: a batch was full, there were many records in a row, or the fast path does not apply. Let the loop run for a
        # moment.
        await asyncio.sleep(0)
        return delivery

    async def _send_slowly(self, core: ProducerCore, record: PreparedRecord) -> Delivery:
        """Slow path: the first record to a topic, or one that has to wait for room."""
        loop = core.seams.loop
        deadline_s = loop.time() + core.options.max_block_ms / 1000
        if record.topic not in core.accumulator.topics:
            await core.find_topic(record.topic, core.options.max_block_ms)
        while True:
            try:
                core.check_takes_records()
                delivery = core.append(record)
            except BaseException:
                core.accumulator.pass_on_room()
                raise
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
        require_arrow("send_arrow")
        from tidelog.client.producer.arrow_rows import send_arrow  # noqa: PLC0415 - pyarrow is an extra

        core = self._started()
        core.check_takes_records()
        return await send_arrow(core, topic, records, partition, timestamp_ms)

    async def flush(self, timeout_ms: float | None = None) -> None:
        """Send everything now, and wait for the outcome of all that was sent before. TimedOutError after `timeout_ms`."""
        if self._core is None:
            return
        try:
            async with asyncio.timeout(None if timeout_ms is None else timeout_ms / 1000):
                await self._core.sender.flush()
        except TimeoutError:
            assert timeout_ms is not None
            raise self._core.not_delivered(timeout_ms) from None

    async def close(self, timeout_ms: float | None = None) -> None:
        """Flush, at most for `timeout_ms`, and end. Records without an outcome by then get ClosedError."""
        if self._core is None or self._core.is_closed:
            return
        try:
            async with asyncio.timeout(None if timeout_ms is None else timeout_ms / 1000):
                await self._core.close(flush=timeout_ms is None or timeout_ms > 0)
        except TimeoutError:
            assert timeout_ms is not None
            raise self._core.not_delivered(timeout_ms) from None

    # Transactions.

    async def init_transactions(
        self, *, keep_prepared_txn: bool = False, unless_open: bool = False, timeout_ms: float | None = None
    ) -> None:
        """Take over the transactional id: once, before the first transaction. A producer that had it before is fenced, and
        what it left open is aborted; with `keep_prepared_txn` (KIP-939) it is kept, and `prepared_transaction` names it; with
        `unless_open` nothing happens where something is open, but for a TransactionStateError.

        TimedOutError after `timeout_ms`, or `max_block_ms`; RefusedError where the cluster does not allow it. Either may be tried
        again.
        """
        transactions = (self._core or self._started()).in_transactions()
        await transactions.init(
            keep_prepared=keep_prepared_txn, unless_open=unless_open, timeout_ms=self._block_ms(timeout_ms)
        )

    async def begin_transaction(self) -> None:
        """Open a transaction: what is sent from now on belongs to it."""
        (self._core or self._started()).in_transactions().begin()

    async def send_offsets_to_transaction(
        self, offsets: Offsets, group_metadata: GroupMetadata | str, timeout_ms: float | None = None
    ) -> None:
        """Commit what a consumer has read together with what was made of it.

            await producer.send_offsets_to_transaction(consumer.consumed_offsets(), consumer.group_metadata())

        The group metadata lets the coordinator refuse a consumer whose partitions have gone to others (KIP-447): then
        TransactionAbortableError. The consumer must not commit by itself: `enable_auto_commit=False`.
        """
        transactions = (self._core or self._started()).in_transactions()
        await transactions.send_offsets(
            offsets_to_commit(offsets), as_group_metadata(group_metadata), timeout_ms=self._block_ms(timeout_ms)
        )

    async def commit_transaction(self, timeout_ms: float | None = None) -> None:
        """Send what is buffered, wait until all of it is written, and commit. Every delivery has its outcome then.

        TransactionAbortableError where something was not written: abort. ProducerFencedError, ProducerFailedError: close.
        TimedOutError after `timeout_ms`, or `max_block_ms`: it goes on; call it again to learn how it went.
        """
        await (self._core or self._started()).in_transactions().commit(timeout_ms=self._block_ms(timeout_ms))

    async def abort_transaction(self, timeout_ms: float | None = None) -> None:
        """Give up what was not sent, and abort. Errors as of `commit_transaction`."""
        await (self._core or self._started()).in_transactions().abort(timeout_ms=self._block_ms(timeout_ms))

    async def prepare_transaction(self, timeout_ms: float | None = None) -> PreparedTransaction:
        """Have everything written, and leave the end open for another system to decide (KIP-939). What is returned names the
        transaction: keep it where the decision is kept. Needs `transaction_two_phase_commit_enable`."""
        transactions = (self._core or self._started()).in_transactions()
        return await transactions.prepare(timeout_ms=self._block_ms(timeout_ms))

    async def hand_over_transaction(self, timeout_ms: float | None = None) -> PreparedTransaction:
        """Have everything written, and leave the end to another process, which has `Admin.end_transaction` for it. As
        `prepare_transaction`, and also for clusters without two-phase commit: there the transaction's time-out goes on."""
        transactions = (self._core or self._started()).in_transactions()
        return await transactions.hand_over(timeout_ms=self._block_ms(timeout_ms))

    async def resume_transactions(self, timeout_ms: float | None = None) -> None:
        """Go on with the next transaction after another process has ended the one that was prepared or handed over: the
        coordinator says under which epoch. TransactionStateError while it is open; nothing has changed then."""
        await (self._core or self._started()).in_transactions().resume(timeout_ms=self._block_ms(timeout_ms))

    async def holds_transactional_id(self, timeout_ms: float | None = None) -> bool:
        """Whether no other producer has taken the transactional id since, as its coordinator knows now. Between transactions
        only. One that takes it later fences this one, as always."""
        transactions = (self._core or self._started()).in_transactions()
        return await transactions.holds_id(timeout_ms=self._block_ms(timeout_ms))

    async def complete_transaction(self, prepared: PreparedTransaction, timeout_ms: float | None = None) -> bool:
        """Commit the prepared transaction if it is this one, which was recorded, and abort it if it is another. Whether it was
        committed."""
        transactions = (self._core or self._started()).in_transactions()
        return await transactions.complete(prepared, timeout_ms=self._block_ms(timeout_ms))

    @property
    def prepared_transaction(self) -> PreparedTransaction | None:
        """The transaction that is prepared and waits for its end."""
        return (self._core or self._started()).in_transactions().prepared

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Self]:
        """A transaction that is committed at the end of the block, and aborted where the block, or the commit, fails.

            async with producer.transaction():
                await producer.send("orders", b"...")
                await producer.send("payments", b"...")

        The first one calls `init_transactions` where that was not done. One that was prepared in the block stays so.
        """
        transactions = (self._core or self._started()).in_transactions()
        if transactions.state is State.UNINITIALIZED:
            await self.init_transactions()
        await self.begin_transaction()
        try:
            yield self
            if transactions.is_in_transaction:
                await self.commit_transaction()
        except BaseException:
            if transactions.is_in_transaction:
                await transactions.abort_quietly()
            raise

    def _block_ms(self, timeout_ms: float | None) -> float:
        return self._options.max_block_ms if timeout_ms is None else timeout_ms

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


async def wait_for_room(core: ProducerCore, deadline_s: float) -> None:
    """Until some memory was freed. BufferFullError at the deadline."""
    loop = core.seams.loop
    future: asyncio.Future[None] = loop.create_future()

    def room() -> None:
        if future.done():
            # The waiter was cancelled: its room goes to the next one.
            core.accumulator.pass_on_room()
        else:
            future.set_result(None)

    core.accumulator.when_room(room)
    try:
        async with asyncio.timeout(max(0.0, deadline_s - loop.time())):
            await future
    except TimeoutError:
        raise core.buffer_full() from None
