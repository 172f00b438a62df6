"""Rates and buckets beside models that keep everything that was ever recorded."""

from __future__ import annotations

from hypothesis import given, strategies as st

from tidelog.model.sampled_rate import SampledRate
from tidelog.model.token_bucket import TokenBucket

WINDOW_MS = 1000
steps = st.lists(st.tuples(st.integers(0, 3_000), st.integers(0, 5_000)), min_size=1, max_size=40)


def windows_of(recorded: list[tuple[int, int]]) -> list[tuple[int, int, int]]:
    """All windows there ever were: start, last amount, sum."""
    windows: list[tuple[int, int, int]] = []
    for at, value in recorded:
        if windows and at - windows[-1][0] < WINDOW_MS:
            start, _, total = windows[-1]
            windows[-1] = (start, at, total + value)
        else:
            windows.append((at, at, value))
    return windows


@given(steps, st.integers(1, 12), st.integers(1, 10_000))
def test_a_rate_is_what_all_windows_of_its_time_come_to(taken: list[tuple[int, int]], windows: int, bound: int) -> None:
    rate = SampledRate(windows, WINDOW_MS)
    at = 0
    recorded: list[tuple[int, int]] = []
    for pause, value in taken:
        at += pause
        rate.record(value, at)
        recorded.append((at, value))
        seen = [each for each in windows_of(recorded) if at - each[1] < windows * WINDOW_MS][-windows - 1 :]
        elapsed = at - min(start for start, _, _ in seen)
        elapsed += max(0, windows - 1 - elapsed // WINDOW_MS) * WINDOW_MS
        expected = sum(total for _, _, total in seen) / (max(elapsed, 1) / 1000)

        assert rate.elapsed_ms(at) == max(elapsed, 1)
        assert rate.per_second(at) == expected
        assert (rate.throttle_ms(bound, at) > 0) <= (expected > bound)


@given(steps, st.integers(1, 10_000))
def test_after_its_throttle_time_a_rate_that_only_began_is_within_the_bound(
    taken: list[tuple[int, int]], bound: int
) -> None:
    rate = SampledRate(11, WINDOW_MS)
    total = sum(value for _, value in taken)
    rate.record(total, 0)

    wait_ms = rate.throttle_ms(bound, 0)

    assert total * 1000 / (10_000 + wait_ms) <= bound * 1.001


@given(steps, st.floats(0.5, 100))
def test_a_bucket_never_gives_more_than_it_holds_and_gets(taken: list[tuple[int, int]], rate: float) -> None:
    bucket = TokenBucket(11, WINDOW_MS)
    at = given_out = 0
    for pause, value in taken:
        at += pause
        if bucket.tokens(rate, at) >= 0:
            bucket.take(value, rate, at)
            given_out += value
        # The last one may overdraw it.
        assert given_out <= rate * 11 + rate * at / 1000 + 5_000 + 1e-6
        assert bucket.tokens(rate, at) <= rate * 11 + 1e-6
