"""Pipelines as one SVG: for each its graph, the state of its queries, and how far behind they were over time. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tidelog.spark.pipelines.picture.graph import Graph, Node
from tidelog.spark.pipelines.picture.lag_chart import CHART_HEIGHT, chart
from tidelog.spark.pipelines.picture.layout import BOX_WIDTH, LINE_HEIGHT, Box, layout_of
from tidelog.spark.pipelines.picture.svg import document, fitted, label, number, written
from tidelog.spark.watching.lag_history import LagSample

_MARGIN = 28
_WIDTH_MIN = 640
_HEAD_HEIGHT = 44
_GAP = 26
# The rest of the line says how far behind a query is.
_TITLE_SHARE = 0.5
_NAMES = {"topic": "topic", "source": "source", "transform": "transform", "sink": "sink", "dead letters": "dead"}


class ShownQuery(NamedTuple):
    """What is known of a query's last run."""

    name: str
    state: str
    samples: Sequence[LagSample]


class ShownPipeline(NamedTuple):
    graph: Graph
    queries: Sequence[ShownQuery]


def picture_of(pipelines: Sequence[ShownPipeline]) -> str:
    layouts = [layout_of(each.graph) for each in pipelines]
    inner = max([_WIDTH_MIN, *(each.width for each in layouts)])
    parts: list[str] = []
    y: float = _MARGIN
    for index, (shown, layout) in enumerate(zip(pipelines, layouts, strict=True)):
        if index:
            line = y - _GAP / 2
            parts.append(
                f'<line class="grid" x1="{_MARGIN}" y1="{number(line)}" x2="{number(_MARGIN + inner)}" y2="{number(line)}"/>'
            )
        parts.append(label(_MARGIN, y + 16, fitted(shown.graph.name, inner, 17), "name"))
        y += _HEAD_HEIGHT
        left = _MARGIN + (inner - layout.width) / 2
        for (_, target), path in zip(shown.graph.edges, layout.paths, strict=True):
            parts += _tie(
                [(px + left, py + y) for px, py in path], is_dead=shown.graph.nodes[target].kind == "dead letters"
            )
        for node, box in zip(shown.graph.nodes, layout.boxes, strict=True):
            parts += _box(node, Box(box.x + left, box.y + y, box.width, box.height))
        y += layout.height + _GAP
        for query in shown.queries:
            if query.samples:
                title = fitted(f"{query.name}: {query.state}", inner * _TITLE_SHARE, 13)
                parts += chart(_MARGIN, y, inner, title, query.samples)
                y += CHART_HEIGHT
    about = "; ".join(_described(each.graph) for each in pipelines)
    names = ", ".join(each.graph.name for each in pipelines)
    return document(inner + 2 * _MARGIN, y, names, about, parts)


def _box(node: Node, box: Box) -> list[str]:
    kind = _NAMES[node.kind]
    x, y = number(box.x), number(box.y)
    room = BOX_WIDTH - 28
    said = ". ".join([node.title, *node.about])
    parts = [
        f"<g><title>{written(said)}</title>",
        f'<rect class="box" x="{x}" y="{y}" width="{number(box.width)}" height="{number(box.height)}" rx="6"/>',
        f'<rect class="kind-{kind}" x="{x}" y="{number(box.y + 8)}" width="4" height="{number(box.height - 16)}" rx="2"/>',
        label(box.x + 16, box.y + 25, fitted(node.title, room, 13), "title"),
    ]
    for index, line in enumerate(node.about):
        parts.append(label(box.x + 16, box.y + 45 + LINE_HEIGHT * index, fitted(line, room), "quiet"))
    return [*parts, "</g>"]


def _tie(points: Sequence[tuple[float, float]], *, is_dead: bool) -> list[str]:
    """A line through these points, level where it leaves and comes, with a tip."""
    style = "-dead" if is_dead else ""
    (x, y), (end_x, end_y) = points[0], points[-1]
    drawn = [f"M{number(x)},{number(y)}"]
    for index, (to_x, to_y) in enumerate(points[1:]):
        aim_x = to_x - 6 if index == len(points) - 2 else to_x
        if to_y == y:
            drawn.append(f"L{number(aim_x)},{number(to_y)}")
        else:
            half = (x + aim_x) / 2
            drawn.append(f"C{number(half)},{number(y)} {number(half)},{number(to_y)} {number(aim_x)},{number(to_y)}")
        x, y = to_x, to_y
    tip = f"{number(end_x)},{number(end_y)} {number(end_x - 8)},{number(end_y - 4)} {number(end_x - 8)},{number(end_y + 4)}"
    return [f'<path class="tie{style}" d="{" ".join(drawn)}"/>', f'<polygon class="tip{style}" points="{tip}"/>']


def _described(graph: Graph) -> str:
    """For those who cannot see it."""
    ties = [f"{graph.nodes[origin].title} to {graph.nodes[target].title}" for origin, target in graph.edges]
    return f"{graph.name}: " + ", ".join(ties)
