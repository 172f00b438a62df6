"""Buckets of tokens: full at first, refilled by the clock, overdrawn by the last who takes."""

from __future__ import annotations

from tidelog.model.token_bucket import TokenBucket


def test_a_bucket_is_full_at_first_whenever_that_is() -> None:
    assert TokenBucket(11, 1000).tokens(5.0, 0) == 55
    assert TokenBucket(11, 1000).tokens(5.0, 10**12) == 55


def test_whoever_overdraws_it_waits_until_that_is_paid() -> None:
    bucket = TokenBucket(100, 1000)

    bucket.take(560, 5.0, 0)

    # Kafka's own example.
    assert bucket.tokens(5.0, 0) == -60
    assert bucket.throttle_ms(5.0, 0) == 12_000
    assert bucket.throttle_ms(5.0, 11_999) == 1
    assert bucket.throttle_ms(5.0, 12_000) == 0


def test_it_never_holds_more_than_all_windows_give() -> None:
    bucket = TokenBucket(2, 1000)
    bucket.take(1, 5.0, 0)

    assert bucket.tokens(5.0, 60_000) == 10


def test_a_lower_rate_cuts_what_is_in_it() -> None:
    bucket = TokenBucket(2, 1000)
    bucket.tokens(100.0, 0)

    assert bucket.tokens(1.0, 0) == 2
