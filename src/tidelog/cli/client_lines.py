"""What the clients' log says, such as that a node is down, as lines on standard error while a command runs.

    tidelog consume: cannot connect to 127.0.0.1:9092: connection refused; trying again
    tidelog consume: 127.0.0.1:9092 is reached again

A command that cannot begin, because no node is reached, says why in a sentence of its own. Lines are therefore held back until it
has begun, unless that takes long: then a person is told what is waited for.
"""

from __future__ import annotations

import logging
import sys
from types import TracebackType
from typing import Self

from tidelog.cli.rendering import printable
from tidelog.model.clock import SystemClock

_CLIENTS = "tidelog.client"
# What connections log of a handshake is the command's own sentence when it fails.
_CONNECTIONS = "tidelog.net"

# Shorter than what clients wait before they say that a node is silent: the line that says so is not held back.
_HELD_BACK_MS = 1_000


class ClientLines(logging.Handler):
    """Inside a `with`. Records come from the clients' thread as well as from the command's own."""

    def __init__(self, command: str) -> None:
        super().__init__(logging.WARNING)
        self._command = command
        self._clock = SystemClock()
        self._held_until_ms = self._clock.monotonic_ms() + _HELD_BACK_MS
        self._held: list[str] = []
        self._nowhere = logging.NullHandler()

    def __enter__(self) -> Self:
        logging.getLogger(_CLIENTS).addHandler(self)
        logging.getLogger(_CONNECTIONS).addHandler(self._nowhere)
        return self

    def emit(self, record: logging.LogRecord) -> None:
        line = f"tidelog {self._command}: {printable(record.getMessage())}\n"
        if self._clock.monotonic_ms() < self._held_until_ms:
            self._held.append(line)
        else:
            sys.stderr.write(line)
            sys.stderr.flush()

    def begun(self) -> None:
        """A node was reached: print what was held back, and hold back nothing from now on."""
        self.acquire()
        try:
            self._held_until_ms = 0
            sys.stderr.writelines(self._held)
            sys.stderr.flush()
            self._held.clear()
        finally:
            self.release()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        logging.getLogger(_CLIENTS).removeHandler(self)
        logging.getLogger(_CONNECTIONS).removeHandler(self._nowhere)
