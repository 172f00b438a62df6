"""Transactions among faults of every kind: what a commit said is there once and whole, and nothing else is."""

from __future__ import annotations

import asyncio
from random import Random

from hypothesis import given, settings, strategies as st

from tests.property.test_producer_delivery import Chaos
from tests.support.scripted_cluster import Fault, ScriptedCluster, refuse_produce
from tests.support.transactional_cluster import TransactionalCluster, refused
from tidelog.client.errors import TimedOutError, TransactionAbortableError
from tidelog.client.producer.async_producer import AsyncProducer
from tidelog.model.errors import ErrorCode
from tidelog.wire.messages.produce import ProduceRequest
from tidelog.wire.messages.producers import InitProducerIdRequest
from tidelog.wire.messages.transactions import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    EndTxnRequest,
    TxnOffsetCommitRequest,
)
from tidelog.wire.schema import Request, Response

PARTITIONS = 2
TRANSACTIONS = 12

STEPS = (
    InitProducerIdRequest,
    AddPartitionsToTxnRequest,
    AddOffsetsToTxnRequest,
    TxnOffsetCommitRequest,
    EndTxnRequest,
)
PASSING = (
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.CONCURRENT_TRANSACTIONS,
)
FAULTS = (Fault.BREAK, Fault.SILENCE, Fault.IGNORE)


class TransactionalChaos(Chaos):
    """Also what coordinators say; now and then an error that costs the transaction."""

    def _script(self, request: Request) -> Response | Fault | None:
        if self.is_over or self._random.random() >= self._rate:
            return None
        if isinstance(request, STEPS):
            choice = self._random.randrange(6)
            if choice < 3:
                return FAULTS[choice]
            if choice == 5 and isinstance(request, (TxnOffsetCommitRequest, AddPartitionsToTxnRequest)):
                return refused(request, ErrorCode.TRANSACTION_ABORTABLE)
            return refused(request, self._random.choice(PASSING))
        if isinstance(request, ProduceRequest) and self._random.random() < 0.1:
            return refuse_produce(ErrorCode.TOPIC_AUTHORIZATION_FAILED)(request)
        return super()._script(request)


async def transact(
    world: TransactionalCluster, random: Random, producer: AsyncProducer
) -> list[list[tuple[int, bytes]]]:
    """What was committed, transaction by transaction, as the producer was told."""
    await again(producer.init_transactions)
    committed: list[list[tuple[int, bytes]]] = []
    for number in range(TRANSACTIONS):
        await producer.begin_transaction()
        sent = []
        try:
            for each in range(random.randrange(6)):
                partition, value = random.randrange(PARTITIONS), b"%d.%d" % (number, each)
                await producer.send("orders", value, partition=partition)
                sent.append((partition, value))
                if random.random() < 0.3:
                    await asyncio.sleep(random.uniform(0, 0.05))
            if random.random() < 0.5:
                await producer.send_offsets_to_transaction({("in", 0): number}, "billing")
            if random.random() < 0.3:
                await again(producer.abort_transaction)
            else:
                await again(producer.commit_transaction)
                committed.append(sent)
        except (TransactionAbortableError, TimedOutError):
            # Of `send`, where the topic was not found in time.
            await again(producer.abort_transaction)
    return committed


async def again(call: object) -> None:
    """A call that ran into its time-out is made again, as its error says."""
    while True:
        try:
            await call()  # type: ignore[operator]
        except TimedOutError:
            continue
        return


def check(world: TransactionalCluster, committed: list[list[tuple[int, bytes]]]) -> None:
    for partition in range(PARTITIONS):
        expected = [value for sent in committed for index, value in sent if index == partition]
        assert world.visible.get(("orders", partition), []) == expected


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32), rate=st.floats(0, 0.5), version=st.sampled_from([1, 2]))
def test_a_commit_is_whole_and_an_abort_is_nothing(seed: int, rate: float, version: int) -> None:
    world = TransactionalCluster(version=version, seed=seed, brokers=3, topics={"orders": PARTITIONS})
    random = Random(seed)

    async def main(_world: ScriptedCluster) -> None:
        chaos = TransactionalChaos(world, random, rate)
        disturbing = asyncio.ensure_future(chaos.disturb())
        asyncio.get_running_loop().call_later(30, setattr, chaos, "is_over", True)
        async with AsyncProducer.on(
            world.seams,
            bootstrap_servers=world.bootstrap_servers,
            transactional_id="payments",
            request_timeout_ms=400,
            max_block_ms=random.choice([500, 5000]),
            batch_size=random.choice([80, 16_384]),
            linger_ms=random.choice([0, 20]),
            # Short enough for some batches to be given up.
            delivery_timeout_ms=random.choice([600, 60_000]),
        ) as producer:
            committed = await transact(world, random, producer)
        chaos.is_over = True
        await disturbing
        check(world, committed)

    world.run(main)
