"""How fast compaction may read and write: `log.cleaner.io.max.bytes.per.second`, on average over all cleanings of a node.

Nothing sleeps. After each piece of work a cleaning asks how long it has to wait before the next, and pieces are the smaller the
lower the limit is, so that the waits are short.
"""

from __future__ import annotations

from collections.abc import Callable

from tidelog.model.clock import Clock

# Some milliseconds of work: short enough for a stop to wait for, long enough for the hand-over not to count.
PIECE_BYTES_MAX = 8 * 1024 * 1024
# Less than this is not read at a time anyway.
PIECE_BYTES_MIN = 64 * 1024
# A piece is what a tenth of a second allows.
PIECES_PER_SECOND = 10
# A limit of nothing is a limit of next to nothing: a cleaning that waited for ever would hold its log for ever.
BYTES_PER_SECOND_MIN = 1.0
WAIT_MS_MAX = 60_000


class CleanerThrottle:
    """One for all cleanings. `bytes_per_second` is asked each time: the limit changes at run time."""

    def __init__(self, clock: Clock, bytes_per_second: Callable[[], float]) -> None:
        self._clock = clock
        self._bytes_per_second = bytes_per_second
        self._free_ms: float = 0.0

    @property
    def piece_bytes(self) -> int:
        """How much to do before the next question."""
        share = min(self._bytes_per_second() / PIECES_PER_SECOND, PIECE_BYTES_MAX)
        return max(int(share), PIECE_BYTES_MIN)

    def delay_ms(self, count: int) -> int:
        """How long to wait after so many bytes were read and written. What was not used does not add up."""
        now_ms = self._clock.monotonic_ms()
        rate = max(self._bytes_per_second(), BYTES_PER_SECOND_MIN)
        self._free_ms = min(max(self._free_ms, now_ms) + count * 1000 / rate, now_ms + WAIT_MS_MAX)
        return int(self._free_ms - now_ms)
