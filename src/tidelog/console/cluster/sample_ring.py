"""Numbers at times, a bounded number of them: the newer, the finer.

    ring = SampleRing(120)
    ring.add(now_s, end_offset)
    ring.at(now_s - 60)                  # what it was a minute ago, interpolated; None before the first sample
    ring.time_after(offset)              # when the number went beyond `offset`

A run of equal numbers takes two places, so that a quiet partition remembers for long. A full ring gives up every second sample of
its older half.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Sequence


class SampleRing:
    __slots__ = ("_times", "_values", "capacity")

    def __init__(self, capacity: int) -> None:
        self.capacity = max(4, capacity)
        self._times = array("d")
        self._values = array("d")

    def __len__(self) -> int:
        return len(self._times)

    @property
    def first_s(self) -> float | None:
        return self._times[0] if self._times else None

    @property
    def last(self) -> float | None:
        return self._values[-1] if self._values else None

    def add(self, time_s: float, value: float) -> None:
        """The newest sample. One that is not newer than the last takes its place."""
        times, values = self._times, self._values
        if times and time_s <= times[-1]:
            values[-1] = value
            return
        if len(values) >= 2 and values[-1] == value and values[-2] == value:
            times[-1] = time_s
            return
        if len(times) >= self.capacity:
            self._thin()
        times.append(time_s)
        values.append(value)

    def clear(self) -> None:
        del self._times[:], self._values[:]

    def at(self, time_s: float) -> float | None:
        """The number at a time, on the line between two samples; after the last sample it is the last."""
        times, values = self._times, self._values
        if not times or time_s < times[0]:
            return None
        index = bisect_right(times, time_s) - 1
        if index + 1 >= len(times):
            return values[index]
        part = (time_s - times[index]) / (times[index + 1] - times[index])
        return values[index] + part * (values[index + 1] - values[index])

    def series(self, times_s: Sequence[float]) -> list[float | None]:
        return [self.at(each) for each in times_s]

    def time_after(self, value: float) -> float | None:
        """When a number that only grows went beyond `value`: on the line between the last sample that had not and the first that
        had. None where it still has not, or had before the first sample."""
        values, times = self._values, self._times
        after = bisect_right(values, value)
        if after in {0, len(values)}:
            return None
        before = after - 1
        part = (value - values[before]) / (values[after] - values[before])
        return times[before] + part * (times[after] - times[before])

    def rate(self, now_s: float, window_s: float) -> float | None:
        """By how much it grows a second, over a window or since the first sample. None with fewer than two samples."""
        times, values = self._times, self._values
        if len(times) < 2:
            return None
        start_s = max(times[0], now_s - window_s)
        begun = self.at(start_s)
        length_s = max(times[-1], now_s) - start_s
        return None if begun is None or length_s <= 0 else (values[-1] - begun) / length_s

    def since(self) -> float | None:
        """Since when the number is what it is, as far as remembered."""
        values = self._values
        if not values:
            return None
        index = len(values) - 1
        while index > 0 and values[index - 1] == values[-1]:
            index -= 1
        return self._times[index]

    def _thin(self) -> None:
        half = len(self._times) // 2
        del self._times[1:half:2], self._values[1:half:2]


def grid(first_s: float, last_s: float, points_max: int) -> list[float]:
    """Evenly spaced times, both ends among them, and no two of them in one second."""
    points = min(points_max, int(last_s - first_s) + 1)
    if points < 2:
        return [last_s]
    step = (last_s - first_s) / (points - 1)
    return [first_s + step * index for index in range(points)]
