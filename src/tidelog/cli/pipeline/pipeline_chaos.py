"""`tidelog pipeline chaos`: a file's own pipelines under kills, and whether each row came out once.

    a cluster of three nodes, a driver with its Java and its workers: all processes of their own, in a temporary directory
    rows go in while one of them after another is killed, in an order that a seed gives
    the driver stops, and what is left is read to its end
    the same records once more, undisturbed: the sinks are compared, and read again by the audit

Nothing is written to where the file's pipelines write: topics, tables, databases and checkpoints are those of a test
(`testing_kit.isolation`).
"""

from __future__ import annotations

import datetime as dt
import json
import select
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

from tidelog.cli.admin_session import (
    EXIT_REFUSED,
    EXIT_WRONG_QUESTION,
    QuestionError,
    complain,
    print_json,
    print_line,
)
from tidelog.cli.pipeline.mortal_cluster import NODES, MortalCluster
from tidelog.cli.pipeline.mortal_driver import MortalDriver
from tidelog.cli.pipeline.pipeline import COMMAND
from tidelog.client.errors import ClientError
from tidelog.spark.batch_steps import BEGIN, RETURN, WRITE
from tidelog.spark.errors import SinkError
from tidelog.spark.pipelines.audit_log import read_audit
from tidelog.spark.pipelines.audit_verification import Outcome, verify_sink
from tidelog.spark.pipelines.errors import DefinitionError, PipelineError, PipelineFileError
from tidelog.spark.pipelines.pipeline_file import load_pipelines
from tidelog.spark.pipelines.query_options import as_text
from tidelog.spark.testing_kit.chaos_driver import ChaosJob
from tidelog.spark.testing_kit.errors import PipelineTestError
from tidelog.spark.testing_kit.given_records import columns_of
from tidelog.spark.testing_kit.isolation import source_topics, sources_of, written_topics
from tidelog.spark.testing_kit.random_rows import RandomRows
from tidelog.spark.testing_kit.row_differences import differences
from tidelog.spark.testing_kit.time_marks import duration_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tidelog.spark.pipelines.pipeline_file import PipelineFile
    from tidelog.spark.testing_kit.pipeline_test import PipelineTest

# All rows are kept, written twice and compared in the memory of this process.
ROWS_MAX = 1_000_000
# A driver that ends by itself so often without a kill in between does not go on for another reason.
FAILURES_MAX = 10
_PARTITIONS = 3
_TICK_S = 1.0
# Between two kills, once the driver runs.
_PAUSE_S = (2.0, 8.0)
# How long a node stays away.
_AWAY_S = (0.5, 3.0)
# A batch comes with the next rows; how long it is waited for, how often it is looked at, and how far into it a kill may be.
_BATCH_TIMEOUT_S = 60.0
_LOOK_S = 0.02
_WITHIN_S = 0.6
# Of all queries, between two kills that a driver feels.
_BATCHES_BETWEEN = 3
# Steps that every batch has which is decided here; where Spark itself writes the driver dies at any time.
_STEPS = (BEGIN, WRITE, "decision", "finish", RETURN)
DRIVER, WORKER, BROKER = "driver", "worker", "broker"
_KINDS = (DRIVER, WORKER, BROKER)
# A busy machine does few batches in the time that was asked for: so much longer, until each kind was killed once.
_LONGER = 4
_LONGER_S = 120.0
# With tries, so that a task whose worker is killed is done again and not the whole batch.
_MASTER = "local[2,4]"
_DAY = "1 day"


@dataclass(frozen=True, slots=True)
class ChaosOptions:
    file: str
    only: Sequence[str]
    seed: int
    minutes: float
    rate: int
    late: str | None
    rows: Sequence[str]
    ignore: Sequence[str]
    as_json: bool


def chaos(options: ChaosOptions) -> int:
    """0 where each row came out once, 1 where one did not."""
    # The way out of every `with`, so that no process is left.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    directory = Path(tempfile.mkdtemp(prefix="tidelog-chaos-"))
    is_right = False
    try:
        file = load_pipelines(options.file, options.only)
        given = _given_rows(options)
        with ExitStack() as stack:
            course = _Course(options, file, given, directory, stack)
            course.disturb()
            told = course.differences()
        is_right = not told
        return _answer(options, course, told, directory)
    except (QuestionError, PipelineFileError, DefinitionError) as error:
        return _complain(error, EXIT_WRONG_QUESTION)
    except (PipelineError, PipelineTestError, ClientError, SinkError) as error:
        return _complain(error, EXIT_REFUSED)
    except KeyboardInterrupt:
        return complain(COMMAND, "interrupted: nothing is known of the rows", EXIT_REFUSED)
    finally:
        if is_right or not (directory / "driver.log").exists():
            shutil.rmtree(directory, ignore_errors=True)


def goes_on(elapsed_s: float, minutes: float, kills: Sequence[str]) -> bool:
    """Until the time is over, and for longer where something was not killed yet: an answer through no kills would be none."""
    asked_s = minutes * 60
    return elapsed_s < asked_s or (not set(_KINDS) <= set(kills) and elapsed_s < asked_s * _LONGER + _LONGER_S)


def _complain(error: Exception, code: int) -> int:
    for each in error.problems if isinstance(error, DefinitionError) else [str(error)]:
        complain(COMMAND, each, code)
    return code


def _answer(options: ChaosOptions, course: _Course, told: Sequence[str], directory: Path) -> int:
    kills = {kind: course.kills.count(kind) for kind in _KINDS}
    if options.as_json:
        print_json(
            [
                {
                    "each_row_once": not told,
                    "seed": options.seed,
                    "rows_in": course.rows_in,
                    "rows_out": course.rows_out,
                    "kills": dict(kills),
                    "batches_verified": course.verified,
                    "batches_not_verified": course.unknown,
                    "differences": list(told),
                }
            ]
        )
    elif not told:
        done = ", ".join(f"{count} of a {kind}" for kind, count in kills.items())
        print_line(
            f"each row once: {course.rows_in:,} rows in, {course.rows_out:,} out, through {len(course.kills)} kills ({done}); "
            f"the audit read {course.verified} sinks of batches again, and {course.unknown} can no longer be told apart"
        )
    if not told:
        return 0
    for line in "\n".join(told).splitlines():
        complain(COMMAND, line, EXIT_REFUSED)
    return complain(COMMAND, f"not each row once; --seed {options.seed}, and {directory} has all of it", EXIT_REFUSED)


class _Course:
    """One run of the command."""

    def __init__(
        self,
        options: ChaosOptions,
        file: PipelineFile,
        given: Mapping[str, Sequence[Any]],
        directory: Path,
        stack: ExitStack,
    ) -> None:
        from pyspark import cloudpickle  # noqa: PLC0415 - with Spark

        from tidelog.spark.testing_kit.pipeline_test import PipelineTest  # noqa: PLC0415
        from tidelog.spark.testing_kit.spark_session import conf_for_tests, session_for_tests  # noqa: PLC0415
        from tidelog.spark.testing_kit.tested_pipelines import travel_by_value  # noqa: PLC0415

        self.kills: list[str] = []
        self._batches = 0
        self.rows_in = self.rows_out = self.verified = self.unknown = 0
        self._options = options
        self._given = given
        # Apart from each other: how long something takes must change neither the order of kills nor the rows.
        self._random, self._times = Random(f"{options.seed}/kills"), Random(f"{options.seed}/times")
        self._say("starting a cluster of three nodes, and Spark")
        self._cluster = stack.enter_context(MortalCluster(directory / "cluster"))
        own = {name: text for each in file.pipelines for name, text in as_text(each.spark).items()}
        conf = {**own, "spark.master": _MASTER}
        spark = stack.enter_context(session_for_tests(directory / "spark", conf))
        travel_by_value(file.modules)
        self.test: PipelineTest = PipelineTest(
            spark, self._cluster, list(file.pipelines), directory, "chaos", partitions=_PARTITIONS
        )
        world = self.test.world
        self._sources = _Sources(self.test, spark, given, options, Random(f"{options.seed}/rows"))
        pickled = cloudpickle.dumps(list(world.pipelines))  # type: ignore[no-untyped-call]
        driver_conf = conf_for_tests(directory / "driver", conf)
        self._driver = MortalDriver(ChaosJob(sys.path, str(world.file.path), pickled, driver_conf), directory)
        stack.callback(self._driver.kill)

    def disturb(self) -> None:
        """Rows in, and kills. PipelineError where the pipelines do not run at all."""
        self._driver.start()
        if not self._driver.wait_until_running():
            raise PipelineError(f"the driver does not start: {self._driver.sentence}")
        started_s = time.monotonic()
        kinds: list[str] = []
        next_kill_s = time.monotonic() + self._times.uniform(*_PAUSE_S)
        while goes_on((now_s := time.monotonic()) - started_s, self._options.minutes, self.kills):
            self._sources.give(self._options.rate)
            self._driver.ensure_up()
            if self._driver.failures > FAILURES_MAX + len(self.kills):
                raise PipelineError(f"the driver stops by itself, again and again: {self._driver.sentence}")
            # Each kind as often as the others, in an order that the seed gives.
            kinds = kinds or self._random.sample(_KINDS, len(_KINDS))
            if now_s >= next_kill_s and self._driver.is_running and self._may_kill(kinds[-1]):
                if self._kill(kinds[-1]):
                    self.kills.append(kinds.pop())
                    self._batches = self._committed()
                next_kill_s = time.monotonic() + self._times.uniform(*_PAUSE_S)
            _wait(now_s + _TICK_S - time.monotonic())
        if missing := [each for each in _KINDS if each not in self.kills]:
            raise QuestionError(
                f"no {' and no '.join(missing)} could be killed in {(time.monotonic() - started_s) / 60:.0f} minutes, so that "
                "nothing is known: too few batches came to an end meanwhile; give it more --minutes"
            )
        self.rows_in = self._sources.count
        self._say(f"{self.rows_in:,} rows are in after {len(self.kills)} kills; reading what is left")
        self._driver.stop()
        self._cluster.wait_until_whole()
        if self._sources.has_event_time:
            # What still waits for late rows comes out.
            self.test.advance_time(_DAY)
        self.test.run()

    def differences(self) -> list[str]:
        """What differs from an undisturbed run over the same records, and what the audit finds; nothing where all is well."""
        from tidelog.spark.testing_kit.pipeline_test import Run  # noqa: PLC0415 - with Spark

        self._say("the same records once more, undisturbed")
        calm = self.test.another_world()
        for act in self.test.acts:
            if not isinstance(act, Run):
                calm.do(act)
        calm.do(Run())
        expected, found = self._rows(calm.everything()), self._rows(self.test.world.everything())
        self.rows_out = sum(map(len, found.values()))
        differing = {name: differences(rows, found[name]) for name, rows in expected.items()}
        told = [each.told(name, "undisturbed") for name, each in differing.items() if each]
        return told + self._audited()

    def _rows(self, rows: Mapping[str, Sequence[Mapping[str, Any]]]) -> dict[str, list[dict[str, Any]]]:
        ignored = self._options.ignore
        return {
            name: [{column: value for column, value in row.items() if column not in ignored} for row in each]
            for name, each in rows.items()
        }

    def _audited(self) -> list[str]:
        told = []
        settings = {"bootstrap_servers": self._cluster.bootstrap_servers}
        for pipeline in self.test.world.pipelines:
            if not pipeline.is_decided:
                continue
            for entry in read_audit(settings, pipeline.name).entries:
                for each in (verify_sink(sink, settings) for sink in entry.sinks):
                    if each.outcome is Outcome.DIFFERENT:
                        what = f"batch {entry.batch_id} of {self.test.world.declared_text(pipeline.name)}"
                        told.append(
                            f"{what}: the sink {each.sink} has {each.rows} rows that are not those of the batch"
                        )
                    self.verified += each.outcome is Outcome.SAME
                    self.unknown += each.outcome is Outcome.UNKNOWN
        return told

    def _kill(self, kind: str) -> bool:
        """False where there is nothing of the kind that may be killed now."""
        if kind == WORKER:
            self._sources.give(self._options.rate)
            self._wait_for_a_batch()
            if not self._driver.kill_worker(self._times):
                return False
            self._say("killed a worker")
        elif kind == DRIVER:
            step = self._random.choice(_STEPS)
            self._driver.doom(step)
            # Where all was read already, so that there is a batch.
            self._sources.give(self._options.rate)
            where = f"behind {step}" if self._driver.wait_until_dead(_BATCH_TIMEOUT_S) else "at no step"
            self._say(f"killed the driver {where}")
            self._driver.start()
        else:
            if not self._cluster.is_whole():
                return False
            node = self._random.randrange(NODES) + 1
            away_s = self._times.uniform(*_AWAY_S)
            self._cluster.kill(node)
            self._say(f"killed node {node} for {away_s:.1f} s")
            _wait(away_s)
            self._cluster.start(node)
        return True

    def _may_kill(self, kind: str) -> bool:
        """Whether some batches are done since the last kill: drivers that all die in one batch would show one batch."""
        return kind == BROKER or self._committed() >= self._batches + _BATCHES_BETWEEN

    def _committed(self) -> int:
        """Batches that Spark has written down as done, of all queries."""
        world = self.test.world
        places = [Path(world.file.checkpoint_of(each)) for each in world.pipelines]
        return sum(_newest(commits) + 1 for place in places for commits in place.glob("*/commits"))

    def _wait_for_a_batch(self) -> None:
        """Until a batch is under way, and has been for a moment: between batches there is little that a kill could spoil."""
        until_s = time.monotonic() + _BATCH_TIMEOUT_S
        while time.monotonic() < until_s:
            while not self._is_in_a_batch() and time.monotonic() < until_s:
                _wait(_LOOK_S)
            _wait(self._times.uniform(0.0, _WITHIN_S))
            if self._is_in_a_batch():
                return

    def _is_in_a_batch(self) -> bool:
        """Whether Spark has written down what a batch reads, and not that it is done."""
        world = self.test.world
        places = [Path(world.file.checkpoint_of(each)) for each in world.pipelines]
        return any(
            _newest(offsets) > _newest(offsets.parent / "commits")
            for place in places
            for offsets in place.glob("*/offsets")
        )

    def _say(self, sentence: str) -> None:
        if not self._options.as_json:
            print_line(sentence)


class _Sources:
    """The topics that rows go to, and where they come from."""

    def __init__(
        self,
        test: PipelineTest,
        spark: SparkSession,
        given: Mapping[str, Sequence[Any]],
        options: ChaosOptions,
        random: Random,
    ) -> None:
        """QuestionError for a topic that no row can be had for."""
        self.count = 0
        self._test = test
        self._given = given
        written = set(written_topics(test.declared))
        self.topics = [name for name in source_topics(test.declared) if name not in written]
        self.topics += [name for name in given if name not in self.topics]
        sources = {topic: sources_of(test.declared, topic) for topic in self.topics}
        unknown = [topic for topic, found in sources.items() if not found]
        if unknown:
            raise QuestionError(f"--rows {unknown[0]}=...: no source reads that topic")
        if not self.topics:
            raise QuestionError("no source names its topic: give rows for one, as in --rows TOPIC=FILE")
        self.has_event_time = any(each.watermark is not None for found in sources.values() for each in found)
        self._made: dict[str, RandomRows] = {}
        for topic, found in sources.items():
            if topic in given:
                continue
            source = found[0]
            if source.decode is None:
                raise QuestionError(
                    f"{topic} has no decoder that says what rows are: give some, as in --rows {topic}=FILE"
                )
            watermark = source.watermark
            event_column = None if watermark is None else watermark.column
            if watermark is not None and watermark.expression is not None:
                # The column that the expression is about, as in `timestamp_millis(at_ms)`.
                names = columns_of(spark, source.decode).names
                event_column = next((name for name in names if name in watermark.expression), None)
            late = _lateness(options.late, None if watermark is None else watermark.delay)
            self._made[topic] = RandomRows(columns_of(spark, source.decode), random, event_column, late)
        self._began = dt.datetime.now(dt.UTC).replace(microsecond=0)

    def give(self, rows: int) -> None:
        """So many to each topic."""
        for topic in self.topics:
            first = self.count
            if topic in self._given:
                own = self._given[topic]
                self._test.given(topic, [own[number % len(own)] for number in range(first, first + rows)])
            else:
                made = self._made[topic]
                now = self._began + dt.timedelta(seconds=first / max(1, rows))
                self._test.given(topic, [made.row(number, now) for number in range(first, first + rows)])
        self.count += rows


def _lateness(given: str | None, delay: str | None) -> dt.timedelta:
    """How late rows may be: as it is asked for, else half of what the source waits for."""
    if given is not None:
        return dt.timedelta() if given.strip().startswith("0") else duration_of(given)
    if delay is None or delay.strip().startswith("0"):
        return dt.timedelta()
    return duration_of(delay) / 2


def _given_rows(options: ChaosOptions) -> dict[str, list[Any]]:
    """TOPIC=FILE, of JSON lines: objects are rows, anything else is a value as it is. QuestionError."""
    count = options.minutes * 60 * options.rate
    if count > ROWS_MAX:
        raise QuestionError(f"{count:,.0f} rows are too many to compare: {ROWS_MAX:,} at most")
    found: dict[str, list[Any]] = {}
    for text in options.rows:
        topic, has_file, name = text.partition("=")
        if not has_file or not topic:
            raise QuestionError(f"--rows {text}: give TOPIC=FILE")
        try:
            lines = Path(name).read_text().splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise QuestionError(f"--rows {text}: {name} cannot be read: {error}") from None
        rows = [_row_of(each) for each in lines if each.strip()]
        if not rows:
            raise QuestionError(f"--rows {text}: {name} has no rows")
        found[topic] = rows
    return found


def _row_of(line: str) -> Any:
    try:
        parsed = json.loads(line)
    except ValueError:
        return line
    return parsed if isinstance(parsed, dict) else line


def _newest(folder: Path) -> int:
    """The last batch that has an entry there."""
    try:
        return max((int(each.name) for each in folder.iterdir() if each.name.isdigit()), default=-1)
    except OSError:
        return -1


def _wait(seconds: float) -> None:
    select.select([], [], [], max(0.0, seconds))
