"""A Spark session of this machine for commands that look at a pipeline's rows and write nothing: `preview`, `diff`."""

from __future__ import annotations

import datetime as dt
import decimal
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import ModuleType
from typing import TYPE_CHECKING, Any

from tidelog.cli.admin_session import print_line, print_table
from tidelog.cli.pipeline.pipeline import load, starting
from tidelog.cli.rendering import Json, bytes_as_json, json_line
from tidelog.spark.connect_session import SCHEME
from tidelog.spark.pipelines.definition import RECORD, Pipeline
from tidelog.spark.pipelines.errors import DefinitionError, PipelineError
from tidelog.spark.pipelines.pipeline_file import PipelineFile
from tidelog.spark.pipelines.session import SessionSettings, session_conf, start_session
from tidelog.spark.pipelines.validation import problems_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Of a cell on a terminal; --json has all of it.
_CELL_CHARACTERS_MAX = 60


def checked_file(path: str, only: Sequence[str], bootstrap: str | None) -> PipelineFile:
    """The pipelines of a file, with nothing wrong in them as far as that shows without Spark. PipelineFileError,
    DefinitionError."""
    file = load(path, only, bootstrap)
    if problems := problems_of(file.pipelines):
        raise DefinitionError(problems)
    return file


@contextmanager
def batch_session(
    pipelines: Sequence[Pipeline], modules: Sequence[ModuleType], settings: SessionSettings, *, as_json: bool
) -> Iterator[SparkSession]:
    """PipelineError where Spark does not start."""
    conf = session_conf(pipelines, settings, is_checkpoint_local=True)
    if conf["spark.master"].startswith(SCHEME):
        raise PipelineError(
            "this command looks at Spark's plans, which nobody sees over Spark Connect: give it a Spark of its own, as in "
            "--master 'local[*]'"
        )
    if not as_json:
        print_line(starting(conf["spark.master"]))
    spark = start_session(conf, modules, is_verbose=settings.is_verbose)
    try:
        yield spark
    finally:
        spark.stop()


def row_as_json(row: Mapping[str, Any]) -> dict[str, Json]:
    return {name: _as_json(value) for name, value in row.items()}


def print_rows(columns: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> None:
    print_table(list(columns), [[_cell(name, row[name]) for name in columns] for row in rows])


def _cell(name: str, value: Any) -> object:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if name == RECORD and isinstance(value, dict) and "offset" in value:
        return f"{value['topic']}-{value['partition']} at {value['offset']}"
    found = _as_json(value)
    text = found if isinstance(found, str) else json_line({"": found})[4:-1]
    return text if len(text) <= _CELL_CHARACTERS_MAX else f"{text[: _CELL_CHARACTERS_MAX - 3]}..."


def _as_json(value: Any) -> Json:
    match value:
        case bytes() | bytearray():
            return bytes_as_json(bytes(value))
        case dt.datetime() | dt.date():
            return value.isoformat()
        case decimal.Decimal():
            return str(value)
        case float() if not math.isfinite(value):
            return str(value)
        case None | bool() | int() | float() | str():
            return value
        case dict():
            return {str(name): _as_json(each) for name, each in value.items()}
        case list() | tuple():
            return [_as_json(each) for each in value]
    return str(value)
