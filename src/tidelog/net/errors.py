"""What can go wrong on a connection.

NetError
├── FrameError              the peer sent a size that is negative or beyond the limit
├── RegionLostError         a file region to send is shorter than was promised
├── ListenError             an address cannot be listened on
└── RequestFailedError      a request to another node got no answer
    ├── ConnectFailedError      the node refused the connection or was not reached
    ├── ConnectionLostError     the connection broke while the answer was awaited
    ├── AuthenticationError     the node, or this side, did not accept who the other is
    ├── RequestTimedOutError    no answer within the request's time
    ├── TooManyRequestsError    the connection has all the unanswered requests that it may have
    └── ConnectionClosedError   this side closed the connection
"""

from __future__ import annotations


class NetError(Exception):
    """Any fault of a connection. The text is a sentence for a log."""


class FrameError(NetError):
    """The bytes of a peer are not frames. Nothing after them can be trusted."""


class RegionLostError(NetError):
    """A file is shorter than the region that was to be sent. Its length is already on the wire."""


class ListenError(NetError):
    """An address cannot be listened on: in use, not of this machine, not allowed."""


class RequestFailedError(NetError):
    """A request will get no answer. Whether the node acted on it is unknown, unless the class says more."""


class ConnectFailedError(RequestFailedError):
    """No connection came about, so the request was never sent. `refused`: the host answered, but nothing listens there."""

    def __init__(self, message: str, *, refused: bool) -> None:
        super().__init__(message)
        self.refused = refused


class ConnectionLostError(RequestFailedError):
    """The connection broke: the node closed it, died, or sent what no request asked for."""


class AuthenticationError(RequestFailedError):
    """One side did not accept who the other is: its certificate, or its login. The request was never sent."""


class RequestTimedOutError(RequestFailedError):
    """The answer did not come in time. The connection was closed, because later answers are behind this one."""


class TooManyRequestsError(RequestFailedError):
    """The request was not sent: as many as may be are unanswered already."""


class ConnectionClosedError(RequestFailedError):
    """This side closed the connection."""


# The first four bytes of what other protocols send, where a frame has its size.
_HTTP_REQUESTS = (b"GET ", b"HEAD", b"POST", b"PUT ", b"DELE", b"CONN", b"OPTI", b"TRAC", b"PATC", b"PRI ")
_OTHERS = {
    b"HTTP": "an HTTP response",
    b"SSH-": "the greeting of an SSH client or server",
    **dict.fromkeys(_HTTP_REQUESTS, "an HTTP request"),
}
# The types of TLS records that open a connection or refuse one; then 3 and a minor version (RFC 8446, 5.1).
_TLS_RECORDS = {
    0x16: "the start of a TLS connection (is security.protocol=SSL set for a listener without TLS?)",
    0x15: "a TLS alert (does the listener there want TLS?)",
}
_TLS_MAJOR = 3


def not_a_frame(size: int, frame_bytes_max: int) -> FrameError:
    """The error for a size that no frame can have. Says what its four bytes are in another protocol, where one is known."""
    what = other_protocol(size.to_bytes(4, "big", signed=True))
    if what is None:
        return FrameError(f"a frame of {size} bytes, where 0 to {frame_bytes_max} are allowed")
    return FrameError(f"{what}, where a frame of the Kafka protocol was to come")


def other_protocol(first: bytes) -> str | None:
    """What the first four bytes of a connection are in another protocol, where one is known."""
    if len(first) < 4:
        return None
    return _OTHERS.get(first) or (_TLS_RECORDS.get(first[0]) if first[1] == _TLS_MAJOR else None)
