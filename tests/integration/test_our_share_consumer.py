"""Our share consumer against our brokers, over real sockets: every acknowledgement, members that die, leaders that move."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator

import pytest

from tests.support import share_scenarios as scenarios
from tests.support.consumer_scenarios import consumer_of, new_topic, numbers, produce, settle, wait_for
from tests.support.share_scenarios import ACCEPT, RELEASE, deliveries, member, new_group, read, take
from tidelog import Admin, AsyncShareConsumer, Producer, ShareConsumer, TopicPartition
from tidelog.client.admin import UpgradeType
from tidelog.client.consumer.errors import ConsumerStateError, WakeupError
from tidelog.client.errors import ClientError, ClosedError, ConfigError, RefusedError, UnsupportedError
from tidelog.model.errors import ErrorCode
from tidelog.testing import EmbeddedCluster


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    with EmbeddedCluster(config=scenarios.SETTINGS) as cluster:
        yield cluster.bootstrap_servers


@pytest.mark.parametrize("name", scenarios.SCENARIOS)
def test_a_share_consumer(bootstrap: str, name: str) -> None:
    scenarios.SCENARIOS[name](bootstrap)


def test_the_records_of_a_member_that_dies_come_to_another_one_after_the_lock(bootstrap: str) -> None:
    topic, group = new_topic(bootstrap, 1), new_group(bootstrap)
    produce(bootstrap, topic, 5, 1)
    dead = member(bootstrap, group, topic, explicit=True)
    held = take(dead, 5)
    began = time.monotonic()
    # It says nothing any more, and its connections stay.
    dead._call(dead._core._group.stop)
    with member(bootstrap, group, topic) as other:
        rows = read(other, 5)
    dead.close()

    assert numbers(rows) == numbers(held)
    assert {row.delivery_count for row in rows} == {2}
    assert time.monotonic() - began > scenarios.LOCK_MS / 1000 * 0.9


def test_in_explicit_mode_nothing_is_returned_until_all_is_acknowledged(bootstrap: str) -> None:
    topic, group = new_topic(bootstrap, 1), new_group(bootstrap)
    produce(bootstrap, topic, 2, 1)
    with member(bootstrap, group, topic, explicit=True) as consumer:
        rows = take(consumer, 2)
        consumer.acknowledge(rows[0])
        with pytest.raises(ConsumerStateError, match="every record has to be acknowledged"):
            consumer.poll()
        consumer.commit()
        with pytest.raises(ConsumerStateError, match=f"offset 0 of {topic}-0 is not in hand"):
            consumer.acknowledge(rows[0])
        consumer.acknowledge(rows[1])
        assert consumer.commit() == {TopicPartition(topic, 0): None}
        assert consumer.commit() == {}


def test_with_implicit_acknowledgement_nothing_can_be_acknowledged(bootstrap: str) -> None:
    topic, group = new_topic(bootstrap, 1), new_group(bootstrap)
    produce(bootstrap, topic, 1, 1)
    with member(bootstrap, group, topic) as consumer:
        row = take(consumer)[0]
        with pytest.raises(ConsumerStateError, match="share_acknowledgement_mode='explicit'"):
            consumer.acknowledge(row)


def test_the_commit_callback_hears_of_every_record_and_may_not_use_the_consumer(bootstrap: str) -> None:
    topic, group = new_topic(bootstrap, 1), new_group(bootstrap)
    produce(bootstrap, topic, 3, 1)
    told: list[tuple[TopicPartition, list[int], ClientError | None]] = []
    refused: list[Exception] = []
    with member(bootstrap, group, topic, explicit=True) as consumer:

        def hear(offsets: dict[TopicPartition, frozenset[int]], error: ClientError | None) -> None:
            told.extend((partition, sorted(each), error) for partition, each in offsets.items())
            try:
                consumer.poll()
            except ConsumerStateError as failure:
                refused.append(failure)

        consumer.set_acknowledgement_commit_callback(hear)  # type: ignore[arg-type]  # a dict is a mapping
        for row in take(consumer, 3):
            consumer.acknowledge(row)
        consumer.commit_async()
        wait_for(lambda: consumer.poll(timeout_ms=20) == [] and bool(told), "the callback has heard")

    assert told == [(TopicPartition(topic, 0), [0, 1, 2], None)]
    assert refused


def test_a_fenced_member_goes_on_with_what_it_holds_and_joins_again(bootstrap: str) -> None:
    topic, group = new_topic(bootstrap, 1), new_group(bootstrap, share_record_lock_duration_ms=60_000)
    produce(bootstrap, topic, 1, 1)
    with member(bootstrap, group, topic, explicit=True) as consumer:
        row = take(consumer)[0]
        core = consumer._core._group.member
        # As if the coordinator had thrown it out: it does not know this epoch.
        consumer._call(lambda: setattr(core, "member_epoch", 1_000_000))
        wait_for(lambda: 0 < core.member_epoch < 1_000_000, "it is in the group again")
        consumer.acknowledge(row)
        assert consumer.commit() == {TopicPartition(topic, 0): None}
        produce(bootstrap, topic, 1, 1, start=1)
        assert deliveries(read(consumer, 1, ACCEPT)) == [(1, 1)]


def test_a_member_that_polls_too_late_leaves_and_joins_again(bootstrap: str) -> None:
    topic, group = new_topic(bootstrap, 1), new_group(bootstrap)
    with member(bootstrap, group, topic, max_poll_interval_ms=300) as consumer:
        wait_for(lambda: consumer.poll(timeout_ms=20) == [] and bool(consumer._core._fetcher._places), "it is in")
        wait_for(lambda: not consumer._core._fetcher._places, "it has left")
        produce(bootstrap, topic, 1, 1)
        assert deliveries(read(consumer, 1)) == [(0, 1)]


def test_another_thread_wakes_a_poll(bootstrap: str) -> None:
    topic, group = new_topic(bootstrap, 1), new_group(bootstrap)
    with member(bootstrap, group, topic) as consumer:
        threading.Timer(0.1, consumer.wakeup).start()
        with pytest.raises(WakeupError):
            consumer.poll(timeout_ms=60_000)
        assert consumer.poll() == []


def test_other_topics_can_be_subscribed_to_and_none_at_all(bootstrap: str) -> None:
    first, second, group = new_topic(bootstrap, 1), new_topic(bootstrap, 1), new_group(bootstrap)
    produce(bootstrap, first, 1, 1)
    produce(bootstrap, second, 1, 1, start=7)
    with member(bootstrap, group, first) as consumer:
        assert numbers(read(consumer, 1)) == [0]
        consumer.subscribe(second)
        assert consumer.subscription() == {second}
        assert numbers(read(consumer, 1)) == [7]
        consumer.unsubscribe()
        with pytest.raises(ConsumerStateError, match="subscribe to topics first"):
            consumer.poll()


def test_it_is_the_same_in_asyncio(bootstrap: str) -> None:
    topic, group = new_topic(bootstrap, 1), new_group(bootstrap)
    produce(bootstrap, topic, 3, 1)

    async def main() -> list[int]:
        read: list[int] = []
        async with AsyncShareConsumer(topic, bootstrap_servers=bootstrap, group_id=group) as consumer:
            async for record in consumer:
                read.append(int(record.value))
                if len(read) == 3:
                    break
            assert await consumer.commit() == {TopicPartition(topic, 0): None}
        with pytest.raises(ClosedError):
            await consumer.poll()
        return read

    assert asyncio.run(main()) == [0, 1, 2]


def test_mistakes_are_told_in_a_sentence(bootstrap: str) -> None:
    with pytest.raises(ConfigError, match="group_id is missing"):
        ShareConsumer("t", bootstrap_servers=bootstrap)
    with pytest.raises(ConfigError, match="there is no option 'auto_offset_reset'"):
        ShareConsumer("t", bootstrap_servers=bootstrap, group_id="g", auto_offset_reset="earliest")
    with pytest.raises(ConfigError, match="share_acquire_mode is 'all'"):
        ShareConsumer("t", bootstrap_servers=bootstrap, group_id="g", share_acquire_mode="all")


def test_a_group_of_another_kind_is_told(bootstrap: str) -> None:
    topic = new_topic(bootstrap, 1)
    with consumer_of(bootstrap, f"{topic}-readers") as reader:
        reader.subscribe([topic])
        settle(reader, partitions=1)
        with (
            member(bootstrap, f"{topic}-readers", topic) as consumer,
            pytest.raises(RefusedError, match="is not a share group"),
        ):
            consumer.poll(timeout_ms=30_000)


def test_a_cluster_without_share_groups_is_told_so() -> None:
    with EmbeddedCluster() as cluster:
        with Admin(**cluster.client_options()) as admin:
            admin.update_features({"share.version": 0}, upgrade_type=UpgradeType.SAFE_DOWNGRADE)
        options = {"bootstrap_servers": cluster.bootstrap_servers, "group_id": "g"}
        with ShareConsumer("t", **options) as consumer, pytest.raises(UnsupportedError, match="has no share groups"):
            consumer.poll(timeout_ms=30_000)


def test_a_leader_that_moves_costs_no_record() -> None:
    with EmbeddedCluster(nodes=3, config=scenarios.SETTINGS) as cluster:
        bootstrap = cluster.bootstrap_servers
        cluster.create_topic("moving", partitions=1, replication_factor=3)
        group = new_group(bootstrap, share_record_lock_duration_ms=30_000)
        place = TopicPartition("moving", 0)
        with (
            Admin(bootstrap_servers=bootstrap) as admin,
            Producer(bootstrap_servers=bootstrap) as producer,
            member(bootstrap, group, "moving", explicit=True) as consumer,
        ):

            def write(start: int) -> None:
                for number in range(start, start + 5):
                    producer.send("moving", b"%d" % number)
                producer.flush()

            write(0)
            before = read(consumer, 5, ACCEPT)
            assert consumer.commit() == {place: None}
            write(5)
            held = take(consumer, 5)
            leader = admin.describe_topic("moving").partitions[0].leader
            assert leader is not None
            others = [node for node in (1, 2, 3) if node != leader]
            admin.alter_partition_reassignments({("moving", 0): [*others, leader]})
            wait_for(lambda: not admin.list_partition_reassignments(), "the replicas are in order")
            admin.elect_leaders(partitions=[("moving", 0)])
            for row in held:
                consumer.acknowledge(row, RELEASE)
            # The new leader knows nothing of these locks.
            error = consumer.commit()[place]
            assert error is not None
            assert error.code in {ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
            again = read(consumer, 5, ACCEPT)
            write(10)
            rest = read(consumer, 5, ACCEPT)
            assert consumer.commit() == {place: None}

        assert numbers(before) == list(range(5))
        assert numbers(again) == list(range(5, 10))
        assert numbers(rest) == list(range(10, 15))
