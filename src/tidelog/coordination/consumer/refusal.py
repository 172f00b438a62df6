"""A request that a consumer group does not grant."""

from __future__ import annotations

from tidelog.model.errors import ErrorCode


class RefusedError(Exception):
    """Ends a decision inside this package; the facade turns it into an answer, so that it never leaves the package."""

    def __init__(self, code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
