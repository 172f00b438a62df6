"""The work of those who do not lead. The bench is node 1; node 2 leads epoch 3."""

from __future__ import annotations

import pytest

from tests.simulation.raft_cluster import endpoint, replica_key, voter
from tests.unit.raft.bench import CONFIG, Bench, batch, position, state
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import LeaderEpoch, NodeId, Offset
from tidelog.raft.config import QuorumConfig
from tidelog.raft.control_records import KRaftVersion, Voters
from tidelog.raft.effects import (
    AbandonSnapshot,
    AppendToLog,
    FlushLog,
    InstallSnapshot,
    SaveQuorumState,
    TruncateLog,
    WriteSnapshot,
)
from tidelog.raft.errors import InvariantError
from tidelog.raft.events import LogFlushed, RequestFailed, SnapshotInstalled
from tidelog.raft.messages import (
    AddVoterRequest,
    AddVoterResponse,
    Batch,
    BeginQuorumEpochRequest,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    RemoveVoterRequest,
    UpdateVoterRequest,
    UpdateVoterResponse,
)
from tidelog.raft.voter_set import Endpoint, Voter, VoterSet

EPOCH = LeaderEpoch(3)
LEADER = NodeId(2)
LOG = (batch(0, 5, 1), batch(5, 9, 2))


def follower(*, is_voter: bool = True, can_become_voter: bool = True, is_disk_fast: bool = True) -> Bench:
    bench = Bench(
        batches=LOG,
        stored=state(3, 2),
        is_voter=is_voter,
        can_become_voter=can_become_voter,
        is_disk_fast=is_disk_fast,
    ).start()
    assert bench.role_name == "Follower"
    return bench


def from_leader(**fields: object) -> FetchResponse:
    return FetchResponse(ErrorCode.NONE, EPOCH, LEADER, (endpoint(2),), **fields)  # type: ignore[arg-type]


def answer(bench: Bench, response: FetchResponse) -> None:
    bench.answer(bench.sent(FetchRequest)[-1], response)


class TestFetching:
    def test_a_fetch_tells_the_end_of_the_log_and_the_high_watermark(self) -> None:
        bench = follower()
        (send,) = bench.sent(FetchRequest)

        assert send.to.id == 2
        assert isinstance(send.request, FetchRequest)
        assert (send.request.log_end, send.request.epoch, send.request.high_watermark) == (position(9, 2), 3, -1)

    def test_records_are_appended_and_flushed_before_the_next_fetch(self) -> None:
        bench = follower(is_disk_fast=False)
        answer(bench, from_leader(batches=(batch(9, 12, 3), batch(12, 13, 3)), high_watermark=Offset(10)))
        assert bench.of_kind(AppendToLog) == [AppendToLog((batch(9, 12, 3), batch(12, 13, 3)))]
        assert bench.of_kind(FlushLog) == [FlushLog(1)]
        assert bench.high_watermarks() == [10]
        assert not bench.sent(FetchRequest)

        bench.step(LogFlushed(1))
        (send,) = bench.sent(FetchRequest)
        assert isinstance(send.request, FetchRequest)
        assert (send.request.log_end, send.request.high_watermark) == (position(13, 3), 10)

    def test_a_broker_fetches_on_without_flushing(self) -> None:
        bench = follower(is_voter=False, can_become_voter=False, is_disk_fast=False)
        answer(bench, from_leader(batches=(batch(9, 12, 3),)))

        assert not bench.of_kind(FlushLog)
        assert bench.sent(FetchRequest)

    def test_the_high_watermark_is_not_beyond_the_own_log(self) -> None:
        bench = follower()
        answer(bench, from_leader(high_watermark=Offset(50)))

        assert bench.high_watermarks() == [9]

    @pytest.mark.parametrize(
        "batches",
        [
            (batch(8, 12, 3),),
            (batch(10, 12, 3),),
            (batch(9, 9, 3),),
            (batch(9, 12, 1),),
            (batch(9, 12, 4),),
            (batch(9, 12, 3), batch(13, 14, 3)),
            (batch(9, 12, 3), batch(12, 14, 2)),
        ],
    )
    def test_records_that_do_not_continue_the_log_are_refused_as_a_whole(self, batches: tuple[Batch, ...]) -> None:
        bench = follower()
        answer(bench, from_leader(batches=batches))

        assert not bench.of_kind(AppendToLog)
        assert bench.disk.end() == position(9, 2)

    def test_voters_in_the_log_hold_at_once_and_only_as_long_as_they_are_there(self) -> None:
        bench = follower()
        four = VoterSet([voter(1), voter(2), voter(3), voter(4)])
        records = Batch(Offset(9), Offset(10), EPOCH, (Voters(four),), "voters")
        answer(bench, from_leader(batches=(records,)))
        assert bench.machine.voters == four
        assert bench.machine.voters_at(Offset(9)) == four

        bench.ask(BeginQuorumEpochRequest(NodeId(3), LeaderEpoch(4), (endpoint(3),)))
        bench.answer(
            bench.sent(FetchRequest)[-1],
            FetchResponse(ErrorCode.NONE, LeaderEpoch(4), NodeId(3), (endpoint(3),), diverging=position(9, 2)),
        )
        assert bench.machine.voters.ids == (1, 2, 3)

    def test_the_leader_is_not_flooded_with_fetches(self) -> None:
        bench = follower()
        bench.sent(FetchRequest)
        bench.pass_time(CONFIG.request_timeout_ms - 1)

        assert not bench.sent(FetchRequest)

    def test_a_failed_fetch_is_tried_elsewhere_while_the_leader_is_left_alone(self) -> None:
        bench = follower()
        bench.step(RequestFailed(bench.sent(FetchRequest)[0].request_id))

        assert [send.to.id for send in bench.sent(FetchRequest)] == [3]

    def test_an_answer_renews_the_patience_and_silence_ends_it(self) -> None:
        bench = follower()
        bench.pass_time(CONFIG.fetch_timeout_ms - 1)
        answer(bench, from_leader())
        bench.pass_time(CONFIG.fetch_timeout_ms - 1)
        assert bench.role_name == "Follower"
        bench.pass_time(1 + CONFIG.leader_lost_jitter_ms)

        assert bench.role_name == "Prospective"

    def test_an_answer_that_names_a_newer_leader_is_followed(self) -> None:
        bench = follower()
        answer(bench, FetchResponse(ErrorCode.FENCED_LEADER_EPOCH, LeaderEpoch(5), NodeId(3), (endpoint(3),)))

        assert bench.of_kind(SaveQuorumState) == [SaveQuorumState(1, state(5, 3))]
        assert bench.sent(FetchRequest)[-1].to.id == 3

    def test_an_answer_without_news_is_not_repeated_at_once(self) -> None:
        bench = follower()
        answer(bench, FetchResponse(ErrorCode.NOT_LEADER_OR_FOLLOWER, EPOCH, LEADER, (endpoint(2),)))

        assert [send.to.id for send in bench.sent(FetchRequest)] == [3]

    def test_an_observer_finds_the_leader_and_its_records_in_one_fetch(self) -> None:
        bench = Bench(batches=LOG, stored=state(3), is_voter=False).start()
        answer(bench, from_leader(batches=(batch(9, 12, 3),)))

        assert bench.role_name == "Follower"
        assert bench.disk.end() == position(12, 3)

    def test_an_answer_of_another_epoch_is_not_appended(self) -> None:
        bench = follower()
        answer(bench, FetchResponse(ErrorCode.NONE, LeaderEpoch(2), LEADER, (endpoint(2),), batches=(batch(9, 12, 2),)))

        assert bench.disk.end() == position(9, 2)


class TestTruncating:
    @pytest.mark.parametrize(("diverging", "end"), [((7, 2), 7), ((5, 1), 5), ((0, 0), 0)])
    def test_a_log_that_diverged_is_cut_and_fetched_on(self, diverging: tuple[int, int], end: int) -> None:
        bench = Bench(batches=(batch(0, 5, 1), batch(5, 7, 2), batch(7, 9, 2)), stored=state(3, 2)).start()
        answer(bench, from_leader(diverging=position(*diverging)))

        assert bench.of_kind(TruncateLog) == [TruncateLog(Offset(end))]
        (send,) = bench.sent(FetchRequest)
        assert isinstance(send.request, FetchRequest)
        assert send.request.log_end == bench.disk.end()

    def test_a_cut_below_what_is_committed_stops_the_node(self) -> None:
        bench = follower()
        answer(bench, from_leader(high_watermark=Offset(9)))

        with pytest.raises(InvariantError, match="committed 9"):
            answer(bench, from_leader(diverging=position(5, 1)))

    @pytest.mark.parametrize("diverging", [(9, 2), (-1, 2), (3, -1)])
    def test_a_cut_that_cuts_nothing_is_refused(self, diverging: tuple[int, int]) -> None:
        bench = follower()
        answer(bench, from_leader(diverging=position(*diverging)))

        assert not bench.of_kind(TruncateLog)


class TestSnapshots:
    ID = position(40, 3)

    def piece(self, at: int, data: bytes, size_bytes: int = 6) -> FetchSnapshotResponse:
        return FetchSnapshotResponse(ErrorCode.NONE, EPOCH, LEADER, (endpoint(2),), self.ID, size_bytes, at, data)

    def downloading(self) -> Bench:
        bench = follower()
        answer(bench, from_leader(snapshot_id=self.ID))
        return bench

    def give(self, bench: Bench, response: FetchSnapshotResponse) -> None:
        (send,) = bench.sent(FetchSnapshotRequest)
        bench.answer(send, response)

    def test_a_snapshot_is_fetched_piece_by_piece_and_installed(self) -> None:
        bench = self.downloading()
        self.give(bench, self.piece(0, b"abcd"))
        assert bench.of_kind(WriteSnapshot) == [WriteSnapshot(self.ID, 0, b"abcd")]
        self.give(bench, self.piece(4, b"ef"))
        assert bench.effects[-2:] == [WriteSnapshot(self.ID, 4, b"ef"), InstallSnapshot(self.ID)]
        assert not bench.sent(FetchRequest)

        two = VoterSet([voter(1), voter(2)])
        bench.step(SnapshotInstalled(self.ID, (KRaftVersion(1), Voters(two))))

        assert bench.high_watermarks() == [40]
        assert bench.machine.voters == two
        (send,) = bench.sent(FetchRequest)
        assert isinstance(send.request, FetchRequest)
        assert send.request.log_end == self.ID

    def test_no_election_while_a_snapshot_is_installed(self) -> None:
        bench = self.downloading()
        self.give(bench, self.piece(0, b"abcdef"))
        bench.pass_time(60_000)
        assert bench.role_name == "Follower"

        bench.step(SnapshotInstalled(self.ID, (KRaftVersion(1), Voters(VoterSet([voter(1), voter(2)])))))

        assert bench.role_name == "Prospective"

    def test_a_snapshot_that_the_leader_no_longer_has_is_given_up(self) -> None:
        bench = self.downloading()
        self.give(bench, FetchSnapshotResponse(ErrorCode.SNAPSHOT_NOT_FOUND, EPOCH, LEADER, (endpoint(2),)))

        assert bench.of_kind(AbandonSnapshot) == [AbandonSnapshot(self.ID)]
        assert bench.sent(FetchRequest)

    @pytest.mark.parametrize(
        ("at", "data", "size_bytes"),
        [(1, b"abc", 6), (0, b"", 6), (0, b"abcdefg", 6)],
        ids=["gap", "empty", "too-long"],
    )
    def test_a_piece_that_does_not_fit_starts_it_over(self, at: int, data: bytes, size_bytes: int) -> None:
        bench = self.downloading()
        self.give(bench, self.piece(at, data, size_bytes))

        assert bench.of_kind(AbandonSnapshot) == [AbandonSnapshot(self.ID)]
        assert not bench.of_kind(WriteSnapshot)

    def test_a_new_leader_ends_a_download(self) -> None:
        bench = self.downloading()
        bench.ask(BeginQuorumEpochRequest(NodeId(3), LeaderEpoch(4), (endpoint(3),)))

        assert bench.of_kind(AbandonSnapshot) == [AbandonSnapshot(self.ID)]

    def test_a_snapshot_below_what_is_committed_stops_the_node(self) -> None:
        bench = follower()
        answer(bench, from_leader(high_watermark=Offset(9)))

        with pytest.raises(InvariantError, match="below the committed"):
            answer(bench, from_leader(snapshot_id=position(8, 2)))

    def test_a_snapshot_that_was_not_ordered_stops_the_node(self) -> None:
        with pytest.raises(InvariantError, match="reported installed"):
            follower().step(SnapshotInstalled(self.ID, ()))


class TestPlaceAmongTheVoters:
    def moved(self, bench: Bench) -> Voter:
        local = bench.machine._quorum.local
        endpoints = (Endpoint(local.listener, "new", 1),)
        bench.machine._quorum.local = type(local)(local.key, local.cluster_id, local.listener, endpoints)
        return bench.machine._quorum.local.voter

    def test_a_voter_that_moved_tells_its_leader(self) -> None:
        bench = follower()
        moved = self.moved(bench)
        bench.pass_time(CONFIG.fetch_timeout_ms - 1)
        answer(bench, from_leader())
        bench.pass_time(1)
        assert not bench.sent(UpdateVoterRequest), "one request at a time"
        answer(bench, from_leader())

        (send,) = bench.sent(UpdateVoterRequest)
        assert isinstance(send.request, UpdateVoterRequest)
        assert send.request.endpoints == moved.endpoints
        bench.answer(send, UpdateVoterResponse(ErrorCode.NONE, EPOCH, LEADER, (endpoint(2),)))
        assert bench.sent(FetchRequest)

    def test_a_voter_that_stayed_has_nothing_to_tell(self) -> None:
        bench = follower()
        bench.pass_time(CONFIG.fetch_timeout_ms - 1)
        answer(bench, from_leader())
        bench.pass_time(1_500)

        assert not bench.sent(UpdateVoterRequest)

    def test_a_static_voter_tells_each_leader_once(self) -> None:
        bench = Bench(batches=LOG, stored=state(3, 2), static=True).start()
        bench.pass_time(CONFIG.fetch_timeout_ms - 1)
        answer(bench, from_leader())
        bench.pass_time(1)
        answer(bench, from_leader())
        (send,) = bench.sent(UpdateVoterRequest)
        bench.answer(send, UpdateVoterResponse(ErrorCode.UNSUPPORTED_VERSION, EPOCH, LEADER, (endpoint(2),)))
        for _ in range(5):
            answer(bench, from_leader())
            bench.pass_time(1_000)

        assert not bench.sent(UpdateVoterRequest)

    def observer(self, *, former: bool) -> Bench:
        config = QuorumConfig(auto_join_enable=True)
        bench = Bench(batches=LOG, stored=state(3, 2), is_voter=False, config=config)
        if former:
            voters = VoterSet([Voter(replica_key(1, incarnation=5), ()), voter(2), voter(3)])
            bench.machine._quorum.control.apply(Offset(8), Voters(voters))
        bench.start()
        bench.pass_time(CONFIG.fetch_timeout_ms - 1)
        answer(bench, from_leader())
        bench.pass_time(1)
        return bench

    def test_an_observer_that_may_join_asks_to(self) -> None:
        bench = self.observer(former=False)
        answer(bench, from_leader())
        (send,) = bench.sent(AddVoterRequest)

        assert send.request == AddVoterRequest(replica_key(1), (endpoint(1),), False, "simulated")
        bench.answer(send, AddVoterResponse(ErrorCode.REQUEST_TIMED_OUT))
        assert bench.role_name == "Follower"

    def test_an_observer_with_a_new_disk_first_removes_what_it_was(self) -> None:
        bench = self.observer(former=True)
        answer(bench, from_leader())
        (send,) = bench.sent(RemoveVoterRequest)

        assert send.request == RemoveVoterRequest(replica_key(1, incarnation=5), "simulated")
