"""What an application gets of records that were fetched: read by its deserializers, seen by its interceptors."""

from __future__ import annotations

from typing import Any

import pytest

from tidelog.client.consumer.fetched_partition import Row
from tidelog.client.consumer.options import ConsumerOptions
from tidelog.client.consumer.records import ConsumerRecord
from tidelog.client.consumer.row_delivery import RowDelivery
from tidelog.client.consumer.subscription import Subscription
from tidelog.client.consumer.topic_partition import TopicPartition
from tidelog.client.errors import SerializationError
from tidelog.client.options import parse_options
from tidelog.wire.record_batch import TimestampType


def delivery(*partitions: int, **options: Any) -> tuple[RowDelivery, Subscription]:
    subscription = Subscription()
    subscription.assign([TopicPartition("t", index) for index in partitions])
    for index in partitions:
        subscription.of(("t", index)).seek(100)
    parsed = parse_options(ConsumerOptions, {"bootstrap_servers": "127.0.0.1:9092", **options})
    delivered = RowDelivery(
        parsed, subscription.go_back, interceptors=parsed.interceptors, remedy="seek behind it to go on"
    )
    return delivered, subscription


def row(offset: int, value: bytes, partition: int = 0) -> Row:
    return ConsumerRecord("t", partition, offset, 0, TimestampType.CREATE_TIME, None, value, ())


def test_without_deserializers_and_interceptors_records_are_not_touched() -> None:
    rows = [row(1, b"a")]

    assert delivery(0)[0].finish(rows) is rows


def test_what_was_read_before_a_failure_is_delivered_and_the_position_goes_back_to_it() -> None:
    delivered, subscription = delivery(0, 1, value_deserializer=int)

    finished = delivered.finish([row(7, b"1"), row(8, b"x"), row(9, b"2"), row(3, b"4", 1), row(4, b"5", 1)])

    assert [each.value for each in finished] == [1]
    assert subscription.of(("t", 0)).position == 8
    assert subscription.of(("t", 1)).position == 3


def test_a_first_record_that_cannot_be_read_is_named() -> None:
    delivered, subscription = delivery(0, value_deserializer=int)

    with pytest.raises(
        SerializationError, match=r"the record at offset 8 of t-0 cannot be deserialized: .*seek behind it"
    ):
        delivered.finish([row(8, b"x")])

    assert subscription.of(("t", 0)).position == 8


def test_interceptors_see_records_in_turn_and_one_that_fails_changes_nothing() -> None:
    class Doubles:
        def on_consume(self, rows: list[Row]) -> list[Row]:
            return rows + rows

    class Fails:
        def on_consume(self, rows: list[Row]) -> list[Row]:
            raise ValueError(rows)

    delivered, _ = delivery(0, interceptors=[Doubles(), Fails(), Doubles()])

    assert len(delivered.finish([row(1, b"a")])) == 4
