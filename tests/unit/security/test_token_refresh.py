"""When the next token is asked for, by the figures of Kafka's ExpiringCredentialRefreshingLogin."""

from __future__ import annotations

import pytest

from tidelog.security.access_token import AccessToken
from tidelog.security.token_refresh import TokenRefresh

NOW_MS = 1_000_000_000
HOUR_MS = 3_600_000


@pytest.mark.parametrize(
    ("lives_ms", "chance", "after_ms"),
    [
        # Four fifths of an hour, and a twentieth more at most.
        (HOUR_MS, 0.0, 2_880_000),
        (HOUR_MS, 1.0, 3_060_000),
        # Five minutes before the end at the latest.
        (1_000_000, 0.0, 700_000),
        # Too short for a minute and five minutes: the part of its life is what counts.
        (100_000, 0.0, 80_000),
        (360_000, 0.0, 60_000),
        (359_999, 0.0, 287_999),
    ],
)
def test_a_token_is_replaced_before_it_ends(lives_ms: int, chance: float, after_ms: int) -> None:
    token = AccessToken("x", NOW_MS + lives_ms)

    assert TokenRefresh().at_ms(token, NOW_MS, chance) == NOW_MS + after_ms


def test_a_token_that_began_long_ago_is_kept_for_the_shortest_period() -> None:
    token = AccessToken("x", NOW_MS + HOUR_MS, NOW_MS - 100 * HOUR_MS)

    assert TokenRefresh().at_ms(token, NOW_MS, 0.0) == NOW_MS + 60_000


def test_a_token_without_an_end_is_not_replaced() -> None:
    assert TokenRefresh().at_ms(AccessToken("x"), NOW_MS, 0.5) is None


def test_a_token_that_has_ended_is_tried_for_again_after_ten_seconds() -> None:
    assert TokenRefresh().at_ms(AccessToken("x", NOW_MS - 1), NOW_MS, 0.5) == NOW_MS + 10_000
