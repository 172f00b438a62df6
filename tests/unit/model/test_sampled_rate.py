"""Rates over windows: the worked examples of Kafka's own classes, and what a rate is of."""

from __future__ import annotations

from math import floor
from random import Random

import pytest

from tidelog.model.sampled_rate import THROTTLE_MS_MAX, SampledRate

BOUND = 1_000.0


def throttles(*recorded: tuple[int, float]) -> list[int]:
    """The throttle time after each amount, at 1,000 a second and Kafka's default windows."""
    rate = SampledRate(windows=11, window_ms=1000)
    times = []
    for at_ms, value in recorded:
        rate.record(value, at_ms)
        times.append(rate.throttle_ms(BOUND, at_ms))
    return times


@pytest.mark.parametrize(
    ("recorded", "expected"),
    [
        pytest.param([(0, 20_000)], [10_000], id="one large amount is let through and paid for afterwards"),
        pytest.param([(0, 5_000), (1_000, 5_000), (2_000, 5_000)], [0, 0, 5_000], id="three in a row"),
        pytest.param([(0, 9_000), (9_999, 2_000)], [0, 1], id="a millisecond before the end of a window"),
        pytest.param([(0, 12_000), (15_000, 12_000)], [2_000, 2_000], id="what is long ago is forgotten"),
    ],
)
def test_the_worked_examples_of_kafkas_classes(recorded: list[tuple[int, float]], expected: list[int]) -> None:
    assert throttles(*recorded) == expected


def test_what_is_taken_back_was_never_there() -> None:
    rate = SampledRate(windows=11, window_ms=1000)
    rate.record(20_000, 0)

    rate.record(-20_000, 0)

    assert rate.throttle_ms(BOUND, 0) == 0
    assert rate.per_second(0) == 0


def test_just_the_bound_is_not_above_it() -> None:
    assert throttles((0, 10_000)) == [0]
    assert throttles((0, 10_001)) == [1]


def test_a_rate_that_nobody_has_recorded_is_zero() -> None:
    assert SampledRate(windows=11, window_ms=1000).per_second(5) == 0


def test_a_single_window_has_a_millisecond_at_least() -> None:
    rate = SampledRate(windows=1, window_ms=1000)

    rate.record(10, 0)

    assert rate.elapsed_ms(0) == 1


def test_a_throttle_time_fits_into_its_field() -> None:
    rate = SampledRate(windows=11, window_ms=1000)

    rate.record(1e300, 0)

    assert rate.throttle_ms(1.0, 0) == THROTTLE_MS_MAX


def test_a_rate_that_was_far_below_its_bound_for_long_is_added_up_like_any_other() -> None:
    rate, plain = SampledRate(11, 1000), SampledRate(11, 1000)
    random = Random(18)
    now_ms, throttled = 0, 0
    for _ in range(3_000):
        now_ms += random.choice([0, 1, 40, 700, 1_001, 15_000])
        amount = random.choice([1.0, 120.0, 900.0, -50.0])
        rate.record(amount, now_ms)
        plain.record(amount, now_ms)

        told_ms = rate.throttle_ms(400.0, now_ms)

        # Asked before, this one has nothing to shorten.
        per_second = plain.per_second(now_ms)
        expected = (per_second - 400.0) / 400.0 * plain.elapsed_ms(now_ms) if per_second > 400.0 else 0.0
        assert told_ms == floor(expected + 0.5)
        throttled += told_ms > 0
    assert throttled > 100
