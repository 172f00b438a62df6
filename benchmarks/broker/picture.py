"""The figures as a picture: an SVG that a page shows, readable on light and dark pages.

Each figure is two bars on a scale of its own, the longer one filling the width, so that a glance gives the ratio. The picture has
a background of its own and follows the reader's colour scheme where the viewer says what it is.
"""

from __future__ import annotations

from html import escape

from benchmarks.broker.figures import OURS, THEIRS, Better, Measured, Results
from benchmarks.broker.table import number

WIDTH = 960
MARGIN = 24
LABELS_WIDTH = 400
RATIO_WIDTH = 100
BAR_HEIGHT = 12
BAR_GAP = 2
LINE_HEIGHT = 46
HEAD_HEIGHT = 84
VALUE_WIDTH = 100
BARS_WIDTH = WIDTH - 2 * MARGIN - LABELS_WIDTH - RATIO_WIDTH - VALUE_WIDTH

STYLE = """
  .page { fill: #ffffff; stroke: #d0d7de }
  text { fill: #1f2328; font: 13px system-ui, -apple-system, 'Segoe UI', Helvetica, Arial, sans-serif }
  .title { font-size: 17px; font-weight: 600 }
  .quiet { fill: #59636e; font-size: 12px }
  .ratio { font-weight: 600; text-anchor: end }
  .tidelog { fill: #0969da }
  .kafka { fill: #8c959f }
  @media (prefers-color-scheme: dark) {
    .page { fill: #0d1117; stroke: #30363d }
    text { fill: #e6edf3 }
    .quiet { fill: #9198a1 }
    .tidelog { fill: #4493f8 }
    .kafka { fill: #6e7681 }
  }
"""


def picture(results: Results) -> str:
    """Those figures that are meant for it and that have both contestants."""
    shown = [each for each in results.measured if each.figure.is_pictured and each.ratio is not None]
    height = HEAD_HEIGHT + LINE_HEIGHT * len(shown) + MARGIN
    # A viewer that cannot draw reads this instead.
    summary = "; ".join(f"{each.figure.what}: {_ratio_said(each)}" for each in shown)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}" role="img">',
        "<title>Tidelog beside Apache Kafka</title>",
        f"<desc>{escape(summary)}</desc>",
        f"<style>{STYLE}</style>",
        f'<rect class="page" x="0.5" y="0.5" width="{WIDTH - 1}" height="{height - 1}" rx="8"/>',
        f'<text class="title" x="{MARGIN}" y="36">Tidelog beside {escape(_theirs(results))}</text>',
        *_legend(results),
        *(line for place, each in enumerate(shown) for line in _bars(each, HEAD_HEIGHT + LINE_HEIGHT * place)),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _theirs(results: Results) -> str:
    return f"Apache Kafka {results.circumstances.get('kafka', '')}".strip()


def _legend(results: Results) -> list[str]:
    machine = results.circumstances.get("machine", "one machine")
    rounds = results.circumstances.get("rounds", "")
    taken = f"one node each, same load by librdkafka in turn, medians of {rounds} rounds; {machine}"
    right = WIDTH - MARGIN
    return [
        f'<text class="quiet" x="{MARGIN}" y="58">{escape(taken)}</text>',
        f'<rect class="tidelog" x="{right - 190}" y="25" width="12" height="12" rx="2"/>',
        f'<text x="{right - 172}" y="36">Tidelog</text>',
        f'<rect class="kafka" x="{right - 104}" y="25" width="12" height="12" rx="2"/>',
        f'<text x="{right - 86}" y="36">Apache Kafka</text>',
    ]


def _bars(measured: Measured, top: int) -> list[str]:
    figure = measured.figure
    values = {name: measured.median(name) or 0.0 for name in (OURS, THEIRS)}
    longest = max(values.values()) or 1.0
    left = MARGIN + LABELS_WIDTH
    direction = "less is better" if figure.better is Better.LESS else "more is better"
    parts = [
        f'<text x="{MARGIN}" y="{top + 13}">{escape(figure.what)}</text>',
        f'<text class="quiet" x="{MARGIN}" y="{top + 29}">{escape(figure.unit)}, {direction}</text>',
        f'<text class="ratio" x="{WIDTH - MARGIN}" y="{top + 19}">{escape(_ratio_said(measured))}</text>',
    ]
    for place, (name, value) in enumerate(values.items()):
        y = top + 2 + place * (BAR_HEIGHT + BAR_GAP)
        width = max(1.0, BARS_WIDTH * value / longest)
        parts.append(f'<rect class="{name}" x="{left}" y="{y}" width="{width:.1f}" height="{BAR_HEIGHT}" rx="2"/>')
        parts.append(f'<text class="quiet" x="{left + width + 6:.1f}" y="{y + 10}">{escape(number(value))}</text>')
    return parts


def _ratio_said(measured: Measured) -> str:
    """How many times better we are, or worse: one number above 1 says it for costs and rates alike."""
    ratio = measured.ratio
    if not ratio:
        return ""
    gain = 1 / ratio if measured.figure.better is Better.LESS else ratio
    return f"{gain:.1f} × better" if gain >= 1 else f"{1 / gain:.1f} × worse"
