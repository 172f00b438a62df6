"""What can go wrong on a connection.

NetError
├── FrameError              the peer sent a size that is negative or beyond the limit
├── RegionLostError         a file region to send is shorter than was promised
├── ListenError             an address cannot be listened on
└── RequestFailedError      a request to another node got no answer
    ├── ConnectFailedError      the node refused the connection or was not reached
    ├── ConnectionLostError     the connection broke while the answer was awaited
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


class RequestTimedOutError(RequestFailedError):
    """The answer did not come in time. The connection was closed, because later answers are behind this one."""


class TooManyRequestsError(RequestFailedError):
    """The request was not sent: as many as may be are unanswered already."""


class ConnectionClosedError(RequestFailedError):
    """This side closed the connection."""
