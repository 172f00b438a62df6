"""Which peers can be asked something now: one request at a time to each, a time-out, and a pause after a failure.

A request's id is remembered only as long as its answer is wanted. A change of role forgets all of them, so that an answer to a
question of an earlier role can never be taken for one of this role.
"""

from __future__ import annotations

from msgspec import Struct

from tidelog.model.ids import NodeId


class _Awaiting(Struct):
    request_id: int
    until_ms: int


class _BackingOff(Struct):
    until_ms: int


class Connections:
    """The state of the conversation with each peer. A peer without one can be asked."""

    def __init__(self, request_timeout_ms: int, retry_backoff_ms: int) -> None:
        self._request_timeout_ms = request_timeout_ms
        self._retry_backoff_ms = retry_backoff_ms
        self._peers: dict[NodeId, _Awaiting | _BackingOff] = {}
        self._request_id_last = 0

    @property
    def deadline_ms(self) -> int | None:
        """When the next peer becomes free to ask again."""
        return min((peer.until_ms for peer in self._peers.values()), default=None)

    @property
    def is_any_awaited(self) -> bool:
        return any(isinstance(peer, _Awaiting) for peer in self._peers.values())

    def is_ready(self, node_id: NodeId) -> bool:
        return node_id not in self._peers

    def is_backing_off(self, node_id: NodeId) -> bool:
        return isinstance(self._peers.get(node_id), _BackingOff)

    def sent(self, node_id: NodeId, now_ms: int) -> int:
        """Notes that a request leaves, and names it."""
        self._request_id_last += 1
        self._peers[node_id] = _Awaiting(self._request_id_last, now_ms + self._request_timeout_ms)
        return self._request_id_last

    def answered(self, request_id: int) -> NodeId | None:
        """The peer whose answer this is, which thereby is ready; None where the answer is not wanted any more."""
        node_id = self._awaited(request_id)
        if node_id is not None:
            del self._peers[node_id]
        return node_id

    def failed(self, request_id: int, now_ms: int) -> NodeId | None:
        """The peer that this request failed at, which thereby is left alone for a while."""
        node_id = self._awaited(request_id)
        if node_id is not None:
            self.back_off(node_id, now_ms)
        return node_id

    def back_off(self, node_id: NodeId, now_ms: int) -> None:
        self._peers[node_id] = _BackingOff(now_ms + self._retry_backoff_ms)

    def expire(self, now_ms: int) -> None:
        """Ends the pauses that are over, and begins one where an answer is overdue."""
        due = [(node_id, peer) for node_id, peer in self._peers.items() if peer.until_ms <= now_ms]
        for node_id, peer in due:
            if isinstance(peer, _Awaiting):
                self.back_off(node_id, now_ms)
            else:
                del self._peers[node_id]

    def reset(self) -> None:
        self._peers.clear()

    def _awaited(self, request_id: int) -> NodeId | None:
        for node_id, peer in self._peers.items():
            if isinstance(peer, _Awaiting) and peer.request_id == request_id:
                return node_id
        return None
