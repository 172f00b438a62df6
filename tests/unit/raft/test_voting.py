"""Elections, transition by transition. The bench is node 1 of three voters."""

from __future__ import annotations

import pytest

from tests.simulation.raft_cluster import CLUSTER_ID, endpoint, replica_key
from tests.unit.raft.bench import CONFIG, FETCH_TIMEOUT_MS_MAX, Bench, batch, position, state
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import LeaderEpoch, NodeId, Offset
from tidelog.raft.effects import BecameLeader, LeaderChanged, LostLeadership, Respond, SaveQuorumState, Send
from tidelog.raft.events import ConnectionRefused, LogFlushed, QuorumStateSaved, Tick
from tidelog.raft.log_view import OffsetAndEpoch
from tidelog.raft.messages import (
    EPOCH_MAX,
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    EndQuorumEpochRequest,
    EndQuorumEpochResponse,
    FetchRequest,
    FetchResponse,
    VoteRequest,
    VoteResponse,
)
from tidelog.raft.quorum_state import QuorumState
from tidelog.raft.roles import Follower, Unattached
from tidelog.raft.voter_set import ReplicaKey

SHORT = (batch(0, 5, 1),)
NODE_2, NODE_3 = NodeId(2), NodeId(3)


def vote_request(
    epoch: int, log_end: OffsetAndEpoch | None = None, *, pre_vote: bool = False, candidate: int = 2, **fields: str
) -> VoteRequest:
    end = position(5, 1) if log_end is None else log_end
    return VoteRequest(
        replica_key(candidate), LeaderEpoch(epoch), end, pre_vote, replica_key(1), fields.get("cluster_id", CLUSTER_ID)
    )


def begin_epoch(epoch: int, leader: int = 2) -> BeginQuorumEpochRequest:
    return BeginQuorumEpochRequest(NodeId(leader), LeaderEpoch(epoch), (endpoint(leader),), replica_key(1), CLUSTER_ID)


def granted(bench: Bench, request: VoteRequest) -> bool:
    answer = bench.ask(request)
    assert isinstance(answer, VoteResponse)
    assert answer.error is ErrorCode.NONE
    return answer.granted


def follower(epoch: int = 3, leader: int = 2, *, has_fetched: bool = False, voters: int = 3) -> Bench:
    bench = Bench(voters, batches=SHORT, stored=state(epoch, leader)).start()
    assert bench.role_name == "Follower"
    if has_fetched:
        answer_fetch(bench)
    return bench


def answer_fetch(bench: Bench) -> None:
    """The leader answers a fetch with nothing new."""
    send = bench.sent(FetchRequest)[-1]
    epoch, leader = bench.machine.epoch, bench.machine.leader_id
    bench.answer(send, FetchResponse(ErrorCode.NONE, epoch, leader, (endpoint(leader or 0),), Offset(0)))


def prospective() -> Bench:
    bench = Bench(batches=SHORT, stored=state(3)).start()
    bench.pass_time(CONFIG.leader_lost_jitter_ms)
    assert bench.role_name == "Prospective"
    return bench


class TestStart:
    def test_without_a_file_the_first_epoch_is_0(self) -> None:
        bench = Bench().start()

        assert bench.effects[:2] == [SaveQuorumState(1, state(0)), LeaderChanged(None, LeaderEpoch(0))]
        assert bench.role_name == "Unattached"

    def test_a_file_that_is_older_than_the_log_is_void(self) -> None:
        bench = Bench(batches=(batch(0, 5, 7),), stored=state(6, None, replica_key(2))).start()

        assert bench.effects[0] == SaveQuorumState(1, state(7))

    def test_a_former_leader_starts_as_resigned_and_votes_for_nobody(self) -> None:
        bench = Bench(batches=SHORT, stored=state(3, 1)).start()

        assert bench.role_name == "Resigned"
        assert not granted(bench, vote_request(3))
        assert granted(bench, vote_request(3, pre_vote=True))

    def test_a_former_candidate_goes_on_in_its_epoch(self) -> None:
        bench = Bench(batches=SHORT, stored=state(3, None, replica_key(1))).start()

        assert bench.role_name == "Candidate"
        assert bench.machine.epoch == 3
        assert {send.to.id for send in bench.sent(VoteRequest)} == {2, 3}

    def test_a_former_follower_fetches_from_its_leader(self) -> None:
        bench = follower()

        assert bench.sent(FetchRequest)[0].to.id == 2
        assert not bench.of_kind(SaveQuorumState)

    def test_a_leader_without_an_address_is_remembered_by_name(self) -> None:
        bench = Bench(batches=SHORT, stored=state(3, 9)).start()

        assert bench.role_name == "Unattached"
        assert bench.machine.leader_id == 9
        assert not granted(bench, vote_request(3))

    def test_a_vote_survives_a_restart(self) -> None:
        bench = Bench(batches=SHORT, stored=state(3, None, replica_key(2))).start()

        assert granted(bench, vote_request(3, candidate=2))
        assert not granted(bench, vote_request(3, candidate=3))

    @pytest.mark.parametrize("stored", [None, state(3), state(3, 1), state(3, None, replica_key(1)), state(3, 2)])
    def test_the_only_voter_leads_at_once(self, stored: QuorumState | None) -> None:
        bench = Bench(1, stored=stored).start()

        assert bench.role_name == "Leader"
        assert bench.high_watermarks() == [3]


class TestGrantingVotes:
    def test_an_answer_waits_for_the_vote_to_be_saved(self) -> None:
        bench = Bench(batches=SHORT, stored=state(3), is_disk_fast=False).start()
        assert bench.ask(vote_request(4)) is None
        (first,) = bench.of_kind(SaveQuorumState)
        assert first == SaveQuorumState(1, state(4))

        effects = bench.step(QuorumStateSaved(1))
        assert effects == [LeaderChanged(None, LeaderEpoch(4)), SaveQuorumState(2, state(4, None, replica_key(2)))]
        assert bench.answers == {}

        bench.step(QuorumStateSaved(2))
        assert bench.answers[1] == VoteResponse(ErrorCode.NONE, True, LeaderEpoch(4))

    def test_one_vote_an_epoch(self) -> None:
        bench = Bench(batches=SHORT, stored=state(3)).start()

        assert granted(bench, vote_request(4, candidate=2))
        assert not granted(bench, vote_request(4, candidate=3))
        assert granted(bench, vote_request(4, candidate=2))
        assert granted(bench, vote_request(5, candidate=3))

    @pytest.mark.parametrize(
        ("log_end", "is_granted"),
        [
            (position(5, 1), True),
            (position(6, 1), True),
            (position(4, 2), True),
            (position(4, 1), False),
            (position(9, 0), False),
        ],
    )
    def test_only_a_log_that_is_up_to_date_gets_a_vote(self, log_end: OffsetAndEpoch, is_granted: bool) -> None:
        bench = Bench(batches=SHORT, stored=state(3)).start()

        assert granted(bench, vote_request(4, log_end, pre_vote=True)) == is_granted
        assert granted(bench, vote_request(4, log_end)) == is_granted

    def test_what_is_not_durable_does_not_count_against_a_candidate(self) -> None:
        bench = follower()
        bench.is_disk_fast = False
        send = bench.sent(FetchRequest)[-1]
        bench.answer(
            send, FetchResponse(ErrorCode.NONE, LeaderEpoch(3), NODE_2, (endpoint(2),), batches=(batch(5, 9, 3),))
        )
        assert not bench.sent(FetchRequest), "an acknowledgement before the flush"

        bench.ask(vote_request(4, candidate=3))
        bench.step(QuorumStateSaved(1))
        bench.step(QuorumStateSaved(2))
        assert bench.answers[1] == VoteResponse(ErrorCode.NONE, True, LeaderEpoch(4))

        bench.step(LogFlushed(1))
        bench.ask(vote_request(5, candidate=3))
        bench.step(QuorumStateSaved(3))
        assert bench.answers[2] == VoteResponse(ErrorCode.NONE, False, LeaderEpoch(5))

    def test_an_old_epoch_is_fenced(self) -> None:
        bench = follower(epoch=3)

        answer = bench.ask(vote_request(2))

        assert answer == VoteResponse(ErrorCode.FENCED_LEADER_EPOCH, False, LeaderEpoch(3), NODE_2, (endpoint(2),))

    def test_a_request_for_another_replica_moves_the_epoch_but_gets_no_vote(self) -> None:
        bench = Bench(batches=SHORT, stored=state(3)).start()
        request = VoteRequest(replica_key(2), LeaderEpoch(4), position(5, 1), False, replica_key(1, incarnation=1))

        assert bench.ask(request) == VoteResponse(ErrorCode.INVALID_VOTER_KEY, False, LeaderEpoch(4))

    def test_another_cluster_is_told_so_and_nothing_else(self) -> None:
        bench = follower()

        assert bench.ask(vote_request(9, cluster_id="other")) == VoteResponse(ErrorCode.INCONSISTENT_CLUSTER_ID)
        assert bench.machine.epoch == 3

    @pytest.mark.parametrize(
        "request_",
        [
            vote_request(4, position(-1, 1)),
            vote_request(4, position(5, -1)),
            vote_request(4, position(5, 4)),
            vote_request(4, position(5, 5), pre_vote=True),
            VoteRequest(ReplicaKey(NodeId(-1)), LeaderEpoch(4), position(5, 1), pre_vote=False),
        ],
    )
    def test_a_request_that_makes_no_sense_changes_nothing(self, request_: VoteRequest) -> None:
        bench = follower()
        answer = bench.ask(request_)

        assert isinstance(answer, VoteResponse)
        assert answer.error is ErrorCode.INVALID_REQUEST
        assert bench.machine.epoch == 3

    def test_a_follower_that_hears_its_leader_grants_no_pre_vote(self) -> None:
        assert granted(follower(), vote_request(3, pre_vote=True))
        assert not granted(follower(has_fetched=True), vote_request(3, pre_vote=True))

    def test_a_follower_gives_no_vote_in_its_leaders_epoch(self) -> None:
        assert not granted(follower(), vote_request(3, candidate=3))

    def test_a_pre_vote_binds_nobody(self) -> None:
        bench = prospective()

        assert granted(bench, vote_request(3, pre_vote=True, candidate=2))
        assert granted(bench, vote_request(3, pre_vote=True, candidate=3))
        assert not bench.of_kind(SaveQuorumState)

    def test_a_prospective_may_still_vote_in_its_epoch_once(self) -> None:
        bench = prospective()

        assert granted(bench, vote_request(3, candidate=3))
        assert bench.of_kind(SaveQuorumState) == [SaveQuorumState(1, state(3, None, replica_key(3)))]
        assert not granted(bench, vote_request(3, candidate=2))
        assert bench.role_name == "Prospective"

    def test_a_candidate_votes_for_nobody_else(self) -> None:
        bench = Bench(batches=SHORT, stored=state(3, None, replica_key(1))).start()

        assert not granted(bench, vote_request(3))
        assert granted(bench, vote_request(3, pre_vote=True))

    def test_an_observer_votes_too_since_the_candidate_may_know_better(self) -> None:
        bench = Bench(batches=SHORT, stored=state(3), is_voter=False).start()

        assert granted(bench, vote_request(4))


class TestStanding:
    def test_a_voter_without_a_leader_asks_before_it_stands(self) -> None:
        bench = prospective()
        votes = bench.sent(VoteRequest)

        assert {send.to.id for send in votes} == {2, 3}
        assert all(isinstance(send.request, VoteRequest) and send.request.pre_vote for send in votes)
        assert bench.machine.epoch == 3

    def test_a_majority_of_pre_votes_makes_a_candidate_and_of_votes_a_leader(self) -> None:
        bench = prospective()
        bench.answer(bench.sent(VoteRequest)[0], VoteResponse(ErrorCode.NONE, True, LeaderEpoch(3)))
        assert bench.role_name == "Candidate"
        assert bench.of_kind(SaveQuorumState) == [SaveQuorumState(1, state(4, None, replica_key(1)))]
        vote = bench.sent(VoteRequest)[0]
        assert isinstance(vote.request, VoteRequest)
        assert (vote.request.epoch, vote.request.pre_vote, vote.request.log_end) == (4, False, position(5, 1))

        bench.answer(vote, VoteResponse(ErrorCode.NONE, True, LeaderEpoch(4)))

        assert bench.role_name == "Leader"
        assert bench.of_kind(BecameLeader) == [BecameLeader(LeaderEpoch(4), Offset(5))]
        assert bench.effects[0] == SaveQuorumState(2, state(4, 1))

    def test_no_vote_is_asked_for_before_the_own_one_is_saved(self) -> None:
        bench = prospective()
        bench.is_disk_fast = False
        bench.answer(bench.sent(VoteRequest)[0], VoteResponse(ErrorCode.NONE, True, LeaderEpoch(3)))
        assert bench.effects == [SaveQuorumState(1, state(4, None, replica_key(1)))]
        assert bench.machine.held_effects > 0

        bench.step(QuorumStateSaved(1))
        assert len(bench.sent(VoteRequest)) == 2

    def test_leadership_is_not_announced_before_it_is_saved(self) -> None:
        bench = Bench(1, is_disk_fast=False).start()
        for save_id in (1, 2):
            assert not bench.of_kind(BecameLeader)
            bench.step(QuorumStateSaved(save_id))
        assert not bench.of_kind(BecameLeader)

        bench.step(QuorumStateSaved(3))
        assert bench.of_kind(BecameLeader)
        assert bench.high_watermarks() == []

        bench.step(LogFlushed(1))
        assert bench.high_watermarks() == [3]

    def test_two_refusals_send_a_prospective_back(self) -> None:
        bench = prospective()
        for send in bench.sent(VoteRequest):
            bench.answer(send, VoteResponse(ErrorCode.NONE, False, LeaderEpoch(3)))

        assert bench.role_name == "Unattached"
        assert bench.machine.epoch == 3

    def test_a_prospective_that_loses_goes_back_to_the_leader_it_had(self) -> None:
        bench = follower(has_fetched=True)
        bench.pass_time(FETCH_TIMEOUT_MS_MAX)
        assert bench.role_name == "Prospective"
        for send in bench.sent(VoteRequest):
            bench.answer(send, VoteResponse(ErrorCode.NONE, False, LeaderEpoch(3), NODE_2, (endpoint(2),)))

        assert bench.role_name == "Follower"
        assert bench.machine.leader_id == 2
        assert not bench.of_kind(SaveQuorumState)

    def test_a_prospective_that_hears_nothing_stays_in_its_epoch_and_goes_on_asking(self) -> None:
        bench = prospective()
        bench.sent(VoteRequest)
        bench.pass_time(10 * CONFIG.election_timeout_ms)

        assert bench.machine.epoch == 3
        assert bench.sent(VoteRequest)

    def test_a_voter_that_knows_no_pre_votes_is_no_obstacle(self) -> None:
        bench = prospective()
        bench.answer(bench.sent(VoteRequest)[0], VoteResponse(ErrorCode.UNSUPPORTED_VERSION))

        assert bench.role_name == "Candidate"

    def test_a_candidate_that_lost_asks_again_after_a_random_pause(self) -> None:
        bench = Bench(batches=SHORT, stored=state(3, None, replica_key(1))).start()
        for send in bench.sent(VoteRequest):
            bench.answer(send, VoteResponse(ErrorCode.NONE, False, LeaderEpoch(3)))
        assert bench.role_name == "Candidate"

        bench.pass_time(CONFIG.election_backoff_max_ms)

        assert bench.machine.epoch == 3
        assert bench.role_name != "Candidate"

    def test_an_answer_to_an_earlier_question_counts_for_nothing(self) -> None:
        bench = prospective()
        early = bench.sent(VoteRequest)
        bench.answer(early[0], VoteResponse(ErrorCode.NONE, True, LeaderEpoch(3)))
        bench.answer(early[1], VoteResponse(ErrorCode.NONE, True, LeaderEpoch(4)))

        assert bench.role_name == "Candidate"

    def test_a_higher_epoch_ends_a_candidacy(self) -> None:
        bench = Bench(batches=SHORT, stored=state(3, None, replica_key(1))).start()
        bench.answer(bench.sent(VoteRequest)[0], VoteResponse(ErrorCode.FENCED_LEADER_EPOCH, False, LeaderEpoch(8)))

        assert bench.machine.epoch == 8
        assert bench.role_name == "Unattached"

    def test_higher_epochs_do_not_put_off_the_own_election_for_ever(self) -> None:
        bench = Bench(batches=SHORT, stored=state(3)).start()
        role = bench.machine.role
        assert isinstance(role, Unattached)
        deadline_ms = role.election_deadline_ms
        bench.ask(vote_request(9, position(0, 0)))

        assert isinstance(bench.machine.role, Unattached)
        assert bench.machine.role.election_deadline_ms == deadline_ms

    def test_an_observer_never_stands(self) -> None:
        bench = Bench(batches=SHORT, stored=state(3, 2), is_voter=False).start()
        effects = bench.pass_time(60_000)

        assert bench.role_name == "Follower"
        assert all(isinstance(effect, Send) for effect in effects)
        assert bench.sent(FetchRequest)


class TestLeaderGone:
    def test_a_voter_that_finds_the_port_closed_stands_within_the_jitter(self) -> None:
        bench = follower(has_fetched=True)
        bench.step(ConnectionRefused(NODE_2))
        bench.pass_time(CONFIG.leader_lost_jitter_ms)

        assert bench.role_name == "Prospective"

    def test_it_counts_as_not_having_heard_from_the_leader(self) -> None:
        bench = follower(has_fetched=True)
        assert not granted(bench, vote_request(3, pre_vote=True, candidate=3))
        bench.step(ConnectionRefused(NODE_2))

        assert granted(bench, vote_request(3, pre_vote=True, candidate=3))

    def test_it_lets_one_that_asks_first_go_first(self) -> None:
        bench = follower(has_fetched=True)
        bench.step(ConnectionRefused(NODE_2))
        role = bench.machine.role
        assert isinstance(role, Follower)
        deadline_ms = role.fetch_deadline_ms
        for _ in range(2):
            assert granted(bench, vote_request(3, pre_vote=True, candidate=3))

        assert role.fetch_deadline_ms == deadline_ms + CONFIG.leader_lost_jitter_ms

    def test_somebody_elses_port_is_no_reason(self) -> None:
        bench = follower(has_fetched=True)
        bench.step(ConnectionRefused(NODE_3))
        bench.pass_time(CONFIG.leader_lost_jitter_ms)

        assert bench.role_name == "Follower"

    def test_a_prospective_does_not_wait_for_who_is_gone(self) -> None:
        bench = follower(has_fetched=True)
        bench.pass_time(FETCH_TIMEOUT_MS_MAX)
        to_3 = next(send for send in bench.sent(VoteRequest) if send.to.id == 3)
        bench.answer(to_3, VoteResponse(ErrorCode.NONE, False, LeaderEpoch(3)))
        assert bench.role_name == "Prospective"

        bench.step(ConnectionRefused(NODE_2))

        assert bench.role_name == "Follower"

    def test_an_observer_asks_others(self) -> None:
        bench = Bench(batches=SHORT, stored=state(3, 2), is_voter=False).start()
        bench.sent(FetchRequest)
        bench.step(ConnectionRefused(NODE_2))

        assert [send.to.id for send in bench.sent(FetchRequest)] == [3]


class TestTheLastEpoch:
    # The largest that the wire can carry, which has no successor.
    BEYOND = 0x7FFFFFFF

    @pytest.mark.parametrize("pre_vote", [False, True])
    def test_a_vote_beyond_it_is_refused(self, pre_vote: bool) -> None:
        bench = Bench(batches=SHORT, stored=state(3)).start()
        request = VoteRequest(replica_key(99), LeaderEpoch(self.BEYOND), position(5, 1), pre_vote)

        answer = bench.ask(request)

        assert answer == VoteResponse(ErrorCode.INVALID_REQUEST, epoch=LeaderEpoch(3))
        assert not bench.of_kind(SaveQuorumState)

    def test_announcements_beyond_it_are_refused(self) -> None:
        bench = follower(epoch=3, leader=2)
        begun = bench.ask(begin_epoch(self.BEYOND))
        ended = bench.ask(EndQuorumEpochRequest(NODE_2, LeaderEpoch(self.BEYOND), (), (endpoint(2),), CLUSTER_ID))

        known = (ErrorCode.INVALID_REQUEST, LeaderEpoch(3), NODE_2, (endpoint(2),))
        assert begun == BeginQuorumEpochResponse(*known)
        assert ended == EndQuorumEpochResponse(*known)
        assert (bench.role_name, bench.machine.epoch) == ("Follower", 3)

    def test_an_answer_beyond_it_is_not_believed(self) -> None:
        bench = follower(epoch=3, leader=2)
        send = bench.sent(FetchRequest)[-1]

        bench.answer(
            send,
            FetchResponse(ErrorCode.FENCED_LEADER_EPOCH, LeaderEpoch(self.BEYOND), NODE_3, (endpoint(3),), Offset(0)),
        )

        assert (bench.machine.epoch, bench.machine.leader_id) == (3, 2)

    @pytest.mark.parametrize(
        ("stored", "role"),
        [
            (state(EPOCH_MAX), "Unattached"),
            (state(EPOCH_MAX, 2), "Follower"),
            (state(EPOCH_MAX, 1), "Resigned"),
            (state(EPOCH_MAX, None, replica_key(1)), "Candidate"),
            (state(0x7FFFFFFF), "Unattached"),
        ],
    )
    def test_no_election_follows_it(self, stored: QuorumState, role: str) -> None:
        bench = Bench(batches=SHORT, stored=stored).start()

        bench.pass_time(20_000)

        assert (bench.role_name, bench.machine.epoch) == (role, stored.epoch)

    @pytest.mark.parametrize(("stored", "role"), [(state(EPOCH_MAX), "Unattached"), (state(EPOCH_MAX, 1), "Resigned")])
    def test_the_only_voter_goes_no_further_either(self, stored: QuorumState, role: str) -> None:
        bench = Bench(1, batches=SHORT, stored=stored).start()

        bench.pass_time(20_000)

        assert (bench.role_name, bench.machine.epoch) == (role, EPOCH_MAX)

    def test_its_leader_leads_and_is_followed(self) -> None:
        alone = Bench(1, batches=SHORT, stored=state(EPOCH_MAX - 1)).start()
        bench = Bench(batches=SHORT, stored=state(3)).start()
        answer = bench.ask(begin_epoch(EPOCH_MAX))

        assert (alone.role_name, alone.machine.epoch) == ("Leader", EPOCH_MAX)
        assert answer == BeginQuorumEpochResponse(ErrorCode.NONE, EPOCH_MAX, NODE_2, (endpoint(2),))
        assert bench.role_name == "Follower"


class TestEpochs:
    def test_a_leader_that_announces_itself_is_followed(self) -> None:
        bench = Bench(batches=SHORT, stored=state(3)).start()
        answer = bench.ask(begin_epoch(4))

        assert answer == BeginQuorumEpochResponse(ErrorCode.NONE, LeaderEpoch(4), NODE_2, (endpoint(2),))
        assert bench.role_name == "Follower"
        assert bench.of_kind(SaveQuorumState) == [SaveQuorumState(1, state(4, 2))]
        assert bench.sent(FetchRequest)[-1].to.id == 2

    def test_a_vote_is_kept_beside_the_leader_it_helped_to_elect(self) -> None:
        bench = Bench(batches=SHORT, stored=state(3)).start()
        bench.ask(vote_request(4, candidate=2))
        bench.ask(begin_epoch(4))

        assert bench.of_kind(SaveQuorumState) == [SaveQuorumState(3, state(4, 2, replica_key(2)))]

    def test_an_old_leader_is_fenced(self) -> None:
        bench = follower(epoch=3)
        answer = bench.ask(begin_epoch(2, leader=3))

        assert isinstance(answer, BeginQuorumEpochResponse)
        assert (answer.error, answer.epoch, answer.leader_id) == (ErrorCode.FENCED_LEADER_EPOCH, 3, 2)

    def test_a_second_leader_of_an_epoch_is_not_believed(self) -> None:
        bench = follower(epoch=3, leader=2)
        answer = bench.ask(begin_epoch(3, leader=3))

        assert isinstance(answer, BeginQuorumEpochResponse)
        assert answer.error is ErrorCode.INVALID_REQUEST
        assert bench.machine.leader_id == 2

    def test_a_leader_does_not_follow_another_in_its_own_epoch(self) -> None:
        bench = Bench(1).start()
        bench.ask(begin_epoch(bench.machine.epoch))

        assert bench.role_name == "Leader"

    def test_a_leader_gives_way_to_a_higher_epoch(self) -> None:
        bench = Bench(1).start()
        bench.ask(begin_epoch(9))

        assert bench.role_name == "Follower"
        assert bench.of_kind(LostLeadership) == [LostLeadership(LeaderEpoch(1))]
        # Nothing of it is said before it is on disk.
        assert isinstance(bench.effects[1], SaveQuorumState)

    def test_a_prospective_returns_to_a_leader_that_speaks(self) -> None:
        bench = follower(has_fetched=True)
        bench.pass_time(FETCH_TIMEOUT_MS_MAX)
        assert bench.role_name == "Prospective"

        bench.ask(begin_epoch(3))

        assert bench.role_name == "Follower"

    @pytest.mark.parametrize(
        ("position_of_self", "backoff_ms"), [(0, 0), (1, CONFIG.election_backoff_max_ms >> 1), (None, 1000)]
    )
    def test_voters_stand_in_the_order_that_a_resigning_leader_proposes(
        self, position_of_self: int | None, backoff_ms: int
    ) -> None:
        order = {0: (1, 3), 1: (3, 1), None: (3, 4)}[position_of_self]
        bench = follower(has_fetched=True)
        request = EndQuorumEpochRequest(NODE_2, LeaderEpoch(3), tuple(replica_key(other) for other in order))
        answer = bench.ask(request)
        assert isinstance(answer, EndQuorumEpochResponse)
        assert answer.error is ErrorCode.NONE

        if backoff_ms:
            bench.pass_time(backoff_ms - 1)
            assert bench.role_name == "Follower"
            bench.pass_time(1)
        assert bench.role_name == "Prospective"

    def test_after_a_leader_without_preference_whoever_comes_first_stands(self) -> None:
        bench = follower(has_fetched=True)
        bench.ask(EndQuorumEpochRequest(NODE_2, LeaderEpoch(3)))
        bench.pass_time(CONFIG.leader_lost_jitter_ms)

        assert bench.role_name == "Prospective"

    def test_a_resigned_leader_tells_each_voter_once(self) -> None:
        bench = Bench(batches=SHORT, stored=state(3, 1)).start()
        sends = bench.sent(EndQuorumEpochRequest)
        assert {send.to.id for send in sends} == {2, 3}
        for send in sends:
            bench.answer(send, EndQuorumEpochResponse(ErrorCode.NONE, LeaderEpoch(3), NodeId(1)))
        bench.step(Tick())

        assert not bench.sent(EndQuorumEpochRequest)

    def test_a_resigned_leader_leaves_its_epoch_after_its_time(self) -> None:
        bench = Bench(batches=SHORT, stored=state(3, 1)).start()
        bench.pass_time(2 * CONFIG.election_timeout_ms)

        assert bench.machine.epoch == 4
        assert bench.machine.leader_id is None

    def test_an_announcement_from_another_cluster_changes_nothing(self) -> None:
        bench = follower()
        begin = BeginQuorumEpochRequest(NODE_3, LeaderEpoch(9), (endpoint(3),), cluster_id="other")
        end = EndQuorumEpochRequest(NODE_3, LeaderEpoch(9), cluster_id="other")

        assert bench.ask(begin) == BeginQuorumEpochResponse(ErrorCode.INCONSISTENT_CLUSTER_ID)
        assert bench.ask(end) == EndQuorumEpochResponse(ErrorCode.INCONSISTENT_CLUSTER_ID)
        assert bench.machine.epoch == 3

    def test_an_announcement_for_another_replica_is_still_news(self) -> None:
        bench = follower()
        other = replica_key(1, incarnation=1)
        answer = bench.ask(BeginQuorumEpochRequest(NODE_3, LeaderEpoch(9), (endpoint(3),), other))

        assert isinstance(answer, BeginQuorumEpochResponse)
        assert (answer.error, answer.epoch, answer.leader_id) == (ErrorCode.INVALID_VOTER_KEY, 9, 3)

    @pytest.mark.parametrize("leader_id", [-1, 1])
    def test_nobody_else_makes_this_replica_a_leader(self, leader_id: int) -> None:
        bench = follower()
        answer = bench.ask(BeginQuorumEpochRequest(NodeId(leader_id), LeaderEpoch(9), (endpoint(1),)))

        assert isinstance(answer, BeginQuorumEpochResponse)
        assert answer.error is ErrorCode.INVALID_REQUEST
        assert bench.machine.epoch == 3

    def test_every_request_gets_one_answer(self) -> None:
        bench = follower()
        for request in (vote_request(3), begin_epoch(3), begin_epoch(9), vote_request(1)):
            bench.ask(request)
            assert len(bench.of_kind(Respond)) == 1
