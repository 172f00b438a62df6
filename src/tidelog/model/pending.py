"""An answer that comes later: when a record is committed, an append reached all replicas, a time ran out.

    outcome = Pending[int]()
    outcome.then(print)           # at once if it is complete already
    outcome.complete(7)

Not a future: it has no loop, schedules nothing and costs two attributes. Whoever completes it runs the callback on its own
stack. It completes once; a later completion (an event that comes after the time-out) is ignored and says so by its result.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, NamedTuple, TypeVar, cast

T = TypeVar("T")
R = TypeVar("R")

_MISSING = object()


class Failed(NamedTuple):
    """In place of an answer: making it failed, which is a bug. Whoever asked is not to wait for it any longer."""

    error: Exception


class Pending(Generic[T]):
    """A value that is not there yet, for one reader."""

    __slots__ = ("_callback", "_value")

    def __init__(self) -> None:
        self._value: object = _MISSING
        self._callback: Callable[[T], object] | None = None

    @property
    def is_complete(self) -> bool:
        return self._value is not _MISSING

    @property
    def value(self) -> T:
        """What it was completed with. LookupError while it is not."""
        if self._value is _MISSING:
            raise LookupError("the answer is not there yet")
        return cast("T", self._value)

    def complete(self, value: T) -> bool:
        """Give the answer. False where one was given before; the first one stands."""
        if self._value is not _MISSING:
            return False
        self._value = value
        callback, self._callback = self._callback, None
        if callback is not None:
            callback(value)
        return True

    def then(self, callback: Callable[[T], object]) -> None:
        """Call `callback` with the answer: now, or when it comes. There is one callback."""
        if self._value is not _MISSING:
            callback(cast("T", self._value))
            return
        if self._callback is not None:
            raise RuntimeError("a pending answer has one reader")
        self._callback = callback


def when_all(outcomes: Sequence[T | Pending[T]], then: Callable[[list[T]], R]) -> R | Pending[R]:
    """`then` of all outcomes in their order: its result at once where none is pending, otherwise when the last one is there.

    Where `then` fails later, the result is `Failed`: it runs on the stack of whoever completes the last outcome, who has nothing
    to do with it.
    """
    waiting = [
        index for index, outcome in enumerate(outcomes) if isinstance(outcome, Pending) and not outcome.is_complete
    ]
    values = [
        outcome.value if isinstance(outcome, Pending) and outcome.is_complete else outcome for outcome in outcomes
    ]
    if not waiting:
        return then(cast("list[T]", values))
    result: Pending[R] = Pending()
    left = len(waiting)

    def arrived(index: int, value: T) -> None:
        nonlocal left
        values[index] = value
        left -= 1
        if left == 0:
            try:
                made: R | Failed = then(cast("list[T]", values))
            except Exception as error:  # noqa: BLE001 - whoever reads the result decides
                made = next((each for each in values if isinstance(each, Failed)), Failed(error))
            result.complete(cast("R", made))

    for index in waiting:
        outcome = cast("Pending[T]", outcomes[index])
        outcome.then(lambda value, index=index: arrived(index, value))  # type: ignore[misc]
    return result


def after(outcome: T | Pending[T], then: Callable[[T], R | Pending[R]]) -> R | Pending[R]:
    """What comes of an outcome, now or when it is there."""
    if not isinstance(outcome, Pending):
        return then(outcome)
    if outcome.is_complete:
        return then(outcome.value)
    result: Pending[R] = Pending()

    def arrived(value: T) -> None:
        made = then(value)
        if isinstance(made, Pending):
            made.then(result.complete)
        else:
            result.complete(made)

    outcome.then(arrived)
    return result
