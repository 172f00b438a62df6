"""A bucket of tokens that fills by itself: how changes of the cluster are limited (KIP-599).

Kafka's `TokenBucket`: it holds as much as its rate gives in all windows, starts full, and may be overdrawn by the last who takes
from it. Unlike a `SampledRate`, a large amount is forgotten as soon as it is paid for.
"""

from __future__ import annotations

from math import floor

from tidelog.model.sampled_rate import THROTTLE_MS_MAX


class TokenBucket:
    """The rate is passed in each time, since it may change: what is in the bucket then is cut to its new size."""

    __slots__ = ("_capacity_seconds", "_tokens", "_updated_ms")

    def __init__(self, windows: int, window_ms: int) -> None:
        self._capacity_seconds = windows * (window_ms / 1000.0)
        # None: nobody has asked yet. It is full then.
        self._tokens: float | None = None
        self._updated_ms = 0

    def tokens(self, per_second: float, now_ms: int) -> float:
        """What is in it. Below zero: so many more were taken."""
        capacity = self._capacity_seconds * per_second
        if self._tokens is None:
            self._tokens = capacity
        else:
            elapsed_seconds = (now_ms - self._updated_ms) / 1000.0
            self._tokens = min(capacity, self._tokens + per_second * elapsed_seconds)
        self._updated_ms = now_ms
        return self._tokens

    def take(self, amount: float, per_second: float, now_ms: int) -> None:
        """Also where there is not as much in it."""
        left = self.tokens(per_second, now_ms) - amount
        self._tokens = min(self._capacity_seconds * per_second, left)

    def throttle_ms(self, per_second: float, now_ms: int) -> int:
        """How long it takes until nothing is owed. 0: nothing is."""
        tokens = self.tokens(per_second, now_ms)
        if tokens >= 0:
            return 0
        wait_ms = -tokens / per_second * 1000
        return floor(wait_ms + 0.5) if wait_ms < THROTTLE_MS_MAX else THROTTLE_MS_MAX
