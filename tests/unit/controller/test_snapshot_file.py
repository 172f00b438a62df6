"""Snapshots of the metadata as files, and the control records at their head."""

from __future__ import annotations

from random import Random

import pytest

from tidelog.controller import snapshot_file
from tidelog.controller.control_batches import build_control_batch, read_control
from tidelog.controller.snapshot_file import (
    Snapshot,
    SnapshotHead,
    build_snapshot,
    parse_snapshot_name,
    read_snapshot,
    read_snapshot_head,
    snapshot_name,
    write_snapshot,
)
from tidelog.model.ids import DirectoryId, LeaderEpoch, NodeId, Offset
from tidelog.raft.control_records import ControlRecord, KRaftVersion, LeaderChange, Voters
from tidelog.raft.log_view import OffsetAndEpoch
from tidelog.raft.voter_set import Endpoint, ReplicaKey, VersionRange, Voter, VoterSet
from tidelog.simulation.disk import SimulatedDisk
from tidelog.storage.errors import DamagedFileError
from tidelog.wire.control_records import ControlType, control_key
from tidelog.wire.internal_records import FramedRecord
from tidelog.wire.messages.internal.cluster_metadata import ConfigRecord, FeatureLevelRecord
from tidelog.wire.record_batch import each_batch, read_header
from tidelog.wire.records import Record, build_batch, decode_rows

VOTERS = Voters(
    VoterSet(
        [
            Voter(
                ReplicaKey(NodeId(3), DirectoryId(b"d" * 16)),
                (Endpoint("CONTROLLER", "::1", 9093), Endpoint("SECURE", "host", 65535)),
                VersionRange(0, 1),
            )
        ]
    )
)
HEAD = SnapshotHead(1234, (KRaftVersion(1), VOTERS))
RECORDS = tuple(
    FramedRecord(ConfigRecord(resource_type=2, resource_name="t", name=f"key-{number}", value="v" * 100), 0)
    for number in range(50)
)
PATH = "/logs/x.checkpoint"


@pytest.fixture
def disk() -> SimulatedDisk:
    disk = SimulatedDisk()
    disk.make_directory("/logs")
    disk.sync_directory("/")
    return disk


def written(disk: SimulatedDisk, *batches: bytes) -> None:
    write_snapshot(disk, PATH, batches)


@pytest.mark.parametrize(
    ("offset", "epoch", "name"),
    [
        (0, 0, "00000000000000000000-0000000000.checkpoint"),
        (186, 2, "00000000000000000186-0000000002.checkpoint"),
    ],
)
def test_a_name_tells_offset_and_epoch(offset: int, epoch: int, name: str) -> None:
    snapshot_id = OffsetAndEpoch(offset=Offset(offset), epoch=LeaderEpoch(epoch))

    assert snapshot_name(snapshot_id) == name
    assert parse_snapshot_name(name) == snapshot_id


@pytest.mark.parametrize(
    "name",
    ["", "bootstrap.checkpoint", "1-1.checkpoint", f"{0:020d}-{0:010d}.checkpoint.part", f"{0:020d}.log"],
)
def test_other_names_are_no_snapshots(name: str) -> None:
    assert parse_snapshot_name(name) is None


def test_what_is_written_is_read(disk: SimulatedDisk) -> None:
    batches = list(build_snapshot(HEAD, RECORDS, epoch=7, timestamp_ms=99))

    size = write_snapshot(disk, PATH, batches)

    assert size == sum(map(len, batches)) == disk.size_of(PATH)
    assert read_snapshot(disk, PATH) == Snapshot(HEAD, RECORDS)
    assert read_snapshot_head(disk, PATH) == HEAD


def test_it_has_kafkas_shape() -> None:
    data = b"".join(build_snapshot(HEAD, RECORDS, epoch=7, timestamp_ms=99))

    headers = [header for _, header in each_batch(data)]

    assert [(header.is_control, header.record_count) for header in headers] == [(True, 3), (False, 50), (True, 1)]
    assert [header.base_offset for header in headers] == [0, 3, 53]
    assert {header.partition_leader_epoch for header in headers} == {7}
    assert {header.max_timestamp for header in headers} == {99}


def test_a_large_one_has_several_batches(disk: SimulatedDisk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot_file, "BATCH_RECORD_BYTES_MAX", 1000)

    written(disk, *build_snapshot(HEAD, RECORDS, epoch=7, timestamp_ms=99))

    data = disk.read_bytes(PATH, 1 << 20)
    assert len(list(each_batch(data))) > 5
    assert read_snapshot(disk, PATH).records == RECORDS


def test_a_crash_leaves_no_half_of_one(disk: SimulatedDisk) -> None:
    write_snapshot(disk, PATH, build_snapshot(HEAD, (), epoch=7, timestamp_ms=99))

    disk.crash(Random(3))

    assert read_snapshot(disk, PATH) == Snapshot(HEAD, ())


class TestDamage:
    def test_an_empty_file(self, disk: SimulatedDisk) -> None:
        written(disk)

        with pytest.raises(DamagedFileError, match="it does not begin with the header of a snapshot"):
            read_snapshot(disk, PATH)
        with pytest.raises(DamagedFileError, match="it does not begin with the header of a snapshot"):
            read_snapshot_head(disk, PATH)

    def test_records_without_a_header(self, disk: SimulatedDisk) -> None:
        written(disk, list(build_snapshot(HEAD, RECORDS, epoch=7, timestamp_ms=99))[1])

        with pytest.raises(DamagedFileError, match="it does not begin with the header of a snapshot"):
            read_snapshot(disk, PATH)
        with pytest.raises(DamagedFileError, match="it does not begin with the header of a snapshot"):
            read_snapshot_head(disk, PATH)

    def test_another_control_batch_at_the_head(self, disk: SimulatedDisk) -> None:
        written(disk, build_control_batch([KRaftVersion(1)], base_offset=0, epoch=0, timestamp_ms=1))

        with pytest.raises(DamagedFileError, match="it does not begin with the header of a snapshot"):
            read_snapshot(disk, PATH)

    def test_no_footer(self, disk: SimulatedDisk) -> None:
        written(disk, *list(build_snapshot(HEAD, RECORDS, epoch=7, timestamp_ms=99))[:-1])

        with pytest.raises(DamagedFileError, match="it has no footer, so it was never finished"):
            read_snapshot(disk, PATH)

    def test_something_after_the_footer(self, disk: SimulatedDisk) -> None:
        batches = list(build_snapshot(HEAD, (), epoch=7, timestamp_ms=99))
        written(disk, *batches, batches[0])

        with pytest.raises(DamagedFileError, match="comes after the footer"):
            read_snapshot(disk, PATH)

    def test_a_flipped_bit(self, disk: SimulatedDisk) -> None:
        data = bytearray(b"".join(build_snapshot(HEAD, RECORDS, epoch=7, timestamp_ms=99)))
        data[300] ^= 1
        written(disk, bytes(data))

        with pytest.raises(DamagedFileError, match="checksum"):
            read_snapshot(disk, PATH)

    def test_a_cut_tail(self, disk: SimulatedDisk) -> None:
        data = b"".join(build_snapshot(HEAD, RECORDS, epoch=7, timestamp_ms=99))
        written(disk, data[:-1])

        with pytest.raises(DamagedFileError, match="cut off"):
            read_snapshot(disk, PATH)

    def test_a_record_without_a_value(self, disk: SimulatedDisk) -> None:
        header, _, footer = build_snapshot(HEAD, RECORDS[:1], epoch=7, timestamp_ms=99)
        written(disk, header, build_batch([Record(3, 0, None, None)], base_offset=3), footer)

        with pytest.raises(DamagedFileError, match="the record at 3 has no value"):
            read_snapshot(disk, PATH)

    def test_a_record_of_a_type_that_is_not_known(self, disk: SimulatedDisk) -> None:
        header, _, footer = build_snapshot(HEAD, RECORDS[:1], epoch=7, timestamp_ms=99)
        written(disk, header, build_batch([Record(3, 0, None, b"\x01\x63\x00\x00")], base_offset=3), footer)

        with pytest.raises(DamagedFileError, match="unknown type 99"):
            read_snapshot(disk, PATH)


class TestControlBatches:
    @pytest.mark.parametrize(
        "record", [KRaftVersion(1), VOTERS, LeaderChange(NodeId(2), (NodeId(1), NodeId(2)), (NodeId(2),))], ids=str
    )
    def test_a_record_survives_its_bytes(self, record: ControlRecord) -> None:
        batch = build_control_batch([record, KRaftVersion(0)], base_offset=40, epoch=3, timestamp_ms=5)

        header = read_header(batch)
        assert (header.base_offset, header.last_offset, header.partition_leader_epoch) == (40, 41, 3)
        assert header.is_control
        assert read_control(decode_rows(batch)) == (record, KRaftVersion(0))

    def test_others_are_passed_over(self) -> None:
        rows = [Record(0, 0, control_key(ControlType.SNAPSHOT_FOOTER), b""), Record(1, 0, b"\x00\x00\x00\x63", b"")]

        assert read_control(rows) == ()

    def test_a_voter_without_a_directory_cannot_be_written(self) -> None:
        static = Voters(VoterSet([Voter(ReplicaKey(NodeId(1)), ())]))

        with pytest.raises(ValueError, match="voter 1 has no directory id"):
            build_control_batch([static], base_offset=0, epoch=0, timestamp_ms=0)


def test_feature_levels_are_records_like_any_other(disk: SimulatedDisk) -> None:
    level = FramedRecord(FeatureLevelRecord(name="metadata.version", feature_level=30), 0)

    written(disk, *build_snapshot(SnapshotHead(0), [level], epoch=0, timestamp_ms=1))

    assert read_snapshot(disk, PATH) == Snapshot(SnapshotHead(0), (level,))
