"""The machine as a whole: its contract with the caller."""

from __future__ import annotations

import pytest

from tests.simulation.raft_cluster import endpoint, replica_key
from tests.unit.raft.bench import CONFIG, Bench, batch, state
from tests.unit.raft.test_leading import leader
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import LeaderEpoch, NodeId, Offset
from tidelog.raft.effects import LostLeadership, Respond, SaveQuorumState, ShutdownCompleted
from tidelog.raft.errors import InvariantError
from tidelog.raft.events import (
    LogStartMoved,
    QuorumStateSaved,
    RequestReceived,
    ResponseReceived,
    ShutdownRequested,
    Start,
    Tick,
)
from tidelog.raft.messages import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    BeginQuorumEpochRequest,
    EndQuorumEpochRequest,
    EndQuorumEpochResponse,
    FetchRequest,
    FetchResponse,
)
from tidelog.raft.quorum_state import QuorumState
from tidelog.raft.voter_set import VersionRange


def test_the_first_event_is_the_start_and_no_other() -> None:
    with pytest.raises(InvariantError):
        Bench().step(Tick())
    with pytest.raises(InvariantError):
        Bench().start().step(Start())


def test_a_tick_before_the_deadline_does_nothing() -> None:
    bench = Bench(batches=(batch(0, 5, 1),), stored=state(3, 2)).start()

    assert bench.step(Tick()) == []


def test_time_that_goes_back_is_taken_as_standing_still() -> None:
    bench = Bench(stored=state(3, 2)).start()
    deadline_ms = bench.machine.deadline_ms
    bench.now_ms -= 500
    bench.step(Tick())

    assert bench.machine.deadline_ms == deadline_ms


@pytest.mark.parametrize("stored", [None, state(3), state(3, 1), state(3, 2), state(3, None, replica_key(1))])
def test_every_role_has_a_deadline_that_moves_on(stored: QuorumState | None) -> None:
    bench = Bench(stored=stored).start()

    # The bench itself fails on a deadline that does not.
    bench.pass_time(30_000)
    assert bench.machine.deadline_ms is not None


def test_an_answer_to_nothing_is_ignored() -> None:
    bench = Bench(stored=state(3, 2)).start()

    assert bench.step(ResponseReceived(99, FetchResponse(ErrorCode.NONE, LeaderEpoch(9), NodeId(3)))) == []
    assert bench.machine.epoch == 3


def test_an_answer_of_the_wrong_kind_is_of_no_use() -> None:
    bench = Bench(stored=state(3, 2)).start()
    send = bench.sent(FetchRequest)[0]
    bench.answer(send, EndQuorumEpochResponse(ErrorCode.NONE, LeaderEpoch(3), NodeId(2)))

    assert bench.role_name == "Follower"


def test_a_replica_tells_its_versions() -> None:
    assert Bench().start().ask(ApiVersionsRequest()) == ApiVersionsResponse(ErrorCode.NONE, VersionRange(0, 1))


def test_what_a_snapshot_holds_is_forgotten_but_not_the_voters() -> None:
    bench = leader(1)
    bench.step(LogStartMoved(Offset(3)))

    assert bench.machine.voters.ids == (1,)
    assert bench.machine.voters_at(Offset(2)) == bench.machine.voters
    assert bench.machine.kraft_version_at(Offset(3)) == 1


class TestShutdown:
    def test_a_follower_stops_at_once(self) -> None:
        bench = Bench(stored=state(3, 2)).start()

        assert bench.step(ShutdownRequested(1_000)) == [ShutdownCompleted(True)]
        assert bench.machine.deadline_ms is None
        assert bench.step(RequestReceived(1, ApiVersionsRequest())) == []

    def test_the_only_voter_has_nobody_to_hand_over_to(self) -> None:
        bench = leader(1)
        bench.step(ShutdownRequested(1_000))

        assert bench.effects == [LostLeadership(LeaderEpoch(1)), ShutdownCompleted(True)]

    def test_a_leader_waits_for_its_successor(self) -> None:
        bench = leader(3)
        bench.machine._quorum.connections.reset()
        bench.step(ShutdownRequested(1_000))
        assert bench.role_name == "Resigned"
        assert len(bench.sent(EndQuorumEpochRequest)) == 2

        bench.ask(BeginQuorumEpochRequest(NodeId(2), LeaderEpoch(2), (endpoint(2),)))

        assert bench.effects[-1] == ShutdownCompleted(True)
        assert bench.of_kind(Respond)

    def test_a_leader_without_successor_stops_when_its_time_is_over(self) -> None:
        bench = leader(3)
        bench.step(ShutdownRequested(1_000))

        assert ShutdownCompleted(False) in bench.pass_time(1_000)

    def test_it_does_not_stand_for_election_any_more(self) -> None:
        bench = Bench(stored=state(3)).start()
        bench.step(ShutdownRequested(10 * CONFIG.election_timeout_ms))
        bench.pass_time(5 * CONFIG.election_timeout_ms)

        assert bench.role_name == "Unattached"
        assert bench.machine.epoch == 3

    def test_a_leader_that_shuts_down_serves_nobody(self) -> None:
        bench = leader(3)
        bench.step(ShutdownRequested(1_000))
        answer = bench.ask(FetchRequest(replica_key(2), LeaderEpoch(1), bench.disk.end()))

        assert isinstance(answer, FetchResponse)
        assert answer.error is ErrorCode.NOT_LEADER_OR_FOLLOWER

    def test_what_was_decided_before_still_leaves_after_its_save(self) -> None:
        bench = leader(3)
        bench.is_disk_fast = False
        bench.step(ShutdownRequested(1_000))
        assert bench.ask(BeginQuorumEpochRequest(NodeId(2), LeaderEpoch(2), (endpoint(2),))) is None

        (save,) = bench.effects
        assert isinstance(save, SaveQuorumState)
        bench.step(QuorumStateSaved(save.save_id))

        assert bench.effects[-1] == ShutdownCompleted(True)
        assert bench.last_request_id in bench.answers
