"""Java's properties files, in which Kafka keeps its configuration and the identity of a log directory.

`key=value` lines; `#` and `!` begin a comment; `=`, `:` or white space separates; a backslash at the end continues a line,
elsewhere it escapes (`\\t`, `\\n`, `\\u00e9`, or the next character as it is). Bytes are Latin-1, as Java reads them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

_SEPARATOR = re.compile(r"((?:\\.|[^\\=:\s])*)\s*[=:]?\s*(.*)", re.DOTALL)
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_NAMED_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def parse_properties(content: bytes) -> dict[str, str]:
    """The keys and values. A key that comes twice has its last value."""
    return parse_properties_text(content.decode("latin-1"))


def parse_properties_text(text: str) -> dict[str, str]:
    """The same of what is text already: some files of Kafka's are UTF-8."""
    properties: dict[str, str] = {}
    for line in _logical_lines(text):
        match = _SEPARATOR.match(line)
        if match is not None:
            properties[_unescaped(match[1])] = _unescaped(match[2])
    return properties


def format_properties(properties: Mapping[str, str]) -> bytes:
    """Such a file, in the order given."""
    lines = [f"{_escaped(key, is_key=True)}={_escaped(value, is_key=False)}\n" for key, value in properties.items()]
    return ("#\n" + "".join(lines)).encode("ascii")


def _logical_lines(text: str) -> Iterator[str]:
    """Lines with their continuations, without comments, blank lines and leading space."""
    pending = ""
    for natural in re.split(r"\r\n|\r|\n", text):
        line = natural.lstrip(" \t\f")
        if not pending and (not line or line[0] in "#!"):
            continue
        backslashes = len(line) - len(line.rstrip("\\"))
        if backslashes % 2:
            pending += line[:-1]
            continue
        yield pending + line
        pending = ""
    if pending:
        yield pending


def _unescaped(text: str) -> str:
    def replaced(match: re.Match[str]) -> str:
        escape = match[1]
        if len(escape) == 5:
            return chr(int(escape[1:], 16))
        return _NAMED_ESCAPES.get(escape, escape)

    unescaped = _ESCAPE.sub(replaced, text)
    if "\\u" in text:
        # Java's characters are UTF-16: two escapes may be one of ours.
        unescaped = unescaped.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return unescaped


def _escaped(text: str, *, is_key: bool) -> str:
    out: list[str] = []
    for index, character in enumerate(text):
        if character in "\\=:#!" or (character == " " and (is_key or index == 0)):
            out.append("\\" + character)
        elif " " <= character <= "~":
            out.append(character)
        else:
            units = character.encode("utf-16-be")
            out.extend(f"\\u{units[i]:02x}{units[i + 1]:02x}" for i in range(0, len(units), 2))
    return "".join(out)
