"""Transactions that are prepared by one producer and ended by what somebody has recorded (KIP-939)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.transactional_cluster import TransactionalCluster
from tests.unit.client.producer.transactional import (
    one_transaction,
    play,
    producer,
)
from tidelog.client.errors import (
    ConfigError,
    TransactionStateError,
    UnsupportedError,
)
from tidelog.client.producer.async_producer import AsyncProducer
from tidelog.client.producer.prepared_transaction import PreparedTransaction
from tidelog.wire.messages.producers import InitProducerIdRequest


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


@pytest.mark.parametrize("written", ["", "1:2", "1:2:", "a:2:x", "1:b:x", "-1:2:x", "1:40000:x", "²:1:x", None])
def test_only_a_prepared_transaction_reads_as_one(written: Any) -> None:
    with pytest.raises(ConfigError, match="names no transaction"):
        PreparedTransaction.parse(written)


def test_a_prepared_transaction_may_have_any_id() -> None:
    prepared = PreparedTransaction("a:b:c ü", 2**62, 2**15 - 1)
    assert PreparedTransaction.parse(str(prepared)) == prepared
