"""`tidelog pipeline status`: how far pipelines are, from what their last run has left and from their consumer groups."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tidelog.cli.admin_session import EXIT_REFUSED, EXIT_WRONG_QUESTION, administer, complain, print_json, print_table
from tidelog.cli.pipeline.left_progress import LeftProgress, left_by, query_names, state_of
from tidelog.cli.pipeline.pipeline import COMMAND, load
from tidelog.cli.pipeline.pipeline_display import as_row
from tidelog.cli.rendering import Json
from tidelog.client.admin import AsyncAdmin
from tidelog.client.errors import ClientError
from tidelog.spark.client_settings import common_settings
from tidelog.spark.errors import OptionError
from tidelog.spark.pipelines.definition import DEFAULT_BOOTSTRAP, Pipeline
from tidelog.spark.pipelines.errors import PipelineFileError
from tidelog.spark.pipelines.progress import QueryProgress
from tidelog.spark.pipelines.query_options import source_options
from tidelog.spark.pipelines.validation import wrong_arguments
from tidelog.spark.source.source_options import parse_source_options


def show_status(path: str, only: Sequence[str], *, bootstrap: str | None, as_json: bool) -> int:
    try:
        file = load(path, only, bootstrap)
    except PipelineFileError as error:
        return complain(COMMAND, str(error), EXIT_WRONG_QUESTION)
    problems = [problem for each in file.pipelines for problem in wrong_arguments(each)]
    for problem in problems:
        complain(COMMAND, problem, EXIT_WRONG_QUESTION)
    if problems:
        return EXIT_WRONG_QUESTION
    code = 0
    rows: list[dict[str, Json]] = []
    for pipeline in file.pipelines:
        left = left_by(file, pipeline)
        code = max(code, 0 if left.is_known else EXIT_REFUSED)
        found = _rows(pipeline, left)

        async def work(admin: AsyncAdmin, found: list[dict[str, Json]] = found) -> None:
            for row in found:
                row["lag"] = await _lag(admin, str(row["query"]))

        servers = pipeline.sources[0].bootstrap or pipeline.bootstrap or DEFAULT_BOOTSTRAP
        try:
            login = _login(pipeline)
        except OptionError as error:
            return complain(COMMAND, f"{pipeline.name}: {error}", EXIT_WRONG_QUESTION)
        code = max(code, administer(COMMAND, servers, work, login))
        rows += found
    if as_json:
        print_json(rows)
    else:
        titles = ("query", "state", "lag", "rows_per_second", "batch_id", "batch_rows", "batch_at", "query_id")
        shown = [[_shown(row.get(title)) for title in titles] for row in rows]
        print_table([title.replace("_per_second", "/s").replace("_", " ") for title in titles], shown)
        for row in rows:
            if row["error"] is not None:
                complain(COMMAND, f"{row['query']}: {row['error']}", 1)
    return code


def _login(pipeline: Pipeline) -> dict[str, Any]:
    """The options of the pipeline's clients, as its own queries have them."""
    options = parse_source_options(source_options(pipeline, pipeline.sources[0], group_id=pipeline.name))
    login = common_settings(options.client)
    del login["client_id"]
    return login


def _rows(pipeline: Pipeline, left: LeftProgress) -> list[dict[str, Json]]:
    """One for each query of a pipeline, without its lag."""
    rows: list[dict[str, Json]] = []
    for name in query_names(pipeline, left):
        known = left.query(name) or QueryProgress(query=name, query_id="", run_id="")
        rows.append({"pipeline": pipeline.name, **as_row(known), "state": state_of(left, name)})
    return rows


async def _lag(admin: AsyncAdmin, group_id: str) -> int | None:
    """Of the consumer group that a query commits to; None where it has committed nothing."""
    try:
        lags = await admin.group_lag(group_id)
    except ClientError:
        return None
    known = [each.lag for each in lags if each.lag is not None]
    return sum(known) if known else None


def _shown(value: Json) -> object:
    return "-" if value is None or value == "" else value
