# cython: annotation_typing=False, auto_pickle=False, binding=False, nonecheck=True
"""What was counted of those who share one limit: a rate, or a bucket of tokens for changes of the cluster.

Times are passed in, in milliseconds that never go back.
"""

from __future__ import annotations

from tidelog.model.sampled_rate import SampledRate
from tidelog.model.token_bucket import TokenBucket

# Kafka's windows for numbers that are only shown.
_SHOWN_WINDOWS = 2
_SHOWN_WINDOW_MS = 30_000

# A bucket without a bound: more than anybody takes.
_NO_BOUND = float(2**63 - 1)


class Account:
    """`bound` is what may be taken in a second; None for no limit."""

    __slots__ = (
        "_bucket",
        "_mutations",
        "_rate",
        "_throttle_times",
        "_throttles",
        "_window_ms",
        "_windows",
        "bound",
        "used_ms",
    )

    def __init__(self, windows: int, window_ms: int, bound: float | None, now_ms: int) -> None:
        self._windows = windows
        self._window_ms = window_ms
        self._rate: SampledRate | None = None
        self._bucket: TokenBucket | None = None
        self._mutations: SampledRate | None = None
        self._throttle_times: SampledRate | None = None
        self._throttles: SampledRate | None = None
        self.bound = bound
        self.used_ms = now_ms

    # --- a rate --------------------------------------------------------------------------------------------------------------

    def _sampled(self, now_ms: int) -> SampledRate:
        self.used_ms = now_ms
        if self._rate is None:
            self._rate = SampledRate(self._windows, self._window_ms)
        return self._rate

    def record(self, value: float, now_ms: int) -> int:
        """Counts it. How many milliseconds its sender has to wait for it."""
        rate = self._sampled(now_ms)
        rate.record(value, now_ms)
        return 0 if self.bound is None else rate.throttle_ms(self.bound, now_ms)

    def record_unthrottled(self, value: float, now_ms: int) -> None:
        """Counts it. Whoever comes next waits for it."""
        self._sampled(now_ms).record(value, now_ms)

    def most_at_once(self) -> float | None:
        """More than this has to wait in any case, also where nothing was counted before. None: there is no limit."""
        return None if self.bound is None else self.bound * (self._windows - 1) * (self._window_ms / 1000.0)

    def per_second(self, now_ms: int) -> float:
        return 0.0 if self._rate is None else self._rate.per_second(now_ms)

    # --- a bucket ------------------------------------------------------------------------------------------------------------

    def _tokens(self, now_ms: int) -> TokenBucket:
        self.used_ms = now_ms
        if self._bucket is None:
            self._bucket = TokenBucket(self._windows, self._window_ms)
            self._mutations = SampledRate(_SHOWN_WINDOWS, _SHOWN_WINDOW_MS)
        return self._bucket

    def take(self, amount: float, now_ms: int) -> int:
        """Takes tokens, whether there are as many or not. How many milliseconds whoever took them has to wait."""
        bucket = self._tokens(now_ms)
        bound = _NO_BOUND if self.bound is None else self.bound
        assert self._mutations is not None
        self._mutations.record(amount, now_ms)
        bucket.take(amount, bound, now_ms)
        return bucket.throttle_ms(bound, now_ms)

    def take_if_paid(self, amount: float, now_ms: int) -> int | None:
        """Takes tokens, unless some are owed: then how many milliseconds it takes to pay for those. None: they were taken."""
        bucket = self._tokens(now_ms)
        bound = _NO_BOUND if self.bound is None else self.bound
        if bucket.tokens(bound, now_ms) < 0:
            return bucket.throttle_ms(bound, now_ms)
        self.take(amount, now_ms)
        return None

    def tokens(self, now_ms: int) -> float | None:
        """What is in the bucket. None: there is none, or no limit."""
        if self._bucket is None or self.bound is None:
            return None
        return self._bucket.tokens(self.bound, now_ms)

    def mutations_per_second(self, now_ms: int) -> float:
        return 0.0 if self._mutations is None else self._mutations.per_second(now_ms)

    # --- waiting -------------------------------------------------------------------------------------------------------------

    def throttled(self, throttle_ms: int, now_ms: int) -> None:
        """A client was made to wait for what this account has counted."""
        if self._throttle_times is None or self._throttles is None:
            self._throttle_times = SampledRate(_SHOWN_WINDOWS, _SHOWN_WINDOW_MS)
            self._throttles = SampledRate(_SHOWN_WINDOWS, _SHOWN_WINDOW_MS)
        self._throttle_times.record(throttle_ms, now_ms)
        self._throttles.record(1, now_ms)

    def throttle_time_ms(self, now_ms: int) -> float:
        """How long clients were made to wait in the last half minute to minute, on average."""
        if self._throttle_times is None or self._throttles is None:
            return 0.0
        times = self._throttles.per_second(now_ms)
        return self._throttle_times.per_second(now_ms) / times if times else 0.0
