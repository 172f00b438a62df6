"""What a node does by the clock."""

from __future__ import annotations

import errno
from random import Random

import pytest

from tests.support.appends import as_leader
from tests.support.data_node import ManualTimers
from tests.support.log_builder import LogBuilder, ManualClock, accepted
from tidelog.broker.maintenance.upkeep import REMOVAL_INTERVAL_MS, Upkeep
from tidelog.model.broker_config import BROKER_KEYS
from tidelog.model.ids import PartitionIndex, TopicId, TopicName, TopicPartition
from tidelog.model.slow_work import InlineSlowWork
from tidelog.simulation.disk import SimulatedDisk
from tidelog.storage.errors import StorageError
from tidelog.storage.log_config import LogConfig
from tidelog.storage.log_directories import LogDirectories
from tidelog.storage.log_directory import LogDirectory
from tidelog.storage.seams import Seams

ORDERS = TopicPartition(TopicName("orders"), PartitionIndex(0))
ID = TopicId(b"0123456789abcdef")
RETENTION_CHECK_MS = 20_000
CONFIG = LogConfig(segment_bytes=400, retention_ms=5_000, file_delete_delay_ms=3_000)


class Node:
    """Log directories on a simulated disk, and the upkeep of them."""

    def __init__(self, *paths: str) -> None:
        self.clock = ManualClock()
        self.disk = SimulatedDisk(self.clock)
        self.disk.make_directory("/")
        self.timers = ManualTimers(self.clock)
        self.failed: list[str] = []
        seams = Seams(self.disk, self.clock, InlineSlowWork(), Random(3))
        self.directories = [
            LogDirectory.open(seams, path, config_of=lambda _topic: CONFIG, on_offline=self._offline) for path in paths
        ]
        for directory in self.directories:
            directory.load()
        config = BROKER_KEYS.parse({"log.retention.check.interval.ms": str(RETENTION_CHECK_MS)})
        self.upkeep = Upkeep(LogDirectories(self.directories), self.timers, config)

    def _offline(self, directory: LogDirectory, _error: StorageError) -> None:
        self.failed.append(directory.path)

    def names(self, path: str) -> list[str]:
        return self.disk.list_directory(path)

    def pass_ms(self, ms: int) -> None:
        """In steps, as time does: a timer that is set by another's callback goes off as well."""
        for _ in range(ms // 500):
            self.timers.advance(500)


@pytest.fixture
def node() -> Node:
    return Node("/logs")


def write_segments(directory: LogDirectory) -> None:
    log = directory.create_partition(ORDERS, ID)
    for word in ("a" * 150, "b" * 150, "c" * 150):
        accepted(as_leader(log, LogBuilder().batch(word), 0))
    log.set_high_watermark(log.log_end_offset)


def test_the_files_of_a_deleted_partition_go_after_their_delay(node: Node) -> None:
    (directory,) = node.directories
    directory.create_partition(ORDERS, ID)
    directory.delete_partition(ORDERS)
    node.pass_ms(CONFIG.file_delete_delay_ms - REMOVAL_INTERVAL_MS)
    assert [name for name in node.names("/logs") if name.startswith("orders-0.")]
    node.pass_ms(2 * REMOVAL_INTERVAL_MS)
    assert not [name for name in node.names("/logs") if name.startswith("orders-0")]


def test_expired_segments_go_and_their_files_too(node: Node) -> None:
    write_segments(node.directories[0])
    node.pass_ms(RETENTION_CHECK_MS)
    assert [name for name in node.names("/logs/orders-0") if name.endswith(".deleted")]
    node.pass_ms(CONFIG.file_delete_delay_ms + REMOVAL_INTERVAL_MS)
    assert not [name for name in node.names("/logs/orders-0") if name.endswith(".deleted")]


def test_a_directory_that_fails_does_not_keep_the_others_from_theirs() -> None:
    node = Node("/one", "/two")
    for directory in node.directories:
        write_segments(directory)
    node.disk.fail("rename", "/one/*", errno.EIO)
    node.pass_ms(RETENTION_CHECK_MS + CONFIG.file_delete_delay_ms + REMOVAL_INTERVAL_MS)
    assert node.failed == ["/one"]
    assert len([name for name in node.names("/two/orders-0") if name.endswith(".log")]) == 1


def test_nothing_happens_after_the_end(node: Node) -> None:
    write_segments(node.directories[0])
    node.upkeep.stop()
    assert node.timers.pending == 0
