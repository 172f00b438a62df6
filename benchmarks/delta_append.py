"""Rows appended to a Delta table: by a pipeline without a jar, beside Delta's own jar on the last Spark that it is built for.

python -m benchmarks.delta_append [--quick] [--rows N] [--rounds N] [--json FILE]

The same rows (two numbers, a fraction and a text) in two partitions, `local[2]`, each with a Spark of its own, one after the
other: ours with everything that a batch of a pipeline has, staging, its decision on a node of ours and its entry for the audit;
Delta's with `df.write.format("delta").mode("append")`. Each append is a version of its own table. A first one warms up and is not
counted. Ends with 1 where ours is slower (not with --quick), and with 2 where the run failed.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

from deltalake import DeltaTable
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from benchmarks.compare import RESULTS, keep_samples
from tests.compat.delta_reader import delta_program
from tests.spark.topics import local_session
from tests.support.apache_kafka import KafkaError, MissingProgramError
from tests.support.tidelog_node import TidelogNode
from tidelog.spark.errors import SinkError
from tidelog.spark.pipelines import FromTopic, Json, Pipeline, ToTable
from tidelog.spark.pipelines.batch_rows import SinkRows
from tidelog.spark.pipelines.batch_writing import BatchWriting
from tidelog.spark.pipelines.pipeline_file import PipelineFile
from tidelog.spark.pipelines.query_sinks import decider_options, prepare_outputs, query_sinks
from tidelog.spark.sink.sink_committer import SinkCommitter

ROWS, QUICK_ROWS = 4_000_000, 50_000
ROUNDS = 5
PARTITIONS = 2
COLUMNS = {"id": "id", "at": "id * 7", "amount": "id / 3.0D", "text": "string(id)"}
EXPRESSIONS = [f"{expression} AS {name}" for name, expression in COLUMNS.items()]
OURS, THEIRS = "pipeline without a jar", "Delta's own jar"
# Ours to theirs.
ASKED = 1.0
PROGRAM = Path(__file__).parent / "delta_jar_append.py"
FAILURES = (KafkaError, MissingProgramError, OSError, PySparkException, SinkError)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.delta_append", description="rows into a Delta table")
    parser.add_argument("--quick", action="store_true", help="few rows: shows that all works, and measures nothing")
    parser.add_argument("--rows", type=int, default=ROWS, metavar="N", help=f"of an append ({ROWS:,})")
    parser.add_argument("--rounds", type=int, metavar="N", help=f"counted appends ({ROUNDS})")
    parser.add_argument("--json", type=Path, metavar="FILE", help="where the figures go (results/delta_append.json)")
    given = parser.parse_args()
    rows = QUICK_ROWS if given.quick else given.rows
    try:
        samples = measure(rows, given.rounds or (1 if given.quick else ROUNDS))
    except FAILURES as error:
        print(f"benchmark failed: {error}", file=sys.stderr)
        sys.exit(2)
    missed = report(samples)
    if not given.quick or given.json:
        keep_samples(given.json or RESULTS / "delta_append.json", rows, samples)
    if missed and not given.quick:
        sys.exit(1)


def measure(rows: int, rounds: int) -> dict[str, list[float]]:
    """Rows per second of each append."""
    with tempfile.TemporaryDirectory() as made:
        directory = Path(made)
        samples = {OURS: append_by_pipeline(directory, rows, rounds), THEIRS: append_by_jar(directory, rows, rounds)}
        for place in ("ours", "theirs"):
            found = DeltaTable(directory / place).count()
            if found != rows * (rounds + 1):
                raise KafkaError(f"the table {place} has {found} rows, expected {rows * (rounds + 1)}")
    return samples


def append_by_pipeline(directory: Path, rows: int, rounds: int) -> list[float]:
    node = TidelogNode.at(directory / "tidelog", transaction_two_phase_commit_enable="true")
    with node.running():
        spark = local_session(directory / "spark", is_brief=False)
        try:
            table = spark.range(0, rows, 1, PARTITIONS).selectExpr(*EXPRESSIONS)
            with writing(directory, node.bootstrap, table) as batches:
                return timed(rows, rounds, lambda batch_id: batches(table, batch_id), spark)
        finally:
            spark.stop()


@contextmanager
def writing(directory: Path, bootstrap: str, table: DataFrame) -> Iterator[BatchWriting]:
    """What Spark calls with each batch of a query."""
    pipeline = Pipeline(
        name="append",
        source=FromTopic("none", Json("id bigint")),
        sink=ToTable(str(directory / "ours"), format="delta", name="ours"),
        bootstrap=bootstrap,
    )
    file = PipelineFile(directory / "jobs.py", [pipeline], [])
    fields = tuple((name, table[name]) for name in COLUMNS)
    sinks = query_sinks(
        pipeline,
        [SinkRows("ours", fields, table.schema)],
        checkpoint=file.checkpoint_of(pipeline),
        query="append",
        beside=file.beside,
    )
    client = decider_options(pipeline).client
    made = BatchWriting(prepare_outputs(sinks), lambda identity, run: SinkCommitter(identity, run, client).__enter__())
    try:
        yield made
    finally:
        made.close()


def timed(rows: int, rounds: int, append: Callable[[int], None], spark: SparkSession) -> list[float]:
    """Of batches of one run of one query."""
    spark.sparkContext.setLocalProperty("sql.streaming.queryId", uuid4().hex)
    spark.sparkContext.setLocalProperty("spark.jobGroup.id", uuid4().hex)
    found = []
    for batch_id in range(rounds + 1):
        began_s = time.perf_counter()
        append(batch_id)
        found.append(rows / (time.perf_counter() - began_s))
    return found[1:]


def append_by_jar(directory: Path, rows: int, rounds: int) -> list[float]:
    given = {
        "path": str(directory / "theirs"),
        "rows": rows,
        "partitions": PARTITIONS,
        "columns": EXPRESSIONS,
        "appends": rounds + 1,
        "memory": "2g",
    }
    taken_s: list[float] = json.loads(delta_program(PROGRAM, json.dumps(given)))
    return [rows / each for each in taken_s[1:]]


def report(samples: dict[str, list[float]]) -> bool:
    """Print the table; whether the goal was missed."""
    medians = {name: statistics.median(each) for name, each in samples.items()}
    for name, rate in medians.items():
        print(f"{name:>24} {rate / 1e6:>6.2f} million rows/s")
    ratio = medians[OURS] / medians[THEIRS]
    print(f"{OURS} to {THEIRS}: {ratio:.2f}, asked {ASKED:g}")
    return ratio < ASKED


if __name__ == "__main__":
    main()
