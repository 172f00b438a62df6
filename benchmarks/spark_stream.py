"""A stream over a backlog beside Spark's own Kafka connector, in one run: AvailableNow, so many records a micro-batch.

python -m benchmarks.spark_stream [--quick] [--rounds N] [--json FILE]

100-byte values in 2 partitions, `local[2]`, into `noop`. The connector reads Apache Kafka, our source Tidelog, each with the same
records; both with the checkpoint manager that a pipeline on this machine has. Large batches show what reading costs, small ones
what a batch costs. Ends with 1 where a goal was missed (not with --quick), and with 2 where the run failed.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from itertools import count
from pathlib import Path

from pyspark.sql import SparkSession

from benchmarks.compare import RESULTS, keep_samples
from benchmarks.spark_source import FAILURES, TOPIC, fill
from tests.compat.spark_connector import connector_jars
from tests.spark.topics import local_session
from tests.support.apache_kafka import SMALL_NODE, ApacheKafka, KafkaError, Node
from tests.support.tidelog_node import TidelogNode
from tidelog.spark.pipelines.session import LOCAL_MANAGER, MANAGER

ROWS, QUICK_ROWS = 4_000_000, 200_000
ROUNDS = 5
# A backlog in so many micro-batches, and the rows per second that are asked for, ours to the connector's.
ASKED = {4: 2.2, 20: 1.8}
_OURS, _CONNECTOR = "tidelog", "connector"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.spark_stream", description="a stream over a backlog")
    parser.add_argument("--quick", action="store_true", help="few rows: shows that all works, and measures nothing")
    parser.add_argument("--rounds", type=int, metavar="N", help=f"counted rounds ({ROUNDS})")
    parser.add_argument("--json", type=Path, metavar="FILE", help="where the figures go (results/spark_stream.json)")
    given = parser.parse_args()
    rows = QUICK_ROWS if given.quick else ROWS
    try:
        samples = measure(rows, given.rounds or (1 if given.quick else ROUNDS))
    except FAILURES as error:
        print(f"benchmark failed: {error}", file=sys.stderr)
        sys.exit(2)
    missed = report(samples)
    if not given.quick or given.json:
        keep_samples(given.json or RESULTS / "spark_stream.json", rows, samples)
    if missed and not given.quick:
        sys.exit(1)


def measure(rows: int, rounds: int) -> dict[str, list[float]]:
    """Rows per second of each figure, one for each round, in an order that turns around from round to round."""
    samples: dict[str, list[float]] = defaultdict(list)
    with tempfile.TemporaryDirectory() as made:
        directory = Path(made)
        ours = TidelogNode.at(directory / "tidelog")
        with ours.running(), Node(ApacheKafka.installed(), directory / "kafka", SMALL_NODE) as theirs:
            for bootstrap in (ours.bootstrap, theirs.bootstrap):
                fill(bootstrap, rows)
            spark = local_session(directory / "spark", *connector_jars(), is_brief=False)
            spark.conf.set(MANAGER, LOCAL_MANAGER)
            try:
                jobs = figures(spark, {_OURS: ours.bootstrap, _CONNECTOR: theirs.bootstrap}, rows, directory)
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


def figures(
    spark: SparkSession, clusters: dict[str, str], rows: int, directory: Path
) -> list[tuple[str, Callable[[], None]]]:
    runs = count()

    def stream(source: str, bootstrap: str, batches: int) -> Callable[[], None]:
        def run() -> None:
            query = (
                spark.readStream.format(source)
                .option("kafka.bootstrap.servers", bootstrap)
                .option("subscribe", TOPIC)
                .option("startingOffsets", "earliest")
                .option("maxOffsetsPerTrigger", str(rows // batches))
                .load()
                .writeStream.format("noop")
                .option("checkpointLocation", str(directory / f"checkpoint-{next(runs)}"))
                .trigger(availableNow=True)
                .start()
            )
            query.awaitTermination()
            read = sum(each.numInputRows for each in query.recentProgress)
            if read != rows:
                raise KafkaError(f"{read} rows were read instead of {rows}")

        return run

    formats = {_OURS: "tidelog", _CONNECTOR: "kafka"}
    return [
        (f"{name} in {batches} batches", stream(formats[name], bootstrap, batches))
        for batches in ASKED
        for name, bootstrap in clusters.items()
    ]


def report(samples: dict[str, list[float]]) -> bool:
    """Print the table; whether a goal was missed."""
    missed = False
    print(f"{'batches':>8} {'million rows/s':>15} {'connector':>10} {'ratio':>6} {'asked':>6}")
    for batches, asked in ASKED.items():
        ours, theirs = (statistics.median(samples[f"{name} in {batches} batches"]) for name in (_OURS, _CONNECTOR))
        missed = missed or ours / theirs < asked
        print(f"{batches:>8} {ours / 1e6:>15.2f} {theirs / 1e6:>10.2f} {ours / theirs:>6.2f} {asked:>6}")
    return missed


if __name__ == "__main__":
    main()
