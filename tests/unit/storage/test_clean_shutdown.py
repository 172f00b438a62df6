"""The mark of a clean stop."""

from __future__ import annotations

import errno
from random import Random

import pytest

from tests.unit.storage.disks import Place, simulated_place
from tidelog.model.ids import BrokerEpoch
from tidelog.simulation.disk import SimulatedDisk
from tidelog.storage.clean_shutdown import (
    FILE_NAME,
    read_clean_shutdown_epoch,
    remove_clean_shutdown,
    was_clean_shutdown,
    write_clean_shutdown,
)
from tidelog.storage.errors import StorageError


def test_the_mark_is_kafkas(place: Place) -> None:
    write_clean_shutdown(place.files, place.directory, BrokerEpoch(42))

    assert place.read(".kafka_cleanshutdown") == b'{"version":0,"brokerEpoch":42}'
    assert was_clean_shutdown(place.files, place.directory)
    assert read_clean_shutdown_epoch(place.files, place.directory) == 42


def test_without_a_mark_nothing_is_proven(place: Place) -> None:
    assert not was_clean_shutdown(place.files, place.directory)
    assert read_clean_shutdown_epoch(place.files, place.directory) is None
    remove_clean_shutdown(place.files, place.directory)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{}",
        b"[]",
        b'{"version":0}',
        b'{"brokerEpoch":"4"}',
        b'{"brokerEpoch":true}',
        b"\xff",
        b"[" * 4000,
        b"x" * 5000,
    ],
)
def test_a_mark_that_cannot_be_read_spares_the_recovery_but_proves_no_epoch(place: Place, content: bytes) -> None:
    place.write(FILE_NAME, content)

    assert was_clean_shutdown(place.files, place.directory)
    assert read_clean_shutdown_epoch(place.files, place.directory) is None


def test_a_removed_mark_does_not_come_back() -> None:
    for seed in range(20):
        place = simulated_place()
        disk = place.files
        assert isinstance(disk, SimulatedDisk)
        write_clean_shutdown(disk, place.directory, BrokerEpoch(1))
        remove_clean_shutdown(disk, place.directory)

        disk.crash(Random(seed))

        assert not was_clean_shutdown(disk, place.directory)


def test_a_disk_that_fails_is_not_taken_for_a_missing_mark() -> None:
    place = simulated_place()
    disk = place.files
    assert isinstance(disk, SimulatedDisk)
    write_clean_shutdown(disk, place.directory, BrokerEpoch(1))
    disk.fail("pread", "*", errno.EIO)

    with pytest.raises(StorageError, match="cannot read"):
        read_clean_shutdown_epoch(disk, place.directory)
