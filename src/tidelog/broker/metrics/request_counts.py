# cython: annotation_typing=False, auto_pickle=False, binding=False, nonecheck=True
"""The counts of one API in one version, with their times: every request adds to them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

from tidelog.model.metrics import LATENCY_BOUNDS_MS
from tidelog.wire.typed.message import TypedMessage

if TYPE_CHECKING:
    from tidelog.wire.schema import Response

    Errors: TypeAlias = "defaultdict[int, int]"
    CountErrors: TypeAlias = "Callable[[Any, Errors], None]"

NS_PER_MS = 1_000_000
BOUNDS_NS = tuple(round(bound * NS_PER_MS) for bound in LATENCY_BOUNDS_MS)

# The same for this module alone: what C knows by its type, Python does not see.
_BOUNDS = BOUNDS_NS
_SUM_MAX = 2**62


class Times:
    """How often a time was at most each of `BOUNDS_NS`, as a `Histogram` that nothing but nanoseconds are put into."""

    __slots__ = ("_carried", "_sum", "counts")

    def __init__(self) -> None:
        self.counts = [0] * (len(BOUNDS_NS) + 1)
        self._sum = 0
        # What did not fit: those who wait side by side, a thousand of them, fill one of C's numbers in a hundred days.
        self._carried = 0

    @property
    def count(self) -> int:
        return sum(self.counts)

    @property
    def sum(self) -> int:
        return self._carried + self._sum

    def observe(self, elapsed_ns: int, count: int) -> None:
        """The same time, `count` times."""
        bounds = _BOUNDS
        # What `bisect_left` does, without objects to compare.
        place = 0
        end = len(bounds)
        while place < end:
            middle = (place + end) // 2
            bound = bounds[middle]
            if bound < elapsed_ns:
                place = middle + 1
            else:
                end = middle
        self.counts[place] += count
        self._sum += elapsed_ns * count
        if self._sum >= _SUM_MAX:
            self._carried += self._sum
            self._sum = 0


class RequestCounts:
    """The requests of one API in one version."""

    __slots__ = (
        "_count_errors",
        "_errors",
        "_none",
        "at_once",
        "local",
        "remote",
        "request_bytes",
        "response_bytes",
        "total",
        "waiting",
    )

    def __init__(self, count_errors: CountErrors) -> None:
        # Of answers at once; the other three are of those that waited. In nanoseconds: an integer is the cheaper sum.
        self.at_once = Times()
        self.local = Times()
        self.remote = Times()
        self.total = Times()
        self.request_bytes = 0
        self.response_bytes = 0
        # Requests whose answer is still to come.
        self.waiting = 0
        self._errors: Errors = defaultdict(int)
        # How often NONE was answered, and is not among the errors yet.
        self._none = 0
        self._count_errors = count_errors

    @property
    def errors(self) -> Errors:
        """How often each code was answered."""
        if self._none:
            self._errors[0] += self._none
            self._none = 0
        return self._errors

    @property
    def count(self) -> int:
        return self.at_once.count + self.total.count

    def answered(self, elapsed_ns: int, request_bytes: int, response_bytes: int, answer: Response) -> None:
        """A request was answered by its handler."""
        self.answered_together(1, elapsed_ns, request_bytes, response_bytes)
        self.count_errors(answer)

    def answered_together(
        self, count: int, elapsed_ns: int, request_bytes: int, response_bytes: int, without_error: int = 0
    ) -> None:
        """Several requests of one read were answered together, each after `elapsed_ns`. Their errors are counted apart, but for
        so many that are none."""
        self.at_once.observe(elapsed_ns, count)
        self.request_bytes += request_bytes
        self.response_bytes += response_bytes
        self._none += without_error

    def answered_later(
        self, local_ns: int, elapsed_ns: int, request_bytes: int, response_bytes: int, answer: Response
    ) -> None:
        """A request was answered by an event: `local_ns` of its time was spent in its handler, the rest on waiting."""
        self.waited(local_ns, elapsed_ns, request_bytes, response_bytes)
        self.count_errors(answer)

    def waited(
        self, local_ns: int, elapsed_ns: int, request_bytes: int, response_bytes: int, without_error: int = 0
    ) -> None:
        """The same of one whose errors are counted apart, but for so many that are none."""
        self.waiting -= 1
        self.local.observe(local_ns, 1)
        self.remote.observe(elapsed_ns - local_ns, 1)
        self.total.observe(elapsed_ns, 1)
        self.request_bytes += request_bytes
        self.response_bytes += response_bytes
        self._none += without_error

    def count_errors(self, answer: Response) -> None:
        """The error codes in an answer, where nothing else of it is to be counted."""
        if isinstance(answer, TypedMessage):
            typed = answer
            self._none += typed.count_errors(self._errors)
        else:
            self._count_errors(answer, self._errors)

    def unanswered(self, elapsed_ns: int, request_bytes: int) -> None:
        """A request that wants no answer was handled."""
        self.at_once.observe(elapsed_ns, 1)
        self.request_bytes += request_bytes
