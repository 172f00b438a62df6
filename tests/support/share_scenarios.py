"""What a share consumer of ours has to do with any Kafka, as functions of where that is: for our own brokers and Apache's alike.

Groups begin at the earliest record and have locks of one second.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest

from tests.support.consumer_scenarios import new_topic, numbers, produce, wait_for
from tidelog import AcknowledgeType, Admin, ShareConsumer, SharedRecord, TopicPartition
from tidelog.client.admin import ResourceKind
from tidelog.client.errors import ClientError, SerializationError
from tidelog.client.share.errors import InvalidRecordStateError
from tidelog.model.errors import ErrorCode

LOCK_MS = 1000
SETTINGS: dict[str, Any] = {
    "group.share.min.heartbeat.interval.ms": 50,
    "group.share.heartbeat.interval.ms": 50,
    "group.share.min.record.lock.duration.ms": LOCK_MS,
    "group.share.assignment.interval.ms": 0,
}

Row = SharedRecord[Any, Any]
ACCEPT, RELEASE, REJECT, RENEW = AcknowledgeType


def new_group(bootstrap: str, **settings: object) -> str:
    """A group that begins at the earliest record, with short locks; others by keyword, with underscores."""
    group = f"share-{uuid4().hex[:8]}"
    values = {"share_auto_offset_reset": "earliest", "share_record_lock_duration_ms": LOCK_MS, **settings}
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.alter_config(
            ResourceKind.GROUP, group, set={name.replace("_", "."): str(value) for name, value in values.items()}
        )
    return group


def member(bootstrap: str, group: str, *topics: str, explicit: bool = False, **options: Any) -> ShareConsumer:
    given = {
        "fetch_max_wait_ms": 100,
        "share_acknowledgement_mode": "explicit" if explicit else "implicit",
        **options,
    }
    return ShareConsumer(*topics, bootstrap_servers=bootstrap, group_id=group, **given)


def take(consumer: ShareConsumer, count: int = 1) -> list[Row]:
    """What the first poll returns that returns anything, which is at least so much."""
    rows: list[Row] = []

    def came() -> bool:
        rows.extend(consumer.poll(timeout_ms=200))
        return bool(rows)

    wait_for(came, "records came")
    assert len(rows) >= count
    return rows


def read(consumer: ShareConsumer, count: int, kind: AcknowledgeType | None = None) -> list[Row]:
    """Poll until so many have come. Each is acknowledged as told, with None implicitly."""
    rows: list[Row] = []

    def enough() -> bool:
        for row in consumer.poll(timeout_ms=200):
            rows.append(row)
            if kind is not None:
                consumer.acknowledge(row, kind)
        return len(rows) >= count

    wait_for(enough, f"{count} records came")
    return rows


def deliveries(rows: list[Row]) -> list[tuple[int, int]]:
    return [(int(row.value), row.delivery_count) for row in rows]


def a_poll_accepts_what_the_one_before_returned(bootstrap: str) -> None:
    topic, group = new_topic(bootstrap), new_group(bootstrap)
    produce(bootstrap, topic, 300)
    with member(bootstrap, group, topic, max_poll_records=50) as consumer:
        assert numbers(read(consumer, 300)) == list(range(300))
        assert set(consumer.commit().values()) <= {None}
        assert consumer.acquisition_lock_timeout_ms == LOCK_MS
    produce(bootstrap, topic, 30, start=300)
    with member(bootstrap, group, topic) as consumer:
        rows = read(consumer, 30)
        assert numbers(rows) == list(range(300, 330))
        assert {row.delivery_count for row in rows} == {1}


def what_is_released_comes_again_and_what_is_rejected_does_not(bootstrap: str) -> None:
    topic, group = new_topic(bootstrap, 1), new_group(bootstrap)
    produce(bootstrap, topic, 4, 1)
    with member(bootstrap, group, topic, explicit=True) as consumer:
        first = take(consumer, 4)
        for row, kind in zip(first, (ACCEPT, RELEASE, REJECT, RELEASE), strict=True):
            consumer.acknowledge(row, kind)
        second = read(consumer, 2, ACCEPT)
        assert deliveries(second) == [(1, 2), (3, 2)]
        consumer.commit()
        assert consumer.poll(timeout_ms=200) == []


def a_record_is_delivered_no_more_often_than_the_group_allows(bootstrap: str) -> None:
    topic, group = new_topic(bootstrap, 1), new_group(bootstrap, share_delivery_count_limit=3)
    produce(bootstrap, topic, 1, 1)
    with member(bootstrap, group, topic, explicit=True) as consumer:
        rows = read(consumer, 3, RELEASE)
        assert deliveries(rows) == [(0, 1), (0, 2), (0, 3)]
        produce(bootstrap, topic, 1, 1, start=1)
        assert deliveries(read(consumer, 1, ACCEPT)) == [(1, 1)]


def a_renewed_record_is_returned_again_and_nobody_else_gets_it(bootstrap: str) -> None:
    topic, group = new_topic(bootstrap, 1), new_group(bootstrap)
    produce(bootstrap, topic, 2, 1)
    with member(bootstrap, group, topic, explicit=True) as consumer, member(bootstrap, group, topic) as other:
        rows = take(consumer, 2)
        consumer.acknowledge(rows[0])
        consumer.acknowledge(rows[1], RENEW)
        for _ in range(3):
            # Three of them last longer than one lock.
            again = take(consumer)
            assert deliveries(again) == [(1, 1)]
            assert other.poll(timeout_ms=LOCK_MS / 2) == []
            consumer.acknowledge(again[0], RENEW)
        done = take(consumer)
        consumer.acknowledge(done[0])
        assert consumer.commit() == {TopicPartition(topic, 0): None}
        assert other.poll(timeout_ms=LOCK_MS) == []


def what_a_lock_has_let_go_cannot_be_acknowledged(bootstrap: str) -> None:
    topic, group = new_topic(bootstrap, 1), new_group(bootstrap)
    produce(bootstrap, topic, 1, 1)
    told: list[tuple[dict[TopicPartition, frozenset[int]], ClientError | None]] = []
    with (
        member(bootstrap, group, topic, explicit=True) as late,
        member(bootstrap, group, topic, explicit=True) as other,
    ):
        late.set_acknowledgement_commit_callback(lambda offsets, error: told.append((dict(offsets), error)))
        row = take(late)[0]
        assert deliveries(read(other, 1, ACCEPT)) == [(0, 2)]
        late.acknowledge(row)
        error = late.commit()[TopicPartition(topic, 0)]
        assert isinstance(error, InvalidRecordStateError)
        assert error.code is ErrorCode.INVALID_RECORD_STATE
        assert [(offsets, type(each)) for offsets, each in told] == [
            ({TopicPartition(topic, 0): frozenset({0})}, InvalidRecordStateError)
        ]
        assert other.commit() == {TopicPartition(topic, 0): None}


def closing_releases_what_is_held_at_once(bootstrap: str) -> None:
    topic, group = new_topic(bootstrap, 1), new_group(bootstrap, share_record_lock_duration_ms=60_000)
    produce(bootstrap, topic, 10, 1)
    with member(bootstrap, group, topic, explicit=True) as other:
        other.poll(timeout_ms=0)
        first = member(bootstrap, group, topic, explicit=True)
        rows: list[Row] = []
        while not rows:
            rows = first.poll(timeout_ms=100)
            for row in other.poll(timeout_ms=0):
                other.acknowledge(row, RELEASE)
        first.acknowledge(rows[0])
        first.close()
        again = read(other, 9, ACCEPT)
        assert rows[0].offset not in {row.offset for row in again}
        assert numbers(again) == [number for number in range(10) if number != int(rows[0].value)]


def three_members_share_one_partition(bootstrap: str) -> None:
    topic, group = new_topic(bootstrap, 1), new_group(bootstrap, share_record_lock_duration_ms=30_000)
    members = [
        member(bootstrap, group, topic, max_poll_records=10, share_acquire_mode="record_limit") for _ in range(3)
    ]
    produce(bootstrap, topic, 300, 1)
    taken: dict[int, list[Row]] = {number: [] for number in range(3)}

    def all_have_come() -> bool:
        for number, each in enumerate(members):
            rows = each.poll(timeout_ms=20)
            assert len(rows) <= 10
            taken[number] += rows
        return sum(map(len, taken.values())) >= 300

    try:
        wait_for(all_have_come, "300 records came")
    finally:
        for each in members:
            each.commit()
            each.close()
    assert sorted(int(row.value) for rows in taken.values() for row in rows) == list(range(300))
    assert all(taken.values())


def columns_are_acknowledged_as_they_come(bootstrap: str) -> None:
    topic, group = new_topic(bootstrap, 1), new_group(bootstrap)
    produce(bootstrap, topic, 20, 1, codec="lz4")
    with member(bootstrap, group, topic, explicit=True) as consumer:
        for kind, count in ((RELEASE, 1), (RENEW, 2), (ACCEPT, 2)):
            seen = 0
            while seen < 20:
                batch = consumer.poll_arrow(timeout_ms=5000)
                assert batch is not None
                seen += batch.num_rows
                assert set(batch.column("delivery_count").to_pylist()) == {count}
                assert batch.column("value").to_pylist()[0] == b"%d" % batch.column("offset")[0].as_py()
                consumer.acknowledge(batch, kind)
        consumer.commit()
        assert consumer.poll_arrow(timeout_ms=200) is None


def what_cannot_be_read_is_released_unless_it_is_rejected(bootstrap: str) -> None:
    topic, group = new_topic(bootstrap, 1), new_group(bootstrap)
    produce(bootstrap, topic, 3, 1)

    def odd_is_bad(value: bytes | None) -> int:
        assert value is not None
        if value == b"1":
            raise ValueError("it is odd")
        return int(value)

    with member(bootstrap, group, topic, explicit=True, value_deserializer=odd_is_bad) as consumer:
        first = take(consumer)
        assert [row.value for row in first] == [0]
        consumer.acknowledge(first[0])
        with pytest.raises(SerializationError, match=f"offset 1 of {topic}-0 .* it was released"):
            consumer.poll(timeout_ms=1000)
        consumer.acknowledge_failed((topic, 0), 1, REJECT)
        rest = read(consumer, 1, ACCEPT)
        assert [row.value for row in rest] == [2]
        consumer.commit()
        assert consumer.poll(timeout_ms=200) == []


SCENARIOS: dict[str, Callable[[str], None]] = {
    each.__name__: each
    for each in (
        a_poll_accepts_what_the_one_before_returned,
        what_is_released_comes_again_and_what_is_rejected_does_not,
        a_record_is_delivered_no_more_often_than_the_group_allows,
        a_renewed_record_is_returned_again_and_nobody_else_gets_it,
        what_a_lock_has_let_go_cannot_be_acknowledged,
        closing_releases_what_is_held_at_once,
        three_members_share_one_partition,
        columns_are_acknowledged_as_they_come,
        what_cannot_be_read_is_released_unless_it_is_rejected,
    )
}
