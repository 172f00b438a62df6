"""Topics as a whole: a consumer without a group, and tables in one call each."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pyarrow as pa
import pytest

import tidelog
from tidelog import Admin, AsyncConsumer, Consumer
from tidelog.client.consumer.fetched_partition import Row
from tidelog.client.errors import ConfigError, RefusedError
from tidelog.testing import EmbeddedCluster


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster() as made:
        yield made


def values(consumer: Consumer, count: int) -> list[bytes]:
    found: list[Row] = []
    deadline = time.monotonic() + 20
    while len(found) < count and time.monotonic() < deadline:
        found += consumer.poll(timeout_ms=200)
    return sorted(row.value for row in found)


def test_a_consumer_without_a_group_reads_all_partitions(cluster: EmbeddedCluster) -> None:
    cluster.create_topic("all", partitions=3)
    cluster.write("all", [{"value": b"%d" % index, "partition": index} for index in range(3)])

    with Consumer("all", **cluster.client_options(), auto_offset_reset="earliest") as consumer:
        assert values(consumer, 3) == [b"0", b"1", b"2"]
        assert len(consumer.assignment()) == 3
        assert consumer.subscription() == {"all"}
        consumer.unsubscribe()
        assert consumer.assignment() == frozenset()


def test_partitions_that_come_later_are_read_from_their_beginning(cluster: EmbeddedCluster) -> None:
    cluster.create_topic("growing")
    options = {**cluster.client_options(), "metadata_max_age_ms": 200}
    with Consumer("growing", **options, auto_offset_reset="latest") as consumer:
        assert consumer.poll(timeout_ms=500) == []
        with Admin(**cluster.client_options()) as admin:
            admin.create_partitions({"growing": 2})
        cluster.write("growing", [{"value": b"new", "partition": 1}])

        assert values(consumer, 1) == [b"new"]


def test_a_pattern_needs_no_group(cluster: EmbeddedCluster) -> None:
    for name in ("metrics.cpu", "metrics.disk", "other"):
        cluster.create_topic(name)
        cluster.write(name, [name.encode()])

    with Consumer(**cluster.client_options(), auto_offset_reset="earliest") as consumer:
        consumer.subscribe(pattern="metrics[.].*")
        assert values(consumer, 2) == [b"metrics.cpu", b"metrics.disk"]


def test_there_is_nothing_to_listen_to_without_a_group(cluster: EmbeddedCluster) -> None:
    with (
        Consumer(**cluster.client_options()) as consumer,
        pytest.raises(ConfigError, match="all partitions are this consumer's: there is nothing to listen to"),
    ):
        consumer.subscribe("orders", on_assigned=print)


async def _first(cluster: EmbeddedCluster) -> bytes:
    async with AsyncConsumer("asked", **cluster.client_options(), auto_offset_reset="earliest") as consumer:
        async for record in consumer:
            return bytes(record.value)
    raise AssertionError


def test_a_loop_over_a_consumer_needs_no_group(cluster: EmbeddedCluster) -> None:
    import asyncio

    cluster.create_topic("asked")
    cluster.write("asked", [b"one"])

    assert asyncio.run(_first(cluster)) == b"one"


def test_a_table_is_written_and_read_in_one_call_each(cluster: EmbeddedCluster) -> None:
    cluster.create_topic("table", partitions=2)
    options = cluster.client_options()
    table = pa.table({"key": ["a", "b", "c"], "value": [b"1", b"2", None], "note": [1, 2, 3]})

    written = tidelog.write(table, "table", **options)
    found = tidelog.read("table", **options)

    assert sum(each.record_count for each in written) == 3
    rows = sorted(zip(found.column("key").to_pylist(), found.column("value").to_pylist(), strict=True))
    assert rows == [(b"a", b"1"), (b"b", b"2"), (b"c", None)]
    assert set(found.column("topic").to_pylist()) == {"table"}
    tidelog.write(found, "table", **options)
    assert tidelog.read("table", **options).num_rows == 6


def test_a_frame_of_pandas_is_a_table(cluster: EmbeddedCluster) -> None:
    pd = pytest.importorskip("pandas")
    cluster.create_topic("frame")

    tidelog.write(pd.DataFrame({"value": ["x", "y"]}), "frame", **cluster.client_options())

    frame = tidelog.read("frame", **cluster.client_options()).to_pandas()
    assert list(frame["value"]) == [b"x", b"y"]


def test_an_empty_topic_is_an_empty_table(cluster: EmbeddedCluster) -> None:
    cluster.create_topic("empty")

    found = tidelog.read("empty", **cluster.client_options())

    assert (found.num_rows, found.column_names[:2]) == (0, ["key", "value"])


def test_what_cannot_be_is_told_in_a_sentence(cluster: EmbeddedCluster) -> None:
    options = cluster.client_options()
    with pytest.raises(ConfigError, match="group_id says nothing here"):
        tidelog.read("table", **options, group_id="g")
    with pytest.raises(TypeError, match="a table or a frame is written, not list"):
        tidelog.write([1], "table", **options)
    with pytest.raises(ValueError, match="made of the columns value and key; the table has note"):
        tidelog.write(pa.table({"note": [1]}), "table", **options)
    with pytest.raises(RefusedError):
        tidelog.read("no such topic", **options)
