"""Listeners: bounded rings, what is dropped, and who is woken."""

from __future__ import annotations

import pytest

from tidelog.model.trace import RING_EVENTS_MAX, Trace, TraceRing
from tidelog.model.trace_events import Dropped, Ended, ProduceRefused, TraceEvent, short


class Listener:
    def __init__(self) -> None:
        self.woken = 0
        self.ring = TraceRing(self.wake)

    def wake(self) -> None:
        self.woken += 1

    def take_all(self) -> list[tuple[int, int, TraceEvent]]:
        taken: list[tuple[int, int, TraceEvent]] = []
        while some := self.ring.take(100, 0):
            taken += some
        return taken


@pytest.fixture
def listener() -> Listener:
    return Listener()


def event(number: int) -> TraceEvent:
    return ProduceRefused(str(number))


def test_events_come_in_their_order_with_rising_numbers_and_their_time(listener: Listener) -> None:
    now = [5]
    trace = Trace(lambda: now[0])
    trace.add(listener.ring)
    trace.tell(event(1))
    now[0] = 9
    trace.tell(event(2))

    assert listener.take_all() == [(0, 5, event(1)), (1, 9, event(2))]


def test_a_listener_is_woken_once_until_it_has_taken_all(listener: Listener) -> None:
    listener.ring.offer(0, event(1))
    listener.ring.offer(0, event(2))
    assert listener.woken == 1

    listener.take_all()
    listener.ring.offer(0, event(3))

    assert listener.woken == 2


def test_who_does_not_read_costs_no_more_than_its_ring_and_learns_how_much_is_missing(listener: Listener) -> None:
    for number in range(RING_EVENTS_MAX + 7):
        listener.ring.offer(number, event(number))
    first = listener.ring.take(10, 0)
    listener.ring.offer(0, event(-1))
    rest = listener.take_all()

    assert [number for number, _, _ in first] == list(range(10))
    assert len(first) + len(rest) == RING_EVENTS_MAX + 2
    assert [each for _, _, each in rest[-2:]] == [Dropped(7), event(-1)]
    # The numbers of what was dropped are missing behind the line that says so.
    assert [number for number, _, _ in rest[-2:]] == [RING_EVENTS_MAX, RING_EVENTS_MAX + 8]


def test_what_was_dropped_is_told_also_when_nothing_follows(listener: Listener) -> None:
    for number in range(RING_EVENTS_MAX + 3):
        listener.ring.offer(number, event(number))

    assert listener.take_all()[-1] == (RING_EVENTS_MAX, 0, Dropped(3))


def test_there_is_always_room_for_the_end(listener: Listener) -> None:
    trace = Trace(lambda: 1)
    trace.add(listener.ring)
    for number in range(RING_EVENTS_MAX + 1):
        trace.tell(event(number))
    trace.end(Ended("gone"))
    trace.tell(event(-1))

    assert listener.ring.is_ended
    assert [each for _, _, each in listener.take_all()[-2:]] == [Dropped(1), Ended("gone")]
    assert not trace.is_heard


def test_a_long_name_of_a_client_makes_no_large_event() -> None:
    assert len(short("x" * 30_000)) == 200
    assert short(None) == ""
