"""What is lost, and what is only a gap."""

from __future__ import annotations

from tidelog.client.consumer.topic_partition import TopicPartition
from tidelog.spark.source.data_loss import lost_at_start, plan_batch
from tidelog.spark.source.offset_ranges import OffsetRange

A, B = TopicPartition("t", 0), TopicPartition("t", 1)


def test_a_batch_reads_from_where_the_last_one_ended() -> None:
    plan = plan_batch({A: 3, B: 5}, {A: 7, B: 5}, {})

    assert plan.ranges == [OffsetRange(A, 3, 7), OffsetRange(B, 5, 5)]
    assert plan.losses == []


def test_a_new_partition_is_read_from_its_beginning() -> None:
    plan = plan_batch({A: 3}, {A: 3, B: 9}, {B: 0})

    assert plan.ranges == [OffsetRange(A, 3, 3), OffsetRange(B, 0, 9)]
    assert plan.losses == []


def test_a_new_partition_that_has_already_deleted_records_is_a_loss() -> None:
    plan = plan_batch({}, {B: 9}, {B: 4})

    assert plan.ranges == [OffsetRange(B, 4, 9)]
    assert plan.losses == ["t-1 is new and begins at offset 4 instead of 0"]


def test_partitions_that_are_gone_are_a_loss() -> None:
    plan = plan_batch({A: 3, B: 5}, {}, {})

    assert plan.ranges == []
    assert plan.losses == ["t-0, t-1 are gone, or not chosen any more"]
    assert plan_batch({}, {B: 9}, {B: None}).losses == ["t-1 came and went before it was read"]


def test_offsets_that_go_back_are_a_loss_and_nothing_is_read_twice() -> None:
    plan = plan_batch({A: 100}, {A: 4}, {})

    assert plan.ranges == []
    assert plan.losses == ["the offsets of t-0 went back from 100 to 4"]


def test_retention_takes_the_front_of_a_range() -> None:
    sentence, go_on = lost_at_start(OffsetRange(A, 0, 50), 10, 30, 80)
    assert sentence == "offsets 10 to 29 of t-0 are deleted: it begins at 30"
    assert go_on == 30

    assert lost_at_start(OffsetRange(A, 0, 50), 10, 60, 80)[1] == 50, "never behind its end"


def test_a_topic_that_begins_again_has_lost_the_rest_of_the_range() -> None:
    sentence, go_on = lost_at_start(OffsetRange(A, 10, 50), 10, 0, 4)
    assert "offsets 10 to 49 of t-0 are not there: it ends at 4" in sentence
    assert go_on == 50
