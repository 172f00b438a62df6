"""A transactional producer on a scripted cluster: one transaction, all that it asks, and what may be done to each request."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from tests.support.scripted_cluster import Fault, ScriptedCluster, refuse_produce
from tests.support.transactional_cluster import TransactionalCluster, refused
from tidelog.client.consumer.records import GroupMetadata
from tidelog.client.producer.async_producer import AsyncProducer
from tidelog.model.errors import ErrorCode
from tidelog.wire.messages.find_coordinator import FindCoordinatorRequest
from tidelog.wire.messages.produce import ProduceRequest
from tidelog.wire.messages.producers import InitProducerIdRequest
from tidelog.wire.messages.transactions import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    EndTxnRequest,
    TxnOffsetCommitRequest,
)
from tidelog.wire.schema import Request, Response

STEPS = {
    1: (
        InitProducerIdRequest,
        AddPartitionsToTxnRequest,
        ProduceRequest,
        AddOffsetsToTxnRequest,
        TxnOffsetCommitRequest,
        EndTxnRequest,
    ),
    2: (InitProducerIdRequest, ProduceRequest, TxnOffsetCommitRequest, EndTxnRequest),
}
BOTH = pytest.mark.parametrize("version", [1, 2])
EACH_STEP = pytest.mark.parametrize(
    ("version", "step"), [(version, step) for version, steps in STEPS.items() for step in steps]
)
COORDINATOR_STEPS = pytest.mark.parametrize(
    ("version", "step"),
    [(version, step) for version, steps in STEPS.items() for step in steps if step is not ProduceRequest],
)
GROUP = GroupMetadata("billing", 7, "member-1", None)

Script = Callable[[Request], "Response | Fault | None"]


def producer(world: ScriptedCluster, **options: Any) -> AsyncProducer:
    given = {"bootstrap_servers": world.bootstrap_servers, "transactional_id": "payments", "linger_ms": 0, **options}
    return AsyncProducer.on(world.seams, **given)


def once(step: type[Request], act: Callable[[Any], Response | Fault], count: int = 1) -> Script:
    """Do something with the first `count` requests of a kind, and leave all others alone."""
    seen = 0

    def script(request: Request) -> Response | Fault | None:
        nonlocal seen
        if not isinstance(request, step) or seen >= count:
            return None
        seen += 1
        return act(request)

    return script


def refuse(code: ErrorCode) -> Callable[[Request], Response]:
    return lambda request: (
        refuse_produce(code)(request) if isinstance(request, ProduceRequest) else refused(request, code)
    )


async def one_transaction(sender: AsyncProducer, name: bytes = b"x") -> None:
    """Everything that a transaction can do, and the commit."""
    await sender.begin_transaction()
    await sender.send("orders", name)
    await sender.send_offsets_to_transaction({("in", 0): 5}, GROUP)
    await sender.commit_transaction()


def play(
    main: Callable[[TransactionalCluster, AsyncProducer], Coroutine[Any, Any, None]],
    *,
    version: int = 2,
    script: Script | None = None,
    two_phase: bool = False,
    **options: Any,
) -> TransactionalCluster:
    world = TransactionalCluster(version=version, topics={"orders": 1, "bills": 3}, two_phase=two_phase)
    if script is not None:
        world.brokers[1].script = script

    async def played(_world: ScriptedCluster) -> None:
        async with producer(world, **options) as sender:
            await main(world, sender)

    world.run(played)
    return world


def requests(world: TransactionalCluster) -> list[str]:
    kinds = (*STEPS[1], FindCoordinatorRequest)
    return [
        type(each).__name__.removesuffix("Request") for each in world.brokers[1].requests if isinstance(each, kinds)
    ]
