"""Java's hash of a string, with values that Java gave."""

from __future__ import annotations

import pytest

from tidelog.model.java_hash import hash_set_order, partition_of, string_hash


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


@pytest.mark.parametrize(
    "listed",
    [
        # As a HashSet of Java 17 lists them.
        ["PLAIN", "SCRAM-SHA-512", "SCRAM-SHA-256", "OAUTHBEARER"],
        ["PLAIN", "SCRAM-SHA-512", "GSSAPI", "OAUTHBEARER"],
        [],
    ],
)
def test_texts_are_listed_as_java_lists_them(listed: list[str]) -> None:
    assert hash_set_order(sorted(listed)) == listed
    assert hash_set_order([*listed, *listed]) == listed
