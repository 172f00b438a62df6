"""What a batch reads of each partition, by what there is of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pytest

from tidelog.client.consumer.topic_partition import TopicPartition
from tidelog.spark.errors import DataLossError
from tidelog.spark.source.chosen_topics import ChosenPartitions
from tidelog.spark.source.offset_bounds import AtOffsets, Latest, OffsetBound, look_up
from tidelog.spark.source.offset_ranges import OffsetRange
from tidelog.spark.source.partition_offsets import LATEST
from tidelog.spark.source.planning import plan_read
from tidelog.spark.source.source_options import SourceOptions, parse_source_options

ORDERS = TopicPartition("orders", 0)
FIRST, LAST = 3, 10


class Log:
    """One partition, with offsets from FIRST to before LAST."""

    def chosen(self) -> ChosenPartitions:
        return ChosenPartitions([ORDERS], {"orders": "id-of-orders"})

    def resolve(
        self, bound: OffsetBound, partitions: Iterable[TopicPartition], *, is_start: bool
    ) -> dict[TopicPartition, int]:
        return look_up(bound, list(partitions), self._offsets, is_start=is_start, on_no_match=options().on_no_match)

    def _offsets(self, wanted: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        return {partition: LAST if each == LATEST else FIRST for partition, each in wanted.items()}

    def first_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int | None]:
        return dict.fromkeys(partitions, FIRST)

    def latest(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return dict.fromkeys(partitions, LAST)


def options(**more: str) -> SourceOptions:
    return parse_source_options({"subscribe": "orders", "kafka.bootstrap.servers": "127.0.0.1:9092", **more})


@pytest.mark.parametrize(
    ("start", "end", "sentence"),
    [
        (12, None, "offset 12 of orders-0 is not there: it ends at 10"),
        (4, 11, "offset 11 of orders-0 is not there: it ends at 10"),
        (1, None, "offsets 1 to 2 of orders-0 are deleted: it begins at 3"),
    ],
)
def test_offsets_that_are_not_there_are_a_loss(start: int, end: int | None, sentence: str) -> None:
    ending = Latest() if end is None else AtOffsets({ORDERS: end})

    with pytest.raises(DataLossError, match=sentence):
        plan_read(Log(), options(), AtOffsets({ORDERS: start}), ending)


def test_where_loss_is_allowed_what_is_left_is_read() -> None:
    planned = plan_read(Log(), options(failOnDataLoss="false"), AtOffsets({ORDERS: 1}), AtOffsets({ORDERS: 11}))

    assert planned == [OffsetRange(ORDERS, FIRST, LAST)]
