"""A stream whose tasks fail once, or lose their Python worker, after their rows were written: a program of its own, since a Spark
that tries tasks again is another one than that of the tests.

python -m tests.spark.retried_write BOOTSTRAP SOURCE TARGET DIRECTORY
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
from pyspark import TaskContext

from tests.spark.topics import local_session, options, stream
from tidelog import Admin
from tidelog.client.admin import OffsetSpec

Batches = Iterator[pa.RecordBatch]

DEADLINE_S = 60
QUERY_DEADLINE_S = 200


def failing_once(bootstrap: str, target: str) -> Callable[[Batches], Batches]:
    """Hands all rows on, and lets the first attempt fail behind the last of them: the task of one partition by an error, of the
    next with a worker that is killed in the middle of it."""

    def hand_on(batches: Batches) -> Batches:
        task = TaskContext.get()
        assert task is not None
        yield from batches
        if task.attemptNumber() == 0 and task.partitionId() < 2:
            wait_for_rows(bootstrap, target)
            if task.partitionId() == 0:
                raise RuntimeError("the first attempt")
            os.kill(os.getpid(), signal.SIGKILL)

    return hand_on


def wait_for_rows(bootstrap: str, target: str) -> None:
    """Until some task has written something, committed or not."""
    deadline_s = time.monotonic() + DEADLINE_S
    with Admin(bootstrap_servers=bootstrap) as admin:
        while time.monotonic() < deadline_s:
            ends = admin.list_offsets({(target, index): OffsetSpec.LATEST for index in range(2)})
            if any(getattr(each, "offset", 0) for each in ends.values()):
                return
            time.sleep(0.05)
    raise TimeoutError(f"nothing was written to {target}")


def main() -> None:
    bootstrap, source, target, directory = sys.argv[1:]
    # Rows are handed on one by one, so that they are out before a task fails.
    spark = local_session(Path(directory), master="local[2,4]", spark__sql__execution__arrow__maxRecordsPerBatch="1")
    rows = stream(spark, options(bootstrap, source, startingOffsets="earliest"))
    query = (
        # Wide rows do not wait in the buffers between Spark's processes.
        rows.selectExpr("rpad(cast(value as string), 200000, ' ') value")
        .mapInArrow(failing_once(bootstrap, target), "value string")
        .writeStream.format("tidelog")
        .options(**{"kafka.bootstrap.servers": bootstrap, "topic": target})
        .option("checkpointLocation", f"{directory}/checkpoint")
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(QUERY_DEADLINE_S), f"the query did not end: {query.status}"
    print(query.id)
    spark.stop()


if __name__ == "__main__":
    main()
