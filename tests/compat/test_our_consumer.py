"""Our consumer against Apache Kafka: groups of both protocols, beside librdkafka, transactions."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support import consumer_scenarios as scenarios
from tests.support.apache_kafka import ApacheKafka, Node

PROTOCOLS = ["classic", "consumer"]
STRATEGIES = ["range", "roundrobin", "sticky", "cooperative-sticky"]


@pytest.fixture(scope="module")
def bootstrap(kafka: ApacheKafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    settings = {
        "group.consumer.min.heartbeat.interval.ms": "100",
        "group.consumer.heartbeat.interval.ms": "100",
    }
    from tests.support.apache_kafka import SMALL_NODE

    with Node(kafka, tmp_path_factory.mktemp("kafka"), {**SMALL_NODE, **settings}) as node:
        yield node.bootstrap


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_what_is_committed_is_where_the_next_one_goes_on(bootstrap: str, protocol: str) -> None:
    scenarios.reads_commits_and_resumes(bootstrap, protocol)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_members_share_and_take_over(bootstrap: str, strategy: str) -> None:
    scenarios.shares_and_takes_over(bootstrap, "classic", partition_assignment_strategy=strategy)


def test_members_share_and_take_over_as_the_coordinator_says(bootstrap: str) -> None:
    scenarios.shares_and_takes_over(bootstrap, "consumer")


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_offsets_may_be_kept_elsewhere(bootstrap: str, protocol: str) -> None:
    scenarios.keeps_offsets_elsewhere(bootstrap, protocol)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_pattern_finds_topics_that_come_later(bootstrap: str, protocol: str) -> None:
    scenarios.follows_a_pattern(bootstrap, protocol)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_static_member_comes_back_to_what_it_had(bootstrap: str, protocol: str) -> None:
    scenarios.static_member_comes_back(bootstrap, protocol)


@pytest.mark.parametrize("strategy", ["range", "roundrobin", "cooperative-sticky"])
def test_a_group_of_ours_and_librdkafkas(bootstrap: str, strategy: str) -> None:
    scenarios.shares_with_librdkafka(bootstrap, strategy)


def test_pausing_and_seeking(bootstrap: str) -> None:
    scenarios.pauses_seeks_and_wakes(bootstrap)


def test_columns(bootstrap: str) -> None:
    scenarios.reads_columns(bootstrap)


def test_aborted_transactions_are_left_out(bootstrap: str) -> None:
    scenarios.skips_what_was_aborted(bootstrap)
