"""The configuration keys of a node's sockets: how large a request may be, how many connections there may be, how long they last.

Names, defaults and ranges are those of Apache Kafka 4.3. Only keys that some code acts on are declared.
"""

from __future__ import annotations

from tidelog.model.config import INT_MAX, ConfigKeys, UpdateMode, int_key, long_key, string_key


def _overrides_problem(text: str) -> str | None:
    try:
        parse_connection_overrides(text)
    except ValueError as problem:
        return str(problem)
    return None


def parse_connection_overrides(text: str) -> dict[str, int]:
    """The hosts and numbers of `max.connections.per.ip.overrides`. ValueError says in half a sentence what is wrong."""
    overrides = {}
    for each in filter(None, (part.strip() for part in text.split(","))):
        # An IPv6 address has colons of its own; the number is behind the last.
        host, _, number = each.rpartition(":")
        host = host.strip().removeprefix("[").removesuffix("]")
        if not host or not (number.strip().isascii() and number.strip().isdigit()) or int(number) > INT_MAX:
            raise ValueError(f"{each!r} is not a host and a number, as in 127.0.0.1:200")
        overrides[host] = int(number)
    return overrides


CONNECTION_FAILED_AUTHENTICATION_DELAY_MS = int_key(
    "connection.failed.authentication.delay.ms",
    100,
    at_least=0,
    doc="How long a connection whose authentication has failed stays open, so that trying again at once does not pay.",
)
CONNECTIONS_MAX_IDLE_MS = long_key(
    "connections.max.idle.ms",
    10 * 60 * 1000,
    doc="After how long without traffic a connection is closed; a negative number for never.",
)
# Also with a listener's prefix: then it is that listener's alone, beside the node's.
MAX_CONNECTIONS = int_key(
    "max.connections",
    INT_MAX,
    at_least=0,
    update_mode=UpdateMode.CLUSTER_WIDE,
    doc="How many connections the node accepts at a time; with a listener's prefix, how many that listener does. Further ones "
    "wait until one closes.",
)
MAX_CONNECTIONS_PER_IP = int_key(
    "max.connections.per.ip",
    INT_MAX,
    at_least=0,
    update_mode=UpdateMode.CLUSTER_WIDE,
    doc="How many connections the node accepts from one address at a time. Further ones are closed at once.",
)
MAX_CONNECTIONS_PER_IP_OVERRIDES = string_key(
    "max.connections.per.ip.overrides",
    "",
    update_mode=UpdateMode.CLUSTER_WIDE,
    valid=_overrides_problem,
    doc="Addresses or host names with a limit of their own, as in `hostName:100,127.0.0.1:200`.",
)
QUEUED_MAX_REQUESTS = int_key(
    "queued.max.requests",
    500,
    at_least=1,
    doc="How many requests of one connection may wait for their answers before no more is read from it.",
)
# Kafka's default is 50, with a thread that does nothing but accept. Here the thread that serves accepts too, between requests:
# of six hundred clients that come at once most found no room, and tried again after a second.
SOCKET_LISTEN_BACKLOG_SIZE = int_key(
    "socket.listen.backlog.size",
    1024,
    at_least=1,
    doc="How many connections may wait to be accepted. The system may have a lower limit.",
)
# Kafka's default is 102400. Left to the system, the buffer grows with the connection, and a large request comes in fewer reads:
# a fifth less CPU for the same records.
SOCKET_RECEIVE_BUFFER_BYTES = int_key(
    "socket.receive.buffer.bytes",
    -1,
    doc="How much the system buffers of what a connection receives; -1 leaves it to the system.",
)
SOCKET_REQUEST_MAX_BYTES = int_key(
    "socket.request.max.bytes",
    100 * 1024 * 1024,
    at_least=1,
    doc="How large a request may be. A connection that announces a larger one is closed.",
)
SOCKET_SEND_BUFFER_BYTES = int_key(
    "socket.send.buffer.bytes",
    100 * 1024,
    doc="How much the system buffers of what a connection sends; -1 leaves it to the system.",
)

LISTENER_CONFIG_KEYS = ConfigKeys(
    [
        CONNECTION_FAILED_AUTHENTICATION_DELAY_MS,
        CONNECTIONS_MAX_IDLE_MS,
        MAX_CONNECTIONS,
        MAX_CONNECTIONS_PER_IP,
        MAX_CONNECTIONS_PER_IP_OVERRIDES,
        QUEUED_MAX_REQUESTS,
        SOCKET_LISTEN_BACKLOG_SIZE,
        SOCKET_RECEIVE_BUFFER_BYTES,
        SOCKET_REQUEST_MAX_BYTES,
        SOCKET_SEND_BUFFER_BYTES,
    ]
)
