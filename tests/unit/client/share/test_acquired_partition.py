"""What is taken out of an answer: the records that are the member's, the gaps among them, and what cannot be read."""

from __future__ import annotations

from typing import Any

import pytest

from tidelog import TopicPartition
from tidelog.client.share.acquired_partition import AcquiredPartition, DamagedRecordsError, Range
from tidelog.client.share.places import Place
from tidelog.wire.messages.share_fetch import AcquiredRecords, LeaderIdAndEpoch, PartitionData
from tidelog.wire.records import Record, build_batch

PLACE = Place(bytes(16), TopicPartition("orders", 3))


def batch(*offsets: int) -> bytes:
    rows = [Record(each, 1000, b"k", b"%d" % each, ()) for each in offsets]
    return build_batch(rows, base_offset=offsets[0])


def damaged(*offsets: int) -> bytes:
    sound = batch(*offsets)
    return sound[:-1] + bytes([sound[-1] ^ 1])


def acquired(data: bytes, *ranges: tuple[int, int, int]) -> AcquiredPartition:
    told = [AcquiredRecords(first_offset=a, last_offset=b, delivery_count=count) for a, b, count in ranges]
    answer = PartitionData(
        partition_index=3,
        error_code=0,
        acknowledge_error_code=0,
        current_leader=LeaderIdAndEpoch(leader_id=1, leader_epoch=1),
        records=data,
        acquired_records=told,
    )
    return AcquiredPartition(1, PLACE, answer, check_crcs=True)


def rows_of(made: AcquiredPartition, count_min: int = 1000) -> tuple[list[tuple[int, int]], list[Range]]:
    rows, gaps = made.take_rows(count_min)
    return [(row.offset, row.delivery_count) for row in rows], gaps


def columns_of(made: AcquiredPartition) -> tuple[list[tuple[int, int]], list[Range]]:
    columns, gaps = made.take_columns()
    if columns is None:
        return [], gaps
    pairs: Any = zip(columns.column("offset").to_pylist(), columns.column("delivery_count").to_pylist(), strict=True)
    return list(pairs), gaps


BOTH = pytest.mark.parametrize("take", [rows_of, columns_of])


@BOTH
def test_records_say_how_often_they_were_delivered(take: Any) -> None:
    made = acquired(batch(5, 6, 7, 8), (5, 6, 1), (7, 8, 3))

    assert take(made) == ([(5, 1), (6, 1), (7, 3), (8, 3)], [])
    assert made.is_drained


@BOTH
def test_records_that_were_not_acquired_are_left_out(take: Any) -> None:
    made = acquired(batch(0, 1, 2, 3, 4, 5), (1, 2, 1), (4, 4, 2))

    assert take(made) == ([(1, 1), (2, 1), (4, 2)], [])


@BOTH
def test_offsets_without_a_record_are_gaps_and_so_is_all_behind_the_data(take: Any) -> None:
    made = acquired(batch(2, 5), (1, 7, 1))

    assert take(made) == ([(2, 1), (5, 1)], [(1, 1), (3, 4), (6, 7)])
    assert made.is_drained


@BOTH
def test_an_answer_without_data_is_a_gap(take: Any) -> None:
    assert take(acquired(b"", (1, 7, 1))) == ([], [(1, 7)])


def test_whole_batches_are_taken_until_there_are_enough() -> None:
    made = acquired(batch(0, 1, 2) + batch(3, 4, 5) + batch(6, 7), (0, 7, 1))

    assert [offset for offset, _ in rows_of(made, 4)[0]] == [0, 1, 2, 3, 4, 5]
    assert not made.is_drained
    assert [offset for offset, _ in rows_of(made, 4)[0]] == [6, 7]
    assert made.is_drained


def test_what_is_given_back_is_taken_next() -> None:
    made = acquired(batch(0, 1, 2), (0, 2, 1))
    rows, _gaps = made.take_rows(10)
    made.give_back(rows[1:])

    assert not made.is_drained
    assert rows_of(made) == ([(1, 1), (2, 1)], [])
    assert made.is_drained


@BOTH
def test_a_damaged_batch_is_named_once_and_those_around_it_are_read(take: Any) -> None:
    made = acquired(batch(0, 1) + damaged(2, 3) + batch(4, 5), (0, 1, 1), (3, 5, 1))

    assert take(made) == ([(0, 1), (1, 1)], [])
    with pytest.raises(DamagedRecordsError, match="orders-3 cannot be read at offset 3") as caught:
        take(made)
    assert caught.value.ranges == [(3, 3)]
    assert take(made) == ([(4, 1), (5, 1)], [])
    assert made.is_drained


@BOTH
def test_nothing_can_be_read_behind_a_batch_that_has_no_end(take: Any) -> None:
    made = acquired(batch(0, 1) + bytes(100), (0, 5, 1))

    assert take(made) == ([(0, 1), (1, 1)], [])
    with pytest.raises(DamagedRecordsError) as caught:
        take(made)
    assert caught.value.ranges == [(2, 5)]
    assert made.is_drained


def test_a_broker_that_names_an_offset_twice_is_not_believed_twice() -> None:
    made = acquired(batch(0, 1, 2, 3), (0, 2, 1), (1, 3, 2))

    assert rows_of(made) == ([(0, 1), (1, 1), (2, 1), (3, 2)], [])
