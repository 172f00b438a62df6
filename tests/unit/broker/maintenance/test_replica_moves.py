"""AlterReplicaLogDirs, and the moves that it begins."""

from __future__ import annotations

import contextlib
import errno
from random import Random

import pytest

from tests.support.appends import as_leader, produced
from tests.support.data_node import DataNode, Denying, ManualTimers, topic_partition
from tests.support.log_builder import HeldSlowWork, LogBuilder, accepted
from tidelog.broker.handlers.alter_replica_log_dirs import alter_replica_log_dirs
from tidelog.broker.maintenance import replica_moves
from tidelog.broker.maintenance.replica_moves import ReplicaMoves, keep_one_of_each, moves_throttle
from tidelog.model.acl import AclOperation
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import DirectoryId, TopicId
from tidelog.model.slow_work import InlineSlowWork, SlowWork
from tidelog.model.throttle_config import THROTTLE_KEYS
from tidelog.replication.roles import Offline
from tidelog.simulation.disk import SimulatedCrash
from tidelog.storage.errors import StorageError
from tidelog.storage.log_directory import LogDirectory
from tidelog.storage.seams import Seams
from tidelog.wire.messages.log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopic,
)

WORDS = LogBuilder()
ORDERS = topic_partition("orders")
HERE, THERE = "/here", "/there"


class MovingNode(DataNode):
    """Two directories, and replicas that start in the first."""

    def __init__(self, slow_work: SlowWork | None = None, paths: tuple[str, ...] = (HERE, THERE)) -> None:
        super().__init__(directories=paths)
        self.told: list[DirectoryId] = []
        self.slow_work = slow_work or InlineSlowWork()
        self.rates: dict[str, str] = {}
        self.replica_moves = self.new_moves()

    def new_moves(self) -> ReplicaMoves:
        return ReplicaMoves(
            self.log_directories,
            self.partitions,
            self.timers,
            self.slow_work,
            moves_throttle(self.clock, lambda: THROTTLE_KEYS.parse(self.rates)),
            on_placed=lambda _topic, _index, directory: self.told.append(directory),
        )

    @property
    def here(self) -> LogDirectory:
        return next(iter(self.log_directories))

    @property
    def there(self) -> LogDirectory:
        return list(self.log_directories)[1]

    def write(self, *words: str) -> None:
        accepted(produced(self.partition("orders"), WORDS.batch(*words)))

    def words(self) -> list[str]:
        return WORDS.values(self.log("orders"))

    def settle(self) -> None:
        """Let everything happen that wants to happen soon."""
        while self.timers.pending:
            self.timers.advance(0)

    def move(self, path: str) -> int:
        return self.replica_moves.move(ORDERS, path)

    def kinds(self, path: str) -> list[str]:
        """What there is of the partition in a directory: `` for its log, or the suffix of another kind."""
        return [
            name.rpartition("-")[2] if "." in name else "" for name in self.directory_names(path) if "orders" in name
        ]


@pytest.fixture
def node(monkeypatch: pytest.MonkeyPatch) -> MovingNode:
    monkeypatch.setattr(replica_moves, "PIECE_BYTES", 150)
    node = MovingNode()
    node.create_topic("orders")
    return node


def test_a_move_is_no_faster_than_it_may_be(node: MovingNode) -> None:
    for number in range(20):
        node.write(f"a{number}", f"b{number}")
    size = node.log("orders").size_bytes
    node.rates = {"replica.alter.log.dirs.io.max.bytes.per.second": str(size // 4)}

    node.move(THERE)
    took_ms = 0
    while node.replica_moves.under_way:
        node.timers.advance(10)
        took_ms += 10

    assert 2500 < took_ms < 5000
    assert node.kinds(THERE) == [""]


def test_a_replica_moves_with_all_its_records(node: MovingNode) -> None:
    for number in range(20):
        node.write(f"a{number}", f"b{number}")
    before = node.words()
    end = node.log("orders").log_end_offset

    assert node.move(THERE) == ErrorCode.NONE
    assert node.kinds(THERE) == ["future"]
    node.settle()

    log = node.log("orders")
    assert (log.directory, log.log_end_offset, log.high_watermark) == ("/there/orders-0", end, end)
    assert node.words() == before
    assert (node.kinds(HERE), node.kinds(THERE)) == (["delete"], [""])
    assert node.log_directories.directory_of(ORDERS) is node.there
    assert node.told == [b"A" * 16]
    assert node.replica_moves.under_way == []


def test_writes_go_on_while_a_replica_moves_and_after(node: MovingNode) -> None:
    node.write("before")
    node.move(THERE)
    node.timers.advance(0)
    node.write("meanwhile")
    node.settle()
    node.write("after")

    assert node.words() == ["before", "meanwhile", "after"]
    assert node.log("orders").directory == "/there/orders-0"


def test_what_is_moved_is_on_disk_before_the_old_files_go(node: MovingNode) -> None:
    node.write("a", "b")
    held = HeldSlowWork()
    # The log's own syncs wait, the copying does not.
    node.there.seams = Seams(node.disk, node.clock, held, node.random)

    node.move(THERE)
    node.settle()
    assert node.kinds(HERE) == [""]
    assert held.held

    held.run()
    node.settle()
    assert node.kinds(HERE) == ["delete"]


def test_the_leader_epochs_and_producers_move_too(node: MovingNode) -> None:
    node.write("a")
    node.change("orders", leader=1)
    node.write("b")
    epochs = node.log("orders").leader_epochs.entries

    node.move(THERE)
    node.settle()

    assert node.log("orders").leader_epochs.entries == epochs
    assert len(epochs) == 2


def test_a_log_that_starts_in_the_middle_of_a_batch(node: MovingNode) -> None:
    node.write("a", "b", "c")
    node.write("d")
    node.partition("orders").delete_records(2)

    node.move(THERE)
    node.settle()

    assert node.log("orders").log_start_offset == 2
    assert node.words() == ["c", "d"]


def test_a_log_that_is_empty_but_does_not_start_at_0(node: MovingNode) -> None:
    node.write("a", "b", "c")
    node.log("orders").truncate_fully_and_start_at(3)

    node.move(THERE)
    node.settle()
    node.write("d")

    assert (node.log("orders").directory, node.log("orders").log_start_offset) == ("/there/orders-0", 3)
    assert node.words() == ["d"]


def test_records_that_go_while_they_are_copied_are_not_missed(node: MovingNode) -> None:
    for number in range(10):
        node.write(f"a{number}")
    node.move(THERE)
    node.timers.advance(0)
    node.timers.advance(0)
    node.log("orders").truncate_fully_and_start_at(10)
    node.write("new")
    node.settle()

    assert node.words() == ["new"]
    assert node.log("orders").log_start_offset == 10


def test_a_follower_that_is_truncated_takes_back_what_was_copied() -> None:
    node = MovingNode()
    node.create_topic("orders", replicas=(1, 2))
    node.write("a", "b")
    node.write("lost")
    node.move(THERE)
    node.timers.advance(0)
    node.change("orders", leader=2)
    node.log("orders").truncate_to(2)
    node.change("orders", leader=1)
    node.write("new")
    node.settle()

    assert node.log("orders").directory == "/there/orders-0"
    assert node.words() == ["a", "b", "new"]


# What can be asked for


def test_a_move_to_where_the_replica_is_takes_back_one_that_is_under_way(node: MovingNode) -> None:
    node.write("a")
    node.move(THERE)

    assert node.move(HERE) == ErrorCode.NONE
    node.settle()

    assert (node.kinds(HERE), node.kinds(THERE)) == ([""], ["delete"])
    assert node.move(HERE) == ErrorCode.NONE
    assert node.replica_moves.under_way == []


def test_asking_twice_begins_one_move(node: MovingNode) -> None:
    node.move(THERE)

    assert node.move(THERE) == ErrorCode.NONE
    assert node.kinds(THERE) == ["future"]


@pytest.mark.parametrize(
    ("name", "path", "error"),
    [
        ("orders", "/nowhere", ErrorCode.LOG_DIR_NOT_FOUND),
        ("orders", "/there/", ErrorCode.LOG_DIR_NOT_FOUND),
        ("nope", THERE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("elsewhere", THERE, ErrorCode.REPLICA_NOT_AVAILABLE),
        ("x" * 220, THERE, ErrorCode.INVALID_TOPIC_EXCEPTION),
    ],
)
def test_moves_that_cannot_be(node: MovingNode, name: str, path: str, error: ErrorCode) -> None:
    node.create_topic("elsewhere", replicas=(2,), leader=2)

    assert node.replica_moves.move(topic_partition(name), path) == error
    assert node.kinds(THERE) == []


BROKEN = StorageError("/x", "use", errno.EIO, "broken")


def test_nothing_moves_into_a_directory_that_is_offline(node: MovingNode) -> None:
    node.there.report_fault(BROKEN)

    assert node.move(THERE) == ErrorCode.KAFKA_STORAGE_ERROR
    assert node.move(HERE) == ErrorCode.NONE


def test_a_replica_that_is_offline_stays_where_it_is(node: MovingNode) -> None:
    node.here.report_fault(BROKEN)

    assert isinstance(node.partition("orders").role, Offline)
    assert node.move(THERE) == ErrorCode.KAFKA_STORAGE_ERROR


def test_nothing_moves_while_any_directory_is_offline() -> None:
    node = MovingNode(paths=(HERE, THERE, "/away"))
    node.create_topic("orders")
    list(node.log_directories)[2].report_fault(BROKEN)

    assert node.move(THERE) == ErrorCode.KAFKA_STORAGE_ERROR
    assert node.kinds(THERE) == []


# What can go wrong


def test_a_disk_that_fails_under_the_copy_leaves_the_replica_where_it_is(node: MovingNode) -> None:
    node.write("a", "b")
    node.move(THERE)
    node.disk.fail("pwritev", "/there/*", errno.ENOSPC)
    node.settle()

    assert node.there.is_offline
    assert node.words() == ["a", "b"]
    node.write("c")
    assert node.words() == ["a", "b", "c"]
    assert node.replica_moves.under_way == []


def test_a_topic_that_is_deleted_while_it_moves_is_deleted_in_both_places(node: MovingNode) -> None:
    node.write("a")
    node.move(THERE)
    node.delete_topic("orders")
    node.settle()

    assert (node.kinds(HERE), node.kinds(THERE)) == (["delete"], ["delete"])


def test_a_piece_that_comes_after_the_move_was_taken_back_is_dropped() -> None:
    held = HeldSlowWork()
    node = MovingNode(held)
    node.create_topic("orders")
    node.write("a")
    node.move(THERE)
    node.settle()
    node.move(HERE)
    held.run()
    node.settle()

    assert (node.kinds(HERE), node.kinds(THERE)) == ([""], ["delete"])


def restarted(node: MovingNode, *, cleanly: bool) -> None:
    node.replica_moves.stop()
    node.restart(cleanly=cleanly)
    node.replica_moves = node.new_moves()
    node.replica_moves.resume()
    node.settle()


@pytest.mark.parametrize("cleanly", [True, False])
@pytest.mark.parametrize("pieces", [0, 1, 4])
def test_a_restart_goes_on_with_what_was_half_copied(node: MovingNode, cleanly: bool, pieces: int) -> None:
    for number in range(10):
        node.write(f"a{number}")
    before = node.words()
    node.move(THERE)
    for _ in range(pieces):
        node.timers.advance(0)

    restarted(node, cleanly=cleanly)

    assert node.words() == before
    assert node.log("orders").directory == "/there/orders-0"


def test_a_future_log_of_another_topic_of_that_name_is_removed(node: MovingNode) -> None:
    node.there.create_partition(ORDERS, TopicId(b"z" * 16), is_future=True)

    node.replica_moves.resume()

    assert node.kinds(THERE) == ["delete"]
    assert node.replica_moves.under_way == []


def node_with_synced_records() -> MovingNode:
    node = MovingNode()
    node.disk.sync_directory("/")
    node.create_topic("orders")
    for number in range(4):
        node.write(f"a{number}")
    node.log("orders").flush()
    node.here.save_recovery_points()
    return node


def changes_of_a_move() -> int:
    node = node_with_synced_records()
    start = node.disk.changes
    node.move(THERE)
    node.settle()
    return node.disk.changes - start


@pytest.mark.parametrize("change", range(1, changes_of_a_move() + 1))
def test_a_crash_at_any_change_of_the_disk_loses_no_record(change: int) -> None:
    node = node_with_synced_records()
    before = node.words()
    node.disk.crash_at(node.disk.changes + change)
    with contextlib.suppress(SimulatedCrash):
        node.move(THERE)
        node.settle()
    node.disk.crash(Random(change))

    node.log_directories = node._open_directories()
    node.partitions = node._new_partitions()
    keep_one_of_each(node.log_directories)
    node.partitions.apply(node.image)
    node.timers = ManualTimers(node.clock)
    node.replica_moves = node.new_moves()
    node.replica_moves.resume()
    node.settle()

    assert node.words() == before
    assert len([path for path in (HERE, THERE) if "" in node.kinds(path)]) == 1


def test_of_two_logs_of_a_replica_the_longer_one_is_kept_and_the_other_not_deleted(node: MovingNode) -> None:
    topic_id = node.image.topic_ids[ORDERS.topic]
    copy = node.there.create_partition(ORDERS, topic_id)
    accepted(as_leader(copy, WORDS.batch("a", "b"), 0))
    node.write("a")

    keep_one_of_each(node.log_directories)

    assert (node.kinds(HERE), node.kinds(THERE)) == (["stray"], [""])
    assert node.log_directories.log_of(ORDERS) is copy


# The handler


def asked(node: MovingNode, *moves: tuple[str, str, list[int]], version: int = 2) -> dict[tuple[str, int], int]:
    request = AlterReplicaLogDirsRequest(
        dirs=[
            AlterReplicaLogDir(path=path, topics=[AlterReplicaLogDirTopic(name=name, partitions=partitions)])
            for path, name, partitions in moves
        ]
    )
    answer = node.answered(alter_replica_log_dirs, request, version)
    assert isinstance(answer, AlterReplicaLogDirsResponse)
    return {
        (topic.topic_name, each.partition_index): each.error_code
        for topic in answer.results
        for each in topic.partitions
    }


@pytest.mark.parametrize("version", [1, 2])
def test_every_partition_is_answered_for(node: MovingNode, version: int) -> None:
    told = asked(node, (THERE, "orders", [0, 5]), ("/nowhere", "nope", [1]), version=version)

    assert told == {
        ("orders", 0): ErrorCode.NONE,
        ("orders", 5): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ("nope", 1): ErrorCode.LOG_DIR_NOT_FOUND,
    }
    assert node.replica_moves.under_way == [ORDERS]


def test_the_last_place_of_a_partition_counts(node: MovingNode) -> None:
    assert asked(node, (THERE, "orders", [0]), (HERE, "orders", [0])) == {("orders", 0): ErrorCode.NONE}
    assert node.replica_moves.under_way == []


def test_it_takes_permission_to_alter_the_cluster(node: MovingNode) -> None:
    node.authorizer = Denying((AclOperation.ALTER, None))

    assert asked(node, (THERE, "orders", [0])) == {("orders", 0): ErrorCode.CLUSTER_AUTHORIZATION_FAILED}
    assert node.replica_moves.under_way == []
