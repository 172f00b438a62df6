"""When brokers were last heard of: what the active controller knows beside the log.

Kept in memory only. A controller that takes over gives every broker a whole session before it fences one. But only a broker that
it has heard of itself keeps another life of the same broker from registering: after a restart of the whole cluster, or of a node
that is both, nobody has to wait for a session of the dead.
"""

from __future__ import annotations

from msgspec import Struct

from tidelog.model.ids import NO_OFFSET, BrokerEpoch, NodeId, Offset


class BrokerSession(Struct):
    """One registration of a broker, which its epoch identifies."""

    epoch: BrokerEpoch
    last_contact_ms: int
    is_heard: bool = False
    metadata_offset: Offset = NO_OFFSET
    # A stopping broker is let go once all others have followed the metadata up to here, and so know the new leaders.
    shutdown_offset: Offset | None = None


class BrokerSessions:
    """The sessions of all registered brokers. Times are those of the monotonic clock."""

    def __init__(self, timeout_ms: int) -> None:
        self._timeout_ms = timeout_ms
        self._sessions: dict[NodeId, BrokerSession] = {}

    def get(self, node: NodeId) -> BrokerSession | None:
        return self._sessions.get(node)

    def open(self, node: NodeId, epoch: BrokerEpoch, now_ms: int) -> BrokerSession:
        """A broker is registered: it has a session from now on, unless it has one."""
        session = self._sessions.get(node)
        if session is None or session.epoch != epoch:
            session = self._sessions[node] = BrokerSession(epoch, now_ms)
        return session

    def heard(
        self, node: NodeId, epoch: BrokerEpoch, now_ms: int, metadata_offset: Offset = NO_OFFSET
    ) -> BrokerSession:
        """A broker has registered or sent a heartbeat."""
        session = self.open(node, epoch, now_ms)
        session.last_contact_ms = now_ms
        session.is_heard = True
        session.metadata_offset = max(session.metadata_offset, metadata_offset)
        return session

    def forget(self, node: NodeId) -> None:
        self._sessions.pop(node, None)

    def is_alive(self, node: NodeId, epoch: BrokerEpoch, now_ms: int) -> bool:
        """Whether this controller has heard from that registration of the broker, and its session is not over."""
        session = self._sessions.get(node)
        if session is None or session.epoch != epoch or not session.is_heard:
            return False
        return now_ms - session.last_contact_ms <= self._timeout_ms

    def expires_ms(self, node: NodeId) -> int | None:
        """When a broker has been silent for too long."""
        session = self._sessions.get(node)
        return None if session is None else session.last_contact_ms + self._timeout_ms + 1

    def lowest_offset(self, nodes: list[NodeId]) -> Offset | None:
        """How far the slowest of some brokers has followed the metadata; None where there is none of them."""
        offsets = [session.metadata_offset for node in nodes if (session := self._sessions.get(node)) is not None]
        return min(offsets, default=None)
