"""ListOffsets: either end of a log, the record of a time, the largest timestamp, and what each version may ask."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.appends import produced
from tests.support.data_node import NODE, OTHER, DataNode, Denying
from tests.support.log_builder import START_MS, LogBuilder
from tidelog.broker.handlers.list_offsets import list_offsets
from tidelog.model.acl import AclOperation
from tidelog.model.errors import ErrorCode
from tidelog.replication.offset_lookup import (
    EARLIEST,
    EARLIEST_LOCAL,
    EARLIEST_PENDING_UPLOAD,
    LATEST,
    LATEST_TIERED,
    MAX_TIMESTAMP,
)
from tidelog.wire.codec import decode, encode
from tidelog.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)

BATCHES = LogBuilder()
NEWEST = 11
CONSUMER, DEBUGGING = -1, -2


@pytest.fixture
def node() -> DataNode:
    node = DataNode()
    node.create_topic("orders")
    return node


def ask(
    node: DataNode,
    timestamp: int,
    version: int = NEWEST,
    *,
    topic: str = "orders",
    index: int = 0,
    epoch: int = -1,
    **options: Any,
) -> ListOffsetsPartitionResponse:
    asked = ListOffsetsPartition(partition_index=index, timestamp=timestamp, current_leader_epoch=epoch)
    options = {"replica_id": CONSUMER, "isolation_level": 0, "timeout_ms": 0, **options}
    request = ListOffsetsRequest(topics=[ListOffsetsTopic(name=topic, partitions=[asked])], **options)
    response = node.answered(list_offsets, request, version)
    response = decode(ListOffsetsResponse, version, encode(response, version))
    (answer,) = response.topics[0].partitions
    assert isinstance(answer, ListOffsetsPartitionResponse)
    return answer


def append(node: DataNode, *texts: str, **options: Any) -> None:
    produced(node.partition("orders"), BATCHES.batch(*texts, **options))


@pytest.mark.parametrize("version", range(1, 12))
def test_both_ends_of_a_log(node: DataNode, version: int) -> None:
    append(node, "a", "b", "c")
    node.partition("orders").delete_records(1)

    earliest, latest = ask(node, EARLIEST, version), ask(node, LATEST, version)

    assert (earliest.offset, latest.offset) == (1, 3)
    assert (earliest.timestamp, latest.timestamp) == (-1, -1)
    assert (earliest.leader_epoch, latest.leader_epoch) == ((0, 0) if version >= 4 else (-1, -1))


def test_an_empty_log(node: DataNode) -> None:
    found = [ask(node, timestamp) for timestamp in (EARLIEST, LATEST, MAX_TIMESTAMP, START_MS)]

    assert [each.offset for each in found] == [0, 0, -1, -1]
    assert [each.error_code for each in found] == [0] * 4


def test_the_first_record_at_or_after_a_time(node: DataNode) -> None:
    append(node, "a", "b", "c", timestamps=[1000, 2000, 3000])

    found = [ask(node, timestamp) for timestamp in (0, 1000, 1001, 3000, 3001)]

    assert [(each.offset, each.timestamp) for each in found] == [(0, 1000), (0, 1000), (1, 2000), (2, 3000), (-1, -1)]


def test_the_largest_timestamp_is_not_always_the_last(node: DataNode) -> None:
    append(node, "a", "b", "c", timestamps=[1000, 3000, 2000])

    found = ask(node, MAX_TIMESTAMP)

    assert (found.offset, found.timestamp, found.leader_epoch) == (1, 3000, 0)


def test_nothing_is_tiered(node: DataNode) -> None:
    append(node, "a")

    found = [ask(node, timestamp) for timestamp in (EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING_UPLOAD)]

    assert [each.offset for each in found] == [0, -1, -1]
    assert [each.error_code for each in found] == [0] * 3


@pytest.mark.parametrize(
    ("timestamp", "since"),
    [(MAX_TIMESTAMP, 7), (EARLIEST_LOCAL, 8), (LATEST_TIERED, 9), (EARLIEST_PENDING_UPLOAD, 11), (-7, 12)],
)
def test_a_meaning_that_came_later_is_refused_before(node: DataNode, timestamp: int, since: int) -> None:
    assert ask(node, timestamp, since - 1).error_code == ErrorCode.UNSUPPORTED_VERSION
    if since <= NEWEST:
        assert ask(node, timestamp, since).error_code == 0


def test_readers_of_committed_records_see_no_further_than_the_first_open_transaction(node: DataNode) -> None:
    append(node, "a", timestamps=[1000])
    append(node, "b", timestamps=[2000], producer_id=5, producer_epoch=0, base_sequence=0, is_transactional=True)

    committed = [ask(node, timestamp, isolation_level=1).offset for timestamp in (LATEST, 1000, 2000, MAX_TIMESTAMP)]
    uncommitted = [ask(node, timestamp).offset for timestamp in (LATEST, 1000, 2000, MAX_TIMESTAMP)]

    assert committed == [1, 0, -1, -1]
    assert uncommitted == [2, 0, 1, 1]


def test_consumers_see_no_further_than_the_high_watermark_and_replicas_see_all(node: DataNode) -> None:
    node.create_topic("copied", replicas=(NODE, OTHER))
    produced(node.partition("copied"), BATCHES.batch("a"))

    assert ask(node, LATEST, topic="copied").offset == 0
    assert ask(node, LATEST, topic="copied", replica_id=OTHER).offset == 1
    assert ask(node, START_MS, topic="copied").offset == -1


@pytest.mark.parametrize(
    ("version", "code"), [(4, ErrorCode.LEADER_NOT_AVAILABLE), (5, ErrorCode.OFFSET_NOT_AVAILABLE)]
)
def test_a_new_leader_that_does_not_know_the_high_watermark_yet_says_so(
    node: DataNode, version: int, code: ErrorCode
) -> None:
    node.create_topic("copied", replicas=(NODE, OTHER))
    produced(node.partition("copied"), BATCHES.batch("a"))
    node.change("copied", leader=NODE)

    latest = ask(node, LATEST, version, topic="copied")
    by_time = ask(node, START_MS, version, topic="copied")
    earliest = ask(node, EARLIEST, version, topic="copied")

    assert (latest.error_code, by_time.error_code, earliest.error_code) == (code, code, 0)


def test_the_wrong_broker_the_wrong_epoch_and_no_such_partition(node: DataNode) -> None:
    node.create_topic("copied", replicas=(NODE, OTHER), leader=OTHER)

    assert ask(node, LATEST, topic="copied").error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert ask(node, LATEST, topic="copied", replica_id=DEBUGGING).error_code == 0
    assert ask(node, LATEST, epoch=1).error_code == ErrorCode.UNKNOWN_LEADER_EPOCH
    assert ask(node, LATEST, index=3).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert ask(node, LATEST, topic="x").error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_partition_that_is_named_twice_is_refused(node: DataNode) -> None:
    asked = ListOffsetsPartition(partition_index=0, timestamp=LATEST)
    request = ListOffsetsRequest(
        replica_id=CONSUMER,
        isolation_level=0,
        timeout_ms=0,
        topics=[
            ListOffsetsTopic(name="orders", partitions=[asked]),
            ListOffsetsTopic(name="orders", partitions=[asked]),
        ],
    )

    response = node.answered(list_offsets, request, NEWEST)

    assert [topic.partitions[0].error_code for topic in response.topics] == [ErrorCode.INVALID_REQUEST] * 2


def test_a_topic_that_the_caller_may_not_describe(node: DataNode) -> None:
    node.authorizer = Denying((AclOperation.DESCRIBE, "orders"))

    assert ask(node, LATEST).error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
