# cython: annotation_typing=False, auto_pickle=False, binding=False, nonecheck=True
"""Gathers what is answered in one turn of the event loop, so that each connection writes once.

A read may hold many requests, and one request may complete the waiting answers of many connections. While a turn is open,
connections with something to send are noted; when it ends, each sends everything at once. Outside of a turn they send at
once. An owner of other events (a timer, a commit) opens a turn around what it completes:

    with turn:
        for slot in waiting:
            slot.send(...)
"""

from __future__ import annotations

import logging
from types import TracebackType
from typing import TYPE_CHECKING, Protocol

from tidelog.model.bugs import BugError

log = logging.getLogger(__name__)

if TYPE_CHECKING:

    class Flushable(Protocol):
        """A connection with something to send."""

        def flush(self) -> None: ...

        def abort(self, error: BaseException | None = None) -> None: ...


class Turn:
    """One for all connections of an event loop. Turns nest; the outermost counts."""

    __slots__ = ("_depth", "_waiting", "is_open")

    def __init__(self) -> None:
        self.is_open = False
        self._depth = 0
        self._waiting: list[Flushable] = []

    def flush_later(self, connection: Flushable) -> None:
        """Notes a connection for the end of the turn. It may be closed by then."""
        self._waiting.append(connection)

    def __enter__(self) -> None:
        self._begin()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def _begin(self) -> None:
        self._depth += 1
        self.is_open = True

    def _end(self) -> None:
        if self._depth <= 0:
            raise BugError("a turn ends that has not begun")
        try:
            if self._depth == 1:
                # Still inside of the turn: whatever a flush brings about is part of it.
                while self._waiting:
                    waiting = self._waiting
                    self._waiting = []
                    for connection in waiting:
                        try:
                            connection.flush()
                        except Exception as error:
                            # Those behind it count on this flush, and are not to be left out for it.
                            log.exception("%s: closed: what was answered could not be sent", connection)
                            connection.abort(error)
        finally:
            self._depth -= 1
            self.is_open = self._depth > 0
