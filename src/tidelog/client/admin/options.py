"""The options of an admin. Names, defaults and meanings are Kafka's, in Python's spelling."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypedDict

from tidelog.client.options import ClientOptions, whole


@dataclass(frozen=True, kw_only=True)
class AdminOptions(ClientOptions):
    """What `Admin` and `AsyncAdmin` take as keywords."""

    default_api_timeout_ms: int = whole(60_000, at_least=1, doc="How long a call may take, with all its attempts.")

    @property
    def change_timeout_ms(self) -> int:
        """How long the cluster may take for a change: less than a request may, so that its own word on it is heard."""
        return max(1, self.request_timeout_ms * 2 // 3)


class AdminArguments(TypedDict, total=False):
    """The keyword arguments of an admin, as type checkers see them."""

    bootstrap_servers: str | Sequence[str]
    client_id: str
    request_timeout_ms: int
    retry_backoff_ms: int
    retry_backoff_max_ms: int
    reconnect_backoff_ms: int
    reconnect_backoff_max_ms: int
    socket_connection_setup_timeout_ms: int
    connections_max_idle_ms: int
    metadata_max_age_ms: int
    metadata_recovery_strategy: str
    metadata_recovery_rebootstrap_trigger_ms: int
    default_api_timeout_ms: int
