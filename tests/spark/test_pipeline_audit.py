"""The account of batches: read with several queries in it, asked for a row's batch, and held against what is there."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from uuid import uuid4

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import Result

from tests.support.command_line import json_lines, tidelog
from tidelog import Admin, Producer
from tidelog.client.consumer.topic_partition import TopicPartition
from tidelog.spark.errors import SinkError
from tidelog.spark.outputs.database_statements import batch_mark
from tidelog.spark.outputs.kind import kind_of
from tidelog.spark.outputs.manifest_store import manifest_of, write_manifest
from tidelog.spark.outputs.staged import AttemptName, StagedBatch, Target, app_id
from tidelog.spark.pipelines.audit_log import PipelineAudit, batches_of_row, take
from tidelog.spark.sink.audit_entry import (
    AuditEntry,
    PartitionRange,
    ReplayedWith,
    SinkAudit,
    encode_audit,
    encode_audit_key,
)
from tidelog.spark.sink.sink_decisions import AUDIT_TOPIC
from tidelog.testing import EmbeddedCluster

OTHER = Target("topic", "other:9092")


def entry(
    batch_id: int, *, query: str = "query", run: str = "run", pipeline: str = "p", sinks: Sequence[SinkAudit] = ()
) -> AuditEntry:
    return AuditEntry(pipeline, query, run, batch_id, (), None, tuple(sinks), "", 1000, 1001, 1002)


def to_topic(start: int, end: int, cluster: Target | None = None, name: str = "out") -> SinkAudit:
    return SinkAudit(name, "topic", "orders", 5, 7, (PartitionRange("orders", 1, start, end),), cluster)


@pytest.fixture
def pipeline(cluster: EmbeddedCluster) -> str:
    """The name of one of which nothing is known yet."""
    with Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
        if AUDIT_TOPIC not in {each.name for each in admin.list_topics()}:
            admin.create_topic(AUDIT_TOPIC, partitions=1)
    return f"p-{uuid4().hex[:12]}"


def record(cluster: EmbeddedCluster, *entries: AuditEntry) -> None:
    with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        for each in entries:
            producer.send(AUDIT_TOPIC, encode_audit(each), key=encode_audit_key(each), partition=0).result(30)


def audit(cluster: EmbeddedCluster, *arguments: str) -> Result:
    return tidelog("pipeline", "audit", *arguments, "--bootstrap", cluster.bootstrap_servers)


def test_the_batch_of_a_row_is_found_by_its_offset_file_or_mark() -> None:
    table = SinkAudit("table", "sqlite", "sqlite:///d t", 5, 7)
    entries = [
        entry(41, run="a", sinks=(to_topic(100, 110), table)),
        entry(42, run="b", sinks=(to_topic(110, 120), table)),
    ]

    def found(row: str) -> list[int]:
        return [each.batch_id for each in batches_of_row(entries, row)]

    assert [found(f"orders:1:{offset}") for offset in (99, 100, 109, 110, 119, 120)] == [[], [41], [41], [42], [42], []]
    assert found("orders:0:105") == found("other:1:105") == []
    assert found("day=1/part-0000000042-00003-0-17-b-0.parquet") == [42]
    assert found("part-0000000042-00003-0-17-z-0.parquet") == []
    assert found(batch_mark(app_id("p", "table", "query"), 41)) == [41]
    assert found(batch_mark(app_id("p", "table", "another"), 41)) == []
    for row in ("the last one", "42"):
        with pytest.raises(SinkError, match="names no row: give TOPIC:PARTITION:OFFSET"):
            found(row)


def test_topics_of_one_name_on_two_clusters_are_told_apart() -> None:
    entries = [
        entry(1, sinks=[to_topic(0, 10), to_topic(100, 110, OTHER, "far")]),
        entry(2, sinks=[to_topic(10, 20), to_topic(110, 120, OTHER, "far")]),
    ]

    def found(row: str) -> list[int]:
        return [each.batch_id for each in batches_of_row(entries, row)]

    assert (found("orders:1:5"), found("other:9092/orders:1:105")) == ([1], [1])
    assert found("orders:1:105") == found("other:9092/orders:1:5") == found("third:9092/orders:1:5") == []
    # Where there is one of the name there is nothing to say.
    assert batches_of_row([entry(1, sinks=[to_topic(0, 10, OTHER)])], "orders:1:5")


def test_too_many_entries_leave_out_those_that_were_written_first() -> None:
    found: dict[tuple[str, int], AuditEntry] = {}
    written = [entry(n, query=query) for query in ("old", "new") for n in range(3)]
    for each in written:
        take(found, each, entries_max=4)

    assert list(found) == [("old", 2), ("new", 0), ("new", 1), ("new", 2)]


def test_a_pipeline_that_began_anew_has_batches_of_its_own(cluster: EmbeddedCluster, pipeline: str) -> None:
    old = [entry(n, query="old", run="r1", pipeline=pipeline, sinks=[to_topic(n, n + 1)]) for n in range(3)]
    new = [entry(n, query="new", run="r2", pipeline=pipeline, sinks=[to_topic(5 + n, 6 + n)]) for n in range(2)]
    again = msgspec.structs.replace(new[0], sinks=(), replayed_with=ReplayedWith(4, 5))
    record(cluster, *old, *new, again)

    def found(*more: str) -> list[tuple[str, int]]:
        return [(each["query"], each["batch_id"]) for each in json_lines(audit(cluster, pipeline, "--json", *more))]

    assert found() == [("new", 0), ("new", 1)]
    assert found("--query", "old") == [("old", n) for n in range(3)]
    assert found("--batch", "0") == [("new", 0)]
    assert found("--batch", "0", "--query", "old") == [("old", 0)]
    # A row tells whose it is.
    assert found("--row", "orders:1:2") == [("old", 2)]
    assert found("--row", "part-0000000001-00000-0-0-r2-0.parquet") == [("new", 1)]
    table = audit(cluster, pipeline).stdout
    assert table.endswith("all of query new; --query shows those of old\n")
    shown = audit(cluster, pipeline, "--batch", "0").stdout
    assert "run again it had 4 rows" in shown
    assert "to out (topic orders): 5 rows" in shown
    nobody = audit(cluster, pipeline, "--query", "nobody")
    assert (nobody.exit_code, nobody.stderr) == (
        1,
        f"tidelog pipeline: nothing is known of a batch of {pipeline}, query nobody on this cluster\n",
    )
    assert audit(cluster, pipeline, "--row", "42").exit_code == 2


def test_the_newest_query_is_the_one_that_finished_a_batch_last() -> None:
    log = PipelineAudit((entry(0, query="a"), entry(0, query="b"), entry(1, query="a")))

    assert log.queries == ("b", "a")
    assert [each.query for each in log.of_query()] == ["a", "a"]
    assert PipelineAudit(()).of_query() == []


def test_a_sink_that_has_other_rows_than_the_batch_is_different_and_the_exit_code_says_so(
    cluster: EmbeddedCluster, topic: str, pipeline: str, tmp_path: Path
) -> None:
    batch = written_files(tmp_path, pipeline)
    files = SinkAudit("files", "files", str(tmp_path), 2, batch.output.checksum, files=1, staged=batch.output)
    with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        producer.send(topic, b"one", partition=0).result(30)
    # One of the two records that it was accounted for is there.
    in_topic = SinkAudit("topic", "topic", topic, 2, 1, (PartitionRange(topic, 0, 0, 1),))
    record(cluster, entry(0, pipeline=pipeline, sinks=[files]), entry(1, pipeline=pipeline, sinks=[in_topic]))
    same = audit(cluster, pipeline, "--verify", "--batch", "0")
    assert (same.exit_code, "checksum" in same.stdout, ": verified" in same.stdout) == (0, True, True)

    (path,) = (tmp_path / "files").glob("part-*")
    pq.write_table(pa.table({"n": pa.array([1, 3], pa.int64())}), path)
    found = audit(cluster, pipeline, "--verify")

    assert found.exit_code == 1
    assert found.stderr.splitlines() == [
        f"tidelog pipeline: batch 0 of {pipeline}: the sink files does not have the rows of the batch: it has 2 rows",
        f"tidelog pipeline: batch 1 of {pipeline}: the sink topic does not have the rows of the batch: it has 1 rows",
    ]
    assert found.stdout.count(": DIFFERENT") == 2


def test_what_is_gone_is_different_and_what_cannot_be_told_has_an_exit_code_of_its_own(
    cluster: EmbeddedCluster, topic: str, pipeline: str, tmp_path: Path
) -> None:
    batch = written_files(tmp_path, pipeline)
    files = SinkAudit("files", "files", str(tmp_path), 2, batch.output.checksum, files=1, staged=batch.output)
    merged = msgspec.structs.replace(batch.output, target=Target("sqlite", f"sqlite:///{tmp_path}/none.db", table="t"))
    gone = [
        msgspec.structs.replace(files, sink="database", staged=merged),
        SinkAudit("made again", "topic", topic, 1, 1, (PartitionRange(topic, 0, 0, 7),)),
        SinkAudit("deleted", "topic", "nowhere", 1, 1, (PartitionRange("nowhere", 0, 0, 7),)),
    ]
    far = Target("topic", "127.0.0.1:1")
    unknown = [
        SinkAudit("far", "topic", "t", 1, 1, (PartitionRange("t", 0, 0, 1),), far),
        SinkAudit("skipped", "topic", topic, 1, 1, is_skipped=True),
    ]
    record(cluster, entry(0, pipeline=pipeline, sinks=gone), entry(1, pipeline=pipeline, sinks=unknown))

    found = audit(cluster, pipeline, "--verify", "--batch", "0")
    unclear = audit(cluster, pipeline, "--verify", "--batch", "1")

    assert (found.exit_code, unclear.exit_code) == (1, 3)
    start, lacks = f"tidelog pipeline: batch 0 of {pipeline}: the sink ", "does not have the rows of the batch: "
    assert found.stderr.splitlines() == [
        f"{start}database {lacks}there is no database at {tmp_path}/none.db",
        f"{start}made again {lacks}{topic}-0 ends at offset 0, and ended at 7: it was deleted and made again",
        f"{start}deleted {lacks}there is no topic nowhere",
    ]
    reached, skipped = unclear.stderr.splitlines()
    assert reached.startswith("tidelog pipeline: the sink far cannot be verified in batch 1: ")
    assert skipped.endswith("cannot be verified in batch 1: it was left out by `recover --skip-sink`")


def test_a_directory_without_the_files_of_a_batch_is_different_whatever_is_missing(
    cluster: EmbeddedCluster, pipeline: str, tmp_path: Path
) -> None:
    batch = written_files(tmp_path, pipeline)
    files = SinkAudit("files", "files", str(tmp_path), 2, batch.output.checksum, files=1, staged=batch.output)
    record(cluster, entry(0, pipeline=pipeline, sinks=[files]))
    (path,) = (tmp_path / "files").glob("part-*")
    manifest = Path(batch.output.manifest_path)

    def verified() -> tuple[int, str]:
        found = audit(cluster, pipeline, "--verify")
        return found.exit_code, found.stderr.partition("the rows of the batch: ")[2].strip() or found.stderr

    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    cut = verified()
    path.unlink()
    missing = verified()
    kept = manifest.rename(tmp_path / "kept")
    without_manifest = verified()
    shutil.rmtree(tmp_path / "files")
    without_directory = verified()
    kept.rename(manifest)

    assert cut[0] == missing[0] == without_directory[0] == 1
    assert cut[1].startswith(f"{path} is not the file that was written: ")
    assert missing[1] == f"{path} is gone"
    assert without_directory[1] == f"there is no directory {tmp_path}/files"
    # The rows may be there: nobody knows by what to look for them.
    assert without_manifest[0] == 3
    assert without_manifest[1].endswith(f"the manifest {manifest} of the sink files is gone\n")


def test_records_that_a_topic_has_deleted_with_time_cannot_be_told(
    cluster: EmbeddedCluster, topic: str, pipeline: str
) -> None:
    with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        for _ in range(3):
            producer.send(topic, b"one", partition=0).result(30)
    with Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
        admin.delete_records({TopicPartition(topic, 0): 2})
    record(
        cluster,
        entry(
            0, pipeline=pipeline, sinks=[SinkAudit("topic", "topic", topic, 3, 1, (PartitionRange(topic, 0, 0, 3),))]
        ),
    )

    found = audit(cluster, pipeline, "--verify")

    assert found.exit_code == 3
    assert f"{topic}-0 begins at offset 2 by now: older records were deleted there" in found.stderr


def written_files(directory: Path, pipeline: str) -> StagedBatch:
    """Batch 0 of two rows, in a directory of files."""
    schema = pa.schema({"n": pa.int64()})
    kind = kind_of(Target("files", str(directory / "files")), str(directory / "staging"), {})
    kind.prepare(schema)
    attempt = kind.open_attempt(AttemptName("run", 0, 0, 0, 0), schema)
    attempt.write(pa.RecordBatch.from_pydict({"n": [1, 2]}, schema=schema))
    manifest = manifest_of("files", app_id(pipeline, "files", "query"), 0, schema, [attempt.hand_over()])
    batch = write_manifest(kind.target, kind.staging, {}, manifest, run="run")
    kind.end(batch)
    return batch
