"""Subscriptions by regular expression, which the coordinator resolves to topics.

The syntax is RE2's, as in Kafka, which also bounds the time that a match takes: a member of a group must not be able to stop a
broker with an expression. Python's own has another syntax and exponential cases, so it is no substitute. The library is loaded
by the first subscription that needs it.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Protocol, cast

from tidelog.coordination.consumer.refusal import RefusedError
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import TopicName

# Compiled expressions stay for the next refresh; each takes 8 MB at most, RE2's own limit, and a few KB in practice.
COMPILED_MAX = 256


class _Pattern(Protocol):
    def fullmatch(self, text: str) -> object | None: ...


@lru_cache(maxsize=COMPILED_MAX)
def _compile(regex: str) -> _Pattern:
    import re2  # noqa: PLC0415 - half a megabyte that few nodes need

    options = re2.Options()
    options.log_errors = False
    try:
        return cast("_Pattern", re2.compile(regex, options))
    except re2.error as error:
        reason = error.args[0] if error.args else "cannot be read"
        text = reason.decode("utf-8", "replace") if isinstance(reason, bytes) else str(reason)
        message = f"SubscribedTopicRegex `{regex}` is not a valid regular expression: {text}."
        raise RefusedError(ErrorCode.INVALID_REGULAR_EXPRESSION, message) from None


def check_regex(regex: str) -> None:
    """RefusedError where the expression is not RE2's syntax."""
    _compile(regex)


def matching_topics(regex: str, names: Iterable[TopicName]) -> tuple[TopicName, ...]:
    """The names that the expression matches as a whole, in ascending order; none where it cannot be read."""
    try:
        pattern = _compile(regex)
    except RefusedError:
        return ()
    return tuple(sorted(name for name in names if pattern.fullmatch(name) is not None))
