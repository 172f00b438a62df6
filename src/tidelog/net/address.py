"""Addresses of peers and listeners."""

from __future__ import annotations

import ipaddress
from typing import NamedTuple

_MAPPED = "::ffff:"


class Address(NamedTuple):
    """A host, by name or number, and a port. Prints as people write it."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


NO_ADDRESS = Address("?", 0)


def java_host(host: str) -> str:
    """An address as Java prints it, which is how ACLs and descriptions of groups have it: the eight groups of an IPv6 address
    without leading zeros, none left out. What is no address stays as it is."""
    text, percent, scope = host.partition("%")
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return host
    if isinstance(address, ipaddress.IPv4Address):
        return str(address)
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return ":".join(f"{int(group, 16):x}" for group in address.exploded.split(":")) + percent + scope


def address_of(name: object) -> Address:
    """The address in what a socket calls its own or its peer's name.

    An IPv4 peer of a socket that serves both families counts as what it is: limits and logs go by that.
    """
    if not isinstance(name, tuple) or len(name) < 2:
        return NO_ADDRESS
    host, port = str(name[0]), int(name[1])
    if host.startswith(_MAPPED) and "." in host:
        host = host.removeprefix(_MAPPED)
    return Address(host, port)
