"""The load of the benchmarks carries records, and does not pass over one that is lost, doubled or changed."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from benchmarks.broker.load_client import Job, LoadClient, LoadError
from benchmarks.broker.topics import create_topic
from benchmarks.floor.floor_program import Floor
from tidelog.testing import EmbeddedCluster

pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="the load is compiled where it is used")

NUMBER = 500


@pytest.fixture(scope="module")
def load() -> LoadClient:
    return LoadClient.built()


def job(kind: str, count: int = NUMBER, size_bytes: int = 100, partitions: int = 3) -> Job:
    return Job(kind, partitions, count, size_bytes, {})


def test_what_was_produced_is_consumed_once_and_whole(
    load: LoadClient, tidelog_cluster: EmbeddedCluster, tidelog_topic: str
) -> None:
    tidelog_cluster.create_topic(f"{tidelog_topic}-wide", partitions=3)

    produced = load.run(job("produce"), tidelog_cluster.bootstrap_servers, f"{tidelog_topic}-wide")
    consumed = load.run(job("consume"), tidelog_cluster.bootstrap_servers, f"{tidelog_topic}-wide")

    assert (produced.records, produced.bytes) == (consumed.records, consumed.bytes) == (NUMBER, NUMBER * 100)


def test_a_round_trip_is_timed(load: LoadClient, tidelog_cluster: EmbeddedCluster, tidelog_topic: str) -> None:
    carried = load.run(job("round-trip", 50, partitions=1), tidelog_cluster.bootstrap_servers, tidelog_topic)

    assert carried.records == 50
    assert 0 < carried.p50_ms <= carried.p99_ms <= carried.max_ms


@pytest.mark.parametrize(
    ("twice", "wanted", "complaint"),
    [
        (True, job("consume", 2 * NUMBER, partitions=1), "a record came twice"),
        (False, job("consume", NUMBER // 2, partitions=1), "a record came that nobody sent"),
        (False, job("consume", size_bytes=99, partitions=1), "a record came back with another size"),
        (False, job("consume", partitions=2), "Unknown partition"),
    ],
)
def test_a_load_that_is_not_carried_fails(
    load: LoadClient,
    tidelog_cluster: EmbeddedCluster,
    tidelog_topic: str,
    twice: bool,
    wanted: Job,
    complaint: str,
) -> None:
    for _ in range(2 if twice else 1):
        load.run(job("produce", partitions=1), tidelog_cluster.bootstrap_servers, tidelog_topic)

    with pytest.raises(LoadError, match=complaint):
        load.run(wanted, tidelog_cluster.bootstrap_servers, tidelog_topic)


def test_the_floor_carries_the_load_as_well(load: LoadClient, tmp_path: Path) -> None:
    floor = Floor(tmp_path / "floor")
    try:
        floor.start()
        create_topic(floor.bootstrap, "records", 3)
        produced = load.run(job("produce"), floor.bootstrap, "records")
        consumed = load.run(job("consume"), floor.bootstrap, "records")
        create_topic(floor.bootstrap, "trips", 1)
        timed = load.run(job("round-trip", 50, partitions=1), floor.bootstrap, "trips")
    finally:
        floor.discard()

    assert produced.records == consumed.records == NUMBER
    assert timed.records == 50
