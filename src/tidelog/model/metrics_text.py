"""Metrics as Prometheus reads them: the text exposition format 0.0.4.

In pieces, so that a node with thousands of partitions can do something else between two of them. A family is read as a whole
when its turn comes; no piece is longer than `LINES_PER_PIECE`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from itertools import islice

from tidelog.model.metrics import Family, Histogram

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

# About a millisecond of the node's thread.
LINES_PER_PIECE = 500

_LABEL_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})
_HELP_ESCAPES = str.maketrans({"\\": r"\\", "\n": r"\n"})


def render(families: Iterable[Family]) -> Iterator[bytes]:
    """The text of all families, a piece at a time."""
    for family in families:
        lines = _lines(family)
        while piece := list(islice(lines, LINES_PER_PIECE)):
            yield "".join(piece).encode()


def _lines(family: Family) -> Iterator[str]:
    name = family.name
    yield f"# HELP {name} {family.help.translate(_HELP_ESCAPES)}\n# TYPE {name} {family.kind}\n"
    for values, value in list(family.read()):
        # Fewer values than names: the sum over the labels that are left out.
        labels = [
            f'{label}="{text.translate(_LABEL_ESCAPES)}"'
            for label, text in zip(family.label_names, values, strict=False)
        ]
        if isinstance(value, Histogram):
            yield _histogram(name, labels, value)
        else:
            yield f"{name}{_braces(labels)} {number_text(value)}\n"


def _histogram(name: str, labels: list[str], histogram: Histogram) -> str:
    lines = []
    count = 0
    for bound, added in zip((*histogram.bounds, math.inf), histogram.counts, strict=True):
        count += added
        le = f'le="{number_text(bound)}"'
        lines.append(f"{name}_bucket{_braces([*labels, le])} {count}\n")
    lines.append(f"{name}_sum{_braces(labels)} {number_text(histogram.sum)}\n")
    lines.append(f"{name}_count{_braces(labels)} {count}\n")
    return "".join(lines)


def _braces(labels: list[str]) -> str:
    return "{" + ",".join(labels) + "}" if labels else ""


def number_text(value: float) -> str:
    """A number in the format's spelling."""
    if isinstance(value, int):
        return str(int(value))
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return repr(value)
