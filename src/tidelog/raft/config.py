"""The settings of a quorum. Keys and defaults are Kafka's, `controller.quorum.*`, unless said otherwise."""

from __future__ import annotations

from msgspec import Struct

from tidelog.raft.voter_set import Endpoints, Node, ReplicaKey, VersionRange, Voter

# kraft.version 0 and 1: static voters, and voters in the log.
SUPPORTED_KRAFT_VERSIONS = VersionRange(0, 1)


class QuorumConfig(Struct, frozen=True):
    """How long to wait for what, and how much to ask for at once."""

    election_timeout_ms: int = 1000
    fetch_timeout_ms: int = 2000
    election_backoff_max_ms: int = 1000
    request_timeout_ms: int = 2000
    retry_backoff_ms: int = 20
    fetch_bytes_max: int = 1 << 20
    fetch_snapshot_bytes_max: int = 1 << 20
    auto_join_enable: bool = False
    # Not a key of Kafka's: how long a leader may hold back the answer to a fetch that finds nothing new.
    fetch_wait_ms_max: int = 500
    # Not a key of Kafka's: a voter that finds its leader's port closed calls an election within this time. Jittered, so that
    # voters who notice together do not split the vote; short, so that a killed leader costs less than a second.
    leader_lost_jitter_ms: int = 100

    @property
    def fetch_wait_ms(self) -> int:
        """How long a follower lets its leader hold back an answer: an idle leader must never be taken for a lost one."""
        return min(self.fetch_wait_ms_max, self.fetch_timeout_ms // 2, self.request_timeout_ms // 2)

    @property
    def check_quorum_timeout_ms(self) -> int:
        """How long a leader goes on without fetches from a majority. Half as long again as a follower's patience, as in Kafka."""
        return self.fetch_timeout_ms * 3 // 2

    @property
    def begin_epoch_interval_ms(self) -> int:
        """How often a leader reminds the voters that do not fetch of its existence."""
        return self.fetch_timeout_ms // 2


class LocalReplica(Struct, frozen=True):
    """Who this replica is. `listener` names the one by which controllers talk to each other.

    A broker's replica only ever observes: it has `can_become_voter` false, and need not sync its log before it fetches on.
    """

    key: ReplicaKey
    cluster_id: str
    listener: str
    endpoints: Endpoints = ()
    can_become_voter: bool = True
    bootstrap_servers: tuple[Node, ...] = ()
    kraft_versions: VersionRange = SUPPORTED_KRAFT_VERSIONS

    @property
    def voter(self) -> Voter:
        """This replica as a voter set should describe it."""
        return Voter(self.key, self.endpoints, self.kraft_versions)
