from __future__ import annotations

import errno
from pathlib import Path
from random import Random
from typing import NamedTuple

import pytest

from tests.support.appends import as_leader
from tests.support.log_builder import LogBuilder, ManualClock, accepted
from tests.unit.broker.admin_node import AdminNode, Denies, ask, broker
from tidelog.broker.handlers import describe_log_dirs
from tidelog.model.acl import AclOperation, ResourceType
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import DirectoryId, NodeId, PartitionIndex, TopicId, TopicName, TopicPartition
from tidelog.model.slow_work import InlineSlowWork
from tidelog.simulation.disk import SimulatedDisk
from tidelog.storage.files import DiskSpace
from tidelog.storage.log_config import LogConfig
from tidelog.storage.log_directories import LogDirectories
from tidelog.storage.log_directory import LogDirectory
from tidelog.storage.meta_properties import MetaProperties, write_meta_properties
from tidelog.storage.os_files import OsFiles
from tidelog.storage.seams import Seams
from tidelog.wire.messages.internal.cluster_metadata import BrokerRegistrationChangeRecord
from tidelog.wire.messages.log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
)

HANDLED = describe_log_dirs
ID = TopicId(b"0123456789abcdef")
ORDERS = TopicPartition(TopicName("orders"), PartitionIndex(0))
PAYMENTS = TopicPartition(TopicName("payments"), PartitionIndex(1))
WORDS = LogBuilder()


class Disks(NamedTuple):
    """A node with two log directories on a simulated disk."""

    node: AdminNode
    disk: SimulatedDisk
    first: LogDirectory
    second: LogDirectory


@pytest.fixture
def disks() -> Disks:
    clock = ManualClock()
    disk = SimulatedDisk(clock)
    disk.make_directory("/")
    seams = Seams(disk, clock, InlineSlowWork(), Random(3))
    opened = []
    for name in ("a", "b"):
        disk.make_directory(f"/{name}")
        identity = MetaProperties("cluster", NodeId(1), DirectoryId(name.encode() * 16))
        write_meta_properties(disk, f"/{name}", identity)
        opened.append(
            LogDirectory.open(
                seams, f"/{name}", config_of=lambda _: LogConfig(), on_offline=lambda _directory, _error: None
            )
        )
        opened[-1].load()
    node = AdminNode(broker(1))
    node.log_directories = LogDirectories(opened)
    return Disks(node, disk, *opened)


def described(
    node: AdminNode,
    topics: dict[str, list[int]] | None = None,
    *,
    version: int = 5,
    authorizer: Denies | None = None,
) -> DescribeLogDirsResponse:
    asked = None
    if topics is not None:
        asked = [DescribableLogDirTopic(topic=name, partitions=indexes) for name, indexes in topics.items()]
    request = DescribeLogDirsRequest(topics=asked)
    return ask(node, request, DescribeLogDirsResponse, version, authorizer=authorizer)


def replicas(result: DescribeLogDirsResult) -> list[tuple[str, int, int, bool]]:
    return [
        (topic.name, each.partition_index, each.offset_lag, each.is_future_key)
        for topic in result.topics
        for each in topic.partitions
    ]


@pytest.mark.parametrize("version", range(1, 6))
def test_every_directory_with_its_replicas(disks: Disks, version: int) -> None:
    disks.disk.space = DiskSpace(1000, 400)
    log = disks.first.create_partition(ORDERS, ID)
    accepted(as_leader(log, WORDS.batch("a", "b"), 0))
    disks.second.create_partition(PAYMENTS, ID)

    answer = described(disks.node, version=version)

    assert answer.error_code == ErrorCode.NONE
    first, second = answer.results
    assert (first.log_dir, second.log_dir) == ("/a", "/b")
    assert replicas(first) == [("orders", 0, 0, False)]
    assert first.topics[0].partitions[0].partition_size == log.size_bytes > 0
    assert replicas(second) == [("payments", 1, 0, False)]
    assert (first.total_bytes, first.usable_bytes) == ((1000, 400) if version >= 4 else (-1, -1))


def test_only_the_partitions_that_are_asked_for(disks: Disks) -> None:
    disks.first.create_partition(ORDERS, ID)
    disks.second.create_partition(PAYMENTS, ID)

    found = described(disks.node, {"payments": [1, 7], "nope": [0]}).results

    assert [replicas(each) for each in found] == [[], [("payments", 1, 0, False)]]
    assert [replicas(each) for each in described(disks.node, {}).results] == [[], []]


def test_a_replica_on_the_move_is_there_twice_with_what_it_still_lacks(disks: Disks) -> None:
    log = disks.first.create_partition(ORDERS, ID)
    accepted(as_leader(log, WORDS.batch("a", "b", "c"), 0))
    disks.second.create_partition(ORDERS, ID, is_future=True)

    first, second = described(disks.node).results

    assert (replicas(first), replicas(second)) == ([("orders", 0, 0, False)], [("orders", 0, 3, True)])


def test_a_future_replica_without_a_present_one_has_no_lag(disks: Disks) -> None:
    disks.second.create_partition(ORDERS, ID, is_future=True)

    assert replicas(described(disks.node).results[1]) == [("orders", 0, -1, True)]


def test_an_offline_directory_is_told_of_and_others_go_on(disks: Disks) -> None:
    disks.first.create_partition(ORDERS, ID)
    disks.disk.fail("space_of", "/a", errno.EIO)

    first, second = described(disks.node).results

    assert (first.error_code, first.log_dir, first.topics) == (ErrorCode.KAFKA_STORAGE_ERROR, "/a", [])
    assert second.error_code == ErrorCode.NONE
    assert disks.first.is_offline
    assert described(disks.node).results[0].error_code == ErrorCode.KAFKA_STORAGE_ERROR


def test_a_directory_that_gets_no_new_replicas_says_so(disks: Disks) -> None:
    change = BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=1, cordoned_log_dirs=[b"b" * 16])
    disks.node.image = AdminNode(broker(1), change).image

    assert [each.is_cordoned for each in described(disks.node).results] == [False, True]


@pytest.mark.parametrize(("version", "error"), [(2, ErrorCode.NONE), (3, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)])
def test_it_takes_permission_to_describe_the_cluster(disks: Disks, version: int, error: ErrorCode) -> None:
    denies = Denies((AclOperation.DESCRIBE, ResourceType.CLUSTER, None))

    answer = described(disks.node, version=version, authorizer=denies)

    # Before v3 there is no place for the error.
    assert (answer.results, answer.error_code) == ([], error)


def test_a_real_disk_has_a_size(tmp_path: Path) -> None:
    space = OsFiles().space_of(str(tmp_path))

    assert 0 <= space.usable_bytes <= space.total_bytes
    assert space.total_bytes > 0
