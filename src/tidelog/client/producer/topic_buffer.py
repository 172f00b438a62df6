# mypy: disable-error-code="untyped-decorator, valid-type, no-any-return, type-arg"
"""What a producer does for every record: choose a partition, and write the record to the batch that is open for it.

The types in the annotations are C types to the compiler and nothing to Python.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # Cython reads it when it compiles; to run, a plain twin needs no Cython
    import cython
else:
    from tidelog import plain_cython as cython

from tidelog.client.producer.batch_builder import BatchBuilder, Delivery, checked_timestamp

if cython.compiled:
    from cython.cimports.tidelog.client.producer.batch_builder import bytes_of, deliver
    from cython.cimports.tidelog.client.producer.murmur2 import partition_of
else:
    from tidelog.client.producer.batch_builder import bytes_of, deliver
    from tidelog.client.producer.murmur2 import partition_of


@cython.cclass
class Turn:
    """How many records in a row a producer on a loop takes before the loop has to have its turn."""

    records_max: cython.longlong
    left: cython.longlong

    def __init__(self, records_max: int) -> None:
        self.records_max = self.left = records_max


@cython.cclass
class TopicBuffer:
    """The batches of a topic that take records, one for each partition or none."""

    partition_count: cython.longlong
    sticky: cython.longlong
    hashes_keys: cython.bint
    opened: list
    now_ms: Any
    turn: Turn

    def __init__(self, partition_count: int, hashes_keys: bool, now_ms: Callable[[], int], turn: Turn) -> None:
        """`now_ms` is the time of records that bring none."""
        self.partition_count = partition_count
        self.sticky = -1
        self.hashes_keys = hashes_keys
        self.opened = [None] * partition_count
        self.now_ms = now_ms
        self.turn = turn

    def partitions(self) -> int:
        return self.partition_count

    def stick_to(self, partition: int) -> None:
        self.sticky = partition

    def grow(self, partition_count: int) -> None:
        """More partitions than before; their number never falls while the topic is the same."""
        self.opened.extend([None] * (partition_count - len(self.opened)))
        self.partition_count = partition_count

    def open(self, partition: int, batch: BatchBuilder | None) -> None:
        """The batch that takes a partition's records from now on."""
        self.opened[partition] = batch

    def open_batch(self, partition: int) -> BatchBuilder | None:
        return self.opened[partition]

    def choose(self, key: object) -> int:
        """The partition for a key, -1 where one is to be chosen for records without."""
        if key is not None and self.hashes_keys:
            return partition_of(bytes_of(key), self.partition_count)
        return self.sticky

    def append(
        self,
        partition: cython.longlong,
        timestamp_ms: object,
        key: object,
        value: object,
        headers: object,
        on_delivery: object,
    ) -> Delivery | None:
        """Write a record to a partition (-1: by its key, or wherever). None where there is no batch with room for it."""
        return self.put(partition, timestamp_ms, key, value, headers, on_delivery)

    def send(
        self, timestamp_ms: object, key: object, value: object, headers: object, on_delivery: object
    ) -> Delivery | None:
        """Write a record to the partition of its key, or wherever. None also where it is time to let others have their turn."""
        turn: Turn = self.turn
        turn.left -= 1
        if turn.left <= 0:
            turn.left = turn.records_max
            return None
        return self.put(-1, timestamp_ms, key, value, headers, on_delivery)

    @cython.cfunc
    def put(
        self,
        partition: cython.longlong,
        timestamp_ms: object,
        key: object,
        value: object,
        headers: object,
        on_delivery: object,
    ) -> Delivery | None:
        timestamp: cython.longlong
        if partition < 0:
            if key is not None and self.hashes_keys:
                partition = partition_of(bytes_of(key), self.partition_count)
            else:
                partition = self.sticky
                if partition < 0:
                    return None
        if partition >= self.partition_count:
            raise ValueError(f"there is no partition {partition}: the topic has {self.partition_count}")
        found: object = self.opened[partition]
        if found is None:
            return None
        batch: BatchBuilder = cython.cast(BatchBuilder, found)
        timestamp = self.now_ms() if timestamp_ms is None else checked_timestamp(timestamp_ms)
        return deliver(batch, batch.write(timestamp, key, value, headers), timestamp, on_delivery)
