"""What tasks do with transactions, against a real cluster and without Spark: one process is both a worker and the driver."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import uuid4

import pyarrow as pa
import pytest

from tests.spark.written import committed_numbers, transactional_ids
from tidelog import Admin
from tidelog.spark.errors import UnwritableError
from tidelog.spark.sink import sink_transactions
from tidelog.spark.sink.sink_batch import BatchWork
from tidelog.spark.sink.sink_committer import SinkCommitter
from tidelog.spark.sink.sink_options import SinkOptions, parse_sink_options
from tidelog.spark.sink.sink_participant import Participant, SinkIdentity
from tidelog.spark.sink.sink_transactions import Attempt, close_transactions, open_attempt
from tidelog.testing import EmbeddedCluster

NO_TIMEOUT_MS = 2**31 - 1


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

    def attempt(self, batch_id: int, *values: int) -> Attempt:
        attempt = open_attempt(self.options, self.identity, self.run, batch_id)
        attempt.write(pa.RecordBatch.from_pydict({"value": [str(each) for each in values]}))
        return attempt

    def task(self, batch_id: int, *values: int) -> Participant:
        return self.attempt(batch_id, *values).hand_over()


@pytest.fixture
def query(cluster: EmbeddedCluster, topic: str) -> Query:
    return Query(cluster.bootstrap_servers, topic)


def test_each_attempt_has_an_id_of_its_own_and_the_decision_says_which_counts(
    cluster: EmbeddedCluster, topic: str, query: Query
) -> None:
    first, again, other = query.task(0, 1, 2), query.task(0, 1, 2), query.task(0, 3)
    assert len({each.transactional_id for each in (first, again, other)}) == 3
    assert [each.records for each in (first, again, other)] == [2, 2, 1]
    assert {each for participant in (first, other) for each in participant.partitions} <= {(topic, n) for n in range(3)}

    query.committer.commit(BatchWork.of_topic(0, [again, other]))

    assert committed_numbers(cluster.bootstrap_servers, topic) == [1, 2, 3]
    assert not transactional_ids(cluster.bootstrap_servers, query.identity.query)


def test_ids_are_used_again_once_their_transactions_have_ended(
    cluster: EmbeddedCluster, topic: str, query: Query
) -> None:
    ids: set[str] = set()
    for batch_id in range(5):
        tasks = [query.task(batch_id, batch_id * 10 + number) for number in range(3)]
        ids |= {each.transactional_id for each in tasks}
        if batch_id == 3:
            query.committer.abort(BatchWork.of_topic(batch_id, tasks))
        else:
            query.committer.commit(BatchWork.of_topic(batch_id, tasks))

    assert len(ids) == 3
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


def test_a_failed_attempt_leaves_nothing(cluster: EmbeddedCluster, topic: str, query: Query) -> None:
    failed = query.attempt(0, 1, 2, 3)
    with pytest.raises(UnwritableError, match="rows were not written"):
        failed.write(pa.RecordBatch.from_pydict({"value": ["x"], "partition": [99]}))
    failed.abort()

    assert not transactional_ids(cluster.bootstrap_servers, query.identity.query)
    query.committer.commit(BatchWork.of_topic(0, [query.task(0, 1, 2, 3)]))
    assert committed_numbers(cluster.bootstrap_servers, topic) == [1, 2, 3]


def test_runs_share_no_ids(cluster: EmbeddedCluster, topic: str, query: Query) -> None:
    first = query.task(0, 1)
    query.committer.commit(BatchWork.of_topic(0, [first]))
    again = Query(cluster.bootstrap_servers, topic, run="run-2")

    second = again.task(1, 2)
    again.committer.commit(BatchWork.of_topic(1, [second]))

    assert second.transactional_id != first.transactional_id
    assert committed_numbers(cluster.bootstrap_servers, topic) == [1, 2]


def test_a_run_that_was_forgotten_does_not_begin_anew(cluster: EmbeddedCluster, topic: str, query: Query) -> None:
    """Its first id may be named by a decision that is still open."""
    open_still = query.task(0, 1)
    close_transactions()

    later = query.task(1, 2)

    assert later.transactional_id != open_still.transactional_id
    assert open_still.transactional_id in transactional_ids(cluster.bootstrap_servers, query.identity.query)


def test_a_forked_worker_has_another_name() -> None:
    name = sink_transactions._worker_name()
    assert sink_transactions._worker_name() == name
    sink_transactions._forked()
    assert sink_transactions._worker_name() != name


def timeout_ms(bootstrap: str, participant: Participant) -> int:
    with Admin(bootstrap_servers=bootstrap) as admin:
        return admin.describe_transaction(participant.transactional_id).timeout_ms


def test_with_two_phase_commit_there_is_no_time_out(cluster: EmbeddedCluster, topic: str, query: Query) -> None:
    assert timeout_ms(cluster.bootstrap_servers, query.task(0, 1)) == NO_TIMEOUT_MS


def test_a_time_out_that_is_given_counts(cluster: EmbeddedCluster, topic: str) -> None:
    query = Query(cluster.bootstrap_servers, topic, **{"kafka.transaction.timeout.ms": "54321"})
    assert timeout_ms(cluster.bootstrap_servers, query.task(0, 1)) == 54321


def test_without_two_phase_commit_the_time_out_is_the_longest_that_the_cluster_allows() -> None:
    topic = f"t-{uuid4().hex[:8]}"
    config = {"transaction.two.phase.commit.enable": "false", "transaction.max.timeout.ms": "765432"}
    with EmbeddedCluster(config=config) as cluster:
        cluster.create_topic(topic, partitions=3)
        query = Query(cluster.bootstrap_servers, topic)
        tasks = [query.task(0, 1), query.task(0, 2)]
        assert [timeout_ms(cluster.bootstrap_servers, each) for each in tasks] == [765432, 765432]
        query.committer.commit(BatchWork.of_topic(0, tasks))
        query.committer.commit(BatchWork.of_topic(1, [query.task(1, 3)]))
        assert committed_numbers(cluster.bootstrap_servers, topic) == [1, 2, 3]


def test_a_time_out_that_the_cluster_does_not_allow_is_told(cluster: EmbeddedCluster, topic: str) -> None:
    query = Query(cluster.bootstrap_servers, topic, **{"kafka.transaction.timeout.ms": "2000000000"})
    with pytest.raises(UnwritableError, match=r"no transaction can be opened: .*transaction.max.timeout.ms"):
        query.task(0, 1)


def _named(participant: Participant) -> tuple[str, int, int]:
    return participant.transactional_id, participant.producer_id, participant.producer_epoch
