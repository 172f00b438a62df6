"""The options of an admin. Names, defaults and meanings are Kafka's, in Python's spelling."""

from __future__ import annotations

from dataclasses import dataclass

from tidelog.client.option_kinds import whole
from tidelog.client.options import ClientArguments, ClientOptions


@dataclass(frozen=True, kw_only=True)
class AdminOptions(ClientOptions):
    """What `Admin` and `AsyncAdmin` take as keywords."""

    default_api_timeout_ms: int = whole(60_000, at_least=1, doc="How long a call may take, with all its attempts.")

    @property
    def change_timeout_ms(self) -> int:
        """How long the cluster may take for a change: less than a request may, so that its own word on it is heard."""
        return max(1, self.request_timeout_ms * 2 // 3)


class AdminArguments(ClientArguments, total=False):
    """The keyword arguments of an admin, as type checkers see them."""

    default_api_timeout_ms: int
