"""A task that reads a range, as a worker of Spark's does it: by a reader that is kept from task to task."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.spark.topics import fill, options
from tidelog import Admin
from tidelog.client.consumer.topic_partition import TopicPartition
from tidelog.spark.errors import DataLossError
from tidelog.spark.source.offset_ranges import OffsetRange
from tidelog.spark.source.source_options import SourceOptions, parse_source_options
from tidelog.spark.source.task_reading import close_kept, read_range
from tidelog.testing import EmbeddedCluster


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    yield
    close_kept()


def values(given: SourceOptions, wanted: OffsetRange) -> list[int]:
    return [int(each or b"") for batch in read_range(given, wanted) for each in batch.column("value").to_pylist()]


def id_of(cluster: EmbeddedCluster, topic: str) -> str | None:
    with Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
        return admin.describe_topic(topic).id


def test_no_other_topic_of_the_same_name_is_read(
    cluster: EmbeddedCluster, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    # How long to make sure of it before it counts.
    options_of = options(cluster.bootstrap_servers, topic, kafkaConsumer__pollTimeoutMs="300")
    strict = parse_source_options(options_of)
    lenient = parse_source_options({**options_of, "failOnDataLoss": "false"})
    partition = TopicPartition(topic, 0)
    fill(cluster.bootstrap_servers, topic, range(10), partition=0)
    old = id_of(cluster, topic)
    assert values(strict, OffsetRange(partition, 2, 5, old)) == [2, 3, 4]
    cluster.delete_topic(topic)
    cluster.create_topic(topic, partitions=3)
    fill(cluster.bootstrap_servers, topic, range(100, 120), partition=0)
    new = id_of(cluster, topic)

    # The reader that is kept knows the old one, and finds the new one.
    assert values(strict, OffsetRange(partition, 2, 5, new)) == [102, 103, 104]
    with pytest.raises(
        DataLossError, match=rf"its id was {old} and is {new}, .* \({topic}-0 from 5 to 10\); .*failOnD"
    ):
        values(strict, OffsetRange(partition, 5, 10, old))
    assert values(lenient, OffsetRange(partition, 5, 10, old)) == []
    assert "was deleted and created again" in caplog.text
    assert values(lenient, OffsetRange(partition, 5, 7)) == [105, 106], "a range that says no id is read by name"
