"""A test done again with its driver killed at every step, and compared with what came of it undisturbed.

    undisturbed    everything that the test did, in a world of its own; each step of each batch is written down
    disturbed      the same, and at each step, one after another, the driver dies behind it and another one goes on

One course has all kills of a query, in the order of the protocol: the driver that goes on after one of them dies at the next. So
there are as many drivers as kills and one more, not two for each. Of a query the batch with the most rows is chosen, the last one
of several, and no batch where none has any; where Spark itself writes, there is one kill, between its sink and its own commit.

What such a course finds twice, or not at all, is compared after each kill, so that the failure names the step; where rows may
change, at the end.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidelog.spark.batch_steps import BEGIN
from tidelog.spark.pipelines.definition import Pipeline
from tidelog.spark.pipelines.sinks import ToDatabase, ToTable
from tidelog.spark.testing_kit.driver_job import DriverOutcome, KillPoint, StepDone
from tidelog.spark.testing_kit.errors import PipelineTestError, RowsDifferError
from tidelog.spark.testing_kit.mortal_drivers import MortalDrivers
from tidelog.spark.testing_kit.row_differences import differences

if TYPE_CHECKING:
    from tidelog.spark.testing_kit.pipeline_test import Act, PipelineTest, World

# Of one query. A pipeline of 32 sinks has some 80 steps a batch.
KILLS_MAX = 100
DRIVER_TIMEOUT_S = 300.0
SPARKS_COMMIT = "Spark's commit"

Rows = Mapping[str, Sequence[Mapping[str, Any]]]


@dataclass(frozen=True, slots=True)
class KillReport:
    """What was survived."""

    kills: tuple[KillPoint, ...]
    """In their order, by the names that the file has."""
    seconds: float

    def __str__(self) -> str:
        return f"survived {len(self.kills)} kills in {self.seconds:.0f} s: {', '.join(map(str, self.kills))}"


@dataclass(frozen=True, slots=True)
class _Planned:
    """A kill, in which run of which pipeline."""

    run: int
    pipeline: int
    point: KillPoint


def survive(test: PipelineTest, acts: Sequence[Act], ignore: Sequence[str] = ()) -> KillReport:
    """RowsDifferError where a sink has other rows than undisturbed. `ignore` names columns that are never the same twice."""
    began_s = time.monotonic()
    with MortalDrivers(test.spark) as drivers:
        calm = _Course(test, drivers)
        calm.go(acts)
        expected = calm.rows(ignore)
        if not any(expected.values()):
            raise PipelineTestError("undisturbed nothing comes out: give rows by which kills would show")
        killed: list[KillPoint] = []
        for kills in _chains(calm.done):
            course = _Course(test, drivers, kills, partial(_check_kill, _added_to(test), expected, ignore))
            course.go(acts)
            killed += course.killed
            many = f"{len(course.killed)} kills, the last" if len(course.killed) > 1 else "a kill"
            behind = f"after {many} behind {course.killed[-1]}" if course.killed else "done again"
            _compare(expected, course.rows(ignore), behind)
    return KillReport(tuple(killed), time.monotonic() - began_s)


class _Course:
    """Everything that a test did, once more, in a world of its own."""

    def __init__(
        self,
        test: PipelineTest,
        drivers: MortalDrivers,
        kills: Sequence[_Planned] = (),
        on_kill: Callable[[_Course, KillPoint], None] = lambda _course, _point: None,
    ) -> None:
        self.world: World = test.another_world()
        self.done: list[tuple[int, int, StepDone]] = []
        """What was told, with the run and the pipeline."""
        self.killed: list[KillPoint] = []
        self._drivers = drivers
        self._kills = kills
        self._on_kill = on_kill

    def go(self, acts: Sequence[Act]) -> None:
        runs = 0
        for act in acts:
            if self.world.is_run(act):
                for number, pipeline in enumerate(self.world.file.pipelines):
                    self._run(runs, number, pipeline)
                runs += 1
            else:
                self.world.do(act)

    def rows(self, ignore: Sequence[str]) -> dict[str, list[Mapping[str, Any]]]:
        """Of all sinks and dead letters, without columns that are not compared."""
        return {
            name: [{column: value for column, value in row.items() if column not in ignore} for row in rows]
            for name, rows in self.world.everything().items()
        }

    def _run(self, run: int, number: int, pipeline: Pipeline) -> None:
        for each in [each for each in self._kills if (each.run, each.pipeline) == (run, number)]:
            point = each.point
            if point.step == SPARKS_COMMIT:
                self._to_the_end(run, number, pipeline)
                self._take_back(pipeline, point)
            else:
                outcome = self._outcome(pipeline, replace_query(point, self.world.own_query))
                if not outcome.is_killed:
                    # Something else was done than undisturbed, as after a decision: the step does not come again.
                    self._check(outcome, point)
                    continue
            self.killed.append(point)
            self._on_kill(self, point)
        self._to_the_end(run, number, pipeline)

    def _to_the_end(self, run: int, number: int, pipeline: Pipeline) -> None:
        outcome = self._outcome(pipeline, None)
        self._check(outcome, self.killed[-1] if self.killed else None)
        declared = (replace_step(each, self.world.declared_query) for each in outcome.steps)
        self.done += [(run, number, each) for each in declared]
        if not any(each.query == self.world.declared_query(pipeline.name) for _, _, each in self.done):
            self.done += [(run, number, each) for each in self._sparks_batches(pipeline)]

    def _outcome(self, pipeline: Pipeline, kill: KillPoint | None) -> DriverOutcome:
        return self._drivers.run(replace(self.world.file, pipelines=[pipeline]), kill, DRIVER_TIMEOUT_S)

    def _check(self, outcome: DriverOutcome, last: KillPoint | None) -> None:
        if outcome.error is not None:
            when = "undisturbed" if last is None else f"after a kill behind {last}"
            raise RowsDifferError(f"{when} the pipeline stops: {self.world.declared_text(outcome.error)}")

    # Where Spark's own sink writes.

    def _sparks_batches(self, pipeline: Pipeline) -> list[StepDone]:
        """Batches that Spark has committed, each with the one step that can be known of it."""
        name = self.world.declared_query(pipeline.name)
        return [StepDone(name, batch_id, SPARKS_COMMIT) for batch_id in self._commits(pipeline)]

    def _commits(self, pipeline: Pipeline) -> list[int]:
        folder = self._folder(pipeline)
        return sorted(int(each.name) for each in folder.iterdir() if each.name.isdigit()) if folder.exists() else []

    def _take_back(self, pipeline: Pipeline, point: KillPoint) -> None:
        """What a driver leaves that is killed behind its sink, before it has written down that the batch is done."""
        for batch_id in self._commits(pipeline):
            if batch_id >= point.batch_id:
                (self._folder(pipeline) / str(batch_id)).unlink()
                with suppress(FileNotFoundError):
                    (self._folder(pipeline) / f".{batch_id}.crc").unlink()

    def _folder(self, pipeline: Pipeline) -> Path:
        return Path(self.world.file.checkpoint_of(pipeline)) / pipeline.name / "commits"


def replace_query(point: KillPoint, named: Callable[[str], str]) -> KillPoint:
    return point._replace(query=named(point.query))


def replace_step(step: StepDone, named: Callable[[str], str]) -> StepDone:
    return StepDone(named(step.query), step.batch_id, step.step, step.rows)


def _chains(done: Sequence[tuple[int, int, StepDone]]) -> list[list[_Planned]]:
    """For each query its kills, in the order of the protocol."""
    by_query: dict[str, list[tuple[int, int, StepDone]]] = {}
    for each in done:
        by_query.setdefault(each[2].query, []).append(each)
    return [kills for each in by_query.values() if (kills := _chain(each))]


def _chain(done: Sequence[tuple[int, int, StepDone]]) -> list[_Planned]:
    rows: dict[int, int] = {}
    for _, _, step in done:
        rows[step.batch_id] = rows.get(step.batch_id, 0) + step.rows
    chosen = max(rows, key=lambda batch_id: (rows[batch_id], batch_id))
    if all(step.step == SPARKS_COMMIT for _, _, step in done):
        # Nobody knows how many rows each had; from the first one on all are done again.
        chosen = min(rows)
    elif not rows[chosen]:
        # As dead letters, of which there are none.
        return []
    planned = [_Planned(run, number, step.point) for run, number, step in done if step.batch_id == chosen]
    if len(planned) > KILLS_MAX:
        raise PipelineTestError(f"a batch of {planned[0].point.query} has {len(planned)} steps; {KILLS_MAX} are tried")
    unique = {each.point: each for each in reversed(planned)}
    return [each for each in planned if unique.pop(each.point, None) is not None]


def _check_kill(
    added_to: Sequence[str], expected: Rows, ignore: Sequence[str], course: _Course, point: KillPoint
) -> None:
    """Rows that are there too often, as soon as they are: of sinks that are only added to."""
    if point.step == BEGIN:
        return
    found = course.rows(ignore)
    for name in added_to:
        # A sink that an upgrade brings is not there before.
        surplus = differences(expected[name], found.get(name, ()))._replace(missing=())
        if surplus:
            raise RowsDifferError(surplus.told(f"{name}, after a kill behind {point}", "undisturbed"))


def _compare(expected: Rows, found: Rows, when: str) -> None:
    differing = {name: differences(rows, found.get(name, ())) for name, rows in expected.items()}
    told = [each.told(f"{name}, {when}", "undisturbed") for name, each in differing.items() if each]
    if told:
        raise RowsDifferError("\n".join(told))


def _added_to(test: PipelineTest) -> list[str]:
    """Sinks whose rows never change."""
    return [
        sink.label
        for each in test.declared
        if each.output_mode == "append"
        for sink in each.sinks
        if not (isinstance(sink, ToTable | ToDatabase) and sink.merge_on)
    ]
