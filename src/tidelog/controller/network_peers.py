"""The way to the other replicas of the metadata log over the network: one connection to each, Kafka's requests on it.

A request that is not answered in time, whose answer makes no sense, or whose connection breaks is answered by None: the quorum
has its own pauses and tries again. That a port is closed is told apart from all that: the process there is gone, and whoever
followed it need not wait for a time-out.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import Protocol

from tidelog.controller.quorum_fields import QuorumMessageError
from tidelog.controller.quorum_requests import request_to_wire, version_of
from tidelog.controller.quorum_responses import response_from_wire
from tidelog.model.ids import NodeId
from tidelog.net.errors import RequestFailedError
from tidelog.net.node_connection import Event, NodeConnection
from tidelog.raft.messages import Request, Response
from tidelog.raft.voter_set import Node
from tidelog.wire.apis import api
from tidelog.wire.codec import encode
from tidelog.wire.errors import MalformedError
from tidelog.wire.frames import read_response
from tidelog.wire.messages.headers import RequestHeader

logger = logging.getLogger(__name__)


class Dial(Protocol):
    """Makes the connection to an address, which is opened by the first request. `on_event` is called when it breaks or is
    refused.
    """

    def __call__(self, host: str, port: int, on_event: Callable[[Event], None]) -> NodeConnection: ...


class NetworkPeers:
    """`tidelog.controller.quorum.Peers` over the network. `close` it when the quorum has stopped."""

    def __init__(
        self,
        dial: Dial,
        *,
        listener: str,
        client_id: str,
        request_timeout_ms: int,
        on_refused: Callable[[NodeId], None],
    ) -> None:
        """`listener` is the one by which controllers talk to each other. `on_refused` hears of nodes whose port is closed."""
        self._dial = dial
        self._listener = listener
        self._client_id = client_id
        self._request_timeout_ms = request_timeout_ms
        self._on_refused = on_refused
        self._connections: dict[NodeId, NodeConnection] = {}
        self._is_closed = False

    def send(self, to: Node, request: Request, then: Callable[[Response | None], None]) -> None:
        if self._is_closed:
            return
        message = request_to_wire(request, timeout_ms=self._request_timeout_ms)
        version = version_of(message)
        connection = self._connection(to)
        header = RequestHeader(
            request_api_key=message.api_key,
            request_api_version=version,
            correlation_id=connection.next_correlation_id(),
            client_id=self._client_id,
        )
        parts = [encode(header, api(message.api_key).request_header_version(version)) + encode(message, version)]

        def answered(answer: memoryview | RequestFailedError) -> None:
            if self._is_closed:
                return
            if isinstance(answer, RequestFailedError):
                logger.debug("%s of node %d: %s", type(message).__name__, to.id, answer)
                then(None)
                return
            try:
                _, body = read_response(answer, message.api_key, version)
                response = response_from_wire(body, self._listener)
            except (MalformedError, QuorumMessageError) as error:
                logger.warning("node %d at %s:%d: %s", to.id, to.host, to.port, error)
                then(None)
                return
            then(response)

        connection.send(parts, answered, timeout_ms=self._request_timeout_ms)

    def close(self) -> None:
        """Nothing is sent, and nobody hears of anything, any more."""
        self._is_closed = True
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    def _connection(self, to: Node) -> NodeConnection:
        known = self._connections.get(to.id)
        if known is not None and known.address == (to.host, to.port):
            return known
        if known is not None:
            # The node has moved; whoever waits for an answer from where it was waits in vain.
            known.close()
        made = self._connections[to.id] = self._dial(to.host, to.port, partial(self._told, to.id))
        return made

    def _told(self, node_id: NodeId, event: Event) -> None:
        # Servers whose id nobody knows yet have a number of their own below zero, and no part in elections.
        if event is Event.REFUSED and node_id >= 0 and not self._is_closed:
            self._on_refused(node_id)
