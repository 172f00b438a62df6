"""A file with pipelines in SQL: a header with the fields of each pipeline, its views, and a last SELECT. Pure.

    /* pipeline
    name = "revenue"

    [[source]]
    topic = "orders"
    decode = { format = "json", schema = "id string, price double" }

    [[sink]]
    to = "topic"
    topic = "revenue"
    */
    CREATE VIEW clean AS SELECT * FROM orders WHERE id IS NOT NULL;
    SELECT id, price FROM clean;

The header is TOML; its fields are those of `Pipeline`, `FromTopic`, sinks and, in [view.NAME], of `View`. Each further header
begins another pipeline. Every mistake is told with its line, all at once; what values have to be is for `validation` to say.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import MISSING, fields
from typing import Any, TypeVar

from tidelog.model.config import did_you_mean
from tidelog.spark.pipelines.debezium.decoder import Debezium
from tidelog.spark.pipelines.declaration import Declaration
from tidelog.spark.pipelines.decoders import Avro, Json, Protobuf, Text
from tidelog.spark.pipelines.definition import FromTopic, Pipeline, Watermark
from tidelog.spark.pipelines.expectations import Expect
from tidelog.spark.pipelines.registry import Registry
from tidelog.spark.pipelines.sinks import ToDatabase, ToFiles, ToTable, ToTopic
from tidelog.spark.pipelines.sql_text import SqlToken, Statement, line_of, statements_of, tokens_of
from tidelog.spark.pipelines.views import View

_HEADER = re.compile(r"/\*\s*pipeline\b")
_FORMATS = {"json": Json, "avro": Avro, "protobuf": Protobuf, "text": Text, "debezium": Debezium}
_SINKS = {"topic": ToTopic, "table": ToTable, "files": ToFiles, "database": ToDatabase}
_QUERY = frozenset({"select", "with", "from", "values", "table"})
_AT_LINE = re.compile(r" ?\(at line (\d+), column \d+\)| ?\(at end of document\)")
_ARRAY = re.compile(r"\s*\[\[\s*([\w-]+)\s*\]\]")
_TABLE = re.compile(r"\s*\[([^\[\]]+)\]")
_KEY = re.compile(r"""\s*("(?:[^"\\]|\\.)*"|'[^']*'|[\w-]+)(?:\.[\w.-]+)?\s*=""")

Path = tuple[str, ...]
_Declared = TypeVar("_Declared", bound=Declaration)


def pipelines_of_sql(text: str, read: Callable[[str], bytes]) -> tuple[list[Pipeline], list[str]]:
    """The pipelines of a text, and its mistakes, each with its line. `read` has the content of a file beside it. OSError"""
    found: list[str] = []
    headers = [each for each in tokens_of(text) if each.kind == "comment" and _HEADER.match(each.text)]
    for each in tokens_of(text):
        if each.is_left_open:
            what = "comment" if each.kind == "comment" else "text"
            found.append(f"line {line_of(text, each.start)}: a {what} begins here, and does not end")
    before = statements_of(text[: headers[0].start] if headers else text)
    if before or not headers:
        line = line_of(text, before[0].start) if before else 1
        found.append(f"line {line}: a pipeline begins with its header, a comment /* pipeline ... */")
    ends = [*(each.start for each in headers[1:]), len(text)]
    sections = [_Section(text[:end], each, read) for each, end in zip(headers, ends, strict=False)]
    pipelines = [pipeline for each in sections if (pipeline := each.pipeline()) is not None]
    return pipelines, [*found, *(problem for each in sections for problem in each.problems)]


class _Section:
    """One pipeline: a header, and statements up to the next one."""

    def __init__(self, text: str, header: SqlToken, read: Callable[[str], bytes]) -> None:
        self.problems: list[str] = []
        self._text = text
        self._header = header
        self._read = read
        beginning = _HEADER.match(header.text)
        start = 0 if beginning is None else beginning.end()
        self._toml = header.text[start:].removesuffix("*/")
        self._first_line = line_of(text, header.start + start)
        self._lines = dict(_lines_of(self._toml, self._first_line))

    def pipeline(self) -> Pipeline | None:
        """None where its header cannot be read."""
        try:
            said = tomllib.loads(self._toml)
        except tomllib.TOMLDecodeError as error:
            found = _AT_LINE.search(str(error))
            line = self._first_line + (int(found[1]) - 1 if found is not None and found[1] else self._toml.count("\n"))
            self._say(line, f"the header is no TOML: {_AT_LINE.sub('', str(error))}")
            return None
        views, transform = self._statements(said.pop("view", {}))
        sources = [self._source(("source", str(n)), each) for n, each in enumerate(self._tables(said, "source"))]
        sinks = [self._sink(("sink", str(n)), each) for n, each in enumerate(self._tables(said, "sink"))]
        given: dict[str, Any] = {} if transform is None else {"transform": transform}
        if views:
            given["views"] = views
        given |= {
            "source": sources[0] if len(sources) == 1 else sources,
            "sink": sinks[0] if len(sinks) == 1 else sinks,
        }
        return self._made(Pipeline, (), said, given)

    def _say(self, line: int, sentence: str) -> None:
        self.problems.append(f"line {line}: {sentence}")

    def _line(self, path: Path) -> int:
        """Of what is said of this, or of what it is part of."""
        return next(
            (self._lines[path[:n]] for n in range(len(path), -1, -1) if path[:n] in self._lines), self._first_line
        )

    # Statements.

    def _statements(self, options: object) -> tuple[list[View], str | None]:
        views: list[View] = []
        query: Statement | None = None
        options = options if isinstance(options, dict) else {}
        for each in statements_of(self._text, self._header.end):
            line = line_of(self._text, each.start)
            if query is not None:
                self._say(
                    line, "a SELECT goes before this, and is the last statement: it is what the transformation makes"
                )
            if _begins_query(each):
                query = query or each
                continue
            view = self._view(each, line, options)
            if view is not None:
                views.append(view)
        for name in set(options) - {each.name for each in views}:
            self._say(self._line(("view", name)), f"there is no CREATE VIEW {name}")
        return views, None if query is None else query.text

    def _view(self, statement: Statement, line: int, options: Mapping[str, Any]) -> View | None:
        tokens = statement.tokens
        words = [each.word for each in tokens[:4]]
        name = tokens[2].name if len(tokens) > 2 else None
        if words[:2] != ["create", "view"] or name is None or words[3:] != ["as"]:
            self._say(
                line,
                f"{statement.text.split(None, 1)[0]} begins no statement that a pipeline has: CREATE VIEW name AS"
                " SELECT ..., and a last SELECT",
            )
            return None
        said = options.get(name, {})
        query = self._text[tokens[3].end : tokens[-1].end].strip()
        own = self._with_parts(("view", name), said) if isinstance(said, dict) else {}
        return self._made(View, ("view", name), own, {"name": name, "query": query})

    # Declarations.

    def _tables(self, said: dict[str, Any], name: str) -> list[dict[str, Any]]:
        found = said.pop(name, None)
        if isinstance(found, list) and found and all(isinstance(each, dict) for each in found):
            return found
        self._say(self._line((name,)), f"a pipeline has at least one [[{name}]]")
        return []

    def _source(self, path: Path, said: dict[str, Any]) -> FromTopic | None:
        return self._made(FromTopic, path, self._with_parts(path, said), {})

    def _sink(self, path: Path, said: dict[str, Any]) -> Any:
        to = said.pop("to", None)
        made = _SINKS.get(to) if isinstance(to, str) else None
        if made is None:
            self._say(self._line((*path, "to")), f"a sink needs to=, which is {', '.join(_SINKS)}; it is {to!r}")
            return None
        if isinstance(said.get("encode"), dict):
            said["encode"] = self._format((*path, "encode"), said["encode"])
        return self._made(made, path, said, {})

    def _with_parts(self, path: Path, said: dict[str, Any]) -> dict[str, Any]:
        """Fields of a source or a view, with the declarations that some of them are."""
        found = dict(said)
        if isinstance(found.get("decode"), dict):
            found["decode"] = self._format((*path, "decode"), found["decode"])
        if isinstance(found.get("watermark"), dict):
            found["watermark"] = self._made(Watermark, (*path, "watermark"), found["watermark"], {})
        if isinstance(found.get("expect"), dict):
            found["expect"] = {
                name: self._made(Expect, (*path, "expect", name), each, {}) if isinstance(each, dict) else each
                for name, each in found["expect"].items()
            }
        return found

    def _format(self, path: Path, said: dict[str, Any]) -> Any:
        own = dict(said)
        name = own.pop("format", None)
        made = _FORMATS.get(name) if isinstance(name, str) else None
        if made is None:
            self._say(self._line(path), f"{path[-1]} needs format=, which is {', '.join(_FORMATS)}; it is {name!r}")
            return None
        if isinstance(own.get("registry"), dict):
            own["registry"] = self._made(Registry, (*path, "registry"), own["registry"], {})
        if made is Protobuf and isinstance(own.get("descriptor_set"), str):
            place = own["descriptor_set"]
            try:
                own["descriptor_set"] = self._read(place)
            except OSError as error:
                self._say(self._line(path), f"{place} cannot be read: {error.strerror or error}")
        return self._made(made, path, own, {})

    def _made(
        self, kind: type[_Declared], path: Path, said: Mapping[str, Any], given: Mapping[str, Any]
    ) -> _Declared | None:
        """A declaration of these fields; None where there are others, or too few."""
        own = [each for each in fields(kind) if each.init and each.name not in given]  # type: ignore[arg-type]  # all are
        known = [each.name for each in own]
        wrong = [name for name in said if name not in known]
        for name in wrong:
            told = self._line((*path, name))
            self._say(told, f"{kind.__name__} has no field {name}{did_you_mean(name, known)}")
        without = [each for each in own if each.default is MISSING and each.default_factory is MISSING]
        missing = [each.name for each in without if each.name not in said]
        for name in missing:
            self._say(self._line(path), f"{kind.__name__} needs {name}=")
        return None if wrong or missing else kind(**said, **given)


def _begins_query(statement: Statement) -> bool:
    first = statement.tokens[0]
    return first.word in _QUERY or first.text == "("


def _lines_of(toml: str, first_line: int) -> Iterator[tuple[Path, int]]:
    """Where fields and tables of a header are."""
    table: Path = ()
    counts: dict[str, int] = {}
    for line, text in enumerate(toml.split("\n"), first_line):
        if (found := _ARRAY.match(text)) is not None:
            counts[found[1]] = counts.get(found[1], -1) + 1
            table = (found[1], str(counts[found[1]]))
            yield table, line
        elif (found := _TABLE.match(text)) is not None:
            first, *rest = _parts(found[1])
            # A table in the last one of several.
            table = (first, *([str(counts[first])] if first in counts else []), *rest)
            yield table, line
        elif (found := _KEY.match(text)) is not None:
            yield (*table, _parts(found[1])[0]), line


def _parts(name: str) -> Sequence[str]:
    found = re.findall(r""""((?:[^"\\]|\\.)*)"|'([^']*)'|([\w-]+)""", name)
    return [next(part for part in each if part) if any(each) else "" for each in found] or [name]
