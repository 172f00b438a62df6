"""Where bugs end that stop the node: the exception handler of its event loop.

Whatever escapes from a callback of the loop comes here: from a timer, from slow work that is done, from a connection, and what
`ClusterLinks` reports. `tidelog.model.bugs` says what does and what does not. Without this the loop would log it and go on, with
a follower that never fetches again or a coordinator that forgot half of a decision.

The operating system's errors are no bugs: a loop reports, for instance, that there was no descriptor left to accept with. What
escapes from the protocol of a connection, and is no `BugError`, has ended that connection, be it a client's or a scraper's: the
loop sees to it.

Nodes that share a loop, as those of an embedded cluster do, stop together: a callback does not say whose it is.
"""

from __future__ import annotations

import asyncio
import traceback
from typing import Any, Protocol, Self


class Crashing(Protocol):
    """A node that can be stopped for a bug."""

    def crash(self, where: str, error: BaseException) -> None: ...


class CrashHandler:
    """One for each loop that nodes live on."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._nodes: list[Crashing] = []
        self._former = loop.get_exception_handler()

    @classmethod
    def of(cls, loop: asyncio.AbstractEventLoop) -> Self:
        """The handler of a loop, which gets one where it has none."""
        handler: object = loop.get_exception_handler()
        if not isinstance(handler, cls):
            handler = cls(loop)
            loop.set_exception_handler(handler)
        return handler

    def add(self, node: Crashing) -> None:
        """Stop `node` for what comes here from now on. One that has stopped does not mind."""
        self._nodes.append(node)

    def remove(self, node: Crashing) -> None:
        if node in self._nodes:
            self._nodes.remove(node)

    def __call__(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error: BaseException | None = context.get("exception")
        is_connections = "protocol" in context and isinstance(error, Exception)
        if error is None or isinstance(error, OSError) or is_connections or not self._nodes:
            if self._former is None:
                loop.default_exception_handler(context)
            else:
                self._former(loop, context)
            return
        where = place_of(error)
        for node in [*self._nodes]:
            node.crash(where, error)


def place_of(error: BaseException) -> str:
    """Where an exception was first raised: file, line and function."""
    while error.__cause__ is not None:
        error = error.__cause__
    frames = traceback.extract_tb(error.__traceback__)
    if not frames:
        return "nobody knows where"
    last = frames[-1]
    return f"{last.filename.rpartition('/')[2]}:{last.lineno}, {last.name}"
