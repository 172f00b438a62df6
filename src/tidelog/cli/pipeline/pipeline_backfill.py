"""`tidelog pipeline backfill`: rows of a range of time made anew. Shows what would be replaced; replaces only when told to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import msgspec

from tidelog.cli.admin_session import (
    EXIT_REFUSED,
    EXIT_WRONG_QUESTION,
    QuestionError,
    complain,
    print_json,
    print_line,
    print_table,
)
from tidelog.cli.pipeline.batch_session import batch_session, checked_file
from tidelog.cli.pipeline.pipeline import COMMAND
from tidelog.cli.pipeline.pipeline_diff import bound_of, check_one
from tidelog.cli.rendering import Json, time_as_text
from tidelog.client.errors import ClientError
from tidelog.spark.errors import OptionError, SinkError, SourceError
from tidelog.spark.pipelines.errors import DefinitionError, PipelineError, PipelineFileError
from tidelog.spark.pipelines.pipeline_file import PipelineFile
from tidelog.spark.pipelines.session import SessionSettings
from tidelog.spark.pipelines.sink_targets import chosen_sink
from tidelog.spark.source.offset_bounds import OffsetBound

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tidelog.spark.pipelines.backfill import PreparedBackfill
    from tidelog.spark.sink.audit_entry import Replacement

# As many as fit a screen; --json has all.
_SHOWN_MAX = 30
_NOTHING = "nothing was changed: --execute does it"


class BackfillOptions(msgspec.Struct, frozen=True):
    """What was typed."""

    file: str
    only: str | None
    since: str
    until: str
    into: str | None
    sink: str | None
    execute: bool
    master: str | None
    package: str | None
    bootstrap: str | None
    is_verbose: bool
    as_json: bool


def backfill_pipeline(options: BackfillOptions) -> int:
    """0 where it was done, or could be."""
    try:
        bounds = bound_of(options.since), bound_of(options.until)
        file = checked_file(options.file, () if options.only is None else (options.only,), options.bootstrap)
        check_one(file)
        _check_sink(file, options)
        if options.into is None:
            _run(file, options, lambda spark: _replaced(spark, file, options, bounds))
        else:
            into = options.into
            _run(file, options, lambda spark: _written_beside(spark, file, options, bounds, into))
    except (QuestionError, PipelineFileError, OptionError) as error:
        return complain(COMMAND, str(error), EXIT_WRONG_QUESTION)
    except DefinitionError as error:
        for each in error.problems:
            complain(COMMAND, each, EXIT_WRONG_QUESTION)
        return EXIT_WRONG_QUESTION
    except (PipelineError, SourceError, SinkError, ClientError) as error:
        return complain(COMMAND, str(error), EXIT_REFUSED)
    return 0


def _check_sink(file: PipelineFile, options: BackfillOptions) -> None:
    """QuestionError, DefinitionError."""
    if options.into is not None:
        chosen_sink(file.pipelines[0], options.sink)
    elif options.sink is not None:
        raise QuestionError("--sink chooses what is written beside: give --into as well")


def _run(file: PipelineFile, options: BackfillOptions, work: Callable[[SparkSession], None]) -> None:
    from tidelog.spark.pipelines.backfill import table_of  # noqa: PLC0415 - imports PySpark

    if options.into is None:
        # Before Spark is started, for what no look at rows would change.
        table_of(file.pipelines[0])
    settings = SessionSettings(
        master=options.master,
        package=options.package,
        conf={"spark.ui.enabled": "false"},
        is_verbose=options.is_verbose,
    )
    with batch_session(file.pipelines, file.modules, settings, as_json=options.as_json) as spark:
        work(spark)


def _replaced(
    spark: SparkSession, file: PipelineFile, options: BackfillOptions, bounds: tuple[OffsetBound, OffsetBound]
) -> None:
    from tidelog.spark.pipelines.backfill import Backfill  # noqa: PLC0415

    backfill = Backfill(spark, file, file.pipelines[0])
    if options.execute and (left := backfill.finish_left()) is not None and not options.as_json:
        print_line(f"a backfill that had died is recorded: {_sentence(left)}")
    prepared = backfill.plan(*bounds)
    made = backfill.execute(prepared) if options.execute else None
    if options.as_json:
        print_json([_row(prepared, made)])
        return
    _print_plan(prepared)
    print_line(_NOTHING if made is None else _sentence(made))


def _written_beside(
    spark: SparkSession,
    file: PipelineFile,
    options: BackfillOptions,
    bounds: tuple[OffsetBound, OffsetBound],
    into: str,
) -> None:
    from tidelog.spark.pipelines.backfill_beside import plan_beside, write_beside  # noqa: PLC0415

    pipeline = file.pipelines[0]
    plan = plan_beside(file, pipeline, bounds, into)
    rows = write_beside(spark, file, pipeline, plan, into, options.sink) if options.execute else None
    if options.as_json:
        print_json([{"pipeline": pipeline.name, "into": plan.place, "records": plan.records, "rows": rows}])
        return
    done = f"would be read into a new table: {_NOTHING}" if rows is None else f"are {_counted(rows, 'row')} there"
    print_line(f"{_counted(plan.records, 'record')} at most, for {plan.place}, {done}")


def _print_plan(prepared: PreparedBackfill) -> None:
    plan = prepared.plan
    sink = prepared.rows.label
    rows = [
        [each.batch_id, time_as_text(each.finished_ms), sum(found.rows for found in each.sinks if found.sink == sink)]
        for each in plan.batches
    ]
    print_table(["batch", "finished", "rows"], rows[:_SHOWN_MAX])
    if len(rows) > _SHOWN_MAX:
        print_line(f"and {len(rows) - _SHOWN_MAX} more batches, which --json has")
    for each in plan.ranges[:_SHOWN_MAX]:
        print_line(f"read again: {each.partition} from {each.start} to {each.end - 1}")
    if plan.is_ahead:
        print_line("the time reaches beyond the last batch: what comes then is left to the pipeline")


def _sentence(made: Replacement) -> str:
    batches = _counted(len(made.batches), "batch", "batches")
    rows = f"{_counted(made.staged.rows, 'row')} in {_counted(made.files, 'file')}"
    return f"{batches} of {made.sink} replaced by backfill {made.number}: {rows}"


def _counted(count: int, what: str, several: str = "") -> str:
    return f"{count:,} {what}" if count == 1 else f"{count:,} {several or f'{what}s'}"


def _row(prepared: PreparedBackfill, made: Replacement | None) -> dict[str, Json]:
    plan = prepared.plan
    ranges: Sequence[Json] = [
        {"topic": each.partition.topic, "partition": each.partition.partition, "start": each.start, "end": each.end}
        for each in plan.ranges
    ]
    return {
        "query": plan.query,
        "sink": prepared.rows.label,
        "backfill": plan.number,
        "batches": [each.batch_id for each in plan.batches],
        "read": ranges,
        "files": list(prepared.files),
        "is_ahead": plan.is_ahead,
        "executed": made is not None,
        "rows": None if made is None else made.staged.rows,
    }
