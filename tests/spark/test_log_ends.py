"""How old the oldest unread record is, from where logs ended when."""

from __future__ import annotations

from tidelog.spark.watching.log_ends import ENDS_MAX, LOOKS_MAX, LogEnds

A, B = (0, "orders", 0), (0, "orders", 1)


def test_who_has_read_to_the_last_end_is_as_far_as_the_last_look() -> None:
    ends = LogEnds()
    assert ends.caught_up_at_ms({A: 5}) is None, "nobody has looked"
    ends.look(1000, {A: 10})
    assert ends.caught_up_at_ms({A: 10}) == 1000
    assert ends.caught_up_at_ms({}) == 1000, "there is no partition to be behind in"


def test_between_two_looks_records_have_come_evenly_and_the_worst_partition_counts() -> None:
    ends = LogEnds()
    ends.look(1000, {A: 10, B: 0})
    ends.look(2000, {A: 20, B: 100})
    ends.look(3000, {A: 30, B: 100})
    assert ends.caught_up_at_ms({A: 15, B: 100}) == 1500
    assert ends.caught_up_at_ms({A: 25, B: 100}) == 2500
    assert ends.caught_up_at_ms({A: 30, B: 100}) == 3000


def test_what_was_there_before_the_first_look_is_at_least_as_old() -> None:
    ends = LogEnds()
    ends.look(1000, {A: 10})
    ends.look(5000, {A: 12})
    assert ends.caught_up_at_ms({A: 3}) == 1000


def test_a_partition_that_is_new_had_nothing_before() -> None:
    ends = LogEnds()
    ends.look(1000, {A: 10})
    ends.look(2000, {A: 10, B: 4})
    assert ends.caught_up_at_ms({A: 10, B: 2}) == 1500


def test_a_topic_that_was_made_again_and_a_clock_that_was_set_back() -> None:
    ends = LogEnds()
    ends.look(1000, {A: 500})
    ends.look(2000, {A: 3})
    assert ends.caught_up_at_ms({A: 3}) == 2000
    ends.look(1500, {A: 6})
    assert ends.caught_up_at_ms({A: 6}) == 1500


def test_looks_are_thinned_and_the_first_and_the_last_stay() -> None:
    ends = LogEnds()
    for each in range(10 * LOOKS_MAX + 1):
        ends.look(1000 * each, {A: each})
    assert ends.caught_up_at_ms({A: 0}) == 0
    assert len(ends._looks) <= LOOKS_MAX
    half = ends.caught_up_at_ms({A: 5 * LOOKS_MAX})
    assert half == 5000 * LOOKS_MAX, "records have come evenly, so nothing is lost by it"
    ends.look(20_000_000, {(0, "many", each): 1 for each in range(ENDS_MAX)})
    ends.look(20_001_000, {(0, "many", each): 1 for each in range(ENDS_MAX)})
    assert len(ends._looks) <= 4
