"""The leader's work. The bench is node 1, elected by node 2 in epoch 1 of three voters."""

from __future__ import annotations

import pytest

from tests.simulation.raft_cluster import CLUSTER_ID, endpoint, replica_key, voter
from tests.simulation.raft_disk import SNAPSHOT_BYTES, Snapshot
from tests.unit.raft.bench import CONFIG, Bench, batch, position, state
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import LeaderEpoch, NodeId, Offset
from tidelog.raft.control_records import KRaftVersion, LeaderChange, Voters
from tidelog.raft.effects import AppendAccepted, AppendRefused, AppendToLog, LostLeadership, RespondWithRecords
from tidelog.raft.events import AppendRequested, LogFlushed, ResignRequested
from tidelog.raft.log_view import OffsetAndEpoch
from tidelog.raft.messages import (
    Batch,
    BeginQuorumEpochRequest,
    EndQuorumEpochRequest,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    VoteRequest,
    VoteResponse,
)
from tidelog.raft.voter_set import Endpoint, VoterSet

EPOCH = LeaderEpoch(1)
# A leader opens its first epoch with three records: LeaderChange, KRaftVersion, Voters.
FIRST_END = 3


def leader(voters: int = 3, *, static: bool = False) -> Bench:
    bench = Bench(voters, static=static).start()
    if voters > 1:
        bench.pass_time(CONFIG.leader_lost_jitter_ms)
        for epoch in (0, 1):
            votes = bench.sent(VoteRequest)
            for send in votes[: voters // 2]:
                bench.answer(send, VoteResponse(ErrorCode.NONE, True, LeaderEpoch(epoch)))
    assert bench.role_name == "Leader"
    return bench


def fetch(
    replica: int, log_end: OffsetAndEpoch, *, epoch: int = 1, wait_ms_max: int = 0, high_watermark: int = 0
) -> FetchRequest:
    return FetchRequest(
        replica_key(replica), LeaderEpoch(epoch), log_end, Offset(high_watermark), wait_ms_max, cluster_id=CLUSTER_ID
    )


def ask_fetch(bench: Bench, request: FetchRequest) -> FetchResponse:
    answer = bench.ask(request)
    assert isinstance(answer, FetchResponse)
    return answer


def append(bench: Bench, record_count: int = 1) -> None:
    bench.step(AppendRequested(1, bench.machine.epoch, record_count, "payload"))


class TestOpeningAnEpoch:
    def test_the_first_leader_writes_the_voters_of_the_bootstrap_checkpoint_into_the_log(self) -> None:
        bench = leader()
        everyone = VoterSet([voter(1), voter(2), voter(3)])

        assert bench.disk.batches == [
            Batch(
                Offset(0),
                Offset(3),
                EPOCH,
                (
                    LeaderChange(NodeId(1), (NodeId(1), NodeId(2), NodeId(3)), (NodeId(1), NodeId(2))),
                    KRaftVersion(1),
                    Voters(everyone),
                ),
            )
        ]

    def test_later_leaders_only_write_that_they_lead(self) -> None:
        bench = leader(1)
        bench.step(ResignRequested(EPOCH))
        bench.pass_time(5_000)

        assert bench.role_name == "Leader"
        assert [len(written.control) for written in bench.disk.batches] == [3, 1]

    def test_static_voters_stay_out_of_the_log(self) -> None:
        bench = leader(1, static=True)

        assert [len(written.control) for written in bench.disk.batches] == [1]

    def test_a_leader_that_moved_writes_its_new_endpoints(self) -> None:
        bench = Bench(1)
        local = bench.machine._quorum.local
        moved = type(local)(local.key, local.cluster_id, local.listener, (Endpoint(local.listener, "new", 1),))
        bench.machine._quorum.local = moved
        bench.start()

        assert bench.machine.voters.voters[0].endpoints == moved.endpoints

    def test_everybody_is_told(self) -> None:
        bench = leader()
        sends = bench.sent(BeginQuorumEpochRequest)

        assert [(send.to.id, send.request) for send in sends] == [
            (
                other,
                BeginQuorumEpochRequest(NodeId(1), EPOCH, (endpoint(1),), replica_key(other), CLUSTER_ID),
            )
            for other in (2, 3)
        ]

    def test_those_who_fetch_are_not_told_again(self) -> None:
        bench = leader()
        bench.sent(BeginQuorumEpochRequest)
        bench.pass_time(CONFIG.begin_epoch_interval_ms - 1)
        bench.machine._quorum.connections.reset()
        ask_fetch(bench, fetch(2, position(0, 0)))
        bench.pass_time(1)

        assert [send.to.id for send in bench.sent(BeginQuorumEpochRequest)] == [3]


class TestCommitting:
    def test_a_record_is_committed_when_a_majority_has_it(self) -> None:
        bench = leader()
        assert bench.machine.high_watermark is None
        ask_fetch(bench, fetch(2, position(FIRST_END, 1)))

        assert bench.high_watermarks() == [FIRST_END]

    def test_nothing_is_committed_before_a_record_of_the_own_epoch_is(self) -> None:
        bench = Bench(3, batches=(batch(0, 5, 1),), stored=state(1)).start()
        bench.pass_time(CONFIG.leader_lost_jitter_ms)
        for epoch in (1, 2):
            bench.answer(bench.sent(VoteRequest)[0], VoteResponse(ErrorCode.NONE, True, LeaderEpoch(epoch)))
        assert bench.role_name == "Leader"

        ask_fetch(bench, fetch(2, position(5, 1), epoch=2))
        assert bench.machine.high_watermark is None
        ask_fetch(bench, fetch(2, bench.disk.end(), epoch=2))
        assert bench.machine.high_watermark == bench.disk.end().offset

    def test_the_own_log_counts_only_when_it_is_durable(self) -> None:
        bench = leader()
        bench.is_disk_fast = False
        append(bench, 2)
        ask_fetch(bench, fetch(2, position(FIRST_END + 2, 1)))
        assert bench.high_watermarks() == [FIRST_END]

        bench.step(LogFlushed(2))
        assert bench.high_watermarks() == [FIRST_END + 2]

    def test_two_others_commit_without_the_leaders_disk(self) -> None:
        bench = leader()
        bench.is_disk_fast = False
        append(bench, 2)
        ask_fetch(bench, fetch(2, position(FIRST_END + 2, 1)))
        ask_fetch(bench, fetch(3, position(FIRST_END + 2, 1)))

        assert bench.high_watermarks() == [FIRST_END + 2]

    def test_an_observer_does_not_count(self) -> None:
        bench = leader()
        ask_fetch(bench, fetch(9, position(FIRST_END, 1)))

        assert bench.machine.high_watermark is None

    def test_a_voter_on_another_disk_does_not_count(self) -> None:
        bench = leader()
        stranger = replica_key(2, incarnation=1)
        ask_fetch(bench, FetchRequest(stranger, EPOCH, position(FIRST_END, 1)))

        assert bench.machine.high_watermark is None

    def test_a_late_fetch_does_not_take_the_high_watermark_back(self) -> None:
        bench = leader()
        ask_fetch(bench, fetch(2, position(FIRST_END, 1)))
        answer = ask_fetch(bench, fetch(2, position(0, 0)))

        assert bench.high_watermarks() == []
        assert answer.high_watermark == FIRST_END


class TestAppending:
    def test_records_get_offsets_and_leave_in_one_batch(self) -> None:
        bench = leader(1)
        bench.step(AppendRequested(7, EPOCH, 2, "payload"))

        assert bench.of_kind(AppendToLog) == [AppendToLog((batch(3, 5, 1, "payload"),))]
        assert bench.of_kind(AppendAccepted) == [AppendAccepted(7, Offset(3), Offset(5))]
        assert bench.high_watermarks() == [5]

    @pytest.mark.parametrize(("epoch", "count", "error"), [(0, 1, 6), (2, 1, 6), (1, 0, 42)])
    def test_what_belongs_to_another_epoch_is_refused(self, epoch: int, count: int, error: int) -> None:
        bench = leader(1)
        bench.step(AppendRequested(7, LeaderEpoch(epoch), count))

        assert bench.effects == [AppendRefused(7, ErrorCode.of(error))]

    def test_a_follower_refuses(self) -> None:
        bench = Bench(stored=state(3, 2)).start()
        bench.step(AppendRequested(7, LeaderEpoch(3), 1))

        assert bench.effects == [AppendRefused(7, ErrorCode.NOT_LEADER_OR_FOLLOWER)]


class TestServing:
    def test_a_follower_gets_what_follows_its_log(self) -> None:
        bench = leader()
        answer = ask_fetch(bench, fetch(2, position(0, 0)))

        assert bench.reads == [RespondWithRecords(1, answer, Offset(0), 1 << 20)]
        assert (answer.error, answer.epoch, answer.leader_id) == (ErrorCode.NONE, 1, 1)

    def test_a_fetch_at_the_end_waits_for_an_append(self) -> None:
        bench = leader()
        ask_fetch(bench, fetch(2, position(FIRST_END, 1)))
        assert bench.ask(fetch(2, position(FIRST_END, 1), wait_ms_max=500, high_watermark=FIRST_END)) is None
        waiting = bench.last_request_id

        append(bench)

        assert bench.reads[-1].request_id == waiting

    def test_a_fetch_at_the_end_waits_for_the_high_watermark(self) -> None:
        bench = leader()
        assert bench.ask(fetch(3, position(FIRST_END, 1), wait_ms_max=500, high_watermark=-1)) is not None
        assert bench.ask(fetch(3, position(FIRST_END, 1), wait_ms_max=500, high_watermark=FIRST_END)) is None
        append(bench)
        assert bench.ask(fetch(3, position(FIRST_END + 1, 1), wait_ms_max=500, high_watermark=FIRST_END)) is not None
        assert bench.ask(fetch(3, position(FIRST_END + 1, 1), wait_ms_max=500, high_watermark=FIRST_END + 1)) is None

    def test_a_fetch_does_not_wait_longer_than_it_wants(self) -> None:
        bench = leader()
        request = fetch(3, position(FIRST_END, 1), wait_ms_max=500, high_watermark=99)
        assert bench.ask(request) is None
        bench.pass_time(499)
        assert bench.last_request_id not in bench.answers
        bench.pass_time(1)

        answer = bench.answers[bench.last_request_id]
        assert isinstance(answer, FetchResponse)
        assert (answer.error, answer.batches) == (ErrorCode.NONE, ())

    def test_a_follower_that_asks_again_gets_both_answers(self) -> None:
        bench = leader()
        request = fetch(3, position(FIRST_END, 1), wait_ms_max=500, high_watermark=99)
        assert bench.ask(request) is None
        assert bench.ask(request) is None

        assert list(bench.answers) == [1]

    def test_those_who_wait_learn_that_the_leader_is_gone(self) -> None:
        bench = leader()
        assert bench.ask(fetch(3, position(FIRST_END, 1), wait_ms_max=500, high_watermark=99)) is None
        waiting = bench.last_request_id
        bench.ask(BeginQuorumEpochRequest(NodeId(2), LeaderEpoch(5), (endpoint(2),)))

        answer = bench.answers[waiting]
        assert answer == FetchResponse(ErrorCode.NOT_LEADER_OR_FOLLOWER, LeaderEpoch(5), NodeId(2), (endpoint(2),))

    def test_a_log_that_diverged_is_told_where(self) -> None:
        bench = leader()
        answer = ask_fetch(bench, fetch(2, position(9, 1), wait_ms_max=500))

        assert answer.diverging == position(FIRST_END, 1)
        assert bench.machine.high_watermark is None

    def test_an_empty_log_is_sent_to_the_snapshot(self) -> None:
        bench = leader(1)
        bench.disk.add_snapshot(Snapshot(position(FIRST_END, 1), (), ()))
        answer = ask_fetch(bench, fetch(2, position(0, 0), wait_ms_max=500))

        assert answer.snapshot_id == position(FIRST_END, 1)

    @pytest.mark.parametrize(
        ("request_", "error"),
        [
            (fetch(2, position(0, 0), epoch=0), ErrorCode.FENCED_LEADER_EPOCH),
            (fetch(2, position(0, 0), epoch=2), ErrorCode.UNKNOWN_LEADER_EPOCH),
            (fetch(2, position(0, 2)), ErrorCode.INVALID_REQUEST),
            (fetch(2, position(-1, 0)), ErrorCode.INVALID_REQUEST),
            (fetch(2, position(0, -1)), ErrorCode.INVALID_REQUEST),
            (fetch(2, position(0, 0), wait_ms_max=-1), ErrorCode.INVALID_REQUEST),
            (fetch(1, position(0, 0)), ErrorCode.INVALID_REQUEST),
        ],
    )
    def test_a_fetch_that_is_not_for_this_leader_is_refused(self, request_: FetchRequest, error: ErrorCode) -> None:
        assert ask_fetch(leader(), request_).error is error

    def test_a_fetch_of_another_cluster_learns_nothing(self) -> None:
        request = FetchRequest(replica_key(2), EPOCH, position(0, 0), cluster_id="other")

        assert ask_fetch(leader(), request) == FetchResponse(ErrorCode.INCONSISTENT_CLUSTER_ID)

    def test_a_follower_names_its_leader_to_those_who_fetch(self) -> None:
        bench = Bench(stored=state(3, 2)).start()
        answer = ask_fetch(bench, fetch(3, position(0, 0), epoch=3))

        assert answer == FetchResponse(ErrorCode.NOT_LEADER_OR_FOLLOWER, LeaderEpoch(3), NodeId(2), (endpoint(2),))

    def test_a_consumer_is_served_and_not_counted(self) -> None:
        bench = leader()
        ask_fetch(bench, FetchRequest(type(replica_key(2))(NodeId(-1)), EPOCH, position(FIRST_END, 1)))

        assert bench.machine.high_watermark is None
        description = bench.machine.describe(bench.now_ms)
        assert description is not None
        assert description.observers == ()


class TestSnapshots:
    @staticmethod
    def with_snapshot() -> Bench:
        bench = leader(1)
        bench.disk.add_snapshot(Snapshot(position(FIRST_END, 1), (), ()))
        return bench

    def test_a_piece_is_served_from_its_position(self) -> None:
        bench = self.with_snapshot()
        request = FetchSnapshotRequest(replica_key(2), EPOCH, position(FIRST_END, 1), 100, 50)
        answer = bench.ask(request)

        assert isinstance(answer, FetchSnapshotResponse)
        assert (answer.error, answer.size_bytes, answer.position) == (ErrorCode.NONE, SNAPSHOT_BYTES, 100)
        assert bench.reads[-1].bytes_max == 50

    @pytest.mark.parametrize(
        ("snapshot_id", "epoch", "at", "error"),
        [
            (position(9, 1), 1, 0, ErrorCode.SNAPSHOT_NOT_FOUND),
            (position(0, 0), 1, 0, ErrorCode.SNAPSHOT_NOT_FOUND),
            (position(FIRST_END, 1), 1, -1, ErrorCode.POSITION_OUT_OF_RANGE),
            (position(FIRST_END, 1), 1, SNAPSHOT_BYTES, ErrorCode.POSITION_OUT_OF_RANGE),
            (position(FIRST_END, 1), 0, 0, ErrorCode.FENCED_LEADER_EPOCH),
        ],
    )
    def test_what_is_not_there_is_refused(
        self, snapshot_id: OffsetAndEpoch, epoch: int, at: int, error: ErrorCode
    ) -> None:
        answer = self.with_snapshot().ask(FetchSnapshotRequest(replica_key(2), LeaderEpoch(epoch), snapshot_id, at))

        assert isinstance(answer, FetchSnapshotResponse)
        assert answer.error is error

    def test_another_cluster_gets_no_snapshot(self) -> None:
        request = FetchSnapshotRequest(replica_key(2), EPOCH, position(FIRST_END, 1), 0, cluster_id="other")

        assert self.with_snapshot().ask(request) == FetchSnapshotResponse(ErrorCode.INCONSISTENT_CLUSTER_ID)


class TestResigning:
    def test_a_leader_that_hears_from_a_majority_stays(self) -> None:
        bench = leader()
        for _ in range(5):
            bench.pass_time(CONFIG.check_quorum_timeout_ms - 10)
            ask_fetch(bench, fetch(3, position(FIRST_END, 1)))

        assert bench.role_name == "Leader"

    def test_a_leader_that_hears_from_nobody_resigns(self) -> None:
        bench = leader()
        bench.pass_time(CONFIG.check_quorum_timeout_ms - 1)
        assert bench.role_name == "Leader"
        effects = bench.pass_time(1)

        assert bench.role_name == "Resigned"
        assert LostLeadership(EPOCH) in effects

    def test_a_snapshot_fetch_is_a_sign_of_life(self) -> None:
        bench = leader()
        bench.disk.add_snapshot(Snapshot(position(FIRST_END, 1), (), ()))
        bench.pass_time(CONFIG.check_quorum_timeout_ms - 1)
        bench.ask(FetchSnapshotRequest(replica_key(2), EPOCH, position(FIRST_END, 1), 0))
        bench.pass_time(CONFIG.check_quorum_timeout_ms - 1)

        assert bench.role_name == "Leader"

    def test_observers_and_strangers_are_not(self) -> None:
        bench = leader()
        bench.pass_time(CONFIG.check_quorum_timeout_ms - 1)
        ask_fetch(bench, fetch(9, position(0, 0)))
        ask_fetch(bench, FetchRequest(replica_key(2, incarnation=1), EPOCH, position(0, 0)))
        bench.pass_time(1)

        assert bench.role_name == "Resigned"

    def test_a_leader_of_one_never_resigns_for_lack_of_company(self) -> None:
        bench = leader(1)
        bench.pass_time(100_000)

        assert bench.role_name == "Leader"

    def test_a_leader_that_resigns_proposes_the_longest_log(self) -> None:
        bench = leader()
        ask_fetch(bench, fetch(3, position(FIRST_END, 1)))
        bench.machine._quorum.connections.reset()
        bench.step(ResignRequested(EPOCH))
        send = bench.sent(EndQuorumEpochRequest)[0]

        assert isinstance(send.request, EndQuorumEpochRequest)
        assert send.request.preferred_candidates == (replica_key(3), replica_key(2))

    def test_a_request_to_resign_from_another_epoch_is_ignored(self) -> None:
        bench = leader()
        bench.step(ResignRequested(LeaderEpoch(0)))

        assert bench.role_name == "Leader"


def test_a_leader_describes_its_quorum() -> None:
    bench = leader()
    ask_fetch(bench, fetch(2, position(FIRST_END, 1)))
    ask_fetch(bench, fetch(9, position(0, 0)))
    description = bench.machine.describe(bench.now_ms)

    assert description is not None
    assert (description.leader_id, description.epoch, description.high_watermark) == (1, 1, FIRST_END)
    assert [(known.key.id, known.end_offset, known.last_fetch_ms) for known in description.voters] == [
        (1, FIRST_END, bench.now_ms),
        (2, FIRST_END, bench.now_ms),
        (3, None, None),
    ]
    assert [(known.key.id, known.end_offset) for known in description.observers] == [(9, 0)]
    assert Bench(stored=state(3, 2)).start().machine.describe(0) is None


@pytest.mark.parametrize("static", [False, True])
def test_voters_are_described_with_the_directories_that_the_voter_set_names(*, static: bool) -> None:
    bench = leader(static=static)
    ask_fetch(bench, fetch(2, position(FIRST_END if not static else 1, 1)))

    description = bench.machine.describe(bench.now_ms)

    assert description is not None
    named = [known.key.directory_id is not None for known in description.voters]
    assert named == [not static] * 3
