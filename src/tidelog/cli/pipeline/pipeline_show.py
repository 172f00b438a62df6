"""`tidelog pipeline show`: the graph of pipelines and how far behind they were over time, on the terminal or as a picture."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tidelog.cli.admin_session import EXIT_REFUSED, EXIT_WRONG_QUESTION, complain, print_line
from tidelog.cli.pipeline.left_progress import left_by, query_names, state_of
from tidelog.cli.pipeline.pipeline import COMMAND, load
from tidelog.spark.pipelines.definition import Pipeline
from tidelog.spark.pipelines.errors import PipelineFileError
from tidelog.spark.pipelines.picture.graph import graph_of
from tidelog.spark.pipelines.picture.pipeline_picture import ShownPipeline, ShownQuery, picture_of
from tidelog.spark.pipelines.picture.pipeline_text import lines_of
from tidelog.spark.pipelines.pipeline_file import PipelineFile
from tidelog.spark.pipelines.validation import wrong_arguments

# What more boxes would make of a picture, nobody can see; and their lines take time to lay.
NODES_MAX = 300


def show_pipelines(path: str, only: Sequence[str], *, svg: str | None, bootstrap: str | None) -> int:
    """0 once they are shown."""
    try:
        file = load(path, only, bootstrap)
    except PipelineFileError as error:
        return complain(COMMAND, str(error), EXIT_WRONG_QUESTION)
    problems = [problem for each in file.pipelines for problem in wrong_arguments(each)]
    for problem in problems:
        complain(COMMAND, problem, EXIT_WRONG_QUESTION)
    if problems:
        return EXIT_WRONG_QUESTION
    shown = [_shown(file, each) for each in file.pipelines]
    nodes = sum(len(each.graph.nodes) for each in shown)
    if nodes > NODES_MAX:
        sentence = (
            f"{path} has {nodes} sources, steps and sinks, and a picture has {NODES_MAX} at most: choose with --only"
        )
        return complain(COMMAND, sentence, EXIT_WRONG_QUESTION)
    if svg is None:
        for index, each in enumerate(shown):
            for line in ([""] if index else []) + list(lines_of(each)):
                print_line(line)
        return 0
    try:
        Path(svg).write_text(picture_of(shown), encoding="utf-8")
    except OSError as error:
        return complain(COMMAND, f"{svg} cannot be written: {error.strerror or error}", EXIT_REFUSED)
    print_line(f"{svg} shows {', '.join(each.graph.name for each in shown)}")
    return 0


def _shown(file: PipelineFile, pipeline: Pipeline) -> ShownPipeline:
    left = left_by(file, pipeline)
    queries = [ShownQuery(name, state_of(left, name), left.samples_of(name)) for name in query_names(pipeline, left)]
    return ShownPipeline(graph_of(pipeline), queries)
