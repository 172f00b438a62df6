"""The driver's half of the exactly-once sink against Apache Kafka, which has no two-phase commit: the tests of our own node."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.spark.test_sink_committer import (  # noqa: F401 - tests and a fixture of theirs, to be found here
    tasks,
    test_a_batch_is_there_once_it_is_committed_and_nothing_stays_open,
    test_a_decided_batch_is_finished_by_the_abort_that_follows_a_failed_commit,
    test_a_decided_transaction_that_times_out_stops_the_query_with_batch_and_partitions,
    test_a_decision_of_which_nothing_came_to_be_is_made_anew,
    test_a_new_run_aborts_what_runs_before_it_left_open,
    test_a_replayed_batch_is_aborted,
    test_a_superseded_run_fails_and_aborts_what_it_has_just_written,
    test_a_transaction_that_has_timed_out_before_is_not_decided_on,
    test_an_abort_ends_what_a_failed_commit_has_pinned,
    test_each_row_is_there_once_wherever_a_driver_dies,
    test_others_are_left_alone_however_alike_their_names,
    test_recovery_commits_what_is_decided_and_aborts_the_rest,
)
from tests.support.apache_kafka import SMALL_NODE, ApacheKafka, Node

pytestmark = pytest.mark.compat


@pytest.fixture(scope="module")
def version() -> int:
    """Kafka's own since 4.0."""
    return 2


@pytest.fixture(scope="module")
def can_pin() -> bool:
    """Its two-phase commit cannot keep a transaction."""
    return False


@pytest.fixture(scope="module")
def bootstrap(kafka: ApacheKafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    settings = {**SMALL_NODE, "transaction.abort.timed.out.transaction.cleanup.interval.ms": "50"}
    with Node(kafka, tmp_path_factory.mktemp("node"), settings) as node:
        yield node.bootstrap
