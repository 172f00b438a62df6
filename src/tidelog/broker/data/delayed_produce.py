"""A Produce with acks=all whose records are appended and wait for the other in-sync replicas."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from tidelog.model.errors import ErrorCode
from tidelog.model.pending import Pending
from tidelog.model.timers import Timers
from tidelog.wire.messages.produce import PartitionProduceResponse, ProduceResponse

# The answer for one partition, and what completes it.
Waiting = tuple[PartitionProduceResponse, Pending[ErrorCode]]


class CommitWait:
    """Tells `done` once, when all outcomes are there or the time is over: the place of each that is not NONE, and its error."""

    __slots__ = ("_done", "_errors", "_timer", "_waiting")

    def __init__(
        self,
        waiting: Sequence[tuple[int, Pending[ErrorCode]]],
        timers: Timers,
        timeout_ms: int,
        done: Callable[[dict[int, ErrorCode]], None],
    ) -> None:
        self._done = done
        self._errors: dict[int, ErrorCode] = {}
        self._waiting = {place for place, _ in waiting}
        self._timer = timers.after(max(0, timeout_ms), self._expired)
        for place, outcome in waiting:
            outcome.then(partial(self._committed, place))

    def _committed(self, place: int, error: ErrorCode) -> None:
        waiting = self._waiting
        if place not in waiting:
            return
        waiting.remove(place)
        if error is not ErrorCode.NONE:
            self._errors[place] = error
        if not waiting:
            self._timer.cancel()
            self._done(self._errors)

    def _expired(self) -> None:
        waiting, self._waiting = self._waiting, set()
        for place in sorted(waiting):
            self._errors[place] = ErrorCode.REQUEST_TIMED_OUT
        self._done(self._errors)


def delayed_produce(
    response: ProduceResponse, waiting: Sequence[Waiting], timers: Timers, timeout_ms: int
) -> Pending[ProduceResponse]:
    """The answer, when every partition has its outcome, or when the time is over: REQUEST_TIMED_OUT for the rest then.

    The records of those stay in the log, and may be committed yet: the client asks again, and an idempotent one is told of the
    duplicate.
    """
    answer: Pending[ProduceResponse] = Pending()

    def done(errors: dict[int, ErrorCode]) -> None:
        for place, error in errors.items():
            waiting[place][0].error_code = error
        answer.complete(response)

    CommitWait([(place, outcome) for place, (_, outcome) in enumerate(waiting)], timers, timeout_ms, done)
    return answer
