"""How far behind a query was, over time: a line in an SVG, and a row of blocks on a terminal. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, datetime

from tidelog.spark.pipelines.picture.svg import label, number
from tidelog.spark.watching.lag_history import LagSample

CHART_HEIGHT = 150
_LEFT, _TOP, _BOTTOM = 64, 32, 40
_BLOCKS = "▁▂▃▄▅▆▇█"
_UNITS = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1_000, "s"))


def chart(x: float, y: float, width: float, title: str, samples: Sequence[LagSample]) -> list[str]:
    """A line of the lag in records, with its axes. There is one sample or more."""
    parts = [label(x, y + 14, title, "title")]
    left, right, top, bottom = x + _LEFT, x + width, y + _TOP, y + CHART_HEIGHT - _BOTTOM
    highest = _round_up(max(each.lag for each in samples))
    first, last = samples[0].at_ms, samples[-1].at_ms
    span = max(1, last - first)
    parts.append(label(right, y + 14, _summary(samples), "quiet end"))
    for share in (0, 0.5, 1):
        at = bottom - (bottom - top) * share
        parts.append(
            f'<line class="grid" x1="{number(left)}" y1="{number(at)}" x2="{number(right)}" y2="{number(at)}"/>'
        )
        parts.append(label(left - 8, at + 4, amount(highest * share), "quiet end"))
    points = [
        (left + (right - left) * (each.at_ms - first) / span, bottom - (bottom - top) * each.lag / highest)
        for each in samples
    ]
    if len(points) == 1:
        points.append((right, points[0][1]))
    drawn = " ".join(f"{number(px)},{number(py)}" for px, py in points)
    feet = [f"{number(at)},{number(bottom)}" for at in (points[0][0], points[-1][0])]
    parts.append(f'<polygon class="area" points="{feet[0]} {drawn} {feet[1]}"/>')
    parts.append(f'<polyline class="line" points="{drawn}"/>')
    parts.append(label(left, bottom + 18, moment(first), "quiet"))
    parts.append(label(right, bottom + 18, moment(last), "quiet end"))
    return parts


def blocks(samples: Sequence[LagSample], width: int) -> str:
    """The same in one line of so many letters, the worst of each part of the time."""
    if not samples:
        return ""
    first, span = samples[0].at_ms, max(1, samples[-1].at_ms - samples[0].at_ms)
    worst = [0] * width
    known = [False] * width
    for each in samples:
        index = min(width - 1, (each.at_ms - first) * width // span)
        worst[index], known[index] = max(worst[index], each.lag), True
    # Where nothing was told it was as it was before.
    for index in range(1, width):
        if not known[index]:
            worst[index] = worst[index - 1]
    highest = max(1, *worst)
    return "".join(_BLOCKS[(len(_BLOCKS) - 1) * each // highest] for each in worst)


def _summary(samples: Sequence[LagSample]) -> str:
    last = samples[-1]
    behind = "" if last.lag_ms is None else f", {duration(last.lag_ms)} behind"
    worst = max(each.lag for each in samples)
    return f"{last.lag:,} records unread{behind}; {worst:,} at worst"


def duration(ms: int) -> str:
    """A time of that order, as people say it."""
    for unit_ms, name in _UNITS:
        if ms >= unit_ms:
            return f"{ms / unit_ms:.3g} {name}"
    return f"{ms} ms"


def amount(value: float) -> str:
    """A number as an axis has it."""
    for size, name in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:g}{name}"
    return f"{value:g}"


def moment(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def _round_up(value: float) -> float:
    """The next number that an axis likes to end with."""
    if value <= 1:
        return 1
    size = 10.0 ** math.floor(math.log10(value))
    return next(step * size for step in (1, 2, 3, 4, 6, 8, 10) if value <= step * size)
