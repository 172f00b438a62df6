"""Source code in the making: lines with their depth, the field that each line serves, and the names it uses.

Encoders and decoders are written line by line into a `Source` and compiled once. The line of an exception then tells
which field it happened in, so that good input pays nothing for a good error message.
"""

from __future__ import annotations

import linecache
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any


class Source:
    """One function under construction."""

    def __init__(self, name: str, parameters: str) -> None:
        self.name = name
        self._lines = [f"def {name}({parameters}):"]
        self._fields = [""]
        self._depth = 1
        self._path: list[str] = []
        self._variables = 0
        self._globals: dict[str, object] = {}

    def add(self, line: str, serves: str | None = None) -> None:
        """Adds a line that serves the open field, or the one named."""
        self._lines.append("    " * self._depth + line)
        self._fields.append(self.path if serves is None else serves)

    @property
    def path(self) -> str:
        """The dotted path of the open field."""
        return ".".join(self._path)

    @contextmanager
    def block(self, opening: str) -> Iterator[None]:
        """Indents what is added inside under the line that opens it, such as `if n:`."""
        self.add(opening)
        self._depth += 1
        yield
        self._depth -= 1

    @contextmanager
    def field(self, name: str) -> Iterator[None]:
        """Lines added inside serve the field `name` of the field that is open around it."""
        self._path.append(name)
        yield
        self._path.pop()

    def variable(self) -> str:
        """A local name that was not used before."""
        self._variables += 1
        return f"v{self._variables}"

    def use(self, name: str, value: object) -> str:
        """Makes a value known to the code under a name, made unique if another value has it."""
        unique = name
        count = 1
        while self._globals.setdefault(unique, value) is not value:
            count += 1
            unique = f"{name}{count}"
        return unique

    def layout(self, codes: str, method: str) -> str:
        """The name of a bound method of the `struct.Struct` for these codes, big-endian."""
        letters = codes.replace("16s", "u").replace("?", "o")
        return self.use(f"{method}_{letters}", _bound(codes, method))

    @property
    def text(self) -> str:
        return "\n".join(self._lines) + "\n"

    def compile(self) -> Function:
        """The function. Its lines show up in tracebacks and debuggers like those of a file."""
        file_name = f"<tidelog {self.name}>"
        linecache.cache[file_name] = (len(self.text), None, self.text.splitlines(keepends=True), file_name)
        namespace: dict[str, Any] = dict(self._globals)
        exec(compile(self.text, file_name, "exec"), namespace)  # noqa: S102 - our own lines, built from declarations
        return Function(namespace[self.name], file_name, tuple(self._fields), self.text)


class Run(list[tuple[str, str, str]]):
    """Neighbouring fields of fixed size that one `struct.Struct` will read or write: code, expression and path of each."""

    @property
    def codes(self) -> str:
        return "".join(code for code, _, _ in self)

    @property
    def expressions(self) -> list[str]:
        """The variables or values, without those that are only padding."""
        return [expression for code, expression, _ in self if code != "x"]

    @property
    def serves(self) -> str:
        """The fields of the run, for the error message of any of them."""
        paths = [path for _, _, path in self if path]
        if not paths or paths[0] == paths[-1]:
            return paths[0] if paths else ""
        return f"{paths[0]} to {paths[-1]}"


class Function:
    """A compiled function and, for each of its lines, the field that the line serves."""

    __slots__ = ("_fields", "_file_name", "call", "text")

    def __init__(self, call: Any, file_name: str, fields: tuple[str, ...], text: str) -> None:
        self.call = call
        self.text = text
        self._file_name = file_name
        self._fields = fields

    def field_of(self, traceback: TracebackType | None) -> str:
        """The dotted path of the field in which an exception arose, or nothing if it arose between fields."""
        while traceback is not None:
            if traceback.tb_frame.f_code.co_filename == self._file_name:
                return self._fields[traceback.tb_lineno - 1]
            traceback = traceback.tb_next
        return ""


_LAYOUTS: dict[str, struct.Struct] = {}
_BOUND: dict[tuple[str, str], object] = {}


def _bound(codes: str, method: str) -> object:
    """One bound method per layout and process, so that equal layouts share a name in a function."""
    layout = _LAYOUTS.get(codes)
    if layout is None:
        layout = _LAYOUTS[codes] = struct.Struct(">" + codes)
    return _BOUND.setdefault((codes, method), getattr(layout, method))
