"""A log directory: what it loads, creates, deletes and writes down; how it fails; several of them."""

from __future__ import annotations

import errno
import json
from collections.abc import Callable
from random import Random

import pytest

from tests.support.appends import as_follower, as_leader
from tests.support.log_builder import DIRECTORY, START_MS, LogBuilder, ManualClock, accepted
from tidelog.model.ids import (
    BrokerEpoch,
    DirectoryId,
    NodeId,
    Offset,
    PartitionIndex,
    TopicId,
    TopicName,
    TopicPartition,
)
from tidelog.model.slow_work import InlineSlowWork
from tidelog.simulation.disk import CHANGES, SimulatedDisk
from tidelog.storage.append import AppendRule
from tidelog.storage.checkpoint_file import read_offsets, write_offsets
from tidelog.storage.errors import DirectoryInUseError, StorageError
from tidelog.storage.log_config import LogConfig
from tidelog.storage.log_directories import LogDirectories
from tidelog.storage.log_directory import LogDirectory
from tidelog.storage.meta_properties import MetaProperties, write_meta_properties
from tidelog.storage.partition_directory import DirectoryKind, directory_name, parse_name, suffixed_name
from tidelog.storage.partition_log import PartitionLog
from tidelog.storage.seams import Seams

ID = TopicId(b"0123456789abcdef")
EPOCH = BrokerEpoch(42)
CONFIG = LogConfig(segment_bytes=400, file_delete_delay_ms=1000, retention_ms=5000)


def partition(topic: str, number: int = 0) -> TopicPartition:
    return TopicPartition(TopicName(topic), PartitionIndex(number))


ORDERS = partition("orders")
OTHER_ID = TopicId(b"another-topic-id")
BATCHES = LogBuilder()


class Node:
    """A disk, and a directory on it that can be opened again and again."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.disk = SimulatedDisk(self.clock)
        self.disk.make_directory("/")
        self.seams = Seams(self.disk, self.clock, InlineSlowWork(), Random(3))
        self.offline: list[tuple[str, StorageError]] = []

    def open(self, path: str = DIRECTORY, *, load: bool = True) -> LogDirectory:
        directory = LogDirectory.open(
            self.seams,
            path,
            config_of=lambda _topic: CONFIG,
            on_offline=lambda failed, error: self.offline.append((failed.path, error)),
        )
        if load:
            directory.load()
        return directory

    def restart(self, directory: LogDirectory) -> LogDirectory:
        """A clean stop and a start."""
        directory.close(EPOCH)
        return self.open(directory.path)

    def names(self, path: str = DIRECTORY) -> list[str]:
        return self.disk.list_directory(path)

    def offsets(self, name: str) -> dict[str, int]:
        return {str(key): offset for key, offset in read_offsets(self.disk, f"{DIRECTORY}/{name}").items()}


@pytest.fixture
def node() -> Node:
    return Node()


def append(log: PartitionLog, *values: str) -> None:
    accepted(as_leader(log, BATCHES.batch(*values), 0))
    log.set_high_watermark(log.log_end_offset)


def values(log: PartitionLog) -> list[str]:
    return BATCHES.values(log)


class TestStarting:
    def test_a_first_start_writes_no_checkpoint_and_one_after_a_crash_does(self, node: Node) -> None:
        node.open().abandon()
        assert node.names() == [".lock"]

        write_offsets(node.disk, f"{DIRECTORY}/recovery-point-offset-checkpoint", {ORDERS: Offset(7)})
        node.open()

        # The log that it tells of is not there.
        assert node.offsets("recovery-point-offset-checkpoint") == {}

    def test_a_second_node_is_refused(self, node: Node) -> None:
        directory = node.open()

        with pytest.raises(DirectoryInUseError):
            node.open()

        directory.close(EPOCH)
        node.open()

    def test_the_directory_knows_whose_it_is(self, node: Node) -> None:
        identity = MetaProperties("cluster", NodeId(1), DirectoryId(b"d" * 16))
        node.disk.make_directory(DIRECTORY)
        write_meta_properties(node.disk, DIRECTORY, identity)

        assert node.open().identity == identity

    def test_a_directory_that_makes_no_sense_is_not_kept_locked(self, node: Node) -> None:
        node.disk.make_directory(DIRECTORY)
        node.disk.write_bytes_atomically(f"{DIRECTORY}/meta.properties", b"version=9\n")
        with pytest.raises(StorageError, match="version 9"):
            node.open()

        node.disk.remove(f"{DIRECTORY}/meta.properties")

        node.open()

    def test_everything_is_there_after_a_clean_stop(self, node: Node) -> None:
        directory = node.open()
        for number in range(3):
            append(directory.create_partition(partition("orders", number), ID), f"{number}")

        directory = node.restart(directory)

        assert directory.was_clean
        assert directory.last_broker_epoch == EPOCH
        assert {str(key): values(log) for key, log in directory.partitions.items()} == {
            "orders-0": ["0"],
            "orders-1": ["1"],
            "orders-2": ["2"],
        }
        assert [log.topic_id for log in directory.partitions.values()] == [ID] * 3
        assert [log.high_watermark for log in directory.partitions.values()] == [1] * 3

    def test_everything_is_there_after_a_kill(self, node: Node) -> None:
        append(node.open().create_partition(ORDERS, ID), "a")

        node.disk.kill()
        directory = node.open()

        assert (directory.was_clean, directory.last_broker_epoch) == (False, None)
        assert values(directory.partitions[ORDERS]) == ["a"]

    def test_a_crash_after_the_start_is_found_out(self, node: Node) -> None:
        directory = node.open()
        append(directory.create_partition(ORDERS, ID), "a")

        directory = node.restart(directory)
        node.disk.kill()

        assert not node.open().was_clean

    def test_the_metadata_log_is_opened_by_itself(self, node: Node) -> None:
        metadata = partition("__cluster_metadata")
        directory = node.open()
        log = directory.open_metadata_log(metadata)
        accepted(as_follower(log, BATCHES.batch("a", leader_epoch=1), AppendRule.RAFT))
        log.close()

        directory = node.restart(directory)

        assert directory.partitions == {}
        assert values(directory.open_metadata_log(metadata)) == ["a"]

    def test_what_is_no_partition_is_left_alone(self, node: Node) -> None:
        node.disk.make_directory(f"{DIRECTORY}/lost+found")
        node.disk.make_directory(f"{DIRECTORY}/notes-for-myself")

        assert node.open().partitions == {}
        assert {"lost+found", "notes-for-myself"} <= set(node.names())

    def test_damaged_checkpoints_only_mean_more_reading(self, node: Node) -> None:
        directory = node.open()
        append(directory.create_partition(ORDERS, ID), "a")
        directory.close(EPOCH)
        for name in ("recovery-point-offset-checkpoint", "log-start-offset-checkpoint"):
            node.disk.write_bytes_atomically(f"{DIRECTORY}/{name}", b"nonsense")

        assert values(node.open().partitions[ORDERS]) == ["a"]


class TestPartitions:
    def test_a_settled_one_survives_a_crash_with_its_topic_id(self, node: Node) -> None:
        directory = node.open()
        directory.create_partition(ORDERS, ID)
        directory.settle_new()

        node.disk.crash(Random(5))

        log = node.open().partitions[ORDERS]
        assert (log.topic_id, log.log_end_offset) == (ID, 0)

    @pytest.mark.parametrize("seed", range(20))
    def test_records_never_survive_a_crash_without_their_topic_id(self, node: Node, seed: int) -> None:
        log = node.open().create_partition(ORDERS, ID)
        append(log, "a")

        node.disk.crash(Random(seed))

        assert node.open().partitions[ORDERS].topic_id == ID

    @pytest.mark.parametrize("seed", range(20))
    def test_what_a_crash_leaves_of_one_that_is_not_settled_is_empty(self, node: Node, seed: int) -> None:
        node.open().create_partition(ORDERS, ID)

        node.disk.crash(Random(seed))

        directory = node.open()
        assert not directory.is_offline
        log = directory.partitions.get(ORDERS)
        assert log is None or (log.is_empty and log.topic_id in {ID, None})

    @pytest.mark.parametrize("seed", range(20))
    def test_a_new_one_is_not_taken_for_a_deleted_one_of_its_name(self, node: Node, seed: int) -> None:
        directory = node.open()
        log = directory.create_partition(ORDERS, ID)
        append(log, "a")
        append(log, "b")
        log.flush()
        directory.save_recovery_points()
        directory.delete_partition(ORDERS)
        append(directory.create_partition(ORDERS, OTHER_ID), "c")
        assert node.offsets("recovery-point-offset-checkpoint") == {}

        node.disk.crash(Random(seed))

        log = node.open().partitions[ORDERS]
        assert log.topic_id == OTHER_ID
        assert values(log) in (["c"], [])

    def test_one_that_exists_is_that_one(self, node: Node) -> None:
        directory = node.open()

        assert directory.create_partition(ORDERS, ID) is directory.create_partition(ORDERS, ID)

    def test_a_deleted_one_is_renamed_and_removed_later(self, node: Node) -> None:
        directory = node.open()
        append(directory.create_partition(ORDERS, ID), "a")

        directory.delete_partition(ORDERS)

        (name,) = [each for each in node.names() if each.startswith("orders-0")]
        assert parse_name(name) == (ORDERS, DirectoryKind.DELETE)
        assert node.offsets("recovery-point-offset-checkpoint") == {}
        node.clock.advance(1000)
        assert directory.removals.run_due() == 1
        assert not [each for each in node.names() if each.startswith("orders-0")]

    def test_a_deleted_one_is_removed_after_a_restart_too(self, node: Node) -> None:
        directory = node.open()
        directory.create_partition(ORDERS, ID)
        directory.delete_partition(ORDERS)

        directory = node.restart(directory)

        assert directory.partitions == {}
        node.clock.advance(1000)
        directory.removals.run_due()
        assert not [each for each in node.names() if each.startswith("orders-0")]

    def test_the_same_name_can_come_back_at_once(self, node: Node) -> None:
        directory = node.open()
        append(directory.create_partition(ORDERS, ID), "a")
        directory.delete_partition(ORDERS)

        log = directory.create_partition(ORDERS, OTHER_ID)

        assert values(log) == []

    def test_a_stray_one_is_set_aside_and_kept(self, node: Node) -> None:
        directory = node.open()
        append(directory.create_partition(ORDERS, ID), "a")
        directory.close(EPOCH)
        directory = node.open(load=False)

        directory.load(is_stray=lambda log: log.topic_id == ID)

        (name,) = [each for each in node.names() if each.startswith("orders-0")]
        assert parse_name(name) == (ORDERS, DirectoryKind.STRAY)
        assert directory.partitions == {}
        node.restart(directory)
        assert name in node.names()

    def test_a_future_one_takes_the_place_of_the_current(self, node: Node) -> None:
        directory = node.open()
        future = directory.create_partition(ORDERS, ID, is_future=True)
        append(future, "a")
        (name,) = [each for each in node.names() if each.startswith("orders-0")]
        assert parse_name(name) == (ORDERS, DirectoryKind.FUTURE)

        directory = node.restart(directory)
        assert values(directory.future_partitions[ORDERS]) == ["a"]
        directory.promote_future(ORDERS)

        directory = node.restart(directory)
        assert values(directory.partitions[ORDERS]) == ["a"]

    def test_a_future_one_with_too_long_a_name_is_refused_and_harms_nobody(self, node: Node) -> None:
        directory = node.open()
        longest = TopicPartition(TopicName("a" * 249), PartitionIndex(0))
        directory.create_partition(longest, ID)

        with pytest.raises(StorageError, match="too long"):
            directory.create_partition(longest, ID, is_future=True)

        assert not directory.is_offline
        assert node.names() == [name for name in node.names() if not name.endswith("-future")]

    def test_two_directories_for_one_partition_are_an_error(self, node: Node) -> None:
        directory = node.open()
        for name in ("orders-0.a-future", "orders-0.b-future"):
            node.disk.make_directory(f"{DIRECTORY}/{name}")

        directory = node.restart(directory)

        assert directory.is_offline
        assert "second directory for orders-0" in str(directory.fault)


class TestStopping:
    def test_writes_the_mark_last(self, node: Node) -> None:
        directory = node.open()
        log = directory.create_partition(ORDERS, ID)
        append(log, "a", "b")
        directory.close(EPOCH)

        assert json.loads(node.disk.read_bytes(f"{DIRECTORY}/.kafka_cleanshutdown", 100)) == {
            "version": 0,
            "brokerEpoch": 42,
        }
        assert "00000000000000000002.snapshot" in node.names(f"{DIRECTORY}/orders-0")
        assert node.offsets("recovery-point-offset-checkpoint") == {"orders-0": 2}
        assert node.offsets("replication-offset-checkpoint") == {"orders-0": 2}

    @pytest.mark.parametrize("seed", range(8))
    def test_survives_the_loss_of_power_right_after(self, node: Node, seed: int) -> None:
        directory = node.open()
        log = directory.create_partition(ORDERS, ID)
        for number in range(10):
            append(log, f"{number}".ljust(30))
        directory.close(EPOCH)

        node.disk.crash(Random(seed))
        node.disk.fail("pread", "*.log", errno.EIO)
        directory = node.open()

        assert directory.was_clean
        assert not directory.is_offline
        node.disk.heal()
        assert len(values(directory.partitions[ORDERS])) == 10

    def test_on_a_disk_that_fails_leaves_no_mark(self, node: Node) -> None:
        directory = node.open()
        append(directory.create_partition(ORDERS, ID), "a")
        node.disk.fail("sync", "*.log", errno.EIO)

        directory.close(EPOCH)

        assert directory.is_offline
        assert ".kafka_cleanshutdown" not in node.names()
        node.disk.heal()
        assert not node.open().was_clean

    def test_without_having_loaded_changes_nothing(self, node: Node) -> None:
        directory = node.open()
        append(directory.create_partition(ORDERS, ID), "a")
        directory.close(EPOCH)
        before = node.offsets("recovery-point-offset-checkpoint")

        node.open(load=False).close(EPOCH)

        assert node.offsets("recovery-point-offset-checkpoint") == before
        assert node.open().was_clean

    def test_abandoned_it_is_as_after_a_kill(self, node: Node) -> None:
        directory = node.open()
        append(directory.create_partition(ORDERS, ID), "a")

        directory.abandon()
        directory = node.open()

        assert not directory.was_clean
        assert values(directory.partitions[ORDERS]) == ["a"]


class TestCheckpoints:
    def test_the_start_of_a_log_is_kept(self, node: Node) -> None:
        directory = node.open()
        log = directory.create_partition(ORDERS, ID)
        append(log, "a", "b", "c")
        append(directory.create_partition(partition("other"), ID), "a")
        log.delete_records_before(2)

        directory.save_log_start_offsets()

        assert node.offsets("log-start-offset-checkpoint") == {"orders-0": 2}
        node.disk.kill()
        assert node.open().partitions[ORDERS].log_start_offset == 2

    def test_high_watermarks_are_kept_within_the_log(self, node: Node) -> None:
        directory = node.open()
        append(directory.create_partition(ORDERS, ID), "a")
        directory.save_high_watermarks()
        write_offsets(node.disk, f"{DIRECTORY}/replication-offset-checkpoint", {ORDERS: Offset(99)})
        node.disk.kill()

        assert node.open().partitions[ORDERS].high_watermark == 1

    def test_those_of_compaction_are_kept_until_the_partition_goes(self, node: Node) -> None:
        directory = node.open()
        directory.create_partition(ORDERS, ID)
        directory.cleaner_offsets[ORDERS] = Offset(17)
        directory.save_cleaner_offsets()

        directory = node.restart(directory)
        assert directory.cleaner_offsets == {ORDERS: 17}
        directory.delete_partition(ORDERS)
        directory.create_partition(ORDERS, OTHER_ID)

        assert node.offsets("cleaner-offset-checkpoint") == {}

    def test_a_truncation_is_written_down_at_once(self, node: Node) -> None:
        directory = node.open()
        log = directory.create_partition(ORDERS, ID)
        append(log, "a")
        append(log, "b")
        log.flush()
        directory.save_recovery_points()

        log.truncate_to(1)

        assert node.offsets("recovery-point-offset-checkpoint") == {"orders-0": 1}


class TestWhatTimeBrings:
    def test_retention_saves_the_starts_once_for_all_logs(self, node: Node) -> None:
        directory = node.open()
        for number in range(3):
            log = directory.create_partition(partition("orders", number), ID)
            for _ in range(10):
                append(log, "x" * 30)
        node.clock.advance(6000)
        node.disk.fail("rename", "*/log-start-offset-checkpoint.tmp", errno.EIO, after=1)

        removed = directory.apply_retention()

        assert removed >= 6
        assert [log.log_start_offset for log in directory.partitions.values()] == [10, 10, 10]
        assert not directory.is_offline

    def test_logs_are_flushed_when_they_are_due(self, node: Node) -> None:
        directory = node.open()
        log = directory.create_partition(ORDERS, ID)
        append(log, "a")
        assert directory.flush_due() == 0

        log.reconfigure(CONFIG.changed(flush_ms=100))
        node.clock.advance(100)

        assert directory.flush_due() == 1
        assert log.recovery_point == 1

    def test_producers_are_forgotten(self, node: Node) -> None:
        directory = node.open()
        log = directory.create_partition(ORDERS, ID)
        accepted(as_leader(log, BATCHES.batch("a", producer_id=1, producer_epoch=0, base_sequence=0), 0))
        node.clock.ms = START_MS + 24 * 60 * 60 * 1000

        assert directory.expire_producers() == 1


class TestFailing:
    @pytest.mark.parametrize(
        ("fail", "number"),
        [
            (lambda disk: disk.fail("pwritev", "*/orders-0/*.log", errno.EIO), errno.EIO),
            (lambda disk: disk.fail("pwritev", "*/orders-0/*.log", errno.ENOSPC), errno.ENOSPC),
            (lambda disk: disk.fail(CHANGES, "*", errno.EROFS), errno.EROFS),
        ],
        ids=["EIO", "full", "read-only"],
    )
    def test_takes_all_partitions_offline_and_says_why(
        self, node: Node, fail: Callable[[SimulatedDisk], None], number: int
    ) -> None:
        directory = node.open()
        orders = directory.create_partition(ORDERS, ID)
        other = directory.create_partition(partition("other"), ID)
        append(orders, "a")
        append(other, "a")
        fail(node.disk)

        with pytest.raises(StorageError):
            append(orders, "b")

        assert directory.is_offline
        assert [(path, error.errno) for path, error in node.offline] == [(DIRECTORY, number)]
        with pytest.raises(StorageError, match="offline, because of this"):
            append(other, "b")
        with pytest.raises(StorageError, match="offline, because of this"):
            directory.create_partition(partition("third"), ID)
        directory.close(EPOCH)
        node.disk.heal()
        assert [values(log) for log in node.open().partitions.values()] == [["a"], ["a"]]

    def test_while_loading_takes_only_this_directory(self, node: Node) -> None:
        append(node.open("/one").create_partition(ORDERS, ID), "a")
        append(node.open("/two").create_partition(partition("other"), ID), "b")
        node.disk.kill()
        node.disk.fail("list_directory", "/one/orders-0", errno.EIO)

        one, two = node.open("/one"), node.open("/two")

        assert (one.is_offline, two.is_offline) == (True, False)
        assert values(two.partitions[partition("other")]) == ["b"]

    def test_a_removal_that_fails_counts_too(self, node: Node) -> None:
        directory = node.open()
        directory.create_partition(ORDERS, ID)
        directory.delete_partition(ORDERS)
        node.clock.advance(1000)
        node.disk.fail("remove", "*.log", errno.EIO)

        directory.removals.run_due()

        assert directory.is_offline


class TestSeveral:
    def test_a_new_partition_goes_where_the_fewest_are(self, node: Node) -> None:
        directories = LogDirectories([node.open("/one"), node.open("/two"), node.open("/three")])

        for number in range(6):
            directories.create_partition(partition("orders", number), ID)

        assert [len(directory.partitions) for directory in directories] == [2, 2, 2]
        assert directories.log_of(partition("orders", 5)) is not None
        assert directories.directory_of(partition("orders", 9)) is None

    def test_or_where_the_cluster_wants_it(self, node: Node) -> None:
        wanted = DirectoryId(b"2" * 16)
        for path, each in (("/one", b"1"), ("/two", b"2")):
            node.disk.make_directory(path)
            write_meta_properties(node.disk, path, MetaProperties("c", NodeId(1), DirectoryId(each * 16)))
        directories = LogDirectories([node.open("/one"), node.open("/two")])

        for number in range(3):
            directories.create_partition(partition("orders", number), ID, directory_id=wanted)

        assert [len(directory.partitions) for directory in directories] == [0, 3]

    def test_one_that_fails_is_passed_over(self, node: Node) -> None:
        directories = LogDirectories([node.open("/one"), node.open("/two")])
        node.disk.fail("make_directory", "/one/*", errno.EROFS)

        log = directories.create_partition(ORDERS, ID)

        assert log.directory == "/two/orders-0"
        assert [directory.path for directory in directories.offline] == ["/one"]
        append(log, "a")

    def test_none_that_works_is_an_error(self, node: Node) -> None:
        directories = LogDirectories([node.open("/one")])
        node.disk.fail("make_directory", "/one/*", errno.EROFS)

        with pytest.raises(StorageError, match="Read-only"):
            directories.create_partition(ORDERS, ID)
        with pytest.raises(StorageError, match="no log directory is online"):
            directories.create_partition(ORDERS, ID)

    def test_one_at_least_is_needed(self) -> None:
        with pytest.raises(ValueError, match="at least one"):
            LogDirectories([])


class TestNames:
    @pytest.mark.parametrize("topic", ["orders", "a-b-c", "v1.orders.eu", "-", "x" * 249, "a.delete", "delete"])
    def test_are_read_back(self, topic: str) -> None:
        key = partition(topic, 2147483647)

        assert parse_name(directory_name(key)) == (key, DirectoryKind.CURRENT)
        assert parse_name(suffixed_name(key, DirectoryKind.FUTURE, Random(1))) == (key, DirectoryKind.FUTURE)

    def test_of_what_goes_fit_the_file_system(self) -> None:
        key = partition("x" * 249, 123)

        for kind in (DirectoryKind.DELETE, DirectoryKind.STRAY):
            name = suffixed_name(key, kind, Random(1))
            assert len(name) == 255
            parsed = parse_name(name)
            assert parsed is not None
            assert (parsed.kind, parsed.topic_partition.partition) == (kind, 123)

    @pytest.mark.parametrize(
        "name",
        [
            "",
            "orders",
            "orders-",
            "-3",
            "orders-x",
            "orders-²",
            "orders-0-delete",
            "orders-2147483648",
            "a-1.b-future-",
        ],
    )
    def test_that_say_nothing_are_nobodys(self, name: str) -> None:
        assert parse_name(name) is None
