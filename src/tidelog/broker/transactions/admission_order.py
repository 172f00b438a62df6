"""Keeps what a producer sends to a partition in its order while a coordinator is asked about its first records.

    order.next(producer_id, partitions, ask)     asks now; or once what the producer has sent to one of them before is settled

A producer has several requests under way on one connection. The first of a transaction waits for a coordinator, and once it is
let in its transaction is open, so that a later one needs no coordinator: it would be appended before those that still wait, with
a sequence number that the log takes for a gap. Kafka has no such order to keep, since it reads a connection's next request only
after it has answered the last one.

Where nothing waits, nothing is kept. How much can wait is limited by the unanswered requests of a connection.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial
from typing import Generic, TypeVar

from tidelog.model.pending import Pending
from tidelog.replication.partition import Partition

T = TypeVar("T")


class _Turn(Generic[T]):
    """One request. `ask` is None once it is asked about."""

    __slots__ = ("answer", "ask", "partitions")

    def __init__(self, partitions: Collection[Partition], ask: Callable[[], T | Pending[T]] | None) -> None:
        self.partitions = frozenset(partitions)
        self.ask = ask
        self.answer: Pending[T] = Pending()


class AdmissionOrder(Generic[T]):
    """The requests of each producer that are not settled yet, in the order in which they came."""

    def __init__(self) -> None:
        self._lines: dict[int, list[_Turn[T]]] = {}

    @property
    def waiting_count(self) -> int:
        return sum(map(len, self._lines.values()))

    def has(self, producer_id: int) -> bool:
        """Whether something of this producer waits."""
        return producer_id in self._lines

    def next(
        self, producer_id: int, partitions: Collection[Partition], ask: Callable[[], T | Pending[T]]
    ) -> T | Pending[T]:
        """What `ask` answers. Whoever reads the answer has used it up when that returns: the next in line follows at once."""
        line = self._lines.get(producer_id, [])
        if not all(turn.partitions.isdisjoint(partitions) for turn in line):
            turn = _Turn(partitions, ask)
            line.append(turn)
            return turn.answer
        asked = ask()
        if not isinstance(asked, Pending):
            return asked
        turn = _Turn(partitions, None)
        self._lines.setdefault(producer_id, []).append(turn)
        asked.then(partial(self._settled, producer_id, turn))
        return turn.answer

    def _settled(self, producer_id: int, turn: _Turn[T], answer: T) -> None:
        line = self._lines[producer_id]
        at = line.index(turn)
        del line[at]
        turn.answer.complete(answer)
        # Only what came later can have waited for it.
        self._go_on(producer_id, line, at)
        if not line:
            self._lines.pop(producer_id, None)

    def _go_on(self, producer_id: int, line: list[_Turn[T]], at: int) -> None:
        before: set[Partition] = set()
        for turn in line[:at]:
            before |= turn.partitions
        while at < len(line):
            turn = line[at]
            if turn.ask is not None and before.isdisjoint(turn.partitions):
                ask, turn.ask = turn.ask, None
                asked = ask()
                if not isinstance(asked, Pending):
                    del line[at]
                    turn.answer.complete(asked)
                    continue
                asked.then(partial(self._settled, producer_id, turn))
            before |= turn.partitions
            at += 1
