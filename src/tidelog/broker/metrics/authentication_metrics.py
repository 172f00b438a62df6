"""What is counted of SASL, by listener and mechanism. Kafka has the same under socket-server-metrics, for each network thread."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from tidelog.model.metrics import Kind, Reading, Registry

PREFIX = "tidelog_sasl_"

# Of whoever failed before naming a mechanism, or with one that is not enabled. What a client makes up is no label.
NO_MECHANISM = "none"

COUNTERS = {
    "successful_authentication": "Clients that have authenticated.",
    "failed_authentication": "Clients that have tried to authenticate and failed.",
    "successful_reauthentication": "Clients that have authenticated again on a connection.",
    "failed_reauthentication": "Clients that have tried to authenticate again and failed.",
    "successful_authentication_no_reauth": "Clients that have authenticated and are too old to do so again.",
    "expired_sessions_killed": "Connections that were closed for a request after the end of their session.",
}


class AuthenticationCounts:
    """Of one mechanism on one listener."""

    __slots__ = tuple(COUNTERS)

    def __init__(self) -> None:
        self.successful_authentication = 0
        self.failed_authentication = 0
        self.successful_reauthentication = 0
        self.failed_reauthentication = 0
        self.successful_authentication_no_reauth = 0
        self.expired_sessions_killed = 0


class AuthenticationMetrics(dict[tuple[str, str], AuthenticationCounts]):
    """By listener and mechanism. Whoever looks one up makes sure that both are of the configuration."""

    def __missing__(self, key: tuple[str, str]) -> AuthenticationCounts:
        counts = self[key] = AuthenticationCounts()
        return counts

    def register(self, registry: Registry) -> None:
        """Declare the families."""
        for name, help_text in COUNTERS.items():
            registry.family(
                Kind.COUNTER, f"{PREFIX}{name}_total", help_text, ("listener", "mechanism"), partial(self._read, name)
            )

    def _read(self, name: str) -> Iterable[Reading]:
        return [(key, getattr(counts, name)) for key, counts in self.items()]
