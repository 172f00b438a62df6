"""Java's hash of a string, with values that Java gave."""

from __future__ import annotations

import pytest

from tidelog.model.java_hash import partition_of, string_hash


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", 0),
        ("a", 97),
        ("hello", 99162322),
        ("polygenelubricants", -2147483648),
        ("console-consumer-12345", 158455506),
        ("größe", 98762257),
        ("🎈 group", 990629931),
    ],
)
def test_is_that_of_java(text: str, value: int) -> None:
    assert string_hash(text) == value


def test_the_smallest_number_has_no_absolute_value_in_java() -> None:
    assert partition_of("polygenelubricants", 50) == 0
    assert partition_of("hello", 50) == 22
