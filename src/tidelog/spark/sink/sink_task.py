"""Writing in a task: on Spark's thread, by a producer that the worker keeps.

Spark hands one task after another to a Python worker, and module state survives from task to task. So do the producers here, with
their connections; a producer in use belongs to one task, and one whose task failed is closed.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Iterator
from typing import cast

import pyarrow as pa

from tidelog.client.errors import ClientError
from tidelog.client.producer.arrow_rows import ArrowDelivery
from tidelog.client.producer.options import ProducerArguments
from tidelog.client.producer.producer import Producer
from tidelog.spark.client_settings import client_arguments
from tidelog.spark.errors import UnwritableError
from tidelog.spark.outputs.staged import sum_checksums
from tidelog.spark.sink.sink_options import SinkOptions
from tidelog.spark.sink.sink_rows import SinkRows, records_checksum

# A worker serves one query after another; connections of long ago are not worth keeping.
_KEPT_MAX = 8

ClientKey = tuple[tuple[str, str], ...]


class RowWriting:
    """The rows of one task on their way through a producer, and where those went whose outcome is known."""

    def __init__(self, producer: Producer, options: SinkOptions, *, is_summed: bool) -> None:
        """`is_summed` says whether rows are to have a checksum here."""
        self._producer = producer
        self._rows = SinkRows(options)
        self._is_summed = is_summed
        self._under_way: deque[ArrowDelivery] = deque()
        self.record_count = 0
        self.checksum = 0
        """Of all rows that were handed to the producer, where it is asked for: see `records_checksum`."""
        self.partitions: set[tuple[str, int]] = set()

    def send(self, batch: pa.RecordBatch) -> None:
        """Hand a batch to the producer. UnwritableError for rows that cannot be records, or for what did not go before."""
        try:
            for topic, records in self._rows.by_topic(batch):
                self._under_way.append(self._producer.send_arrow(topic, records))
                if self._is_summed:
                    # While the producer's own thread sends the batch.
                    self.checksum = sum_checksums((self.checksum, records_checksum(topic, records)))
            while self._under_way and self._under_way[0].is_done:
                self._settle(self._under_way.popleft())
        except (ClientError, ValueError) as error:
            raise UnwritableError(f"rows were not written: {error}") from error

    def settle(self) -> None:
        """Wait until every row is written. UnwritableError where one is not."""
        try:
            self._producer.flush()
            while self._under_way:
                self._settle(self._under_way.popleft())
        except ClientError as error:
            raise UnwritableError(f"rows were not written: {error}") from error

    def _settle(self, delivery: ArrowDelivery) -> None:
        for written in delivery.result():
            self.record_count += written.record_count
            self.partitions.add((written.topic, written.partition))


def producer_arguments(options: SinkOptions) -> ProducerArguments:
    return cast("ProducerArguments", client_arguments(options.client))


def client_key(options: SinkOptions) -> ClientKey:
    """The same for tasks that can use the same producer."""
    return tuple(sorted((name, str(each)) for name, each in options.client.items()))


_kept: dict[ClientKey, Producer] = {}
_lock = threading.Lock()


def write_at_least_once(options: SinkOptions, batches: Iterator[pa.RecordBatch]) -> int:
    """Write all rows; how many they were. A task that is tried again writes them again."""
    key = client_key(options)
    with _lock:
        producer = _kept.pop(key, None)
    if producer is None:
        producer = Producer(**producer_arguments(options))
    writing = RowWriting(producer, options, is_summed=False)
    try:
        for batch in batches:
            writing.send(batch)
        writing.settle()
    except BaseException:
        producer.close(timeout_ms=0)
        raise
    _keep(key, producer)
    return writing.record_count


def close_kept() -> None:
    """Close the producers that no task uses."""
    with _lock:
        idle = list(_kept.values())
        _kept.clear()
    for producer in idle:
        producer.close()


def _keep(key: ClientKey, producer: Producer) -> None:
    with _lock:
        surplus = [_kept.pop(key)] if key in _kept else []
        while len(_kept) >= _KEPT_MAX:
            surplus.append(_kept.pop(next(iter(_kept))))
        _kept[key] = producer
    for each in surplus:
        each.close()


def _forked() -> None:
    global _lock  # noqa: PLW0603 - one for the process
    # The connections are the parent's, and a thread that is not in the child may have held the lock.
    _lock = threading.Lock()
    _kept.clear()


os.register_at_fork(after_in_child=_forked)
