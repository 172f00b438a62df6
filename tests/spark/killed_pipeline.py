"""A run of a pipeline's file that is killed in the middle of an end: python -m tests.spark.killed_pipeline FILE KIND."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from tests.spark.killed_end import die_at
from tests.spark.topics import local_session
from tidelog.spark.pipelines.pipeline_file import load_pipelines
from tidelog.spark.pipelines.pipeline_run import PipelineRun


def main() -> None:
    path, kind = sys.argv[1:]
    die_at(kind)
    run = PipelineRun(local_session(Path(tempfile.mkdtemp())), load_pipelines(path), until_caught_up=True)
    run.start()
    run.follow(lambda _: None)


if __name__ == "__main__":
    main()
