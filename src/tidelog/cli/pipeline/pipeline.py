"""`tidelog pipeline run`, `validate` and `package`: pipelines of a file on Spark, with their progress."""

from __future__ import annotations

import dataclasses
import errno
import logging
import os
import signal
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tidelog.cli.admin_session import (
    EXIT_REFUSED,
    EXIT_WRONG_QUESTION,
    QuestionError,
    complain,
    parse_pairs,
    print_json,
    print_line,
)
from tidelog.cli.cluster_login import login_properties
from tidelog.cli.node.broker_options import DEFAULT_METRICS_HOST
from tidelog.model.clock import SystemClock
from tidelog.net.errors import ListenError
from tidelog.spark.connect_session import SCHEME
from tidelog.spark.outputs.storage import Storage
from tidelog.spark.pipelines.errors import DefinitionError, PackageError, PipelineError, PipelineFileError
from tidelog.spark.pipelines.lineage.run_lineage import DEFAULT_NAMESPACE, Lineage
from tidelog.spark.pipelines.pipeline_file import PipelineFile, is_local, load_pipelines
from tidelog.spark.pipelines.progress import PipelineProgress, metrics_text, progress_families
from tidelog.spark.pipelines.session import SessionSettings, session_conf, start_session
from tidelog.spark.pipelines.sink_validation import sink_warnings
from tidelog.spark.pipelines.validation import CheckedPipeline, check_pipeline, problems_of, problems_of_file

if TYPE_CHECKING:
    from tidelog.spark.pipelines.definition import Pipeline
    from tidelog.spark.pipelines.lineage.event_sender import EventSender
    from tidelog.spark.pipelines.pipeline_run import PipelineRun
    from tidelog.spark.pipelines.query_plan import PlannedQuery
    from tidelog.spark.watching.metrics_port import MetricsPort

log = logging.getLogger(__name__)

COMMAND = "pipeline"


@dataclass(frozen=True, slots=True)
class RunOptions:
    file: str
    only: Sequence[str]
    until_caught_up: bool
    master: str | None
    package: str | None
    conf: Sequence[str]
    bootstrap: str | None
    is_verbose: bool
    as_json: bool
    metrics_port: int | None = None
    metrics_host: str = DEFAULT_METRICS_HOST
    metrics_file: str | None = None
    lineage: str | None = None
    lineage_namespace: str = DEFAULT_NAMESPACE


def run_pipelines(options: RunOptions) -> int:
    """0 once they have caught up or were stopped."""
    try:
        settings = SessionSettings(
            master=options.master,
            package=options.package,
            conf=parse_pairs(options.conf),
            is_verbose=options.is_verbose,
        )
        file = load(options.file, options.only, options.bootstrap)
        _check(file)
        _run(file, settings, options)
    except (QuestionError, PipelineFileError, DefinitionError) as error:
        return _complain(error, EXIT_WRONG_QUESTION, is_verbose=options.is_verbose)
    except (PipelineError, ListenError) as error:
        return _complain(error, EXIT_REFUSED, is_verbose=options.is_verbose)
    return 0


def validate_pipelines(path: str, only: Sequence[str], *, without_spark: bool, as_json: bool) -> int:
    """0 if there is nothing wrong with them. What shows without Spark is told before Spark is started."""
    told = 0

    def tell(problems: Iterable[str]) -> None:
        nonlocal told
        for each in problems:
            told += 1
            if as_json:
                print_json([{"problem": each}])
            else:
                complain(COMMAND, each, EXIT_WRONG_QUESTION)
        sys.stdout.flush()

    try:
        file = load(path, only, None)
    except PipelineFileError as error:
        tell(error.problems)
        return EXIT_WRONG_QUESTION
    checked = [check_pipeline(each) for each in file.pipelines]
    tell(problems_of_file(checked))
    if not without_spark:
        try:
            tell(_plan_problems(file, checked))
        except PipelineError as error:
            code = EXIT_WRONG_QUESTION if told else EXIT_REFUSED
            return complain(COMMAND, f"{error}; --without-spark checks the rest", code)
    if not told:
        _warn(file.pipelines, as_json=as_json)
    if not told and not as_json:
        names = ", ".join(each.name for each in file.pipelines)
        print_line(f"nothing is wrong with {names}" + (", as far as that shows without Spark" if without_spark else ""))
    return EXIT_WRONG_QUESTION if told else 0


def _warn(pipelines: Sequence[Pipeline], *, as_json: bool) -> None:
    """Of pipelines in which nothing is wrong."""
    for pipeline in pipelines:
        for each in sink_warnings(pipeline):
            if as_json:
                print_json([{"warning": f"{pipeline.name}: {each}"}])
            else:
                complain(COMMAND, f"warning: {pipeline.name}: {each}", 0)


def build_package(output: str, more: Sequence[str], *, as_json: bool) -> int:
    """0 once the archive is there."""
    from tidelog.spark.pipelines.archive import build_archive  # noqa: PLC0415 - what only this needs

    path = Path(output)
    if path.suffix != ".zip":
        return complain(
            COMMAND, f"{output} has to end with .zip, by which Spark knows how to unpack it", EXIT_WRONG_QUESTION
        )
    try:
        built = build_archive(path, more)
    except PackageError as error:
        return complain(COMMAND, str(error), EXIT_REFUSED)
    except OSError as error:
        return complain(COMMAND, f"{output} cannot be written: {error.strerror or error}", EXIT_REFUSED)
    if as_json:
        print_json([{"path": str(built.path), "bytes": built.bytes, "packages": list(built.distributions)}])
    else:
        python = ".".join(map(str, sys.version_info[:2]))
        print_line(
            f"{built.path}: {built.bytes / 1e6:.0f} MB, {len(built.distributions)} packages, for Python {python}"
        )
    return 0


def load(path: str, only: Sequence[str], bootstrap: str | None) -> PipelineFile:
    """The pipelines of a file, for the cluster and with the login that the command line names, if it names any."""
    file = load_pipelines(path, only)
    login = login_properties()
    if bootstrap is None and not login:
        return file
    return dataclasses.replace(file, pipelines=[each.moved_to(bootstrap, login) for each in file.pipelines])


def _check(file: PipelineFile) -> None:
    problems = problems_of(file.pipelines)
    if problems:
        raise DefinitionError(problems)


def _run(file: PipelineFile, settings: SessionSettings, options: RunOptions) -> None:
    from tidelog.cli.pipeline.pipeline_display import progress_display  # noqa: PLC0415 - what only a run needs
    from tidelog.spark.pipelines.pipeline_run import PipelineRun  # noqa: PLC0415

    local = all(is_local(file.checkpoint_of(each)) for each in file.pipelines)
    conf = session_conf(file.pipelines, settings, is_checkpoint_local=local)
    metrics_file = _metrics_file(options)
    run: PipelineRun | None = None
    # Before Spark is started, for whom a port that is taken would be a long wait.
    with (
        _metrics_port(options, lambda: run.progress if run is not None else []) as metrics,
        _events_of_lineage(options) as events,
        progress_display(as_json=options.as_json) as display,
    ):
        if metrics is not None:
            display.say(f"metrics are at {metrics.url}")
        display.say(starting(conf["spark.master"]))
        spark = start_session(conf, file.modules, is_verbose=options.is_verbose)
        try:
            clock = SystemClock()
            lineage = None if events is None else Lineage(events, options.lineage_namespace, spark.version, clock)
            run = PipelineRun(spark, file, until_caught_up=options.until_caught_up, clock=clock, lineage=lineage)

            def show(progress: Sequence[PipelineProgress]) -> None:
                display.show(progress)
                if metrics_file is not None:
                    _keep_metrics(metrics_file, progress)

            with _on_signals(run.stop):
                run.start()
                show(run.progress)
                run.follow(show, lambda: display.say("stopping after the batches that are under way"))
        finally:
            spark.stop()


def starting(master: str) -> str:
    """What is told of a session that is about to start, without a token that a URL may have."""
    return (
        f"connecting to Spark at {master.partition(';')[0]}"
        if master.startswith(SCHEME)
        else f"starting Spark on {master}"
    )


def _metrics_file(options: RunOptions) -> Path | None:
    """Where metrics are kept, seen to be a place for them. QuestionError.

    Those of the last run stay until there are others: an alarm is not called off by another try.
    """
    if options.metrics_file is None:
        return None
    path = Path(options.metrics_file).absolute()
    try:
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        with tempfile.TemporaryFile(dir=path.parent):
            pass
    except OSError as error:
        raise QuestionError(f"--metrics-file {path} cannot be written: {error.strerror or error}") from error
    return path


def _keep_metrics(path: Path, progress: Sequence[PipelineProgress]) -> None:
    try:
        Storage.at(str(path.parent)).write(path.name, metrics_text(*progress).encode(), is_durable=False)
    except OSError as error:
        # No batch waits for who only watches; the next one tries again.
        log.warning("metrics cannot be written to %s: %s", path, error.strerror or error)


@contextmanager
def _metrics_port(
    options: RunOptions, progress: Callable[[], Sequence[PipelineProgress]]
) -> Iterator[MetricsPort | None]:
    """Open while the pipelines run, if it is asked for. ListenError."""
    if options.metrics_port is None:
        yield None
        return
    from tidelog.spark.watching.metrics_port import MetricsPort  # noqa: PLC0415 - what only this needs

    families = progress_families(progress)
    with MetricsPort(options.metrics_port, lambda: families, host=options.metrics_host) as port:
        yield port


@contextmanager
def _events_of_lineage(options: RunOptions) -> Iterator[EventSender | None]:
    """On their way while the pipelines run, if they are asked for. LineageError."""
    if options.lineage is None:
        yield None
        return
    from tidelog.spark.pipelines.lineage.event_sender import EventSender, transport_to  # noqa: PLC0415

    sender = EventSender(transport_to(options.lineage))
    try:
        yield sender
    finally:
        sender.close()


@contextmanager
def _on_signals(stop: Callable[[], None]) -> Iterator[None]:
    """The first Ctrl-C or SIGTERM asks for an end, the second one does not wait for it."""

    def handle(number: int, frame: object) -> None:  # noqa: ARG001 - what signals are called with
        for each in before:
            signal.signal(each, signal.default_int_handler)
        stop()

    # Spark has put its own handler there, which cancels all jobs.
    before = {each: signal.signal(each, handle) for each in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


def _plan_problems(file: PipelineFile, checked: Sequence[CheckedPipeline]) -> Iterator[str]:
    """What Spark finds wrong, as it finds it."""
    # A plan is the same wherever it would run, and what is wrong with Spark's own settings is not asked here.
    settings = SessionSettings(master="local[1]", conf={"spark.ui.enabled": "false"})
    conf = session_conf([each.sound for each in checked], settings, is_checkpoint_local=True)
    spark = start_session(conf, file.modules, is_verbose=False)
    try:
        from tidelog.spark.pipelines.query_plan import plan_checked  # noqa: PLC0415 - imports PySpark

        for each in checked:
            queries, problems = plan_checked(spark, each)
            yield from problems
            if not problems and not each.problems:
                yield from _table_problems(file, each.sound, queries)
    finally:
        spark.stop()


def _table_problems(file: PipelineFile, pipeline: Pipeline, queries: Sequence[PlannedQuery]) -> Iterator[str]:
    """What tables and databases say against rows of these columns."""
    from tidelog.spark.pipelines.query_sinks import output_problems, query_sinks  # noqa: PLC0415

    for each in queries:
        if each.sinks:
            checkpoint = file.checkpoint_of(pipeline)
            sinks = query_sinks(pipeline, each.sinks, checkpoint=checkpoint, query=each.name, beside=file.beside)
            yield from (f"{pipeline.name}: {problem}" for problem in output_problems(sinks))


def _complain(error: Exception, code: int, *, is_verbose: bool) -> int:
    if is_verbose:
        traceback.print_exception(error)
    problems = error.problems if isinstance(error, DefinitionError | PipelineFileError) else [str(error)]
    for each in problems:
        complain(COMMAND, each, code)
    return code
