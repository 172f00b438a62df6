"""Parts of an SVG that reads well on light and on dark ground, with fonts that every machine has."""

from __future__ import annotations

import re
from html import escape

STYLE = """<style>
  .page { fill: #ffffff; stroke: #d0d7de }
  text { fill: #1f2328; font: 12px system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', Helvetica, Arial, sans-serif }
  .name { font-size: 17px; font-weight: 600 }
  .title { font-size: 13px; font-weight: 600 }
  .quiet { fill: #59636e }
  .bad { fill: #cf222e }
  .end { text-anchor: end }
  .middle { text-anchor: middle }
  .box { fill: #f6f8fa; stroke: #d0d7de }
  .tie { fill: none; stroke: #818b98; stroke-width: 1.5 }
  .tip { fill: #818b98 }
  .tie-dead { fill: none; stroke: #cf222e; stroke-width: 1.5; stroke-dasharray: 5 4 }
  .tip-dead { fill: #cf222e }
  .kind-topic { fill: #0969da }
  .kind-source { fill: #8250df }
  .kind-transform { fill: #bf8700 }
  .kind-sink { fill: #1a7f37 }
  .kind-dead { fill: #cf222e }
  .grid { stroke: #d0d7de; stroke-width: 1 }
  .line { fill: none; stroke: #0969da; stroke-width: 2; stroke-linejoin: round }
  .area { fill: #0969da; fill-opacity: 0.12 }
  @media (prefers-color-scheme: dark) {
    .page { fill: #0d1117; stroke: #30363d }
    text { fill: #e6edf3 }
    .quiet { fill: #9198a1 }
    .bad { fill: #f85149 }
    .box { fill: #161b22; stroke: #30363d }
    .tie { stroke: #6e7681 }
    .tip { fill: #6e7681 }
    .tie-dead { stroke: #f85149 }
    .tip-dead { fill: #f85149 }
    .kind-topic { fill: #4493f8 }
    .kind-source { fill: #ab7df8 }
    .kind-transform { fill: #d29922 }
    .kind-sink { fill: #3fb950 }
    .kind-dead { fill: #f85149 }
    .grid { stroke: #30363d }
    .line { stroke: #4493f8 }
    .area { fill: #4493f8 }
  }
</style>"""

# What XML cannot hold, not even as a reference.
_UNWRITABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
_SPACE = re.compile(r"\s+")
# The mean width of a letter by the size of its font, of the widest of the fonts.
_LETTER_WIDTH = 0.58


def number(value: float) -> str:
    """A coordinate: a tenth is as fine as anybody sees."""
    return f"{value:.1f}".removesuffix(".0")


def written(text: str) -> str:
    """As XML holds it."""
    return escape(_UNWRITABLE.sub("\ufffd", _SPACE.sub(" ", text)))


def fitted(text: str, width: float, size: float = 12) -> str:
    """As much of a text as there is room for."""
    text = _SPACE.sub(" ", text).strip()
    most = max(1, int(width / (size * _LETTER_WIDTH)))
    return text if len(text) <= most else text[: most - 1].rstrip() + "…"


def label(x: float, y: float, text: str, style: str = "") -> str:
    name = f' class="{style}"' if style else ""
    return f'<text{name} x="{number(x)}" y="{number(y)}">{written(text)}</text>'


def document(width: float, height: float, title: str, about: str, parts: list[str]) -> str:
    """A whole picture, on a page of its own colour."""
    size = f'width="{number(width)}" height="{number(height)}" viewBox="0 0 {number(width)} {number(height)}"'
    page = f'<rect class="page" x="0.5" y="0.5" width="{number(width - 1)}" height="{number(height - 1)}" rx="8"/>'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">'
    described = f"<title>{written(title)}</title>\n<desc>{written(about)}</desc>"
    return "\n".join([head, described, STYLE, page, *parts, "</svg>", ""])
