"""Where a request came from that another node has passed on: what handlers ask of a connection, as the envelope tells it."""

from __future__ import annotations

from tidelog.model.principal import Principal


class Forwarded:
    """Stands in a `Caller` for the client's own connection, which is another node's."""

    __slots__ = ("host", "is_controller_elsewhere", "listener_name", "principal")

    def __init__(self, principal: Principal, host: str, listener_name: str) -> None:
        """`host` in Java's form. `listener_name` is that of the controllers, where the request is decided."""
        self.principal = principal
        self.host = host
        self.listener_name = listener_name
        self.is_controller_elsewhere = False
        """Whether this node has turned out not to be the active controller, so that nothing of its answer counts."""

    def __str__(self) -> str:
        return f"a request of {self.principal} from {self.host}, passed on to {self.listener_name}"
