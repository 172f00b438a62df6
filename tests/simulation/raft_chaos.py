"""Histories that a seed decides: what befalls a simulated quorum, and the peace after which everything must work again.

The seed chooses a climate. In an ordinary one faults are as far apart as time-outs, and a quorum spends most of its time at
work. In a storm leaders fall faster than they can commit, which is where votes and logs get mixed up. Under reform the voters
change all the time, while the usual happens.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from tests.simulation.raft_cluster import CALM, ROUGH, Cluster
from tidelog.model.ids import NodeId
from tidelog.raft.config import QuorumConfig

# After all faults end: two rounds of every time-out that there is, with room for a split vote or two.
SETTLE_MS_MAX = 20_000

QUICK = QuorumConfig(
    election_timeout_ms=100,
    fetch_timeout_ms=200,
    election_backoff_max_ms=100,
    request_timeout_ms=150,
    retry_backoff_ms=5,
    fetch_wait_ms_max=60,
    leader_lost_jitter_ms=30,
)


@dataclass(frozen=True, slots=True)
class Climate:
    """How often what happens. The weights are in the order of `_befall`."""

    weights: tuple[int, ...]
    pause_ms_max: int
    downtime_ms_max: int
    config: QuorumConfig


# In this order: crash, start, isolate, cut one way, heal, other weather, change voters, fell the leader, cut it off, flicker.
ORDINARY = Climate((2, 2, 1, 1, 1, 1, 1, 1, 0, 0), 2500, 3000, QuorumConfig())
STORM = Climate((2, 4, 1, 2, 3, 1, 0, 6, 4, 4), 200, 150, QUICK)
REFORM = Climate((1, 2, 1, 1, 2, 1, 10, 3, 2, 1), 250, 300, QUICK)


def run_history(seed: int, *, duration_ms: int | None = None, trace: list[str] | None = None) -> Cluster:
    """Lets a quorum live through faults, then in peace until it has settled; fails where it does not."""
    climate = (ORDINARY, STORM, REFORM)[seed % 3]
    cluster = _new_cluster(seed, climate)
    cluster.trace = trace
    random = cluster.random
    cluster.start_all()
    cluster.keep_appending(random.choice((5, 20, 60) if climate is not ORDINARY else (20, 60, 200)))
    end_ms = duration_ms or (20_000 if climate is ORDINARY else 6_000)
    while cluster.now_ms < end_ms:
        cluster.run_for(random.randint(1, climate.pause_ms_max))
        _befall(cluster, climate)
    make_peace(cluster)
    assert cluster.run_for(SETTLE_MS_MAX, until=cluster.is_settled), (
        f"seed {seed}: no settled quorum after all faults ended"
    )
    before = cluster.acknowledged
    assert cluster.append()
    assert cluster.run_for(SETTLE_MS_MAX, until=lambda: cluster.acknowledged > before), (
        f"seed {seed}: no commit in peace"
    )
    return cluster


def make_peace(cluster: Cluster) -> None:
    """Ends all faults; everybody who is down starts. No more appends either, so that logs can become equal."""
    cluster.is_peaceful = True
    cluster.weather = CALM
    cluster.heal()
    cluster.start_all()


def _new_cluster(seed: int, climate: Climate) -> Cluster:
    variant = seed // 3
    voters = 1 + variant % 5
    is_static = climate is not REFORM and variant % 7 == 3
    observers = 5 - voters if climate is REFORM else 0 if is_static else (variant // 5) % 3
    return Cluster(
        seed,
        voters,
        observers=observers,
        static=is_static,
        weather=ROUGH if variant % 3 else CALM,
        config=climate.config,
        refuses=variant % 4 != 1,
    )


def _befall(cluster: Cluster, climate: Climate) -> None:
    """One misfortune, or its end."""
    random = cluster.random
    node_id = random.choice(list(cluster.replicas))
    leader = cluster.leader()
    match random.choices(range(len(climate.weights)), climate.weights)[0]:
        case 0:
            cluster.crash(node_id)
        case 1:
            cluster.start(node_id)
        case 2:
            cluster.isolate(node_id)
        case 3:
            cluster.cut(node_id, random.choice(list(cluster.replicas)))
        case 4:
            cluster.heal()
        case 5:
            cluster.weather = random.choice((CALM, ROUGH))
        case 6:
            if not cluster.is_static:
                _change_voters(cluster, node_id)
        case 7 if leader is not None:
            cluster.crash(leader.key.id)
            cluster.at(random.randint(1, climate.downtime_ms_max), lambda: cluster.start(leader.key.id))
        case 8 if leader is not None:
            # It can still talk to one of the others, at most.
            for other in cluster.replicas:
                if other != node_id:
                    cluster.cut(leader.key.id, other)
                    cluster.cut(other, leader.key.id)
        case 9:
            _flicker(cluster)


def _flicker(cluster: Cluster) -> None:
    """The power fails for all, several times within an election."""
    random = cluster.random
    for node_id in cluster.replicas:
        for _ in range(random.randint(1, 4)):
            at_ms = random.randint(0, 150)
            cluster.at(at_ms, partial(cluster.crash, node_id))
            cluster.at(at_ms + random.randint(0, 20), partial(cluster.start, node_id))


def _change_voters(cluster: Cluster, node_id: NodeId) -> None:
    leader = cluster.leader()
    if leader is None or leader.machine is None:
        return
    if leader.machine.voters.get(node_id) is None:
        cluster.add_voter(node_id)
    elif len(leader.machine.voters) > 1:
        cluster.remove_voter(node_id)
