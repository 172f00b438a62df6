"""Transactions of a producer against a scripted cluster on virtual time: what is committed, and what is not."""

from __future__ import annotations

import asyncio

import pytest

from tests.support.scripted_cluster import Fault, ScriptedCluster, refuse_produce
from tests.support.transactional_cluster import TransactionalCluster
from tests.unit.client.producer.transactional import (
    BOTH,
    GROUP,
    STEPS,
    once,
    one_transaction,
    play,
    refuse,
    requests,
)
from tidelog.client.errors import (
    ClientError,
    ClosedError,
    ConfigError,
    TimedOutError,
    TransactionAbortableError,
    TransactionStateError,
)
from tidelog.client.producer.async_producer import AsyncProducer
from tidelog.client.producer.options import ProducerOptions, parse_producer_options
from tidelog.model.errors import ErrorCode
from tidelog.wire.messages.produce import ProduceRequest
from tidelog.wire.messages.producers import InitProducerIdRequest
from tidelog.wire.messages.transactions import (
    AddPartitionsToTxnRequest,
    EndTxnRequest,
    EndTxnResponse,
    TxnOffsetCommitRequest,
)
from tidelog.wire.schema import Response


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


def test_a_producer_without_an_id_has_no_transactions() -> None:
    async def main(world: ScriptedCluster) -> None:
        async with AsyncProducer.on(world.seams, bootstrap_servers=world.bootstrap_servers) as sender:
            with pytest.raises(TransactionStateError, match="need a transactional_id"):
                await sender.init_transactions()

    ScriptedCluster(topics={"orders": 1}).run(main)
