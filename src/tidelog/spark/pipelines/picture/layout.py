"""Where the boxes of a graph are: columns from left to right, as few crossings as a few sweeps find. Pure.

A line that passes a column has a place of its own there, so that it does not run through a box.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from tidelog.spark.pipelines.picture.graph import Graph

BOX_WIDTH = 196
LINE_HEIGHT = 17
_TITLE_HEIGHT = 24
_PADDING = 12
_COLUMN_GAP = 64
_ROW_GAP = 20
_PASSING_HEIGHT = 8
_SWEEPS = 4


class Box(NamedTuple):
    """Of a node, its upper left corner and its size."""

    x: float
    y: float
    width: float
    height: float

    @property
    def middle(self) -> float:
        return self.y + self.height / 2


class Layout(NamedTuple):
    width: float
    height: float
    boxes: Sequence[Box]
    """By the number of the node."""
    paths: Sequence[Sequence[tuple[float, float]]]
    """For each edge the points that it goes through, from the right side of a box to the left one of another."""


class _Place(NamedTuple):
    """What takes part of a column: a box, or a line that passes."""

    column: int
    node: int | None
    height: float


def layout_of(graph: Graph) -> Layout:
    columns_of = _columns(graph)
    places = [_Place(columns_of[index], index, _height(len(each.about))) for index, each in enumerate(graph.nodes)]
    chains: list[list[int]] = []
    for origin, target in graph.edges:
        chain = [origin]
        for column in range(columns_of[origin] + 1, columns_of[target]):
            places.append(_Place(column, None, _PASSING_HEIGHT))
            chain.append(len(places) - 1)
        chains.append([*chain, target])
    columns = _ordered(places, chains)
    heights = [sum(places[each].height for each in column) + _ROW_GAP * (len(column) - 1) for column in columns]
    height = max(heights, default=0)
    boxes: list[Box] = [Box(0, 0, 0, 0)] * len(places)
    for index, held in enumerate(columns):
        y = (height - heights[index]) / 2
        for each in held:
            boxes[each] = Box(index * (BOX_WIDTH + _COLUMN_GAP), y, BOX_WIDTH, places[each].height)
            y += places[each].height + _ROW_GAP
    width = len(columns) * BOX_WIDTH + max(0, len(columns) - 1) * _COLUMN_GAP
    return Layout(width, height, boxes[: len(graph.nodes)], [_path(chain, boxes) for chain in chains])


def _height(lines: int) -> float:
    return 2 * _PADDING + _TITLE_HEIGHT - 4 + LINE_HEIGHT * lines


def _columns(graph: Graph) -> list[int]:
    """The longest way to each node; what nothing follows is in the last column."""
    found = [0] * len(graph.nodes)
    for origin, target in sorted(graph.edges, key=lambda edge: edge[1]):
        found[target] = max(found[target], found[origin] + 1)
    origins = {origin for origin, _ in graph.edges}
    last = max(found, default=0)
    return [column if index in origins else last for index, column in enumerate(found)]


def _ordered(places: Sequence[_Place], chains: Sequence[Sequence[int]]) -> list[list[int]]:
    """The places of each column, from above: each as near as can be to the middle of those that it is tied to."""
    columns: list[list[int]] = [[] for _ in range(1 + max((each.column for each in places), default=0))]
    for index, place in enumerate(places):
        columns[place.column].append(index)
    tied: dict[int, list[int]] = {index: [] for index in range(len(places))}
    for chain in chains:
        for left, right in pairwise(chain):
            tied[left].append(right)
            tied[right].append(left)
    position = {each: float(order) for column in columns for order, each in enumerate(column)}

    def wanted(index: int, neighbour: int) -> float:
        found = [position[each] for each in tied[index] if places[each].column == neighbour]
        return sum(found) / len(found) if found else position[index]

    for sweep in range(_SWEEPS):
        order = range(1, len(columns)) if sweep % 2 == 0 else range(len(columns) - 2, -1, -1)
        for number in order:
            neighbour = number - 1 if sweep % 2 == 0 else number + 1
            # As declared, where nothing else decides.
            keys = {each: (wanted(each, neighbour), each) for each in columns[number]}
            columns[number].sort(key=keys.__getitem__)
            position |= {each: float(at) for at, each in enumerate(columns[number])}
    return columns


def _path(chain: Sequence[int], boxes: Sequence[Box]) -> list[tuple[float, float]]:
    points = []
    for index in chain:
        box = boxes[index]
        points += [(box.x, box.middle), (box.x + box.width, box.middle)]
    # It leaves the first box on its right, and comes to the last one on its left.
    return points[1:-1]
