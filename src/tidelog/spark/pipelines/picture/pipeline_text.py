"""A pipeline on a terminal: its graph as a tree, with a line for each box, and how far behind its queries were. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from tidelog.spark.pipelines.picture.graph import Graph
from tidelog.spark.pipelines.picture.lag_chart import blocks, duration, moment
from tidelog.spark.pipelines.picture.pipeline_picture import ShownPipeline, ShownQuery

_CHART_WIDTH = 48


def lines_of(shown: ShownPipeline) -> Iterator[str]:
    yield shown.graph.name
    yield from _tree(shown.graph)
    for each in shown.queries:
        yield ""
        yield from _query(each)


def _tree(graph: Graph) -> Iterator[str]:
    """From the topics on. What has several origins is described once, and named again where else it comes up."""
    followers: dict[int, list[int]] = {}
    for origin, target in graph.edges:
        followers.setdefault(origin, []).append(target)
    targets = {target for _, target in graph.edges}
    told: set[int] = set()

    def line(index: int, before: str, after: str) -> Iterator[str]:
        node = graph.nodes[index]
        if index in told:
            yield f"{before}{node.title} (above)"
            return
        told.add(index)
        about = f"  {', '.join(node.about)}" if node.about else ""
        yield f"{before}{node.title}{about}"
        below = followers.get(index, [])
        for each in below:
            is_last = each == below[-1]
            yield from line(each, f"{after}{'└─ ' if is_last else '├─ '}", f"{after}{'   ' if is_last else '│  '}")

    for index in range(len(graph.nodes)):
        if index not in targets:
            yield from line(index, "  ", "  ")


def _query(query: ShownQuery) -> Iterator[str]:
    if not query.samples:
        yield f"{query.name}: {query.state}, and has not said yet how far behind it is"
        return
    last = query.samples[-1]
    behind = "" if last.lag_ms is None else f", {duration(last.lag_ms)} behind"
    yield f"{query.name}: {query.state}, {last.lag:,} records unread{behind}"
    yield f"  {blocks(query.samples, _CHART_WIDTH)}  {max(each.lag for each in query.samples):,} at worst"
    yield f"  {moment(query.samples[0].at_ms)} to {moment(last.at_ms)}"
