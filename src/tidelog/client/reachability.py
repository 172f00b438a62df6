"""Which nodes a client cannot reach, and why. The log has one line for each change, and none for further attempts.

    from \\ event    answered a greeting       a greeting failed, or is unanswered for SILENCE_S
    untried          up                        down: WARNING
    up               up                        down: WARNING
    down             up: WARNING               down, for the newest reason

A greeting is the first request on a connection; a connection that breaks is greeted anew at once, and only what comes of that
counts: a broker that closes an idle connection is not down. The clients of one loop, as all blocking clients of a process are,
share what was said of a node, and one that goes by two names (localhost and 127.0.0.1) is one node once both were connected to.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from weakref import WeakKeyDictionary, WeakSet

from tidelog.net.address import NO_ADDRESS, Address

log = logging.getLogger(__name__)

# A person who looks at a program that does nothing is told why before giving up on it. A healthy node answers in milliseconds.
SILENCE_S = 2.0

# Nodes that are gone for good are never heard of again; where each restart brings a new address, they would add up.
_REMEMBERED_MAX = 256


class _Said:
    """What the log says of the nodes that the clients of one loop talk to."""

    def __init__(self) -> None:
        # The nodes that are down, each with the clients that find it so. A closed client drops out.
        self._down: dict[Address, WeakSet[Reachability]] = {}

    def down(self, client: Reachability, peer: Address, sentence: str) -> None:
        holders = self._down.setdefault(peer, WeakSet())
        if not holders:
            log.warning("%s; trying again", sentence)
        holders.add(client)

    def up(self, peer: Address, address: Address) -> None:
        if self._down.pop(peer, None):
            log.warning("%s is reached again", address)

    def forget(self, client: Reachability, peer: Address) -> None:
        holders = self._down.get(peer)
        if holders is not None:
            holders.discard(client)
            if not holders:
                del self._down[peer]


_said_by_loop: WeakKeyDictionary[asyncio.AbstractEventLoop, _Said] = WeakKeyDictionary()


class Reachability:
    """The nodes of one client."""

    def __init__(self, loop: asyncio.AbstractEventLoop, bootstrap_servers: Iterable[Address]) -> None:
        self._said = _said_by_loop.setdefault(loop, _Said())
        self._bootstrap_servers = tuple(bootstrap_servers)
        self._peers: dict[Address, Address] = {}
        # The nodes that are down, those first that were so longest.
        self._reasons: dict[Address, str] = {}
        self.was_reached = False
        """Whether any node has ever answered."""

    def connected(self, address: Address, peer: Address) -> None:
        """A connection came about, to this peer. Whether a Kafka node answers on it has yet to be seen."""
        if peer != NO_ADDRESS:
            self._peers[address] = peer
            if len(self._peers) > _REMEMBERED_MAX:
                del self._peers[next(iter(self._peers))]

    def answered(self, address: Address) -> None:
        """The node is up."""
        self.was_reached = True
        self._reasons.pop(address, None)
        self._said.up(self._peer(address), address)

    def failed(self, address: Address, sentence: str) -> bool:
        """The node is down; the sentence names it and the reason. Whether that is news to this client."""
        is_news = address not in self._reasons
        self._reasons[address] = sentence
        self._said.down(self, self._peer(address), sentence)
        if len(self._reasons) > _REMEMBERED_MAX:
            self._forget(next(iter(self._reasons)))
        return is_news

    def is_down(self, address: Address) -> bool:
        return address in self._reasons

    def why(self, nodes: Iterable[Address]) -> str | None:
        """Why the client gets nowhere, as far as that is because of these nodes, which it would ask; None where it is not."""
        if not self.was_reached:
            reasons = [self._reasons.get(each, f"{each} has not answered yet") for each in self._bootstrap_servers]
            return f"no bootstrap server was reached: {'; '.join(reasons)}"
        return "; ".join(self._reasons[each] for each in dict.fromkeys(nodes) if each in self._reasons) or None

    def close(self) -> None:
        """The client is closed: it looks for its nodes no more."""
        for address in list(self._reasons):
            self._forget(address)

    def _forget(self, address: Address) -> None:
        del self._reasons[address]
        self._said.forget(self, self._peer(address))
        self._peers.pop(address, None)

    def _peer(self, address: Address) -> Address:
        return self._peers.get(address, address)
