"""Tables to batches: the rows of Arrow columns, put together by partition and encoded without a Python object for any of them.

pyarrow is an extra of the package: this module is imported when a table is sent.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from tidelog.client.errors import RecordTooLargeError, RefusedError, TimedOutError
from tidelog.client.producer.accumulator import TopicQueues
from tidelog.client.producer.async_producer import wait_for_room
from tidelog.client.producer.batch import ProducerBatch
from tidelog.client.producer.batch_builder import checked_timestamp
from tidelog.client.producer.core import ProducerCore
from tidelog.client.producer.murmur2 import partition_rows
from tidelog.model.errors import ErrorCode
from tidelog.wire.columns import EncodedRecords, encode_columns
from tidelog.wire.record_batch import HEADER_BYTES

if TYPE_CHECKING:
    ArrowArray: TypeAlias = pa.Array[Any]


# All rows are there at once, so there is nothing to wait for: batches are larger than those that grow record by record.
ARROW_BATCH_BYTES = 256 * 1024

# What a request needs beside one batch.
_REQUEST_OVERHEAD = 1024


class BatchMetadata(NamedTuple):
    """Where some rows were written: `record_count` of them from `base_offset` on, -1 where nobody said."""

    topic: str
    partition: int
    base_offset: int
    record_count: int


class ArrowDelivery:
    """The fate of a table's rows: `await` it, or call `result()`."""

    def __init__(self, batches: list[ProducerBatch]) -> None:
        self._batches = batches

    @property
    def is_done(self) -> bool:
        """Whether the outcome of every row is known."""
        return all(batch.is_done for batch in self._batches)

    def result(self, timeout_s: float | None = None) -> list[BatchMetadata]:
        """Wait for the outcome. The first error, as an exception, where some rows were not written."""
        finished = threading.Semaphore(0)
        for batch in self._batches:
            batch.check_process()
            batch.when_done(finished.release)
        for _ in self._batches:
            if not finished.acquire(timeout=timeout_s):
                raise TimedOutError(f"not all rows had an outcome within {timeout_s:g} s")
        return self._outcome()

    def __await__(self) -> Generator[Any, None, list[BatchMetadata]]:
        return self._wait().__await__()

    async def _wait(self) -> list[BatchMetadata]:
        for batch in self._batches:
            if not batch.is_done:
                await batch.done()
        return self._outcome()

    def _outcome(self) -> list[BatchMetadata]:
        written = []
        for batch in self._batches:
            last = batch.metadata(batch.record_count - 1, -1)
            offset = batch.base_offset if last.offset >= 0 else -1
            written.append(BatchMetadata(batch.topic, batch.partition, offset, batch.record_count))
        return written


async def send_arrow(
    core: ProducerCore,
    topic: str,
    records: pa.Table | pa.RecordBatch,
    partition: int | None,
    timestamp_ms: int | None,
) -> ArrowDelivery:
    """Encode and buffer all rows, waiting for room where needed."""
    if timestamp_ms is not None:
        timestamp_ms = checked_timestamp(timestamp_ms)
    queues = core.accumulator.topics.get(topic)
    if queues is None:
        queues = await core.find_topic(topic, core.options.max_block_ms)
    options = core.options
    bytes_max = min(max(options.batch_size, ARROW_BATCH_BYTES), options.max_request_size - _REQUEST_OVERHEAD)
    bytes_max = max(HEADER_BYTES + 1, min(bytes_max, options.buffer_memory))
    now_ms = core.seams.clock.now_ms() if timestamp_ms is None else timestamp_ms
    batches: list[ProducerBatch] = []
    for chosen, rows in _by_partition(queues, records, partition, hashes_keys=options.partitioner == "default"):
        for encoded in encode_columns(rows, timestamp_ms=now_ms, batch_bytes_max=bytes_max):
            batches.append(await _enqueue(core, queues, chosen, encoded))
            # Others on this loop have work to do as well, first of all the sender.
            await asyncio.sleep(0)
    return ArrowDelivery(batches)


async def _enqueue(core: ProducerCore, queues: TopicQueues, partition: int, encoded: EncodedRecords) -> ProducerBatch:
    size = len(encoded.buffer)
    if size > min(core.options.max_request_size, core.options.buffer_memory):
        limit = min(core.options.max_request_size, core.options.buffer_memory)
        raise RecordTooLargeError(
            f"a row of {size} bytes is larger than the {limit} that max_request_size and buffer_memory allow"
        )
    if partition < 0:
        partition = core.accumulator.next_partition(queues)
    batch = ProducerBatch(queues.name, partition, 0, core.sender.now_ms(), size)
    batch.adopt(*encoded)
    deadline_s = core.seams.loop.time() + core.options.max_block_ms / 1000
    has_waited = False
    while not core.accumulator.enqueue_encoded(queues, batch):
        has_waited = True
        await wait_for_room(core, deadline_s)
        core.check_takes_records()
    if has_waited:
        core.accumulator.pass_on_room()
    return batch


def _by_partition(
    queues: TopicQueues, records: pa.Table | pa.RecordBatch, partition: int | None, *, hashes_keys: bool
) -> Iterator[tuple[int, pa.Table | pa.RecordBatch]]:
    """The rows of each partition in their order; -1 for rows that may go anywhere."""
    names = records.schema.names
    given = records.column("partition") if "partition" in names else None
    if given is not None:
        records = records.drop_columns(["partition"])
    if partition is not None:
        _check_partition(queues, partition)
        yield partition, records
        return
    if given is None and not (hashes_keys and "key" in names):
        yield -1, records
        return
    table = records if isinstance(records, pa.Table) else pa.Table.from_batches([records])
    chosen = _explicit(queues, given) if given is not None else None
    if chosen is None or chosen.null_count:
        hashed = (
            _hashed(queues, table) if hashes_keys and "key" in names else pa.repeat(-1, table.num_rows).cast(pa.int32())
        )
        chosen = hashed if chosen is None else pc.coalesce(chosen, hashed)
    order = pc.array_sort_indices(chosen)
    rows = table.take(order)
    start = 0
    counted = sorted((each["values"].as_py(), each["counts"].as_py()) for each in pc.value_counts(chosen))
    for index, count in counted:
        yield index, rows.slice(start, count)
        start += count


def _explicit(queues: TopicQueues, given: Any) -> ArrowArray:
    if not pa.types.is_integer(given.type) and not pa.types.is_null(given.type):
        raise ValueError(f"the column `partition` is of type {given.type}; it can be a whole number")
    chosen = given.combine_chunks() if isinstance(given, pa.ChunkedArray) else given
    try:
        chosen = chosen.cast(pa.int32())
    except pa.ArrowInvalid as error:
        raise ValueError(f"the column `partition` has a number that no partition has: {error}") from None
    if len(chosen) > chosen.null_count:
        _check_partition(queues, pc.min(chosen).as_py())
        _check_partition(queues, pc.max(chosen).as_py())
    return chosen


def _check_partition(queues: TopicQueues, partition: int) -> None:
    if not 0 <= partition < queues.partitions():
        raise RefusedError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            f"{queues.name}: there is no partition {partition}: the topic has {queues.partitions()}",
        )


def _hashed(queues: TopicQueues, table: pa.Table) -> ArrowArray:
    """The partition of each row by the hash of its key; -1 where it has none."""
    try:
        keys = table.column("key").cast(pa.large_binary()).combine_chunks()
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        raise ValueError(
            f"the column `key` is of type {table.column('key').type}; it can be binary or string"
        ) from None
    return key_partitions(keys, queues.partitions())


def key_partitions(keys: ArrowArray, partition_count: int) -> ArrowArray:
    """The partition of each key, as 32-bit numbers; -1 for null."""
    keys = keys.cast(pa.large_binary())
    count = len(keys)
    out = pa.allocate_buffer(4 * count)
    if count:
        validity, offsets, data = keys.buffers()
        assert offsets is not None
        partition_rows(
            memoryview(offsets)[: 8 * (keys.offset + count + 1)].cast("q"),
            b"" if data is None else memoryview(data).cast("B"),
            memoryview(validity).cast("B") if validity is not None and keys.null_count else None,
            keys.offset,
            count,
            partition_count,
            -1,
            memoryview(out).cast("i"),
        )
    return pa.Array.from_buffers(pa.int32(), count, [None, out], 0)
