# cython: annotation_typing=False, auto_pickle=False, binding=False, nonecheck=True
"""A connection that has to authenticate again one day (KIP-368): what stands before its ordinary handler until then.

The time is looked at once a read. SaslHandshake begins a re-authentication, at most once a second; any other request after the
end closes the connection without an answer.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, NamedTuple

from tidelog.model.principal import Principal
from tidelog.wire.apis import ApiKey

if TYPE_CHECKING:
    from tidelog.broker.security.sasl_listener import SaslListener
    from tidelog.net.connection import Connection

log = logging.getLogger(__name__)

REAUTHENTICATION_INTERVAL_NS_MIN = 1_000_000_000

_SASL_HANDSHAKE = int(ApiKey.SASL_HANDSHAKE)


class Authenticated(NamedTuple):
    """Who a connection is, and until when."""

    mechanism: str
    principal: Principal
    session_ends_ns: int


class SaslSession:
    """The frame handler of one connection whose session has an end."""

    __slots__ = (
        "_connection",
        "_dispatch",
        "_dispatcher",
        "_ends_ns",
        "_frames_done",
        "_is_looked_at",
        "_listener",
        "_now_ns",
        "_reauthenticated_ns",
        "_who",
    )

    def __init__(
        self, listener: SaslListener, connection: Connection, who: Authenticated, reauthenticated_ns: int | None
    ) -> None:
        """`reauthenticated_ns`: when the last re-authentication began, if there was one."""
        self._listener = listener
        self._dispatcher = listener.dispatcher
        self._dispatch = listener.dispatcher.frame
        self._frames_done = listener.dispatcher.frames_done
        self._connection = connection
        self._who = who
        self._ends_ns = who.session_ends_ns
        self._reauthenticated_ns = reauthenticated_ns
        self._now_ns = listener.clock.monotonic_ns
        # Of the read at hand: whether the time was looked at.
        self._is_looked_at = False

    def connection_opened(self, connection: Connection) -> None: ...

    def connection_closed(self, connection: Connection) -> None:
        self._dispatcher.connection_closed(connection)

    def frames_done(self, connection: Connection) -> None:
        self._is_looked_at = False
        self._frames_done(connection)

    def frame(self, connection: Connection, frame: memoryview) -> None:
        if len(frame) > 1 and frame[1] == _SASL_HANDSHAKE and not frame[0] and self._begin_again(connection):
            connection.handler.frame(connection, frame)
            return
        if not self._is_looked_at:
            self._is_looked_at = True
            if self._now_ns() >= self._ends_ns:
                self._expire(connection)
                return
        self._dispatch(connection, frame)

    def _begin_again(self, connection: Connection) -> bool:
        """False: too soon after the last time. The ordinary handler refuses it."""
        now_ns = self._now_ns()
        begun_ns = self._reauthenticated_ns
        if begun_ns is not None and now_ns - begun_ns < REAUTHENTICATION_INTERVAL_NS_MIN:
            return False
        # What came before it in this read is the old handler's, and is finished.
        self.frames_done(connection)
        self._listener.authenticate(connection, self._who)
        return True

    def _expire(self, connection: Connection) -> None:
        self._listener.counts(self._who.mechanism).expired_sessions_killed += 1
        log.info("closing %s: its session has ended, and it has not authenticated again", connection)
        connection.abort()
