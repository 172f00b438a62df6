"""What tasks do with transactions, against a real cluster and without Spark: one process is both a worker and the driver."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pytest
from pyspark import TaskContext
from pyspark.sql.types import StructType

from tests.spark.written import committed_numbers, transactional_ids
from tidelog import Admin
from tidelog.client import coordinators
from tidelog.spark.errors import SinkError, UnwritableError
from tidelog.spark.pipelines import FromTopic, Pipeline, ToTopic
from tidelog.spark.pipelines.batch_rows import SinkRows
from tidelog.spark.pipelines.query_sinks import decider_options, query_sinks, with_deciding_cluster
from tidelog.spark.pipelines.sink_writing import BatchPlan, read_messages
from tidelog.spark.row_checksum import row_checksum
from tidelog.spark.sink.sink_batch import BatchWork
from tidelog.spark.sink.sink_committer import SinkCommitter
from tidelog.spark.sink.sink_options import SinkOptions, parse_sink_options
from tidelog.spark.sink.sink_participant import Participant, SinkIdentity, attempt_id, parse_transactional_id
from tidelog.spark.sink.sink_transactions import Attempt, TaskPlace, close_transactions, open_attempt
from tidelog.testing import EmbeddedCluster
from tidelog.wire.messages.find_coordinator import FindCoordinatorRequest


@pytest.fixture(autouse=True)
def _worker() -> Iterator[None]:
    yield
    close_transactions()


class Query:
    """A run of a query with a sink, as its driver and one of its workers see it."""

    def __init__(self, bootstrap: str, topic: str, run: str = "run-1", **more: str) -> None:
        given = {"kafka.bootstrap.servers": bootstrap, "topic": topic, **more}
        self.options: SinkOptions = parse_sink_options(given, is_stream=True)
        self.identity = SinkIdentity(f"q-{topic}")
        self.run = run
        self.committer = SinkCommitter(self.identity, run, self.options.client)
        self._attempts = itertools.count()

    def attempt(self, batch_id: int, *values: int, partition: int = 0, task_attempt: int = 0) -> Attempt:
        """One that Spark starts, which gives each a number of its own."""
        place = TaskPlace(partition, task_attempt, next(self._attempts))
        attempt = open_attempt(self.options, self.identity, self.run, batch_id, place)
        attempt.write(rows(*values))
        return attempt

    def task(self, batch_id: int, *values: int, partition: int = 0, task_attempt: int = 0) -> Participant:
        return self.attempt(batch_id, *values, partition=partition, task_attempt=task_attempt).hand_over()

    def commit(self, batch_id: int, *participants: Participant) -> None:
        self.committer.commit(BatchWork.of_topic(batch_id, participants))


def rows(*values: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"value": [str(each) for each in values]})


@pytest.fixture
def query(cluster: EmbeddedCluster, topic: str) -> Query:
    return Query(cluster.bootstrap_servers, topic)


def test_each_attempt_has_an_id_of_its_own_and_the_decision_says_which_counts(
    cluster: EmbeddedCluster, topic: str, query: Query
) -> None:
    first, again = query.task(0, 1, 2), query.task(0, 1, 2, task_attempt=1)
    other = query.task(0, 3, partition=1)
    assert [each.transactional_id.removeprefix(query.identity.ids_start) for each in (first, again, other)] == [
        "run-1.0.0.0",
        "run-1.0.0.1",
        "run-1.1.0.0",
    ]
    assert [each.records for each in (first, again, other)] == [2, 2, 1]
    assert first.checksum == again.checksum != other.checksum
    assert {each for participant in (first, other) for each in participant.partitions} <= {(topic, n) for n in range(3)}

    query.commit(0, again, other)

    assert committed_numbers(cluster.bootstrap_servers, topic) == [1, 2, 3]
    assert not transactional_ids(cluster.bootstrap_servers, query.identity.query)


def test_a_run_has_as_many_ids_as_tasks_however_often_workers_are_started_anew(
    cluster: EmbeddedCluster, topic: str, query: Query
) -> None:
    ids: set[str] = set()
    for batch_id in range(5):
        tasks = [query.task(batch_id, batch_id * 10 + number, partition=number) for number in range(3)]
        ids |= {each.transactional_id for each in tasks}
        if batch_id == 3:
            query.committer.abort(BatchWork.of_topic(batch_id, tasks))
        else:
            query.commit(batch_id, *tasks)
        # Spark ends a worker that has nothing to do for a minute, which is every one where batches are rarer.
        close_transactions()

    assert len(ids) == 3
    used = transactional_ids(cluster.bootstrap_servers, query.identity.query, is_open=False)
    assert ids == set(used) - {query.identity.decider_id}
    assert committed_numbers(cluster.bootstrap_servers, topic) == [0, 1, 2, 10, 11, 12, 20, 21, 22, 40, 41, 42]


def test_a_transaction_that_has_not_ended_is_left_alone(cluster: EmbeddedCluster, topic: str, query: Query) -> None:
    """As if somebody went on with the next batch while the decision about this one is open."""
    open_still = query.task(0, 1)
    later = query.task(1, 2)

    assert later.transactional_id != open_still.transactional_id
    assert set(transactional_ids(cluster.bootstrap_servers, query.identity.query)) == {
        open_still.transactional_id,
        later.transactional_id,
    }
    with Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
        admin.end_transaction(*_named(open_still), commit=True)
        admin.end_transaction(*_named(later), commit=False)
    assert committed_numbers(cluster.bootstrap_servers, topic) == [1]


def test_attempts_of_a_stage_that_is_tried_again_do_not_end_each_other(
    cluster: EmbeddedCluster, topic: str, query: Query
) -> None:
    """Spark counts task attempts anew in each stage attempt, and takes the result of whichever comes first."""
    first = query.attempt(0, 1, 2)
    second = query.attempt(0, 1, 2)
    loser, winner = second.hand_over(), first.hand_over()
    third = query.task(0, 1, 2)
    assert len({each.transactional_id for each in (winner, loser, third)}) == 3

    query.commit(0, winner)

    assert committed_numbers(cluster.bootstrap_servers, topic) == [1, 2]
    assert not transactional_ids(cluster.bootstrap_servers, query.identity.query)


def test_a_zombie_of_a_batch_that_wakes_in_the_next_one_ends_nothing_of_it(
    cluster: EmbeddedCluster, topic: str, query: Query
) -> None:
    """An attempt that Spark waits for no longer begins to write late: under numbers that the next batch has as well."""
    query.commit(0, query.task(0, 1, task_attempt=1))
    next_batch = query.task(1, 2)
    zombie = query.attempt(0, 1)
    zombie_part = zombie.hand_over()

    assert zombie_part.transactional_id != next_batch.transactional_id
    query.commit(1, next_batch)
    assert committed_numbers(cluster.bootstrap_servers, topic) == [1, 2]
    # The owner has swept what no decision names.
    assert not transactional_ids(cluster.bootstrap_servers, query.identity.query)


def test_a_zombie_that_has_not_written_yet_is_fenced_by_the_next_batch(
    cluster: EmbeddedCluster, topic: str, query: Query
) -> None:
    place = TaskPlace(0, 0, 1000)
    zombie = open_attempt(query.options, query.identity, query.run, 0, place)
    query.commit(0, query.task(0, 1, task_attempt=1))
    next_batch = query.task(1, 2)
    assert next_batch.transactional_id == attempt_id(query.identity, query.run, 0, 0, 0)

    def write_late() -> None:
        # The one or the other is told, by how soon the node answers.
        zombie.write(rows(1))
        zombie.hand_over()

    with pytest.raises(UnwritableError, match="rows were not written"):
        write_late()
    zombie.abort()

    query.commit(1, next_batch)
    assert committed_numbers(cluster.bootstrap_servers, topic) == [1, 2]


def test_a_failed_attempt_leaves_nothing(cluster: EmbeddedCluster, topic: str, query: Query) -> None:
    failed = query.attempt(0, 1, 2, 3)
    with pytest.raises(UnwritableError, match="rows were not written"):
        failed.write(pa.RecordBatch.from_pydict({"value": ["x"], "partition": [99]}))
    failed.abort()

    assert not transactional_ids(cluster.bootstrap_servers, query.identity.query)
    query.commit(0, query.task(0, 1, 2, 3, task_attempt=1))
    assert committed_numbers(cluster.bootstrap_servers, topic) == [1, 2, 3]


def test_runs_share_no_ids(cluster: EmbeddedCluster, topic: str, query: Query) -> None:
    first = query.task(0, 1)
    query.commit(0, first)
    again = Query(cluster.bootstrap_servers, topic, run="run-2")

    second = again.task(1, 2)
    again.commit(1, second)

    assert second.transactional_id != first.transactional_id
    assert committed_numbers(cluster.bootstrap_servers, topic) == [1, 2]


def test_sixty_attempts_in_a_worker_have_the_connections_of_one(topic: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with EmbeddedCluster() as cluster:
        cluster.create_topic(topic, partitions=2)
        before = connections(cluster)
        asked = 0

        def counting(**fields: Any) -> FindCoordinatorRequest:
            nonlocal asked
            asked += 1
            return FindCoordinatorRequest(**fields)

        monkeypatch.setattr(coordinators, "FindCoordinatorRequest", counting)
        query = Query(cluster.bootstrap_servers, topic)
        written = [query.task(0, number, partition=number) for number in range(60)]
        # Each id may have another coordinator, and nobody in this worker has used it before.
        assert asked == 60
        query.commit(0, *written)
        asked = 0
        for number in range(60):
            query.task(1, number, partition=number)
        assert asked == 0, "the next batch has the same ids"
        # To the data, to the coordinator, and perhaps the one that was there before the brokers were known.
        assert connections(cluster) - before <= 3
        close_transactions()
        wait_until(lambda: connections(cluster) == before)


def connections(cluster: EmbeddedCluster) -> int:
    """Those that are established to a node of the cluster, as the operating system has them."""
    port = int(cluster.bootstrap_servers.rpartition(":")[2])
    found = 0
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        _, local, _, state = line.split()[:4]
        found += state == "01" and int(local.rpartition(":")[2], 16) == port
    return found


def wait_until(condition: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline_s, "it never came to be"
        time.sleep(0.02)


def test_a_pipeline_s_transactions_on_another_cluster_say_where_they_are_decided_on(
    cluster: EmbeddedCluster, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    deciding = cluster.bootstrap_servers
    context = SimpleNamespace(
        partitionId=lambda: 0, attemptNumber=lambda: 0, taskAttemptId=lambda: 0, stageId=lambda: 0
    )
    monkeypatch.setattr(TaskContext, "get", lambda: context)
    with EmbeddedCluster() as other:
        other.create_topic(topic)
        sinks = [ToTopic(topic, name="near"), ToTopic(topic, name="far", bootstrap=other.bootstrap_servers)]
        pipeline = Pipeline(name="p", source=FromTopic("in"), sink=sinks, bootstrap=deciding)
        columns = [SinkRows(each.label, (), StructType([])) for each in sinks]
        found = query_sinks(pipeline, columns, checkpoint="c", query="p", beside=str)
        found = with_deciding_cluster(found, decider_options(pipeline).client)
        plan = BatchPlan(SinkIdentity(f"q-{topic}"), "run-1", 0, clusters=tuple(each.cluster for each in found.topics))
        row = pa.array([{"value": b"1"}])

        (message,) = plan(iter([pa.RecordBatch.from_arrays([row, row], ["s0", "s1"])]))

        (written,) = read_messages([message.column(0)[0].as_py()])
        ids = {index: parse_transactional_id(each.transactional_id) for index, each in written.participants.items()}
        near, far = ids[0], ids[1]
        assert near is not None
        assert far is not None
        with Admin(bootstrap_servers=deciding) as admin:
            assert far.decided_at == (admin.describe_cluster().cluster_id, deciding)
        assert (near.decided_at, near.run, far.run) == (None, "run-1", "run-1")
        # Each row is hashed once, for its sink.
        assert [each.checksum for each in written.participants.values()] == [0, 0]
        assert all(each.checksum for each in written.topics)
        close_transactions()


def test_only_a_task_writes() -> None:
    with pytest.raises(SinkError, match="only a task of Spark's"):
        TaskPlace.here()


def test_the_checksum_is_of_what_becomes_records(cluster: EmbeddedCluster, topic: str) -> None:
    query = Query(cluster.bootstrap_servers, topic)
    headers = pa.list_(pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))
    columns: dict[str, Any] = {
        "key": [None, b"k"],
        "value": ["a", "b"],
        "headers": pa.array([None, []], headers),
        "other": [1, 2],
    }
    table = pa.RecordBatch.from_pydict(columns)
    sums = []
    for number, batch in enumerate([table, table.drop_columns(["other", "headers"]), table.slice(1)]):
        attempt = open_attempt(query.options, query.identity, "run-1", 0, TaskPlace(number, 0, number))
        attempt.write(batch)
        sums.append(attempt.hand_over().checksum)
    topics: dict[str, Any] = {"topic": [topic, topic], "key": [None, b"k"], "value": [b"a", b"b"]}

    assert sums[0] == sums[1] == row_checksum(pa.RecordBatch.from_pydict(topics))
    assert sums[2] not in (0, sums[0])


def timeout_ms(bootstrap: str, participant: Participant) -> int:
    with Admin(bootstrap_servers=bootstrap) as admin:
        return admin.describe_transaction(participant.transactional_id).timeout_ms


@pytest.mark.parametrize("two_phase", ["true", "false"])
def test_the_time_out_is_the_longest_that_the_cluster_allows(two_phase: str) -> None:
    topic = f"t-{uuid4().hex[:8]}"
    config = {"transaction.two.phase.commit.enable": two_phase, "transaction.max.timeout.ms": "765432"}
    with EmbeddedCluster(config=config) as cluster:
        cluster.create_topic(topic, partitions=3)
        query = Query(cluster.bootstrap_servers, topic)
        tasks = [query.task(0, 1), query.task(0, 2, partition=1)]
        assert [timeout_ms(cluster.bootstrap_servers, each) for each in tasks] == [765432, 765432]
        query.commit(0, *tasks)
        query.commit(1, query.task(1, 3))
        assert committed_numbers(cluster.bootstrap_servers, topic) == [1, 2, 3]


@pytest.mark.parametrize(
    "given", [{"kafka.transaction.timeout.ms": "54321"}, {"transactionTimeout": "54321"}, {"transactionTimeout": "9m"}]
)
def test_a_time_out_that_is_given_counts(cluster: EmbeddedCluster, topic: str, given: dict[str, str]) -> None:
    query = Query(cluster.bootstrap_servers, topic, **given)
    assert timeout_ms(cluster.bootstrap_servers, query.task(0, 1)) == (540_000 if "9m" in given.values() else 54321)


def test_what_nobody_comes_back_for_ends_by_itself(cluster: EmbeddedCluster, topic: str) -> None:
    abandoned = Query(cluster.bootstrap_servers, topic, transactionTimeout="300ms")
    abandoned.task(0, 1)
    other = Query(cluster.bootstrap_servers, topic, run="other")
    other.identity = SinkIdentity(f"another-{topic}")
    other.committer = SinkCommitter(other.identity, other.run, other.options.client)
    other.commit(0, other.task(0, 2))

    wait_until(lambda: not transactional_ids(cluster.bootstrap_servers, abandoned.identity.query))
    assert committed_numbers(cluster.bootstrap_servers, topic) == [2]


def test_a_time_out_that_the_cluster_does_not_allow_is_told(cluster: EmbeddedCluster, topic: str) -> None:
    query = Query(cluster.bootstrap_servers, topic, **{"kafka.transaction.timeout.ms": "2000000000"})
    with pytest.raises(UnwritableError, match=r"no transaction can be opened for batch 0 .*transaction.max.timeout.ms"):
        query.task(0, 1)


def _named(participant: Participant) -> tuple[str, int, int]:
    return participant.transactional_id, participant.producer_id, participant.producer_epoch
