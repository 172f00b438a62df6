"""The inline functions of compiled modules are what their sources in Python give."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.inline_functions import NotInlineError, all_files, inline_types

WRITTEN = all_files()


@pytest.mark.parametrize("path", WRITTEN, ids=lambda path: path.stem)
def test_a_file_is_what_would_be_written(path: Path) -> None:
    assert path.read_text() == WRITTEN[path], "run `python tools/inline_functions.py write`"


def test_a_function_becomes_what_the_compiled_branch_says() -> None:
    source = '''
LIMIT = 0x10

def half(data: Data, at: Size, flexible: bool) -> tuple[int, Size]:
    """Never seen."""
    value: int = 0
    if cython.compiled:
        value = fast(data)
    else:
        value = slow(data)
    while value > LIMIT:
        value >>= 1
    if cython.compiled:
        return value, at
    return -1, -1
'''
    text = inline_types(source, "halves")

    assert "cdef enum:\n    LIMIT = 0x10\n" in text
    assert text.endswith(
        "cdef inline (long long, Py_ssize_t) half("
        "const unsigned char *data, Py_ssize_t at, bint flexible) noexcept nogil:\n"
        "    cdef long long value = 0\n"
        "    value = fast(data)\n"
        "    while value > LIMIT:\n"
        "        value >>= 1\n"
        "    return value, at\n"
    )


def test_what_takes_an_object_keeps_the_lock_and_what_can_raise_says_so() -> None:
    source = (
        "@cython.exceptval(-2, check=False)\ndef put(out: Room, data: bytes) -> Size:\n    return copied(out, data)\n"
    )

    assert "cdef inline Py_ssize_t put(unsigned char *out, bytes data) except -2:\n" in inline_types(source, "x")


@pytest.mark.parametrize(
    ("body", "named"),
    [
        ("    count = 1\n    return count\n", "count"),
        ("    for each in data:\n        pass\n    return 0\n", "For"),
        ("    if at:\n        count: int = 1\n    return 0\n", "count"),
    ],
)
def test_what_would_become_an_object_unseen_is_refused(body: str, named: str) -> None:
    with pytest.raises(NotInlineError, match=named):
        inline_types(f"def one(data: Data, at: Size) -> int:\n{body}", "x")
