"""How `tidelog consume` shows a record."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tidelog.cli.admin_session import QuestionError
from tidelog.cli.records.consume import ConsumeOptions, check_options
from tidelog.cli.records.output_records import OutputFormat, renderer
from tidelog.client.consumer.records import ConsumerRecord
from tidelog.wire.record_batch import TimestampType


def record(value: bytes | None = b"v", key: bytes | None = b"k", **other: Any) -> ConsumerRecord[Any, Any]:
    headers = other.get("headers", ())
    return ConsumerRecord("orders", 1, 17, 1794816000000, TimestampType.CREATE_TIME, key, value, headers)


def test_a_value_alone_is_as_it_is() -> None:
    line = renderer(OutputFormat())

    assert line(record(b"\x00\xff\x1b")) == b"\x00\xff\x1b\n"
    assert line(record(None)) == b"null\n"


def test_what_is_asked_for_comes_before_the_value() -> None:
    line = renderer(OutputFormat(keys=True, headers=True, times=True, offsets=True, separator=b"|"))

    assert line(record(headers=(("a", b"1"), ("b", None)))) == b"orders-1@17|2026-11-16T08:00:00.000Z|a=1,b=null|k|v\n"
    assert line(record(key=None)) == b"orders-1@17|2026-11-16T08:00:00.000Z|-|null|v\n"


def test_a_value_cannot_act_on_a_terminal() -> None:
    line = renderer(OutputFormat(keys=True, is_terminal=True))

    shown = line(record(b"a\tb\x1b[2J\xc2\x9b", b"\xff"))

    assert shown == b"\\xff\ta\tb\\x1b[2J\\x9b\n"


def test_a_headers_name_and_json_cannot_act_on_a_terminal_either() -> None:
    hostile = record("\x1b[2J\x7f\x9b\u202e\U000e0001é".encode(), headers=(("\x1b", b"\x1b"),))

    shown = renderer(OutputFormat(headers=True, is_terminal=True))(hostile)
    as_json = renderer(OutputFormat(as_json=True, is_terminal=True))(hostile)

    assert shown.decode() == "\\x1b=\\x1b\t\\x1b[2J\\x7f\\x9b\\u202e\\U000e0001é\n"
    assert as_json.decode().removesuffix("\n").isprintable()
    assert json.loads(as_json) == json.loads(renderer(OutputFormat(as_json=True))(hostile))


@pytest.mark.parametrize(
    ("topics", "options", "sentence"),
    [
        (["orders"], ConsumeOptions(start="1", start_time="0"), "contradict each other"),
        (["orders"], ConsumeOptions(start="first"), "is no place to begin"),
        (["orders"], ConsumeOptions(start="--1"), "is no place to begin"),
        (["orders"], ConsumeOptions(start_time="soon"), "is not a time"),
        (["orders:x"], ConsumeOptions(), "is not a topic"),
        (["orders:0"], ConsumeOptions(group="g"), "share partitions"),
        (["orders"], ConsumeOptions(form=OutputFormat(text="%s", as_json=True)), "--format says all that is shown"),
        (["orders"], ConsumeOptions(overwrites=True), "--force is about the file of --output"),
        (["^orders["], ConsumeOptions(), "no regular expression of RE2"),
        (["orders"], ConsumeOptions(group="g", start="5"), "goes on where it has committed"),
        (["orders"], ConsumeOptions(group="g", start_time="5"), "goes on where it has committed"),
    ],
)
def test_what_contradicts_itself_is_one_sentence(topics: list[str], options: ConsumeOptions, sentence: str) -> None:
    with pytest.raises(QuestionError, match=sentence):
        check_options(topics, options)


@pytest.mark.parametrize("start", [None, "beginning", "end", "0", "17", "-3"])
def test_places_to_begin(start: str | None) -> None:
    check_options(["orders:0,1"], ConsumeOptions(start=start))
