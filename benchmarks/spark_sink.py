"""The Spark sink beside Spark's own Kafka connector, and beside the most that Spark's Python path can do, in one run.

python -m benchmarks.spark_sink [--quick] [--rounds N] [--json FILE]

100-byte values without keys to 2 partitions, `local[2]`. Ours writes exactly once, the connector at least once, which is all that
it can. Each writes Tidelog and Apache Kafka. The ceiling is a sink in Python that takes Arrow batches and drops them.
Ends with 1 where a goal was missed (not with --quick), and with 2 where the run failed.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from benchmarks.compare import RESULTS, keep_samples
from tests.compat.spark_connector import connector_jars
from tests.spark.topics import local_session
from tests.support.apache_kafka import SMALL_NODE, ApacheKafka, KafkaError, MissingProgramError, Node
from tests.support.tidelog_node import TidelogNode
from tidelog import Admin
from tidelog.spark.sink.sink_rows import records_checksum

TOPIC = "bench"
PARTITIONS = 2
VALUE_BYTES = 100
ROWS, QUICK_ROWS = 4_000_000, 200_000
ROUNDS = 5
FAILURES = (KafkaError, MissingProgramError, OSError, PySparkException, subprocess.SubprocessError, TimeoutError)

# The figure, what it is measured against, and the least ratio that is asked for.
GOALS = (
    ("once to Tidelog", "connector to Kafka", 1.5),
    ("once to Kafka", "connector to Kafka", 1.5),
    ("once to Tidelog", "connector to Tidelog", 1.5),
)
# The checksum by which a batch is known again, of a write that has one.
CHECKED, CHECKSUM_SHARE_MAX = "once to Tidelog", 0.03
CHECKED_ROWS, CHECKED_BATCHES = 10_000, 50


@dataclass(frozen=True)
class Dropped(WriterCommitMessage):
    row_count: int


class DroppingWriter(DataSourceArrowWriter):
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:  # type: ignore[override]
        return Dropped(sum(batch.num_rows for batch in iterator))


class CeilingSink(DataSource):
    @classmethod
    def name(cls) -> str:
        return "ceiling_sink"

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:  # noqa: ARG002 - Spark's
        return DroppingWriter()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.spark_sink", description="the Spark sink")
    parser.add_argument("--quick", action="store_true", help="few rows: shows that all works, and measures nothing")
    parser.add_argument("--rounds", type=int, metavar="N", help=f"counted rounds ({ROUNDS})")
    parser.add_argument("--json", type=Path, metavar="FILE", help="where the figures go (results/spark_sink.json)")
    given = parser.parse_args()
    rows = QUICK_ROWS if given.quick else ROWS
    try:
        samples = measure(rows, given.rounds or (1 if given.quick else ROUNDS))
    except FAILURES as error:
        print(f"benchmark failed: {error}", file=sys.stderr)
        sys.exit(2)
    missed = report({name: statistics.median(each) for name, each in samples.items()})
    if not given.quick or given.json:
        keep_samples(given.json or RESULTS / "spark_sink.json", rows, samples)
    if missed and not given.quick:
        sys.exit(1)


def measure(rows: int, rounds: int) -> dict[str, list[float]]:
    """Rows per second of each figure, one for each round, in an order that turns around from round to round."""
    samples: dict[str, list[float]] = defaultdict(list)
    with tempfile.TemporaryDirectory() as made:
        directory = Path(made)
        # What was written in one round is deleted while the next one runs: the disk is not what is measured.
        kept = {
            "log.retention.bytes": str(rows * VALUE_BYTES),
            "log.segment.bytes": str(128 * 1024 * 1024),
            "log.retention.check.interval.ms": "10000",
        }
        ours = TidelogNode.at(directory / "tidelog", **kept)
        with ours.running(), Node(ApacheKafka.installed(), directory / "kafka", {**SMALL_NODE, **kept}) as theirs:
            for bootstrap in (ours.bootstrap, theirs.bootstrap):
                with Admin(bootstrap_servers=bootstrap) as admin:
                    admin.create_topic(TOPIC, partitions=PARTITIONS)
            spark = local_session(directory / "spark", *connector_jars(), is_brief=False)
            try:
                spark.dataSource.register(CeilingSink)
                jobs = figures(spark, {"Tidelog": ours.bootstrap, "Kafka": theirs.bootstrap}, rows)
                for turn in range(rounds + 1):
                    for name, job in jobs if turn % 2 else jobs[::-1]:
                        began_s = time.perf_counter()
                        job()
                        # The first round warms up the JVM and the workers.
                        if turn:
                            samples[name].append(rows / (time.perf_counter() - began_s))
                            print(f"  {name}: {samples[name][-1] / 1e6:.2f} million rows/s", flush=True)
            finally:
                spark.stop()
    return dict(samples)


def figures(spark: SparkSession, clusters: dict[str, str], rows: int) -> list[tuple[str, Callable[[], None]]]:
    table = spark.range(0, rows, 1, PARTITIONS).selectExpr(f"repeat('x', {VALUE_BYTES}) as value")
    versions = iter(range(10**6))

    def write(frame: DataFrame, sink: str, **options: str) -> None:
        frame.write.format(sink).options(**options).mode("append").save()

    def once(bootstrap: str) -> Callable[[], None]:
        def run() -> None:
            to = {"kafka.bootstrap.servers": bootstrap, "topic": TOPIC}
            write(table, "tidelog", **to, txnAppId="bench", txnVersion=str(next(versions)))

        return run

    def plain(sink: str, bootstrap: str) -> Callable[[], None]:
        to = {"kafka.bootstrap.servers": bootstrap, "topic": TOPIC}
        return lambda: write(table, sink, **to)

    jobs: list[tuple[str, Callable[[], None]]] = [("ceiling", lambda: write(table, "ceiling_sink"))]
    for name, bootstrap in clusters.items():
        jobs += [
            (f"once to {name}", once(bootstrap)),
            (f"plain to {name}", plain("tidelog", bootstrap)),
            (f"connector to {name}", plain("kafka", bootstrap)),
        ]
    return jobs


def report(medians: dict[str, float]) -> bool:
    """Print the table; whether a goal was missed."""
    missed = False
    top = medians["ceiling"]
    for name, rate in medians.items():
        print(f"{name:>22} {rate / 1e6:>6.2f} million rows/s, {rate / top:.2f} of the ceiling")
    for name, peer, asked in GOALS:
        ratio = medians[name] / medians[peer]
        missed = missed or ratio < asked
        print(f"{name:>22} / {peer:<22} {ratio:>5.2f}, asked {asked}")
    # Of what a task does in the time of its row.
    share = checksum_s() * medians[CHECKED] / PARTITIONS
    print(f"the checksum has {share:.1%} of {CHECKED}, asked {CHECKSUM_SHARE_MAX:.0%} at most")
    return missed or share > CHECKSUM_SHARE_MAX


def checksum_s() -> float:
    """Of a row, as tasks compute it; of the fastest of some batches."""
    batch = pa.RecordBatch.from_pydict({"value": ["x" * VALUE_BYTES] * CHECKED_ROWS})
    taken_s = []
    for _ in range(CHECKED_BATCHES):
        began_s = time.perf_counter()
        records_checksum(TOPIC, batch)
        taken_s.append(time.perf_counter() - began_s)
    return min(taken_s) / CHECKED_ROWS


if __name__ == "__main__":
    main()
