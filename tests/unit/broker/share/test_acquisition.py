from __future__ import annotations

import pytest

from tests.support.share_world import ACCEPT, LOCK_MS, RELEASE, SETTINGS, ShareWorld, batches
from tidelog.broker.share.acquisition import Acquired
from tidelog.broker.share.delivery import RecordState
from tidelog.broker.share.log_batches import LogBatch
from tidelog.broker.share.persister import ShareState, StateBatch

AVAILABLE, ACQUIRED, ACKNOWLEDGED, ARCHIVED = (
    RecordState.AVAILABLE,
    RecordState.ACQUIRED,
    RecordState.ACKNOWLEDGED,
    RecordState.ARCHIVED,
)


def ranges(acquired: list[Acquired]) -> list[tuple[int, int]]:
    return [(each.first_offset, each.last_offset) for each in acquired]


def test_new_records_come_in_whole_batches_of_the_log_so_that_more_than_asked_for_may_come() -> None:
    world = ShareWorld(batches(10, 10, 10))

    acquired = world.fetch(records=15)

    assert acquired == [Acquired(0, 19, 1)]
    assert world.partition.next_fetch_offset() == 20


def test_pieces_end_where_batches_of_the_log_end_and_have_the_size_that_is_asked_for_at_least() -> None:
    world = ShareWorld(batches(4, 4, 4, 4))

    acquired = world.fetch(records=16, batch_size=6)

    assert ranges(acquired) == [(0, 7), (8, 15)]


def test_the_record_limit_is_exact_and_leaves_the_rest_of_the_batch_to_others() -> None:
    world = ShareWorld(batches(10))

    first = world.fetch("a", records=4, is_exact=True)
    second = world.fetch("b", records=4, is_exact=True)

    assert ranges(first) == [(0, 3)]
    assert ranges(second) == [(4, 7)]
    assert world.states()[9] == (AVAILABLE, 0, "")


def test_nobody_acquires_what_another_member_has_in_hand() -> None:
    world = ShareWorld(batches(10, 10))
    world.fetch("a", records=10)

    assert ranges(world.fetch("b", records=100)) == [(10, 19)]
    assert world.fetch("b") == []


def test_no_more_is_in_flight_than_the_group_allows_whatever_lies_between_is_settled_or_not() -> None:
    world = ShareWorld(batches(*[10] * 20), SETTINGS._replace(record_locks_max=100))
    while world.fetch(records=10):
        pass
    world.say("a", 10, 99, ACCEPT)

    assert world.partition.in_flight_count() == 100
    assert not world.partition.has_room()
    assert world.fetch() == []

    world.say("a", 0, 9, ACCEPT)

    assert world.partition.start_offset == 100
    assert ranges(world.fetch(records=10)) == [(100, 109)]


def test_what_was_released_is_acquired_again_even_where_there_is_no_room_for_more() -> None:
    world = ShareWorld(batches(*[10] * 20), SETTINGS._replace(record_locks_max=100))
    while world.fetch("a", records=10):
        pass
    world.say("a", 30, 39, RELEASE)

    acquired = world.fetch("b", records=500)

    assert acquired == [Acquired(30, 39, 2)]


def test_a_batch_that_has_failed_often_is_delivered_in_ever_smaller_pieces_and_its_records_alone_in_the_end() -> None:
    world = ShareWorld(batches(16))
    pieces = []
    for _ in range(8):
        acquired = world.fetch("a")
        pieces.append((len(range(acquired[0].first_offset, acquired[0].last_offset + 1)), acquired[0].delivery_count))
        world.leave("a")

    # Three times together, halves for the fourth, then one by one.
    assert pieces == [(16, 1), (16, 2), (16, 3), (8, 4), (1, 5), (1, 5), (1, 5), (1, 5)]


def test_what_is_cut_smaller_is_not_mixed_with_others() -> None:
    world = ShareWorld(batches(4, 4, 4))
    for _ in range(3):
        world.fetch("a", records=4)
        world.say("a", 0, 3, RELEASE)
    world.fetch("b", records=8)
    world.leave("b")

    assert ranges(world.fetch("b")) == [(0, 0)]


def test_records_that_compaction_has_taken_are_given_up() -> None:
    world = ShareWorld(batches(10, 10, 10))
    world.fetch("a", records=30, batch_size=10)
    world.leave("a")
    world.log = batches(10, start=20)

    acquired = world.fetch("a")

    assert ranges(acquired) == [(20, 29)]
    assert {world.state_of(offset) for offset in range(20)} == {ARCHIVED}


@pytest.mark.parametrize("start_offset", [3, 5])
def test_a_group_that_begins_within_a_batch_is_given_only_what_lies_behind(start_offset: int) -> None:
    world = ShareWorld(batches(10), start_offset=start_offset)

    assert ranges(world.fetch()) == [(start_offset, 9)]


def test_holes_in_what_was_written_are_fetched_by_the_next_leader_and_holes_of_the_log_are_not() -> None:
    written = (StateBatch(10, 19, ACKNOWLEDGED, 1), StateBatch(30, 39, AVAILABLE, 2))
    world = ShareWorld(batches(*[5] * 10), state=ShareState(3, 0, written))

    assert world.partition.next_fetch_offset() == 0
    assert ranges(world.fetch("a", records=10)) == [(0, 9)]
    assert ranges(world.fetch("a", records=500)) == [(20, 29), (30, 39), (40, 49)]
    assert world.states()[30] == (ACQUIRED, 3, "a")


def test_the_start_waits_for_a_hole_that_is_still_to_be_fetched() -> None:
    written = (StateBatch(0, 9, ACKNOWLEDGED, 1), StateBatch(20, 29, ACKNOWLEDGED, 1))
    world = ShareWorld(batches(*[10] * 4), state=ShareState(3, 0, written))

    assert world.partition.start_offset == 10
    assert ranges(world.fetch("a", records=10)) == [(10, 19)]

    world.say("a", 10, 19, ACCEPT)

    assert world.partition.start_offset == 30


def test_a_lock_that_ends_lets_others_have_the_records_and_counts_the_delivery() -> None:
    world = ShareWorld(batches(10))
    world.fetch("a")

    world.pass_time(LOCK_MS - 1)
    assert world.fetch("b") == []
    world.pass_time(1)

    assert world.fetch("b") == [Acquired(0, 9, 2)]
    assert world.written == [StateBatch(0, 9, AVAILABLE, 1)]


def test_a_record_is_given_up_after_exactly_the_limit_of_deliveries() -> None:
    world = ShareWorld([LogBatch(0, 0)], SETTINGS._replace(deliveries_max=3))
    counts = []
    while acquired := world.fetch("a"):
        counts.append(acquired[0].delivery_count)
        world.pass_time(LOCK_MS)

    assert counts == [1, 2, 3]
    assert world.written[-1] == StateBatch(0, 0, ARCHIVED, 3)
    assert world.partition.start_offset == 1
