"""`tidelog consume --filter` and `--grep`: which records they take, and what they refuse."""

from __future__ import annotations

from typing import Any

import pytest

from tidelog.cli.admin_session import QuestionError
from tidelog.cli.records.record_expression import EXPRESSION_MAX, grep, record_filter, topic_pattern
from tidelog.client.consumer.records import ConsumerRecord
from tidelog.wire.record_batch import TimestampType

ORDER = b'{"amount": 12.5, "customer": {"id": "c1", "first name": "Eve"}, "items": ["pen", {"sku": 7}], "note": null}'


def record(value: bytes | None = ORDER, key: bytes | None = b"k-1") -> ConsumerRecord[Any, Any]:
    headers = (("shop", b"south"), ("shop", b"north"), ("trace id", b"\xff"), ("none", None))
    return ConsumerRecord("orders", 1, 17, 1794816000000, TimestampType.CREATE_TIME, key, value, headers)


@pytest.mark.parametrize(
    "expression",
    [
        "key == 'k-1'",
        "  startswith(key, 'k') and endswith(key, '1')",
        "json.amount > 10",
        "10 < json.amount <= 12.5",
        "json.customer.id == 'c1' and json['customer']['first name'] == 'Eve'",
        "json.items[0] == 'pen' and json.items[-1].sku == 7",
        "json.items[9] is None and json.missing.deeper is None and json.note is None",
        "'amount' in json and 'pen' in json.items and 'Eve' in value and 'x' not in value",
        "headers.shop == 'north' and headers['trace id'] == '\ufffd' and headers.none is None",
        "topic == 'orders' and partition == 1 and offset % 10 == 7",
        "timestamp >= time('2026-11-16T08:00:00Z') and timestamp < time('2026-11-16T08:00:00.001Z')",
        "partition in (0, 1) and partition not in [2, 3]",
        r"matches(key, r'^k-\d+$') and not matches(key, '^x')",
        "lower('ABC') == 'abc' and upper(key) == 'K-1' and len(key) == 3 and len(json.items) == 2",
        "int('12') + 1 == 13 and float('0.5') * 2 - 1 == 0 and 7 // 2 == 3 and -offset / 17 == -1",
    ],
)
def test_what_holds(expression: str) -> None:
    assert record_filter(expression)(record())


@pytest.mark.parametrize(
    "expression",
    [
        "value > 10",
        "json.amount < 'a'",
        "json.amount / 0 > 1",
        "int('x') > 0",
        "json.customer > 1",
        "'a' in json.amount",
        "'pen' * 9 == 'pen'",
        "matches(json.amount, '.')",
        "startswith(json.note, 'a')",
        "json['items']['0'] is not None",
        "False or 0 or None",
    ],
)
def test_what_cannot_be_compared_or_computed_does_not_hold(expression: str) -> None:
    assert not record_filter(expression)(record())


@pytest.mark.parametrize("value", [None, b"", b"\xff", b"{", b"[" * 100_000, b"17"])
def test_a_value_that_is_no_object_has_no_fields(value: bytes | None) -> None:
    assert record_filter("json.amount is None")(record(value))


@pytest.mark.parametrize(
    ("expression", "sentence"),
    [
        ("", "the expression is empty"),
        ("key ==", "column 7: invalid syntax"),
        ("vlaue == 'a'", "column 1: there is no vlaue; did you mean value?"),
        ("key == 'é' or os", "column 15: there is no os; there are key, value, json"),
        ("key.__class__", "column 1: only json and headers have fields"),
        ("(1).real", "column 1: only json and headers have fields"),
        ("__import__('os')", "column 1: there is no such function"),
        ("eval('1')", "column 1: there is no such function"),
        ("json.get('a')", "column 1: there is no such function"),
        ("strtswith(key, 'a')", "did you mean startswith?"),
        ("startswith(key)", "column 1: startswith takes 2 arguments"),
        ("matches(key, value)", "column 1: matches takes a text and a pattern in quotes"),
        ("matches(key, '(')", "column 14: no regular expression of RE2: missing )"),
        ("time('soon')", "column 6: 'soon' is not a time"),
        ("key is 'a'", "column 8: `is` is for None alone"),
        ("[x for x in json]", "column 1: ListComp is not part of the language"),
        ("lambda: 1", "Lambda is not part of the language"),
        ("2 ** 9999", "BinOp is not part of the language"),
        ("json[key]", "Subscript is not part of the language"),
        ("f'{key}'", "JoinedStr is not part of the language"),
        ("b'a' == key", "Constant is not part of the language"),
        ("-" * 1000 + "1", "levels|nested too deeply"),
        ("(" * 500 + "1" + ")" * 500, "parentheses|nested too deeply"),
        ("1 + " * 70 + "1", "levels"),
        ("1" * (EXPRESSION_MAX + 1), "at most 2000 characters"),
        ("key == '\0'", "null|nested too deeply"),
    ],
)
def test_what_is_no_expression_is_one_sentence_with_its_position(expression: str, sentence: str) -> None:
    with pytest.raises(QuestionError, match=sentence.replace("?", r"\?").replace("(", r"\(").replace(")", r"\)")):
        record_filter(expression)


def test_grep_looks_into_keys_and_values() -> None:
    assert grep("^k-[0-9]$")(record())
    assert grep('"Eve"')(record())
    assert grep("é")(record("café".encode(), None))
    assert not grep("north")(record())
    assert not grep(".")(record(None, None))
    with pytest.raises(QuestionError, match="--grep: no regular expression of RE2"):
        grep("[")


def test_a_pattern_of_topics_is_about_the_whole_name() -> None:
    assert [name for name in ("orders", "orders.eu", "my-orders") if topic_pattern("^orders.*")(name)] == [
        "orders",
        "orders.eu",
    ]
    assert not topic_pattern("^orders|x")("orders.eu")
