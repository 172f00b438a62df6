"""What the last run of a pipeline has left in its checkpoint, as `status` and `show` tell it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tidelog.cli.admin_session import EXIT_REFUSED, complain
from tidelog.cli.pipeline.pipeline import COMMAND
from tidelog.spark.errors import OptionError
from tidelog.spark.pipelines.checkpoint_files import CheckpointFiles, checkpoint_settings
from tidelog.spark.pipelines.definition import Pipeline
from tidelog.spark.pipelines.pipeline_file import PipelineFile
from tidelog.spark.pipelines.progress import PipelineProgress, QueryProgress, read_history, read_progress
from tidelog.spark.watching.lag_history import LagSample, PipelineHistory

NEVER_RUN = "never run"
_DIED = "died"
_UNKNOWN = "-"


class LeftProgress(NamedTuple):
    progress: PipelineProgress | None
    history: PipelineHistory | None
    is_known: bool
    """Whether the checkpoint could be looked into."""

    def query(self, name: str) -> QueryProgress | None:
        queries = () if self.progress is None else self.progress.queries
        return next((each for each in queries if each.query == name), None)

    def samples_of(self, name: str) -> Sequence[LagSample]:
        history = None if self.history is None else self.history.by_query.get(name)
        return () if history is None else history.samples


def left_by(file: PipelineFile, pipeline: Pipeline) -> LeftProgress:
    """Of the last run. Where the checkpoint cannot be looked into, that is told."""
    try:
        files = CheckpointFiles.at(file.checkpoint_of(pipeline), checkpoint_settings(pipeline.storage, pipeline.spark))
        return LeftProgress(read_progress(files), read_history(files), is_known=True)
    except (OptionError, OSError) as error:
        complain(COMMAND, f"{pipeline.name}: what its last run has left cannot be read: {error}", EXIT_REFUSED)
        return LeftProgress(None, None, is_known=False)


def query_names(pipeline: Pipeline, left: LeftProgress) -> list[str]:
    """Dead letters are a query of their own where Spark's own sink writes, or where the checkpoint was begun so."""
    apart = pipeline.dead_letters_query
    is_apart = pipeline.has_dead_letters and (not pipeline.is_decided or left.query(apart) is not None)
    return [pipeline.name, *([apart] if is_apart else [])]


def state_of(left: LeftProgress, query: str) -> str:
    """As people are told it."""
    known = left.query(query)
    if known is None:
        return NEVER_RUN if left.is_known else _UNKNOWN
    if known.state == "running" and left.progress is not None and not left.progress.is_alive:
        return _DIED
    return known.state
