"""A write of which one task hangs after its rows are out, until a speculative copy of it has taken its place.

python -m tests.compat.speculated_write MASTER BOOTSTRAP TARGET DIRECTORY
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
from pyspark import TaskContext

from tests.spark.topics import local_session

# Longer than a copy can take to be started; the task is killed by then.
HANGS_S = 200


def hang_once(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Hand all rows on. The first attempt of the first task then has no end, as on a machine that is ill."""
    yield from batches
    task = TaskContext.get()
    assert task is not None
    if task.partitionId() == 0 and task.attemptNumber() == 0:
        time.sleep(HANGS_S)


def main() -> None:
    master, bootstrap, target, directory = sys.argv[1:]
    spark = local_session(
        Path(directory),
        master=master,
        spark__executor__memory="512m",
        spark__speculation="true",
        spark__speculation__interval="200ms",
        spark__speculation__quantile="0.5",
        spark__speculation__multiplier="1.2",
        spark__speculation__minTaskRuntime="1s",
        spark__sql__execution__arrow__maxRecordsPerBatch="10",
    )
    # Wide rows do not wait in the buffers between Spark's processes: those of the task that hangs are in the topic.
    wide = spark.range(0, 400, 1, 4).selectExpr("rpad(cast(id as string), 20000, ' ') value")
    rows = wide.mapInArrow(hang_once, "value string")
    to = {"kafka.bootstrap.servers": bootstrap, "topic": target, "delivery": "exactly_once"}
    rows.write.format("tidelog").options(**to).mode("append").save()
    spark.stop()


if __name__ == "__main__":
    main()
