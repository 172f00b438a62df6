from __future__ import annotations

import pytest

from tests.support.share_world import ACCEPT, LOCK_MS, REJECT, RELEASE, SETTINGS, ShareWorld, batches
from tidelog.broker.share.acknowledgement import GAP, RENEW, Acknowledged, Refusal, acknowledge
from tidelog.broker.share.delivery import RecordState
from tidelog.broker.share.persister import StateBatch
from tidelog.broker.share.share_partition import Change
from tidelog.model.errors import ErrorCode

AVAILABLE, ACQUIRED, ACKNOWLEDGED, ARCHIVED = (
    RecordState.AVAILABLE,
    RecordState.ACQUIRED,
    RecordState.ACKNOWLEDGED,
    RecordState.ARCHIVED,
)


def test_a_batch_stays_whole_until_a_member_treats_its_records_differently() -> None:
    world = ShareWorld(batches(10, 10))
    world.fetch("a", records=20, batch_size=10)

    world.say("a", 10, 19, ACCEPT)
    assert world.split_count() == 0

    world.say("a", 0, 9, *[ACCEPT] * 5, *[REJECT] * 4, RELEASE)
    assert world.partition.start_offset == 9
    assert world.states()[9] == (AVAILABLE, 1, "")


@pytest.mark.parametrize(
    ("said", "state"), [(ACCEPT, ACKNOWLEDGED), (RELEASE, AVAILABLE), (REJECT, ARCHIVED), (GAP, ARCHIVED)]
)
def test_what_is_said_is_written_before_it_counts(said: int, state: RecordState) -> None:
    world = ShareWorld(batches(10))
    world.fetch("a")

    change = world.begin("a", 0, 9, said)

    assert isinstance(change, Change)
    assert change.batches == [StateBatch(0, 9, state, 1)]
    assert world.partition.start_offset == 0
    assert world.fetch("b") == []

    world.commit(change)

    assert world.partition.start_offset == (0 if state is AVAILABLE else 10)


def test_what_could_not_be_written_is_in_the_members_hand_again() -> None:
    world = ShareWorld(batches(10))
    world.fetch("a")
    change = world.begin("a", 0, 4, ACCEPT)
    assert isinstance(change, Change)
    assert world.partition.completed_count == 5

    world.commit(change, is_written=False)

    assert world.states()[3] == (ACQUIRED, 1, "a")
    assert world.partition.completed_count == 0
    assert world.say("a", 0, 9, ACCEPT) is None


def test_a_lock_that_ends_while_its_records_are_being_written_counts_if_the_write_fails() -> None:
    world = ShareWorld(batches(10))
    world.fetch("a")
    change = world.begin("a", 0, 9, ACCEPT)
    assert isinstance(change, Change)
    world.pass_time(LOCK_MS)

    world.commit(change, is_written=False)

    assert world.states()[0] == (AVAILABLE, 1, "")
    assert [each.delivery_count for each in world.fetch("b")] == [2]


def test_one_wrong_batch_refuses_all_that_is_said_with_it() -> None:
    world = ShareWorld(batches(10, 10))
    world.fetch("a", records=10)
    world.fetch("b", records=10)

    refused = acknowledge(
        world.partition, "a", [Acknowledged(0, 9, [ACCEPT]), Acknowledged(10, 19, [ACCEPT])], world.now_ms
    )

    assert refused == Refusal(ErrorCode.INVALID_RECORD_STATE, "Member is not the owner of batch record")
    assert world.states()[0] == (ACQUIRED, 1, "a")
    assert world.partition.completed_count == 0


@pytest.mark.parametrize(
    ("first", "last", "error", "message"),
    [
        (20, 29, ErrorCode.INVALID_REQUEST, "The first offset in request is past acquired records."),
        (5, 12, ErrorCode.INVALID_REQUEST, "The last offset in request is past acquired records."),
    ],
)
def test_offsets_that_nobody_has_acquired_are_refused(first: int, last: int, error: ErrorCode, message: str) -> None:
    world = ShareWorld(batches(10, 10))
    world.fetch("a", records=10)

    refused = world.say("a", first, last, ACCEPT)

    assert refused == Refusal(error, f"Batch record not found. {message}")


def test_nothing_is_found_where_nothing_is_in_flight() -> None:
    world = ShareWorld(batches(10))

    refused = world.say("a", 0, 9, ACCEPT)

    assert refused is not None
    assert refused.message == "Batch record not found. The request batch offsets are not found in the cache."


def test_what_is_being_written_is_not_taken_a_second_time() -> None:
    world = ShareWorld(batches(10))
    world.fetch("a")
    world.begin("a", 0, 4, ACCEPT)

    refused = world.say("a", 0, 4, ACCEPT)

    assert refused == Refusal(
        ErrorCode.INVALID_RECORD_STATE, "The offset cannot be acknowledged. The offset is not acquired."
    )


def test_what_lies_before_the_start_is_settled_and_taken_in_silence() -> None:
    world = ShareWorld(batches(10, 10))
    world.fetch("a", records=10)
    world.say("a", 0, 9, ACCEPT)

    assert world.say("a", 0, 9, ACCEPT) is None


def test_a_renewed_lock_begins_anew_and_nothing_is_written() -> None:
    world = ShareWorld(batches(10))
    world.fetch("a")
    world.pass_time(LOCK_MS - 1)

    assert world.say("a", 0, 9, RENEW) is None
    world.pass_time(LOCK_MS - 1)

    assert world.states()[0] == (ACQUIRED, 1, "a")
    assert world.written == []

    world.pass_time(1)
    assert world.state_of(0) is AVAILABLE


def test_a_part_of_a_batch_is_renewed_and_the_rest_times_out() -> None:
    world = ShareWorld(batches(10))
    world.fetch("a")
    world.pass_time(LOCK_MS - 1)
    world.say("a", 3, 5, RENEW)

    world.pass_time(1)

    assert [offset for offset, fate in world.states().items() if fate[0] is ACQUIRED] == [3, 4, 5]
    assert world.partition.next_lock_ms == 2 * LOCK_MS - 1


def test_a_group_may_not_allow_renewals() -> None:
    world = ShareWorld(batches(10), SETTINGS._replace(may_renew=False))
    world.fetch("a")

    refused = world.say("a", 0, 9, RENEW)

    assert refused == Refusal(
        ErrorCode.INVALID_RECORD_STATE, "Renewing acquisition locks is not enabled for the group."
    )


def test_whoever_leaves_gives_back_what_it_has_and_nothing_of_others() -> None:
    world = ShareWorld(batches(10, 10))
    world.fetch("a", records=10)
    world.fetch("b", records=10)

    world.leave("a")

    assert world.states()[0] == (AVAILABLE, 1, "")
    assert world.states()[10] == (ACQUIRED, 1, "b")


def test_the_log_start_takes_what_nobody_has_and_lets_members_finish_with_what_they_have() -> None:
    world = ShareWorld(batches(10, 10, 10))
    world.fetch("a", records=20, batch_size=10)
    world.say("a", 0, 9, RELEASE)

    world.partition.log_start_moved(15)

    assert world.partition.start_offset == 15
    assert world.state_of(0) is ARCHIVED
    assert world.state_of(12) is ACQUIRED
    assert world.partition.next_fetch_offset() == 20

    world.pass_time(LOCK_MS)

    assert world.state_of(15) is AVAILABLE
    assert world.partition.next_fetch_offset() == 15


def test_a_log_start_behind_everything_begins_anew_there_and_never_goes_back() -> None:
    world = ShareWorld(batches(10, 10))
    world.fetch("a", records=10)

    world.partition.log_start_moved(50)
    world.log = batches(10, start=50)
    world.pass_time(LOCK_MS)

    assert world.partition.start_offset == 50
    assert [each[:2] for each in world.fetch("a")] == [(50, 59)]


def test_what_was_taken_back_after_the_log_start_has_passed_it_is_not_to_be_had_again() -> None:
    world = ShareWorld(batches(10))
    world.fetch("a")
    change = world.begin("a", 0, 9, ACCEPT)
    assert isinstance(change, Change)
    world.partition.log_start_moved(5)
    world.pass_time(LOCK_MS)

    world.commit(change, is_written=False)

    assert [world.state_of(offset) for offset in (0, 4, 5)] == [ARCHIVED, ARCHIVED, AVAILABLE]
    assert world.partition.next_fetch_offset() == 5
