"""The blocking producer: the async core on the process's background loop, filled from the caller's thread."""

from __future__ import annotations

import contextlib
import dataclasses
import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Self, Unpack

from tidelog.client.arrow_extra import require_arrow
from tidelog.client.background import Background
from tidelog.client.closing import ClosedAtExit
from tidelog.client.consumer.records import GroupMetadata, Offsets, as_group_metadata, offsets_to_commit
from tidelog.client.errors import BufferFullError, ClosedError, ConfigError, TimedOutError
from tidelog.client.producer.batch_builder import Delivery
from tidelog.client.producer.core import ClusterLink, PreparedRecord, ProducerCore
from tidelog.client.producer.options import ProducerArguments, ProducerOptions, parse_producer_options
from tidelog.client.producer.prepared_transaction import PreparedTransaction
from tidelog.client.producer.record_metadata import Headers, OnDelivery
from tidelog.client.producer.transaction_state import State
from tidelog.client.seams import ClientSeams

if TYPE_CHECKING:
    import pyarrow as pa

    from tidelog.client.producer.arrow_rows import ArrowDelivery


class Producer(ClosedAtExit):
    """Sends records to topics of a Kafka cluster.

        with Producer(bootstrap_servers="127.0.0.1:9092") as producer:
            delivery = producer.send("orders", b'{"id": 1}', key=b"customer-7")
            metadata = delivery.result()           # RecordMetadata(topic, partition, offset, timestamp_ms)

    `send` returns once the record is in the buffer; it blocks only while the buffer is full, or for a topic that is used for the
    first time, `max_block_ms` at most. Any number of threads may use one producer. Callbacks run on the thread of the clients'
    loop and should be short. All options are keyword arguments under Kafka's names with underscores; ConfigError for one that
    does not exist.
    """

    def __init__(self, **options: Unpack[ProducerArguments]) -> None:
        self._begin(parse_producer_options(options), Background.acquire(), None)

    def _begin(self, options: ProducerOptions, background: Background, link: ClusterLink | None) -> None:
        self._options = options
        self._background = background
        self._closing = threading.Lock()
        self._is_released = False

        async def make() -> ProducerCore:
            return ProducerCore(ClientSeams.of(background.loop), options, self._wake, link)

        try:
            self._core = background.call(make())
        except BaseException:
            background.release()
            raise

    def continue_as(self, transactional_id: str) -> Producer:
        """End this producer, and return one with another transactional id that goes on over its connections, with all other
        options the same. For those who have one id after another, as tasks do: to connect takes longer than a small transaction.

        What was prepared or handed over stays open. Whatever else is under way should have its outcome: what has none gets
        ClosedError, and the transaction that it belongs to is left to its time-out.
        """
        with self._closing:
            if self._is_released:
                raise ClosedError("the producer is closed")

            async def give_up() -> ClusterLink:
                self._core.in_transactions()
                return self._core.give_up_link()

            if not transactional_id:
                raise ConfigError("transactional_id is empty; it is a name of one's own choice")
            link = self._background.call(give_up())
            self._is_released = True
        successor = Producer.__new__(Producer)
        options = dataclasses.replace(self._options, transactional_id=transactional_id)
        successor._begin(options, self._background, link)  # noqa: SLF001 - of this class
        return successor

    def _wake(self, run: Callable[[], None]) -> None:
        if self._background.is_here:
            self._background.loop.call_soon(run)
        else:
            self._background.loop.call_soon_threadsafe(run)

    def send(
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
        """Put a record into the buffer. `result()` of the returned delivery says where it was written.

            producer.send("orders", b"...", on_delivery=lambda error, metadata: ...)

        BufferFullError where there was no room for `max_block_ms`, TimedOutError where the topic was not found in that time,
        RecordTooLargeError, SerializationError.
        """
        core = self._core
        if partition is None:
            # Fast path. A transaction that ends closes the topics under the lock.
            with core.lock:
                queues = core.plain_topics.get(topic)
                delivery = None if queues is None else queues.append(-1, timestamp_ms, key, value, headers, on_delivery)
            if delivery is not None:
                return delivery
        core.check_takes_records()
        record = core.prepare(topic, value, key, partition, timestamp_ms, headers, on_delivery)
        return core.append(record) or self._send_slowly(core, record)

    def _send_slowly(self, core: ProducerCore, record: PreparedRecord) -> Delivery:
        """Slow path: the first record to a topic, or one that has to wait for room."""
        if self._background.is_here:
            raise BufferFullError("there is no room, and a callback of the producer must not wait for it")
        clock = core.seams.clock
        deadline_ms = clock.monotonic_ms() + core.options.max_block_ms
        if record.topic not in core.accumulator.topics:
            self._background.call(core.find_topic(record.topic, core.options.max_block_ms))
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
            self._wait_for_room(core, (deadline_ms - clock.monotonic_ms()) / 1000)

    def _wait_for_room(self, core: ProducerCore, timeout_s: float) -> None:
        event = threading.Event()
        is_over = False

        def room() -> None:
            if is_over:
                # The waiter was cancelled: its room goes to the next one.
                core.accumulator.pass_on_room()
            event.set()

        core.accumulator.when_room(room)
        if not event.wait(max(0.0, timeout_s)):
            is_over = True
            raise core.buffer_full()

    def send_arrow(
        self,
        topic: str,
        records: pa.Table | pa.RecordBatch,
        *,
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> ArrowDelivery:
        """Send the rows of a table: columns `value`, and where there are any `key`, `headers`, `partition` and `timestamp`.

            delivery = producer.send_arrow("orders", pa.table({"key": keys, "value": values}))
            written = delivery.result()            # [BatchMetadata(topic, partition, base_offset, record_count), ...]

        No Python object is made for any row. Blocks for room in the buffer as it goes. ValueError for columns that it cannot use.
        """
        require_arrow("send_arrow")
        from tidelog.client.producer.arrow_rows import send_arrow  # noqa: PLC0415 - pyarrow is an extra

        self._core.check_takes_records()
        return self._background.call(send_arrow(self._core, topic, records, partition, timestamp_ms))

    def flush(self, timeout_ms: float | None = None) -> None:
        """Send everything now, and wait for the outcome of all that was sent before. TimedOutError after `timeout_ms`."""
        if self._is_released:
            return
        try:
            self._background.call(self._core.sender.flush(), None if timeout_ms is None else timeout_ms / 1000)
        except TimedOutError:
            if timeout_ms is None:
                raise
            raise self._core.not_delivered(timeout_ms) from None

    def close(self, timeout_ms: float | None = None) -> None:
        """Flush, at most for `timeout_ms`, and end. Records without an outcome by then get ClosedError."""
        with self._closing:
            if self._is_released:
                return
            self._is_released = True
            try:
                with contextlib.suppress(ClosedError):
                    self._background.call(
                        self._core.close(flush=timeout_ms is None or timeout_ms > 0),
                        # Without a flush there is nothing to wait for, but for the loop's turn.
                        timeout_ms / 1000 if timeout_ms else None,
                    )
            except TimedOutError:
                assert timeout_ms is not None
                raise self._core.not_delivered(timeout_ms) from None
            finally:
                self._background.release()

    # Transactions.

    def init_transactions(
        self, *, keep_prepared_txn: bool = False, unless_open: bool = False, timeout_ms: float | None = None
    ) -> None:
        """Take over the transactional id: once, before the first transaction. A producer that had it before is fenced, and
        what it left open is aborted; with `keep_prepared_txn` (KIP-939) it is kept, and `prepared_transaction` names it; with
        `unless_open` nothing happens where something is open, but for a TransactionStateError.

        TimedOutError after `timeout_ms`, or `max_block_ms`; RefusedError where the cluster does not allow it. Either may be tried
        again.
        """
        transactions = self._core.in_transactions()
        self._background.call(
            transactions.init(
                keep_prepared=keep_prepared_txn, unless_open=unless_open, timeout_ms=self._block_ms(timeout_ms)
            )
        )

    def begin_transaction(self) -> None:
        """Open a transaction: what is sent from now on belongs to it."""
        # Between two transactions nothing happens on the loop that this could get in the way of.
        self._core.in_transactions().begin()

    def send_offsets_to_transaction(
        self, offsets: Offsets, group_metadata: GroupMetadata | str, timeout_ms: float | None = None
    ) -> None:
        """Commit what a consumer has read together with what was made of it.

            producer.send_offsets_to_transaction(consumer.consumed_offsets(), consumer.group_metadata())

        The group metadata lets the coordinator refuse a consumer whose partitions have gone to others (KIP-447): then
        TransactionAbortableError. The consumer must not commit by itself: `enable_auto_commit=False`.
        """
        transactions = self._core.in_transactions()
        self._background.call(
            transactions.send_offsets(
                offsets_to_commit(offsets), as_group_metadata(group_metadata), timeout_ms=self._block_ms(timeout_ms)
            )
        )

    def commit_transaction(self, timeout_ms: float | None = None) -> None:
        """Send what is buffered, wait until all of it is written, and commit. Every delivery has its outcome then.

        TransactionAbortableError where something was not written: abort. ProducerFencedError, ProducerFailedError: close.
        TimedOutError after `timeout_ms`, or `max_block_ms`: it goes on; call it again to learn how it went.
        """
        self._background.call(self._core.in_transactions().commit(timeout_ms=self._block_ms(timeout_ms)))

    def abort_transaction(self, timeout_ms: float | None = None) -> None:
        """Give up what was not sent, and abort. Errors as of `commit_transaction`."""
        self._background.call(self._core.in_transactions().abort(timeout_ms=self._block_ms(timeout_ms)))

    def prepare_transaction(self, timeout_ms: float | None = None) -> PreparedTransaction:
        """Have everything written, and leave the end open for another system to decide (KIP-939). What is returned names the
        transaction: keep it where the decision is kept. Needs `transaction_two_phase_commit_enable`."""
        return self._background.call(self._core.in_transactions().prepare(timeout_ms=self._block_ms(timeout_ms)))

    def hand_over_transaction(self, timeout_ms: float | None = None) -> PreparedTransaction:
        """Have everything written, and leave the end to another process, which has `Admin.end_transaction` for it. As
        `prepare_transaction`, and also for clusters without two-phase commit: there the transaction's time-out goes on."""
        return self._background.call(self._core.in_transactions().hand_over(timeout_ms=self._block_ms(timeout_ms)))

    def resume_transactions(self, timeout_ms: float | None = None) -> None:
        """Go on with the next transaction after another process has ended the one that was prepared or handed over: the
        coordinator says under which epoch. TransactionStateError while it is open; nothing has changed then."""
        self._background.call(self._core.in_transactions().resume(timeout_ms=self._block_ms(timeout_ms)))

    def holds_transactional_id(self, timeout_ms: float | None = None) -> bool:
        """Whether no other producer has taken the transactional id since, as its coordinator knows now. Between transactions
        only. One that takes it later fences this one, as always."""
        return self._background.call(self._core.in_transactions().holds_id(timeout_ms=self._block_ms(timeout_ms)))

    def complete_transaction(self, prepared: PreparedTransaction, timeout_ms: float | None = None) -> bool:
        """Commit the prepared transaction if it is this one, which was recorded, and abort it if it is another. Whether it was
        committed."""
        transactions = self._core.in_transactions()
        return self._background.call(transactions.complete(prepared, timeout_ms=self._block_ms(timeout_ms)))

    @property
    def prepared_transaction(self) -> PreparedTransaction | None:
        """The transaction that is prepared and waits for its end."""
        return self._core.in_transactions().prepared

    @contextlib.contextmanager
    def transaction(self) -> Iterator[Self]:
        """A transaction that is committed at the end of the block, and aborted where the block, or the commit, fails.

            with producer.transaction():
                producer.send("orders", b"...")
                producer.send("payments", b"...")

        The first one calls `init_transactions` where that was not done. One that was prepared in the block stays so.
        """
        transactions = self._core.in_transactions()
        if transactions.state is State.UNINITIALIZED:
            self.init_transactions()
        self.begin_transaction()
        try:
            yield self
            if transactions.is_in_transaction:
                self.commit_transaction()
        except BaseException:
            if transactions.is_in_transaction:
                self._background.call(transactions.abort_quietly())
            raise

    def _block_ms(self, timeout_ms: float | None) -> float:
        return self._options.max_block_ms if timeout_ms is None else timeout_ms

    def metrics(self) -> dict[str, int]:
        """Counts since the producer was made, under OpenTelemetry's names."""
        return self._core.metrics.read(self._core.accumulator.used_bytes)

    def partitions_for(self, topic: str) -> list[int]:
        """The partitions of a topic."""
        known = self._background.call(self._core.metadata.topic(topic, self._options.max_block_ms))
        return [each.index for each in known.partitions]
