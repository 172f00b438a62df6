"""A producer among faults of every kind: nothing is lost, nothing is doubled, and each partition keeps its order."""

from __future__ import annotations

import asyncio
from random import Random

from hypothesis import given, settings, strategies as st

from tests.support.scripted_cluster import Fault, ScriptedBroker, ScriptedCluster, refuse_produce
from tidelog.client.errors import ClientError
from tidelog.client.producer.async_producer import AsyncProducer
from tidelog.client.producer.options import ProducerArguments
from tidelog.model.errors import ErrorCode
from tidelog.wire.messages.metadata import MetadataRequest
from tidelog.wire.messages.produce import ProduceRequest
from tidelog.wire.schema import Request, Response

PARTITIONS = 2
RECORDS = 60

PASSING = (
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
)


class Chaos:
    """Decides by chance what happens to each request, until it is told to stop."""

    def __init__(self, world: ScriptedCluster, random: Random, rate: float) -> None:
        self._world = world
        self._random = random
        self._rate = rate
        self.is_over = False
        for broker in world.brokers.values():
            broker.script = self._script

    def _script(self, request: Request) -> Response | Fault | None:
        if self.is_over or self._random.random() >= self._rate:
            return None
        if isinstance(request, ProduceRequest):
            choice = self._random.randrange(4)
            if choice < 3:
                return (Fault.BREAK, Fault.SILENCE, Fault.IGNORE)[choice]
            return refuse_produce(self._random.choice(PASSING))(request)
        if isinstance(request, MetadataRequest):
            return Fault.BREAK
        return None

    async def disturb(self) -> None:
        """Elections, deaths and cut wires, a while apart."""
        world, random = self._world, self._random
        ids = list(world.brokers)
        while not self.is_over:
            await asyncio.sleep(random.uniform(0.01, 0.5))
            match random.randrange(4):
                case 0:
                    up = [node_id for node_id in ids if world.brokers[node_id].is_up]
                    world.move("orders", random.randrange(PARTITIONS), random.choice(up))
                case 1:
                    world.network.reset("client", f"broker-{random.choice(ids)}")
                case 2:
                    await self._restart(world.brokers[random.choice(ids)])
                case 3:
                    cut = f"broker-{random.choice(ids)}"
                    world.network.partition(["client"], [cut])
                    await asyncio.sleep(random.uniform(0.01, 0.3))
                    world.network.heal()

    async def _restart(self, broker: ScriptedBroker) -> None:
        broker.kill()
        others = [node_id for node_id, other in self._world.brokers.items() if other.is_up]
        for index, partition in enumerate(self._world.topics["orders"]):
            if partition.leader == broker.node_id:
                self._world.move("orders", index, self._random.choice(others))
        await asyncio.sleep(self._random.uniform(0.01, 0.3))
        await broker.start()


async def produce(
    world: ScriptedCluster, random: Random, options: ProducerArguments
) -> dict[int, list[tuple[bytes, ClientError | None]]]:
    """What was sent to each partition, in order, with each record's outcome."""
    sent: dict[int, list[tuple[bytes, object]]] = {index: [] for index in range(PARTITIONS)}
    arguments: ProducerArguments = {"bootstrap_servers": world.bootstrap_servers, "request_timeout_ms": 400, **options}
    async with AsyncProducer.on(world.seams, **arguments) as producer:
        for number in range(RECORDS):
            partition = random.randrange(PARTITIONS)
            value = b"%d" % number
            sent[partition].append((value, await producer.send("orders", value, partition=partition)))
            if random.random() < 0.2:
                await asyncio.sleep(random.uniform(0, 0.1))
        outcomes: dict[int, list[tuple[bytes, ClientError | None]]] = {}
        for partition, deliveries in sent.items():
            outcomes[partition] = []
            for value, delivery in deliveries:
                try:
                    await delivery  # type: ignore[misc]
                except ClientError as error:
                    outcomes[partition].append((value, error))
                else:
                    outcomes[partition].append((value, None))
        assert producer.metrics()["messaging.client.buffered.bytes"] == 0
    return outcomes


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32), rate=st.floats(0, 0.6), batch_size=st.sampled_from([0, 80, 200, 16_384]))
def test_every_record_is_written_once_and_in_order(seed: int, rate: float, batch_size: int) -> None:
    world = ScriptedCluster(seed=seed, brokers=3, topics={"orders": PARTITIONS})
    random = Random(seed)

    async def main(world: ScriptedCluster) -> None:
        chaos = Chaos(world, random, rate)
        disturbing = asyncio.ensure_future(chaos.disturb())
        asyncio.get_running_loop().call_later(20, setattr, chaos, "is_over", True)
        outcomes = await produce(world, random, {"batch_size": batch_size, "linger_ms": random.choice([0, 5])})
        chaos.is_over = True
        await disturbing
        for partition, each in outcomes.items():
            failed = [str(error) for _, error in each if error]
            assert failed == [], failed
            assert world.topics["orders"][partition].values == [value for value, _ in each]

    world.run(main)


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32), rate=st.floats(0.3, 0.8))
def test_what_is_given_up_never_breaks_order_or_doubles_what_is_not(seed: int, rate: float) -> None:
    """With a delivery time-out as short as a few attempts some records fail. The others are there once, in their order."""
    world = ScriptedCluster(seed=seed, brokers=2, topics={"orders": PARTITIONS})
    random = Random(seed)

    async def main(world: ScriptedCluster) -> None:
        chaos = Chaos(world, random, rate)
        asyncio.get_running_loop().call_later(10, setattr, chaos, "is_over", True)
        outcomes = await produce(world, random, {"batch_size": 80, "linger_ms": 0, "delivery_timeout_ms": 600})
        chaos.is_over = True
        for partition, each in outcomes.items():
            order = {value: place for place, (value, _) in enumerate(each)}
            written = [value or b"" for value in world.topics["orders"][partition].values]
            places = [order[value] for value in written]
            assert places == sorted(set(places))
            assert {value for value, error in each if error is None} <= set(written)

    world.run(main)
