"""What a transaction is told and what becomes of it when answers are lost, late, or refusals."""

from __future__ import annotations

import asyncio

import pytest

from tests.support.scripted_cluster import Fault, refuse_produce
from tests.support.transactional_cluster import TransactionalCluster
from tests.unit.client.producer.transactional import (
    BOTH,
    COORDINATOR_STEPS,
    EACH_STEP,
    GROUP,
    STEPS,
    once,
    one_transaction,
    play,
    refuse,
    requests,
)
from tidelog.client.errors import (
    DeliveryFailedError,
    ProducerFailedError,
    ProducerFencedError,
    RefusedError,
    TimedOutError,
    TransactionAbortableError,
    TransactionStateError,
)
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
from tidelog.wire.schema import Request


@EACH_STEP
@pytest.mark.parametrize("fault", list(Fault))
def test_a_lost_answer_neither_loses_nor_doubles(version: int, step: type[Request], fault: Fault) -> None:
    async def main(world: TransactionalCluster, sender: AsyncProducer) -> None:
        await sender.init_transactions()
        await one_transaction(sender, b"1")
        await one_transaction(sender, b"2")

    world = play(main, version=version, script=once(step, lambda _request: fault), request_timeout_ms=2000)
    assert world.visible["orders", 0] == [b"1", b"2"]
    assert world.committed_offsets == {("billing", "in", 0): 5}
    assert world.ended == [("payments", True)] * 2


@COORDINATOR_STEPS
@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.REQUEST_TIMED_OUT,
    ],
)
def test_an_error_that_passes_is_tried_again(version: int, step: type[Request], code: ErrorCode) -> None:
    waited_s = 0.0

    async def main(world: TransactionalCluster, sender: AsyncProducer) -> None:
        nonlocal waited_s
        await sender.init_transactions()
        before_s = world.loop.time()
        await one_transaction(sender)
        waited_s = world.loop.time() - before_s

    world = play(main, version=version, script=once(step, refuse(code), 2))
    assert world.visible["orders", 0] == [b"x"]
    finds = requests(world).count("FindCoordinator")
    moved = code in {ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.REQUEST_TIMED_OUT}
    assert finds == (4 if moved else 2)
    if code is ErrorCode.CONCURRENT_TRANSACTIONS:
        # The transaction before is about to end: that is no reason to wait for a tenth of a second.
        assert waited_s < 0.1


def test_a_produce_that_comes_too_soon_after_the_last_end_is_repeated_quickly() -> None:
    async def main(world: TransactionalCluster, sender: AsyncProducer) -> None:
        await sender.init_transactions()
        before_s = world.loop.time()
        await one_transaction(sender)
        assert world.loop.time() - before_s < 0.1

    script = once(ProduceRequest, refuse_produce(ErrorCode.CONCURRENT_TRANSACTIONS), 2)
    assert play(main, script=script).visible["orders", 0] == [b"x"]


@COORDINATOR_STEPS
@pytest.mark.parametrize("code", [ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH])
def test_a_fenced_producer_can_only_be_closed(version: int, step: type[Request], code: ErrorCode) -> None:
    async def main(world: TransactionalCluster, sender: AsyncProducer) -> None:
        async def work() -> None:
            await sender.init_transactions()
            await one_transaction(sender)

        with pytest.raises(ProducerFencedError, match="close this producer") as raised:
            await work()
        assert raised.value.code is ErrorCode.PRODUCER_FENCED
        assert not raised.value.retriable
        asked = len(world.brokers[1].requests)
        for call in (sender.begin_transaction, sender.commit_transaction, sender.abort_transaction):
            with pytest.raises(ProducerFencedError):
                await call()
        with pytest.raises(ProducerFencedError):
            await sender.send("orders", b"late")
        with pytest.raises(ProducerFencedError):
            await sender.send_offsets_to_transaction({("in", 0): 6}, GROUP)
        assert len(world.brokers[1].requests) == asked

    assert play(main, version=version, script=once(step, refuse(code))).visible == {}


@pytest.mark.parametrize(
    ("version", "step"),
    [
        (version, step)
        for version, steps in STEPS.items()
        for step in steps
        if step not in {ProduceRequest, InitProducerIdRequest}
    ],
)
def test_an_abortable_error_costs_one_transaction(version: int, step: type[Request]) -> None:
    async def main(world: TransactionalCluster, sender: AsyncProducer) -> None:
        await sender.init_transactions()
        with pytest.raises(TransactionAbortableError, match="abort the transaction, then do its work again"):
            await one_transaction(sender, b"bad")
        with pytest.raises(TransactionAbortableError):
            await sender.send("orders", b"more")
        with pytest.raises(TransactionAbortableError):
            await sender.begin_transaction()
        with pytest.raises(TransactionAbortableError):
            await sender.commit_transaction()
        await sender.abort_transaction()
        await one_transaction(sender, b"good")

    world = play(main, version=version, script=once(step, refuse(ErrorCode.TRANSACTION_ABORTABLE)))
    assert world.visible["orders", 0] == [b"good"]
    assert world.transactions["payments"].epoch >= 1


@COORDINATOR_STEPS
def test_what_is_not_allowed_ends_the_producer_or_can_be_tried_again_at_the_start(
    version: int, step: type[Request]
) -> None:
    code = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED

    async def main(world: TransactionalCluster, sender: AsyncProducer) -> None:
        if step is InitProducerIdRequest:
            with pytest.raises(RefusedError) as raised:
                await sender.init_transactions()
            assert raised.value.code is code
            await sender.init_transactions()
            await one_transaction(sender)
            return
        await sender.init_transactions()
        with pytest.raises(ProducerFailedError, match="close it and make another one") as failed:
            await one_transaction(sender)
        assert failed.value.code is code
        with pytest.raises(ProducerFailedError):
            await sender.abort_transaction()

    world = play(main, version=version, script=once(step, refuse(code)))
    assert bool(world.visible) == (step is InitProducerIdRequest)


@BOTH
@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (ErrorCode.PRODUCER_FENCED, ProducerFencedError),
        (ErrorCode.INVALID_PRODUCER_EPOCH, TransactionAbortableError),
        (ErrorCode.TOPIC_AUTHORIZATION_FAILED, TransactionAbortableError),
        (ErrorCode.INVALID_TXN_STATE, TransactionAbortableError),
        (ErrorCode.TRANSACTION_ABORTABLE, TransactionAbortableError),
        (ErrorCode.UNKNOWN_PRODUCER_ID, TransactionAbortableError),
        (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, TransactionAbortableError),
        (ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, ProducerFailedError),
        (ErrorCode.INVALID_PRODUCER_ID_MAPPING, ProducerFailedError),
    ],
)
def test_a_batch_that_is_refused_decides_about_its_transaction(
    version: int, code: ErrorCode, kind: type[RefusedError]
) -> None:
    async def main(world: TransactionalCluster, sender: AsyncProducer) -> None:
        await sender.init_transactions()
        await sender.begin_transaction()
        delivery = await sender.send("orders", b"bad")
        with pytest.raises(kind):
            await sender.commit_transaction()
        with pytest.raises(DeliveryFailedError) as raised:
            await delivery
        assert raised.value.code is code
        if kind is not TransactionAbortableError:
            with pytest.raises(kind):
                await sender.begin_transaction()
            return
        await sender.abort_transaction()
        for name in (b"good", b"better"):
            await one_transaction(sender, name)

    world = play(main, version=version, script=once(ProduceRequest, refuse_produce(code)))
    assert world.visible.get(("orders", 0), []) == ([b"good", b"better"] if kind is TransactionAbortableError else [])


@BOTH
def test_batches_under_way_are_known_before_the_abort_and_the_rest_is_never_sent(version: int) -> None:
    async def main(world: TransactionalCluster, sender: AsyncProducer) -> None:
        await sender.init_transactions()
        await sender.begin_transaction()
        first = await sender.send("orders", b"under way")
        await asyncio.sleep(1.5)
        assert world.brokers[1].asked(ProduceRequest) == 1
        deliveries = [await sender.send("orders", b"%d" % number) for number in range(100)]
        await sender.abort_transaction()
        assert first.is_done
        assert all(delivery.is_done for delivery in deliveries)
        with pytest.raises(DeliveryFailedError, match="the transaction was aborted"):
            await deliveries[-1]

    # The first answer is lost: the batch has to be repeated, and its outcome heard, before the end.
    script = once(ProduceRequest, lambda _request: Fault.SILENCE)
    world = play(main, version=version, script=script, request_timeout_ms=2000, linger_ms=1000, batch_size=200)
    asked = [each for each in requests(world) if each in {"Produce", "EndTxn"}]
    assert asked[-1] == "EndTxn"
    assert asked.count("EndTxn") == 1
    assert asked.count("Produce") >= 2
    assert len(world.topics["orders"][0].values) < 101
    assert world.visible == {}


@BOTH
def test_an_abort_before_the_coordinator_has_heard_of_anything(version: int) -> None:
    async def main(world: TransactionalCluster, sender: AsyncProducer) -> None:
        await sender.init_transactions()
        await sender.begin_transaction()
        delivery = await sender.send("orders", b"never")
        await asyncio.sleep(0.5)
        await sender.abort_transaction()
        with pytest.raises(DeliveryFailedError):
            await delivery
        await one_transaction(sender, b"good")

    step = AddPartitionsToTxnRequest if version == 1 else EndTxnRequest
    script = once(step, refuse(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS), 3)
    world = play(main, version=version, script=script, linger_ms=5000)
    assert world.visible["orders", 0] == [b"good"]


@BOTH
def test_a_commit_that_takes_too_long_goes_on_and_tells_when_asked_again(version: int) -> None:
    async def main(world: TransactionalCluster, sender: AsyncProducer) -> None:
        await sender.init_transactions()
        await sender.begin_transaction()
        await sender.send("orders", b"slow")
        with pytest.raises(TimedOutError, match="call it again to learn how it went") as raised:
            await sender.commit_transaction(timeout_ms=500)
        assert raised.value.retriable
        for call in (sender.abort_transaction, sender.begin_transaction):
            with pytest.raises(TransactionStateError, match="call commit_transaction again"):
                await call()
        with pytest.raises(TransactionStateError):
            await sender.send("orders", b"late")
        await asyncio.sleep(10)
        assert world.ended == [("payments", True)]
        with pytest.raises(TransactionStateError, match="call commit_transaction again"):
            await sender.begin_transaction()
        await sender.commit_transaction()
        await one_transaction(sender, b"next")

    script = once(EndTxnRequest, lambda _request: Fault.IGNORE)
    world = play(main, version=version, script=script, request_timeout_ms=2000)
    assert world.visible["orders", 0] == [b"slow", b"next"]


def test_offsets_that_get_no_answer_cost_the_transaction() -> None:
    async def main(world: TransactionalCluster, sender: AsyncProducer) -> None:
        await sender.init_transactions()
        await sender.begin_transaction()
        with pytest.raises(TransactionAbortableError, match="had no good answer in 500 ms"):
            await sender.send_offsets_to_transaction({("in", 0): 5}, GROUP, timeout_ms=500)
        await sender.abort_transaction()
        await one_transaction(sender)

    for version in (1, 2):
        step = AddOffsetsToTxnRequest if version == 1 else TxnOffsetCommitRequest
        script = once(step, refuse(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS), 4)
        world = play(main, version=version, script=script)
        assert world.visible["orders", 0] == [b"x"]


@pytest.mark.parametrize(
    "code", [ErrorCode.ILLEGAL_GENERATION, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID]
)
def test_a_consumer_that_is_out_of_its_group_is_told_to_poll(code: ErrorCode) -> None:
    async def main(world: TransactionalCluster, sender: AsyncProducer) -> None:
        await sender.init_transactions()
        with pytest.raises(TransactionAbortableError, match="poll before the next one") as raised:
            await one_transaction(sender)
        assert raised.value.code is code
        await sender.abort_transaction()

    world = play(main, script=once(TxnOffsetCommitRequest, refuse(code)))
    sent = next(each for each in world.brokers[1].requests if isinstance(each, TxnOffsetCommitRequest))
    assert (sent.generation_id, sent.member_id, sent.group_id) == (7, "member-1", "billing")
    assert world.committed_offsets == {}
