"""How many connections a node has, and whether there may be one more.

    what is reached                      a further connection
    a listener's own limit               waits to be accepted
    the node's limit                     waits to be accepted; on the listener of the cluster's own traffic it is accepted, and
                                         the longest idle connection of another listener is closed for it
    the limit of its address             is closed at once

No sockets: `SocketServer` asks, and acts.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from tidelog.net.limits import NO_CONNECTION_LIMIT


class Admission(Enum):
    """What happens to a connection that has been accepted by the operating system."""

    ADMITTED = "admitted"
    ADMITTED_FOR_ANOTHER = "admitted, and another is to be closed for it"
    REFUSED = "too many from its address"


class ConnectionQuota:
    """Counts connections by listener and by address. `release` undoes one admission."""

    def __init__(self, connections_max: int, per_ip_max: int, per_ip_overrides: dict[str, int]) -> None:
        self.connections_max = connections_max
        self.per_ip_max = per_ip_max
        self.per_ip_overrides = per_ip_overrides
        self.count = 0
        self._listener_max: dict[str, int] = {}
        self._listener_count: dict[str, int] = {}
        self._ip_count: dict[str, int] = {}
        self._protected: set[str] = set()

    def add_listener(self, name: str, connections_max: int = NO_CONNECTION_LIMIT, *, protected: bool = False) -> None:
        """`protected` is the listener of the cluster's own traffic: a full node must still be able to replicate."""
        self._listener_max[name] = connections_max
        self._listener_count.setdefault(name, 0)
        if protected:
            self._protected.add(name)

    def limit_listeners(self, connections_max: Mapping[str, int]) -> None:
        """How many connections each of these listeners may have from now on."""
        self._listener_max.update(connections_max)

    def is_protected(self, listener_name: str) -> bool:
        """A node with a single listener has nothing to protect it from."""
        return listener_name in self._protected and len(self._listener_max) > 1

    def has_room(self, listener_name: str) -> bool:
        """Whether the listener may accept at all now."""
        if self._listener_count[listener_name] >= self._listener_max[listener_name]:
            return False
        return self.is_protected(listener_name) or self.count < self.connections_max

    def admit(self, listener_name: str, ip: str) -> Admission:
        """Counts one more connection, unless its address has too many."""
        if self._ip_count.get(ip, 0) >= self.per_ip_overrides.get(ip, self.per_ip_max):
            return Admission.REFUSED
        self._ip_count[ip] = self._ip_count.get(ip, 0) + 1
        self._listener_count[listener_name] += 1
        self.count += 1
        return Admission.ADMITTED if self.count <= self.connections_max else Admission.ADMITTED_FOR_ANOTHER

    def release(self, listener_name: str, ip: str) -> None:
        left = self._ip_count[ip] - 1
        if left:
            self._ip_count[ip] = left
        else:
            del self._ip_count[ip]
        self._listener_count[listener_name] -= 1
        self.count -= 1

    def connections_from(self, ip: str) -> int:
        return self._ip_count.get(ip, 0)
