"""`tidelog consume --format`."""

from __future__ import annotations

from typing import Any

import pytest

from tidelog.cli.admin_session import QuestionError
from tidelog.cli.records.output_records import OutputFormat, renderer
from tidelog.client.consumer.records import ConsumerRecord
from tidelog.wire.record_batch import TimestampType


def shown(text: str, key: bytes | None = b"k", value: bytes | None = b"v\xff", *, is_terminal: bool = False) -> bytes:
    record: ConsumerRecord[Any, Any] = ConsumerRecord(
        "orders", 1, 17, 1794816000000, TimestampType.CREATE_TIME, key, value, (("a", b"1"), ("b", None))
    )
    return renderer(OutputFormat(text=text, is_terminal=is_terminal))(record)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (r"%t %p %o %k %v\n", b"orders 1 17 k v\xff\n"),
        ("%s|%v|%S|%K|%T", b"v\xff|v\xff|2|1|1794816000000"),
        ("%h", b"a=1,b=null"),
        (r"100%% é\t\\n\x00\0\r", "100% é\t\\n\0\0\r".encode()),
        ("", b""),
        ("a\nb", b"a\nb"),
    ],
)
def test_letters_and_escapes(text: str, expected: bytes) -> None:
    assert shown(text) == expected


def test_null_is_nothing_and_its_size_is_minus_one() -> None:
    assert shown("[%k][%K][%s][%S]", None, None) == b"[][-1][][-1]"
    assert shown("[%k][%K]", b"") == b"[][0]"


def test_a_value_cannot_act_on_a_terminal() -> None:
    assert shown("%s", value=b"\x1b[2J\xff", is_terminal=True) == b"\\x1b[2J\\xff"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("%t %y", "--format: %y is no field at column 4; there are %t %p %o"),
        ("a%", "% ends the text without a letter at column 2"),
        ("a\\q", r"\\q is no escape at column 2"),
        ("\\x1", r"\\x is no escape at column 1"),
    ],
)
def test_what_is_no_format_is_one_sentence_with_its_position(text: str, sentence: str) -> None:
    with pytest.raises(QuestionError, match=sentence):
        shown(text)
