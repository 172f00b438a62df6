"""The limits of a node's connections, as the configuration gives them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from tidelog.model import listener_config as keys
from tidelog.model.config import INT_MAX, ConfigValues

if TYPE_CHECKING:
    import ssl

# A peer that does not read what it asked for is not asked for more once this much waits for it. One answer may be larger.
OUTPUT_BYTES_MAX = 1024 * 1024


class ConnectionLimits(msgspec.Struct, frozen=True):
    """What one connection may use."""

    request_bytes_max: int = keys.SOCKET_REQUEST_MAX_BYTES.default
    unanswered_requests_max: int = keys.QUEUED_MAX_REQUESTS.default
    output_bytes_max: int = OUTPUT_BYTES_MAX
    idle_ms_max: int = keys.CONNECTIONS_MAX_IDLE_MS.default
    """Negative for no limit."""
    failed_authentication_delay_ms: int = keys.CONNECTION_FAILED_AUTHENTICATION_DELAY_MS.default


class BacklogLimits(msgspec.Struct, frozen=True):
    """How long connections with many requests at once may keep the others waiting, and what they may leave in memory."""

    # A round trip takes 0.1 to 0.2 ms while nothing else goes on: whoever sends one request at a time is to wait two or three
    # times as long for those who send thousands, not more.
    round_us_max: int = 250
    # Requests that are gathered cost most at the end of the read, when the time of the round is not looked at any more.
    round_requests_max: int = 128
    # Of one connection, before the next one's turn.
    slice_requests_max: int = 32
    # What has been read of the connections that wait, together; what is in the sockets is the system's.
    bytes_max: int = 32 * 1024 * 1024
    # Beyond that a read is of this size: enough for whoever sends one request at a time, and little for ten thousand others.
    little_read_bytes: int = 4 * 1024


class SocketOptions(msgspec.Struct, frozen=True):
    """What the operating system is asked for. A negative number of bytes leaves the choice to it."""

    backlog: int = keys.SOCKET_LISTEN_BACKLOG_SIZE.default
    send_buffer_bytes: int = keys.SOCKET_SEND_BUFFER_BYTES.default
    receive_buffer_bytes: int = keys.SOCKET_RECEIVE_BUFFER_BYTES.default
    ssl_context: ssl.SSLContext | None = None
    """For the loop's own TLS, which the metrics' port uses; listeners have `net.tls`."""


class NodeLimits(msgspec.Struct, frozen=True):
    """What all connections of a node may use together, and each of them."""

    connections_max: int = keys.MAX_CONNECTIONS.default
    connections_per_ip_max: int = keys.MAX_CONNECTIONS_PER_IP.default
    connections_per_ip_overrides: dict[str, int] = msgspec.field(default_factory=dict)
    connection: ConnectionLimits = ConnectionLimits()
    socket: SocketOptions = SocketOptions()
    backlog: BacklogLimits = BacklogLimits()

    def within(self, connections_max: int) -> NodeLimits:
        """The same, with so many connections at most."""
        return msgspec.structs.replace(self, connections_max=min(self.connections_max, connections_max))

    @classmethod
    def from_config(cls, values: ConfigValues) -> NodeLimits:
        """The limits that a node's configuration sets."""
        return cls(
            connections_max=values[keys.MAX_CONNECTIONS],
            connections_per_ip_max=values[keys.MAX_CONNECTIONS_PER_IP],
            connections_per_ip_overrides=keys.parse_connection_overrides(values[keys.MAX_CONNECTIONS_PER_IP_OVERRIDES]),
            connection=ConnectionLimits(
                request_bytes_max=values[keys.SOCKET_REQUEST_MAX_BYTES],
                unanswered_requests_max=values[keys.QUEUED_MAX_REQUESTS],
                idle_ms_max=values[keys.CONNECTIONS_MAX_IDLE_MS],
                failed_authentication_delay_ms=values[keys.CONNECTION_FAILED_AUTHENTICATION_DELAY_MS],
            ),
            socket=SocketOptions(
                backlog=values[keys.SOCKET_LISTEN_BACKLOG_SIZE],
                send_buffer_bytes=values[keys.SOCKET_SEND_BUFFER_BYTES],
                receive_buffer_bytes=values[keys.SOCKET_RECEIVE_BUFFER_BYTES],
            ),
        )


NO_CONNECTION_LIMIT = INT_MAX
