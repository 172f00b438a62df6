"""`df.writeStream.format("tidelog")` by a real Spark against a real cluster: each row once, whatever happens on the way."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

from tests.spark.topics import fill, options, stopped, stream
from tests.spark.written import committed_numbers, committed_rows, transactional_ids
from tidelog.spark.pipelines.checkpoint_offsets import read_entry
from tidelog.spark.sink.sink_decisions import TOPIC
from tidelog.spark.sink.sink_participant import SinkIdentity
from tidelog.spark.sink.sink_state import decode_state, encode_key
from tidelog.testing import EmbeddedCluster


@pytest.fixture
def target(cluster: EmbeddedCluster, topic: str) -> str:
    name = f"{topic}-out"
    cluster.create_topic(name, partitions=2)
    return name


@pytest.fixture
def rows(spark: SparkSession, cluster: EmbeddedCluster, topic: str) -> DataFrame:
    """Thirty numbers, in three partitions, ten a micro-batch."""
    fill(cluster.bootstrap_servers, topic, range(30))
    given = options(cluster.bootstrap_servers, topic, startingOffsets="earliest", maxOffsetsPerTrigger="10")
    return stream(spark, given).select("key", "value")


def writer(rows: DataFrame, bootstrap: str, checkpoint: str, target: str, **more: Any) -> DataStreamWriter:
    given = {"kafka.bootstrap.servers": bootstrap, "topic": target, "checkpointLocation": checkpoint, **more}
    return rows.writeStream.format("tidelog").options(**given).trigger(availableNow=True)


def test_an_entry_behind_a_url_is_read_by_spark(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "offsets").mkdir()
    (tmp_path / "offsets" / "3").write_bytes(b"v1\n{}\n\xff")
    assert read_entry(spark, f"file://{tmp_path}", 3) == b"v1\n{}\n\xff"
    assert read_entry(spark, f"file://{tmp_path}", 4) is None
    assert read_entry(spark, "nowhere://x", 3) is None


@pytest.mark.parametrize("delivery", [{}, {"delivery": "at_least_once"}])
def test_rows_go_from_topic_to_topic(
    cluster: EmbeddedCluster, rows: DataFrame, topic: str, target: str, checkpoint: str, delivery: dict[str, str]
) -> None:
    def run() -> str:
        query = writer(rows, cluster.bootstrap_servers, checkpoint, target, **delivery).start()
        stopped(query)
        return str(query.id)

    query_id = run()
    assert committed_numbers(cluster.bootstrap_servers, target) == list(range(30))
    fill(cluster.bootstrap_servers, topic, range(30, 33))
    assert run() == query_id
    assert committed_numbers(cluster.bootstrap_servers, target) == list(range(33))

    used = transactional_ids(cluster.bootstrap_servers, query_id, is_open=False)
    assert not transactional_ids(cluster.bootstrap_servers, query_id)
    if delivery:
        assert not used
    else:
        # Three micro-batches of three tasks: the same ids in each, and others in the second run.
        assert f"tidelog-spark.{query_id}.decider" in used
        assert len({each.split(".")[2] for each in used if not each.endswith(".decider")}) == 2
        assert len(used) <= 1 + 3 + 3


def test_a_batch_that_is_replayed_counts_once(
    cluster: EmbeddedCluster, rows: DataFrame, topic: str, target: str, checkpoint: str
) -> None:
    stopped(writer(rows, cluster.bootstrap_servers, checkpoint, target).start())
    # As if the driver had died after its last commit to the cluster and before Spark's own.
    last = max((Path(checkpoint) / "commits").iterdir(), key=lambda path: int(path.name) if path.name.isdigit() else -1)
    last.unlink()
    (last.parent / f".{last.name}.crc").unlink(missing_ok=True)
    fill(cluster.bootstrap_servers, topic, range(30, 33))

    stopped(writer(rows, cluster.bootstrap_servers, checkpoint, target).start())

    assert committed_numbers(cluster.bootstrap_servers, target) == list(range(33))
    assert len(committed_rows(cluster.bootstrap_servers, target, isolation_level="read_uncommitted")) > 33


def test_a_checkpoint_of_the_session_is_found_by_the_query_s_name(
    spark: SparkSession, cluster: EmbeddedCluster, rows: DataFrame, topic: str, target: str, tmp_path: Path
) -> None:
    """Spark tells the sink neither; tasks have the one, and the options the other."""
    setting = "spark.sql.streaming.checkpointLocation"
    spark.conf.set(setting, str(tmp_path))
    try:
        given = {"kafka.bootstrap.servers": cluster.bootstrap_servers, "topic": target}
        writing = rows.writeStream.format("tidelog").options(**given).queryName(f"named-{topic}")
        query = writing.trigger(availableNow=True).start()
        stopped(query)
    finally:
        spark.conf.unset(setting)

    key = encode_key(SinkIdentity(str(query.id)))
    newest = [row.value for row in committed_rows(cluster.bootstrap_servers, TOPIC) if row.key == key][-1]
    finished = decode_state(newest or b"").finished
    assert finished is not None
    assert finished.input is not None
    entry = (tmp_path / f"named-{topic}" / "offsets" / str(finished.batch_id)).read_bytes()
    assert finished.input.hash == hashlib.sha256(entry).hexdigest()


def test_an_old_checkpoint_is_an_error_and_a_deleted_one_a_new_query(
    cluster: EmbeddedCluster, rows: DataFrame, target: str, checkpoint: str
) -> None:
    stopped(writer(rows, cluster.bootstrap_servers, checkpoint, target).start())
    for part in ("offsets", "commits"):
        for number in (1, 2):
            (Path(checkpoint) / part / str(number)).unlink()
            (Path(checkpoint) / part / f".{number}.crc").unlink(missing_ok=True)
    query = writer(rows, cluster.bootstrap_servers, checkpoint, target).start()
    with pytest.raises(PySparkException, match="BatchOrderError"):
        stopped(query)
    assert committed_numbers(cluster.bootstrap_servers, target) == list(range(30))
    assert not transactional_ids(cluster.bootstrap_servers, str(query.id))

    shutil.rmtree(checkpoint)
    stopped(writer(rows, cluster.bootstrap_servers, checkpoint, target).start())
    assert committed_numbers(cluster.bootstrap_servers, target) == sorted([*range(30), *range(30)])


def test_a_copy_of_a_checkpoint_with_which_another_run_has_gone_on_is_an_error(
    cluster: EmbeddedCluster, rows: DataFrame, topic: str, target: str, checkpoint: str
) -> None:
    """Also what a checkpoint is that was restored and is one batch old: its next batch has a number that is written."""
    stopped(writer(rows, cluster.bootstrap_servers, checkpoint, target).start())
    copied = f"{checkpoint}-copy"
    shutil.copytree(checkpoint, copied)
    fill(cluster.bootstrap_servers, topic, range(30, 33))
    stopped(writer(rows, cluster.bootstrap_servers, checkpoint, target).start())
    fill(cluster.bootstrap_servers, topic, range(33, 36))

    query = writer(rows, cluster.bootstrap_servers, copied, target).start()
    with pytest.raises(PySparkException, match=r"BatchInputError.*from other input"):
        stopped(query)

    assert committed_numbers(cluster.bootstrap_servers, target) == list(range(33))
    assert not transactional_ids(cluster.bootstrap_servers, str(query.id))
    stopped(writer(rows, cluster.bootstrap_servers, checkpoint, target).start())
    assert committed_numbers(cluster.bootstrap_servers, target) == list(range(36))


def test_what_a_failed_batch_wrote_is_never_seen(
    cluster: EmbeddedCluster, rows: DataFrame, target: str, checkpoint: str
) -> None:
    failing = rows.selectExpr("key", "if(cast(value as string) = '17', raise_error('seventeen'), value) value")
    query = writer(failing, cluster.bootstrap_servers, checkpoint, target).start()
    with pytest.raises(PySparkException, match="seventeen"):
        stopped(query)
    before = committed_numbers(cluster.bootstrap_servers, target)
    assert 17 not in before
    assert len(before) == 10, "the first batch is there, and nothing of the second"
    assert not transactional_ids(cluster.bootstrap_servers, str(query.id))

    stopped(writer(rows, cluster.bootstrap_servers, checkpoint, target).start())
    assert committed_numbers(cluster.bootstrap_servers, target) == list(range(30))


def test_a_batch_in_foreach_batch_is_written_once(
    cluster: EmbeddedCluster, rows: DataFrame, target: str, checkpoint: str
) -> None:
    name = uuid4().hex

    def write(batch: DataFrame, batch_id: int) -> None:
        given = {"kafka.bootstrap.servers": cluster.bootstrap_servers, "txnAppId": name, "txnVersion": str(batch_id)}
        for _ in range(2):
            batch.write.format("tidelog").options(**given, topic=target).mode("append").save()

    stopped(
        rows.writeStream.foreachBatch(write).option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
    )

    assert committed_numbers(cluster.bootstrap_servers, target) == list(range(30))
    assert not transactional_ids(cluster.bootstrap_servers, name)

    def write_halves(batch: DataFrame, batch_id: int) -> None:
        given = {
            "kafka.bootstrap.servers": cluster.bootstrap_servers,
            "txnAppId": f"{name}-2",
            "txnVersion": f"{batch_id}",
        }
        for half in ("even", "odd"):
            some = batch.where(f"cast(cast(value as string) as int) % 2 = {int(half == 'odd')}")
            some.write.format("tidelog").options(**given, topic=target).mode("append").save()

    query = rows.writeStream.foreachBatch(write_halves).option("checkpointLocation", f"{checkpoint}-2").start()
    with pytest.raises(PySparkException, match=r"BatchInputError.*Give each write a txnAppId of its own"):
        stopped(query)
    assert not transactional_ids(cluster.bootstrap_servers, name)


def test_a_whole_result_is_appended_again(
    cluster: EmbeddedCluster, rows: DataFrame, topic: str, checkpoint: str
) -> None:
    counts = rows.groupBy().count().selectExpr("'all' as key", "cast(count as string) value")
    target = f"{topic}-counts"
    cluster.create_topic(target, partitions=1)

    stopped(writer(counts, cluster.bootstrap_servers, checkpoint, target).outputMode("complete").start())

    assert [row.value for row in committed_rows(cluster.bootstrap_servers, target)] == [b"10", b"20", b"30"]


def test_what_cannot_be_is_told_before_the_first_job(
    cluster: EmbeddedCluster, rows: DataFrame, target: str, checkpoint: str
) -> None:
    query = writer(rows, cluster.bootstrap_servers, checkpoint, target, txnAppId="a", txnVersion="1").start()
    with pytest.raises(PySparkException, match="are for batches: a stream has its query's id"):
        stopped(query)
