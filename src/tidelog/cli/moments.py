"""Times and durations as people type them.

2026-11-16T08:00:00Z   2026-11-16   1794816000000         a time: UTC unless it says otherwise, or milliseconds since 1970
-1h   -PT30M                                              a time: so long ago
PT1H30M   90m   7d                                        a duration: ISO 8601, or a number with its unit
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime

from tidelog.cli.admin_session import QuestionError
from tidelog.model.clock import system_now_ms

_ISO_DURATION = re.compile(
    r"P(?=.)(?:(\d+)W)?(?:(\d+)D)?(?:T(?=.)(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?", re.ASCII
)
_SHORT_DURATION = re.compile(r"(\d+)(ms|s|m|h|d|w)", re.ASCII)
_UNIT_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
_ISO_UNITS_MS = tuple(_UNIT_MS[unit] for unit in ("w", "d", "h", "m", "s"))

# Far beyond any calendar, and still a number that the protocol can hold.
_TIME_DIGITS_MAX = 18


def parse_time(text: str, *, now_ms: Callable[[], int] = system_now_ms) -> int:
    """Milliseconds since 1970."""
    written = text.strip()
    if written.startswith("-") and _is_duration(written[1:]):
        return max(0, now_ms() - parse_duration_ms(written[1:]))
    if written.isascii() and written.isdigit() and len(written) <= _TIME_DIGITS_MAX:
        return int(written)
    try:
        moment = datetime.fromisoformat(written)
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        timestamp_ms = round(moment.timestamp() * 1000)
    except (ValueError, OverflowError):
        timestamp_ms = -1
    if timestamp_ms < 0:
        raise QuestionError(
            f"{text!r} is not a time: expected one as in 2026-11-16T08:00:00Z, milliseconds since 1970, or -1h for an hour ago"
        )
    return timestamp_ms


def parse_duration_ms(text: str) -> int:
    """Milliseconds."""
    written = text.strip()
    short = _SHORT_DURATION.fullmatch(written)
    if short is not None and len(short[1]) <= _TIME_DIGITS_MAX:
        return int(short[1]) * _UNIT_MS[short[2]]
    parsed = _ISO_DURATION.fullmatch(written)
    if parsed is None or any(len(each or "") > _TIME_DIGITS_MAX for each in parsed.groups()):
        raise QuestionError(f"{text!r} is not a duration: expected one as in PT1H30M, 90m or 7d")
    return round(sum(float(each or 0) * unit_ms for each, unit_ms in zip(parsed.groups(), _ISO_UNITS_MS, strict=True)))


def _is_duration(written: str) -> bool:
    return _SHORT_DURATION.fullmatch(written) is not None or _ISO_DURATION.fullmatch(written) is not None
