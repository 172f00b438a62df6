"""How far a follower is: by the fetches that name a partition, and by those that do not."""

from __future__ import annotations

import pytest

from tidelog.model.bugs import BugError
from tidelog.model.ids import NO_OFFSET
from tidelog.replication.follower_progress import FetchClock, FollowerProgress


def test_a_fetch_from_the_end_is_caught_up_now_and_one_from_the_former_end_was_caught_up_then() -> None:
    follower = FollowerProgress(last_caught_up_ms=10)
    follower.fetched(3, 0, leader_log_end_offset=5, broker_epoch=1, now_ms=100)
    assert follower.last_caught_up_ms == 10
    follower.fetched(5, 0, leader_log_end_offset=8, broker_epoch=1, now_ms=200)
    assert follower.last_caught_up_ms == 100
    follower.fetched(8, 0, leader_log_end_offset=8, broker_epoch=1, now_ms=300)
    assert follower.last_caught_up_ms == 300


def test_one_that_rests_is_caught_up_whenever_its_session_fetches() -> None:
    follower, clock = FollowerProgress(), FetchClock(100)
    follower.fetched(5, 0, leader_log_end_offset=5, broker_epoch=1, now_ms=100)
    follower.rest(clock)
    clock.last_fetch_ms = 700
    assert follower.last_caught_up_ms == 700


def test_what_the_session_fetches_after_the_rest_says_nothing_more() -> None:
    follower, clock = FollowerProgress(), FetchClock(100)
    follower.fetched(5, 0, leader_log_end_offset=5, broker_epoch=1, now_ms=100)
    follower.rest(clock)
    clock.last_fetch_ms = 700
    follower.rouse()
    clock.last_fetch_ms = 900
    assert follower.last_caught_up_ms == 700
    # It has what the leader had at that last fetch, though the leader has got more since.
    follower.fetched(5, 0, leader_log_end_offset=6, broker_epoch=1, now_ms=900)
    assert follower.last_caught_up_ms == 700
    follower.fetched(6, 0, leader_log_end_offset=9, broker_epoch=1, now_ms=950)
    assert follower.last_caught_up_ms == 900


def test_to_rouse_one_that_does_not_rest_changes_nothing() -> None:
    follower = FollowerProgress(last_caught_up_ms=10)
    follower.rouse()
    assert follower.last_caught_up_ms == 10


def test_a_follower_is_never_beyond_its_leader() -> None:
    follower = FollowerProgress()

    for offset in (-1, 6):
        with pytest.raises(BugError, match=f"has fetched from {offset}"):
            follower.fetched(offset, 0, 5, 1, 10)
    assert follower.log_end_offset == NO_OFFSET
