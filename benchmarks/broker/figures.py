"""What was measured, and what it says: samples of two contestants, round by round, and the ratio between them.

The other one is Apache Kafka, a node of ours from another checkout (`BEFORE`), the least that a broker can do
(`FLOOR`), or a node of ours without any rules (`OPEN`).
A ratio is ours over theirs, taken within each round, because a shared machine is another machine a minute later. The median of
those ratios counts; the smallest and the largest say how far to trust it. Goals are about the ratio, or, where there is nobody
to compare with, about our own median.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from fractions import Fraction
from pathlib import Path
from typing import Any

OURS = "tidelog"
THEIRS = "kafka"
BEFORE = "before"
FLOOR = "floor"
OPEN = "open"
# What a change may cost: less than this is within what two runs of the same node differ by.
WORSE_MAX = 1.05


class ResultsError(Exception):
    """A file of results does not hold what it should; one sentence says what."""


class Better(StrEnum):
    LESS = "less"
    MORE = "more"


@dataclass(frozen=True)
class Goal:
    """What is asked of a figure: a bound of the ratio, or of our own median in the figure's unit."""

    bound: float
    is_absolute: bool = False

    def said(self, better: Better, unit: str) -> str:
        sign = "≤" if better is Better.LESS else "≥"
        if self.is_absolute:
            return f"{sign} {self.bound:g} {unit}"
        as_fraction = Fraction(self.bound).limit_denominator(100)
        is_part = as_fraction.numerator == 1 and as_fraction.denominator > 1
        return f"{sign} {as_fraction if is_part else format(self.bound, 'g')} ×"


@dataclass(frozen=True)
class Figure:
    """A line of the table: what it is, in which unit, and whether less or more of it is better."""

    key: str
    what: str
    unit: str
    better: Better = Better.LESS
    goal: Goal | None = None
    is_pictured: bool = False

    @property
    def beside_before(self) -> Figure:
        """The same where a node of another checkout is beside ours: CPU may not be worse, and times are not judged."""
        is_cpu = "CPU" in self.what and self.better is Better.LESS
        return replace(self, goal=Goal(WORSE_MAX) if is_cpu else None)


@dataclass
class Measured:
    """A figure with its samples, one of each contestant a round."""

    figure: Figure
    samples: dict[str, list[float]] = field(default_factory=dict)

    def add(self, contestant: str, value: float) -> None:
        self.samples.setdefault(contestant, []).append(value)

    def median(self, contestant: str) -> float | None:
        taken = self.samples.get(contestant)
        return statistics.median(taken) if taken else None

    @property
    def peer(self) -> str:
        """Who is beside us in this figure."""
        return next((name for name in self.samples if name != OURS), THEIRS)

    @property
    def ratios(self) -> list[float]:
        """Ours over theirs in each round that has both; one that divides by nothing is left out."""
        pairs = zip(self.samples.get(OURS, ()), self.samples.get(self.peer, ()), strict=False)
        return [ours / theirs for ours, theirs in pairs if theirs > 0]

    @property
    def ratio(self) -> float | None:
        ratios = self.ratios
        return statistics.median(ratios) if ratios else None

    @property
    def reached(self) -> bool | None:
        """Whether the goal is met; None where there is no goal. A goal with nothing measured is not met."""
        goal = self.figure.goal
        if goal is None:
            return None
        value = self.median(OURS) if goal.is_absolute else self.ratio
        if value is None:
            return False
        return value <= goal.bound if self.figure.better is Better.LESS else value >= goal.bound


@dataclass
class Results:
    """All figures of a run, in the order of the table, and the circumstances under which they were taken."""

    circumstances: dict[str, str]
    measured: list[Measured] = field(default_factory=list)

    def of(self, figure: Figure) -> Measured:
        """Where samples of a figure go: what is there already, or a new line at the end."""
        for each in self.measured:
            if each.figure.key == figure.key:
                return each
        new = Measured(figure.beside_before if self.is_beside_before else figure)
        self.measured.append(new)
        return new

    @property
    def is_beside_before(self) -> bool:
        return BEFORE in self.circumstances

    @property
    def peer(self) -> str:
        """Who is beside us in all figures, as the table names it."""
        named = {BEFORE: "before", FLOOR: "the floor", OPEN: "without"}
        return next((shown for name, shown in named.items() if name in self.circumstances), "Apache Kafka")

    @property
    def missed(self) -> list[str]:
        return [each.figure.what for each in self.measured if each.reached is False]


def to_json(results: Results) -> str:
    lines = []
    for each in results.measured:
        figure, goal, ratios = each.figure, each.figure.goal, each.ratios
        lines.append(
            {
                "key": figure.key,
                "what": figure.what,
                "unit": figure.unit,
                "better": figure.better.value,
                "asked": goal.said(figure.better, figure.unit) if goal else None,
                "median": {name: statistics.median(taken) for name, taken in each.samples.items() if taken},
                "ratio": each.ratio,
                "ratio_min": min(ratios) if ratios else None,
                "ratio_max": max(ratios) if ratios else None,
                "reached": each.reached,
                "samples": each.samples,
            }
        )
    return json.dumps({"circumstances": results.circumstances, "figures": lines}, indent=2, ensure_ascii=False) + "\n"


def from_json(text: str, known: Mapping[str, Figure]) -> Results:
    """What `to_json` wrote. Names, goals and units are those of today; only the samples come from the file."""
    try:
        read: dict[str, Any] = json.loads(text)
        circumstances = {str(name): str(value) for name, value in read["circumstances"].items()}
        results = Results(circumstances)
        for line in read["figures"]:
            samples = {str(name): [float(value) for value in taken] for name, taken in line["samples"].items()}
            results.measured.append(Measured(known[line["key"]], samples))
    except (ValueError, TypeError, AttributeError) as error:
        raise ResultsError(f"not a file of results: {error}") from None
    except KeyError as error:
        raise ResultsError(f"not a file of results of this version: there is no {error}") from None
    return results


def read_results(paths: Iterable[Path], known: Mapping[str, Figure]) -> Results:
    """Several files as one, in the order of the table; a figure of a later file replaces that of an earlier one."""
    merged: dict[str, Measured] = {}
    circumstances: dict[str, str] = {}
    for path in paths:
        try:
            read = from_json(path.read_text(encoding="utf-8"), known)
        except OSError as error:
            raise ResultsError(f"{path} cannot be read: {error.strerror}") from None
        except (ResultsError, UnicodeDecodeError) as error:
            raise ResultsError(f"{path}: {error}") from None
        circumstances |= read.circumstances
        merged |= {each.figure.key: each for each in read.measured}
    return Results(circumstances, [merged[key] for key in known if key in merged])


def spread(ratios: Sequence[float]) -> str:
    return f"{min(ratios):.2f} to {max(ratios):.2f}" if ratios else ""
