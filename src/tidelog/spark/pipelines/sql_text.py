"""Text in Spark's SQL, as far as it can be read without Spark: its words, the tables that it takes from, its statements. Pure.

Nothing here says whether the text is right: that is Spark's to say, once it is there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

Kind: TypeAlias = Literal["word", "quoted", "text", "comment", "mark"]

_TOKEN = re.compile(
    r"""
    (?P<word>[A-Za-z_]\w*)
  | (?P<quoted>`(?:[^`]|``)*`)
  | (?P<text>'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*")
  | (?P<comment>--[^\n]*|/\*)
  | (?P<mark>[0-9]\w*|\S)
    """,
    re.VERBOSE | re.DOTALL,
)
# Behind these words begins something else than a list of tables.
_ENDS_TABLES = frozenset(
    {"select", "where", "group", "having", "order", "sort", "cluster", "distribute", "limit", "window", "qualify"}
    | {"union", "intersect", "except", "minus", "offset", "values", "set"}
)
# FROM is part of how these are called.
_TAKES_FROM = frozenset({"extract", "trim", "substring", "substr", "overlay", "position"})


class SqlToken(NamedTuple):
    """A word, a name in backticks, a text in quotes, a comment, or any other mark."""

    kind: Kind
    text: str
    start: int

    @property
    def end(self) -> int:
        return self.start + len(self.text)

    @property
    def is_left_open(self) -> bool:
        """Whether what closes it is missing."""
        match self.kind:
            case "comment":
                return self.text.startswith("/*") and _end_of_comment(self.text, 0) is None
            case "mark":
                return self.text in {"'", '"', "`"}
        return False

    @property
    def word(self) -> str:
        """In small letters; empty for what is no word."""
        return self.text.lower() if self.kind == "word" else ""

    @property
    def name(self) -> str | None:
        """What it names, if it may be a name."""
        if self.kind == "quoted":
            return self.text[1:-1].replace("``", "`")
        return self.text if self.kind == "word" else None


def tokens_of(text: str) -> Iterator[SqlToken]:
    """In their order. Comments in comments are one, as to Spark; a comment that is left open goes to the end."""
    at = 0
    while (found := _TOKEN.search(text, at)) is not None:
        kind = found.lastgroup
        start, at = found.span()
        if found[0] == "/*":
            at = _end_of_comment(text, start) or len(text)
        yield SqlToken(kind, text[start:at], start)  # type: ignore[arg-type]  # the groups are the kinds


def _end_of_comment(text: str, start: int) -> int | None:
    depth = 0
    for found in re.finditer(r"/\*|\*/", text[start:]):
        depth += 1 if found[0] == "/*" else -1
        if depth == 0:
            return start + found.end()
    return None


def line_of(text: str, at: int) -> int:
    """The number of the line of a character, from 1."""
    return text.count("\n", 0, at) + 1


class Statement(NamedTuple):
    """What stands before a semicolon, or the end."""

    text: str
    """Without comments before and behind it."""
    start: int
    tokens: Sequence[SqlToken]
    """Without comments."""


def statements_of(text: str, start: int = 0) -> list[Statement]:
    """Those that say something, from a character on."""
    found = []
    own: list[SqlToken] = []

    def end() -> None:
        if own:
            found.append(Statement(text[own[0].start : own[-1].end], own[0].start, tuple(own)))
            own.clear()

    for each in tokens_of(text[start:]):
        token = each._replace(start=each.start + start)
        if token.kind == "mark" and token.text == ";":
            end()
        elif token.kind != "comment":
            own.append(token)
    end()
    return found


def tables_of(text: str) -> list[str]:
    """Names behind FROM and JOIN, each once and as it is written. Left out are names that WITH gives, and those of several parts,
    which are none of a pipeline's."""
    reading = _TableReading([each for each in tokens_of(text) if each.kind != "comment"])
    for index in range(len(reading.tokens)):
        reading.take(index)
    return [each for each in reading.found if each.lower() not in reading.own]


@dataclass(slots=True)
class _Level:
    """What is known between two parentheses, or outside of all."""

    opened_by: str = ""
    """The word before the parenthesis."""
    wants_table: bool = False
    is_list: bool = False
    """Behind a table: a comma leads to the next one."""
    is_with: bool = False
    wants_own: bool = False
    """A name that WITH gives is next."""


class _TableReading:
    def __init__(self, tokens: Sequence[SqlToken]) -> None:
        self.tokens = tokens
        self.found: dict[str, None] = {}
        self.own: set[str] = set()
        self._levels = [_Level()]

    def take(self, index: int) -> None:
        token, level = self.tokens[index], self._levels[-1]
        if token.name is None:
            self._mark(token, self._word(index - 1))
        elif level.wants_own:
            self.own.add(token.name.lower())
            level.wants_own = False
        elif token.word in {"from", "join"}:
            if not self._is_in_call(index):
                level.wants_table, level.is_list = True, False
        elif token.word == "with" and (index == 0 or self.tokens[index - 1].text == "("):
            level.is_with = level.wants_own = True
        elif token.word in _ENDS_TABLES:
            level.wants_table = level.is_list = level.is_with = False
        elif token.word == "lateral":
            # LATERAL VIEW has names of columns behind it, LATERAL ( a query.
            is_view = self._word(index + 1) == "view"
            level.wants_table, level.is_list = level.wants_table and not is_view, level.is_list and not is_view
        elif level.wants_table:
            self._table(token.name, self._text(index + 1), token.word)

    def _table(self, name: str, behind: str, word: str) -> None:
        level = self._levels[-1]
        level.is_list = True
        if behind in {".", "("}:
            # Of a catalog, or a function; STREAM(orders) is the table in it.
            level.wants_table = word == "stream" and behind == "("
        else:
            self.found.setdefault(name)
            level.wants_table = False

    def _mark(self, token: SqlToken, before: str) -> None:
        level = self._levels[-1]
        match token.text if token.kind == "mark" else "":
            case "(":
                self._levels.append(_Level(before, wants_table=level.wants_table))
                level.is_list, level.wants_table = level.is_list or level.wants_table, False
            case ")":
                del self._levels[1 if len(self._levels) == 1 else -1 :]
            case ",":
                level.wants_table, level.wants_own = level.is_list, level.is_with
            case _:
                level.wants_table = False

    def _is_in_call(self, index: int) -> bool:
        """Whether FROM is part of a call, such as extract(year FROM at), or of IS [NOT] DISTINCT FROM."""
        if self.tokens[index].word != "from":
            return False
        words = [self._word(each) for each in range(index - 3, index)]
        is_compared = words[1:] == ["is", "distinct"] or words == ["is", "not", "distinct"]
        return is_compared or self._levels[-1].opened_by in _TAKES_FROM

    def _word(self, index: int) -> str:
        return self.tokens[index].word if 0 <= index < len(self.tokens) else ""

    def _text(self, index: int) -> str:
        return self.tokens[index].text if index < len(self.tokens) else ""
