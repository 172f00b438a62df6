"""A producer against a scripted cluster on virtual time: what arrives, in which order, and what it says about it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from tests.support.scripted_cluster import Fault, ScriptedCluster, refuse_produce
from tidelog.client.errors import (
    BufferFullError,
    ClientError,
    ClosedError,
    DeliveryFailedError,
    RecordTooLargeError,
    RefusedError,
    TimedOutError,
)
from tidelog.client.producer.accumulator import RECORDS_PER_TURN_MAX
from tidelog.client.producer.async_producer import AsyncProducer
from tidelog.client.producer.record_metadata import RecordMetadata
from tidelog.model.errors import ErrorCode
from tidelog.simulation.loop import START_MS
from tidelog.wire.messages.produce import ProduceRequest
from tidelog.wire.messages.producers import InitProducerIdRequest
from tidelog.wire.record_batch import each_batch
from tidelog.wire.schema import Request, Response


def producer(world: ScriptedCluster, **options: Any) -> AsyncProducer:
    return AsyncProducer.on(world.seams, **{"bootstrap_servers": world.bootstrap_servers, **options})


def once(count: int, act: Callable[[ProduceRequest], Response | Fault | None]) -> Callable[[Request], Any]:
    """Do something with the first `count` produce requests, and leave the others alone."""
    seen = 0

    def script(request: Request) -> Response | Fault | None:
        nonlocal seen
        if not isinstance(request, ProduceRequest) or seen >= count:
            return None
        seen += 1
        return act(request)

    return script


async def send_all(sender: AsyncProducer, count: int, **options: Any) -> list[RecordMetadata]:
    deliveries = [await sender.send("orders", b"%d" % number, **options) for number in range(count)]
    return [await delivery for delivery in deliveries]


def numbers(count: int) -> list[bytes]:
    return [b"%d" % number for number in range(count)]


def test_a_record_is_written_and_its_place_told() -> None:
    world = ScriptedCluster(topics={"orders": 1})

    async def main(world: ScriptedCluster) -> None:
        async with producer(world) as sender:
            first = await sender.send("orders", b"one", timestamp_ms=77)
            second = await sender.send("orders", b"two")
            assert not first.is_done
            assert await first == RecordMetadata("orders", 0, 0, 77)
            assert (await second).offset == 1
            assert (await second).timestamp_ms >= START_MS
            assert first.is_done

    world.run(main)
    assert world.topics["orders"][0].values == [b"one", b"two"]
    # One node, one connection: the bootstrap connection goes on as the broker's.
    assert len(world.brokers[1].host.endpoints()) <= 1


def test_records_linger_and_leave_together() -> None:
    world = ScriptedCluster(topics={"orders": 1})

    async def main(world: ScriptedCluster) -> None:
        async with producer(world, linger_ms=50) as sender:
            await (await sender.send("orders", b"first"))
            before = world.loop.time()
            deliveries = [await sender.send("orders", b"x") for _ in range(100)]
            await deliveries[0]
            assert 0.05 <= world.loop.time() - before < 0.06

    world.run(main)
    assert world.brokers[1].asked(ProduceRequest) == 2


def test_a_flush_does_not_linger() -> None:
    world = ScriptedCluster(topics={"orders": 1})

    async def main(world: ScriptedCluster) -> None:
        async with producer(world, linger_ms=10_000) as sender:
            delivery = await sender.send("orders", b"x")
            await sender.flush()
            assert delivery.is_done
            assert world.loop.time() < 1

    world.run(main)


def test_who_sends_without_a_break_lets_others_have_their_turn() -> None:
    world = ScriptedCluster(topics={"orders": 1})
    turns = 0

    async def main(world: ScriptedCluster) -> None:
        nonlocal turns

        async def count() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        async with producer(world, linger_ms=1000, batch_size=100_000) as sender:
            await sender.send("orders", b"0")
            counting = asyncio.ensure_future(count())
            for number in range(1, 4 * RECORDS_PER_TURN_MAX):
                await sender.send("orders", b"%d" % number)
            counting.cancel()

    world.run(main)
    assert 3 <= turns <= 5
    assert world.topics["orders"][0].values == numbers(4 * RECORDS_PER_TURN_MAX)
    assert world.brokers[1].asked(ProduceRequest) == 1


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ],
)
def test_an_error_that_passes_is_tried_again_in_order(code: ErrorCode) -> None:
    world = ScriptedCluster(topics={"orders": 1})

    async def main(world: ScriptedCluster) -> None:
        world.brokers[1].script = once(3, refuse_produce(code))
        async with producer(world, batch_size=80, linger_ms=0) as sender:
            written = await send_all(sender, 20)
            assert [each.offset for each in written] == list(range(20))
            assert sender.metrics()["messaging.client.retried.batches"] >= 3

    world.run(main)
    assert world.topics["orders"][0].values == numbers(20)


def test_nothing_overtakes_a_producers_first_batch() -> None:
    """A partition takes any number for a producer's first: a second batch would be let in where the first one was refused."""
    world = ScriptedCluster(topics={"orders": 1})
    came: list[int] = []

    async def main(world: ScriptedCluster) -> None:
        refuse = once(1, refuse_produce(ErrorCode.NOT_LEADER_OR_FOLLOWER))

        def script(request: Request) -> Response | Fault | None:
            if isinstance(request, ProduceRequest):
                records = request.topic_data[0].partition_data[0].records
                assert isinstance(records, bytes | memoryview)
                came.extend(header.base_sequence for _, header in each_batch(records))
            result: Response | Fault | None = refuse(request)
            return result

        world.brokers[1].script = script
        async with producer(world, batch_size=80, linger_ms=0) as sender:
            await send_all(sender, 20)

    world.run(main)
    assert came[:2] == [0, 0]
    assert sorted(set(came)) == came[1:]
    assert world.topics["orders"][0].values == numbers(20)


@pytest.mark.parametrize("fault", [Fault.BREAK, Fault.SILENCE, Fault.IGNORE])
def test_a_lost_answer_neither_loses_nor_doubles(fault: Fault) -> None:
    world = ScriptedCluster(topics={"orders": 1})

    async def main(world: ScriptedCluster) -> None:
        world.brokers[1].script = once(4, lambda _request: fault)
        async with producer(world, batch_size=80, linger_ms=0, request_timeout_ms=500) as sender:
            written = await send_all(sender, 30)
            assert [each.offset for each in written] == list(range(30))

    world.run(main)
    assert world.topics["orders"][0].values == numbers(30)


def test_a_new_leader_is_followed_by_its_hint_at_once() -> None:
    world = ScriptedCluster(brokers=2, topics={"orders": 1})

    async def main(world: ScriptedCluster) -> None:
        async with producer(world, linger_ms=0) as sender:
            await (await sender.send("orders", b"0"))
            world.move("orders", 0, 2)
            before = world.loop.time()
            await (await sender.send("orders", b"1"))
            # Well below the back-off of 100 ms.
            assert world.loop.time() - before < 0.05

    world.run(main)
    assert world.topics["orders"][0].values == numbers(2)
    assert world.brokers[2].asked(ProduceRequest) == 1


def test_a_dead_leader_is_replaced() -> None:
    world = ScriptedCluster(brokers=2, topics={"orders": 1})

    async def main(world: ScriptedCluster) -> None:
        async with producer(world, linger_ms=0, batch_size=80) as sender:
            await (await sender.send("orders", b"0"))
            world.brokers[1].kill()
            deliveries = [await sender.send("orders", b"%d" % number) for number in range(1, 10)]
            await asyncio.sleep(1)
            world.move("orders", 0, 2)
            for delivery in deliveries:
                await delivery

    world.run(main)
    assert world.topics["orders"][0].values == numbers(10)


@pytest.mark.parametrize("elected_after_s", [0.0, 0.05, 0.25])
def test_what_was_under_way_to_a_dead_leader_reaches_the_next_one_soon(elected_after_s: float) -> None:
    world = ScriptedCluster(brokers=3, topics={"orders": 1})

    async def main(world: ScriptedCluster) -> None:
        async with producer(world, linger_ms=0, batch_size=80) as sender:
            await (await sender.send("orders", b"0"))
            world.brokers[1].script = once(1, lambda _request: Fault.IGNORE)
            deliveries = []
            for number in range(1, 10):
                deliveries.append(await sender.send("orders", b"%d" % number))
                await asyncio.sleep(0.01)
            world.brokers[1].kill()
            killed_s = world.loop.time()
            await asyncio.sleep(elected_after_s)
            world.move("orders", 0, 2)
            for delivery in deliveries:
                await delivery
            assert sender.metrics()["messaging.client.retried.batches"] >= 5
            # Five that fail together are one failure, and a leader that is new is no reason to wait.
            assert world.loop.time() - killed_s < 2 * elected_after_s + 0.3

    world.run(main)
    assert world.topics["orders"][0].values == numbers(10)


def test_the_epoch_is_raised_once_the_broker_has_forgotten_the_producer() -> None:
    world = ScriptedCluster(topics={"orders": 1})

    async def main(world: ScriptedCluster) -> None:
        async with producer(world, linger_ms=0) as sender:
            await send_all(sender, 3)
            world.topics["orders"][0].producers.clear()
            await send_all(sender, 3)
            (entry,) = world.topics["orders"][0].producers.values()
            assert entry.epoch == 1

    world.run(main)
    assert world.topics["orders"][0].values == numbers(3) * 2
    assert world.brokers[1].asked(InitProducerIdRequest) == 1


def test_after_a_record_that_is_refused_for_good_the_others_go_on() -> None:
    world = ScriptedCluster(topics={"orders": 1})

    async def main(world: ScriptedCluster) -> None:
        async with producer(world, linger_ms=0, batch_size=80) as sender:
            world.brokers[1].script = once(1, refuse_produce(ErrorCode.INVALID_RECORD))
            deliveries = [await sender.send("orders", b"%d" % number) for number in range(10)]
            with pytest.raises(DeliveryFailedError) as caught:
                await deliveries[0]
            assert caught.value.code is ErrorCode.INVALID_RECORD
            outcomes = await asyncio.gather(*(_outcome(delivery) for delivery in deliveries))
            assert any(isinstance(each, RecordMetadata) for each in outcomes)

    world.run(main)
    values = world.topics["orders"][0].values
    assert values == numbers(10)[10 - len(values) :]
    assert 0 < len(values) < 10


async def _outcome(delivery: Any) -> RecordMetadata | ClientError:
    try:
        outcome: RecordMetadata = await delivery
    except ClientError as error:
        return error
    return outcome


def test_a_duplicate_that_the_broker_cannot_place_is_a_success() -> None:
    world = ScriptedCluster(topics={"orders": 1})

    async def main(world: ScriptedCluster) -> None:
        world.brokers[1].script = once(1, refuse_produce(ErrorCode.DUPLICATE_SEQUENCE_NUMBER))
        async with producer(world) as sender:
            assert (await (await sender.send("orders", b"x"))).offset == -1

    world.run(main)


def test_a_batch_that_is_too_large_is_split() -> None:
    world = ScriptedCluster(topics={"orders": 1})
    world.topics["orders"][0].batch_bytes_max = 400

    async def main(world: ScriptedCluster) -> None:
        reported: list[int] = []
        async with producer(world, linger_ms=5) as sender:
            deliveries = [
                await sender.send(
                    "orders",
                    b"%d" % number,
                    headers=[("a", b"1")],
                    on_delivery=lambda _error, metadata: reported.append(metadata.offset if metadata else -2),
                )
                for number in range(100)
            ]
            assert [(await delivery).offset for delivery in deliveries] == list(range(100))
            assert reported == list(range(100))
            assert sender.metrics()["messaging.client.split.batches"] > 1
            assert sender.metrics()["messaging.client.buffered.bytes"] == 0

    world.run(main)
    assert world.topics["orders"][0].values == numbers(100)


def test_a_record_that_is_too_large_for_the_topic_fails_alone() -> None:
    world = ScriptedCluster(topics={"orders": 1})
    world.topics["orders"][0].batch_bytes_max = 400

    async def main(world: ScriptedCluster) -> None:
        async with producer(world, linger_ms=5) as sender:
            large = await sender.send("orders", bytes(500))
            small = await sender.send("orders", b"x")
            with pytest.raises(DeliveryFailedError, match="MESSAGE_TOO_LARGE"):
                await large
            await small

    world.run(main)
    assert world.topics["orders"][0].values == [b"x"]


def test_what_is_not_delivered_in_time_fails_and_says_why() -> None:
    world = ScriptedCluster(topics={"orders": 1})

    async def main(world: ScriptedCluster) -> None:
        options = {"delivery_timeout_ms": 2_000, "request_timeout_ms": 1_000, "linger_ms": 0}
        async with producer(world, **options) as sender:
            await (await sender.send("orders", b"0"))
            world.brokers[1].script = lambda request: (
                refuse_produce(ErrorCode.NOT_ENOUGH_REPLICAS)(request) if isinstance(request, ProduceRequest) else None
            )
            failing = await sender.send("orders", b"1")
            with pytest.raises(DeliveryFailedError, match=r"within 2000 ms.*NOT_ENOUGH_REPLICAS") as caught:
                await failing
            assert caught.value.code is ErrorCode.REQUEST_TIMED_OUT
            assert 2 <= world.loop.time() < 2.5
            world.brokers[1].script = lambda _request: None
            assert (await (await sender.send("orders", b"2"))).offset == 1

    world.run(main)
    assert world.topics["orders"][0].values == [b"0", b"2"]


def test_a_full_buffer_makes_the_sender_wait_and_then_fail() -> None:
    world = ScriptedCluster(topics={"orders": 1})

    async def main(world: ScriptedCluster) -> None:
        async with producer(world, buffer_memory=1000, batch_size=500, linger_ms=0, max_block_ms=3000) as sender:
            world.brokers[1].script = lambda request: Fault.IGNORE if isinstance(request, ProduceRequest) else None
            for _ in range(8):
                await sender.send("orders", bytes(100))
            before = world.loop.time()
            with pytest.raises(BufferFullError, match="1000 bytes was full for 3000 ms"):
                await sender.send("orders", bytes(100))
            assert world.loop.time() - before == pytest.approx(3, abs=0.01)
            waiting = asyncio.ensure_future(sender.send("orders", b"late"))
            world.brokers[1].script = lambda _request: None
            # The ignored requests time out, their batches are sent again, and there is room.
            world.network.reset("client", "broker-1")
            await (await waiting)

    world.run(main)
    assert world.topics["orders"][0].values == [*[bytes(100)] * 8, b"late"]


def test_many_senders_share_a_small_buffer() -> None:
    world = ScriptedCluster(topics={"orders": 1})

    async def main(world: ScriptedCluster) -> None:
        async with producer(world, buffer_memory=600, batch_size=200, linger_ms=0) as sender:

            async def one(number: int) -> None:
                await (await sender.send("orders", b"%d" % number + bytes(80)))

            await asyncio.gather(*(one(number) for number in range(50)))
            assert sender.metrics()["messaging.client.buffered.bytes"] == 0

    world.run(main)
    assert len(world.topics["orders"][0].values) == 50


def test_a_topic_that_is_not_there_is_one_error_in_time() -> None:
    world = ScriptedCluster()

    async def main(world: ScriptedCluster) -> None:
        async with producer(world, max_block_ms=2000) as sender:
            with pytest.raises(TimedOutError, match="topic nowhere was not found within 2000 ms: it does not exist"):
                await sender.send("nowhere", b"x")
            assert world.loop.time() == pytest.approx(2, abs=0.05)

    world.run(main)


def test_a_cluster_that_is_not_there_is_one_error_in_time() -> None:
    world = ScriptedCluster(topics={"orders": 1})

    async def main(world: ScriptedCluster) -> None:
        world.brokers[1].kill()
        async with producer(world, max_block_ms=2000) as sender:
            with pytest.raises(TimedOutError, match="cannot connect to broker-1:9092: connection refused"):
                await sender.send("orders", b"x")

    world.run(main)


def test_bad_records_are_refused_before_they_are_buffered() -> None:
    world = ScriptedCluster(topics={"orders": 2})

    async def main(world: ScriptedCluster) -> None:
        async with producer(world, max_request_size=1000) as sender:
            with pytest.raises(RecordTooLargeError, match="1000"):
                await sender.send("orders", bytes(1000))
            with pytest.raises(RefusedError, match="there is no partition 2: the topic has 2"):
                await sender.send("orders", b"x", partition=2)
            with pytest.raises(RefusedError, match="there is no partition -5: the topic has 2"):
                await sender.send("orders", b"x", partition=-5)
            with pytest.raises(RefusedError, match="there is no partition"):
                await sender.send("orders", b"x", partition=2**70)
            with pytest.raises(TypeError, match="a partition is a whole number, not str"):
                await sender.send("orders", b"x", partition="0")  # type: ignore[arg-type]
            for bad_ms in (2**70, -1):
                with pytest.raises(ValueError, match="timestamp_ms is"):
                    await sender.send("orders", b"x", timestamp_ms=bad_ms)
            with pytest.raises(TypeError, match="pairs such as"):
                await sender.send("orders", b"x", headers={"a": b"5"})  # type: ignore[arg-type]
            with pytest.raises(TypeError, match="the value of the header 'a' is bytes or None, not int"):
                await sender.send("orders", b"x", headers=[("a", 5)])  # type: ignore[list-item]
            with pytest.raises(TypeError, match="not str: set a serializer"):
                await sender.send("orders", "text")
            assert sender.metrics()["messaging.client.buffered.bytes"] == 0

    world.run(main)
    assert world.brokers[1].asked(ProduceRequest) == 0


def test_without_acks_nothing_is_answered() -> None:
    world = ScriptedCluster(topics={"orders": 1})

    async def main(world: ScriptedCluster) -> None:
        async with producer(world, acks=0) as sender:
            written = await send_all(sender, 5)
            assert [each.offset for each in written] == [-1] * 5
            await asyncio.sleep(1)

    world.run(main)
    assert world.topics["orders"][0].values == numbers(5)
    assert world.brokers[1].asked(InitProducerIdRequest) == 0


def test_closing_delivers_what_is_buffered() -> None:
    world = ScriptedCluster(topics={"orders": 1})

    async def main(world: ScriptedCluster) -> None:
        sender = producer(world, linger_ms=10_000)
        delivery = await sender.send("orders", b"0")
        await sender.close()
        assert (await delivery).offset == 0
        with pytest.raises(ClosedError):
            await sender.send("orders", b"1")
        await sender.close()

    world.run(main)
    assert world.topics["orders"][0].values == numbers(1)


def test_closing_at_once_gives_up_what_is_buffered() -> None:
    world = ScriptedCluster(topics={"orders": 1})

    async def main(world: ScriptedCluster) -> None:
        sender = producer(world, linger_ms=10_000)
        delivery = await sender.send("orders", b"0")
        await sender.close(timeout_ms=0)
        with pytest.raises(ClosedError, match="closed before the record was delivered"):
            await delivery

    world.run(main)
    assert world.topics["orders"][0].values == []


def test_old_brokers_are_spoken_to_in_their_versions() -> None:
    world = ScriptedCluster(topics={"orders": 1})
    world.versions = {0: (3, 3), 3: (0, 1), 22: (0, 0)}

    async def main(world: ScriptedCluster) -> None:
        async with producer(world) as sender:
            await send_all(sender, 3)

    world.run(main)
    assert world.topics["orders"][0].values == numbers(3)


def test_serializers_interceptors_and_observers() -> None:
    class Watcher:
        def __init__(self) -> None:
            self.seen: list[object] = []

        def on_send(self, record: Any) -> Any:
            return record._replace(value=record.value.upper())

        def on_acknowledgement(self, metadata: RecordMetadata | None, error: ClientError | None) -> None:
            self.seen.append((metadata and metadata.offset, error))

        def on_batch(self, report: Any) -> None:
            self.seen.append(report.record_count)

    class Broken:
        def on_send(self, record: Any) -> Any:
            raise ValueError("broken")

        def on_acknowledgement(self, metadata: object, error: object) -> None:
            raise ValueError("broken")

    world = ScriptedCluster(topics={"orders": 1})
    watcher = Watcher()

    async def main(world: ScriptedCluster) -> None:
        options = {"value_serializer": str.encode, "interceptors": [Broken(), watcher], "observers": [watcher]}
        async with producer(world, **options) as sender:
            assert (await (await sender.send("orders", "text"))).offset == 0

    world.run(main)
    assert world.topics["orders"][0].values == [b"TEXT"]
    assert watcher.seen == [(0, None), 1]
