"""The connection to a broker that leads partitions: requests out, answers back, None where there is none to be understood.

A fetch may be held back by the leader for a while. What must not wait behind it gets a new connection: `reset`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import lru_cache
from struct import Struct as Layout
from typing import Protocol

from tidelog.net.errors import RequestFailedError
from tidelog.net.node_connection import Event, NodeConnection
from tidelog.wire.apis import api
from tidelog.wire.codec import encode
from tidelog.wire.errors import MalformedError
from tidelog.wire.frames import read_response
from tidelog.wire.messages.headers import RequestHeader
from tidelog.wire.schema import Request, Response

logger = logging.getLogger(__name__)

HostAndPort = tuple[str, int]

# API key, its version, correlation id.
_HEADER = Layout(">hhi")


class Dial(Protocol):
    """Makes the connection to an address, which comes about with the first request."""

    def __call__(self, host: str, port: int, on_event: Callable[[Event], None]) -> NodeConnection: ...


class LeaderLink:
    """One for each leader. `address` is asked anew whenever there is something to send: a broker may come back elsewhere."""

    def __init__(
        self,
        dial: Dial,
        address: Callable[[], HostAndPort | None],
        client_id: str,
        on_event: Callable[[Event], None] | None = None,
    ) -> None:
        self._dial = dial
        self._address = address
        self._client_id = client_id
        self._on_event = on_event or _ignore
        self._connection: NodeConnection | None = None

    def ask(self, request: Request, version: int, then: Callable[[Response | None], None], *, timeout_ms: int) -> bool:
        """Send a request; `then` is called once, with records that are valid during the call only. False, and no call, where
        nobody knows the leader's address."""
        address = self._address()
        if address is None:
            return False
        connection = self._connection
        if connection is None or connection.address != address:
            self.reset()
            connection = self._connection = self._dial(*address, self._on_event)
        api_key = request.api_key
        header = _HEADER.pack(api_key, version, connection.next_correlation_id())
        data = header + _header_end(api_key, version, self._client_id) + encode(request, version)

        def answered(received: memoryview | RequestFailedError) -> None:
            answer: Response | None = None
            if isinstance(received, RequestFailedError):
                logger.debug("%s: %s", api(api_key).name, received)
            else:
                try:
                    _, answer = read_response(received, api_key, version)
                except MalformedError as error:
                    logger.warning("a leader's answer cannot be read: %s", error)
            then(answer)

        connection.send([data], answered, timeout_ms=timeout_ms)
        return True

    def reset(self) -> None:
        """Close the connection; whoever waits for an answer gets None. The next request opens another one."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()


@lru_cache(maxsize=256)
def _header_end(api_key: int, version: int, client_id: str) -> bytes:
    """What follows the correlation id in a request's header."""
    header = RequestHeader(request_api_key=api_key, request_api_version=version, correlation_id=0, client_id=client_id)
    return encode(header, api(api_key).request_header_version(version))[_HEADER.size :]


def _ignore(_event: Event) -> None:
    """Nothing to do: what happens to a connection shows in the outcome of its requests."""
