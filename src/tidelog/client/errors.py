"""What can go wrong between a client and a cluster. The text is one sentence for a person.

ClientError
├── NotReachedError      no node answered, or the one that is needed did not
├── UnsupportedError     the cluster does not have the API, or no version of it that this client speaks
└── RefusedError         the cluster understood, and said no; `code` is Kafka's
"""

from __future__ import annotations

from tidelog.model.errors import ErrorCode


class ClientError(Exception):
    """Anything that keeps a client from getting what it asked for."""


class NotReachedError(ClientError):
    """Nobody answered. Whether a request was acted upon is unknown."""


class UnsupportedError(ClientError):
    """The cluster cannot be asked this."""


class RefusedError(ClientError):
    """The cluster's own answer was an error."""

    def __init__(self, code: ErrorCode, sentence: str) -> None:
        super().__init__(sentence)
        self.code = code


def refusal(code: int, message: str | None, *, about: str = "") -> RefusedError:
    """The error of an answer, in the cluster's words where it has some."""
    row = ErrorCode.of(code)
    name = row.name if row == code else f"error {code}"
    words = message or row.message
    return RefusedError(row, f"{about}: {words} ({name})" if about else f"{words} ({name})")
