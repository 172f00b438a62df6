"""Five hundred batches of one pipeline into tables and files: what is kept of them stays bounded, wherever upkeep comes by."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from pyiceberg.catalog.sql import SqlCatalog
from pyspark.sql import SparkSession

from tests.spark.topics import local_session
from tests.spark.written import WrittenRow, committed_rows
from tidelog import Producer
from tidelog.spark.outputs.iceberg_table import _NEW_TABLE
from tidelog.spark.pipelines import FromTopic, Json, Pipeline, ToFiles, ToTable, output_upkeep
from tidelog.spark.pipelines.output_upkeep import MANIFESTS_KEPT
from tidelog.spark.pipelines.pipeline_file import PipelineFile
from tidelog.spark.pipelines.pipeline_run import PipelineRun
from tidelog.spark.sink.sink_decisions import AUDIT_TOPIC, TOPIC
from tidelog.testing import EmbeddedCluster

pytestmark = [pytest.mark.compat, pytest.mark.timeout(3600)]

BATCHES = 500
PARTITIONS = 2
# An hour and a day of upkeep within minutes.
SWEEP_AGE_S, SWEEP_INTERVAL_MS = 1.0, 5_000
SNAPSHOTS_KEPT = 10
# Both kinds of table are looked at so often.
BATCHES_BETWEEN = 16
# Compaction is worth it from so many files on.
SAVED_FILES_MIN = 24
# Iceberg makes manifests one from so many on.
MANIFESTS_MAX = 100
SCHEMA = pa.schema([pa.field("n", pa.int64())])


@pytest.fixture
def spark(tmp_path: Path) -> Iterator[SparkSession]:
    session = local_session(tmp_path / "spark")
    yield session
    session.stop()


class Sinks:
    """Tables that forget at once what nobody needs, made before the pipeline comes."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        write_deltalake(
            directory / "delta",
            SCHEMA.empty_table(),
            configuration={"delta.deletedFileRetentionDuration": "interval 1 seconds"},
        )
        self._catalog = SqlCatalog(
            "default", uri=f"sqlite:///{directory}/catalog.db", warehouse=f"file://{directory}/warehouse"
        )
        self._catalog.create_namespace("shop")
        forgetful = {
            "history.expire.max-snapshot-age-ms": "1",
            "history.expire.min-snapshots-to-keep": str(SNAPSHOTS_KEPT),
        }
        self._catalog.create_table("shop.t", SCHEMA, properties={**_NEW_TABLE, **forgetful})

    def pipeline(self, bootstrap: str) -> Pipeline:
        return Pipeline(
            name="many",
            source=FromTopic("numbers", Json("n bigint"), options={"maxOffsetsPerTrigger": PARTITIONS}),
            sink=[
                ToTable("delta", format="delta", name="delta"),
                ToTable(
                    name="shop.t", format="iceberg", catalog={"uri": "sqlite:///catalog.db", "warehouse": "warehouse"}
                ),
                ToFiles("files"),
            ],
            bootstrap=bootstrap,
        )

    def numbers(self) -> list[list[Any]]:
        iceberg = self._catalog.load_table("shop.t").scan().to_arrow()
        tables = [
            DeltaTable(self.directory / "delta").to_pyarrow_table(),
            iceberg,
            pq.read_table(self.directory / "files"),
        ]
        return [sorted(each.column("n").to_pylist()) for each in tables]

    def counts(self) -> dict[str, int]:
        delta = DeltaTable(self.directory / "delta")
        table = self._catalog.load_table("shop.t")
        snapshot = table.current_snapshot()
        assert snapshot is not None
        staging = self.directory / "checkpoints" / "many" / "staging"
        return {
            "files of the Delta table": len(delta.file_uris()),
            "files in its directory": len(list((self.directory / "delta").glob("*.parquet"))),
            "snapshots": len(table.metadata.snapshots),
            "manifests": len(snapshot.manifests(table.io)),
            "files of metadata": len(list((self.directory / "warehouse").rglob("*.metadata.json"))),
            "lists of manifests": len(list((self.directory / "warehouse").rglob("snap-*.avro"))),
            "staged manifests": len(list(staging.rglob("manifest-*.json"))),
            "staged files": len(list((self.directory / "files" / "_staging").rglob("*.parquet"))),
        }


def test_what_is_kept_of_many_batches_stays_bounded(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output_upkeep, "SWEEP_AGE_S", SWEEP_AGE_S)
    monkeypatch.setattr(output_upkeep, "SWEEP_INTERVAL_MS", SWEEP_INTERVAL_MS)
    sinks = Sinks(tmp_path)
    with EmbeddedCluster() as cluster:
        cluster.create_topic("numbers", partitions=PARTITIONS)
        with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
            for n in range(PARTITIONS * BATCHES):
                producer.send("numbers", json.dumps({"n": n}).encode(), partition=n % PARTITIONS)
        pipeline = sinks.pipeline(cluster.bootstrap_servers)
        run = PipelineRun(spark, PipelineFile(tmp_path / "jobs.py", [pipeline], []), until_caught_up=True)
        run.start()
        run.follow(lambda _: None)
        decisions = committed_rows(cluster.bootstrap_servers, TOPIC)
        audit = committed_rows(cluster.bootstrap_servers, AUDIT_TOPIC)

    assert sinks.numbers() == [list(range(PARTITIONS * BATCHES))] * 3
    per_look = PARTITIONS * BATCHES_BETWEEN
    counts = sinks.counts()
    limits = {
        "files of the Delta table": SAVED_FILES_MIN + per_look + 1,
        # Those that a compaction has just taken out stay until the next one.
        "files in its directory": 2 * (SAVED_FILES_MIN + per_look + 1),
        "snapshots": SNAPSHOTS_KEPT + 2 * BATCHES_BETWEEN,
        "manifests": MANIFESTS_MAX + 1,
        "files of metadata": 100 + 2,
        "lists of manifests": SNAPSHOTS_KEPT + 2 * BATCHES_BETWEEN,
        # Of three sinks; and what has come since the last sweep.
        "staged manifests": 3 * (MANIFESTS_KEPT + 100),
        "staged files": 0,
    }
    assert {name: count for name, count in counts.items() if count > limits[name]} == {}
    progress = run.progress[0].queries[0]
    assert (progress.upkeep_failures, progress.compacted_files > 0, progress.expired_snapshots > 0) == (0, True, True)
    # A batch is decided and finished: two records, as large at the end as at the beginning.
    assert len(decisions) <= 2 * (BATCHES + 1)
    assert size(decisions[-20:]) <= 1.2 * size(decisions[20:40])
    assert len(audit) == BATCHES


def size(rows: list[WrittenRow]) -> int:
    return max(len(each.value or b"") for each in rows)
