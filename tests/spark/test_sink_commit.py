"""What a sink's `commit` says of a batch, without Spark: its input, rows and checksum; and what it tells once."""

from __future__ import annotations

import hashlib
import logging
import pickle
from collections.abc import Iterator
from pathlib import Path
from urllib.request import Request, urlopen
from uuid import uuid4

import pytest
from moto.server import ThreadedMotoServer
from pyspark.sql.types import StringType, StructType

from tests.spark.sink_tasks import Tasks
from tests.spark.written import committed_numbers, committed_rows, transactional_ids
from tidelog.spark.errors import BatchInputError, BatchOrderError
from tidelog.spark.outputs.storage import Storage
from tidelog.spark.sink import open_transactions, sink, sink_warnings
from tidelog.spark.sink.input_hash import InputUnreadableError, input_hash
from tidelog.spark.sink.sink import BatchSink, Messages, SinkWrite, StreamSink, TaskWritten
from tidelog.spark.sink.sink_decisions import TOPIC
from tidelog.spark.sink.sink_options import parse_sink_options
from tidelog.spark.sink.sink_participant import Participant, SinkIdentity
from tidelog.spark.sink.sink_state import encode_key
from tidelog.testing import EmbeddedCluster

SCHEMA = StructType().add("value", StringType())


@pytest.fixture(autouse=True)
def _process() -> Iterator[None]:
    """What the process that commits keeps."""
    yield
    while sink._committers:
        sink._committers.popitem()[1].close()
    sink_warnings._told.clear()


def with_sum(participant: Participant, checksum: int) -> Participant:
    return Participant(
        participant.transactional_id,
        participant.producer_id,
        participant.producer_epoch,
        participant.records,
        checksum,
        participant.partition_count,
        participant.partitions,
    )


class Stream:
    """Runs of a streaming query, as its sink sees them; `entry` is what Spark wrote down of a batch before it."""

    def __init__(self, cluster: EmbeddedCluster, topic: str, checkpoint: Path, **more: str) -> None:
        self.bootstrap = cluster.bootstrap_servers
        self.checkpoint = checkpoint
        (checkpoint / "offsets").mkdir(parents=True)
        self.identity = SinkIdentity(f"q-{topic}")
        self.tasks = Tasks(self.bootstrap, topic, self.identity)
        given = {"kafka.bootstrap.servers": self.bootstrap, "topic": topic, **more}
        self.sink = StreamSink(parse_sink_options(given, is_stream=True), SCHEMA)

    def plan(self, batch_id: int, entry: str) -> None:
        (self.checkpoint / "offsets" / str(batch_id)).write_text(entry)

    def commit(self, run: str, batch_id: int, *values: int, checksum: int | None = None) -> None:
        of = SinkWrite(self.identity, run, batch_id, str(self.checkpoint))
        written = with_sum(self.tasks.write(run, values), sum(values) if checksum is None else checksum)
        messages: Messages = [TaskWritten(len(values), of, written), None, TaskWritten(0, of)]
        try:
            self.sink.commit(messages, batch_id)
        except Exception:
            self.sink.abort(messages, batch_id)
            raise


@pytest.fixture
def stream(cluster: EmbeddedCluster, topic: str, tmp_path: Path) -> Iterator[Stream]:
    made = Stream(cluster, topic, tmp_path / "checkpoint")
    yield made
    made.tasks.close()


def test_a_checkpoint_that_is_one_batch_old_is_an_error(cluster: EmbeddedCluster, topic: str, stream: Stream) -> None:
    stream.plan(0, "to 2")
    stream.commit("run-1", 0, 0, 1)
    stream.plan(1, "to 4")
    stream.commit("run-1", 1, 2, 3)
    # Spark plans the batch anew: more has come since.
    stream.plan(1, "to 6")

    with pytest.raises(BatchInputError, match="from other input"):
        stream.commit("run-2", 1, 2, 3, 4, 5)

    assert committed_numbers(cluster.bootstrap_servers, topic) == [0, 1, 2, 3]
    assert not transactional_ids(cluster.bootstrap_servers, stream.identity.query)
    stream.plan(0, "to 2")
    with pytest.raises(BatchOrderError):
        stream.commit("run-3", 0, 0, 1)


def test_a_replay_of_the_same_input_counts_once_whatever_its_rows(
    cluster: EmbeddedCluster, topic: str, stream: Stream, caplog: pytest.LogCaptureFixture
) -> None:
    stream.plan(0, "to 2")
    stream.commit("run-1", 0, 0, 1)
    stream.commit("run-2", 0, 0, 1)
    assert not caplog.records

    stream.commit("run-3", 0, 0, 1, 2)

    assert committed_numbers(cluster.bootstrap_servers, topic) == [0, 1]
    assert "a replay of the same input, but had 2 rows then and 3 now" in caplog.text


def test_without_a_checkpoint_rows_and_checksum_decide_and_that_is_told_once(
    cluster: EmbeddedCluster, topic: str, stream: Stream, caplog: pytest.LogCaptureFixture
) -> None:
    stream.commit("run-1", 0, 0, 1)
    stream.commit("run-1", 1, 2, 3)
    assert caplog.text.count("are known again by their rows alone") == 1
    assert "offsets/1" not in caplog.text
    stream.commit("run-2", 1, 2, 3)

    with pytest.raises(BatchInputError):
        stream.commit("run-3", 1, 2, 3, checksum=7)

    assert committed_numbers(cluster.bootstrap_servers, topic) == [0, 1, 2, 3]


def test_a_checkpoint_that_is_away_is_asked_once_a_run(stream: Stream, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def away(_checkpoint: str, batch_id: int) -> str:
        asked.append(batch_id)
        raise InputUnreadableError("the store does not answer")

    monkeypatch.setattr("tidelog.spark.sink.input_hash.input_hash", away)
    for run, batch_id in (("run-1", 0), ("run-1", 1), ("run-2", 2), ("run-2", 3)):
        stream.commit(run, batch_id, batch_id)

    assert asked == [0, 2]


def batch_sink(cluster: EmbeddedCluster, topic: str, **more: str) -> BatchSink:
    given = {"kafka.bootstrap.servers": cluster.bootstrap_servers, "topic": topic, "delivery": "exactly_once", **more}
    return BatchSink(parse_sink_options(given, is_stream=False), SCHEMA, overwrite=False)


def commit(cluster: EmbeddedCluster, topic: str, made: BatchSink, *values: int, checksum: int | None = None) -> None:
    of = made._write
    tasks = Tasks(cluster.bootstrap_servers, topic, of.identity)
    written = with_sum(tasks.write(of.run, values), sum(values) if checksum is None else checksum)
    tasks.close()
    messages: Messages = [TaskWritten(len(values), of, written)]
    try:
        made.commit(messages)
    except Exception:
        made.abort(messages)
        raise


@pytest.mark.parametrize(
    ("check", "other_sum", "other_count"),
    [({}, False, False), ({"replayCheck": "count"}, True, False), ({"replayCheck": "none"}, True, True)],
    ids=["checksum", "count", "none"],
)
def test_two_writes_under_one_version_are_one_only_where_they_are_the_same(
    cluster: EmbeddedCluster, topic: str, check: dict[str, str], other_sum: bool, other_count: bool
) -> None:
    def write(*values: int, checksum: int | None = None) -> bool:
        made = batch_sink(cluster, topic, txnAppId=f"app-{topic}", txnVersion="3", **check)
        try:
            commit(cluster, topic, made, *values, checksum=checksum)
        except BatchInputError:
            return False
        return True

    assert write(1, 2)
    assert write(1, 2)
    assert write(3, 4) is other_sum
    assert write(1, 2, 3) is other_count
    assert committed_numbers(cluster.bootstrap_servers, topic) == [1, 2]
    assert not transactional_ids(cluster.bootstrap_servers, f"app-{topic}")


def test_a_batch_that_comes_once_leaves_nothing(cluster: EmbeddedCluster, topic: str) -> None:
    first = batch_sink(cluster, topic)
    commit(cluster, topic, first, 1, 2)
    commit(cluster, topic, batch_sink(cluster, topic), 1, 2)

    assert committed_numbers(cluster.bootstrap_servers, topic) == [1, 1, 2, 2]
    assert not sink._committers
    key = encode_key(first._write.identity)
    values = [row.value for row in committed_rows(cluster.bootstrap_servers, TOPIC) if row.key == key]
    assert (len(values), values[-1]) == (2, None), "a decision, and a tombstone for compaction"


def test_a_batch_tells_of_markers_and_of_what_others_have_open(
    cluster: EmbeddedCluster, topic: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(open_transactions.tell_open_elsewhere, "__kwdefaults__", {"but": None, "age_ms_min": 0})
    monkeypatch.setattr(sink_warnings, "MARKERS_MAX", 0)
    abandoned = Tasks(cluster.bootstrap_servers, topic, SinkIdentity(f"gone-{uuid4().hex[:8]}"))
    abandoned.write("run-0", [7])
    abandoned.close()

    commit(cluster, topic, batch_sink(cluster, topic), 1, 2)

    assert caplog.text.count("is ended by 1 markers") == 1
    assert caplog.text.count(f"tidelog pipeline recover {abandoned.identity.query}") == 1


def test_an_abort_of_which_no_task_says_whose_it_is_goes_by_the_checkpoint(
    cluster: EmbeddedCluster, topic: str, stream: Stream, caplog: pytest.LogCaptureFixture
) -> None:
    stream.plan(0, "to 1")
    stream.commit("run-1", 0, 0)
    stream.tasks.write("run-1", [1])
    stream.sink.abort([None, None], 1)
    # Nothing tells whose it is: at least people can find it.
    assert f"batch 1 of a query without a name to {topic}" in caplog.text
    assert "under tidelog-spark.*" in caplog.text
    assert len(transactional_ids(cluster.bootstrap_servers, stream.identity.query)) == 1
    caplog.clear()
    given = {"kafka.bootstrap.servers": stream.bootstrap, "topic": topic, "checkpointLocation": str(stream.checkpoint)}
    knowing = StreamSink(parse_sink_options(given, is_stream=True), SCHEMA)
    (stream.checkpoint / "metadata").write_text("{")
    knowing.abort([None, None], 1)
    assert "metadata in the checkpoint" in caplog.text
    caplog.clear()

    (stream.checkpoint / "metadata").write_text(f'{{"id":"{stream.identity.query}"}}')
    knowing.abort([None, None], 1)

    assert not caplog.records
    assert not transactional_ids(cluster.bootstrap_servers, stream.identity.query)
    stream.plan(1, "to 2")
    stream.commit("run-2", 1, 1)
    assert committed_numbers(cluster.bootstrap_servers, topic) == [0, 1]


def test_many_markers_are_told_once(
    stream: Stream, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    few = Participant("id", 1, 1, 10, 0, 100, (("t", 0),))
    sink_warnings.warn_of_markers(stream.identity, "run-1", [few] * 200)
    assert not caplog.records
    sink_warnings.warn_of_markers(stream.identity, "run-1", [few] * 201)
    sink_warnings.warn_of_markers(stream.identity, "run-1", [few] * 201)
    assert caplog.text.count("ended by 20100 markers: it has 201 tasks") == 1


def test_what_a_query_that_never_came_back_has_open_is_told_with_the_first_batch(
    cluster: EmbeddedCluster,
    topic: str,
    stream: Stream,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(open_transactions.tell_open_elsewhere, "__kwdefaults__", {"but": None, "age_ms_min": 0})
    abandoned = Tasks(cluster.bootstrap_servers, topic, SinkIdentity(f"gone-{uuid4().hex[:8]}"))
    abandoned.write("run-0", [7])
    abandoned.close()
    for batch_id in (0, 1):
        stream.plan(batch_id, f"to {batch_id}")
        stream.commit("run-1", batch_id, batch_id)

    assert caplog.text.count(f"tidelog pipeline recover {abandoned.identity.query}") == 1
    assert caplog.records[0].levelno == logging.WARNING


def test_it_is_told_with_a_first_batch_that_is_empty_too(
    cluster: EmbeddedCluster,
    topic: str,
    stream: Stream,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(open_transactions.tell_open_elsewhere, "__kwdefaults__", {"but": None, "age_ms_min": 0})
    abandoned = Tasks(cluster.bootstrap_servers, topic, SinkIdentity(f"gone-{uuid4().hex[:8]}"))
    abandoned.write("run-0", [7])
    abandoned.close()
    stream.plan(0, "to 0")

    stream.sink.commit([TaskWritten(0, SinkWrite(stream.identity, "run-1", 0, str(stream.checkpoint)))], 0)

    assert caplog.text.count(f"tidelog pipeline recover {abandoned.identity.query}") == 1


def test_it_is_told_before_the_first_batch_where_the_checkpoint_says_whose_query_it_is(
    cluster: EmbeddedCluster,
    topic: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """And transactions of the query itself are none of others."""
    monkeypatch.setattr(open_transactions.tell_open_elsewhere, "__kwdefaults__", {"but": None, "age_ms_min": 0})
    stream = Stream(cluster, topic, tmp_path / "c", checkpointLocation=str(tmp_path / "c"))
    (stream.checkpoint / "metadata").write_text(f'{{"id":"{stream.identity.query}"}}')
    abandoned = Tasks(cluster.bootstrap_servers, topic, SinkIdentity(f"gone-{uuid4().hex[:8]}"))
    for each in (abandoned, stream.tasks):
        each.write("run-0", [7])
    abandoned.close()

    copies = [pickle.dumps(stream.sink) for _ in range(2)]
    told = caplog.text
    stream.plan(0, "to 0")
    stream.commit("run-1", 0, 1)

    assert told.count(f"tidelog pipeline recover {abandoned.identity.query}") == 1
    assert f"recover {stream.identity.query}" not in told
    stream.tasks.close()
    assert caplog.text == told, "told once"
    assert pickle.loads(copies[0])._options == stream.sink._options


def test_the_entry_of_a_batch_is_read_here_and_from_an_object_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = b"v1\n{}\n12"
    wanted = hashlib.sha256(entry).hexdigest()
    odd = tmp_path / "a b%20#?:c"
    (odd / "offsets").mkdir(parents=True)
    (odd / "offsets" / "7").write_bytes(entry)
    for place in (str(odd), f"file:{odd}", f"file://{odd}"):
        assert input_hash(place, 7) == wanted

    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    try:
        _, port = server.get_host_and_port()
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{port}")
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            monkeypatch.setenv(name, "test")
        monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
        with urlopen(Request(f"http://127.0.0.1:{port}/checkpoints", method="PUT"), timeout=30):
            pass
        Storage.at("s3://checkpoints/q").write("offsets/7", entry)
        assert input_hash("s3a://checkpoints/q", 7) == wanted
        with pytest.raises(
            InputUnreadableError, match="offsets/8 in the checkpoint s3a://checkpoints/q cannot be read"
        ):
            input_hash("s3a://checkpoints/q", 8)
    finally:
        server.stop()


@pytest.mark.parametrize("place", ["/nowhere", "file:///nowhere"])
def test_an_entry_that_is_not_there_is_told(place: str) -> None:
    with pytest.raises(InputUnreadableError, match="offsets/3 in the checkpoint"):
        input_hash(place, 3)


@pytest.mark.parametrize("place", ["hdfs://name/ck", "dbfs:/ck", "abfss://c@a.example/ck"])
def test_a_checkpoint_elsewhere_is_out_of_reach(place: str) -> None:
    with pytest.raises(InputUnreadableError, match="out of reach of the process that commits"):
        input_hash(place, 3)
