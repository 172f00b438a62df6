"""Which records a search or a live tail is for: a text or a regular expression, in keys, values or headers.

Regular expressions are RE2's, whose time is linear: nobody can stop the console with one. Texts are looked for in the bytes; in
what is decoded by a schema, the text of it.
"""

from __future__ import annotations

from collections.abc import Callable

from tidelog.console.records.record_reading import Row
from tidelog.console.serving.api_error import wrong_question

PLACES = ("both", "key", "value", "headers")
QUERY_MAX = 1_000

Matches = Callable[[bytes | None], bool]


class RecordFilter:
    def __init__(self, query: str, places: str, *, is_regex: bool) -> None:
        if len(query) > QUERY_MAX:
            raise wrong_question(f"q has at most {QUERY_MAX} characters")
        self._matches = _regex(query) if is_regex else _text(query)
        self._in_key = places in {"both", "key"}
        self._in_value = places in {"both", "value"}
        self._in_headers = places == "headers"
        self.is_everything = not query

    def takes(self, row: Row) -> bool:
        matches = self._matches
        return (
            self.is_everything
            or (self._in_value and matches(row.value))
            or (self._in_key and matches(row.key))
            or (self._in_headers and any(matches(name.encode()) or matches(value) for name, value in row.headers))
        )

    def takes_text(self, text: str) -> bool:
        """What a value is decoded to."""
        return self._in_value and self._matches(text.encode())


def _text(query: str) -> Matches:
    wanted = query.encode()
    return lambda data: data is not None and wanted in data


def _regex(query: str) -> Matches:
    import re2  # noqa: PLC0415 - loaded by the first such search

    options = re2.Options()
    # It would write what is wrong with the pattern on standard error as well.
    options.log_errors = False
    try:
        pattern = re2.compile(query.encode(), options)
    except re2.error as error:
        raise wrong_question(f"q is no regular expression of RE2: {_reason(error)}") from None
    return lambda data: data is not None and pattern.search(data) is not None


def _reason(error: Exception) -> str:
    told = error.args[0] if error.args else error
    return (told.decode(errors="replace") if isinstance(told, bytes) else str(told))[:200]
