"""Reads offsets of one partition as columns: from the first of a range to its end, and not one further.

    reader.begin(OffsetRange(...))
    while (fetched := await reader.next_columns()) is not None: ...
    reader.end()

One reader reads one range after another, over connections that stay open. It fetches ahead while the last columns are used, up
to the end of the range.

A range ends where the position has passed its last offset. That need not be behind a record: markers, aborted transactions and
what compaction has removed have offsets and are not seen. At the very end of a log such a gap has no batch behind it that would
move the position; then a fetch that brought nothing, with a high watermark behind the range, is the proof that nothing is left.

Where a range says of which topic it is, no other one of that name is read in its place.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from typing import NamedTuple

import pyarrow as pa

from tidelog.client.cluster_metadata import ClusterMetadata
from tidelog.client.connections import Connections
from tidelog.client.consumer.errors import CorruptRecordsError
from tidelog.client.consumer.fetcher import Fetcher
from tidelog.client.consumer.offset_lookup import OffsetLookup
from tidelog.client.consumer.options import ConsumerOptions, OffsetReset
from tidelog.client.consumer.subscription import (
    EARLIEST_TIMESTAMP,
    LATEST_TIMESTAMP,
    AssignedPartition,
    PartitionState,
    Subscription,
)
from tidelog.client.errors import ClientError, OffsetOutOfRangeError
from tidelog.client.seams import ClientSeams
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import ZERO_UUID, uuid_from_text, uuid_to_text
from tidelog.spark.errors import DataLossError, UnreadableError
from tidelog.spark.source.data_loss import FAILED, WENT_ON, lost_at_start, lost_with_topic
from tidelog.spark.source.offset_ranges import OffsetRange
from tidelog.wire.record_batch import TimestampType

log = logging.getLogger(__name__)

# Polling interval: a fetch that brings nothing wakes nobody.
_LOOK_AGAIN_S = 0.05
# A topic that does not exist may only be so new that this broker has not heard of it.
_GONE_AFTER_MS = 5_000


class FetchedColumns(NamedTuple):
    """Records of one fetch with key, value, offset, timestamp and, where asked for, headers; of one timestamp type."""

    records: pa.RecordBatch
    timestamp_type: TimestampType


class _RangeSubscription(Subscription):
    """At most one partition, which is left alone once all of its range has been fetched."""

    def __init__(self) -> None:
        super().__init__()
        self.end_offset = 0
        self.is_other_topic = False

    def __iter__(self) -> Iterator[AssignedPartition]:
        if self.is_other_topic:
            return iter(())
        return (each for each in super().__iter__() if each.fetch_offset < self.end_offset)


class RangeReader:
    """For one range at a time, on one loop."""

    def __init__(
        self, seams: ClientSeams, options: ConsumerOptions, *, poll_timeout_ms: float, fail_on_data_loss: bool
    ) -> None:
        """`options` have to say that an offset out of range is an error. `poll_timeout_ms` is how long to wait for records
        that should be there."""
        assert options.auto_offset_reset == OffsetReset()
        self._loop = seams.loop
        self._options = options
        self._poll_timeout_ms = poll_timeout_ms
        self._fail_on_data_loss = fail_on_data_loss
        self._connections = Connections(seams, options)
        self._metadata = ClusterMetadata(seams, self._connections, options, allow_auto_topic_creation=False)
        self._metadata.on_change(self._metadata_changed)
        self._lookup = OffsetLookup(
            seams, self._connections, self._metadata, options, reads_committed=options.reads_committed
        )
        self._subscription = _RangeSubscription()
        self._fetcher = Fetcher(seams, self._connections, self._metadata, self._subscription, options, self._news)
        self._waiter: asyncio.Future[None] | None = None
        self._range: OffsetRange | None = None
        self._headers = True

    def begin(self, wanted: OffsetRange, *, headers: bool = True) -> None:
        """Read `wanted` next, with or without headers. What is left of another range is dropped."""
        self.end()
        self._headers = headers
        self._range = wanted
        self._subscription.end_offset = wanted.end
        self._metadata.set_topics([wanted.partition.topic])
        self._subscription.assign([wanted.partition])
        assigned = self._subscription.of(wanted.partition)
        assigned.seek(wanted.start)
        if wanted.topic_id is not None:
            assigned.is_of(uuid_from_text(wanted.topic_id))
        self._metadata_changed()

    def end(self) -> None:
        """Read no more of the range."""
        self._subscription.unsubscribe()
        self._subscription.is_other_topic = False
        self._fetcher.errors.clear()
        self._range = None

    def close(self) -> None:
        self.end()
        self._fetcher.close()
        self._metadata.close()
        self._connections.close()

    async def next_columns(self) -> FetchedColumns | None:
        """The next records of the range, at least one; None at its end.

        DataLossError where records are gone and that is an error, UnreadableError where they are damaged or do not come.
        """
        wanted = self._range
        assert wanted is not None
        assigned = self._subscription.of(wanted.partition)
        position, waits_since_s = assigned.position, self._loop.time()
        while assigned.position < wanted.end:
            if assigned.state is not PartitionState.FETCHING:
                self._lost(f"{wanted.partition} was deleted and created again while it was read", wanted.end, assigned)
                break
            if (columns := self._take(wanted)) is not None:
                return columns
            if assigned.position >= wanted.end or await self._ends_in_gap(wanted, assigned):
                break
            if self._fetcher.errors:
                await self._failed(wanted, assigned, self._fetcher.errors.popleft())
                continue
            if assigned.position != position:
                position, waits_since_s = assigned.position, self._loop.time()
            self._check_wait(wanted, assigned, (self._loop.time() - waits_since_s) * 1000)
            await self._wait()
        return None

    def _take(self, wanted: OffsetRange) -> FetchedColumns | None:
        """Records that wait, without those behind the range; a fetch that brings none of it moves the position only."""
        try:
            taken = self._fetcher.take_columns(headers=self._headers)
        except CorruptRecordsError as error:
            raise UnreadableError(str(error)) from error
        finally:
            self._fetcher.send_fetches()
        if taken is None:
            return None
        _, records, timestamp_type = taken
        records = rows_before(records, wanted.end)
        return FetchedColumns(records, timestamp_type) if records.num_rows else None

    async def _ends_in_gap(self, wanted: OffsetRange, assigned: AssignedPartition) -> bool:
        if assigned.nothing_at != assigned.position:
            return False
        end = assigned.last_stable_offset if self._options.reads_committed else assigned.high_watermark
        if end is None:
            # A session that has told the high watermark to an earlier range does not tell it again. It has to be known from
            # before the fetch that brought nothing, so that another one is waited for.
            end = await self._offset_at(wanted, LATEST_TIMESTAMP)
            assigned.high_watermark = assigned.last_stable_offset = end
            assigned.nothing_at = -1
            return False
        return end >= wanted.end

    async def _offset_at(self, wanted: OffsetRange, timestamp: int) -> int:
        """Either end of the partition, as the options have it see transactions."""
        try:
            found = await self._lookup.list_offsets({wanted.partition: timestamp}, self._poll_timeout_ms)
        except ClientError as error:
            raise UnreadableError(f"{wanted} cannot be read: {error}") from error
        listed = found[wanted.partition]
        assert listed is not None, "either end of a partition has an offset"
        return listed.offset

    async def _failed(self, wanted: OffsetRange, assigned: AssignedPartition, error: ClientError) -> None:
        if not isinstance(error, OffsetOutOfRangeError):
            raise UnreadableError(f"{wanted} cannot be read: {error}") from error
        first = await self._offset_at(wanted, EARLIEST_TIMESTAMP)
        last = await self._offset_at(wanted, LATEST_TIMESTAMP)
        if first <= assigned.position <= last:
            # It is there by now: the broker that was asked did not know yet how far the log goes.
            return
        sentence, go_on = lost_at_start(wanted, assigned.position, first, last)
        self._lost(sentence, go_on, assigned)

    def _lost(self, sentence: str, go_on: int, assigned: AssignedPartition) -> None:
        if self._fail_on_data_loss:
            raise DataLossError(f"{sentence}; {FAILED}")
        log.warning("%s; %s", sentence, WENT_ON)
        assigned.seek(go_on)

    def _check_wait(self, wanted: OffsetRange, assigned: AssignedPartition, waited_ms: float) -> None:
        topic = self._metadata.topics.get(wanted.partition.topic)
        is_gone = topic is not None and topic.error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        is_other = topic is not None and self._subscription.is_other_topic
        # Whoever told of it may be behind, and is asked again for a while.
        is_certain = waited_ms >= min(_GONE_AFTER_MS, self._poll_timeout_ms)
        if is_gone and is_certain:
            self._lost(f"topic {wanted.partition.topic} is gone", wanted.end, assigned)
        elif is_other and is_certain and topic is not None:
            now = uuid_to_text(topic.id)
            self._lost(
                lost_with_topic(wanted.partition.topic, str(wanted.topic_id), now) + f" ({wanted})",
                wanted.end,
                assigned,
            )
        elif is_other:
            self._metadata.request_update()
        elif waited_ms >= self._poll_timeout_ms:
            reason = self._connections.because(self._metadata.error)
            raise UnreadableError(
                f"nothing came of {wanted.partition} from offset {assigned.position} on within {self._poll_timeout_ms:g} ms, "
                f"though it should go on to {wanted.end}{reason}; kafkaConsumer.pollTimeoutMs is how long to wait"
            )

    # Waiting.

    def _metadata_changed(self) -> None:
        if self._range is None:
            return
        topic = self._metadata.topics.get(self._range.partition.topic)
        assigned = self._subscription.get(self._range.partition)
        if topic is not None and assigned is not None:
            is_known = self._range.topic_id is not None and topic.id != ZERO_UUID
            self._subscription.is_other_topic = is_known and topic.id != assigned.topic_id
            if not self._subscription.is_other_topic:
                assigned.is_of(topic.id)
        self._fetcher.send_fetches()
        self._news()

    def _news(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def _wait(self) -> None:
        self._waiter = self._loop.create_future()
        timer = self._loop.call_later(_LOOK_AGAIN_S, self._news)
        try:
            await self._waiter
        finally:
            timer.cancel()
            self._waiter = None


def rows_before(records: pa.RecordBatch, end_offset: int) -> pa.RecordBatch:
    """The rows with offsets below `end_offset`; offsets rise."""
    offsets = records.column("offset")
    count = records.num_rows
    if not count or offsets[count - 1].as_py() < end_offset:
        return records
    first, last = 0, count
    while first < last:
        middle = (first + last) // 2
        if offsets[middle].as_py() < end_offset:
            first = middle + 1
        else:
            last = middle
    return records.slice(0, first)
