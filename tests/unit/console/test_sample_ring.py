"""Numbers at times, within a bound."""

from __future__ import annotations

import pytest

from tidelog.console.cluster.sample_ring import SampleRing, grid


def ring(*samples: tuple[float, float], capacity: int = 100) -> SampleRing:
    made = SampleRing(capacity)
    for time_s, value in samples:
        made.add(time_s, value)
    return made


def test_between_two_samples_a_number_lies_on_their_line() -> None:
    found = ring((10, 100), (20, 200))
    assert found.at(15) == 150
    assert found.at(25) == 200
    assert found.at(9) is None


def test_the_time_at_which_a_number_was_passed_is_interpolated() -> None:
    found = ring((10, 100), (20, 200), (30, 200), (40, 300))
    assert found.time_after(150) == pytest.approx(15)
    # Nothing came for ten seconds: the record behind 200 was written after them.
    assert found.time_after(200) == pytest.approx(30)
    assert found.time_after(300) is None
    assert found.time_after(99) is None


def test_a_quiet_time_takes_two_places() -> None:
    found = ring(*((float(second), 7.0) for second in range(1000)), capacity=10)
    assert len(found) == 2
    assert found.since() == 0


def test_a_full_ring_remembers_the_past_more_coarsely() -> None:
    found = ring(*((float(second), second * 10.0) for second in range(1000)), capacity=20)
    assert len(found) <= 20
    assert found.first_s == 0
    assert found.last == 9990
    for second in (1, 100, 500, 999):
        assert found.at(second) == pytest.approx(second * 10)


def test_a_rate_is_of_its_window_or_of_what_there_is() -> None:
    found = ring((0, 0), (10, 100), (20, 400))
    assert found.rate(20, 10) == pytest.approx(30)
    assert found.rate(20, 1000) == pytest.approx(20)
    assert found.rate(30, 20) == pytest.approx(15)
    assert ring((0, 5)).rate(10, 10) is None


def test_a_grid_has_no_two_times_in_one_second() -> None:
    assert grid(0, 0.5, 100) == [0.5]
    assert grid(0, 3, 100) == [0, 1, 2, 3]
    assert len(grid(0, 3600, 180)) == 180
