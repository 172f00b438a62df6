"""Bytes, times and messages, as a person and as a program sees them."""

from __future__ import annotations

import pytest

from tidelog.cli.rendering import bytes_as_json, bytes_as_text, message_as_json, printable, time_as_text
from tidelog.wire.messages.internal.cluster_metadata import TopicRecord
from tidelog.wire.messages.internal.offset_records import OffsetCommitValue


@pytest.mark.parametrize(
    ("data", "as_json", "as_text"),
    [
        (None, None, "null"),
        (b"", "", '""'),
        (b"plain", "plain", '"plain"'),
        ("süß ☕".encode(), "süß ☕", '"süß ☕"'),
        (b'a "quote"', 'a "quote"', '"a \\"quote\\""'),
        (b"\x00\xff", {"base64": "AP8="}, "0x00ff"),
        (b"\x1b[31mred\x7f", "\x1b[31mred\x7f", '"\\u001b[31mred\\u007f"'),
        (memoryview(b"view"), "view", '"view"'),
    ],
)
def test_bytes(data: bytes | None, as_json: object, as_text: str) -> None:
    assert bytes_as_json(data) == as_json
    assert bytes_as_text(data) == as_text


@pytest.mark.parametrize(
    ("timestamp", "text"),
    [
        (-1, "no time"),
        (0, "1970-01-01T00:00:00.000Z"),
        (1_700_000_000_123, "2023-11-14T22:13:20.123Z"),
        (-62_135_596_800_000, "0001-01-01T00:00:00.000Z"),
        (2**63 - 1, "time 9223372036854775807"),
        (-(2**63), "time -9223372036854775808"),
    ],
)
def test_times(timestamp: int, text: str) -> None:
    assert time_as_text(timestamp) == text


def test_a_name_is_shown_as_it_is_unless_it_could_do_something() -> None:
    assert printable("orders-0/00.log") == "orders-0/00.log"
    assert printable("a\x1b[2Jb") == '"a\\u001b[2Jb"'


def test_a_message_has_the_fields_of_its_version() -> None:
    value = OffsetCommitValue(offset=5, leader_epoch=1, metadata="m", commit_timestamp=9)

    assert message_as_json(value, 3) == {"offset": 5, "leader_epoch": 1, "metadata": "m", "commit_timestamp": 9}
    assert set(message_as_json(value, 4)) - set(message_as_json(value, 3)) == {"topic_id"}


def test_an_id_is_shown_as_kafka_writes_it() -> None:
    record = TopicRecord(name="orders", topic_id=bytes(15) + b"\x01")

    assert message_as_json(record, 0) == {"name": "orders", "topic_id": "AAAAAAAAAAAAAAAAAAAAAQ"}
