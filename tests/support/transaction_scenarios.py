"""What transactions of our clients have to do against any cluster: each scenario takes its address, and topics of its own."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import Consumer as Librdkafka, TopicPartition as LibrdkafkaPartition

from tests.support.command_line import json_lines, tidelog
from tests.support.raw_client import RawClient
from tidelog import (
    Admin,
    AsyncConsumer,
    AsyncProducer,
    Consumer,
    PreparedTransaction,
    Producer,
    TopicPartition,
)
from tidelog.client.admin import FencedProducer, ResourceKind, TransactionDescription, TransactionState
from tidelog.client.errors import (
    ClientError,
    ConfigError,
    DeliveryFailedError,
    ProducerFencedError,
    RefusedError,
    TransactionAbortableError,
    TransactionStateError,
)
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import ZERO_UUID
from tidelog.wire.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from tidelog.wire.records import Record, build_batch

DEADLINE_S = 30.0

Scenario = Callable[[str], None]


def producer_of(bootstrap: str, transactional_id: str, **options: Any) -> Producer:
    return Producer(bootstrap_servers=bootstrap, transactional_id=transactional_id, **options)


def create(bootstrap: str, topic: str, partitions: int = 1, **configs: str) -> None:
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topic(topic, partitions=partitions, configs={k.replace("_", "."): v for k, v in configs.items()})


def read(bootstrap: str, topic: str, *, committed: bool, partitions: int = 1) -> list[bytes | None]:
    """Everything that is there now, in rows, partition by partition. Stops where the position has reached the end."""
    level = "read_committed" if committed else "read_uncommitted"
    values: list[bytes | None] = []
    with Consumer(bootstrap_servers=bootstrap, isolation_level=level, auto_offset_reset="earliest") as consumer:
        for index in range(partitions):
            partition = TopicPartition(topic, index)
            consumer.assign([partition])
            consumer.seek_to_beginning(partition)
            end = consumer.end_offsets([partition])[partition]
            deadline = time.monotonic() + DEADLINE_S
            while consumer.position(partition) < end:
                assert time.monotonic() < deadline, f"stuck at {consumer.position(partition)} of {end}"
                values += [row.value for row in consumer.poll(timeout_ms=500)]
            assert consumer.position(partition) == end
    return values


def read_arrow(bootstrap: str, topic: str) -> list[bytes | None]:
    """The committed records of partition 0 in columns."""
    partition = TopicPartition(topic, 0)
    values: list[bytes | None] = []
    with Consumer(
        bootstrap_servers=bootstrap, isolation_level="read_committed", auto_offset_reset="earliest"
    ) as consumer:
        consumer.assign([partition])
        end = consumer.end_offsets([partition])[partition]
        deadline = time.monotonic() + DEADLINE_S
        while consumer.position(partition) < end:
            assert time.monotonic() < deadline
            batch = consumer.poll_arrow(timeout_ms=500)
            if batch is not None:
                assert isinstance(batch, pa.RecordBatch)
                values += batch.column("value").to_pylist()
    return values


def read_by_librdkafka(bootstrap: str, topic: str, count: int) -> list[bytes | None]:
    """The first `count` committed records of partition 0, by a client that nobody here wrote."""
    consumer = Librdkafka({"bootstrap.servers": bootstrap, "group.id": "judge", "isolation.level": "read_committed"})
    values: list[bytes | None] = []
    try:
        consumer.assign([LibrdkafkaPartition(topic, 0, 0)])
        deadline = time.monotonic() + DEADLINE_S
        while len(values) < count:
            assert time.monotonic() < deadline, f"{len(values)} of {count} records came"
            for message in consumer.consume(500, 0.2):
                assert message.error() is None, message.error()
                values.append(message.value())
    finally:
        consumer.close()
    return values


def committed_is_seen_and_aborted_is_not(bootstrap: str) -> None:
    create(bootstrap, "seen")
    heard: list[object] = []
    with producer_of(bootstrap, "seen-1", linger_ms=50) as producer:
        producer.init_transactions()
        for transaction in range(6):
            producer.begin_transaction()
            deliveries = [producer.send("seen", b"%d.%d" % (transaction, each)) for each in range(20)]
            producer.send("seen", b"%d.20" % transaction, on_delivery=lambda *each: heard.append(each))
            if transaction % 3 == 1:
                producer.flush()
                producer.abort_transaction()
            else:
                producer.commit_transaction()
                # Every outcome is known before the commit returns.
                assert all(delivery.is_done for delivery in deliveries)
                assert len(heard) == transaction + 1 or transaction == 0
    expected = [b"%d.%d" % (transaction, each) for transaction in (0, 2, 3, 5) for each in range(21)]
    assert read(bootstrap, "seen", committed=True) == expected
    assert read_arrow(bootstrap, "seen") == expected
    assert read_by_librdkafka(bootstrap, "seen", len(expected)) == expected
    assert len(read(bootstrap, "seen", committed=False)) == 6 * 21


def an_open_transaction_holds_readers_back_until_it_ends(bootstrap: str) -> None:
    create(bootstrap, "open")
    partition = TopicPartition("open", 0)
    with (
        producer_of(bootstrap, "open-1") as one,
        Producer(bootstrap_servers=bootstrap) as plain,
        Consumer(
            bootstrap_servers=bootstrap, isolation_level="read_committed", auto_offset_reset="earliest"
        ) as consumer,
    ):
        consumer.assign([partition])
        plain.send("open", b"before").result(10)
        with one.transaction():
            one.send("open", b"inside").result(10)
            plain.send("open", b"after").result(10)
            assert consumer.end_offsets([partition])[partition] == 1
            assert [row.value for row in consumer.poll(timeout_ms=5000)] == [b"before"]
            assert consumer.poll(timeout_ms=50) == []
        rest: list[bytes] = []
        deadline = time.monotonic() + DEADLINE_S
        while len(rest) < 2 and time.monotonic() < deadline:
            rest += [row.value for row in consumer.poll(timeout_ms=500)]
        assert rest == [b"inside", b"after"]


def a_block_that_fails_is_aborted(bootstrap: str) -> None:
    create(bootstrap, "block", partitions=3)
    with producer_of(bootstrap, "block-1") as producer:
        with producer.transaction():
            for each in range(9):
                producer.send("block", b"good %d" % each, partition=each % 3)
        with pytest.raises(KeyError), producer.transaction():  # noqa: PT012 - the block is what is tested
            producer.send("block", b"bad", partition=0).result(10)
            raise KeyError("the application's own")
        with producer.transaction():
            pass
        with producer.transaction():
            producer.send("block", b"last", partition=2)
    values = read(bootstrap, "block", committed=True, partitions=3)
    assert sorted(values, key=str) == sorted([b"good %d" % each for each in range(9)] + [b"last"], key=str)


def calls_out_of_turn_are_refused(bootstrap: str) -> None:
    create(bootstrap, "turn")
    with producer_of(bootstrap, "turn-1") as producer:
        with pytest.raises(TransactionStateError, match="call init_transactions first"):
            producer.begin_transaction()
        with pytest.raises(TransactionStateError, match="call init_transactions first"):
            producer.send("turn", b"x")
        producer.init_transactions()
        with pytest.raises(TransactionStateError, match="call begin_transaction first"):
            producer.send("turn", b"x")
        with pytest.raises(TransactionStateError, match="call begin_transaction first"):
            producer.commit_transaction()
        producer.begin_transaction()
        with pytest.raises(TransactionStateError, match="a transaction is open"):
            producer.begin_transaction()
        with pytest.raises(TransactionStateError, match="transaction_two_phase_commit_enable"):
            producer.prepare_transaction()
        producer.send("turn", b"kept")
        producer.commit_transaction()
        with pytest.raises(TransactionStateError, match="call begin_transaction first"):
            producer.send("turn", b"x")
    assert read(bootstrap, "turn", committed=True) == [b"kept"]


def a_newer_producer_fences_the_older(bootstrap: str) -> None:
    create(bootstrap, "fence")
    with producer_of(bootstrap, "fence-1") as old:
        old.init_transactions()
        old.begin_transaction()
        old.send("fence", b"zombie").result(10)
        with producer_of(bootstrap, "fence-1") as new:
            new.init_transactions()
            with new.transaction():
                new.send("fence", b"new")
            with pytest.raises(ProducerFencedError, match="close this producer"):
                old.commit_transaction()
            with pytest.raises(ProducerFencedError):
                old.begin_transaction()
            with pytest.raises(ProducerFencedError):
                old.send("fence", b"late")
            with pytest.raises(ProducerFencedError):
                old.abort_transaction()
            with new.transaction():
                new.send("fence", b"newer")
    assert read(bootstrap, "fence", committed=True) == [b"new", b"newer"]


def a_record_that_is_refused_costs_its_transaction_only(bootstrap: str) -> None:
    create(bootstrap, "refused", partitions=2, max_message_bytes="2000")
    with producer_of(bootstrap, "refused-1", batch_size=1000) as producer:
        producer.init_transactions()
        for _ in range(3):
            producer.begin_transaction()
            producer.send("refused", b"with it", partition=1)
            delivery = producer.send("refused", bytes(5000), partition=0)
            with pytest.raises(TransactionAbortableError, match="abort the transaction"):
                producer.commit_transaction()
            with pytest.raises(DeliveryFailedError):
                delivery.result(10)
            with pytest.raises(TransactionAbortableError):
                producer.send("refused", b"more")
            producer.abort_transaction()
            with producer.transaction():
                producer.send("refused", b"good", partition=0)
                producer.send("refused", b"good", partition=1)
        with pytest.raises(TransactionAbortableError), producer.transaction():
            producer.send("refused", bytes(5000), partition=0)
        with producer.transaction():
            producer.send("refused", b"last", partition=0)
    assert read(bootstrap, "refused", committed=True, partitions=2) == [b"good"] * 3 + [b"last"] + [b"good"] * 3


def a_batch_that_is_too_large_is_split_within_its_transaction(bootstrap: str) -> None:
    create(bootstrap, "split", max_message_bytes="3000")
    with producer_of(bootstrap, "split-1", batch_size=100_000, linger_ms=200) as producer:
        for transaction in range(2):
            with producer.transaction():
                for each in range(30):
                    producer.send("split", b"%d.%d" % (transaction, each) + bytes(500))
    values = [value.rstrip(b"\0") for value in read(bootstrap, "split", committed=True) if value is not None]
    assert values == [b"%d.%d" % (transaction, each) for transaction in range(2) for each in range(30)]


def what_is_read_is_committed_with_what_is_made_of_it(bootstrap: str) -> None:
    for protocol in ("classic", "consumer"):
        orders, bills = f"orders-{protocol}", f"bills-{protocol}"
        create(bootstrap, orders, partitions=2)
        create(bootstrap, bills)
        with Producer(bootstrap_servers=bootstrap) as plain:
            for number in range(100):
                plain.send(orders, b"%d" % number, partition=number % 2)
        with pytest.raises(KeyError):
            _bill(bootstrap, protocol, transactions_max=3)
        _bill(bootstrap, protocol, transactions_max=None)
        values = read(bootstrap, bills, committed=True)
        assert sorted(int(value or b"") for value in values) == list(range(100))
        assert len(read(bootstrap, bills, committed=False)) > 100


def _bill(bootstrap: str, protocol: str, transactions_max: int | None) -> None:
    """Read orders and write bills until all are read; or until one transaction too many crashes before its end."""
    with (
        Consumer(
            f"orders-{protocol}",
            bootstrap_servers=bootstrap,
            group_id=f"billing-{protocol}",
            group_protocol=protocol,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            isolation_level="read_committed",
            max_poll_records=15,
        ) as consumer,
        producer_of(bootstrap, f"billing-{protocol}") as producer,
    ):
        deadline = time.monotonic() + DEADLINE_S
        transactions = 0
        while sum(each.offset for each in consumer.consumed_offsets().values()) < 100:
            assert time.monotonic() < deadline, f"{consumer.consumed_offsets()} is all that was read"
            records = consumer.poll(timeout_ms=500)
            if not records:
                continue
            with producer.transaction():
                for record in records:
                    producer.send(f"bills-{protocol}", record.value)
                producer.send_offsets_to_transaction(consumer.consumed_offsets(), consumer.group_metadata())
                if transactions == transactions_max:
                    producer.flush()
                    raise KeyError("crash")
            transactions += 1
            committed = consumer.committed()
            assert {each: known and known.offset for each, known in committed.items()} == {
                each: known.offset for each, known in consumer.consumed_offsets().items()
            }


def a_member_that_left_its_group_cannot_commit(bootstrap: str) -> None:
    create(bootstrap, "left")
    create(bootstrap, "left-made")
    with Producer(bootstrap_servers=bootstrap) as plain:
        plain.send("left", b"1").result(10)
    options: dict[str, Any] = {
        "bootstrap_servers": bootstrap,
        "group_id": "left",
        "auto_offset_reset": "earliest",
        "enable_auto_commit": False,
    }
    with producer_of(bootstrap, "left-1") as producer:
        producer.init_transactions()
        with Consumer("left", **options) as consumer:
            assert consumer.poll(timeout_ms=10_000)
            offsets, zombie = consumer.consumed_offsets(), consumer.group_metadata()
        assert zombie.member_id
        producer.begin_transaction()
        producer.send("left-made", b"by a zombie")
        with pytest.raises(TransactionAbortableError, match="poll before the next one"):
            producer.send_offsets_to_transaction(offsets, zombie)
        producer.abort_transaction()
        with Consumer("left", **options) as consumer:
            assert [row.value for row in consumer.poll(timeout_ms=10_000)] == [b"1"]
            with producer.transaction():
                producer.send("left-made", b"by a member")
                producer.send_offsets_to_transaction(consumer.consumed_offsets(), consumer.group_metadata())
            assert consumer.committed()[TopicPartition("left", 0)] is not None
    assert read(bootstrap, "left-made", committed=True) == [b"by a member"]


def offsets_that_cannot_be_committed_cost_their_transaction_only(bootstrap: str) -> None:
    """Of a topic that is not there, which may come yet, so that it is asked for as long as the caller waits; and of no group."""
    create(bootstrap, "vain")
    with producer_of(bootstrap, "vain-1") as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send("vain", b"aborted")
        with pytest.raises(TransactionAbortableError, match="no good answer in 300 ms"):
            producer.send_offsets_to_transaction({("no-such-topic", 0): 7}, "vain", timeout_ms=300)
        producer.abort_transaction()
        with producer.transaction():
            producer.send("vain", b"committed")
            # No coordinator has to be asked about that one, and nothing is lost.
            with pytest.raises(ConfigError, match="a group's id"):
                producer.send_offsets_to_transaction({("vain", 0): 1}, "")
            producer.send_offsets_to_transaction({("vain", 0): 2}, "vain")
    assert read(bootstrap, "vain", committed=True) == [b"committed"]


def a_transaction_that_takes_too_long_is_aborted(bootstrap: str) -> None:
    """The cluster has to look for such transactions every few hundred milliseconds."""
    create(bootstrap, "late")
    with (
        producer_of(bootstrap, "late-1", transaction_timeout_ms=500) as producer,
        Admin(bootstrap_servers=bootstrap) as admin,
    ):
        producer.init_transactions()
        producer.begin_transaction()
        producer.send("late", b"late").result(10)
        deadline = time.monotonic() + DEADLINE_S
        while admin.describe_transaction("late-1").state is not TransactionState.COMPLETE_ABORT:
            assert time.monotonic() < deadline
        producer.send("late", b"later")
        # Version 1 cannot tell a time-out from another producer; version 2 can, and goes on.
        with pytest.raises((TransactionAbortableError, ProducerFencedError)) as raised:
            producer.commit_transaction()
        is_fenced = isinstance(raised.value, ProducerFencedError)
        if not is_fenced:
            try:
                producer.abort_transaction()
            except ProducerFencedError:
                is_fenced = True
        if not is_fenced:
            with producer.transaction():
                producer.send("late", b"in time")
    if is_fenced:
        with producer_of(bootstrap, "late-1") as producer, producer.transaction():
            producer.send("late", b"in time")
    assert read(bootstrap, "late", committed=True) == [b"in time"]


def admins_see_what_is_open_and_end_it(bootstrap: str) -> None:
    create(bootstrap, "admin", partitions=3)
    partition = TopicPartition("admin", 1)
    with Admin(bootstrap_servers=bootstrap) as admin, producer_of(bootstrap, "admin-1") as producer:
        with pytest.raises(RefusedError, match="there is no transactional id nobody") as raised:
            admin.describe_transaction("nobody")
        assert raised.value.code is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
        producer.init_transactions()
        assert admin.describe_transaction("admin-1").state is TransactionState.EMPTY
        producer.begin_transaction()
        place = producer.send("admin", b"by another hand", partition=1).result(10)

        described = admin.describe_transactions(["admin-1", "nobody"])
        assert isinstance(described["nobody"], RefusedError)
        found = described["admin-1"]
        assert isinstance(found, TransactionDescription)
        assert (found.state, found.partitions, found.timeout_ms) == (TransactionState.ONGOING, (partition,), 60_000)
        assert found.start_time_ms is not None

        def listed(**filters: Any) -> list[str]:
            return [each.transactional_id for each in admin.list_transactions(**filters)]

        assert "admin-1" in listed()
        assert "admin-1" in listed(states=[TransactionState.ONGOING, TransactionState.EMPTY])
        assert "admin-1" not in listed(states=[TransactionState.COMPLETE_COMMIT])
        assert listed(producer_ids=[found.producer_id]) == ["admin-1"]
        assert listed(producer_ids=[2**40]) == []
        assert listed(pattern="admin-[0-9]") == ["admin-1"]
        assert listed(pattern="admin") == []
        assert "admin-1" in listed(duration_ms=0)
        assert "admin-1" not in listed(duration_ms=3_600_000)

        producers = admin.describe_producers([partition, ("admin", 0), ("admin", 9)])
        assert producers[TopicPartition("admin", 0)] == []
        assert isinstance(producers[TopicPartition("admin", 9)], ClientError)
        state = producers[partition]
        assert isinstance(state, list)
        assert (state[0].producer_id, state[0].transaction_start_offset) == (found.producer_id, place.offset)
        assert admin.find_hanging_transactions(topic="admin", max_transaction_timeout_ms=0) == []
        assert admin.find_open_transaction(partition, place.offset).producer == state[0]

        admin.end_transaction("admin-1", found.producer_id, found.producer_epoch, commit=True)
        deadline = time.monotonic() + DEADLINE_S
        while admin.describe_transaction("admin-1").state is not TransactionState.COMPLETE_COMMIT:
            assert time.monotonic() < deadline
        with pytest.raises(RefusedError):
            admin.end_transaction("admin-1", found.producer_id, found.producer_epoch, commit=False)

        with producer_of(bootstrap, "admin-2") as other:
            other.init_transactions()
            other.begin_transaction()
            other.send("admin", b"fenced", partition=1).result(10)
            fenced = admin.fence_producers(["admin-2"])["admin-2"]
            assert isinstance(fenced, FencedProducer)
            with pytest.raises(ProducerFencedError):
                other.commit_transaction()
    assert read(bootstrap, "admin", committed=True, partitions=3) == [b"by another hand"]


def a_hanging_transaction_is_found_and_aborted(bootstrap: str) -> None:
    create(bootstrap, "hanging")
    partition = TopicPartition("hanging", 0)
    with Admin(bootstrap_servers=bootstrap) as admin:
        # Only what is not verified can hang.
        admin.alter_config(ResourceKind.BROKER, "1", set={"transaction.partition.verification.enable": "false"})
        batch = build_batch(
            [Record(0, 1_000_000, None, b"hanging")],
            producer_id=2**40,
            producer_epoch=3,
            base_sequence=0,
            is_transactional=True,
        )
        data = TopicProduceData(
            name="hanging", topic_id=ZERO_UUID, partition_data=[PartitionProduceData(index=0, records=batch)]
        )
        request = ProduceRequest(transactional_id="gone", acks=-1, timeout_ms=30_000, topic_data=[data])
        with RawClient(bootstrap) as client:
            deadline = time.monotonic() + DEADLINE_S
            while client.call(request, ProduceResponse, 11).responses[0].partition_responses[0].error_code:
                assert time.monotonic() < deadline, "what is not verified was not taken"
        admin.alter_config(ResourceKind.BROKER, "1", set={"transaction.partition.verification.enable": "true"})
        with Producer(bootstrap_servers=bootstrap) as plain:
            plain.send("hanging", b"behind it").result(10)
        assert admin.find_hanging_transactions(topic="seen") == []
        found = admin.find_hanging_transactions()
        assert [(each.partition, each.producer.producer_id) for each in found] == [(partition, 2**40)]
        assert found == admin.find_hanging_transactions(topic="hanging", partition=0, broker_id=1)

        shown = tidelog("transactions", "find-hanging", "--topic", "hanging", "--json", "--bootstrap", bootstrap)
        assert [row["start_offset"] for row in json_lines(shown)] == [0]
        assert "abort one with" in tidelog("transactions", "find-hanging", "--bootstrap", bootstrap).stdout
        where = ("--topic", "hanging", "--partition", "0", "--start-offset")
        missed = tidelog("transactions", "abort", *where, "1", "--bootstrap", bootstrap)
        assert (missed.exit_code, missed.stdout) == (1, "")
        assert "has no open transaction that begins at offset 1" in missed.stderr
        aborted = tidelog("transactions", "abort", *where, "0", "--bootstrap", bootstrap)
        assert aborted.stdout == "aborted the transaction at offset 0 of hanging-0\n"
        assert admin.find_hanging_transactions() == []
    assert read(bootstrap, "hanging", committed=True) == [b"behind it"]


def the_command_line_shows_and_ends_transactions(bootstrap: str) -> None:
    create(bootstrap, "typed")
    with producer_of(bootstrap, "typed-1") as one, producer_of(bootstrap, "typed-2") as two:
        for producer in (one, two):
            producer.init_transactions()
            producer.begin_transaction()
            producer.send("typed", b"committed" if producer is one else b"aborted").result(10)

        def run(*arguments: str) -> Any:
            return tidelog("transactions", *arguments, "--bootstrap", bootstrap)

        listed = json_lines(run("list", "--state", "ongoing", "--pattern", "typed-.", "--json"))
        assert [row["transactional_id"] for row in listed] == ["typed-1", "typed-2"]
        table = run("list", "--producer-id", str(listed[0]["producer_id"])).stdout
        assert "TRANSACTIONAL ID" in table
        assert "typed-1" in table
        assert (
            run("list", "--longer-than-ms", "3600000", "--pattern", "typed-.*").stdout
            == "there are no such transactions\n"
        )
        wrong = run("list", "--state", "open")
        assert (wrong.exit_code, wrong.stdout) == (2, "")
        assert "'open' is none of Empty, Ongoing" in wrong.stderr

        described = json_lines(run("describe", "typed-1", "--json"))[0]
        assert (described["state"], described["partitions"]) == ("Ongoing", {"typed": [0]})
        missing = run("describe", "typed-2", "nobody")
        assert missing.exit_code == 1
        assert "transactional id typed-2, Ongoing, open since" in missing.stdout
        assert missing.stderr == "tidelog transactions: there is no transactional id nobody\n"

        recorded = f"{described['producer_id']}:{described['producer_epoch']}:typed-1"
        assert run("commit", "typed-2", "--prepared", recorded).exit_code == 2
        assert run("commit", "typed-1", "--producer-id", "7").exit_code == 2
        done = run("commit", "typed-1", "--prepared", recorded)
        assert (done.stdout, done.exit_code) == ("committed the transaction of typed-1\n", 0)
        assert run("abort", "typed-2").stdout == "aborted the transaction of typed-2\n"
        assert run("abort", "nobody").exit_code == 1
    assert read(bootstrap, "typed", committed=True) == [b"committed"]


def closing_aborts_what_is_open(bootstrap: str) -> None:
    create(bootstrap, "closing")
    producer = producer_of(bootstrap, "closing-1")
    producer.init_transactions()
    producer.begin_transaction()
    producer.send("closing", b"never").result(10)
    producer.close()
    with producer_of(bootstrap, "closing-1") as producer, producer.transaction():
        producer.send("closing", b"kept")
    assert read(bootstrap, "closing", committed=True) == [b"kept"]


def asyncio_does_the_same(bootstrap: str) -> None:
    create(bootstrap, "async", partitions=2)
    create(bootstrap, "async-made")

    async def main() -> None:
        async with AsyncProducer(bootstrap_servers=bootstrap) as plain:
            for number in range(50):
                await plain.send("async", b"%d" % number)
        async with (
            AsyncConsumer(
                "async",
                bootstrap_servers=bootstrap,
                group_id="async",
                auto_offset_reset="earliest",
                enable_auto_commit=False,
            ) as consumer,
            AsyncProducer(bootstrap_servers=bootstrap, transactional_id="async-1") as producer,
        ):
            seen = 0
            deadline = time.monotonic() + DEADLINE_S
            while seen < 50:
                assert time.monotonic() < deadline
                records = await consumer.poll(timeout_ms=500)
                if not records:
                    continue
                async with producer.transaction():
                    for record in records:
                        await producer.send("async-made", record.value)
                    await producer.send_offsets_to_transaction(consumer.consumed_offsets(), consumer.group_metadata())
                seen += len(records)
            with pytest.raises(KeyError):  # noqa: PT012 - the block is what is tested
                async with producer.transaction():
                    await producer.send("async-made", b"no")
                    raise KeyError
            await producer.begin_transaction()
            rows = await producer.send_arrow("async-made", pa.table({"value": [b"50", b"51"]}))
            await producer.commit_transaction()
            assert [each.record_count for each in await rows] == [2]

    asyncio.run(main())
    values = read(bootstrap, "async-made", committed=True)
    assert sorted(int(value or b"") for value in values) == list(range(52))


def many_threads_send_in_one_transaction(bootstrap: str) -> None:
    create(bootstrap, "threads", partitions=4)
    refused: list[ClientError] = []
    with producer_of(bootstrap, "threads-1", batch_size=500, linger_ms=1) as producer:
        producer.init_transactions()
        for transaction in range(3):
            producer.begin_transaction()

            def work(thread: int, transaction: int = transaction) -> None:
                for number in range(200):
                    try:
                        producer.send("threads", b"%d %d %d" % (transaction, thread, number), b"%d" % number)
                    except TransactionStateError as error:
                        refused.append(error)

            threads = [threading.Thread(target=work, args=(each,)) for each in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            producer.commit_transaction()
    assert not refused
    values = read(bootstrap, "threads", committed=True, partitions=4)
    assert len(set(values)) == len(values) == 3 * 4 * 200


def a_prepared_transaction_waits_for_its_decision(bootstrap: str) -> None:
    create(bootstrap, "prepared")
    options: dict[str, Any] = {"transaction_two_phase_commit_enable": True}
    with producer_of(bootstrap, "prepared-1", **options) as producer, Admin(bootstrap_servers=bootstrap) as admin:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send("prepared", b"committed")
        first = producer.prepare_transaction()
        described = admin.describe_transaction("prepared-1")
        assert (described.state, described.timeout_ms) == (TransactionState.ONGOING, 2**31 - 1)
        assert (described.producer_id, described.producer_epoch) == (first.producer_id, first.producer_epoch)
        assert read(bootstrap, "prepared", committed=True) == []
        assert producer.complete_transaction(PreparedTransaction.parse(str(first)))
        with producer.transaction():
            producer.send("prepared", b"aborted")
            second = producer.prepare_transaction()
        # Nobody recorded this one.
        assert second != first
        assert not producer.complete_transaction(first)
        producer.begin_transaction()
        producer.send("prepared", b"by another hand")
        third = producer.prepare_transaction()
    # The producer is gone, and what it has prepared is not: a command, or another process, ends it.
    with Admin(bootstrap_servers=bootstrap) as admin:
        assert admin.describe_transaction("prepared-1").state is TransactionState.ONGOING
        admin.end_transaction(*third, commit=True)
    with producer_of(bootstrap, "prepared-2", **options) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send("prepared", b"by command")
        fourth = producer.prepare_transaction()
    done = tidelog("transactions", "commit", "prepared-2", "--prepared", str(fourth), "--bootstrap", bootstrap)
    assert done.exit_code == 0, done.stderr
    assert read(bootstrap, "prepared", committed=True) == [b"committed", b"by another hand", b"by command"]


def an_heir_finds_what_was_prepared(bootstrap: str) -> None:
    """KIP-939's recovery. Apache Kafka 4.3 does not offer it yet."""
    create(bootstrap, "heir")
    options: dict[str, Any] = {"transaction_two_phase_commit_enable": True}
    recorded: list[str] = []
    for number in range(4):
        with producer_of(bootstrap, "heir-1", **options) as producer:
            producer.init_transactions(keep_prepared_txn=True)
            found = producer.prepared_transaction
            assert (found is None) == (number == 0)
            if found is not None:
                assert str(found) == recorded[-1]
                # Of every other one the database says that it never came to its decision.
                meant = found if number % 2 else PreparedTransaction("heir-1", 0, 0)
                assert producer.complete_transaction(meant) is bool(number % 2)
            producer.begin_transaction()
            producer.send("heir", b"%d" % number)
            recorded.append(str(producer.prepare_transaction()))
    with producer_of(bootstrap, "heir-1", **options) as producer:
        # Without the wish to keep it, what is open is aborted like any other.
        producer.init_transactions()
        assert producer.prepared_transaction is None
        with producer.transaction():
            producer.send("heir", b"last")
    assert read(bootstrap, "heir", committed=True) == [b"0", b"2", b"last"]


def an_heir_fences_whoever_prepared(bootstrap: str) -> None:
    create(bootstrap, "fenced-heir")
    options: dict[str, Any] = {"transaction_two_phase_commit_enable": True}
    with (
        producer_of(bootstrap, "heir-2", **options) as old,
        producer_of(bootstrap, "heir-2", **options) as heir,
    ):
        old.init_transactions()
        old.begin_transaction()
        old.send("fenced-heir", b"prepared")
        prepared = old.prepare_transaction()
        heir.init_transactions(keep_prepared_txn=True)
        with pytest.raises(ProducerFencedError):
            old.commit_transaction()
        assert heir.complete_transaction(prepared)
    assert read(bootstrap, "fenced-heir", committed=True) == [b"prepared"]


SCENARIOS: tuple[Scenario, ...] = (
    committed_is_seen_and_aborted_is_not,
    an_open_transaction_holds_readers_back_until_it_ends,
    a_block_that_fails_is_aborted,
    calls_out_of_turn_are_refused,
    a_newer_producer_fences_the_older,
    a_record_that_is_refused_costs_its_transaction_only,
    a_batch_that_is_too_large_is_split_within_its_transaction,
    what_is_read_is_committed_with_what_is_made_of_it,
    a_member_that_left_its_group_cannot_commit,
    offsets_that_cannot_be_committed_cost_their_transaction_only,
    a_transaction_that_takes_too_long_is_aborted,
    admins_see_what_is_open_and_end_it,
    a_hanging_transaction_is_found_and_aborted,
    the_command_line_shows_and_ends_transactions,
    closing_aborts_what_is_open,
    asyncio_does_the_same,
    many_threads_send_in_one_transaction,
)

KEEPING_SCENARIOS: tuple[Scenario, ...] = (an_heir_finds_what_was_prepared, an_heir_fences_whoever_prepared)
"""For clusters that keep a prepared transaction for the next producer."""
