from __future__ import annotations

import pytest

from tidelog.broker.share.share_sessions import (
    CONNECTION_GROUPS_MAX,
    FINAL_EPOCH,
    SESSION_PARTITIONS_MAX,
    FetchedPartition,
    SessionKey,
    ShareSession,
    ShareSessions,
)
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import PartitionIndex, TopicId

TOPIC = TopicId(b"t" * 16)
ALICE = SessionKey("workers", "alice")
BOB = SessionKey("workers", "bob")


def partitions(*indexes: int) -> list[FetchedPartition]:
    return [FetchedPartition(TOPIC, PartitionIndex(each)) for each in indexes]


class Waiting:
    def __init__(self) -> None:
        self.is_given_up = False

    def give_up(self) -> None:
        self.is_given_up = True


class Sessions(ShareSessions):
    """Notes who has gone."""

    def __init__(self, sessions_max: int = 10) -> None:
        super().__init__(sessions_max)
        self.members_gone: list[SessionKey] = []
        self.groups_gone: list[str] = []
        self.on_member_gone = lambda session: self.members_gone.append(session.key)
        self.on_group_gone = self.groups_gone.append

    def begin(self, key: SessionKey, connection_id: int = 1) -> ShareSession:
        session = self.open(key, partitions(0), connection_id)
        assert isinstance(session, ShareSession)
        return session


def test_requests_count_from_one_and_wrap_around_to_one() -> None:
    sessions = Sessions()
    session = sessions.begin(ALICE)

    assert sessions.go_on(ALICE, 2) is ErrorCode.INVALID_SHARE_SESSION_EPOCH
    assert sessions.go_on(ALICE, 1) is session
    assert sessions.go_on(ALICE, 1) is ErrorCode.INVALID_SHARE_SESSION_EPOCH
    session.epoch = 2**31 - 1
    assert sessions.go_on(ALICE, 2**31 - 1) is session
    assert sessions.go_on(ALICE, 1) is session
    assert sessions.go_on(ALICE, FINAL_EPOCH) is session
    assert sessions.go_on(BOB, 1) is ErrorCode.SHARE_SESSION_NOT_FOUND


def test_partitions_take_turns() -> None:
    session = ShareSession(ALICE, partitions(0, 1, 2), 1)

    assert session.in_turn(0) == partitions(0, 1, 2)
    assert session.in_turn(1) == partitions(1, 2, 0)
    assert session.in_turn(5) == partitions(2, 0, 1)


def test_a_request_adds_and_forgets_partitions_up_to_a_limit() -> None:
    session = ShareSession(ALICE, partitions(0, 1), 1)

    assert session.update(partitions(2), partitions(0))
    assert list(session.partitions) == partitions(1, 2)
    assert not session.update(partitions(*range(SESSION_PARTITIONS_MAX + 1)), [])


def test_a_member_that_begins_anew_loses_its_session_but_not_its_records() -> None:
    sessions = Sessions()
    waiting = Waiting()
    sessions.begin(ALICE, connection_id=1).waiting = waiting

    sessions.begin(ALICE, connection_id=2)
    sessions.connection_closed(1)

    assert waiting.is_given_up
    assert sessions.members_gone == []
    assert sessions.get(ALICE) is not None
    assert len(sessions) == 1


def test_the_end_of_a_connection_ends_its_sessions_and_the_last_of_a_group_is_told() -> None:
    sessions = Sessions()
    sessions.begin(ALICE, connection_id=1)
    sessions.begin(BOB, connection_id=2)

    sessions.connection_closed(1)
    assert (sessions.members_gone, sessions.groups_gone) == ([ALICE], [])

    sessions.connection_closed(2)
    assert (sessions.members_gone, sessions.groups_gone) == ([ALICE, BOB], ["workers"])
    assert sessions.evictions == 2


def test_a_session_that_was_ended_leaves_its_group_to_the_end_of_the_connection() -> None:
    sessions = Sessions()
    sessions.close(sessions.begin(ALICE))
    assert sessions.groups_gone == []

    sessions.connection_closed(1)

    assert sessions.groups_gone == ["workers"]
    assert sessions.evictions == 0


def test_a_request_gives_up_the_one_that_waits() -> None:
    sessions = Sessions()
    waiting = Waiting()
    sessions.begin(ALICE).waiting = waiting

    sessions.go_on(ALICE, 1)

    assert waiting.is_given_up


def test_there_is_a_limit_of_sessions_and_one_that_is_replaced_needs_no_room() -> None:
    sessions = Sessions(sessions_max=1)
    sessions.begin(ALICE)

    assert sessions.open(BOB, partitions(0), 2) is ErrorCode.SHARE_SESSION_LIMIT_REACHED
    sessions.begin(ALICE)


def test_a_connection_that_goes_from_group_to_group_leaves_little_behind() -> None:
    sessions = Sessions()
    for number in range(CONNECTION_GROUPS_MAX + 5):
        sessions.close(sessions.begin(SessionKey(f"group-{number}", "alice")))

    assert sessions.groups_gone == [f"group-{number}" for number in range(5)]


@pytest.mark.parametrize("is_ended", [True, False])
def test_nothing_is_kept_of_connections_that_are_gone(is_ended: bool) -> None:
    sessions = Sessions()
    for number in range(10):
        session = sessions.begin(SessionKey("workers", str(number)), connection_id=number)
        if is_ended:
            sessions.close(session)
        sessions.connection_closed(number)

    assert not sessions._by_connection
    assert not sessions._groups_by_connection
    assert not sessions._counts
