"""What an answer says where there is none: a status, Kafka's name of the error, a sentence, and what to do.

{"error": {"code": "TOPIC_AUTHORIZATION_FAILED", "message": "...", "advice": "..."}}
"""

from __future__ import annotations

from tidelog.client.errors import (
    AuthenticationError,
    ClientError,
    ClosedError,
    ConfigError,
    MissingExtraError,
    NotReachedError,
    RefusedError,
    UnsupportedError,
)
from tidelog.client.kafka_properties import in_kafka_names
from tidelog.model.errors import ErrorCode
from tidelog.wire.errors import WireError

_NOT_THERE = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.GROUP_ID_NOT_FOUND,
        ErrorCode.TRANSACTIONAL_ID_NOT_FOUND,
        ErrorCode.RESOURCE_NOT_FOUND,
    }
)
_CONFLICTS = frozenset(
    {
        ErrorCode.TOPIC_ALREADY_EXISTS,
        ErrorCode.NON_EMPTY_GROUP,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.INVALID_TXN_STATE,
        ErrorCode.REASSIGNMENT_IN_PROGRESS,
    }
)
_RIGHTS_ADVICE = "ask whoever runs the cluster for an ACL that allows it, or log in as another user"


class ApiError(Exception):
    """An answer other than the one that was asked for."""

    def __init__(self, status: int, code: str, message: str, advice: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.advice = advice

    def as_json(self) -> dict[str, object]:
        return {"error": {"code": self.code, "message": self.message, "advice": self.advice}}


def wrong_question(message: str, advice: str = "") -> ApiError:
    return ApiError(400, "BAD_REQUEST", message, advice)


def not_there(message: str) -> ApiError:
    return ApiError(404, "NOT_FOUND", message)


def login_needed(cluster: str) -> ApiError:
    return ApiError(
        401, "LOGIN_NEEDED", f"cluster {cluster} wants to know who you are", "log in as a user of the cluster"
    )


def api_error_of(error: ClientError) -> ApiError:
    """What a client's error is over HTTP."""
    sentence = in_kafka_names(str(error))
    if isinstance(error.__cause__, WireError):
        # A name longer, a number larger than the protocol has: nobody but the person was asked.
        return wrong_question(sentence)
    if isinstance(error, AuthenticationError):
        return ApiError(
            401, "LOGIN_NEEDED", sentence, "log in again, with the name and password of a user of the cluster"
        )
    if isinstance(error, NotReachedError):
        name = "NETWORK_EXCEPTION" if error.code is None else error.code.name
        return ApiError(504, name, sentence, "the cluster may be down or starting: the console goes on trying")
    if isinstance(error, (UnsupportedError, MissingExtraError)):
        return ApiError(501, "UNSUPPORTED_VERSION", sentence)
    if isinstance(error, ConfigError):
        return wrong_question(sentence)
    if isinstance(error, ClosedError):
        return ApiError(503, "CLOSED", "the connection to the cluster was given up", "ask again")
    if isinstance(error, RefusedError):
        return _refused(error, sentence)
    return ApiError(502, "UNKNOWN_SERVER_ERROR" if error.code is None else error.code.name, sentence)


def _refused(error: RefusedError, sentence: str) -> ApiError:
    name = error.code.name
    if name.endswith("AUTHORIZATION_FAILED"):
        return ApiError(403, name, sentence, _RIGHTS_ADVICE)
    if error.code in _NOT_THERE:
        return ApiError(404, name, sentence)
    if error.code in _CONFLICTS:
        return ApiError(409, name, sentence)
    if error.code is ErrorCode.SECURITY_DISABLED:
        return ApiError(409, name, sentence, "the cluster has no authorizer: set authorizer.class.name on its nodes")
    return ApiError(503 if error.retriable else 400, name, sentence)
