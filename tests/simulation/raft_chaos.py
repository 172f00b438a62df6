"""Histories that a seed decides: what befalls a simulated quorum, and the peace after which everything must work again."""

from __future__ import annotations

from tests.simulation.raft_cluster import CALM, ROUGH, Cluster
from tidelog.model.ids import NodeId

# After all faults end: two rounds of every time-out that there is, with room for a split vote or two.
SETTLE_MS_MAX = 20_000


def run_history(seed: int, *, duration_ms: int = 20_000, trace: list[str] | None = None) -> Cluster:
    """Lets a quorum live through `duration_ms` of faults, then in peace until it has settled; fails where it does not."""
    cluster = _new_cluster(seed)
    cluster.trace = trace
    random = cluster.random
    cluster.start_all()
    cluster.keep_appending(random.choice((20, 60, 200)))
    end_ms = cluster.now_ms + duration_ms
    while cluster.now_ms < end_ms:
        cluster.run_for(random.randint(50, 2500))
        _befall(cluster)
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
    """Ends all faults; everybody who is down starts."""
    cluster.weather = CALM
    cluster.heal()
    cluster.start_all()


def _new_cluster(seed: int) -> Cluster:
    voters = 1 + seed % 5
    static = seed % 7 == 3
    return Cluster(
        seed,
        voters,
        observers=0 if static else (seed // 5) % 3,
        static=static,
        weather=ROUGH if seed % 3 else CALM,
        latency_of_refusal=seed % 4 != 1,
    )


def _befall(cluster: Cluster) -> None:
    """One misfortune, or its end."""
    random = cluster.random
    node_id = random.choice(list(cluster.replicas))
    match random.randrange(10):
        case 0 | 1:
            cluster.crash(node_id)
        case 2 | 3:
            for other in list(cluster.replicas):
                cluster.start(other)
        case 4:
            cluster.isolate(node_id)
        case 5:
            cluster.cut(node_id, random.choice(list(cluster.replicas)))
        case 6:
            cluster.heal()
        case 7:
            cluster.weather = random.choice((CALM, ROUGH))
        case 8:
            if not cluster.is_static:
                _change_voters(cluster, node_id)
        case 9:
            leader = cluster.leader()
            if leader is not None:
                cluster.crash(leader.key.id)
                cluster.at(random.randint(1, 3000), lambda: cluster.start(leader.key.id))


def _change_voters(cluster: Cluster, node_id: NodeId) -> None:
    leader = cluster.leader()
    if leader is None or leader.machine is None:
        return
    if leader.machine.voters.get(node_id) is None:
        cluster.add_voter(node_id)
    elif len(leader.machine.voters) > 1:
        cluster.remove_voter(node_id)
