"""The filter of ListTransactions by regular expression (KIP-1152), in RE2's syntax, whose matches take bounded time."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Protocol, cast

from tidelog.model.errors import ErrorCode

# One is asked of every partition of the log, one after another.
COMPILED_MAX = 16


class _Pattern(Protocol):
    def fullmatch(self, text: str) -> object | None: ...


@lru_cache(maxsize=COMPILED_MAX)
def _compile(pattern: str) -> _Pattern | None:
    import re2  # noqa: PLC0415 - half a megabyte that few nodes need

    options = re2.Options()
    options.log_errors = False
    try:
        return cast("_Pattern", re2.compile(pattern, options))
    except re2.error:
        return None


def check_pattern(pattern: str | None) -> ErrorCode:
    """INVALID_REGULAR_EXPRESSION where it cannot be read. None and the empty one stand for every id."""
    return ErrorCode.INVALID_REGULAR_EXPRESSION if pattern and _compile(pattern) is None else ErrorCode.NONE


def matcher(pattern: str | None) -> Callable[[str], bool]:
    """Whether the pattern matches a transactional id as a whole; one that cannot be read matches none."""
    if not pattern:
        return lambda _transactional_id: True
    compiled = _compile(pattern)
    return lambda transactional_id: compiled is not None and compiled.fullmatch(transactional_id) is not None
