"""The client's half of a fetch session: what is named in each request, and when a new session begins."""

from __future__ import annotations

from tidelog.client.consumer.fetch_session import FetchFrom, FetchSession, SessionRequest
from tidelog.client.consumer.topic_partition import TopicPartition
from tidelog.model.errors import ErrorCode
from tidelog.wire.messages.fetch import FetchResponse

ID = bytes(range(16))
OTHER_ID = bytes(range(16, 32))
A, B = TopicPartition("a", 0), TopicPartition("a", 1)


def at(offset: int, topic_id: bytes = ID) -> FetchFrom:
    return FetchFrom(topic_id, offset, 1, 100)


def answer(session_id: int = 77, error: ErrorCode = ErrorCode.NONE) -> FetchResponse:
    return FetchResponse(throttle_time_ms=0, error_code=error, session_id=session_id, responses=[])


def named(request: SessionRequest) -> tuple[int, int, list[tuple[int, int]], list[list[int]]]:
    return (
        request.session_id,
        request.session_epoch,
        [(each.partition, each.fetch_offset) for topic in request.topics for each in topic.partitions],
        [topic.partitions for topic in request.forgotten],
    )


def opened() -> FetchSession:
    session = FetchSession()
    assert named(session.next_request({A: at(0), B: at(0)}, 17)) == (0, 0, [(0, 0), (1, 0)], [])
    assert session.answered(answer())
    return session


def test_only_what_changed_is_named() -> None:
    session = opened()

    assert named(session.next_request({A: at(5), B: at(0)}, 17)) == (77, 1, [(0, 5)], [])
    session.answered(answer())
    assert named(session.next_request({A: at(5), B: at(0)}, 17)) == (77, 2, [], [])


def test_what_is_wanted_no_longer_is_forgotten_and_may_come_back() -> None:
    session = opened()

    assert named(session.next_request({A: at(0)}, 17)) == (77, 1, [], [[1]])
    session.answered(answer())
    assert named(session.next_request({A: at(0), B: at(0)}, 17)) == (77, 2, [(1, 0)], [])


def test_a_topic_that_was_made_anew_replaces_the_old_one() -> None:
    session = opened()

    request = session.next_request({A: at(0, OTHER_ID), B: at(0)}, 17)

    assert [(topic.topic_id, topic.partitions) for topic in request.forgotten] == [(ID, [0])]
    assert [topic.topic_id for topic in request.topics] == [OTHER_ID]


def test_a_forgotten_session_begins_again_without_its_id() -> None:
    session = opened()
    session.next_request({A: at(5), B: at(0)}, 17)

    assert not session.answered(answer(0, ErrorCode.FETCH_SESSION_ID_NOT_FOUND))

    assert named(session.next_request({A: at(5), B: at(0)}, 17)) == (0, 0, [(0, 5), (1, 0)], [])


def test_a_wrong_epoch_or_no_answer_begins_again_and_closes_the_old_one() -> None:
    session = opened()
    assert not session.answered(answer(0, ErrorCode.INVALID_FETCH_SESSION_EPOCH))
    assert named(session.next_request({A: at(0)}, 17)) == (77, 0, [(0, 0)], [])

    session = opened()
    session.restart()
    assert named(session.next_request({A: at(0)}, 17)) == (77, 0, [(0, 0)], [])


def test_a_broker_without_room_gets_full_requests() -> None:
    session = FetchSession()
    session.next_request({A: at(0)}, 17)
    session.answered(answer(0))

    assert named(session.next_request({A: at(0)}, 17)) == (0, 0, [(0, 0)], [])
    assert session.closing_request() is None


def test_names_and_ids_are_not_mixed_in_one_session() -> None:
    session = opened()

    assert named(session.next_request({A: at(0)}, 12)) == (77, 0, [(0, 0)], [])


def test_the_epoch_wraps_to_one() -> None:
    session = opened()
    session._epoch = 2**31 - 1
    session.next_request({A: at(0), B: at(0)}, 17)
    session.answered(answer())

    assert session.next_request({A: at(0), B: at(0)}, 17).session_epoch == 1


def test_closing_names_the_session_once() -> None:
    session = opened()

    closing = session.closing_request()

    assert closing is not None
    assert named(closing) == (77, -1, [], [])
    assert session.closing_request() is None
