"""A driver that lives until it is killed: pipelines on a Spark of its own, in a process of its own.

    python -m tidelog.spark.testing_kit.chaos_driver JOB        JOB is a file with a pickled `ChaosJob`

    stdin     the name of a step (`batch_steps`): right behind the next one of that name this process dies by SIGKILL
    stdout    `running` once all queries have started; `failed: ` and why

SIGTERM has it stop behind the batches that are under way.
"""

from __future__ import annotations

import os
import pickle
import signal
import sys
import threading
from pathlib import Path
from typing import NamedTuple

from tidelog.spark import batch_steps
from tidelog.spark.batch_steps import BatchStep
from tidelog.spark.pipelines.errors import PipelineError
from tidelog.spark.pipelines.pipeline_file import PipelineFile

EXIT_FAILED = 1
_LINE_BYTES_MAX = 256


class ChaosJob(NamedTuple):
    path: list[str]
    """Where Python looks for modules."""
    file: str
    pipelines: bytes
    """By cloudpickle."""
    conf: dict[str, str]


class _Death:
    """Listens to the steps of batches, and dies behind the one that is wanted."""

    def __init__(self) -> None:
        self._wanted = ""
        threading.Thread(target=self._read, name="deaths", daemon=True).start()

    def __call__(self, step: BatchStep) -> None:
        if step.name == self._wanted:
            os.kill(os.getpid(), signal.SIGKILL)

    def _read(self) -> None:
        # By the descriptor: a thread that holds the lock of `sys.stdin` would abort the end of the interpreter.
        while read := os.read(0, _LINE_BYTES_MAX):
            self._wanted = read.decode().strip()
        # Whoever has started this is gone, and Java goes with this process.
        os._exit(EXIT_FAILED)


def main() -> int:
    job: ChaosJob = pickle.loads(Path(sys.argv[1]).read_bytes())  # noqa: S301 - from the command that has started this
    sys.path[:] = job.path
    from tidelog.spark.pipelines.pipeline_run import PipelineRun  # noqa: PLC0415 - imports PySpark
    from tidelog.spark.pipelines.session import start_session  # noqa: PLC0415

    pipelines = pickle.loads(job.pipelines)  # noqa: S301 - as above
    batch_steps.listen(_Death())
    try:
        spark = start_session(job.conf, (), is_verbose=False)
        run = PipelineRun(spark, PipelineFile(Path(job.file), pipelines, []))
        # Spark has put its own handlers there.
        for each in (signal.SIGTERM, signal.SIGINT):
            signal.signal(each, lambda _number, _frame: run.stop())
        run.start()
        sys.stdout.write("running\n")
        sys.stdout.flush()
        run.follow(lambda _: None)
        spark.stop()
    except PipelineError as error:
        sys.stdout.write(f"failed: {' '.join(str(error).split())}\n")
        sys.stdout.flush()
        return EXIT_FAILED
    return 0


if __name__ == "__main__":
    sys.exit(main())
