"""What the application holds and what it says of it."""

from __future__ import annotations

import pytest

from tidelog import AcknowledgeType, SharedRecord, TopicPartition
from tidelog.client.consumer.errors import ConsumerStateError
from tidelog.client.share.places import Place
from tidelog.client.share.records import SharedRow
from tidelog.client.share.records_in_hand import Origin, RecordsInHand, Said, merged
from tidelog.wire.record_batch import TimestampType

ACCEPT, RELEASE, REJECT, RENEW = AcknowledgeType
P = TopicPartition("t", 0)
AT = Origin(1, Place(bytes(16), P))


def row(offset: int) -> SharedRow:
    return SharedRecord("t", 0, offset, 0, TimestampType.CREATE_TIME, None, b"%d" % offset, ())


def holding(*offsets: int) -> RecordsInHand:
    made = RecordsInHand()
    made.add_rows(AT, [row(each) for each in offsets])
    return made


def said_of(said: Said) -> list[tuple[int, int, int]]:
    return [tuple(run) for run in said[AT].runs()] if said else []  # type: ignore[misc]  # three numbers


def test_all_can_be_accepted_but_for_what_was_said() -> None:
    made = holding(1, 2, 3)
    made.acknowledge(P, [2], RELEASE)
    made.accept_all()

    assert made.is_settled
    assert said_of(made.take_said()) == [(1, 1, ACCEPT), (2, 2, RELEASE), (3, 3, ACCEPT)]
    assert len(made) == 0
    assert made.take_said() == {}


def test_only_what_is_in_hand_can_be_acknowledged() -> None:
    made = holding(1)
    made.acknowledge(P, [1], ACCEPT)
    made.take_said()

    for offset in (1, 2):
        with pytest.raises(ConsumerStateError, match=f"offset {offset} of t-0 is not in hand"):
            made.acknowledge(P, [offset], ACCEPT)


def test_of_columns_either_all_are_acknowledged_or_none() -> None:
    made = holding(1, 2)
    with pytest.raises(ConsumerStateError):
        made.acknowledge(P, [1, 2, 3], ACCEPT)

    assert made.take_said() == {}


def test_what_nothing_was_said_of_stays() -> None:
    made = holding(1, 2)
    made.acknowledge(P, [1], ACCEPT)

    assert said_of(made.take_said()) == [(1, 1, ACCEPT)]
    assert not made.is_settled
    assert [each.offset for each in made.rows()] == [2]


def test_a_renewed_record_comes_back_once_its_leader_has_heard() -> None:
    made = holding(1, 2)
    made.acknowledge(P, [1], RENEW)
    made.acknowledge(P, [2], ACCEPT)
    said = made.take_said()
    assert made.has_renewals
    made.take_renewed()
    assert made.rows() == []

    made.answered(AT, said[AT], is_refused=False)
    settled = [made.is_settled]
    made.take_renewed()
    settled.append(made.is_settled)

    assert [each.offset for each in made.rows()] == [1]
    assert settled == [True, False]


def test_a_renewal_that_is_refused_is_a_record_that_is_lost() -> None:
    made = holding(1)
    made.acknowledge(P, [1], RENEW)
    said = made.take_said()
    made.answered(AT, said[AT], is_refused=True)

    assert not made.has_renewals
    assert len(made) == 0


def test_of_a_record_that_cannot_be_delivered_something_else_can_be_said_until_the_next_poll() -> None:
    made = RecordsInHand()
    made.add_failed(AT, [(4, 6)], REJECT)
    made.acknowledge_failed(P, 5, RELEASE)

    assert made.is_settled
    assert said_of(made.take_said()) == [(4, 4, REJECT), (5, 5, RELEASE), (6, 6, REJECT)]
    with pytest.raises(ConsumerStateError, match="no error has named offset 5 of t-0"):
        made.acknowledge_failed(P, 5, ACCEPT)


def test_the_locks_of_two_leaders_are_told_to_each() -> None:
    other = Origin(2, AT.place)
    made = holding(1)
    made.add_rows(other, [row(9)])
    made.acknowledge(P, [9], ACCEPT)
    made.acknowledge(P, [1], REJECT)
    said = made.take_said()

    assert {origin.node_id: each.offsets for origin, each in said.items()} == {1: {1}, 2: {9}}
    assert set(merged(said, {})) == {AT, other}
