"""How far each replica's log has come, as its leader knows it, and the high watermark that follows.

A replica acknowledges by fetching: whoever asks for offset n has everything below n on disk. The leader's own log counts as
far as it is durable. Voters that a new voter set drops become observers and keep their progress, and the other way round.
"""

from __future__ import annotations

from msgspec import Struct

from tidelog.model.ids import Offset
from tidelog.raft.voter_set import ReplicaKey, VoterSet

# As in Kafka: an observer that did not fetch for this long is gone.
OBSERVER_SESSION_TIMEOUT_MS = 300_000
# As in Kafka: an observer may become a voter if it was once caught up and fetched within this time.
CAUGHT_UP_WITHIN_MS = 3_600_000
# Anyone may fetch under any replica id; a leader remembers this many, the ones that fetched last.
OBSERVERS_MAX = 1000


class ReplicaProgress(Struct):
    """One replica. Times are those of the machine; None means never."""

    key: ReplicaKey
    end_offset: Offset | None = None
    last_fetch_ms: int | None = None
    last_caught_up_ms: int | None = None
    leader_end_at_last_fetch: Offset | None = None

    def fetched(self, fetch_offset: Offset, leader_end: Offset, now_ms: int) -> None:
        if fetch_offset >= leader_end:
            self.last_caught_up_ms = now_ms
        elif self.leader_end_at_last_fetch is not None and fetch_offset >= self.leader_end_at_last_fetch:
            # It has all that was there when it asked before, so at that time it was caught up.
            self.last_caught_up_ms = self.last_fetch_ms
        self.leader_end_at_last_fetch = leader_end
        self.last_fetch_ms = now_ms
        self.end_offset = fetch_offset


class Progress:
    """The replicas of one epoch, under its leader's eyes."""

    def __init__(self, voters: VoterSet, leader: ReplicaKey) -> None:
        self._leader = leader
        self._voters: dict[int, ReplicaProgress] = {voter.key.id: ReplicaProgress(voter.key) for voter in voters.voters}
        self._observers: dict[ReplicaKey, ReplicaProgress] = {}

    @property
    def voters(self) -> tuple[ReplicaProgress, ...]:
        return tuple(self._voters.values())

    @property
    def observers(self) -> tuple[ReplicaProgress, ...]:
        return tuple(self._observers.values())

    @property
    def is_leader_voter(self) -> bool:
        return self._is_leader(self._voters.get(self._leader.id))

    def voter(self, replica: ReplicaKey) -> ReplicaProgress | None:
        found = self._voters.get(replica.id)
        return found if found is not None and found.key.matches(replica) else None

    def use_voters(self, voters: VoterSet) -> None:
        """Another voter set holds from now on."""
        former = dict(self._voters)
        self._voters = {}
        for voter in voters.voters:
            known = former.get(voter.key.id)
            if known is not None and known.key.matches(voter.key):
                del former[voter.key.id]
                known.key = voter.key
            else:
                known = self._observers.pop(voter.key, None) or ReplicaProgress(voter.key)
            self._voters[voter.key.id] = known
        for left in former.values():
            self._observers.setdefault(left.key, left)

    def fetched(self, replica: ReplicaKey, fetch_offset: Offset, leader_end: Offset, now_ms: int) -> None:
        """A replica showed that it has everything below `fetch_offset`."""
        known = self.voter(replica)
        if known is None:
            known = self._observers.pop(replica, None) or ReplicaProgress(replica)
            self._observers[replica] = known
            if len(self._observers) > OBSERVERS_MAX:
                del self._observers[next(iter(self._observers))]
        known.fetched(fetch_offset, leader_end, now_ms)

    def forget_silent_observers(self, now_ms: int) -> None:
        for key, observer in list(self._observers.items()):
            if observer.last_fetch_ms is None or now_ms - observer.last_fetch_ms >= OBSERVER_SESSION_TIMEOUT_MS:
                del self._observers[key]

    def is_caught_up(self, replica: ReplicaKey, now_ms: int) -> bool:
        observer = self._observers.get(replica)
        return (
            observer is not None
            and observer.last_caught_up_ms is not None
            and observer.last_fetch_ms is not None
            and now_ms - observer.last_fetch_ms < CAUGHT_UP_WITHIN_MS
        )

    def committed_offset(self, leader_durable_offset: Offset) -> Offset | None:
        """Below this a majority of the voters has everything on disk. None as long as no majority has reported."""
        ends = [
            leader_durable_offset if self._is_leader(voter) else voter.end_offset for voter in self._voters.values()
        ]
        reported = sorted((end for end in ends if end is not None), reverse=True)
        majority = len(self._voters) // 2 + 1
        return reported[majority - 1] if len(reported) >= majority else None

    def successors(self) -> tuple[ReplicaKey, ...]:
        """The other voters, the one with the longest log first."""
        others = [voter for voter in self._voters.values() if not self._is_leader(voter)]
        others.sort(key=lambda voter: (-(voter.end_offset if voter.end_offset is not None else -1), voter.key.id))
        return tuple(voter.key for voter in others)

    def silent_voters(self, now_ms: int, interval_ms: int) -> tuple[ReplicaKey, ...]:
        """The other voters that did not fetch for a while."""
        return tuple(
            voter.key
            for voter in self._voters.values()
            if voter.key.id != self._leader.id
            and (voter.last_fetch_ms is None or now_ms - voter.last_fetch_ms >= interval_ms)
        )

    def _is_leader(self, voter: ReplicaProgress | None) -> bool:
        return voter is not None and voter.key.matches(self._leader)
