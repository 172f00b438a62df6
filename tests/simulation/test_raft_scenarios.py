"""Histories with a name: what a quorum does when this or that happens, with a bound on how long it may take."""

from __future__ import annotations

import pytest

from tests.simulation.raft_cluster import Cluster, Weather, replica_key
from tests.simulation.raft_mutants import skip_the_pre_vote
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import NodeId
from tidelog.raft.config import QuorumConfig
from tidelog.raft.events import ResignRequested, ShutdownRequested, UpgradeRequested
from tidelog.raft.messages import AddVoterResponse, RemoveVoterResponse
from tidelog.raft.roles import Follower, Resigned, Unattached
from tidelog.raft.voter_set import VoterSet

SEEDS = range(8)


def settled(seed: int, voters: int, *, observers: int = 0, static: bool = False) -> Cluster:
    """A quorum at work."""
    cluster = Cluster(seed, voters, observers=observers, static=static)
    cluster.start_all()
    assert cluster.run_for(5_000, until=cluster.is_settled)
    return cluster


def commit_one(cluster: Cluster, timeout_ms: int = 3_000) -> None:
    before = cluster.acknowledged
    assert cluster.append()
    assert cluster.run_for(timeout_ms, until=lambda: cluster.acknowledged > before)


def leader_of(cluster: Cluster) -> NodeId:
    leader = cluster.leader()
    assert leader is not None
    return leader.key.id


def await_leader(cluster: Cluster, timeout_ms: int, *, other_than: NodeId | None = None) -> NodeId:
    def is_there() -> bool:
        leader = cluster.leader()
        return leader is not None and leader.key.id != other_than

    assert cluster.run_for(timeout_ms, until=is_there)
    return leader_of(cluster)


def other_than(cluster: Cluster, *node_ids: int) -> NodeId:
    return next(node_id for node_id in cluster.replicas if node_id not in node_ids)


def test_a_single_voter_leads_as_soon_as_its_disk_has_answered() -> None:
    cluster = Cluster(1, 1, weather=Weather(disk_ms_max=2))
    cluster.start_all()

    assert cluster.run_for(10, until=lambda: cluster.leader() is not None)
    commit_one(cluster, timeout_ms=10)


def test_a_single_voter_leads_again_after_each_restart_in_a_higher_epoch() -> None:
    cluster = settled(1, 1)
    epochs = []
    for _ in range(3):
        commit_one(cluster)
        leader = cluster.leader()
        assert leader is not None
        epochs.append(leader.leading)
        cluster.crash(1)
        cluster.start(1)
        assert cluster.run_for(50, until=cluster.is_settled)

    assert epochs == [1, 2, 3]


@pytest.mark.parametrize("seed", SEEDS)
def test_voters_that_start_together_elect_a_leader_without_waiting_for_a_time_out(seed: int) -> None:
    cluster = Cluster(seed, 3)
    cluster.start_all()

    assert cluster.run_for(3_000, until=cluster.is_settled)


@pytest.mark.parametrize("voters", [2, 3, 4, 5])
@pytest.mark.parametrize("static", [True, False])
def test_quorums_of_every_size_commit(voters: int, static: bool) -> None:
    cluster = settled(voters, voters, static=static)

    commit_one(cluster)

    assert cluster.run_for(2_000, until=cluster.is_settled)
    assert len({replica.disk.end() for replica in cluster.replicas.values()}) == 1


@pytest.mark.parametrize("seed", range(30))
def test_a_killed_leader_is_replaced_in_less_than_a_second(seed: int) -> None:
    cluster = settled(seed, 3)
    commit_one(cluster)
    killed_ms = cluster.now_ms
    cluster.crash(leader_of(cluster))

    await_leader(cluster, 1_000)
    commit_one(cluster)

    assert cluster.now_ms - killed_ms < 1_000


@pytest.mark.parametrize("seed", SEEDS)
def test_a_silent_leader_is_replaced_after_the_fetch_time_out(seed: int) -> None:
    cluster = settled(seed, 3)
    former = leader_of(cluster)
    cluster.isolate(former)

    await_leader(cluster, 8_000, other_than=former)
    commit_one(cluster)
    cluster.heal()
    assert cluster.run_for(8_000, until=cluster.is_settled)


def test_a_leader_that_hears_no_majority_resigns() -> None:
    cluster = settled(1, 3)
    former = leader_of(cluster)
    cluster.isolate(former)
    machine = cluster.replicas[former].machine
    assert machine is not None

    assert cluster.run_for(
        QuorumConfig().check_quorum_timeout_ms + 100, until=lambda: isinstance(machine.role, Resigned)
    )


def test_a_minority_commits_nothing_and_gives_way() -> None:
    cluster = settled(3, 5)
    former = leader_of(cluster)
    commit_one(cluster)
    committed = cluster.invariants.committed_end
    minority = {former, other_than(cluster, former)}
    for inside in minority:
        for outside in cluster.replicas:
            if outside not in minority:
                cluster.cut(inside, outside)
                cluster.cut(outside, inside)
    for _ in range(5):
        cluster.append()
    cluster.run_for(200)
    assert cluster.invariants.committed_end == committed

    assert cluster.run_for(
        8_000, until=lambda: any(node not in minority for node in cluster.invariants.leaders.values())
    )
    await_leader(cluster, 8_000, other_than=former)
    commit_one(cluster)
    cluster.heal()

    assert cluster.run_for(8_000, until=cluster.is_settled)
    assert len({replica.disk.end() for replica in cluster.replicas.values()}) == 1


def test_a_follower_that_was_cut_off_does_not_disturb_when_it_returns() -> None:
    for seed in SEEDS:
        cluster = settled(seed, 3)
        leader, epoch = leader_of(cluster), max(cluster.invariants.leaders)
        cluster.isolate(other_than(cluster, leader))
        cluster.run_for(30_000)
        cluster.heal()

        assert cluster.run_for(5_000, until=cluster.is_settled)
        assert (leader_of(cluster), max(cluster.invariants.leaders)) == (leader, epoch)


def test_without_the_pre_vote_it_would_disturb(monkeypatch: pytest.MonkeyPatch) -> None:
    skip_the_pre_vote(monkeypatch)
    cluster = settled(1, 3)
    epoch = max(cluster.invariants.leaders)
    cluster.isolate(other_than(cluster, leader_of(cluster)))
    cluster.run_for(30_000)
    cluster.heal()

    assert cluster.run_for(10_000, until=lambda: max(cluster.invariants.leaders) > epoch)


def test_a_voter_that_can_be_heard_but_not_hear_does_not_disturb() -> None:
    cluster = settled(2, 3)
    leader, epoch = leader_of(cluster), max(cluster.invariants.leaders)
    deaf = other_than(cluster, leader)
    for other in cluster.replicas:
        cluster.cut(other, deaf)
    cluster.run_for(20_000)

    assert max(cluster.invariants.leaders) == epoch


def test_a_replica_that_was_away_for_long_loads_a_snapshot() -> None:
    cluster = settled(4, 3)
    away = other_than(cluster, leader_of(cluster))
    cluster.crash(away)
    for _ in range(150):
        commit_one(cluster)
    assert all(replica.disk.start > 0 for node_id, replica in cluster.replicas.items() if node_id != away)

    cluster.start(away)

    assert cluster.run_for(5_000, until=cluster.is_settled)
    assert cluster.replicas[away].disk.start > 0


def test_one_voter_becomes_three_and_one_again() -> None:
    cluster = settled(5, 1, observers=2)
    for node_id in (2, 3):
        assert cluster.add_voter(node_id)
        assert cluster.run_for(3_000, until=lambda: bool(cluster.membership_answers))
        assert cluster.membership_answers.pop() == AddVoterResponse(ErrorCode.NONE)
        commit_one(cluster)
    cluster.crash(1)
    await_leader(cluster, 5_000)
    commit_one(cluster)
    cluster.start(1)
    assert cluster.run_for(5_000, until=cluster.is_settled)

    for _ in range(2):
        leader = leader_of(cluster)
        assert cluster.remove_voter(leader)
        assert cluster.run_for(3_000, until=lambda: bool(cluster.membership_answers))
        assert cluster.membership_answers.pop() == RemoveVoterResponse(ErrorCode.NONE)
        assert cluster.run_for(8_000, until=cluster.is_settled)
        assert leader_of(cluster) != leader

    commit_one(cluster)
    last = cluster.leader()
    assert last is not None
    assert last.machine is not None
    assert last.machine.voters.ids == (last.key.id,)


def test_a_leader_whose_own_removal_was_cut_short_can_be_elected_again() -> None:
    cluster = settled(6, 2)
    leader = leader_of(cluster)
    other = other_than(cluster, leader)
    cluster.cut(leader, other)
    cluster.remove_voter(leader)
    cluster.run_for(50)
    cluster.crash(leader)
    cluster.heal()
    # The other one needs the vote of the removed one, whose log is longer; the removed one is no voter in its own log.
    cluster.start(leader)

    assert cluster.run_for(10_000, until=cluster.is_settled)
    commit_one(cluster)


def test_an_observer_joins_by_itself_when_told_to() -> None:
    cluster = Cluster(7, 1, observers=1, config=QuorumConfig(auto_join_enable=True))
    cluster.start_all()

    def is_joined() -> bool:
        machine = cluster.replicas[NodeId(1)].machine
        return machine is not None and machine.voters.ids == (1, 2) and cluster.is_settled()

    assert cluster.run_for(10_000, until=is_joined)


def test_static_voters_move_into_the_log_with_the_upgrade() -> None:
    cluster = settled(8, 3, static=True)
    # Each voter tells its leader of itself once a fetch time-out.
    cluster.run_for(5_000)
    leader = cluster.leader()
    assert leader is not None
    assert leader.leading is not None
    cluster.step(leader, UpgradeRequested(1, leader.leading, 1))

    assert [answer.error for answer in cluster.upgrades] == [ErrorCode.NONE]
    assert cluster.run_for(3_000, until=cluster.is_settled)
    for replica in cluster.replicas.values():
        assert replica.machine is not None
        assert replica.machine.kraft_version == 1
        assert replica.machine.voters.keys == tuple(replica_key(node_id) for node_id in (1, 2, 3))
    cluster.crash(leader.key.id)
    await_leader(cluster, 5_000)
    commit_one(cluster)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_leader_that_shuts_down_hands_over_at_once(seed: int) -> None:
    cluster = settled(seed, 3)
    leader = cluster.leader()
    assert leader is not None
    cluster.step(leader, ShutdownRequested(5_000))

    assert cluster.run_for(1_000, until=lambda: leader.machine is None)
    await_leader(cluster, 100, other_than=leader.key.id)
    commit_one(cluster)


def test_a_leader_that_is_asked_to_resign_does_so() -> None:
    cluster = settled(9, 3)
    leader = cluster.leader()
    assert leader is not None
    assert leader.leading is not None
    former, epoch = leader.key.id, leader.leading
    cluster.step(leader, ResignRequested(epoch))

    assert cluster.run_for(
        2_000, until=lambda: cluster.leader() is not None and max(cluster.invariants.leaders) > epoch
    )
    assert cluster.run_for(8_000, until=cluster.is_settled)
    assert leader_of(cluster) != former


@pytest.mark.parametrize("seed", SEEDS)
def test_all_crash_and_nothing_committed_is_lost(seed: int) -> None:
    cluster = settled(seed, 3)
    for _ in range(10):
        cluster.append()
    commit_one(cluster)
    committed = list(cluster.invariants.committed)
    for node_id in cluster.replicas:
        cluster.crash(node_id)
    cluster.start_all()

    assert cluster.run_for(10_000, until=cluster.is_settled)
    assert cluster.replicas[leader_of(cluster)].disk.full_log()[: len(committed)] == committed


def test_a_broker_observes_without_waiting_for_its_disk() -> None:
    cluster = Cluster(2, 1, observers=1, are_observers_brokers=True)
    cluster.start_all()
    assert cluster.run_for(5_000, until=cluster.is_settled)
    commit_one(cluster)
    cluster.run_for(1_000)
    observer = cluster.replicas[NodeId(2)].machine
    leader = cluster.replicas[NodeId(1)].machine
    assert observer is not None
    assert leader is not None

    description = leader.describe(cluster.now_ms)

    assert isinstance(observer.role, Follower)
    assert not observer.is_voter
    assert cluster.replicas[NodeId(2)].disk.durable == []
    assert description is not None
    assert [(replica.key, replica.end_offset) for replica in description.observers] == [
        (replica_key(2), observer.log_end.offset)
    ]


def test_nobody_leads_where_nobody_may_vote() -> None:
    cluster = Cluster(1, 0, observers=1)
    cluster.start_all()
    cluster.run_for(20_000)

    machine = cluster.replicas[NodeId(1)].machine
    assert machine is not None
    assert machine.voters == VoterSet()
    assert isinstance(machine.role, Unattached)
