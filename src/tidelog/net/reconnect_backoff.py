"""How long to wait before the next attempt to reach a node: Kafka's `reconnect.backoff.ms` and `reconnect.backoff.max.ms`."""

from __future__ import annotations

from random import Random

import msgspec

# A fifth more or less keeps nodes that failed together from coming back together.
JITTER = 0.2


class ReconnectBackoff(msgspec.Struct):
    """Counts failures, each of which doubles the wait. `succeeded` starts over."""

    random: Random
    backoff_ms: float = 50
    backoff_max_ms: float = 1000
    failures: int = 0

    def failed(self) -> float:
        """One more failure: the milliseconds to wait before the next attempt."""
        # Beyond 2**32 the maximum has long been reached.
        wait_ms = min(self.backoff_max_ms, self.backoff_ms * float(1 << min(self.failures, 32)))
        self.failures += 1
        return wait_ms * self.random.uniform(1 - JITTER, 1 + JITTER)

    def succeeded(self) -> None:
        self.failures = 0
