"""When to try again, and what to find out first.

backoff = RetryBackoff(random, 100, 1000)
loop.call_later(backoff.after(failures) / 1000, again)
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from tidelog.model.errors import ErrorCode

# A fifth more or less keeps clients that failed together from coming back together.
JITTER = 0.2

# A coordinator that is still busy with the transaction before needs milliseconds, not a tenth of a second.
CONCURRENT_BACKOFF_MS = 20


@dataclass(frozen=True, slots=True)
class RetryBackoff:
    """Kafka's `retry.backoff.ms` and `retry.backoff.max.ms`: doubled by each failure in a row."""

    random: Random
    backoff_ms: float
    backoff_max_ms: float

    def after(self, failures: int) -> float:
        """The milliseconds to wait after this many failures in a row, of which there is at least one."""
        # Beyond 2**32 the maximum has long been reached.
        wait_ms = min(self.backoff_max_ms, self.backoff_ms * float(1 << min(max(failures, 1) - 1, 32)))
        return wait_ms * self.random.uniform(1 - JITTER, 1 + JITTER)


STALE_METADATA = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.LISTENER_NOT_FOUND,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
        ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
        ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
        ErrorCode.ELECTION_NOT_NEEDED,
    }
)
"""Errors that come from asking the wrong node: the metadata has to be asked for before the next attempt."""

LOST_COORDINATOR = frozenset({ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE})
"""Errors that say that the coordinator is elsewhere: it has to be found again before the next attempt."""


def needs_metadata(code: int) -> bool:
    """Whether an error means that the metadata that a request went by is old."""
    return ErrorCode.of(code) in STALE_METADATA


def needs_coordinator(code: int) -> bool:
    """Whether an error means that the coordinator is another node by now."""
    return ErrorCode.of(code) in LOST_COORDINATOR
