"""One batch on its way: the records of one partition that are written together, and what became of them.

    filling → drained (sealed: header, checksum, perhaps compressed) → done (written, or failed)
                 ⇄ queued again after an error that may pass

A `Delivery` is a batch and a place in it, so that a thousand records share one outcome. A batch that the cluster finds too
large is split: it is done when its parts are.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import os
import threading
from collections.abc import Callable
from struct import Struct
from typing import Any

from tidelog.client.errors import ClientError, ClosedError, TimedOutError
from tidelog.client.producer.batch_builder import BatchBuilder, report, required_bytes
from tidelog.client.producer.record_metadata import OnDelivery, RecordMetadata
from tidelog.wire.compression import Compression
from tidelog.wire.crc32c import crc32c
from tidelog.wire.record_batch import CHECKED_POSITION, CRC_LAYOUT, CRC_POSITION, HEADER_BYTES, TRANSACTIONAL_BIT
from tidelog.wire.records import decode_rows, seal_batch

log = logging.getLogger(__name__)

NO_SEQUENCE = -1

_PRODUCER_POSITION = 43
_PRODUCER_LAYOUT = Struct(">qhi")

# Of a batch that is waited for while it completes: taken for a moment, and by few.
_waiting_lock = threading.Lock()

_numbers = itertools.count()


class ProducerBatch(BatchBuilder):
    """Filled under the accumulator's lock by any thread; from draining on, the sender's alone."""

    def __init__(self, topic: str, partition: int, capacity: int, created_ms: float, reserved_bytes: int) -> None:
        super().__init__(max(capacity, HEADER_BYTES), HEADER_BYTES)
        self.topic = topic
        self.partition = partition
        self.created_ms = created_ms
        self.reserved_bytes = reserved_bytes
        """What of the buffer's memory is set aside for this batch until it is done."""
        self.order: tuple[int, ...] = (next(_numbers),)
        """Batches of a partition are sent in this order, whatever happens to some of them."""
        self.attempts = 0
        self.sequence = NO_SEQUENCE
        self.producer_id = -1
        self.producer_epoch = -1
        self.sealed: bytearray | None = None
        self.is_done = False
        self.error: ClientError | None = None
        self.last_error: ClientError | None = None
        self._base_offset = -1
        self._append_time_ms = -1
        self._parts: list[tuple[int, ProducerBatch]] = []
        self._waiters: list[Callable[[], object]] | None = None
        self._process_id = os.getpid()

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"

    @property
    def has_sequence(self) -> bool:
        return self.sequence != NO_SEQUENCE

    # Sending.

    def seal(self, codec: Compression, level: int | None, *, is_transactional: bool = False) -> None:
        """Make a whole batch of what was filled in. Once; what differs between attempts is stamped on."""
        if self.sealed is not None:
            return
        buffer, base_timestamp, max_timestamp = self.finish()
        self.sealed = seal_batch(
            buffer,
            record_count=self.record_count,
            base_offset=0,
            last_offset=self.record_count - 1,
            base_timestamp=base_timestamp,
            max_timestamp=max_timestamp,
            codec=codec,
            level=level,
            attributes=TRANSACTIONAL_BIT if is_transactional else 0,
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            base_sequence=self.sequence,
        )

    def stamp(self, producer_id: int, producer_epoch: int, sequence: int) -> None:
        """Give the batch its place in a producer's order, before the first attempt or after the epoch was raised."""
        self.producer_id, self.producer_epoch, self.sequence = producer_id, producer_epoch, sequence
        if self.sealed is not None:
            _PRODUCER_LAYOUT.pack_into(self.sealed, _PRODUCER_POSITION, producer_id, producer_epoch, sequence)
            with memoryview(self.sealed) as view:
                CRC_LAYOUT.pack_into(self.sealed, CRC_POSITION, crc32c(view[CHECKED_POSITION:]))

    def unstamp(self) -> None:
        """The place is void; the next attempt gets another one."""
        self.sequence = NO_SEQUENCE

    def split(self) -> list[ProducerBatch]:
        """Two halves in place of a batch of two records or more that is too large. They share its outcome."""
        assert self.sealed is not None
        rows = decode_rows(self.sealed)
        middle = len(rows) // 2
        for first, half in ((0, rows[:middle]), (middle, rows[middle:])):
            capacity = HEADER_BYTES + sum(required_bytes(row.key, row.value, row.headers) for row in half)
            part = ProducerBatch(self.topic, self.partition, capacity, self.created_ms, 0)
            for row in half:
                part.append(row.timestamp, row.key, row.value, row.headers, None)
            part.order = (*self.order, len(self._parts))
            self._parts.append((first, part))
        self.sealed = None
        self.forget()
        for _, part in self._parts:
            part.when_done(self._part_done)
        return [part for _, part in self._parts]

    # The end.

    def complete(self, base_offset: int, append_time_ms: int) -> None:
        """Written. The offset is -1 where nobody said."""
        self._base_offset, self._append_time_ms = base_offset, append_time_ms
        self._finish()

    def fail(self, error: ClientError) -> None:
        """Given up."""
        self.error = error
        self._finish()

    def when_done(self, waiter: Callable[[], object]) -> None:
        """Call `waiter` once the outcome is known: now, or from the sender's thread."""
        with _waiting_lock:
            if not self.is_done:
                if self._waiters is None:
                    self._waiters = []
                self._waiters.append(waiter)
                return
        waiter()

    def metadata(self, index: int, timestamp_ms: int) -> RecordMetadata:
        """The outcome of one record: where it is, or the error, raised."""
        for first, part in reversed(self._parts):
            if index >= first:
                return part.metadata(index - first, timestamp_ms)
        if self.error is not None:
            raise self.error.with_traceback(None)
        offset = self._base_offset + index if self._base_offset >= 0 else -1
        timestamp_ms = timestamp_ms if self._append_time_ms < 0 else self._append_time_ms
        return RecordMetadata(self.topic, self.partition, offset, timestamp_ms)

    @property
    def base_offset(self) -> int:
        return self._parts[0][1].base_offset if self._parts else self._base_offset

    def wait(self, index: int, timestamp_ms: int, timeout_s: float | None) -> RecordMetadata:
        """Block until the outcome is known."""
        if not self.is_done:
            self.check_process()
            event = threading.Event()
            self.when_done(event.set)
            if not event.wait(timeout_s):
                reason = f": {self.last_error}" if self.last_error is not None else ""
                raise TimedOutError(f"the record to {self} had no outcome within {timeout_s:g} s{reason}")
        return self.metadata(index, timestamp_ms)

    def check_process(self) -> None:
        """ClosedError in a forked child: nobody there will ever say what became of the parent's records."""
        if self._process_id != os.getpid():
            raise ClosedError("a record that was sent before the fork has its outcome in the parent alone")

    async def wait_async(self, index: int, timestamp_ms: int) -> RecordMetadata:
        if not self.is_done:
            await self.done()
        return self.metadata(index, timestamp_ms)

    async def done(self) -> None:
        """Wait, on any loop, until the outcome is known."""
        self.check_process()
        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()

        def resolve() -> None:
            if not future.done():
                future.set_result(None)

        def tell() -> None:
            if _running_loop() is loop:
                resolve()
            else:
                loop.call_soon_threadsafe(resolve)

        self.when_done(tell)
        await future

    def _part_done(self) -> None:
        if all(part.is_done for _, part in self._parts):
            self._finish()

    def _finish(self) -> None:
        with _waiting_lock:
            if self.is_done:
                return
            if self.error is None and not self._parts:
                self.written(RecordMetadata, self.topic, self.partition, self._base_offset, self._append_time_ms)
            self.is_done = True
            waiters, self._waiters = self._waiters, None
        self.sealed = None
        self.forget()
        reported = self.take_reported()
        if reported:
            self._report(reported)
        for waiter in waiters or ():
            waiter()

    def _report(self, reported: list[Any]) -> None:
        if self.error is None and not self._parts:
            failures = report(
                reported, RecordMetadata, self.topic, self.partition, self._base_offset, self._append_time_ms
            )
        else:
            each = iter(reported)
            outcomes = (self._report_one(*one) for one in zip(each, each, each, strict=True))
            failures = [failure for failure in outcomes if failure is not None]
        for failure in failures:
            log.error("a delivery callback failed", exc_info=failure)

    def _report_one(self, on_delivery: OnDelivery, index: int, timestamp_ms: int) -> Exception | None:
        try:
            metadata = self.metadata(index, timestamp_ms)
        except ClientError as error:
            outcome: tuple[ClientError | None, RecordMetadata | None] = (error, None)
        else:
            outcome = (None, metadata)
        try:
            on_delivery(*outcome)
        except Exception as error:  # noqa: BLE001 - the callback's own
            return error
        return None


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def _forked() -> None:
    global _waiting_lock  # noqa: PLW0603 - one for the process
    # A thread that is not in the child may have held it.
    _waiting_lock = threading.Lock()


os.register_at_fork(after_in_child=_forked)
