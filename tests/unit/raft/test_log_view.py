from __future__ import annotations

import pytest

from tests.simulation.raft_disk import Disk, Snapshot
from tests.unit.raft.bench import batch, position
from tidelog.model.ids import LeaderEpoch, Offset
from tidelog.raft.control_records import KRaftVersion
from tidelog.raft.log_view import (
    Comparison,
    Diverging,
    Matching,
    OffsetAndEpoch,
    Snapshotted,
    compare_reader,
    truncation_offset,
)

MATCHING = Matching()


def log(*batches: tuple[int, int, int]) -> Disk:
    disk = Disk(bootstrap=(KRaftVersion(1),))
    disk.batches = [batch(*one) for one in batches]
    return disk


def test_logs_are_ordered_by_epoch_then_offset() -> None:
    assert position(1, 5) > position(9, 4)
    assert position(9, 5) > position(8, 5)
    assert str(position(9, 5)) == "9@5"


@pytest.mark.parametrize(
    ("offset", "epoch", "expected"),
    [
        (0, 0, MATCHING),
        (5, 1, MATCHING),
        (3, 1, MATCHING),
        (9, 3, MATCHING),
        # The reader has more of an epoch than the log.
        (6, 1, Diverging(position(5, 1))),
        (10, 3, Diverging(position(9, 3))),
        # The reader has an epoch that the log lacks.
        (7, 2, Diverging(position(5, 1))),
        (12, 4, Diverging(position(9, 3))),
    ],
)
def test_a_reader_is_compared_by_the_end_of_its_log(offset: int, epoch: int, expected: Comparison) -> None:
    mine = log((0, 5, 1), (5, 9, 3))

    assert compare_reader(mine, Offset(offset), LeaderEpoch(epoch)) == expected


def test_an_empty_reader_of_a_log_with_a_bootstrap_checkpoint_reads_the_log() -> None:
    assert compare_reader(log(), Offset(0), LeaderEpoch(0)) == MATCHING


def snapshotted() -> Disk:
    """Epoch 2 up to offset 10 only in a snapshot, then two batches; a later snapshot as well."""
    disk = log((10, 12, 2), (12, 15, 4))
    disk.start = Offset(10)
    for snapshot_id in (position(10, 2), position(12, 2)):
        disk.snapshots[snapshot_id] = Snapshot(snapshot_id, (), ())
    return disk


@pytest.mark.parametrize(
    ("offset", "epoch", "expected"),
    [
        (0, 0, Snapshotted(position(12, 2))),
        (9, 2, Snapshotted(position(12, 2))),
        (10, 1, Snapshotted(position(12, 2))),
        (11, 1, Snapshotted(position(12, 2))),
        (10, 2, MATCHING),
        (12, 2, MATCHING),
        (15, 4, MATCHING),
        (14, 3, Diverging(position(12, 2))),
    ],
)
def test_what_was_removed_comes_from_the_latest_snapshot(offset: int, epoch: int, expected: Comparison) -> None:
    assert compare_reader(snapshotted(), Offset(offset), LeaderEpoch(epoch)) == expected


@pytest.mark.parametrize(
    ("diverging", "expected"),
    [
        (position(3, 1), 3),
        (position(8, 1), 5),
        (position(7, 2), 5),
        (position(6, 3), 6),
        (position(0, 0), 0),
        (position(99, 0), 9),
    ],
)
def test_a_follower_cuts_where_the_logs_can_have_parted(diverging: OffsetAndEpoch, expected: int) -> None:
    assert truncation_offset(log((0, 5, 1), (5, 9, 3)), diverging) == expected
