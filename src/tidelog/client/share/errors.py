"""What can go wrong with a share consumer alone; the rest is in `tidelog.client.errors` and `tidelog.client.consumer.errors`.

RefusedError
└── InvalidRecordStateError   records were acknowledged that are not this member's any more
"""

from __future__ import annotations

from tidelog.client.errors import RefusedError, refusal
from tidelog.model.errors import ErrorCode


class InvalidRecordStateError(RefusedError):
    """The records were not acquired by this member, or not any more: their lock ended, or they are settled."""


def acknowledgement_refused(code: int, message: str | None, about: str) -> RefusedError:
    """Why a leader did not take acknowledgements of a partition."""
    if code == ErrorCode.INVALID_RECORD_STATE:
        return refusal(code, message, about=about, kind=InvalidRecordStateError)
    return refusal(code, message, about=about)
