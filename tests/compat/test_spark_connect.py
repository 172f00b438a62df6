"""Topics over Spark Connect: the session is a client, and source and sink run where the server runs."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.command_process import environment
from tidelog import Producer
from tidelog.testing import EmbeddedCluster

pytestmark = [pytest.mark.compat, pytest.mark.timeout(600)]

# In a process of its own: one that has been a client of Connect has no other session any more.
PROGRAM = """
import json, sys, time

from pyspark.sql import SparkSession
from pyspark.sql.connect.session import SparkSession as ConnectSession

from tidelog.spark.watching import QueryListener

bootstrap, directory = sys.argv[1:]
cluster = {"kafka.bootstrap.servers": bootstrap}
committed = {**cluster, "kafka.isolation.level": "read_committed"}
spark = SparkSession.builder.remote("local[2]").getOrCreate()
assert isinstance(spark, ConnectSession)
listener = QueryListener()
spark.streams.addListener(listener)


def rows(topic):
    found = spark.read.format("tidelog").options(**committed, subscribe=topic).load()
    return sorted(row.value.decode() for row in found.selectExpr("value").collect())


def copy_what_is_new():
    source = spark.readStream.format("tidelog").options(**cluster, subscribe="orders", startingOffsets="earliest").load()
    query = (
        source.selectExpr("key", "value").writeStream.format("tidelog").queryName("copy")
        .options(**cluster, topic="streamed", checkpointLocation=directory).trigger(availableNow=True).start()
    )
    query.awaitTermination()
    assert query.exception() is None, query.exception()


spark.read.format("tidelog").options(**cluster, subscribe="orders").load().selectExpr("key", "value").write.format(
    "tidelog"
).options(**cluster, topic="written", txnAppId="copy", txnVersion="1").mode("append").save()
copy_what_is_new()
# Spark tells after the fact.
deadline = time.monotonic() + 60
while not any(each.run_rows for each in listener.queries) and time.monotonic() < deadline:
    time.sleep(0.05)
told = [(each.query, each.run_rows) for each in listener.queries]
copy_what_is_new()
print(json.dumps([told, {topic: rows(topic) for topic in ("orders", "written", "streamed")}]))
# Connect waits for the thread of its listeners.
spark.streams.removeListener(listener)
spark.stop()
"""


def test_topics_are_read_and_written_once_over_connect(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    with EmbeddedCluster() as cluster:
        for topic in ("orders", "written", "streamed"):
            cluster.create_topic(topic, partitions=2)
        with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
            for number in range(20):
                producer.send("orders", b"order %d" % number)

        done = subprocess.run(
            [sys.executable, program, cluster.bootstrap_servers, tmp_path / "checkpoint"],
            capture_output=True,
            text=True,
            check=False,
            env=environment({"PYSPARK_PYTHON": sys.executable}),
            timeout=500,
        )

    assert done.returncode == 0, done.stderr[-4000:]
    told, found = json.loads(done.stdout.splitlines()[-1])
    orders = sorted(f"order {number}" for number in range(20))
    assert found == {"orders": orders, "written": orders, "streamed": orders}
    assert ["copy", 20] in told, "the listener was told of the query"
