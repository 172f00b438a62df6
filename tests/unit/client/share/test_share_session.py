"""What a broker is told of a member's wishes, request by request."""

from __future__ import annotations

import pytest

from tidelog import TopicPartition
from tidelog.client.share.places import Place
from tidelog.client.share.share_session import ShareSession
from tidelog.model.errors import ErrorCode
from tidelog.wire.messages.share_fetch import AcknowledgementBatch

ONE, TWO = bytes([1] * 16), bytes([2] * 16)
A, B, C = Place(ONE, TopicPartition("t", 0)), Place(ONE, TopicPartition("t", 1)), Place(TWO, TopicPartition("u", 0))
SAID = [AcknowledgementBatch(first_offset=0, last_offset=4, acknowledge_types=[1])]

Named = list[tuple[bytes, list[int]]]


def fetch(session: ShareSession, *wanted: Place, said: tuple[Place, ...] = ()) -> tuple[int, Named, Named]:
    """The epoch, what is asked for, and what is wanted no longer."""
    epoch = session.epoch
    topics, forgotten = session.fetch(wanted, dict.fromkeys(said, SAID))
    return (
        epoch,
        [(each.topic_id, [one.partition_index for one in each.partitions]) for each in topics],
        [(each.topic_id, list(each.partitions)) for each in forgotten],
    )


def test_the_first_request_names_all_and_the_others_what_changed() -> None:
    session = ShareSession()

    assert fetch(session, A, B) == (0, [(ONE, [0, 1])], [])
    session.answered(ErrorCode.NONE)
    assert fetch(session, A, B) == (1, [], [])
    session.answered(ErrorCode.NONE)
    assert fetch(session, A, C) == (2, [(TWO, [0])], [(ONE, [1])])


def test_what_is_acknowledged_is_named_though_it_is_not_new() -> None:
    session = ShareSession()
    fetch(session, A)
    session.answered(ErrorCode.NONE)

    assert fetch(session, A, said=(A,)) == (1, [(ONE, [0])], [])


def test_fetches_and_acknowledgements_count_in_one_sequence() -> None:
    session = ShareSession()
    fetch(session, A)
    session.answered(ErrorCode.NONE)

    assert [each.topic_id for each in session.acknowledge({A: SAID, C: SAID})] == [ONE, TWO]
    assert session.epoch == 1
    assert session.answered(ErrorCode.NONE)
    assert session.epoch == 2


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.SHARE_SESSION_NOT_FOUND,
        ErrorCode.INVALID_SHARE_SESSION_EPOCH,
        ErrorCode.SHARE_SESSION_LIMIT_REACHED,
    ],
)
def test_a_session_that_is_gone_begins_anew_with_all(code: ErrorCode) -> None:
    session = ShareSession()
    fetch(session, A)
    session.answered(ErrorCode.NONE)

    assert not session.answered(code)
    assert session.is_new
    assert fetch(session, A, B) == (0, [(ONE, [0, 1])], [])


def test_another_error_counts_as_a_request() -> None:
    session = ShareSession()
    fetch(session, A)
    session.answered(ErrorCode.NONE)

    assert not session.answered(ErrorCode.UNKNOWN_SERVER_ERROR)
    assert session.epoch == 2


def test_after_the_largest_epoch_comes_one() -> None:
    session = ShareSession()
    session.epoch = 2**31 - 1
    session.answered(ErrorCode.NONE)

    assert session.epoch == 1


def test_the_last_request_has_an_epoch_of_its_own() -> None:
    session = ShareSession()
    session.answered(ErrorCode.NONE)
    session.close()

    assert session.epoch == -1
