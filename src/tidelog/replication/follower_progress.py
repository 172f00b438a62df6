"""How far one follower is, as its leader knows from the follower's fetches.

A fetch from offset n says that the follower has everything before n. A follower counts as caught up at the moment of a fetch that
reaches the leader's log end; and, since a leader that is written to all the time has a moving end, at the moment of its
previous fetch once it reaches the end that the leader had then.
"""

from __future__ import annotations

from dataclasses import dataclass

from tidelog.model.ids import NO_OFFSET, BrokerEpoch, Offset

NO_BROKER_EPOCH = BrokerEpoch(-1)


@dataclass(slots=True)
class FollowerProgress:
    """One follower. Begins as unknown: nothing is taken for replicated before its first fetch in this leader epoch."""

    log_end_offset: Offset = NO_OFFSET
    log_start_offset: Offset = NO_OFFSET
    last_caught_up_ms: int = 0
    broker_epoch: BrokerEpoch = NO_BROKER_EPOCH
    """Of the broker that fetched last: one that has registered again since is not the replica it was."""
    _last_fetch_ms: int = 0
    _leader_end_at_last_fetch: int = 0

    def fetched(
        self, offset: int, log_start_offset: int, leader_log_end_offset: int, broker_epoch: int, now_ms: int
    ) -> None:
        """The follower has fetched from `offset`, when the leader's log ended at `leader_log_end_offset`."""
        if offset >= leader_log_end_offset:
            self.last_caught_up_ms = max(self.last_caught_up_ms, now_ms)
        elif offset >= self._leader_end_at_last_fetch:
            self.last_caught_up_ms = max(self.last_caught_up_ms, self._last_fetch_ms)
        self.log_end_offset = Offset(offset)
        self.log_start_offset = Offset(log_start_offset)
        self.broker_epoch = BrokerEpoch(broker_epoch)
        self._last_fetch_ms = now_ms
        self._leader_end_at_last_fetch = leader_log_end_offset
