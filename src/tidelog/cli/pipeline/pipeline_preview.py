"""`tidelog pipeline preview`: the first rows of each step of a pipeline, on a sample of what is there."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from tidelog.cli.admin_session import EXIT_REFUSED, EXIT_WRONG_QUESTION, complain, print_json, print_line
from tidelog.cli.pipeline.batch_session import batch_session, checked_file, print_rows, row_as_json
from tidelog.cli.pipeline.pipeline import COMMAND
from tidelog.client.errors import ClientError
from tidelog.spark.errors import OptionError, SourceError
from tidelog.spark.pipelines.errors import DefinitionError, PipelineError, PipelineFileError
from tidelog.spark.pipelines.session import SessionSettings

if TYPE_CHECKING:
    from tidelog.spark.pipelines.preview import PreviewedStep


class PreviewOptions(msgspec.Struct, frozen=True):
    """What was typed."""

    file: str
    only: Sequence[str]
    rows: int
    sample: int
    master: str | None
    bootstrap: str | None
    is_verbose: bool
    as_json: bool


def preview_pipelines(options: PreviewOptions) -> int:
    """0 where every step could be shown."""
    try:
        return _previewed(options)
    except (PipelineFileError, OptionError) as error:
        return complain(COMMAND, str(error), EXIT_WRONG_QUESTION)
    except DefinitionError as error:
        for each in error.problems:
            complain(COMMAND, each, EXIT_WRONG_QUESTION)
        return EXIT_WRONG_QUESTION
    except (PipelineError, SourceError, ClientError) as error:
        return complain(COMMAND, str(error), EXIT_REFUSED)


def _previewed(options: PreviewOptions) -> int:
    file = checked_file(options.file, options.only, options.bootstrap)
    settings = SessionSettings(master=options.master, conf={"spark.ui.enabled": "false"}, is_verbose=options.is_verbose)
    code = 0
    with batch_session(file.pipelines, file.modules, settings, as_json=options.as_json) as spark:
        from tidelog.spark.pipelines.preview import preview  # noqa: PLC0415 - imports PySpark

        for pipeline in file.pipelines:
            for step in preview(spark, pipeline, rows=options.rows, sample=options.sample):
                if options.as_json:
                    _print_json(pipeline.name, step)
                else:
                    _print(pipeline.name, step)
                sys.stdout.flush()
                if step.problem is not None:
                    code = complain(COMMAND, f"{pipeline.name}: {step.name}: {step.problem}", EXIT_REFUSED)
    return code


def _print(pipeline: str, step: PreviewedStep) -> None:
    print_line("")
    print_line(f"{pipeline}, {step.name}" + ("" if step.rows or step.problem else ": no rows"))
    if step.rows:
        print_rows(step.columns, step.rows)
    if step.has_more:
        print_line("...")


def _print_json(pipeline: str, step: PreviewedStep) -> None:
    rows = [row_as_json(each) for each in step.rows]
    print_json(
        [
            {
                "pipeline": pipeline,
                "step": step.name,
                "columns": step.columns,
                "rows": rows,
                "has_more": step.has_more,
                "problem": step.problem,
            }
        ]
    )
