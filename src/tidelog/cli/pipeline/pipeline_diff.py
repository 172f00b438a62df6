"""`tidelog pipeline diff`: what two versions of a pipeline make of the same records."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import msgspec

from tidelog.cli.admin_session import EXIT_REFUSED, EXIT_WRONG_QUESTION, QuestionError, complain, print_json, print_line
from tidelog.cli.moments import parse_time
from tidelog.cli.pipeline.batch_session import batch_session, checked_file
from tidelog.cli.pipeline.pipeline import COMMAND
from tidelog.client.errors import ClientError
from tidelog.spark.errors import OptionError, SourceError
from tidelog.spark.pipelines.errors import DefinitionError, PipelineError, PipelineFileError
from tidelog.spark.pipelines.pipeline_file import PipelineFile
from tidelog.spark.pipelines.session import SessionSettings
from tidelog.spark.pipelines.sink_targets import chosen_sink
from tidelog.spark.source.offset_bounds import AtTimestamp, Earliest, Latest, OffsetBound

if TYPE_CHECKING:
    from tidelog.spark.pipelines.version_diff import Difference, VersionDiff


class DiffOptions(msgspec.Struct, frozen=True):
    """What was typed."""

    old: str
    new: str
    only: str | None
    since: str
    until: str
    sink: str | None
    key: str | None
    shown: int
    records_max: int
    master: str | None
    bootstrap: str | None
    is_verbose: bool
    as_json: bool


def diff_pipelines(options: DiffOptions) -> int:
    """0 where both make the same of the records, 1 where they do not."""
    try:
        return _compared(options)
    except (PipelineFileError, OptionError, QuestionError) as error:
        return complain(COMMAND, str(error), EXIT_WRONG_QUESTION)
    except DefinitionError as error:
        for each in error.problems:
            complain(COMMAND, each, EXIT_WRONG_QUESTION)
        return EXIT_WRONG_QUESTION
    except (PipelineError, SourceError, ClientError) as error:
        # Nobody who goes by the exit code should take it for a difference.
        return complain(COMMAND, str(error), EXIT_WRONG_QUESTION)


def bound_of(text: str) -> OffsetBound:
    """A time, or either end. QuestionError."""
    match text.strip().lower():
        case "earliest":
            return Earliest()
        case "latest":
            return Latest()
    return AtTimestamp(parse_time(text))


def _compared(options: DiffOptions) -> int:
    bounds = bound_of(options.since), bound_of(options.until)
    key = [name.strip() for name in (options.key or "").split(",") if name.strip()]
    only = () if options.only is None else (options.only,)
    files = [checked_file(path, only, options.bootstrap) for path in (options.old, options.new)]
    for file in files:
        check_one(file)
    (old,), (new,) = (file.pipelines for file in files)
    for pipeline in (old, new):
        chosen_sink(pipeline, options.sink)
    modules = [each for file in files for each in file.modules]
    settings = SessionSettings(master=options.master, conf={"spark.ui.enabled": "false"}, is_verbose=options.is_verbose)
    with batch_session([new], modules, settings, as_json=options.as_json) as spark:
        from tidelog.spark.pipelines.version_diff import diff_versions  # noqa: PLC0415 - imports PySpark

        found = diff_versions(
            spark,
            old,
            new,
            bounds,
            sink=options.sink,
            key=key,
            shown=options.shown,
            records_max=options.records_max,
        )
    if options.as_json:
        print_json([_summary(found), *(_row(each) for each in found.shown)])
    else:
        _print(found)
    return 0 if found.is_same else EXIT_REFUSED


def check_one(file: PipelineFile) -> None:
    """QuestionError where a file has several pipelines."""
    if len(file.pipelines) > 1:
        names = ", ".join(each.name for each in file.pipelines)
        raise QuestionError(f"{file.path.name} has {names}: choose one with --only")


def _print(found: VersionDiff) -> None:
    for fault in found.columns:
        print_line(fault)
    for each in found.shown:
        for line in lines_of(each):
            print_line(line)
    left_out = found.differences - len(found.shown)
    if left_out > 0:
        print_line(f"... and {left_out:,} more; --limit shows more of them")
    rows = f"{found.old_rows:,} rows of OLD, {found.new_rows:,} of NEW, {found.same_rows:,} the same"
    print_line(f"{rows}, of {found.records:,} records at most")


def lines_of(difference: Difference) -> list[str]:
    """As a diff of texts is read. With a key, and a row on either side, only what differs is said of the second."""
    if difference.key is None or len(difference.old) != 1 or len(difference.new) != 1:
        return [*(f"- {each}" for each in difference.old), *(f"+ {each}" for each in difference.new)]
    old, new = json.loads(difference.old[0]), json.loads(difference.new[0])
    changed = [name for name in old if old[name] != new.get(name)]
    said = ", ".join(f"{name} {_value(old[name])} -> {_value(new.get(name))}" for name in changed)
    return [f"~ {difference.key}: {said}"]


def _value(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _summary(found: VersionDiff) -> dict[str, Any]:
    return {
        "same": found.is_same,
        "records": found.records,
        "old_rows": found.old_rows,
        "new_rows": found.new_rows,
        "same_rows": found.same_rows,
        "differences": found.differences,
        "columns": found.columns,
    }


def _row(difference: Difference) -> dict[str, Any]:
    return {
        "key": None if difference.key is None else json.loads(difference.key),
        "old": [json.loads(each) for each in difference.old],
        "new": [json.loads(each) for each in difference.new],
    }
