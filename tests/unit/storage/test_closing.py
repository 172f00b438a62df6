"""The clean stop of a directory with more logs than may wait for the disk at once."""

from __future__ import annotations

import errno
from random import Random

import pytest

from tests.support.appends import as_leader
from tests.support.log_builder import DIRECTORY, HeldSlowWork, LogBuilder, ManualClock, accepted
from tidelog.model.ids import BrokerEpoch, PartitionIndex, TopicId, TopicName, TopicPartition
from tidelog.simulation.disk import SimulatedDisk
from tidelog.storage.closing import UNDER_WAY_MAX
from tidelog.storage.log_config import LogConfig
from tidelog.storage.log_directory import LogDirectory
from tidelog.storage.seams import Seams

EPOCH = BrokerEpoch(7)
TOPIC_ID = TopicId(b"0123456789abcdef")
MARK = f"{DIRECTORY}/.kafka_cleanshutdown"
BATCHES = LogBuilder()


class Many:
    """A directory with written logs, whose slow work waits to be let run."""

    def __init__(self, count: int) -> None:
        clock = ManualClock()
        self.disk = SimulatedDisk(clock)
        self.disk.make_directory("/")
        self.slow_work = HeldSlowWork()
        self.seams = Seams(self.disk, clock, self.slow_work, Random(1))
        self.directory = self.open()
        for index in range(count):
            orders = TopicPartition(TopicName("orders"), PartitionIndex(index))
            log = self.directory.create_partition(orders, TOPIC_ID)
            accepted(as_leader(log, BATCHES.batch(f"{index}"), 0))
            log.set_high_watermark(log.log_end_offset)

    def open(self) -> LogDirectory:
        directory = LogDirectory.open(self.seams, DIRECTORY, config_of=lambda _topic: LogConfig())
        directory.load()
        return directory

    @property
    def has_mark(self) -> bool:
        return self.disk.exists(MARK)


def test_as_many_logs_wait_for_the_disk_as_may_and_the_mark_waits_for_all() -> None:
    many = Many(2 * UNDER_WAY_MAX + 3)

    closed = many.directory.close(EPOCH)

    rounds = []
    while many.slow_work.held:
        assert not many.has_mark
        assert not closed.is_complete
        rounds.append(len(many.slow_work.held))
        many.slow_work.held.pop(0)()
    assert max(rounds) == UNDER_WAY_MAX
    assert len(rounds) == 2 * UNDER_WAY_MAX + 3
    assert closed.is_complete
    assert many.has_mark


@pytest.mark.parametrize("seed", range(4))
def test_what_was_closed_survives_the_loss_of_power(seed: int) -> None:
    many = Many(5)
    many.directory.close(EPOCH)
    many.slow_work.run()

    many.disk.crash(Random(seed))
    many.disk.fail("pread", "*.log", errno.EIO)
    directory = many.open()

    assert (directory.was_clean, directory.last_broker_epoch) == (True, EPOCH)
    assert [log.log_end_offset for log in directory.partitions.values()] == [1] * 5


def test_a_power_cut_before_the_disk_has_all_is_no_clean_stop() -> None:
    many = Many(5)
    many.directory.close(EPOCH)
    many.slow_work.held.pop(0)()

    many.disk.crash(Random(1))

    assert not many.open().was_clean


def test_a_fault_leaves_no_mark_and_the_lock_is_kept_until_the_others_are_done() -> None:
    many = Many(UNDER_WAY_MAX + 5)
    many.disk.fail("sync", "*/orders-0/*.log", errno.EIO)

    closed = many.directory.close(EPOCH)
    first, *others = many.slow_work.held
    many.slow_work.held.clear()
    first()

    assert many.directory.is_offline
    assert [len(many.slow_work.held), closed.is_complete] == [0, False]
    for each in others:
        each()
    assert closed.is_complete
    assert not many.has_mark
    many.disk.heal()
    assert not many.open().was_clean


def test_a_directory_that_is_abandoned_meanwhile_writes_nothing_more() -> None:
    many = Many(3)
    closed = many.directory.close(EPOCH)

    many.directory.abandon()
    many.slow_work.run()

    assert closed.is_complete
    assert not many.has_mark


def test_an_empty_directory_is_closed_at_once() -> None:
    many = Many(0)

    assert many.directory.close(EPOCH).is_complete
    assert many.has_mark
