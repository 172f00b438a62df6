"""The metadata log on disk: what the quorum asks of it, and what a restart finds."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable, Iterable
from random import Random

import pytest

from tests.support.log_builder import HeldSlowWork
from tests.support.metadata_node import CLUSTER_ID, CONTROLLER_ENDPOINT, DIRECTORY, NODE
from tidelog.controller import metadata_log
from tidelog.controller.formatting import format_directories
from tidelog.controller.metadata_log import MetadataLog, MetadataLogConfig
from tidelog.controller.snapshot_file import SnapshotHead, build_snapshot, snapshot_name, write_snapshot
from tidelog.model.ids import LeaderEpoch, NodeId, Offset
from tidelog.model.slow_work import InlineSlowWork, SlowWork
from tidelog.raft.control_records import KRaftVersion, LeaderChange
from tidelog.raft.log_view import OffsetAndEpoch
from tidelog.raft.messages import Batch
from tidelog.raft.quorum_state import QuorumState
from tidelog.raft.voter_set import Endpoint
from tidelog.simulation.disk import SimulatedDisk
from tidelog.simulation.loop import VirtualClock, VirtualTimeLoop
from tidelog.storage.errors import DamagedFileError, StorageError
from tidelog.storage.seams import Seams
from tidelog.wire.internal_records import FramedRecord
from tidelog.wire.messages.internal.cluster_metadata import ConfigRecord, NoOpRecord

LOG = f"{DIRECTORY}/__cluster_metadata-0"
FIRST = OffsetAndEpoch(offset=Offset(0), epoch=LeaderEpoch(0))


def at(offset: int, epoch: int) -> OffsetAndEpoch:
    return OffsetAndEpoch(offset=Offset(offset), epoch=LeaderEpoch(epoch))


def config_record(number: int, size: int = 10) -> FramedRecord:
    return FramedRecord(ConfigRecord(resource_type=2, resource_name="t", name=f"key-{number}", value="v" * size), 0)


class Logs:
    """A metadata log that can be opened again and again."""

    def __init__(self) -> None:
        self.disk = SimulatedDisk()
        self.loop = VirtualTimeLoop()
        self.clock = VirtualClock(self.loop)
        self.slow_work: SlowWork = InlineSlowWork()
        self.faults: list[StorageError] = []
        format_directories(
            self.disk,
            [DIRECTORY],
            cluster_id=CLUSTER_ID,
            node_id=NODE,
            controller_endpoints=(Endpoint(CONTROLLER_ENDPOINT.name, "h", 1),),
            random=Random(1),
            clock=self.clock,
        )

    def open(self, config: MetadataLogConfig | None = None) -> MetadataLog:
        seams = Seams(self.disk, self.clock, self.slow_work, Random(2))
        log = MetadataLog.open(seams, DIRECTORY, config or MetadataLogConfig())
        log.tell_faults(self.faults.append)
        return log


@pytest.fixture
def logs() -> Logs:
    return Logs()


def append(log: MetadataLog, epoch: int, *records: FramedRecord) -> None:
    end = log.end().offset
    log.append([Batch(end, Offset(end + len(records)), LeaderEpoch(epoch), (), tuple(records))])


def open_epoch(log: MetadataLog, epoch: int) -> None:
    end = log.end().offset
    control = (LeaderChange(NodeId(1), (NodeId(1),), (NodeId(1),)),)
    log.append([Batch(end, Offset(end + 1), LeaderEpoch(epoch), control)])


def snapshot(log: MetadataLog, snapshot_id: OffsetAndEpoch, *, age_ms: int = 0, size: int = 10) -> None:
    log.committed(snapshot_id.offset)
    head = SnapshotHead(age_ms, (KRaftVersion(1),))
    done: list[bool] = []
    assert log.write_snapshot(snapshot_id, head, lambda: [config_record(0, size)], lambda: done.append(True))
    assert done == [True]


def run(work: HeldSlowWork) -> None:
    """All that waits, and what comes of it."""
    while work.held:
        work.run()


def flush(log: MetadataLog) -> bool:
    done: list[bool] = []
    log.flush(lambda: done.append(True))
    return bool(done)


def offsets(log: MetadataLog, start: int = 0) -> list[tuple[int, int]]:
    return [(batch.base_offset, batch.next_offset) for batch in log.batches(Offset(start), log.end().offset)]


class TestAFormattedLog:
    def test_is_empty_and_has_the_first_voters(self, logs: Logs) -> None:
        log = logs.open()

        assert log.end() == FIRST
        assert log.start_offset() == 0
        assert log.latest_snapshot_id() == log.earliest_snapshot_id() == FIRST
        assert [offset for offset, _ in log.control_records()] == [-1, -1]
        assert log.end_of_epoch(LeaderEpoch(5)) == FIRST
        assert log.epoch_before(Offset(0)) == 0

    def test_has_the_files_that_kafka_keeps(self, logs: Logs) -> None:
        logs.open().close()

        assert logs.disk.list_directory(LOG) == [
            "00000000000000000000-0000000000.checkpoint",
            "00000000000000000000.index",
            "00000000000000000000.log",
            "00000000000000000000.timeindex",
            "partition.metadata",
        ]
        assert b"topic_id: AAAAAAAAAAAAAAAAAAAAAQ" in logs.disk.read_bytes(f"{LOG}/partition.metadata", 100)

    def test_that_is_another_topics_is_refused(self, logs: Logs) -> None:
        logs.open().close()
        logs.disk.write_bytes_atomically(f"{LOG}/partition.metadata", b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAg\n")

        with pytest.raises(DamagedFileError, match="it is not that of the metadata log"):
            logs.open()


class TestAppending:
    def test_control_records_and_metadata_records(self, logs: Logs) -> None:
        log = logs.open()
        open_epoch(log, 3)
        append(log, 3, config_record(1), config_record(2))

        control, metadata = log.batches(Offset(0), log.end().offset)

        assert log.end() == at(3, 3)
        assert control.control == (LeaderChange(NodeId(1), (NodeId(1),), (NodeId(1),)),)
        assert (control.records, metadata.control) == ((), ())
        assert metadata.records == (config_record(1), config_record(2))
        assert (metadata.base_offset, metadata.next_offset, metadata.epoch) == (1, 3, 3)
        assert metadata.timestamp_ms == logs.clock.now_ms()

    def test_bytes_of_another_leader_are_taken_as_they_are(self, logs: Logs) -> None:
        leader, follower = logs.open(), Logs().open()
        open_epoch(leader, 3)
        append(leader, 3, config_record(1))
        open_epoch(leader, 4)

        follower.append(leader.read_for_follower(Offset(0), 1 << 20))

        assert follower.end() == at(3, 4)
        assert list(follower.batches(Offset(0), Offset(3))) == list(leader.batches(Offset(0), Offset(3)))

    def test_what_the_quorum_cannot_have_decided_stops_the_node(self, logs: Logs) -> None:
        log = logs.open()
        append(log, 1, config_record(1))

        with pytest.raises(RuntimeError, match="cannot take a batch that the quorum decided on"):
            log.append([Batch(Offset(0), Offset(1), LeaderEpoch(1), (), (config_record(2),))])
        with pytest.raises(TypeError, match="str cannot be written to the metadata log"):
            log.append([Batch(Offset(1), Offset(2), LeaderEpoch(1), (), "what")])

    def test_a_flush_is_told_when_it_is_done(self, logs: Logs) -> None:
        work = logs.slow_work = HeldSlowWork()
        log = logs.open()
        append(log, 1, config_record(1))
        done: list[int] = []

        log.flush(lambda: done.append(1))
        assert done == []
        run(work)

        assert done == [1]
        assert logs.disk.unsynced(f"{LOG}/00000000000000000000.log") == 0

    def test_a_disk_that_fails_in_the_background_is_told_once(self, logs: Logs) -> None:
        work = logs.slow_work = HeldSlowWork()
        log = logs.open()
        append(log, 1, config_record(1))
        logs.disk.fail("sync", "*.log", errno.EIO)

        for _ in range(2):
            log.flush(lambda: pytest.fail("a failed flush was reported as done"))
        run(work)

        assert [fault.errno for fault in logs.faults] == [errno.EIO]


class TestReadingForFollowers:
    def test_as_many_whole_batches_as_fit_but_at_least_one(self, logs: Logs) -> None:
        log = logs.open()
        open_epoch(log, 1)
        for number in range(4):
            append(log, 1, config_record(number))
        size = [
            len(batch.payload)
            for batch in log.read_for_follower(Offset(0), 1 << 20)
            if isinstance(batch.payload, bytes)
        ]

        assert len(size) == 5
        assert [batch.base_offset for batch in log.read_for_follower(Offset(1), 1)] == [1]
        assert [batch.base_offset for batch in log.read_for_follower(Offset(1), size[1] + size[2])] == [1, 2]
        assert [batch.base_offset for batch in log.read_for_follower(Offset(1), size[1] + size[2] - 1)] == [1]
        assert log.read_for_follower(Offset(5), 1 << 20) == ()

    def test_control_batches_say_what_is_in_them(self, logs: Logs) -> None:
        log = logs.open()
        open_epoch(log, 1)
        append(log, 1, config_record(1))

        control, metadata = log.read_for_follower(Offset(0), 1 << 20)

        assert control.control == (LeaderChange(NodeId(1), (NodeId(1),), (NodeId(1),)),)
        assert metadata.control == ()

    def test_pieces_of_a_snapshot(self, logs: Logs) -> None:
        log = logs.open()
        append(log, 1, config_record(1))
        snapshot(log, at(1, 1))
        size = log.snapshot_size_bytes(at(1, 1))
        assert size is not None

        pieces = [log.read_snapshot_bytes(at(1, 1), position, 50) for position in range(0, size, 50)]

        assert b"".join(pieces) == logs.disk.read_bytes(f"{LOG}/{snapshot_name(at(1, 1))}", 1 << 20)
        assert log.snapshot_size_bytes(at(7, 1)) is None


class TestEpochs:
    @pytest.fixture
    def log(self, logs: Logs) -> MetadataLog:
        """Epoch 2 from 0 to 3, epoch 5 from 3 to 5."""
        log = logs.open()
        append(log, 2, config_record(0), config_record(1), config_record(2))
        append(log, 5, config_record(3), config_record(4))
        return log

    @pytest.mark.parametrize(("epoch", "end"), [(1, FIRST), (2, at(3, 2)), (3, at(3, 2)), (5, at(5, 5)), (9, at(5, 5))])
    def test_the_end_of_an_epoch(self, log: MetadataLog, epoch: int, end: OffsetAndEpoch) -> None:
        assert log.end_of_epoch(LeaderEpoch(epoch)) == end

    @pytest.mark.parametrize(("offset", "epoch"), [(0, 0), (1, 2), (3, 2), (4, 5), (5, 5)])
    def test_the_epoch_before_an_offset(self, log: MetadataLog, offset: int, epoch: int) -> None:
        assert log.epoch_before(Offset(offset)) == epoch

    def test_a_cut_forgets_them(self, log: MetadataLog) -> None:
        log.truncate(Offset(3))

        assert log.end() == at(3, 2)
        assert log.end_of_epoch(LeaderEpoch(9)) == at(3, 2)

    def test_a_cut_inside_a_batch_is_nothing_that_a_quorum_asks_for(self, log: MetadataLog) -> None:
        with pytest.raises(RuntimeError, match="was cut at 3, where 4 was asked for"):
            log.truncate(Offset(4))


class TestSnapshots:
    def test_one_is_kept_and_found_again(self, logs: Logs) -> None:
        log = logs.open()
        append(log, 1, config_record(1))
        snapshot(log, at(1, 1), age_ms=77)
        append(log, 1, config_record(2))
        log.close()

        log = logs.open()

        assert log.latest_snapshot_id() == at(1, 1)
        assert log.earliest_snapshot_id() == FIRST
        found = log.latest_snapshot()
        assert found is not None
        assert found[0] == at(1, 1)
        assert found[1].head.last_contained_ms == 77
        assert offsets(log, 1) == [(1, 2)]

    def test_one_at_a_time_and_none_twice(self, logs: Logs) -> None:
        work = logs.slow_work = HeldSlowWork()
        log = logs.open()
        append(log, 1, config_record(1))
        append(log, 1, config_record(2))
        log.committed(Offset(2))
        done: list[int] = []

        def write(offset: int) -> bool:
            return log.write_snapshot(at(offset, 1), SnapshotHead(0), list, lambda: done.append(offset))

        assert write(1)
        assert not write(2)
        run(work)
        assert done == [1]
        assert not write(1)
        assert write(2)
        run(work)
        assert done == [1, 2]

    def test_the_log_is_synced_before_a_snapshot_covers_it(self, logs: Logs) -> None:
        log = logs.open()
        append(log, 1, config_record(1))
        assert logs.disk.unsynced(f"{LOG}/00000000000000000000.log") > 0

        snapshot(log, at(1, 1))

        assert logs.disk.unsynced(f"{LOG}/00000000000000000000.log") == 0

    def test_a_long_log_begins_a_new_file(self, logs: Logs, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(metadata_log, "_ROLL_AFTER_BYTES", 150)
        log = logs.open()
        append(log, 1, config_record(1))
        snapshot(log, at(1, 1))
        append(log, 1, config_record(2))

        snapshot(log, at(2, 1))

        assert "00000000000000000002.log" in logs.disk.list_directory(LOG)
        assert "00000000000000000001.log" not in logs.disk.list_directory(LOG)

    def test_control_records_come_from_the_newest_and_then_from_the_log(self, logs: Logs) -> None:
        log = logs.open()
        open_epoch(log, 1)
        snapshot(log, at(1, 1))
        append(log, 1, config_record(1))
        open_epoch(log, 2)

        leader_change = LeaderChange(NodeId(1), (NodeId(1),), (NodeId(1),))
        assert list(log.control_records()) == [(0, KRaftVersion(1)), (2, leader_change)]

    def test_leftovers_of_a_crash_go(self, logs: Logs) -> None:
        for name in ("00000000000000000007-0000000001.checkpoint.part", f"{0:020d}-{3:010d}.checkpoint.deleted"):
            logs.disk.open(f"{LOG}/{name}", create=True).close()

        log = logs.open()

        assert log.latest_snapshot_id() == FIRST
        assert not [name for name in logs.disk.list_directory(LOG) if name.endswith((".part", ".deleted"))]


class TestFetchedSnapshots:
    def fetched(self, snapshot_id: OffsetAndEpoch) -> bytes:
        head = SnapshotHead(5, (KRaftVersion(1),))
        return b"".join(build_snapshot(head, [config_record(1)], epoch=snapshot_id.epoch, timestamp_ms=1))

    def test_one_takes_the_place_of_the_log(self, logs: Logs) -> None:
        log = logs.open()
        append(log, 1, config_record(1))
        data = self.fetched(at(100, 4))
        log.write_part(at(100, 4), 0, b"rubbish")
        log.write_part(at(100, 4), 0, data[:40])
        log.write_part(at(100, 4), 40, data[40:])

        head = log.install_part(at(100, 4))

        assert head == SnapshotHead(5, (KRaftVersion(1),))
        assert log.end() == at(100, 4)
        assert log.start_offset() == 100
        assert log.epoch_before(Offset(100)) == 4
        assert log.end_of_epoch(LeaderEpoch(9)) == at(100, 4)
        assert log.earliest_snapshot_id() == log.latest_snapshot_id() == at(100, 4)
        append(log, 4, config_record(2))
        assert log.end() == at(101, 4)

    def test_one_that_is_abandoned_leaves_nothing(self, logs: Logs) -> None:
        log = logs.open()
        log.write_part(at(100, 4), 0, b"piece")

        log.abandon_part()

        assert not [name for name in logs.disk.list_directory(LOG) if name.endswith(".part")]
        with pytest.raises(RuntimeError, match="was not fetched"):
            log.install_part(at(100, 4))

    def test_another_one_takes_its_place(self, logs: Logs) -> None:
        log = logs.open()
        log.write_part(at(100, 4), 0, b"piece")
        log.write_part(at(120, 4), 0, self.fetched(at(120, 4)))

        log.install_part(at(120, 4))

        assert log.end() == at(120, 4)

    def test_a_damaged_one_is_not_installed(self, logs: Logs) -> None:
        log = logs.open()
        log.write_part(at(100, 4), 0, self.fetched(at(100, 4))[:-1])

        with pytest.raises(DamagedFileError):
            log.install_part(at(100, 4))

        assert logs.open().end() == FIRST

    def test_a_crash_before_the_log_made_way_is_made_up_for(self, logs: Logs) -> None:
        log = logs.open()
        append(log, 1, config_record(1))
        log.close()
        write_snapshot(logs.disk, f"{LOG}/{snapshot_name(at(100, 4))}", [self.fetched(at(100, 4))])

        log = logs.open()

        assert log.end() == at(100, 4)
        assert log.start_offset() == 100

    def test_a_log_that_begins_later_than_its_snapshots_is_refused(self, logs: Logs) -> None:
        log = logs.open()
        log.write_part(at(100, 4), 0, self.fetched(at(100, 4)))
        log.install_part(at(100, 4))
        log.close()
        logs.disk.remove(f"{LOG}/{snapshot_name(at(100, 4))}")

        with pytest.raises(DamagedFileError, match="begins at offset 100, and no snapshot holds what came before"):
            logs.open()


class TestRetention:
    def filled(self, logs: Logs, config: MetadataLogConfig) -> MetadataLog:
        """Snapshots at 1 to 4, a second apart; the last one is a second old."""
        log = logs.open(config)
        for number in range(4):
            logs.loop.run_until_complete(asyncio.sleep(1))
            append(log, 1, config_record(number, 1000))
            snapshot(log, at(number + 1, 1), age_ms=logs.clock.now_ms(), size=1000)
        logs.loop.run_until_complete(asyncio.sleep(1))
        return log

    def test_nothing_goes_before_its_time(self, logs: Logs) -> None:
        log = self.filled(logs, MetadataLogConfig())
        logs.disk.remove(f"{LOG}/{snapshot_name(FIRST)}")

        assert logs.open().clean() is None
        assert log.start_offset() == 0

    def test_what_is_too_old_goes_up_to_the_next_snapshot(self, logs: Logs) -> None:
        log = self.filled(logs, MetadataLogConfig(retention_ms=2500))

        assert log.clean() == 3

        assert log.earliest_snapshot_id() == at(3, 1)
        assert log.start_offset() == 3
        assert offsets(log, 3) == [(3, 4)]

    def test_what_is_too_much_goes(self, logs: Logs) -> None:
        log = self.filled(logs, MetadataLogConfig(retention_bytes=0, retention_ms=-1))

        assert log.clean() == 4

        assert log.earliest_snapshot_id() == log.latest_snapshot_id() == at(4, 1)
        assert log.end() == at(4, 1)
        log.close()
        assert logs.open().end() == at(4, 1)

    def test_files_go_with_it(self, logs: Logs, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(metadata_log, "_ROLL_AFTER_BYTES", 500)
        log = self.filled(logs, MetadataLogConfig(retention_bytes=0))

        log.clean()

        names = [name for name in logs.disk.list_directory(LOG) if name.endswith((".log", ".deleted"))]
        assert names == ["00000000000000000004.log"]

    def test_nothing_uncommitted_goes(self, logs: Logs) -> None:
        log = logs.open(MetadataLogConfig(retention_bytes=0))
        append(log, 1, config_record(1))
        append(log, 1, config_record(2))
        write_snapshot(
            logs.disk, f"{LOG}/{snapshot_name(at(2, 1))}", build_snapshot(SnapshotHead(0), (), epoch=1, timestamp_ms=0)
        )
        log.close()
        log = logs.open(MetadataLogConfig(retention_bytes=0))
        log.committed(Offset(1))

        assert log.clean() is None
        assert log.start_offset() == 0

    def test_a_follower_that_needs_what_went_is_sent_to_the_snapshot(self, logs: Logs) -> None:
        log = self.filled(logs, MetadataLogConfig(retention_bytes=0))
        log.clean()

        assert log.end_of_epoch(LeaderEpoch(0)) == at(4, 1)
        assert log.epoch_before(Offset(4)) == 1


class TestTheElection:
    def test_is_remembered(self, logs: Logs) -> None:
        log = logs.open()
        assert log.read_quorum_state() is None
        state = QuorumState(LeaderEpoch(3), leader_id=NodeId(1), data_version=1)
        saved: list[int] = []

        log.save_quorum_state(state, lambda: saved.append(1))

        assert saved == [1]
        logs.disk.crash(Random(5))
        assert logs.open().read_quorum_state() == state

    @pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe", b'{"data_version":7}'])
    def test_that_makes_no_sense_is_refused(self, logs: Logs, content: bytes) -> None:
        log = logs.open()
        logs.disk.write_bytes_atomically(f"{LOG}/quorum-state", content)

        with pytest.raises(DamagedFileError, match="quorum-state"):
            log.read_quorum_state()

    def test_that_cannot_be_read_is_no_empty_one(self, logs: Logs) -> None:
        log = logs.open()
        logs.disk.write_bytes_atomically(f"{LOG}/quorum-state", b"{}")
        logs.disk.fail(["open", "pread", "size"], "*quorum-state", errno.EIO)

        with pytest.raises(StorageError, match="EIO"):
            log.read_quorum_state()

    def test_a_disk_that_does_not_take_it_is_told(self, logs: Logs) -> None:
        log = logs.open()
        logs.disk.fail("create", "*quorum-state*", errno.ENOSPC)

        log.save_quorum_state(QuorumState(LeaderEpoch(3)), lambda: pytest.fail("it was not saved"))

        assert [fault.errno for fault in logs.faults] == [errno.ENOSPC]


class TestDamage:
    def test_a_record_of_a_newer_release_is_named(self, logs: Logs, monkeypatch: pytest.MonkeyPatch) -> None:
        log = logs.open()
        monkeypatch.setattr(metadata_log, "encode_metadata_record", lambda *_: b"\x01\x63\x00\x00")
        append(log, 1, FramedRecord(NoOpRecord(), 0))

        with pytest.raises(DamagedFileError, match=r"the batch at offset 0: .* unknown type 99"):
            list(log.batches(Offset(0), Offset(1)))

    def test_an_offset_that_is_not_there(self, logs: Logs) -> None:
        log = logs.open()

        with pytest.raises(DamagedFileError, match="offset 0 of the metadata log cannot be read"):
            list(log.batches(Offset(0), Offset(1)))

    def test_a_torn_tail_is_cut(self, logs: Logs) -> None:
        log = logs.open()
        append(log, 1, config_record(1))
        assert flush(log)
        append(log, 2, config_record(2))
        path = f"{LOG}/00000000000000000000.log"
        whole = logs.disk.size_of(path)
        log.release()
        logs.disk.open(path).truncate(whole - 3)

        log = logs.open()

        assert log.end() == at(1, 1)
        append(log, 3, config_record(3))
        assert log.end() == at(2, 3)


def test_what_a_snapshot_covers_is_not_read_again(logs: Logs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata_log, "_ROLL_AFTER_BYTES", 10)
    log = logs.open()
    append(log, 1, config_record(1))
    snapshot(log, at(1, 1))
    append(log, 1, config_record(2))
    log.close()
    logs.disk.fail(["pread", "preadv"], "*00000000000000000000.log", errno.EIO)

    log = logs.open()

    assert offsets(log, 1) == [(1, 2)]


def test_records_are_made_where_the_snapshot_is_written(logs: Logs) -> None:
    work = logs.slow_work = HeldSlowWork()
    log = logs.open()
    append(log, 1, config_record(1))
    log.committed(Offset(1))
    called: list[int] = []

    def records() -> Iterable[FramedRecord]:
        called.append(1)
        return [config_record(1)]

    nothing: Callable[[], None] = lambda: None  # noqa: E731
    log.write_snapshot(at(1, 1), SnapshotHead(0), records, nothing)
    assert called == []

    run(work)
    assert called == [1]
