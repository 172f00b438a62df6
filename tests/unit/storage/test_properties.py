"""Java's properties files."""

from __future__ import annotations

import pytest

from tidelog.storage.properties import format_properties, parse_properties


@pytest.mark.parametrize(
    ("content", "properties"),
    [
        (b"", {}),
        (b"# comment\n! comment\n\n   # indented\na=1\n", {"a": "1"}),
        (b"a=1\na=2", {"a": "2"}),
        (b"a = 1\nb:2\nc 3\nd\n", {"a": "1", "b": "2", "c": "3", "d": ""}),
        (b"a=b=c\n", {"a": "b=c"}),
        (b"  a=  b  \n", {"a": "b  "}),
        (b"a=one \\\n   two\nb=3\\\\\nc=4", {"a": "one two", "b": "3\\", "c": "4"}),
        (b"a\\ b\\=c=d\n", {"a b=c": "d"}),
        (b"a=\\u00e9\\t\\n\\q\n", {"a": "\u00e9\t\nq"}),
        (b"a=\xe9\n", {"a": "\u00e9"}),
        (b"a=1\r\nb=2\rc=3", {"a": "1", "b": "2", "c": "3"}),
        (b"a=x\\", {"a": "x"}),
        (b"a=\\ud83d\\udc0d \\ud83d!\n", {"a": "\U0001f40d \ufffd!"}),
    ],
)
def test_it_reads_what_java_reads(content: bytes, properties: dict[str, str]) -> None:
    assert parse_properties(content) == properties


def test_it_writes_what_java_reads() -> None:
    properties = {"cluster.id": "a-b_c", "odd key:": " leading", "x": "= # ! \\ \u00e9 \U0001f40d \t"}

    content = format_properties(properties)

    assert content.startswith(b"#\ncluster.id=a-b_c\nodd\\ key\\:=\\ leading\n")
    assert b"\\ud83d\\udc0d" in content
    assert parse_properties(content) == properties
