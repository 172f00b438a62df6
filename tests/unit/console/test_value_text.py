"""Bytes as people read them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tidelog.console.records.value_text import ValueDecoder


def shown(data: bytes | None, form: str = "auto", text_max: int = 100) -> Any:
    return asyncio.run(ValueDecoder(None).shown(data, form, text_max))


@pytest.mark.parametrize(
    ("data", "form", "text"),
    [
        (b'{"a": 1}', "json", '{"a": 1}'),
        (b"[1, 2]", "json", "[1, 2]"),
        (b"42", "text", "42"),
        (b"", "text", ""),
        (b"{broken", "text", "{broken"),
        ("häßlich\n".encode(), "text", "häßlich\n"),
        (b"\x00\x01", "hex", "0001"),
        (b"a\x00b", "hex", "610062"),
        (b"\xff\xfe", "hex", "fffe"),
        (b"<script>alert(1)</script>", "text", "<script>alert(1)</script>"),
    ],
)
def test_a_value_is_json_or_text_or_hex(data: bytes, form: str, text: str) -> None:
    assert shown(data) == {"format": form, "text": text, "bytes": len(data), "truncated": False}


def test_null_is_no_value() -> None:
    assert shown(None) is None


def test_a_long_value_is_cut_and_says_so() -> None:
    found = shown(b"x" * 101)
    assert (len(found["text"]), found["bytes"], found["truncated"]) == (100, 101, True)
    assert shown(b"\x00" * 51)["truncated"]
    assert not shown(b"\x00" * 50)["truncated"]


def test_a_value_that_is_not_of_its_format_is_shown_as_hex_with_the_reason() -> None:
    found = shown(b"no json", "json")
    assert (found["format"], found["text"]) == ("hex", b"no json".hex())
    assert found["problem"] == "the value is no JSON"
    assert "--registry" in shown(b"\x00\x00\x00\x00\x07x", "avro")["problem"]


def test_json_that_is_nested_without_end_stops_nobody() -> None:
    assert shown(b"[" * 100_000, text_max=5)["format"] == "text"
