"""A pipeline on Spark whose tables, staging and checkpoint are all in an object store, stopped and started again."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from pyiceberg.catalog.sql import SqlCatalog

from tests.compat.hadoop_aws_jars import hadoop_aws_jars
from tests.spark.written import committed_rows
from tests.support.command_process import command, environment
from tests.support.object_store import BUCKET, SECRET, ObjectStore, object_store
from tidelog import Producer
from tidelog.spark.outputs.storage import Storage
from tidelog.testing import EmbeddedCluster

pytestmark = [pytest.mark.compat, pytest.mark.timeout(1800)]

DEADLINE_S = 400.0
JOB = """
import os

from tidelog.spark.pipelines import FromTopic, Json, Pipeline, ToFiles, ToTable, ToTopic

STORE = {
    "AWS_ENDPOINT_URL": os.environ["STORE"],
    "AWS_ACCESS_KEY_ID": "someone",
    "AWS_SECRET_ACCESS_KEY": "${env:OBJECT_STORE_SECRET}",
}
pipeline = Pipeline(
    name="stored",
    source=FromTopic("numbers", Json("n bigint"), options={"maxOffsetsPerTrigger": 20}),
    sink=[
        ToTable("s3://lake/delta", format="delta", name="delta"),
        ToTable(
            name="shop.t", format="iceberg", catalog={"uri": "sqlite:///catalog.db", "warehouse": "s3://lake/warehouse"}
        ),
        ToFiles("s3://lake/files"),
        ToTopic("copy"),
    ],
    checkpoint="s3a://lake/checkpoints/stored",
    storage=STORE,
    spark={
        "spark.hadoop.fs.s3a.endpoint": os.environ["STORE"],
        "spark.hadoop.fs.s3a.endpoint.region": "us-east-1",
        "spark.hadoop.fs.s3a.path.style.access": "true",
        "spark.hadoop.fs.s3a.access.key": "someone",
        "spark.hadoop.fs.s3a.secret.key": os.environ["OBJECT_STORE_SECRET"],
    },
)
"""


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Iterator[ObjectStore]:
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_ENDPOINT_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv(SECRET, "a secret")
    with object_store() as running:
        yield running


def pipeline(store: ObjectStore, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    variables = {"STORE": f"http://{store.host}:{store.port}", SECRET: "a secret"}
    done = subprocess.run(
        command("pipeline", *arguments),
        capture_output=True,
        text=True,
        check=False,
        env=environment(variables),
        timeout=DEADLINE_S,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-3000:]
    return done


def run(store: ObjectStore, directory: Path, cluster: EmbeddedCluster, numbers: range) -> None:
    with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        for n in numbers:
            producer.send("numbers", json.dumps({"n": n}).encode(), partition=n % 2)
    # Not as spark.jars, which Spark copies: there are 700 MB.
    jars = ":".join(map(str, hadoop_aws_jars()))
    settings = (f"spark.driver.extraClassPath={jars}", "spark.ui.enabled=false", "spark.driver.host=127.0.0.1")
    pipeline(
        store,
        *("run", directory / "jobs.py", "--until-caught-up", "--bootstrap", cluster.bootstrap_servers),
        *("--master", "local[2]", *(word for each in settings for word in ("--conf", each))),
    )


def test_a_pipeline_lies_in_an_object_store_and_goes_on_from_there(tmp_path: Path, store: ObjectStore) -> None:
    (tmp_path / "jobs.py").write_text(JOB)
    with EmbeddedCluster() as cluster:
        for topic in ("numbers", "copy"):
            cluster.create_topic(topic, partitions=2)

        run(store, tmp_path, cluster, range(60))
        run(store, tmp_path, cluster, range(60, 100))

        copied = [json.loads(row.value or b"")["n"] for row in committed_rows(cluster.bootstrap_servers, "copy")]
        told = pipeline(
            store, "audit", "stored", "--verify", "--json", "--bootstrap", cluster.bootstrap_servers
        ).stdout.splitlines()
    settings = {
        **store.settings,
        "AWS_SECRET_ACCESS_KEY": "a secret",
        "AWS_ALLOW_HTTP": "true",
        "AWS_REGION": "us-east-1",
    }
    delta = DeltaTable(f"s3://{BUCKET}/delta", storage_options=settings).to_pyarrow_table()
    given = {"s3.endpoint": settings["AWS_ENDPOINT_URL"], "s3.access-key-id": "someone", "s3.region": "us-east-1"}
    given["s3.secret-access-key"] = "a secret"
    with SqlCatalog("default", uri=f"sqlite:///{tmp_path}/catalog.db", **given) as catalog:
        iceberg = catalog.load_table("shop.t").scan().to_arrow()
    files = Storage.at(f"s3://{BUCKET}/files", store.settings)
    parts = [each.path for each in files.files() if each.path.startswith("part-")]
    in_files = [n for each in parts for n in read(files, each)]
    whole = list(range(100))
    assert numbers_of(delta) == numbers_of(iceberg) == whole
    assert sorted(in_files) == sorted(copied) == whole
    # Spark's own, ours beside it, and what was staged.
    checkpoint = store.keys("checkpoints/stored/")
    assert "checkpoints/stored/stored/offsets/0" in checkpoint
    assert "checkpoints/stored/progress.json" in checkpoint
    assert [each for each in checkpoint if "/staging/files/manifest-" in each]
    assert [each["batch_id"] for each in map(json.loads, told)] == list(range(5))
    assert not (tmp_path / "checkpoints").exists()


def read(files: Storage, path: str) -> list[int]:
    with files.system.open_input_file(f"{files.root}/{path}") as opened:
        return numbers_of(pq.read_table(opened))


def numbers_of(table: pa.Table) -> list[int]:
    found: list[Any] = table.column("n").to_pylist()
    return sorted(found)
