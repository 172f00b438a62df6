"""Changes of the voters, by a leader. The bench is node 1, which leads epoch 1 alone unless said otherwise."""

from __future__ import annotations

import pytest

from tests.simulation.raft_cluster import CLUSTER_ID, LISTENER, endpoint, replica_key, voter
from tests.unit.raft.bench import CONFIG, Bench, position, state
from tests.unit.raft.test_leading import EPOCH, ask_fetch, fetch, leader
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import LeaderEpoch, NodeId
from tidelog.raft.control_records import KRaftVersion, Voters
from tidelog.raft.effects import AppendToLog, UpgradeAnswered
from tidelog.raft.events import RequestFailed, UpgradeRequested
from tidelog.raft.messages import (
    AddVoterRequest,
    AddVoterResponse,
    ApiVersionsRequest,
    ApiVersionsResponse,
    BeginQuorumEpochRequest,
    RemoveVoterRequest,
    RemoveVoterResponse,
    Response,
    UpdateVoterRequest,
    UpdateVoterResponse,
)
from tidelog.raft.voter_set import Endpoint, ReplicaKey, VersionRange, Voter, VoterSet

NEW = replica_key(2)
ADD = AddVoterRequest(NEW, (endpoint(2),), cluster_id=CLUSTER_ID)
BOTH = VersionRange(0, 1)


def alone(*, with_observer: bool = True) -> Bench:
    bench = leader(1)
    if with_observer:
        ask_fetch(bench, fetch(2, bench.disk.end()))
    return bench


def error_of(response: Response | None) -> ErrorCode:
    assert isinstance(response, AddVoterResponse | RemoveVoterResponse | UpdateVoterResponse)
    return response.error


def answer_probe(bench: Bench, versions: VersionRange | None = BOTH, error: ErrorCode = ErrorCode.NONE) -> None:
    (send,) = bench.sent(ApiVersionsRequest)
    bench.answer(send, ApiVersionsResponse(error, versions))


def pair() -> Bench:
    """Nodes 1 and 2 are voters, the change is committed."""
    bench = alone()
    bench.ask(ADD)
    answer_probe(bench)
    ask_fetch(bench, fetch(2, bench.disk.end()))
    bench.sent(BeginQuorumEpochRequest)
    assert bench.machine.voters.ids == (1, 2)
    return bench


class TestAdding:
    def test_a_caught_up_observer_becomes_a_voter_when_it_has_the_record_itself(self) -> None:
        bench = alone()
        assert bench.ask(ADD) is None
        request_id = bench.last_request_id
        answer_probe(bench)
        (written,) = bench.of_kind(AppendToLog)
        assert isinstance(written, AppendToLog)
        assert written.batches[0].control == (Voters(VoterSet([voter(1), Voter(NEW, (endpoint(2),), BOTH)])),)
        assert bench.machine.voters.ids == (1, 2)
        assert request_id not in bench.answers, "one of two voters is no majority"

        ask_fetch(bench, fetch(2, bench.disk.end()))

        assert bench.answers[request_id] == AddVoterResponse(ErrorCode.NONE)

    def test_who_does_not_want_to_wait_is_answered_when_it_is_written(self) -> None:
        bench = alone()
        bench.ask(AddVoterRequest(NEW, (endpoint(2),), ack_when_committed=False))
        answer_probe(bench)
        assert bench.answers[bench.last_request_id] == AddVoterResponse(ErrorCode.NONE)
        count = len(bench.answers)
        ask_fetch(bench, fetch(2, bench.disk.end()))

        assert len(bench.answers) == count + 1, "only the fetch was answered"

    def test_a_change_that_takes_too_long_is_answered_but_stays(self) -> None:
        bench = alone()
        bench.ask(ADD)
        request_id = bench.last_request_id
        answer_probe(bench)
        bench.pass_time(CONFIG.request_timeout_ms)

        assert error_of(bench.answers[request_id]) is ErrorCode.REQUEST_TIMED_OUT
        assert bench.machine.voters.ids == (1, 2)

    @pytest.mark.parametrize(
        ("versions", "error", "expected"),
        [
            (None, ErrorCode.NONE, ErrorCode.INVALID_REQUEST),
            (VersionRange(0, 0), ErrorCode.NONE, ErrorCode.INVALID_REQUEST),
            (BOTH, ErrorCode.UNSUPPORTED_VERSION, ErrorCode.REQUEST_TIMED_OUT),
        ],
    )
    def test_a_voter_that_does_not_support_the_version_is_not_added(
        self, versions: VersionRange | None, error: ErrorCode, expected: ErrorCode
    ) -> None:
        bench = alone()
        bench.ask(ADD)
        answer_probe(bench, versions, error)

        assert error_of(bench.answers[bench.last_request_id]) is expected
        assert bench.machine.voters.ids == (1,)

    def test_a_voter_that_has_not_caught_up_is_not_added(self) -> None:
        bench = alone(with_observer=False)
        ask_fetch(bench, fetch(2, position(0, 0)))
        bench.ask(ADD)
        answer_probe(bench)

        assert error_of(bench.answers[bench.last_request_id]) is ErrorCode.REQUEST_TIMED_OUT

    def test_a_voter_that_cannot_be_reached_is_not_added(self) -> None:
        bench = alone()
        bench.ask(ADD)
        (send,) = bench.sent(ApiVersionsRequest)
        bench.step(RequestFailed(send.request_id))

        assert error_of(bench.answers[bench.last_request_id]) is ErrorCode.REQUEST_TIMED_OUT
        assert bench.ask(ADD) is not None, "it is left alone for a while"
        bench.pass_time(CONFIG.retry_backoff_ms)
        assert bench.ask(ADD) is None

    def test_one_change_at_a_time(self) -> None:
        bench = alone()
        bench.ask(ADD)

        assert error_of(bench.ask(AddVoterRequest(replica_key(3), (endpoint(3),)))) is ErrorCode.REQUEST_TIMED_OUT
        assert error_of(bench.ask(RemoveVoterRequest(replica_key(1)))) is ErrorCode.REQUEST_TIMED_OUT

    def test_no_change_before_the_leader_has_committed_in_its_epoch(self) -> None:
        assert error_of(leader(3).ask(AddVoterRequest(replica_key(4), (endpoint(4),)))) is ErrorCode.REQUEST_TIMED_OUT

    def test_no_change_while_the_one_before_is_not_committed(self) -> None:
        bench = alone()
        bench.ask(ADD)
        answer_probe(bench)
        bench.pass_time(CONFIG.request_timeout_ms)
        ask_fetch(bench, fetch(3, bench.disk.end()))

        assert error_of(bench.ask(AddVoterRequest(replica_key(3), (endpoint(3),)))) is ErrorCode.REQUEST_TIMED_OUT

    @pytest.mark.parametrize(
        ("request_", "error"),
        [
            (AddVoterRequest(ReplicaKey(NodeId(2)), (endpoint(2),)), ErrorCode.INVALID_REQUEST),
            (AddVoterRequest(ReplicaKey(NodeId(-1), NEW.directory_id), (endpoint(2),)), ErrorCode.INVALID_REQUEST),
            (AddVoterRequest(NEW, (Endpoint("OTHER", "host", 1),)), ErrorCode.INVALID_REQUEST),
            (AddVoterRequest(replica_key(1, incarnation=1), (endpoint(1),)), ErrorCode.DUPLICATE_VOTER),
            (AddVoterRequest(NEW, (endpoint(2),), cluster_id="other"), ErrorCode.INCONSISTENT_CLUSTER_ID),
        ],
    )
    def test_what_makes_no_sense_is_refused(self, request_: AddVoterRequest, error: ErrorCode) -> None:
        assert error_of(alone().ask(request_)) is error

    def test_static_voters_do_not_change(self) -> None:
        assert error_of(leader(1, static=True).ask(ADD)) is ErrorCode.UNSUPPORTED_VERSION

    def test_only_the_leader_changes_voters(self) -> None:
        bench = Bench(stored=state(3, 2)).start()

        assert error_of(bench.ask(ADD)) is ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert error_of(bench.ask(RemoveVoterRequest(replica_key(2)))) is ErrorCode.NOT_LEADER_OR_FOLLOWER

    def test_who_waits_for_a_change_learns_that_the_leader_is_gone(self) -> None:
        bench = alone()
        bench.ask(ADD)
        request_id = bench.last_request_id
        bench.ask(BeginQuorumEpochRequest(NodeId(3), LeaderEpoch(9), (endpoint(3),)))

        assert error_of(bench.answers[request_id]) is ErrorCode.NOT_LEADER_OR_FOLLOWER


class TestRemoving:
    def test_a_voter_is_removed_when_the_rest_agrees(self) -> None:
        bench = pair()

        assert bench.ask(RemoveVoterRequest(NEW)) == RemoveVoterResponse(ErrorCode.NONE)
        assert bench.machine.voters.ids == (1,)

    def test_a_leader_that_removes_itself_leads_until_it_is_committed(self) -> None:
        bench = pair()
        assert bench.ask(RemoveVoterRequest(replica_key(1))) is None
        request_id = bench.last_request_id
        assert bench.role_name == "Leader"

        ask_fetch(bench, fetch(2, bench.disk.end()))

        assert bench.answers[request_id] == RemoveVoterResponse(ErrorCode.NONE)
        assert bench.role_name == "Resigned"
        bench.pass_time(60_000)
        assert bench.role_name == "Unattached"

    @pytest.mark.parametrize(
        ("key", "error"),
        [
            (replica_key(3), ErrorCode.VOTER_NOT_FOUND),
            (replica_key(2, incarnation=1), ErrorCode.VOTER_NOT_FOUND),
            (ReplicaKey(NodeId(2)), ErrorCode.INVALID_REQUEST),
        ],
    )
    def test_only_a_voter_can_be_removed(self, key: ReplicaKey, error: ErrorCode) -> None:
        assert error_of(pair().ask(RemoveVoterRequest(key))) is error

    def test_the_last_voter_stays(self) -> None:
        assert error_of(alone().ask(RemoveVoterRequest(replica_key(1)))) is ErrorCode.VOTER_NOT_FOUND

    def test_another_cluster_removes_nobody(self) -> None:
        request = RemoveVoterRequest(NEW, cluster_id="other")

        assert error_of(pair().ask(request)) is ErrorCode.INCONSISTENT_CLUSTER_ID


class TestUpdating:
    MOVED = (Endpoint(LISTENER, "new", 1),)

    def update(self, key: ReplicaKey = NEW, epoch: int = 1, versions: VersionRange = BOTH) -> UpdateVoterRequest:
        return UpdateVoterRequest(key, LeaderEpoch(epoch), self.MOVED, versions, CLUSTER_ID)

    def test_a_voter_that_moved_is_written_down(self) -> None:
        bench = pair()

        assert error_of(bench.ask(self.update())) is ErrorCode.NONE
        assert bench.machine.voters.endpoints_of(NodeId(2)) == self.MOVED
        assert bench.of_kind(AppendToLog)

    def test_a_voter_that_did_not_move_is_not_written_again(self) -> None:
        bench = pair()
        request = UpdateVoterRequest(NEW, EPOCH, (endpoint(2),), BOTH)

        assert error_of(bench.ask(request)) is ErrorCode.NONE
        assert not bench.of_kind(AppendToLog)

    @pytest.mark.parametrize(
        ("key", "epoch", "versions", "error"),
        [
            (replica_key(3), 1, BOTH, ErrorCode.VOTER_NOT_FOUND),
            (NEW, 0, BOTH, ErrorCode.FENCED_LEADER_EPOCH),
            (NEW, 2, BOTH, ErrorCode.UNKNOWN_LEADER_EPOCH),
            (NEW, 1, VersionRange(0, 0), ErrorCode.INVALID_REQUEST),
            (NEW, 1, VersionRange(1, 0), ErrorCode.INVALID_REQUEST),
            (ReplicaKey(NodeId(2)), 1, BOTH, ErrorCode.INVALID_REQUEST),
        ],
    )
    def test_what_makes_no_sense_is_refused(
        self, key: ReplicaKey, epoch: int, versions: VersionRange, error: ErrorCode
    ) -> None:
        assert error_of(pair().ask(self.update(key, epoch, versions))) is error

    def test_an_update_waits_for_the_change_before(self) -> None:
        bench = pair()
        bench.ask(self.update())
        ask_fetch(bench, fetch(2, position(3, 1)))

        assert error_of(bench.ask(self.update())) is ErrorCode.REQUEST_TIMED_OUT


class TestUpgrading:
    def reported(self) -> Bench:
        """Three static voters, of which all have told the leader of themselves."""
        bench = leader(3, static=True)
        ask_fetch(bench, fetch(2, bench.disk.end()))
        for other in (2, 3):
            request = UpdateVoterRequest(replica_key(other), EPOCH, (endpoint(other),), BOTH)
            assert error_of(bench.ask(request)) is ErrorCode.NONE
        return bench

    def upgrade(
        self, bench: Bench, *, version: int = 1, epoch: int = 1, validate_only: bool = False
    ) -> UpgradeAnswered:
        bench.step(UpgradeRequested(5, LeaderEpoch(epoch), version, validate_only))
        (answer,) = bench.of_kind(UpgradeAnswered)
        assert isinstance(answer, UpgradeAnswered)
        return answer

    def test_the_voters_move_into_the_log(self) -> None:
        bench = self.reported()

        assert self.upgrade(bench) == UpgradeAnswered(5, ErrorCode.NONE)
        everyone = VoterSet([voter(1), voter(2), voter(3)])
        assert bench.disk.batches[-1].control == (KRaftVersion(1), Voters(everyone))
        assert bench.machine.kraft_version == 1
        assert self.upgrade(bench) == UpgradeAnswered(5, ErrorCode.NONE)

    def test_a_trial_writes_nothing(self) -> None:
        bench = self.reported()

        assert self.upgrade(bench, validate_only=True).error is ErrorCode.NONE
        assert bench.machine.kraft_version == 0

    def test_not_before_every_voter_is_known(self) -> None:
        bench = leader(3, static=True)
        ask_fetch(bench, fetch(2, bench.disk.end()))

        assert self.upgrade(bench).error is ErrorCode.INVALID_UPDATE_VERSION

    @pytest.mark.parametrize(
        ("version", "epoch", "error"),
        [
            (0, 1, ErrorCode.NONE),
            (2, 1, ErrorCode.INVALID_UPDATE_VERSION),
            (1, 0, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        ],
    )
    def test_other_versions_and_epochs(self, version: int, epoch: int, error: ErrorCode) -> None:
        assert self.upgrade(self.reported(), version=version, epoch=epoch).error is error

    def test_there_is_no_way_back(self) -> None:
        assert self.upgrade(leader(1), version=0).error is ErrorCode.INVALID_UPDATE_VERSION
