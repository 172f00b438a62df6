"""How many partitions a client may have created or deleted (KIP-599), as decisions ask for it.

Who may do how much is not the controller's to know: its node passes `MutationLimits` in. Without, nobody is limited.
"""

from __future__ import annotations

from typing import Protocol

from tidelog.controller.decision import Refusal
from tidelog.model.errors import ErrorCode


class MutationQuota(Protocol):
    """Of one request."""

    @property
    def throttle_ms(self) -> int:
        """How long the client has to wait for what it has taken, or was not given. The answer tells it."""
        ...

    def take(self, partitions: int) -> bool:
        """Take so many partitions. Whether they may be created or deleted now."""
        ...


class MutationLimits(Protocol):
    """Who may have how many partitions created or deleted."""

    def of(self, user: str, client_id: str | None, *, is_strict: bool) -> MutationQuota | None:
        """For one request of a client. None: there is no limit. `is_strict`: what is too much is not done."""
        ...


class _NoLimit:
    throttle_ms = 0

    def take(self, partitions: int) -> bool:  # noqa: ARG002
        return True


NO_LIMIT: MutationQuota = _NoLimit()

TOO_MUCH = Refusal(ErrorCode.THROTTLING_QUOTA_EXCEEDED, "The throttling quota has been exceeded.")
