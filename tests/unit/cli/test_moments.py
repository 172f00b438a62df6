"""Times and durations as people type them."""

from __future__ import annotations

import pytest

from tidelog.cli.admin_session import QuestionError
from tidelog.cli.moments import parse_duration_ms, parse_time


@pytest.mark.parametrize(
    ("text", "timestamp_ms"),
    [
        ("0", 0),
        ("1794816000000", 1794816000000),
        ("2026-11-16T08:00:00Z", 1794816000000),
        ("2026-11-16T08:00:00.123Z", 1794816000123),
        ("2026-11-16T08:00:00", 1794816000000),
        ("2026-11-16T10:00:00+02:00", 1794816000000),
        ("2026-11-16 08:00", 1794816000000),
        (" 2026-11-16 ", 1794787200000),
    ],
)
def test_a_time_is_in_utc_unless_it_says_otherwise(text: str, timestamp_ms: int) -> None:
    assert parse_time(text) == timestamp_ms


@pytest.mark.parametrize(
    ("text", "ago_ms"), [("-1h", 3_600_000), ("-30m", 1_800_000), (" -PT2S", 2_000), ("-9999w", 10**12)]
)
def test_a_time_may_be_so_long_ago(text: str, ago_ms: int) -> None:
    assert parse_time(text, now_ms=lambda: 10**12) == 10**12 - ago_ms


@pytest.mark.parametrize(
    "text", ["", "now", "-1", "-", "--1h", "-1y", "- 1h", "2026-13-01", "1960-01-01", "1" * 19, "٣", "2026-11-16T25:00"]
)
def test_what_is_no_time_is_one_sentence(text: str) -> None:
    with pytest.raises(QuestionError, match="is not a time: expected"):
        parse_time(text)


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("PT1H", 3_600_000),
        ("PT1H30M", 5_400_000),
        ("P1DT12H", 129_600_000),
        ("P2W", 1_209_600_000),
        ("PT0.5S", 500),
        ("90m", 5_400_000),
        ("250ms", 250),
        ("7d", 604_800_000),
        ("0s", 0),
    ],
)
def test_a_duration_is_iso_or_a_number_with_its_unit(text: str, milliseconds: int) -> None:
    assert parse_duration_ms(text) == milliseconds


@pytest.mark.parametrize("text", ["", "P", "PT", "P1H", "1", "-1h", "1y", "an hour", "PT1H1D", "9" * 20 + "s", "٣s"])
def test_what_is_no_duration_is_one_sentence(text: str) -> None:
    with pytest.raises(QuestionError, match="is not a duration: expected"):
        parse_duration_ms(text)
