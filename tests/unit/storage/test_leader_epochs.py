"""Leader epochs: KIP-101 and KIP-279, one partition's side of them."""

from __future__ import annotations

import errno

import pytest

from tests.unit.storage.disks import Place, simulated_place
from tidelog.model.ids import LeaderEpoch, Offset
from tidelog.simulation.disk import SimulatedDisk
from tidelog.storage.errors import DamagedFileError, StorageError
from tidelog.storage.leader_epochs import UNDEFINED_EPOCH_END, EpochEntry, LeaderEpochs

NAME = "leader-epoch-checkpoint"


def epochs_in(place: Place) -> LeaderEpochs:
    return LeaderEpochs(place.files, place.path(NAME))


def with_entries(place: Place, *entries: tuple[int, int]) -> LeaderEpochs:
    epochs = epochs_in(place)
    epochs.assign_all(EpochEntry(LeaderEpoch(epoch), Offset(offset)) for epoch, offset in entries)
    return epochs


def test_assignments_are_on_the_disk_at_once(place: Place) -> None:
    epochs = epochs_in(place)

    assert epochs.assign(0, 0)
    assert epochs.assign(2, 10)

    assert place.read(NAME) == b"0\n2\n0 0\n2 10\n"
    assert epochs_in(place).entries == ((0, 0), (2, 10))
    assert epochs.earliest == (0, 0)
    assert epochs.latest == (2, 10)
    assert epochs.latest_epoch == 2


def test_later_batches_of_an_epoch_are_no_news(place: Place) -> None:
    epochs = with_entries(place, (2, 10))
    place.files.remove(place.path(NAME))

    assert not epochs.assign(2, 10)
    assert not epochs.assign(2, 500)

    assert epochs.entries == ((2, 10),)
    assert not place.files.exists(place.path(NAME))


@pytest.mark.parametrize(
    ("assignment", "left"),
    [
        ((3, 30), [(1, 10), (2, 20), (3, 30)]),
        # Nothing was written in epoch 2.
        ((3, 20), [(1, 10), (3, 20)]),
        # The log was cut before.
        ((3, 15), [(1, 10), (3, 15)]),
        ((3, 10), [(3, 10)]),
        ((3, 0), [(3, 0)]),
        ((2, 15), [(1, 10), (2, 15)]),
        # An older epoch: the newer ones were never committed.
        ((1, 30), [(1, 30)]),
        ((0, 30), [(0, 30)]),
    ],
)
def test_what_contradicts_an_assignment_goes(
    place: Place, assignment: tuple[int, int], left: list[tuple[int, int]]
) -> None:
    epochs = with_entries(place, (1, 10), (2, 20))

    assert epochs.assign(*assignment)

    assert list(epochs.entries) == left
    assert list(epochs_in(place).entries) == left


@pytest.mark.parametrize(
    ("epoch", "answer"),
    [
        (-1, UNDEFINED_EPOCH_END),
        (1, (1, 20)),
        (2, (2, 40)),
        (3, (2, 40)),
        (4, (4, 50)),
        (5, (5, 99)),
        (6, UNDEFINED_EPOCH_END),
    ],
)
def test_the_end_of_an_epoch(place: Place, epoch: int, answer: tuple[int, int]) -> None:
    # Epoch 1 is gone from the log, 3 was never written in: the answer for 3 is the end of 2.
    epochs = with_entries(place, (2, 20), (4, 40), (5, 50))

    assert epochs.end_offset_for(epoch, 99) == answer


def test_a_log_without_epochs_knows_no_end(place: Place) -> None:
    epochs = epochs_in(place)

    assert epochs.end_offset_for(0, 99) == UNDEFINED_EPOCH_END
    assert (epochs.latest, epochs.earliest, epochs.latest_epoch) == (None, None, None)
    assert epochs.epoch_for_offset(5) is None


def test_the_epoch_of_an_offset(place: Place) -> None:
    epochs = with_entries(place, (2, 20), (4, 40))

    assert [epochs.epoch_for_offset(offset) for offset in (19, 20, 39, 40, 1000)] == [None, 2, 2, 4, 4]
    assert [epochs.previous(epoch) for epoch in (2, 3, 4, 9)] == [None, (2, 20), (2, 20), (4, 40)]
    assert [epochs.next(epoch) for epoch in (0, 2, 3, 4)] == [(2, 20), (4, 40), (4, 40), None]


@pytest.mark.parametrize(
    ("end_offset", "left"), [(41, [(2, 20), (4, 40)]), (40, [(2, 20)]), (21, [(2, 20)]), (20, []), (0, [])]
)
def test_truncation_from_the_end(place: Place, end_offset: int, left: list[tuple[int, int]]) -> None:
    epochs = with_entries(place, (2, 20), (4, 40))

    epochs.truncate_from_end(end_offset)

    assert list(epochs.entries) == left
    assert epochs.is_dirty == (len(left) < 2)
    assert list(epochs_in(place).entries) == [(2, 20), (4, 40)]
    epochs.flush()
    assert not epochs.is_dirty
    assert list(epochs_in(place).entries) == left


@pytest.mark.parametrize(
    ("start_offset", "left"),
    [(0, [(2, 20), (4, 40)]), (20, [(2, 20), (4, 40)]), (30, [(2, 30), (4, 40)]), (40, [(4, 40)]), (50, [(4, 50)])],
)
def test_truncation_from_the_start(place: Place, start_offset: int, left: list[tuple[int, int]]) -> None:
    epochs = with_entries(place, (2, 20), (4, 40))

    epochs.truncate_from_start(start_offset)
    epochs.flush()

    assert list(epochs.entries) == left
    assert list(epochs_in(place).entries) == left


def test_clearing_reaches_the_disk(place: Place) -> None:
    epochs = with_entries(place, (2, 20))

    epochs.clear()

    assert epochs.entries == ()
    assert place.read(NAME) == b"0\n0\n"


def test_the_write_may_be_put_off(place: Place) -> None:
    epochs = epochs_in(place)

    epochs.assign(1, 5, flush=False)

    assert epochs.is_dirty
    assert not place.files.exists(place.path(NAME))
    epochs.flush()
    assert place.read(NAME) == b"0\n1\n1 5\n"


def test_it_follows_its_directory(place: Place) -> None:
    epochs = with_entries(place, (2, 20))
    epochs.relocate(place.path("moved"))
    epochs.assign(3, 30)

    assert LeaderEpochs(place.files, place.path("moved")).entries == ((2, 20), (3, 30))


def test_a_failed_write_is_tried_again_by_the_next_flush() -> None:
    place = simulated_place()
    disk = place.files
    assert isinstance(disk, SimulatedDisk)
    epochs = epochs_in(place)
    disk.fail("sync", "*.tmp", errno.EIO, times=1)

    with pytest.raises(StorageError, match="cannot sync"):
        epochs.assign(1, 5)
    epochs.flush()

    assert epochs_in(place).entries == ((1, 5),)


def test_negative_numbers_are_refused(place: Place) -> None:
    for epoch, offset in ((-1, 5), (1, -5)):
        with pytest.raises(ValueError, match="neither may be negative"):
            epochs_in(place).assign(epoch, offset)
    place.write(NAME, b"0\n1\n-1 5\n")
    with pytest.raises(DamagedFileError, match="epoch -1 at offset 5 cannot be"):
        epochs_in(place)
