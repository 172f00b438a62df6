"""The run as a picture: what each product brought, minute by minute, and how far both groups were behind meanwhile.

A minute of the shop is a second of the clock, so both halves have one axis. The picture has a background of its own, and follows
the reader's colour scheme where the viewer says what it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from math import ceil, log10

from examples.orders_demo.shop import MINUTE_MS, PRODUCTS

WIDTH = 960
LEFT, RIGHT = 72, 936
REVENUE_TOP, REVENUE_BOTTOM = 84, 264
LAG_TOP, LAG_BOTTOM = 322, 482
HEIGHT = 530
# A mark's words are beside those of the marks before and after it.
MARK_LINES = 5
MARK_LINE_HEIGHT = 16
MARK_WIDTH = 200
TICKS = 4

STYLE = """
  .page { fill: #ffffff; stroke: #d0d7de }
  text { fill: #1f2328; font: 12px system-ui, -apple-system, 'Segoe UI', Helvetica, Arial, sans-serif }
  .title { font-size: 17px; font-weight: 600 }
  .quiet { fill: #59636e }
  .end { text-anchor: end }
  .middle { text-anchor: middle }
  .grid { stroke: #d0d7de; stroke-width: 1 }
  .mark { stroke: #bc4c00; stroke-width: 1.5; stroke-dasharray: 4 3 }
  .said { fill: #bc4c00; stroke: #ffffff; stroke-width: 4; paint-order: stroke }
  .line { fill: none; stroke-width: 2; stroke-linejoin: round }
  @media (prefers-color-scheme: dark) {
    .page { fill: #0d1117; stroke: #30363d }
    text { fill: #e6edf3 }
    .quiet { fill: #9198a1 }
    .grid { stroke: #30363d }
    .mark { stroke: #f0883e }
    .said { fill: #f0883e; stroke: #0d1117 }
  }
"""
# In this order they can be told apart by those who do not see all colours, too.
PRODUCT_COLOURS = ("#0969da", "#bf8700", "#1a7f37", "#8250df", "#cf222e")
# Other colours than the products have: they mean something else.
GROUP_COLOURS = ("#138a9a", "#d6409f")


@dataclass(slots=True)
class Course:
    """What happened when, in seconds since the first event."""

    lags: dict[str, list[tuple[float, int]]] = field(default_factory=dict)
    """Records that each group had still to read."""
    marks: list[tuple[float, str]] = field(default_factory=list)


def picture(revenue: Mapping[tuple[int, str], int], course: Course) -> str:
    """An SVG. `revenue` has the cents of each minute and product."""
    first_ms = min((minute for minute, _product in revenue), default=0)
    minutes: dict[int, dict[str, int]] = {}
    for (minute_ms, product), cents in revenue.items():
        minutes.setdefault((minute_ms - first_ms) // MINUTE_MS, {})[product] = cents
    last_s = max([1.0 + max(minutes, default=0)] + [at for line in course.lags.values() for at, _lag in line])
    axis = _Axis(ceil(last_s / 5) * 5)
    total = sum(revenue.values()) / 100
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}" role="img">',
        "<title>Revenue and lag of the orders demo</title>",
        f"<desc>{escape(f'{total:,.2f} of revenue; ' + '; '.join(text for _at, text in course.marks))}</desc>",
        f"<style>{STYLE}</style>",
        f'<rect class="page" x="0.5" y="0.5" width="{WIDTH - 1}" height="{HEIGHT - 1}" rx="8"/>',
        f'<text class="title" x="{LEFT}" y="36">Revenue of each minute of the shop, a second of the clock</text>',
        *_legend(list(zip(PRODUCTS, PRODUCT_COLOURS, strict=True)), REVENUE_TOP - 20),
        *_bars(minutes, axis),
        f'<text class="title" x="{LEFT}" y="{LAG_TOP - 24}">Records still to be read</text>',
        *_legend(list(zip(course.lags, GROUP_COLOURS, strict=False)), LAG_TOP - 28, right=True),
        *_lines(course, axis),
        *_seconds(axis),
        *_marks(course, axis),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


@dataclass(frozen=True, slots=True)
class _Axis:
    """The seconds, from left to right."""

    end_s: int

    def x(self, at_s: float) -> float:
        return round(LEFT + (RIGHT - LEFT) * at_s / self.end_s, 1)


def _nice(largest: float) -> float:
    """The next number that divides well into ticks."""
    if largest <= 0:
        return TICKS
    power: float = 10.0 ** int(log10(largest))
    return next(step * power for step in (1, 1.2, 1.6, 2, 4, 6, 8, 10, 12) if step * power >= largest)


def _grid(top: int, bottom: int, largest: float) -> Iterator[str]:
    for tick in range(TICKS + 1):
        y = bottom - (bottom - top) * tick / TICKS
        yield f'<line class="grid" x1="{LEFT}" y1="{y}" x2="{RIGHT}" y2="{y}"/>'
        yield f'<text class="quiet end" x="{LEFT - 8}" y="{y + 4}">{largest * tick / TICKS:,.0f}</text>'


def _legend(entries: Sequence[tuple[str, str]], y: int, *, right: bool = False) -> Iterator[str]:
    width = 110
    x = RIGHT - width * len(entries) if right else LEFT
    for name, colour in entries:
        yield f'<rect x="{x}" y="{y - 10}" width="12" height="12" rx="2" fill="{colour}"/>'
        yield f'<text x="{x + 18}" y="{y}">{escape(name)}</text>'
        x += width


def _bars(minutes: Mapping[int, Mapping[str, int]], axis: _Axis) -> Iterator[str]:
    largest = _nice(max((sum(each.values()) / 100 for each in minutes.values()), default=0))
    yield from _grid(REVENUE_TOP, REVENUE_BOTTOM, largest)
    for minute, products in sorted(minutes.items()):
        y = float(REVENUE_BOTTOM)
        for product, colour in zip(PRODUCTS, PRODUCT_COLOURS, strict=True):
            height = (REVENUE_BOTTOM - REVENUE_TOP) * products.get(product, 0) / 100 / largest
            y -= height
            x, width = axis.x(minute) + 1, axis.x(minute + 1) - axis.x(minute) - 2
            yield f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" fill="{colour}"/>'


def _lines(course: Course, axis: _Axis) -> Iterator[str]:
    largest = _nice(max((lag for line in course.lags.values() for _at, lag in line), default=0))
    yield from _grid(LAG_TOP, LAG_BOTTOM, largest)
    for line, colour in zip(course.lags.values(), GROUP_COLOURS, strict=False):
        points = " ".join(f"{axis.x(at)},{LAG_BOTTOM - (LAG_BOTTOM - LAG_TOP) * lag / largest:.1f}" for at, lag in line)
        yield f'<polyline class="line" stroke="{colour}" points="{points}"/>'


def _seconds(axis: _Axis) -> Iterator[str]:
    step = 5 if axis.end_s <= 75 else 10
    for second in range(0, axis.end_s + 1, step):
        yield f'<text class="quiet middle" x="{axis.x(second)}" y="{LAG_BOTTOM + 18}">{second}</text>'
    yield f'<text class="quiet end" x="{RIGHT}" y="{LAG_BOTTOM + 36}">seconds since the first event</text>'


def _marks(course: Course, axis: _Axis) -> Iterator[str]:
    for number, (at_s, text) in enumerate(course.marks):
        x = axis.x(at_s)
        y = LAG_TOP + 4 + MARK_LINE_HEIGHT * (number % MARK_LINES)
        for top, bottom in ((REVENUE_TOP, REVENUE_BOTTOM), (LAG_TOP, LAG_BOTTOM)):
            yield f'<line class="mark" x1="{x}" y1="{top}" x2="{x}" y2="{bottom}"/>'
        # Words that would not fit on the right stand on the left.
        side, at = ("said end", x - 4) if x > RIGHT - MARK_WIDTH else ("said", x + 4)
        yield f'<text class="{side}" x="{at}" y="{y}">{escape(text)}</text>'
