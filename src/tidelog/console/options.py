"""What a console is told at its start."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

DEFAULT_PORT = 8080
DEFAULT_HOST = "127.0.0.1"
LOOPBACK_HOSTS = frozenset({"127.0.0.1", "::1", "localhost"})


class ClusterOptions(NamedTuple):
    """One cluster of a console."""

    name: str
    bootstrap: str
    settings: Mapping[str, Any]
    """Keyword arguments of its clients: TLS, and the login of the one user (`fixed_user`), if any."""
    fixed_user: str | None = None
    """Everybody is this user; None: each person logs in, where the cluster asks for it."""
    trace_urls: Mapping[int, str] = {}
    """The HTTP endpoints of nodes that do not tell theirs."""
    registry: str | None = None
    """The URL of a schema registry, for Avro and Protobuf."""

    @property
    def protocol(self) -> str:
        return str(self.settings.get("security_protocol", "PLAINTEXT")).upper()

    @property
    def needs_login(self) -> bool:
        return self.fixed_user is None and self.protocol.startswith("SASL_")

    @property
    def mechanism(self) -> str | None:
        """The one that people log in with, where it is told; else they choose."""
        mechanism = self.settings.get("sasl_mechanism")
        return None if mechanism is None else str(mechanism).upper()


class ConsoleOptions(NamedTuple):
    clusters: Sequence[ClusterOptions]
    host: str = DEFAULT_HOST
    port: int = DEFAULT_PORT
    """0 is any that is free."""
    is_read_only: bool = False
    allowed_hosts: Sequence[str] = ()
    """Names, beside its own, under which the console may be asked for."""
    audit_file: str | None = None
    tls_certificate: str | None = None
    tls_key: str | None = None
    play_fd: int | None = None
    """The socket to the `tidelog up` that started this console, which may hold, kill and start its nodes for it."""

    trace_token: str | None = None
    """What nodes want to see before they tell; sent by TLS alone."""
    trace_authorities: str | None = None
    """A file of certificates in PEM that nodes' endpoints are trusted by, instead of the system's."""

    @property
    def is_loopback(self) -> bool:
        return self.host in LOOPBACK_HOSTS
