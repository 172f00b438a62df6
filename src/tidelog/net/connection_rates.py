"""How fast connections come, and how long the next one has to wait: of a node, of a listener, of an address.

    what is exceeded                     what happens
    the rate of the node or a listener   the listener accepts nothing for a while; connections wait to be accepted. That of the
                                         cluster's own traffic does not wait for the node's rate
    the rate of an address               the connection is accepted, not served, and closed after a while. It does not count

No sockets: `SocketServer` asks, and acts. Kafka's `ConnectionQuotas`: nobody waits for longer than a window at a time.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping

from tidelog.model.config import INT_MAX
from tidelog.model.sampled_rate import SampledRate

NO_RATE = INT_MAX

# Addresses are the peers' to choose, where they have many. One takes a kilobyte; those that were unused for the longest go first.
ADDRESSES_MAX = 10_000
UNUSED_MS_MAX = 3_600_000


class ConnectionRates:
    """Counts connections as they come. Times are in milliseconds that never go back."""

    def __init__(self, windows: int = 11, window_ms: int = 1000) -> None:
        self._windows = windows
        self._window_ms = window_ms
        self._node = self._new()
        self._listeners: dict[str, SampledRate] = {}
        # By address, with the time of the last connection from it, in the order of these times.
        self._addresses: dict[str, tuple[SampledRate, int]] = {}
        self._of_addresses: Mapping[str | None, int] = {}

    def _new(self) -> SampledRate:
        return SampledRate(self._windows, self._window_ms)

    def limit_addresses(self, rates: Mapping[str | None, int]) -> None:
        """The rate of each address; of any other, that of None. What was counted stays."""
        self._of_addresses = {None if each is None else plain_address(each): rate for each, rate in rates.items()}

    @property
    def limits_addresses(self) -> bool:
        return bool(self._of_addresses)

    def from_address(self, address: str, now_ms: int) -> int:
        """One more from an address. Above 0: it is too much and was not counted, and has to wait for so long."""
        address = plain_address(address)
        of_all = self._of_addresses.get(None, NO_RATE)
        bound = self._of_addresses.get(address, of_all)
        if bound == NO_RATE:
            return 0
        known = self._addresses.pop(address, None)
        rate = self._new() if known is None else known[0]
        rate.record(1, now_ms)
        wait_ms = self._bounded(rate, bound, now_ms)
        if wait_ms:
            rate.record(-1, now_ms)
        self._addresses[address] = (rate, now_ms)
        self._forget_unused(now_ms)
        return wait_ms

    def accepted(self, listener: str, node_bound: int, listener_bound: int, now_ms: int) -> int:
        """One more on a listener. How long it has to wait before it accepts the next one. `NO_RATE` for no bound."""
        wait_ms = 0
        if node_bound != NO_RATE:
            self._node.record(1, now_ms)
            wait_ms = self._bounded(self._node, node_bound, now_ms)
        if listener_bound != NO_RATE:
            rate = self._listeners.get(listener)
            if rate is None:
                rate = self._listeners[listener] = self._new()
            rate.record(1, now_ms)
            wait_ms = max(wait_ms, self._bounded(rate, listener_bound, now_ms))
        return wait_ms

    def _bounded(self, rate: SampledRate, bound: int, now_ms: int) -> int:
        if bound <= 0:
            # Kafka divides by it, and waits for the longest time that it knows.
            return self._window_ms
        return min(rate.throttle_ms(bound, now_ms), self._window_ms)

    def _forget_unused(self, now_ms: int) -> None:
        while self._addresses:
            address = next(iter(self._addresses))
            if len(self._addresses) <= ADDRESSES_MAX and now_ms - self._addresses[address][1] <= UNUSED_MS_MAX:
                return
            del self._addresses[address]


def plain_address(text: str) -> str:
    """One spelling of an address, whichever way it is written. What is none stays as it is."""
    try:
        address = ipaddress.ip_address(text.removeprefix("[").removesuffix("]").partition("%")[0])
    except ValueError:
        return text
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(address)
