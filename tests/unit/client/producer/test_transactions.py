"""Transactions of a producer against a scripted cluster on virtual time: what is committed, what is not, and what it is told."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from tests.support.scripted_cluster import Fault, ScriptedCluster, refuse_produce
from tests.support.transactional_cluster import TransactionalCluster, refused
from tidelog.client.consumer.records import GroupMetadata
from tidelog.client.errors import (
    ClientError,
    ClosedError,
    ConfigError,
    DeliveryFailedError,
    ProducerFailedError,
    ProducerFencedError,
    RefusedError,
    TimedOutError,
    TransactionAbortableError,
    TransactionStateError,
    UnsupportedError,
)
from tidelog.client.producer.async_producer import AsyncProducer
from tidelog.client.producer.options import ProducerOptions, parse_producer_options
from tidelog.client.producer.prepared_transaction import PreparedTransaction
from tidelog.model.errors import ErrorCode
from tidelog.wire.messages.find_coordinator import FindCoordinatorRequest
from tidelog.wire.messages.produce import ProduceRequest
from tidelog.wire.messages.producers import InitProducerIdRequest
from tidelog.wire.messages.transactions import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    EndTxnRequest,
    EndTxnResponse,
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


@BOTH
def test_what_is_committed_is_visible_and_what_is_aborted_is_not(version: int) -> None:
    async def main(world: TransactionalCluster, sender: AsyncProducer) -> None:
        await sender.init_transactions()
        for number in range(6):
            await sender.begin_transaction()
            delivery = await sender.send("orders", b"%d" % number)
            if number % 2:
                await delivery
                await sender.abort_transaction()
            else:
                await sender.commit_transaction()
                assert delivery.is_done

    world = play(main, version=version)
    assert world.visible["orders", 0] == [b"0", b"2", b"4"]
    assert world.topics["orders"][0].values == [b"%d" % number for number in range(6)]


def test_version_1_adds_first_and_keeps_to_its_versions() -> None:
    async def main(world: TransactionalCluster, sender: AsyncProducer) -> None:
        await sender.init_transactions()
        await one_transaction(sender)
        await one_transaction(sender)

    world = play(main, version=1)
    whole = ["AddPartitionsToTxn", "Produce", "AddOffsetsToTxn", "TxnOffsetCommit", "EndTxn"]
    asked = [each for each in requests(world) if each != "FindCoordinator"]
    assert asked[0] == "InitProducerId"
    assert sorted(asked[1:6]) == sorted(asked[6:]) == sorted(whole)
    assert asked[5] == "EndTxn"
    highest = {kind: version for kind, version in world.brokers[1].versions if kind in STEPS[1]}
    assert highest[ProduceRequest] == 11
    assert highest[EndTxnRequest] == 4
    assert highest[TxnOffsetCommitRequest] == 4
    assert highest[AddPartitionsToTxnRequest] == 3
    assert world.transactions["payments"].epoch == 0


def test_version_2_adds_nothing_and_raises_the_epoch_each_time() -> None:
    async def main(world: TransactionalCluster, sender: AsyncProducer) -> None:
        await sender.init_transactions()
        await one_transaction(sender)
        await one_transaction(sender)

    world = play(main, version=2)
    asked = [each for each in requests(world) if each != "FindCoordinator"]
    assert sorted(asked) == sorted(["InitProducerId", *["Produce", "TxnOffsetCommit", "EndTxn"] * 2])
    highest = {kind: version for kind, version in world.brokers[1].versions if kind in STEPS[1]}
    assert (highest[ProduceRequest], highest[EndTxnRequest], highest[TxnOffsetCommitRequest]) == (13, 5, 5)
    assert highest[InitProducerIdRequest] == 5
    assert world.transactions["payments"].epoch == 2


@BOTH
def test_a_transaction_without_anything_in_it_costs_no_request(version: int) -> None:
    async def main(world: TransactionalCluster, sender: AsyncProducer) -> None:
        await sender.init_transactions()
        for end in (sender.commit_transaction, sender.abort_transaction):
            await sender.begin_transaction()
            await end()
        await sender.begin_transaction()
        await sender.send_offsets_to_transaction({}, GROUP)
        await sender.commit_transaction()

    assert requests(play(main, version=version)) == ["FindCoordinator", "InitProducerId"]


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


def test_a_cluster_that_learns_version_2_gets_it_with_the_next_transaction() -> None:
    async def main(world: TransactionalCluster, sender: AsyncProducer) -> None:
        await sender.init_transactions()
        await one_transaction(sender, b"1")
        world.raise_feature(2)
        # A new connection brings the news. The transaction that is open ends as it began.
        world.brokers[1].script = once(EndTxnRequest, lambda _request: Fault.BREAK)
        await one_transaction(sender, b"2")
        await one_transaction(sender, b"3")

    world = play(main, version=1)
    assert world.visible["orders", 0] == [b"1", b"2", b"3"]
    assert [version for kind, version in world.brokers[1].versions if kind is EndTxnRequest] == [4, 4, 4, 5]
    # So that nothing of version 1 can be taken for the next transaction's, the epoch is raised in between.
    raised = [each for each in world.brokers[1].requests if isinstance(each, InitProducerIdRequest)][-1]
    assert (raised.producer_id, raised.producer_epoch) == (1001, 0)
    assert world.transactions["payments"].epoch == 2


def test_after_the_last_epoch_the_producer_goes_on_under_another_id() -> None:
    async def main(world: TransactionalCluster, sender: AsyncProducer) -> None:
        def exhausted(request: EndTxnRequest) -> Response:
            answer = world.answer(world.brokers[1], request)
            assert isinstance(answer, EndTxnResponse)
            known = world.transactions["payments"]
            answer.producer_id = known.producer_id = 4711
            answer.producer_epoch = known.epoch = 0
            return answer

        world.brokers[1].script = once(EndTxnRequest, exhausted)
        await sender.init_transactions()
        for name in (b"1", b"2", b"3"):
            await one_transaction(sender, name)
        assert (world.transactions["payments"].producer_id, world.transactions["payments"].epoch) == (4711, 2)

    assert play(main).visible["orders", 0] == [b"1", b"2", b"3"]


# Two-phase commit.


def test_a_prepared_transaction_is_committed_by_what_was_recorded() -> None:
    async def main(world: TransactionalCluster, sender: AsyncProducer) -> None:
        await sender.init_transactions()
        asked = next(each for each in world.brokers[1].requests if isinstance(each, InitProducerIdRequest))
        assert (asked.enable_2pc, asked.keep_prepared_txn, asked.transaction_timeout_ms) == (True, False, 2**31 - 1)
        await sender.begin_transaction()
        delivery = await sender.send("orders", b"prepared")
        prepared = await sender.prepare_transaction()
        assert delivery.is_done
        assert prepared == ("payments", 1001, 0)
        assert str(sender.prepared_transaction) == "1001:0:payments"
        assert PreparedTransaction.parse(str(prepared)) == prepared
        with pytest.raises(TransactionStateError, match="the transaction is prepared"):
            await sender.send("orders", b"more")
        with pytest.raises(TransactionStateError, match="the transaction is prepared"):
            await sender.begin_transaction()
        assert await sender.complete_transaction(prepared)
        assert sender.prepared_transaction is None
        await sender.begin_transaction()
        await sender.send("orders", b"other")
        await sender.prepare_transaction()
        assert not await sender.complete_transaction(prepared)

    world = play(main, two_phase=True, transaction_two_phase_commit_enable=True)
    assert world.visible["orders", 0] == [b"prepared"]


@pytest.mark.parametrize("is_recorded", [True, False])
def test_a_prepared_transaction_outlives_its_producer(is_recorded: bool) -> None:
    async def main(world: TransactionalCluster, sender: AsyncProducer) -> None:
        await sender.init_transactions()
        await sender.begin_transaction()
        await sender.send("orders", b"prepared")
        prepared = await sender.prepare_transaction()
        await sender.close()
        assert world.transactions["payments"].is_open
        async with producer(world, transaction_two_phase_commit_enable=True) as heir:
            await heir.init_transactions(keep_prepared_txn=True)
            assert heir.prepared_transaction == prepared
            with pytest.raises(TransactionStateError):
                await heir.begin_transaction()
            recorded = prepared if is_recorded else PreparedTransaction("payments", 1001, 77)
            assert await heir.complete_transaction(recorded) is is_recorded
            await heir.begin_transaction()
            await heir.send("orders", b"next")
            await heir.commit_transaction()

    world = play(main, two_phase=True, transaction_two_phase_commit_enable=True)
    assert world.visible["orders", 0] == ([b"prepared"] if is_recorded else []) + [b"next"]


def test_without_anything_prepared_there_is_nothing_to_complete() -> None:
    async def main(world: TransactionalCluster, sender: AsyncProducer) -> None:
        await sender.init_transactions(keep_prepared_txn=True)
        assert sender.prepared_transaction is None
        with pytest.raises(TransactionStateError, match="no transaction is open"):
            await sender.complete_transaction(PreparedTransaction("payments", 1, 1))
        await one_transaction(sender)

    assert play(main, two_phase=True, transaction_two_phase_commit_enable=True).visible["orders", 0] == [b"x"]


def test_two_phase_commit_needs_a_cluster_and_an_option_for_it() -> None:
    async def main(world: TransactionalCluster, sender: AsyncProducer) -> None:
        with pytest.raises(UnsupportedError, match="does not offer two-phase commit"):
            await sender.init_transactions()
        async with producer(world) as plain:
            with pytest.raises(TransactionStateError, match="needs transaction_two_phase_commit_enable=True"):
                await plain.init_transactions(keep_prepared_txn=True)
            await plain.init_transactions()
            await plain.begin_transaction()
            with pytest.raises(TransactionStateError, match="needs transaction_two_phase_commit_enable=True"):
                await plain.prepare_transaction()

    play(main, transaction_two_phase_commit_enable=True)


# The block, and the end.


@BOTH
def test_a_block_commits_or_aborts(version: int) -> None:
    async def main(world: TransactionalCluster, sender: AsyncProducer) -> None:
        async with sender.transaction():
            await sender.send("orders", b"good")
        with pytest.raises(KeyError):  # noqa: PT012 - the block is what is tested
            async with sender.transaction():
                await (await sender.send("orders", b"bad"))
                raise KeyError
        with pytest.raises(asyncio.CancelledError):  # noqa: PT012
            async with sender.transaction():
                await (await sender.send("orders", b"cancelled"))
                raise asyncio.CancelledError
        async with sender.transaction():
            await sender.send("orders", b"ended within")
            await sender.commit_transaction()
        async with sender.transaction():
            await sender.send("orders", b"last")

    world = play(main, version=version)
    assert world.visible["orders", 0] == [b"good", b"ended within", b"last"]
    assert [commit for _, commit in world.ended] == [True, False, False, True, True]


def test_a_block_whose_commit_fails_is_aborted_and_says_why() -> None:
    async def main(world: TransactionalCluster, sender: AsyncProducer) -> None:
        with pytest.raises(TransactionAbortableError):
            async with sender.transaction():
                await sender.send("orders", b"bad")
        async with sender.transaction():
            await sender.send("orders", b"good")

    world = play(main, script=once(ProduceRequest, refuse_produce(ErrorCode.TOPIC_AUTHORIZATION_FAILED)))
    assert world.visible["orders", 0] == [b"good"]


def test_closing_aborts_what_is_open() -> None:
    async def main(world: TransactionalCluster, sender: AsyncProducer) -> None:
        await sender.init_transactions()
        await sender.begin_transaction()
        delivery = await sender.send("orders", b"never")
        await delivery
        await sender.close()
        with pytest.raises(ClosedError):
            await sender.begin_transaction()

    world = play(main)
    assert world.ended == [("payments", False)]


def test_closing_waits_for_a_commit_that_goes_on() -> None:
    async def main(world: TransactionalCluster, sender: AsyncProducer) -> None:
        await sender.init_transactions()
        await sender.begin_transaction()
        await sender.send("orders", b"x")
        with pytest.raises(TimedOutError):
            await sender.commit_transaction(timeout_ms=100)

    world = play(main, script=once(EndTxnRequest, refuse(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS), 4))
    assert world.ended == [("payments", True)]


def test_closing_aborts_what_a_commit_that_nobody_asked_for_again_left_open() -> None:
    async def main(world: TransactionalCluster, sender: AsyncProducer) -> None:
        await sender.init_transactions()
        await sender.begin_transaction()
        await sender.send("orders", b"x")
        with pytest.raises(TimedOutError):
            await sender.commit_transaction(timeout_ms=0)

    script = once(EndTxnRequest, refuse(ErrorCode.TRANSACTION_ABORTABLE))
    assert play(main, script=script).ended == [("payments", False)]


def test_a_coordinator_that_is_not_there_is_one_error_in_time() -> None:
    async def main(world: TransactionalCluster, sender: AsyncProducer) -> None:
        for _ in range(2):
            before_s = world.loop.time()
            with pytest.raises(TimedOutError, match="call init_transactions again"):
                await sender.init_transactions()
            assert 5 <= world.loop.time() - before_s < 5.5
        with pytest.raises(TransactionStateError, match="call init_transactions first"):
            await sender.begin_transaction()
        world.brokers[1].script = lambda _request: None
        await sender.init_transactions()
        await one_transaction(sender)

    play(
        main,
        script=lambda each: Fault.IGNORE if isinstance(each, InitProducerIdRequest) else None,
        max_block_ms=5000,
        request_timeout_ms=1000,
    )


def test_a_sender_that_waits_for_room_hears_that_the_transaction_is_over() -> None:
    heard: list[ClientError] = []

    async def main(world: TransactionalCluster, sender: AsyncProducer) -> None:
        await sender.init_transactions()
        await sender.begin_transaction()

        async def send_for_ever() -> None:
            while True:
                try:
                    await sender.send("orders", bytes(500))
                except ClientError as error:
                    heard.append(error)
                    return

        async with asyncio.TaskGroup() as group:
            for _ in range(5):
                group.create_task(send_for_ever())
        await sender.abort_transaction()

    play(
        main,
        script=once(ProduceRequest, refuse_produce(ErrorCode.TOPIC_AUTHORIZATION_FAILED)),
        buffer_memory=4000,
        batch_size=1000,
    )
    assert [type(each) for each in heard] == [TransactionAbortableError] * 5


# Words.


def test_options_that_do_not_go_together_are_refused() -> None:
    server = {"bootstrap_servers": "a:1"}
    for given, words in (
        ({"transactional_id": ""}, "transactional_id is empty"),
        ({"transactional_id": "a", "acks": 1}, "transactional_id needs idempotence, and that needs acks='all'"),
        ({"transactional_id": "a", "enable_idempotence": False}, "transactional_id needs idempotence"),
        ({"transaction_two_phase_commit_enable": True}, "needs a transactional_id"),
        (
            {"transactional_id": "a", "transaction_two_phase_commit_enable": True, "transaction_timeout_ms": 1},
            "transaction_timeout_ms has no meaning",
        ),
        ({"transactional_id": "a", "transaction_timeout_ms": 0}, "it can be 1 or more"),
    ):
        with pytest.raises(ConfigError, match=words):
            parse_producer_options({**server, **given})  # type: ignore[typeddict-item]
    assert isinstance(parse_producer_options({"bootstrap_servers": "a:1", "transactional_id": "a"}), ProducerOptions)


@pytest.mark.parametrize("written", ["", "1:2", "1:2:", "a:2:x", "1:b:x", "-1:2:x", "1:40000:x", "²:1:x", None])
def test_only_a_prepared_transaction_reads_as_one(written: Any) -> None:
    with pytest.raises(ConfigError, match="names no transaction"):
        PreparedTransaction.parse(written)


def test_a_prepared_transaction_may_have_any_id() -> None:
    prepared = PreparedTransaction("a:b:c ü", 2**62, 2**15 - 1)
    assert PreparedTransaction.parse(str(prepared)) == prepared


def test_a_producer_without_an_id_has_no_transactions() -> None:
    async def main(world: ScriptedCluster) -> None:
        async with AsyncProducer.on(world.seams, bootstrap_servers=world.bootstrap_servers) as sender:
            with pytest.raises(TransactionStateError, match="need a transactional_id"):
                await sender.init_transactions()

    ScriptedCluster(topics={"orders": 1}).run(main)
