"""The sockets of an event loop that took nothing more, and who is told when they take bytes again.

    sockets = writable_sockets(loop)
    sockets.watch(descriptor, tell)         # `tell()` each time the loop goes round and the socket takes bytes
    sockets.unwatch(descriptor)             # before the descriptor is closed: its number may be another's then

Neither uvloop nor asyncio lets anyone else wait for the descriptor of a transport, and a duplicate of it would make a connection
cost two. So the sockets that wait are in a selector of our own, whose descriptor the loop waits for like for any other: one more
for a loop, however many its connections are.
"""

from __future__ import annotations

import asyncio
import selectors
import weakref
from collections.abc import Callable


class WritableSockets:
    """One for an event loop, to which it must not refer: it ends with it."""

    __slots__ = ("__weakref__", "_selector")

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()

    def watch(self, descriptor: int, tell: Callable[[], None]) -> None:
        self._selector.register(descriptor, selectors.EVENT_WRITE, tell)

    def unwatch(self, descriptor: int) -> None:
        self._selector.unregister(descriptor)

    def descriptor(self) -> int:
        """What the loop waits for."""
        return self._selector.fileno()

    def tell(self) -> None:
        """Some sockets take bytes again, or are broken, which a write will find out."""
        for key, _ in self._selector.select(0):
            key.data()

    def close(self) -> None:
        self._selector.close()


_by_loop: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, WritableSockets] = weakref.WeakKeyDictionary()


def writable_sockets(loop: asyncio.AbstractEventLoop) -> WritableSockets:
    """Those of this loop."""
    sockets = _by_loop.get(loop)
    if sockets is None:
        sockets = WritableSockets()
        loop.add_reader(sockets.descriptor(), sockets.tell)
        _by_loop[loop] = sockets
        weakref.finalize(loop, sockets.close)
    return sockets
