"""What a consumer of ours has to do with any Kafka, as functions of where that is: for our own brokers and Apache's alike.

Producing is left to librdkafka, so that a mistake of our own producer cannot hide one of the consumer.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any
from uuid import uuid4

import confluent_kafka
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from tidelog import Consumer, ConsumerRecord, OffsetAndMetadata, TopicPartition

DEADLINE_S = 30.0
Record = ConsumerRecord[Any, Any]


def wait_for(condition: Callable[[], bool], what: str) -> None:
    """Calls `condition`, which polls, until it holds."""
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline, f"waited in vain until {what}"


def new_topic(bootstrap: str, partitions: int = 3, name: str = "") -> str:
    topic = name or f"topic-{uuid4().hex[:8]}"
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result(DEADLINE_S)
    return topic


def produce(bootstrap: str, topic: str, count: int, partitions: int = 3, start: int = 0, codec: str = "none") -> None:
    """Record n has the value `n` and goes to partition n mod `partitions`."""
    producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap, "linger.ms": 5, "compression.type": codec})
    for number in range(start, start + count):
        producer.produce(topic, b"%d" % number, b"k%d" % number, number % partitions, headers=[("n", b"%d" % number)])
    assert producer.flush(DEADLINE_S) == 0


def consumer_of(bootstrap: str, group: str, protocol: str = "classic", **options: Any) -> Consumer:
    settings: dict[str, Any] = {
        "auto_offset_reset": "earliest",
        "enable_auto_commit": False,
        "heartbeat_interval_ms": 100,
        "fetch_max_wait_ms": 100,
        **options,
    }
    return Consumer(bootstrap_servers=bootstrap, group_id=group, group_protocol=protocol, **settings)


def read(consumer: Consumer, count: int) -> list[Record]:
    rows: list[Record] = []

    def enough() -> bool:
        rows.extend(consumer.poll(timeout_ms=200))
        return len(rows) >= count

    wait_for(enough, f"{count} records came")
    return rows


def numbers(rows: Sequence[Record]) -> list[int]:
    return sorted(int(row.value) for row in rows)


def settle(*consumers: Consumer, partitions: int) -> None:
    """Poll all of them until together they have every partition, each at least one."""

    def settled() -> bool:
        for each in consumers:
            each.poll(timeout_ms=20)
        held = [each.assignment() for each in consumers]
        return sum(map(len, held)) == partitions == len(frozenset().union(*held)) and all(held)

    wait_for(settled, f"{len(consumers)} members share {partitions} partitions")


def reads_commits_and_resumes(bootstrap: str, protocol: str) -> None:
    topic, group = new_topic(bootstrap), f"group-{uuid4().hex[:8]}"
    produce(bootstrap, topic, 300)
    with consumer_of(bootstrap, group, protocol) as consumer:
        consumer.subscribe([topic])
        rows = read(consumer, 300)
        assert numbers(rows) == list(range(300))
        for partition in range(3):
            offsets = [row.offset for row in rows if row.partition == partition]
            assert offsets == list(range(100))
        assert rows[0].headers == (("n", rows[0].value),)
        consumer.commit({(topic, 0): OffsetAndMetadata(50, "half")})
        assert consumer.committed([(topic, 0), (topic, 1)]) == {
            TopicPartition(topic, 0): OffsetAndMetadata(50, "half", -1),
            TopicPartition(topic, 1): None,
        }
        consumer.commit()
    produce(bootstrap, topic, 30, start=300)
    with consumer_of(bootstrap, group, protocol) as consumer:
        consumer.subscribe([topic])
        assert numbers(read(consumer, 30)) == list(range(300, 330))
        assert {consumer.lag(each) for each in consumer.assignment()} == {0}
        assert consumer.metrics()["messaging.kafka.consumer.lag"] == dict.fromkeys(consumer.assignment(), 0)


def shares_and_takes_over(bootstrap: str, protocol: str, **options: Any) -> None:
    topic, group = new_topic(bootstrap, 4), f"group-{uuid4().hex[:8]}"
    told: list[tuple[str, list[TopicPartition]]] = []
    with consumer_of(bootstrap, group, protocol, **options) as first:
        first.subscribe(
            [topic],
            on_assigned=lambda partitions: told.append(("assigned", partitions)),
            on_revoked=lambda partitions: told.append(("revoked", partitions)),
        )
        settle(first, partitions=4)
        with consumer_of(bootstrap, group, protocol, **options) as second:
            second.subscribe([topic])
            settle(first, second, partitions=4)
            assert {len(first.assignment()), len(second.assignment())} == {2}
            produce(bootstrap, topic, 40, 4)
            rows: list[Record] = []

            def all_there() -> bool:
                rows.extend(first.poll(timeout_ms=50))
                rows.extend(second.poll(timeout_ms=50))
                return len(rows) >= 40

            wait_for(all_there, "both have read everything")
            assert numbers(rows) == list(range(40))
            first.commit()
            second.commit()
        settle(first, partitions=4)
    assert told[0] == ("assigned", [TopicPartition(topic, each) for each in range(4)])
    assert told[-1][0] == "revoked"
    assert len(told[-1][1]) == 4
    if options.get("partition_assignment_strategy") == "cooperative-sticky" or protocol == "consumer":
        # What stayed was never taken away, until the end.
        taken = [each for kind, partitions in told[:-1] if kind == "revoked" for each in partitions]
        assert len(taken) == 2


def keeps_offsets_elsewhere(bootstrap: str, protocol: str) -> None:
    topic, group = new_topic(bootstrap), f"group-{uuid4().hex[:8]}"
    produce(bootstrap, topic, 300)
    with consumer_of(bootstrap, group, protocol) as consumer:

        def go_on(partitions: list[TopicPartition]) -> None:
            for each in partitions:
                consumer.seek(each, 90)

        consumer.subscribe([topic], on_assigned=go_on)
        rows = read(consumer, 30)
        assert numbers(rows) == list(range(270, 300))


def follows_a_pattern(bootstrap: str, protocol: str) -> None:
    prefix, group = f"p{uuid4().hex[:8]}", f"group-{uuid4().hex[:8]}"
    new_topic(bootstrap, 1, f"{prefix}-a")
    new_topic(bootstrap, 1, f"x-{prefix}-b")
    with consumer_of(bootstrap, group, protocol, metadata_max_age_ms=500) as consumer:
        consumer.subscribe(pattern=f"{prefix}-.*")
        settle(consumer, partitions=1)
        assert consumer.assignment() == {(f"{prefix}-a", 0)}
        new_topic(bootstrap, 2, f"{prefix}-later")
        settle(consumer, partitions=3)


def static_member_comes_back(bootstrap: str, protocol: str) -> None:
    topic, group = new_topic(bootstrap, 4), f"group-{uuid4().hex[:8]}"
    told: list[str] = []
    with consumer_of(bootstrap, group, protocol, group_instance_id="one") as first:
        first.subscribe([topic], on_assigned=lambda _: told.append("assigned"))
        second = consumer_of(bootstrap, group, protocol, group_instance_id="two")
        second.subscribe([topic])
        settle(first, second, partitions=4)
        before, heard = second.assignment(), len(told)
        second.close()
        with consumer_of(bootstrap, group, protocol, group_instance_id="two") as again:
            again.subscribe([topic])
            settle(first, again, partitions=4)
            assert again.assignment() == before
            assert len(told) == heard, "the group rebalanced for a member that only restarted"


def pauses_seeks_and_wakes(bootstrap: str) -> None:
    topic = new_topic(bootstrap, 2)
    produce(bootstrap, topic, 200, 2)
    with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest", fetch_max_wait_ms=50) as consumer:
        consumer.assign([(topic, 0), (topic, 1)])
        consumer.pause((topic, 1))
        assert {row.partition for row in read(consumer, 100)} == {0}
        assert consumer.poll(timeout_ms=50) == []
        consumer.resume((topic, 1))
        assert {row.partition for row in read(consumer, 100)} == {1}
        consumer.seek((topic, 0), 95)
        assert [row.offset for row in read(consumer, 5)] == [95, 96, 97, 98, 99]
        third = next(row for row in _from_start(consumer, topic) if row.offset == 3)
        consumer.seek_to_time(third.timestamp_ms, (topic, 0))
        assert read(consumer, 1)[0].offset <= 3
        consumer.seek_to_end((topic, 0))
        assert consumer.position((topic, 0)) == 100
        assert consumer.end_offsets([(topic, 0)]) == {TopicPartition(topic, 0): 100}
        assert consumer.offsets_for_times({(topic, 0): 2**50}) == {TopicPartition(topic, 0): None}


def _from_start(consumer: Consumer, topic: str) -> list[Record]:
    consumer.seek_to_beginning((topic, 0))
    return read(consumer, 100)


def reads_columns(bootstrap: str) -> None:
    topic = new_topic(bootstrap, 1)
    produce(bootstrap, topic, 5000, 1, codec="lz4")
    with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest", fetch_max_wait_ms=50) as consumer:
        consumer.assign([(topic, 0)])
        values: list[object] = []

        def all_there() -> bool:
            batch = consumer.poll_arrow(timeout_ms=200)
            if batch is not None:
                values.extend(batch.column("value").to_pylist())
                assert set(batch.column("topic").to_pylist()) == {topic}
            return len(values) >= 5000

        wait_for(all_there, "all columns came")
        assert values == [b"%d" % each for each in range(5000)]
        assert consumer.position((topic, 0)) == 5000


def shares_with_librdkafka(bootstrap: str, strategy: str) -> None:
    """A classic group of both clients: whoever leads, the other one understands what it is given."""
    topic, group = new_topic(bootstrap, 4), f"group-{uuid4().hex[:8]}"
    theirs = confluent_kafka.Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "partition.assignment.strategy": strategy,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "heartbeat.interval.ms": 100,
            "session.timeout.ms": 6000,
        }
    )
    try:
        with consumer_of(bootstrap, group, partition_assignment_strategy=strategy) as ours:
            ours.subscribe([topic])
            settle(ours, partitions=4)
            theirs.subscribe([topic])
            rows: list[int] = []

            def shared() -> bool:
                rows.extend(int(row.value) for row in ours.poll(timeout_ms=20))
                message = theirs.poll(0.02)
                if message is not None and message.error() is None:
                    rows.append(int(message.value() or b"-1"))
                held = {(each.topic, each.partition) for each in theirs.assignment()}
                return len(held) == len(ours.assignment()) == 2 and not held & ours.assignment()

            wait_for(shared, "both have two partitions")
            produce(bootstrap, topic, 40, 4)
            wait_for(lambda: bool(shared() or True) and len(rows) >= 40, "all records came")
            assert sorted(rows) == list(range(40))
        # Ours is gone; theirs leads from here on, and a new one of ours follows.
        with consumer_of(bootstrap, group, partition_assignment_strategy=strategy) as ours:
            ours.subscribe([topic])
            wait_for(shared, "both have two partitions again")
    finally:
        theirs.close()


def skips_what_was_aborted(bootstrap: str) -> None:
    topic = new_topic(bootstrap, 1)
    producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap, "transactional.id": f"t-{uuid4().hex}"})
    producer.init_transactions(DEADLINE_S)
    for number in range(6):
        producer.begin_transaction()
        for each in range(10):
            producer.produce(topic, b"%d" % (10 * number + each), partition=0)
        producer.flush(DEADLINE_S)
        if number % 2:
            producer.abort_transaction(DEADLINE_S)
        else:
            producer.commit_transaction(DEADLINE_S)
    committed = [10 * number + each for number in (0, 2, 4) for each in range(10)]
    for columns in (False, True):
        with Consumer(
            bootstrap_servers=bootstrap, auto_offset_reset="earliest", isolation_level="read_committed"
        ) as consumer:
            consumer.assign([(topic, 0)])
            if columns:
                values: list[Any] = []

                def all_there(consumer: Consumer = consumer, values: list[Any] = values) -> bool:
                    batch = consumer.poll_arrow(timeout_ms=200)
                    values.extend([] if batch is None else batch.column("value").to_pylist())
                    return len(values) >= 30

                wait_for(all_there, "all committed records came")
                assert [int(each) for each in values] == committed
            else:
                assert [int(row.value) for row in read(consumer, 30)] == committed
            # The position has passed the last, aborted transaction and its marker.
            wait_for(
                lambda consumer=consumer: not consumer.poll(timeout_ms=50) and consumer.position((topic, 0)) == 66,  # type: ignore[misc]
                "the position is behind the last marker",
            )
    with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([(topic, 0)])
        assert [int(row.value) for row in read(consumer, 60)] == list(range(60))


_PROTOCOLS = ("classic", "consumer")
_BY_PROTOCOL = (
    reads_commits_and_resumes,
    keeps_offsets_elsewhere,
    follows_a_pattern,
    static_member_comes_back,
)
_STRATEGIES = ("range", "roundrobin", "sticky", "cooperative-sticky")

SCENARIOS: dict[str, Callable[[str], None]] = {
    **{
        f"{scenario.__name__}-{protocol}": partial(scenario, protocol=protocol)
        for scenario in _BY_PROTOCOL
        for protocol in _PROTOCOLS
    },
    **{
        f"shares_and_takes_over-{strategy}": partial(
            shares_and_takes_over, protocol="classic", partition_assignment_strategy=strategy
        )
        for strategy in _STRATEGIES
    },
    "shares_and_takes_over-consumer": partial(shares_and_takes_over, protocol="consumer"),
    **{
        # librdkafka has no strategy of the name of sticky.
        f"shares_with_librdkafka-{strategy}": partial(shares_with_librdkafka, strategy=strategy)
        for strategy in _STRATEGIES
        if strategy != "sticky"
    },
    "pauses_seeks_and_wakes": pauses_seeks_and_wakes,
    "reads_columns": reads_columns,
}
"""What a consumer does with any cluster, given where that is."""
