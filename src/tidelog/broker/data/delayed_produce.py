"""A Produce with acks=all whose records are appended and wait for the other in-sync replicas."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from tidelog.model.errors import ErrorCode
from tidelog.model.pending import Pending
from tidelog.model.timers import Timers
from tidelog.wire.messages.produce import PartitionProduceResponse, ProduceResponse


class DelayedProduce:
    """Completes `answer` when every partition has its outcome, or when the time is over: REQUEST_TIMED_OUT for the rest then.

    The records of those stay in the log, and may be committed yet: the client asks again, and an idempotent one is told of the
    duplicate.
    """

    __slots__ = ("_response", "_timer", "_waiting", "answer")

    def __init__(
        self,
        response: ProduceResponse,
        waiting: Sequence[tuple[PartitionProduceResponse, Pending[ErrorCode]]],
        timers: Timers,
        timeout_ms: int,
    ) -> None:
        self.answer: Pending[ProduceResponse] = Pending()
        self._response = response
        # By their place, since entries that say the same are equal.
        self._waiting = {place: entry for place, (entry, _) in enumerate(waiting)}
        self._timer = timers.after(max(0, timeout_ms), self._expired)
        for place, (_, outcome) in enumerate(waiting):
            outcome.then(partial(self._committed, place))

    def _committed(self, place: int, error: ErrorCode) -> None:
        waiting = self._waiting
        entry = waiting.pop(place, None)
        if entry is None:
            return
        entry.error_code = error
        if not waiting:
            self._timer.cancel()
            self.answer.complete(self._response)

    def _expired(self) -> None:
        waiting, self._waiting = self._waiting, {}
        for entry in waiting.values():
            entry.error_code = ErrorCode.REQUEST_TIMED_OUT
        self.answer.complete(self._response)
