"""Records that wait to be sent, in batches by partition, within a limit of memory.

    delivery = accumulator.append(topic, -1, timestamp_ms, key, value, headers, on_delivery)     # None: there is no room

Any thread may append. The sender drains on the loop's thread. One lock keeps them apart; `append` takes it for less than a
microsecond, and nothing is sent under it.

A batch takes the memory of its capacity when it is opened and gives it back when it is done: what is unacknowledged is limited,
not only what is unsent.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from tidelog.client.errors import ClientError, RecordTooLargeError
from tidelog.client.producer.batch import ProducerBatch
from tidelog.client.producer.batch_builder import Delivery, required_bytes
from tidelog.client.producer.options import ProducerOptions
from tidelog.client.producer.partitioners import next_sticky
from tidelog.client.producer.sequences import PartitionSequences
from tidelog.client.producer.topic_buffer import TopicBuffer, Turn
from tidelog.model.clock import Clock
from tidelog.wire.record_batch import HEADER_BYTES

# After so many records in a row a producer on a loop lets the loop have its turn: what is full can leave, answers come in.
RECORDS_PER_TURN_MAX = 500


class PartitionQueue:
    """The batches of one partition: those to be sent, oldest first, and those under way, in the order in which they left."""

    __slots__ = (
        "failed_epoch",
        "failures",
        "in_flight",
        "index",
        "node_id",
        "not_before_ms",
        "sequences",
        "topic",
        "unsent",
    )

    def __init__(self, topic: str, index: int) -> None:
        self.topic = topic
        self.index = index
        self.unsent: deque[ProducerBatch] = deque()
        self.in_flight: list[ProducerBatch] = []
        self.node_id = -1
        """Where what is in flight went. Nothing goes to another node before it has come back: order would be lost."""
        self.not_before_ms = 0.0
        self.failures = 0
        self.failed_epoch = -1
        """The leader epoch that was known when the last attempt failed: a newer one is worth another at once."""
        self.sequences = PartitionSequences()

    def __str__(self) -> str:
        return f"{self.topic}-{self.index}"

    def is_first(self, batch: ProducerBatch) -> bool:
        """Whether a batch that has come back was the oldest without an outcome."""
        return all(other.order > batch.order for other in (*self.in_flight, *self.unsent))

    def requeue(self, batch: ProducerBatch) -> None:
        """Put a batch back at its place among those that were sent before and those that were not."""
        position = 0
        for queued in self.unsent:
            if queued.order > batch.order:
                break
            position += 1
        self.unsent.insert(position, batch)


class TopicQueues(TopicBuffer):
    """A topic that records were sent to."""

    def __init__(
        self, name: str, partition_count: int, *, hashes_keys: bool, now_ms: Callable[[], int], turn: Turn
    ) -> None:
        super().__init__(partition_count, hashes_keys, now_ms, turn)
        self.name = name
        self.queues = [PartitionQueue(name, index) for index in range(partition_count)]
        self.led: Sequence[int] = range(partition_count)
        """The partitions that have a leader, for records that may go anywhere."""
        self.sticky_partition = -1
        self.sticky_bytes = 0


class Accumulator:
    """`wake` is called, from any thread and at most once until `woken`, when the sender has something to look at."""

    def __init__(self, options: ProducerOptions, random: Random, clock: Clock, wake: Callable[[], None]) -> None:
        self.lock = threading.Lock()
        self.topics: dict[str, TopicQueues] = {}
        self.active: dict[PartitionQueue, None] = {}
        """Queues with something to send."""
        self.used_bytes = 0
        self.refusal: Callable[[], ClientError] | None = None
        """Why no record is taken at the moment, as an error to raise; None while they are. Changed under the lock."""
        self._options = options
        self._random = random
        self._clock = clock
        self._turn = Turn(RECORDS_PER_TURN_MAX)
        self._wake = wake
        self._wake_called = False
        self._hashes_keys = options.partitioner == "default"
        self._adaptive = options.partitioner_adaptive_partitioning_enable
        # A queue is looked at when it gets its first batch (the linger begins) and when a batch is full.
        self._on_room: deque[Callable[[], object]] = deque()

    # Topics.

    def topic(self, name: str, partition_count: int, led: Sequence[int]) -> TopicQueues:
        """The queues of a topic, as many as it has partitions by now."""
        with self.lock:
            topic = self.topics.get(name)
            if topic is None:
                topic = TopicQueues(
                    name, partition_count, hashes_keys=self._hashes_keys, now_ms=self._clock.now_ms, turn=self._turn
                )
                self.topics[name] = topic
            elif partition_count > len(topic.queues):
                topic.queues += [PartitionQueue(name, index) for index in range(len(topic.queues), partition_count)]
                topic.grow(partition_count)
            topic.led = led or range(partition_count)
            if topic.sticky_partition < 0 or topic.sticky_partition not in topic.led:
                self._stick_elsewhere(topic)
            return topic

    def next_partition(self, topic: TopicQueues) -> int:
        """Where a whole batch goes that may go anywhere."""
        with self.lock:
            chosen = topic.sticky_partition
            self._stick_elsewhere(topic)
            return chosen

    # Appending, on any thread.

    def append(
        self,
        topic: TopicQueues,
        partition: int,
        timestamp_ms: int,
        key: bytes | None,
        value: bytes | None,
        headers: Any,
        on_delivery: Any,
    ) -> Delivery | None:
        """Add a record to a partition, -1 for whichever fits its key. None where the buffer has no room at the moment.

        RecordTooLargeError, TypeError for what is not bytes, ValueError for a partition that is not there; the refusal.
        """
        with self.lock:
            if self.refusal is not None:
                raise self.refusal()
            delivery = topic.append(partition, timestamp_ms, key, value, headers, on_delivery)
            if delivery is not None:
                return delivery
            return self._append_to_new_batch(topic, partition, timestamp_ms, key, value, headers, on_delivery)

    def _append_to_new_batch(
        self,
        topic: TopicQueues,
        partition: int,
        timestamp_ms: int,
        key: bytes | None,
        value: bytes | None,
        headers: Any,
        on_delivery: Any,
    ) -> Delivery | None:
        size = HEADER_BYTES + required_bytes(key, value, headers)
        if size > self._options.max_request_size or size > self._options.buffer_memory:
            limit = min(self._options.max_request_size, self._options.buffer_memory)
            raise RecordTooLargeError(
                f"a record of {size} bytes is larger than the {limit} that max_request_size and buffer_memory allow"
            )
        chosen = partition if partition >= 0 else topic.choose(key)
        may_go_anywhere = partition < 0 and (key is None or not self._hashes_keys)
        if may_go_anywhere and topic.open_batch(chosen) is not None:
            # Its batch is full: what comes now goes elsewhere, perhaps to a batch that is open already.
            self._close_batch(topic, chosen)
            self._stick_elsewhere(topic)
            delivery = topic.append(topic.sticky_partition, timestamp_ms, key, value, headers, on_delivery)
            if delivery is not None:
                return delivery
            chosen = topic.sticky_partition
        if topic.open_batch(chosen) is not None:
            self._close_batch(topic, chosen)
        capacity = max(self._options.batch_size, size)
        if self.used_bytes + capacity > self._options.buffer_memory:
            # What is there has to leave first.
            self._call_wake()
            return None
        batch = ProducerBatch(topic.name, chosen, capacity, self._clock.monotonic_ns() / 1e6, capacity)
        delivery = batch.append(timestamp_ms, key, value, headers, on_delivery)
        self._enqueue(topic.queues[chosen], batch)
        topic.open(chosen, batch)
        return delivery

    def enqueue_encoded(self, topic: TopicQueues, batch: ProducerBatch) -> bool:
        """Add a batch that is complete already, behind what the partition has. False where the buffer has no room."""
        with self.lock:
            if self.refusal is not None:
                raise self.refusal()
            if self.used_bytes + batch.reserved_bytes > self._options.buffer_memory:
                self._call_wake()
                return False
            if topic.open_batch(batch.partition) is not None:
                self._close_batch(topic, batch.partition)
            self._enqueue(topic.queues[batch.partition], batch)
            self._call_wake()
            return True

    def _enqueue(self, queue: PartitionQueue, batch: ProducerBatch) -> None:
        self.used_bytes += batch.reserved_bytes
        queue.unsent.append(batch)
        if queue not in self.active:
            self.active[queue] = None
            self._call_wake()

    def _close_batch(self, topic: TopicQueues, partition: int) -> None:
        topic.open(partition, None)
        self._call_wake()

    def _stick_elsewhere(self, topic: TopicQueues) -> None:
        waiting = None
        if self._adaptive:
            waiting = [len(topic.queues[index].unsent) for index in topic.led]
        chosen = next_sticky(self._random, topic.sticky_partition, topic.led, waiting)
        topic.sticky_partition, topic.sticky_bytes = chosen, 0
        topic.stick_to(chosen)

    def _call_wake(self) -> None:
        if not self._wake_called:
            self._wake_called = True
            self._wake()

    # Draining, on the sender's thread.

    def woken(self) -> None:
        """The sender looks at the queues now; whatever comes later needs another call."""
        self._wake_called = False

    def is_complete(self, queue: PartitionQueue, batch: ProducerBatch) -> bool:
        """Whether a batch takes no more records."""
        return self.topics[queue.topic].open_batch(queue.index) is not batch

    def take_first(self, queue: PartitionQueue) -> ProducerBatch:
        """Drain the oldest batch of a queue. From now on nobody adds to it."""
        with self.lock:
            batch = queue.unsent.popleft()
            topic = self.topics[queue.topic]
            if topic.open_batch(queue.index) is batch:
                topic.open(queue.index, None)
                if queue.index == topic.sticky_partition:
                    topic.sticky_bytes += batch.size_bytes
                    if topic.sticky_bytes >= self._options.batch_size:
                        self._stick_elsewhere(topic)
            if not queue.unsent:
                self.active.pop(queue, None)
            return batch

    def take_unsent(self, queue: PartitionQueue, *, numbered_too: bool) -> list[ProducerBatch]:
        """Take the batches of a queue that were never given a number, or all of them. Nobody adds to them from now on."""
        with self.lock:
            taken = [batch for batch in queue.unsent if numbered_too or not batch.has_sequence]
            for batch in taken:
                queue.unsent.remove(batch)
            topic = self.topics[queue.topic]
            if topic.open_batch(queue.index) in taken:
                topic.open(queue.index, None)
            if not queue.unsent:
                self.active.pop(queue, None)
            return taken

    def put_back(self, queue: PartitionQueue, batches: Sequence[ProducerBatch]) -> None:
        """Batches that have to be sent again, at their places."""
        with self.lock:
            for batch in batches:
                queue.requeue(batch)
            if queue.unsent:
                self.active[queue] = None

    def put_first(self, queue: PartitionQueue, batches: Sequence[ProducerBatch]) -> None:
        """What replaces a batch that was taken, before everything else."""
        with self.lock:
            queue.unsent.extendleft(reversed(batches))
            self.active[queue] = None

    def release(self, batch: ProducerBatch) -> None:
        """A batch is done: its memory is free."""
        with self.lock:
            self.used_bytes -= batch.reserved_bytes
            batch.reserved_bytes = 0
            waiter = self._on_room.popleft() if self._on_room else None
        if waiter is not None:
            waiter()

    @property
    def is_short_of_memory(self) -> bool:
        """Whether somebody waits for room: then no batch waits for more records."""
        return bool(self._on_room)

    def when_room(self, waiter: Callable[[], object]) -> None:
        """Call `waiter` once, on the sender's thread, when memory was freed; first come, first served."""
        with self.lock:
            self._on_room.append(waiter)
            self._call_wake()

    def pass_on_room(self) -> None:
        """Wake the next waiter: the one before it has taken the room that it needs, or has given up."""
        with self.lock:
            waiter = self._on_room.popleft() if self._on_room else None
        if waiter is not None:
            waiter()

    def unfinished(self) -> list[ProducerBatch]:
        """All batches without an outcome, for those who wait for every one of them."""
        with self.lock:
            return [
                batch
                for topic in self.topics.values()
                for queue in topic.queues
                for batch in (*queue.in_flight, *queue.unsent)
            ]
