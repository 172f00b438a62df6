"""The types in a schema as SQL writes it ('id bigint, tags array<string>'), looked at without Spark.

Only names of types are checked, of which a wrong one is the commonest mistake. Where the text is none that this understands, it
says nothing: Spark reads it later, and says what is wrong with it.
"""

from __future__ import annotations

import re
from contextlib import suppress

from tidelog.model.config import did_you_mean

# Names of types and of what is made of types, as the grammar of Spark 4 has them.
SIMPLE_TYPES = frozenset(
    {
        "bigint",
        "binary",
        "boolean",
        "byte",
        "char",
        "character",
        "date",
        "dec",
        "decimal",
        "double",
        "float",
        "geography",
        "geometry",
        "int",
        "integer",
        "interval",
        "long",
        "numeric",
        "real",
        "short",
        "smallint",
        "string",
        "time",
        "timestamp",
        "timestamp_ltz",
        "timestamp_ntz",
        "tinyint",
        "varchar",
        "variant",
        "void",
    }
)
_NESTED_TYPES = ("array", "map", "struct")
_TOKEN = re.compile(r"\s*(?:(`(?:[^`]|``)*`)|('(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\")|(\w+)|(\S))")


class _NotUnderstoodError(Exception):
    """The text goes on as nothing here expects."""


def unknown_types(schema: str) -> list[str]:
    """A sentence for each type in a schema that Spark does not have, in order."""
    reader = _Reader(schema)
    # What was found before is wrong all the same.
    with suppress(_NotUnderstoodError):
        reader.columns(end="")
    return reader.problems


class _Reader:
    """The tokens of a schema, taken one after the other."""

    def __init__(self, text: str) -> None:
        self.problems: list[str] = []
        self._tokens = [match.group().strip() for match in _TOKEN.finditer(text)]
        self._next = 0

    def columns(self, end: str) -> None:
        """`name type, ...` up to `end`, which is taken."""
        while self._peek() != end or not end:
            self._take_name()
            if self._peek() == ":":
                self._take()
            self._type()
            while self._peek() not in {",", end}:
                # NOT NULL, COMMENT '...', COLLATE: a word or a text.
                if not re.match(r"\w|'|\"", self._take()):
                    raise _NotUnderstoodError
            if self._peek() == end:
                break
            self._take()
        self._take_end(end)

    def _type(self) -> None:
        name = self._take()
        kind = name.lower()
        if not re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII):
            raise _NotUnderstoodError
        if self._peek() == "<":
            if kind not in _NESTED_TYPES:
                raise _NotUnderstoodError
            self._take()
            self._inside(kind)
            return
        if kind not in SIMPLE_TYPES:
            nearest = did_you_mean(kind, sorted({*SIMPLE_TYPES, *_NESTED_TYPES}))
            self.problems.append(f"there is no type {name}{nearest}")
        if self._peek() == "(":
            while self._take() != ")":
                pass

    def _inside(self, kind: str) -> None:
        if kind == "struct":
            self.columns(end=">")
            return
        self._type()
        if kind == "map":
            if self._take() != ",":
                raise _NotUnderstoodError
            self._type()
        self._take_end(">")

    def _take_name(self) -> None:
        if not re.match(r"[`\w]", self._take()):
            raise _NotUnderstoodError

    def _take_end(self, end: str) -> None:
        if end and self._take() != end:
            raise _NotUnderstoodError

    def _peek(self) -> str:
        return self._tokens[self._next] if self._next < len(self._tokens) else ""

    def _take(self) -> str:
        token = self._peek()
        if not token:
            raise _NotUnderstoodError
        self._next += 1
        return token
