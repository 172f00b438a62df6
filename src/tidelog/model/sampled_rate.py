# cython: annotation_typing=False, auto_pickle=False, binding=False, nonecheck=True
"""A rate over windows of time, and how long whoever is above a bound has to wait: the arithmetic of Kafka's quotas.

    rate = SampledRate(windows=11, window_ms=1000)
    rate.record(20_000, now_ms)
    rate.throttle_ms(1_000.0, now_ms)      # 10_000

Kafka's `Rate` over `WindowedSum`, and `QuotaUtils.throttleTime`, to the millisecond: tests compare with traces of the originals.
Recording comes first, so that one large amount passes and is paid for afterwards. The time never goes back.
"""

from __future__ import annotations

from math import floor

# What the field of an answer holds that tells it. Kafka cuts off the upper bits instead, and may let off whoever is far above.
THROTTLE_MS_MAX = 2**31 - 1


# Of a second in milliseconds, less what additions in another order may differ by.
_WELL_BELOW = 0.999 / 1000.0


class _Sample:
    """What was recorded in one window."""

    __slots__ = ("last_ms", "start_ms", "value")

    def __init__(self, now_ms: int) -> None:
        self.start_ms = now_ms
        self.last_ms = now_ms
        self.value = 0.0

    def reset(self, now_ms: int) -> None:
        self.start_ms = now_ms
        self.last_ms = now_ms
        self.value = 0.0


class SampledRate:
    """Amounts by the second. A window begins with the first amount after the one before has ended."""

    __slots__ = ("_at_most", "_current", "_samples", "_window_ms", "_windows")

    def __init__(self, windows: int, window_ms: int) -> None:
        self._windows = windows
        self._window_ms = window_ms
        # One more than there are windows: the oldest may reach into the time that is looked at.
        self._samples: list[_Sample] = []
        self._current = 0
        # No more than this was recorded in the windows that count: what was found when they were last added up, and all since.
        self._at_most = 0.0

    def record(self, value: float, now_ms: int) -> None:
        """A negative value takes back what was recorded at the same moment."""
        samples = self._samples
        if not samples:
            samples.append(_Sample(now_ms))
        sample = samples[self._current]
        if now_ms - sample.start_ms >= self._window_ms:
            sample = self._next(now_ms)
        sample.value += value
        sample.last_ms = now_ms
        if value > 0:
            self._at_most += value

    def _next(self, now_ms: int) -> _Sample:
        samples = self._samples
        self._current = (self._current + 1) % (self._windows + 1)
        if self._current >= len(samples):
            samples.append(_Sample(now_ms))
        sample = samples[self._current]
        sample.reset(now_ms)
        return sample

    def _purge(self, now_ms: int) -> None:
        oldest_ms = now_ms - self._windows * self._window_ms
        for sample in self._samples:
            if sample.last_ms <= oldest_ms:
                sample.reset(now_ms)

    def per_second(self, now_ms: int) -> float:
        self._purge(now_ms)
        # Not `sum`, which rounds otherwise than Java's addition.
        total = 0.0
        for sample in self._samples:
            total += sample.value
        return total / (self.elapsed_ms(now_ms) / 1000.0)

    def _positive(self) -> float:
        total = 0.0
        for sample in self._samples:
            if sample.value > 0:
                total += sample.value
        return total

    def elapsed_ms(self, now_ms: int) -> int:
        """The time that the rate is of: since the oldest window began, but at least all whole windows and a part of this one.

        With less, a client that has only begun would have a very high rate.
        """
        self._purge(now_ms)
        if not self._samples:
            self._samples.append(_Sample(now_ms))
        oldest_ms = now_ms
        for sample in self._samples:
            oldest_ms = min(oldest_ms, sample.start_ms)
        elapsed_ms = now_ms - oldest_ms
        missing = self._windows - 1 - elapsed_ms // self._window_ms
        if missing > 0:
            elapsed_ms += missing * self._window_ms
        return max(elapsed_ms, 1)

    def throttle_ms(self, bound: float, now_ms: int) -> int:
        """How long nothing may be recorded for the rate to come down to the bound. 0: it is not above it."""
        if self._at_most < bound * (self._windows - 1) * self._window_ms * _WELL_BELOW:
            # The rate is of this time at least, so that the windows need not be added up to know it.
            return 0
        rate = self.per_second(now_ms)
        self._at_most = self._positive()
        if not rate > bound:
            return 0
        # rate x elapsed / (elapsed + wait) = bound
        wait_ms = (rate - bound) / bound * self.elapsed_ms(now_ms)
        return min(floor(wait_ms + 0.5), THROTTLE_MS_MAX) if wait_ms < THROTTLE_MS_MAX else THROTTLE_MS_MAX
