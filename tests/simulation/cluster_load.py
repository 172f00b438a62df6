"""Who uses a simulated cluster while it suffers: our own clients, each on a machine of its own, and what they were promised."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from random import Random
from typing import Protocol

from tests.simulation.cluster_invariants import Committed, expect
from tests.simulation.cluster_security import client_options
from tidelog.client.consumer.async_consumer import AsyncConsumer
from tidelog.client.consumer.options import ConsumerOptions
from tidelog.client.consumer.records import GroupMetadata
from tidelog.client.consumer.topic_partition import TopicPartition as AssignedPartition
from tidelog.client.errors import (
    ClientError,
    ProducerFailedError,
    ProducerFencedError,
    TimedOutError,
    TransactionAbortableError,
)
from tidelog.client.options import parse_options
from tidelog.client.producer.async_producer import AsyncProducer
from tidelog.client.producer.batch_builder import Delivery
from tidelog.client.seams import ClientSeams
from tidelog.model.ids import PartitionIndex, TopicName, TopicPartition
from tidelog.model.slow_work import InlineSlowWork
from tidelog.simulation.cluster import PORT, SimulatedCluster
from tidelog.simulation.loop import VirtualClock
from tidelog.wire.record_batch import each_batch
from tidelog.wire.records import decode_batch

TOPIC = "orders"
PARTITIONS = (0, 1)
GROUP = "readers"
TRANSACTIONAL_ID = "payments"

# Longer than any history: no record is given up, so each of them must arrive.
FOR_EVER_MS = 600_000


def seams_on(cluster: SimulatedCluster, host: str) -> ClientSeams:
    return ClientSeams(
        cluster.loop,
        cluster.network.host(host),
        VirtualClock(cluster.loop),
        Random(cluster.random.getrandbits(32)),
        InlineSlowWork(),
    )


def bootstrap_servers(cluster: SimulatedCluster) -> str:
    return ",".join(f"{machine.name}:{PORT}" for machine in cluster.machines.values())


def new_producer(cluster: SimulatedCluster, host: str, **more: object) -> AsyncProducer:
    options: dict[str, object] = {
        "bootstrap_servers": bootstrap_servers(cluster),
        "linger_ms": 0,
        "retry_backoff_ms": 20,
        "retry_backoff_max_ms": 100,
        "reconnect_backoff_ms": 20,
        "reconnect_backoff_max_ms": 100,
        "socket_connection_setup_timeout_ms": 500,
        "request_timeout_ms": 1500,
        "delivery_timeout_ms": FOR_EVER_MS,
        "max_block_ms": FOR_EVER_MS,
        **client_options(cluster),
        **more,
    }
    return AsyncProducer.on(seams_on(cluster, host), **options)  # type: ignore[arg-type]


def new_consumer(cluster: SimulatedCluster, host: str, **more: object) -> AsyncConsumer:
    options: dict[str, object] = {
        "bootstrap_servers": bootstrap_servers(cluster),
        "auto_offset_reset": "earliest",
        "retry_backoff_ms": 20,
        "retry_backoff_max_ms": 100,
        "reconnect_backoff_ms": 20,
        "reconnect_backoff_max_ms": 100,
        "socket_connection_setup_timeout_ms": 500,
        "request_timeout_ms": 1500,
        "enable_auto_commit": False,
        **client_options(cluster),
        **more,
    }
    return AsyncConsumer._on(seams_on(cluster, host), parse_options(ConsumerOptions, options))


Settled = Callable[[], Awaitable[dict[TopicPartition, Committed]]]
"""Waits until all replicas are in sync and equal, and gives what they have agreed on."""


class Load(Protocol):
    """Something that a cluster is used for."""

    def start(self) -> None: ...

    def finish(self) -> None:
        """Begin nothing new."""
        ...

    async def end(self, settled: Settled) -> None:
        """In peace: wait for everything that is under way, and compare what was promised with what all replicas have."""
        ...


class _Worker:
    """One task on a machine of its own, which can be stalled like any other."""

    def __init__(self, cluster: SimulatedCluster, host: str) -> None:
        self.cluster = cluster
        self.random = cluster.random
        self.host = host
        self.is_over = False
        self._task: asyncio.Task[None] | None = None

    def run(self, work: Callable[[], Awaitable[None]]) -> None:
        async def running() -> None:
            await work()

        self._task = self.cluster.loop.create_task(running(), context=self.cluster.network.host(self.host).context)

    async def pause(self, most_s: float) -> None:
        await asyncio.sleep(self.random.uniform(0, most_s))

    async def wait(self) -> None:
        assert self._task is not None
        await self._task


class RecordLoad:
    """An idempotent producer with several records under way, and a consumer that reads along and asks where partitions end."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self._cluster = cluster
        self._writer = _Worker(cluster, "client-1")
        self._reader = _Worker(cluster, "client-2")
        self._sent: list[bytes] = []
        self._acknowledged: dict[tuple[int, int], bytes] = {}
        self._failed: list[str] = []
        self._read: dict[int, list[tuple[int, bytes | None]]] = {index: [] for index in PARTITIONS}
        self._to_read: dict[int, int] = {}

    @property
    def acknowledged(self) -> int:
        return len(self._acknowledged)

    def start(self) -> None:
        self._writer.run(self._write)
        self._reader.run(self._follow)

    async def _write(self) -> None:
        async with new_producer(self._cluster, "client-1") as producer:
            under_way: list[asyncio.Task[None]] = []
            while not self._writer.is_over:
                value = b"order %d" % len(self._sent)
                self._sent.append(value)
                delivery = await producer.send(TOPIC, value, partition=self._writer.random.choice(PARTITIONS))
                under_way = [task for task in under_way if not task.done()]
                under_way.append(self._cluster.loop.create_task(self._note(value, delivery)))
                if self._writer.random.random() < 0.7:
                    await self._writer.pause(0.15)
            await asyncio.gather(*under_way)

    async def _note(self, value: bytes, delivery: Delivery) -> None:
        try:
            metadata = await delivery
        except ClientError as error:
            self._failed.append(f"{value!r}: {error}")
        else:
            self._acknowledged[metadata.partition, metadata.offset] = value

    async def _follow(self) -> None:
        ends: dict[int, int] = {}
        last_s = 0.0
        loop = self._cluster.loop
        partitions = [(TOPIC, index) for index in PARTITIONS]
        async with new_consumer(self._cluster, "client-2", fetch_max_wait_ms=200) as consumer:
            consumer.assign([(TOPIC, index) for index in PARTITIONS])
            while not self._reader.is_over or any(self._position(index) < end for index, end in self._to_read.items()):
                for row in await consumer.poll(100):
                    self._take(row.partition, row.offset, row.value)
                if loop.time() - last_s > 0.15 and not self._reader.is_over:
                    last_s = loop.time()
                    try:
                        found = await consumer.end_offsets(partitions, timeout_ms=300)
                    except TimedOutError:
                        continue
                    for where, end in found.items():
                        before = max(ends.get(where.partition, 0), self._position(where.partition))
                        expect(
                            end >= before,
                            "high watermark",
                            f"a consumer is told that {TOPIC}-{where.partition} ends at {end}, and knew of {before}",
                        )
                        ends[where.partition] = end

    def _position(self, index: int) -> int:
        rows = self._read[index]
        return rows[-1][0] + 1 if rows else 0

    def _take(self, index: int, offset: int, value: bytes | None) -> None:
        position = self._position(index)
        expect(
            offset == position,
            "committed stays",
            f"a consumer of {TOPIC}-{index} gets offset {offset} and expects {position}",
        )
        self._read[index].append((offset, value))

    def finish(self) -> None:
        self._writer.is_over = True

    async def end(self, settled: Settled) -> None:
        await self._writer.wait()
        found = self._check_written(await settled())
        self._to_read = {index: max(values, default=-1) + 1 for index, values in found.items()}
        self._reader.is_over = True
        await self._reader.wait()
        for index, rows in self._read.items():
            for offset, value in rows:
                there = found[index].get(offset)
                expect(
                    there == value,
                    "committed stays",
                    f"a consumer got {value!r} at {TOPIC}-{index} offset {offset}, where {there!r} is",
                )

    def _check_written(self, partitions: dict[TopicPartition, Committed]) -> dict[int, dict[int, bytes]]:
        expect(not self._failed, "liveness", f"a producer that never gives up gave up: {self._failed[:3]}")
        expect(bool(self._acknowledged), "liveness", "nothing was ever acknowledged")
        found: dict[int, dict[int, bytes]] = {index: values_in(partitions, index) for index in PARTITIONS}
        for (index, offset), value in self._acknowledged.items():
            there = found[index].get(offset)
            expect(
                there == value,
                "acknowledged stays",
                f"{value!r} was acknowledged at {TOPIC}-{index} offset {offset}, where {there!r} is",
            )
        everything = [value for values in found.values() for value in values.values()]
        doubled = sorted(value for value in set(everything) if everything.count(value) > 1)
        expect(not doubled, "written once", f"{doubled[:3]} are there more than once")
        return found


def values_in(partitions: dict[TopicPartition, Committed], index: int, topic: str = TOPIC) -> dict[int, bytes]:
    """The records of a partition on which all replicas have agreed, control records left out."""
    committed = partitions.get(TopicPartition(TopicName(topic), PartitionIndex(index)))
    values: dict[int, bytes] = {}
    if committed is None:
        return values
    data = committed.data()
    for position, header in each_batch(data):
        if not header.is_control:
            for row in decode_batch(data, header, position):
                values[row.offset] = row.value or b""
    return values


class TransactionLoad:
    """A transactional producer, sometimes two with one id, and a reader of what is committed."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self._cluster = cluster
        self._writers = [_Worker(cluster, "client-1")]
        self._reader = _Worker(cluster, "client-2")
        self._number = 0
        self._transactions: list[list[bytes]] = []
        self._outcomes: dict[bytes, bool | None] = {}
        self._open: set[bytes] = set()
        self.is_open = False
        """Whether something has been sent in a transaction of which nobody has asked for the end yet."""
        self.is_half_sent = False
        """Whether the same transaction is to have more."""
        self.taken_over = 0
        """How often a process has taken the transactional id."""
        self._read: dict[int, list[bytes | None]] = {index: [] for index in PARTITIONS}
        self._last = b""

    @property
    def acknowledged(self) -> int:
        return sum(1 for outcome in self._outcomes.values() if outcome)

    def start(self) -> None:
        self._writers[0].run(lambda: self._write(self._writers[0]))
        self._reader.run(self._follow)

    def take_over(self) -> None:
        """Another process begins with the same transactional id. The one before may not know."""
        worker = _Worker(self._cluster, f"client-{len(self._writers) + 2}")
        self._writers.append(worker)
        worker.run(lambda: self._write(worker))

    @property
    def writer_host(self) -> str:
        return self._writers[-1].host

    async def _write(self, worker: _Worker) -> None:
        while not worker.is_over:
            producer = new_producer(
                self._cluster, worker.host, transactional_id=TRANSACTIONAL_ID, transaction_timeout_ms=20_000
            )
            try:
                await producer.init_transactions()
                self.taken_over += 1
                while not worker.is_over:
                    await self._transact(producer, worker)
                    await worker.pause(0.1)
            except (ProducerFencedError, ProducerFailedError):
                # Another one has taken over, or what was under way cannot be known: only a new producer can go on.
                if worker is not self._writers[-1]:
                    return
            finally:
                await producer.close(0)

    async def _transact(self, producer: AsyncProducer, worker: _Worker, *, is_last: bool = False) -> bytes:
        self._number += 1
        value = b"transaction %d" % self._number
        values = [value, value + b" again"] if worker.random.random() < 0.5 else [value]
        self._transactions.append(values)
        self._outcomes.update(dict.fromkeys(values))
        is_wanted = is_last or worker.random.random() < 0.7
        await producer.begin_transaction()
        self._open.update(values)
        try:
            for each in values:
                for index in PARTITIONS:
                    await producer.send(TOPIC, each, partition=index)
                self.is_open = True
                self.is_half_sent = each is not values[-1]
                await worker.pause(0.15)
            self.is_open = False
            if is_wanted:
                self._open.difference_update(values)
                await producer.commit_transaction()
            else:
                await producer.abort_transaction()
        except TransactionAbortableError:
            is_wanted = False
            await producer.abort_transaction()
        self._outcomes.update(dict.fromkeys(values, is_wanted))
        return value

    async def _follow(self) -> None:
        async with new_consumer(
            self._cluster, "client-2", isolation_level="read_committed", fetch_max_wait_ms=200
        ) as consumer:
            consumer.assign([(TOPIC, index) for index in PARTITIONS])
            while not self._reader.is_over or any(self._last not in values for values in self._read.values()):
                for row in await consumer.poll(100):
                    assert row.value is not None
                    expect(
                        row.value not in self._open and self._outcomes[row.value] is not False,
                        "transactions atomic",
                        f"a reader of what is committed gets {row.value!r} of {TOPIC}-{row.partition}, which nobody "
                        "has committed",
                    )
                    self._read[row.partition].append(row.value)

    def finish(self) -> None:
        for worker in self._writers:
            worker.is_over = True

    async def end(self, settled: Settled) -> None:
        for worker in self._writers:
            await worker.wait()
        last = _Worker(self._cluster, "client-9")
        producer = new_producer(self._cluster, last.host, transactional_id=TRANSACTIONAL_ID)
        async with producer:
            await producer.init_transactions()
            self._last = await self._transact(producer, last, is_last=True)
        await settled()
        self._reader.is_over = True
        await self._reader.wait()
        self._check_read()

    def _check_read(self) -> None:
        for values in self._transactions:
            outcome = self._outcomes[values[0]]
            places = [(value, index) for value in values for index in PARTITIONS]
            times = [self._read[index].count(value) for value, index in places]
            expect(max(times) <= 1, "written once", f"{values[0]!r} is there {times} times")
            seen = [f"{value!r} in {TOPIC}-{index}" for value, index in places if value in self._read[index]]
            if outcome is None:
                expect(
                    len(seen) in {0, len(places)},
                    "transactions atomic",
                    f"of {values[0]!r}, whose end nobody was told, only {seen} are seen",
                )
            elif outcome:
                expect(
                    len(seen) == len(places),
                    "transactions atomic",
                    f"of {values[0]!r}, which committed, only {seen} are seen",
                )
            else:
                expect(not seen, "transactions atomic", f"of {values[0]!r}, which was aborted, {seen} are seen")
        expect(
            self._read[0] == self._read[1], "transactions atomic", "partitions show transactions in different orders"
        )


class GroupLoad:
    """Two members of a group that share the partitions and commit what they have read, of what a producer writes."""

    def __init__(self, cluster: SimulatedCluster, protocol: str) -> None:
        self._cluster = cluster
        self._records = RecordLoad(cluster)
        self._members = [_Worker(cluster, "client-4"), _Worker(cluster, "client-5")]
        self._protocol = protocol
        self._owners: dict[tuple[int, int], str] = {}
        self._generation_committed = -1
        self._committed: dict[int, int] = {}
        self._tried: dict[int, int] = {}

    @property
    def acknowledged(self) -> int:
        return self._records.acknowledged

    def start(self) -> None:
        self._records.start()
        for member in self._members:
            member.run(lambda member=member: self._consume(member))  # type: ignore[misc]

    def _options(self) -> dict[str, object]:
        options: dict[str, object] = {"group_id": GROUP, "group_protocol": self._protocol}
        if self._protocol == "classic":
            options |= {"session_timeout_ms": 700, "heartbeat_interval_ms": 150}
        return options

    async def _consume(self, member: _Worker) -> None:
        async with new_consumer(self._cluster, member.host, fetch_max_wait_ms=200, **self._options()) as consumer:
            positions: dict[int, int] = {}
            # What was committed when the member was given a partition: only then it asks where to go on. It may get the first
            # record much later, when another one has the partition, has committed more, and this one does not know.
            least: dict[int, int] = {}

            def assigned(partitions: list[AssignedPartition]) -> None:
                for where in partitions:
                    positions.pop(where.partition, None)
                    least[where.partition] = self._committed.get(where.partition, 0)
                    if self._protocol == "classic":
                        self._note_owner(consumer.group_metadata(), where.partition)

            consumer.subscribe([TOPIC], on_assigned=assigned)
            while not member.is_over:
                rows = await consumer.poll(100)
                for row in rows:
                    if row.partition not in positions:
                        self._begin(row.partition, row.offset, least[row.partition])
                    positions[row.partition] = row.offset + 1
                if rows and member.random.random() < 0.7:
                    held = {where.partition for where in consumer.assignment()}
                    await self._commit(
                        consumer, {index: offset for index, offset in positions.items() if index in held}
                    )

    def _note_owner(self, member: GroupMetadata, index: int) -> None:
        owner = self._owners.setdefault((member.generation_id, index), member.member_id)
        expect(
            owner == member.member_id,
            "generations monotone",
            f"{TOPIC}-{index} has two owners in generation {member.generation_id}",
        )

    def _begin(self, index: int, offset: int, least: int) -> None:
        most = self._tried.get(index, 0)
        expect(
            least <= offset <= max(least, most),
            "commits stay",
            f"a member begins with {TOPIC}-{index} at {offset}; when it was given that, {least} was committed, and nobody has "
            f"tried to commit more than {most}",
        )

    async def _commit(self, consumer: AsyncConsumer, positions: dict[int, int]) -> None:
        for index, offset in positions.items():
            self._tried[index] = max(offset, self._tried.get(index, 0))
        offsets = {(TOPIC, index): offset for index, offset in positions.items()}
        before, generation = self._generation_committed, consumer.group_metadata().generation_id
        try:
            await consumer.commit(offsets, timeout_ms=1000)
        except ClientError:
            # Another member has the partition by now, or nobody knows.
            return
        if self._protocol == "classic":
            expect(
                generation >= before,
                "generations monotone",
                f"a commit of generation {generation} is taken, after one of {before} was",
            )
            self._generation_committed = max(generation, before)
        for index, offset in positions.items():
            self._committed[index] = max(offset, self._committed.get(index, 0))

    def finish(self) -> None:
        self._records.finish()

    async def end(self, settled: Settled) -> None:
        await self._records.end(settled)
        for member in self._members:
            member.is_over = True
        for member in self._members:
            await member.wait()
        async with new_consumer(self._cluster, "client-6", **self._options()) as consumer:
            found = await consumer.committed([(TOPIC, index) for index in PARTITIONS])
            for where, offset in found.items():
                least = self._committed.get(where.partition, 0)
                there = 0 if offset is None else offset.offset
                expect(
                    there >= least,
                    "commits stay",
                    f"{least} was committed for {TOPIC}-{where.partition}, and the group is at {there}",
                )
