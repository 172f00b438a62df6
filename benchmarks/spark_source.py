"""The Spark source beside Spark's own Kafka connector, and beside the most that Spark's Python path can do, in one run.

python -m benchmarks.spark_source [--quick] [--rounds N] [--json FILE]

100-byte values in 2 partitions, `local[2]`. The connector reads Apache Kafka, our source Tidelog, each with the same records. The
ceiling is a source with the same columns that makes one batch and hands it out again and again: no source in Python is faster.
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
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from benchmarks.compare import RESULTS, keep_samples
from tests.compat.spark_connector import connector_jars
from tests.spark.topics import local_session
from tests.support.apache_kafka import SMALL_NODE, ApacheKafka, KafkaError, MissingProgramError, Node
from tests.support.tidelog_node import TidelogNode
from tidelog import Admin, Producer
from tidelog.client.consumer.topic_partition import TopicPartition
from tidelog.spark.source.record_columns import BATCH_ROWS, RecordColumns
from tidelog.spark.source.record_schema import ALL_COLUMNS, spark_schema
from tidelog.wire.record_batch import TimestampType

TOPIC = "bench"
PARTITIONS = 2
VALUE_BYTES = 100
ROWS, QUICK_ROWS = 4_000_000, 200_000
ROUNDS = 5
COLUMNS = ALL_COLUMNS[:-1]
FAILURES = (KafkaError, MissingProgramError, OSError, PySparkException, subprocess.SubprocessError, TimeoutError)

# The figure, what it is measured against, and the least ratio that is asked for. Streams have goals of their own (spark_stream).
GOALS = (
    ("count", "ceiling count", 0.88),
    ("noop", "ceiling noop", 0.88),
    ("files count", "count", 1.2),
)
# What the connector does beside them is told, and is no goal: the ceiling is that of Spark's Python path.
TOLD = (("count", "connector count"), ("noop", "connector noop"))


class CeilingSource(DataSource):
    """As many rows as asked for, of one batch that is made once."""

    @classmethod
    def name(cls) -> str:
        return "ceiling"

    def schema(self) -> str:
        return spark_schema(COLUMNS)

    def reader(self, schema: StructType) -> DataSourceReader:  # noqa: ARG002 - Spark's signature
        return CeilingReader(int(self.options["rows"]))


class CeilingReader(DataSourceReader):
    def __init__(self, rows: int) -> None:
        self._rows = rows

    def partitions(self) -> Sequence[InputPartition]:
        return [InputPartition(index) for index in range(PARTITIONS)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        records = pa.RecordBatch.from_pydict(
            {
                "key": pa.nulls(BATCH_ROWS, pa.binary()),
                "value": pa.array([b"x" * VALUE_BYTES] * BATCH_ROWS),
                "offset": pa.array(range(BATCH_ROWS), pa.int64()),
                "timestamp": pa.array([1_700_000_000_000] * BATCH_ROWS, pa.int64()),
            }
        )
        columns = RecordColumns(COLUMNS, TopicPartition(TOPIC, partition.value))
        (batch,) = columns.batches(records, TimestampType.CREATE_TIME)
        for _ in range(self._rows // PARTITIONS // BATCH_ROWS):
            yield batch


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.spark_source", description="the Spark source")
    parser.add_argument("--quick", action="store_true", help="few rows: shows that all works, and measures nothing")
    parser.add_argument("--rounds", type=int, metavar="N", help=f"counted rounds ({ROUNDS})")
    parser.add_argument("--json", type=Path, metavar="FILE", help="where the figures go (results/spark_source.json)")
    given = parser.parse_args()
    rows = QUICK_ROWS if given.quick else ROWS
    try:
        samples = measure(rows, given.rounds or (1 if given.quick else ROUNDS))
    except FAILURES as error:
        print(f"benchmark failed: {error}", file=sys.stderr)
        sys.exit(2)
    medians = {name: statistics.median(each) for name, each in samples.items()}
    missed = report(medians)
    if not given.quick or given.json:
        keep_samples(given.json or RESULTS / "spark_source.json", rows, samples)
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
            try:
                spark.dataSource.register(CeilingSource)
                jobs = figures(spark, ours, theirs, rows)
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


def figures(spark: SparkSession, ours: TidelogNode, theirs: Node, rows: int) -> list[tuple[str, Callable[[], None]]]:
    def table(source: str, **options: str) -> DataFrame:
        return spark.read.format(source).options(**options).load()

    def count(frame: Callable[[], DataFrame]) -> Callable[[], None]:
        def run() -> None:
            # Every column is made, as a query over the records would have it.
            counted = frame().count()
            if counted != rows:
                raise KafkaError(f"{counted} rows were read instead of {rows}")

        return run

    def noop(frame: Callable[[], DataFrame]) -> Callable[[], None]:
        return lambda: frame().write.format("noop").mode("overwrite").save()

    def topic(bootstrap: str) -> dict[str, str]:
        return {"kafka.bootstrap.servers": bootstrap, "subscribe": TOPIC}

    def ceiling() -> DataFrame:
        return table("ceiling", rows=str(rows))

    def live() -> DataFrame:
        return table("tidelog", **topic(ours.bootstrap))

    def connector() -> DataFrame:
        return table("kafka", **topic(theirs.bootstrap))

    def files() -> DataFrame:
        return table("tidelog", path=str(ours.data), subscribe=TOPIC)

    return [
        ("ceiling count", count(ceiling)),
        ("ceiling noop", noop(ceiling)),
        ("count", count(live)),
        ("noop", noop(live)),
        ("connector count", count(connector)),
        ("connector noop", noop(connector)),
        ("files count", count(files)),
    ]


def fill(bootstrap: str, rows: int) -> None:
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topic(TOPIC, partitions=PARTITIONS)
    values = pa.table({"value": pa.array([b"x" * VALUE_BYTES] * 50_000)})
    with Producer(bootstrap_servers=bootstrap, batch_size=128 * 1024) as producer:
        for turn in range(rows // values.num_rows):
            producer.send_arrow(TOPIC, values, partition=turn % PARTITIONS)


def report(medians: dict[str, float]) -> bool:
    """Print the table; whether a goal was missed."""
    missed = False
    print(f"{'figure':>12} {'million rows/s':>15} {'beside':>17} {'million rows/s':>15} {'ratio':>6} {'asked':>6}")
    for name, peer, asked in (*GOALS, *((*each, None) for each in TOLD)):
        ratio = medians[name] / medians[peer]
        missed = missed or (asked is not None and ratio < asked)
        rates = f"{name:>12} {medians[name] / 1e6:>15.2f} {peer:>17} {medians[peer] / 1e6:>15.2f}"
        print(f"{rates} {ratio:>6.2f} {'' if asked is None else asked:>6}")
    return missed


if __name__ == "__main__":
    main()
