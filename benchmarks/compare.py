"""Measures two or more ways of doing the same thing side by side and says by how much they differ.

    result = compare("decode 100-byte records", {"tidelog": ours, "aiokafka": theirs}, at_least=2.5)

A shared machine is noisy, so an absolute time says nothing: every contestant is warmed up, then all run in turn, round after
round, on the process's CPU time, and the ratio is taken within each round. What counts is the median of those ratios; the
spread (smallest and largest) says how much to trust it. The first contestant is ours; `ratio` is how many times cheaper it is
than the second, or, where a cost has a ceiling (`at_most`), how many times dearer.
"""

from __future__ import annotations

import gc
import json
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

ROUNDS = 7
# Long enough that the clock's resolution and one scheduling hiccup disappear in it.
ROUND_SECONDS = 0.2
RESULTS = Path(__file__).parent / "results"


@dataclass(frozen=True)
class Comparison:
    """One line of the table. Times are seconds of CPU for one call, each contestant's median over the rounds."""

    name: str
    seconds: dict[str, float]
    ratio: float
    ratio_min: float
    ratio_max: float
    at_least: float | None = None
    at_most: float | None = None
    per_call: float = 1.0
    unit: str = "calls"
    rounds: int = ROUNDS
    notes: list[str] = field(default_factory=list)

    @property
    def reached(self) -> bool:
        if self.at_least is not None and self.ratio < self.at_least:
            return False
        return self.at_most is None or self.ratio <= self.at_most

    def line(self) -> str:
        goal = f"at least {self.at_least:g}" if self.at_least is not None else ""
        goal = f"at most {self.at_most:g}" if self.at_most is not None else goal
        rates = ", ".join(f"{name} {_rate(self.per_call / each)} {self.unit}/s" for name, each in self.seconds.items())
        verdict = "" if not goal else ("reached" if self.reached else "MISSED")
        spread = f"({self.ratio_min:.2f} to {self.ratio_max:.2f})"
        return f"{self.name:<62} {self.ratio:7.2f} x  {spread:<16} {goal:<13} {verdict:<8} {rates}"


def compare(
    name: str,
    contestants: Mapping[str, Callable[[], object]],
    *,
    at_least: float | None = None,
    at_most: float | None = None,
    per_call: float = 1.0,
    unit: str = "calls",
    rounds: int = ROUNDS,
    round_seconds: float = ROUND_SECONDS,
) -> Comparison:
    """Runs the contestants in turn. The ratio is second over first, or first over second where `at_most` asks for a cost.

    `per_call` is how much work one call does, in `unit`, for the printed rates. All contestants must do the same amount.
    """
    if len(contestants) < 2:
        raise ValueError(f"{name}: a comparison needs two contestants")
    repeats = {each: _calibrate(run, round_seconds) for each, run in contestants.items()}
    samples: dict[str, list[float]] = {each: [] for each in contestants}
    for _ in range(rounds):
        for each, run in contestants.items():
            samples[each].append(_cpu_seconds(run, repeats[each]) / repeats[each])
    ours, theirs = (samples[each] for each in list(contestants)[:2])
    pairs = zip(ours, theirs, strict=True)
    ratios = [a / b if at_most is not None else b / a for a, b in pairs]
    result = Comparison(
        name=name,
        seconds={each: statistics.median(taken) for each, taken in samples.items()},
        ratio=statistics.median(ratios),
        ratio_min=min(ratios),
        ratio_max=max(ratios),
        at_least=at_least,
        at_most=at_most,
        per_call=per_call,
        unit=unit,
        rounds=rounds,
    )
    print(result.line(), flush=True)
    return result


def finish(family: str, comparisons: list[Comparison]) -> None:
    """Writes the figures as JSON for others to read, and ends the process with 1 where a goal was missed."""
    RESULTS.mkdir(exist_ok=True)
    rows = [{**asdict(each), "reached": each.reached} for each in comparisons]
    (RESULTS / f"{family}.json").write_text(json.dumps(rows, indent=2) + "\n")
    missed = [each.name for each in comparisons if not each.reached]
    if missed:
        sys.exit(f"{family}: missed: {'; '.join(missed)}")


def _calibrate(run: Callable[[], object], round_seconds: float) -> int:
    """Warms `run` up and finds how many calls fill one round."""
    run()
    repeats = 1
    while (taken := _cpu_seconds(run, repeats)) < round_seconds / 4:
        repeats *= 2
    return max(1, round(repeats * round_seconds / taken))


def _cpu_seconds(run: Callable[[], object], repeats: int) -> float:
    gc.collect()
    gc.disable()
    try:
        started = time.process_time()
        for _ in range(repeats):
            run()
        return time.process_time() - started
    finally:
        gc.enable()


def _rate(per_second: float) -> str:
    for scale, suffix in ((1e9, " G"), (1e6, " M"), (1e3, " k")):
        if per_second >= scale:
            return f"{per_second / scale:.2f}{suffix}"
    return f"{per_second:.2f} "


def keep_samples(path: Path, rows: int, rows_per_second: Mapping[str, list[float]]) -> None:
    """What a run over Spark has measured, in a directory that need not be there yet."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"rows": rows, "rows_per_second": rows_per_second}, indent=1) + "\n", encoding="utf-8")
