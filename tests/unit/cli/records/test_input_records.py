"""The records that `tidelog produce` is given."""

from __future__ import annotations

import contextlib
import io
import json

import pytest
from hypothesis import given, strategies as st

from tidelog.cli.admin_session import QuestionError
from tidelog.cli.records.input_records import InputFormat, InputRecord, parse_line, read_lines
from tidelog.cli.records.output_records import OutputFormat, renderer
from tidelog.client.consumer.records import ConsumerRecord
from tidelog.wire.record_batch import TimestampType

LINES = InputFormat()
JSON = InputFormat(is_json=True)


def test_a_stream_is_read_line_by_line_with_either_end() -> None:
    assert list(read_lines(io.BytesIO(b"a\r\n\nb\rc\nd"), 10)) == [b"a", b"", b"b\rc", b"d"]


def test_a_line_that_no_record_can_hold_is_not_read_whole() -> None:
    stream = io.BytesIO(b"ok\n" + b"x" * 1000)
    lines = read_lines(stream, 10)

    assert next(lines) == b"ok"
    with pytest.raises(QuestionError, match="line 2 is longer than 10 bytes"):
        next(lines)
    assert stream.tell() < 20


def test_a_line_of_exactly_the_limit_will_do() -> None:
    assert list(read_lines(io.BytesIO(b"x" * 10 + b"\n" + b"y" * 10), 10)) == [b"x" * 10, b"y" * 10]


@pytest.mark.parametrize(
    ("line", "form", "record"),
    [
        (b"a:b", LINES, InputRecord(b"a:b")),
        (b"", LINES, InputRecord(b"")),
        (b"a:b:c", InputFormat(key_separator=b":"), InputRecord(b"b:c", b"a")),
        (b":b", InputFormat(key_separator=b":"), InputRecord(b"b", b"")),
        (b"a", InputFormat(key=b"k"), InputRecord(b"a", b"k")),
        (b"a:NULL", InputFormat(b":", b"NULL"), InputRecord(None, b"a")),
        (b"NULL:a", InputFormat(b":", b"NULL"), InputRecord(b"a", None)),
        (b"", InputFormat(null_marker=b""), InputRecord(None)),
        (b"{}", JSON, InputRecord(None)),
        (b'{"value":"v"}', InputFormat(is_json=True, key=b"k"), InputRecord(b"v", b"k")),
        (b'{"key":"k","value":{"base64":"AP8="}}', JSON, InputRecord(b"\x00\xff", b"k")),
        (
            b'{"value":"v","headers":[["a","b"],["c",null]]}',
            JSON,
            InputRecord(b"v", headers=[("a", b"b"), ("c", None)]),
        ),
        (b'{"value":"v","partition":3,"timestamp":5}', JSON, InputRecord(b"v", partition=3, timestamp_ms=5)),
        (b'{"value":"v","timestamp":-1}', JSON, InputRecord(b"v")),
    ],
)
def test_a_line_is_a_record(line: bytes, form: InputFormat, record: InputRecord) -> None:
    parsed = parse_line(line, 1, form)

    assert (parsed.value, parsed.key, list(parsed.headers)) == (record.value, record.key, list(record.headers))
    assert (parsed.partition, parsed.timestamp_ms) == (record.partition, record.timestamp_ms)


@pytest.mark.parametrize(
    ("line", "form", "sentence"),
    [
        (b"a", InputFormat(key_separator=b":"), "line 7 has no key: expected the separator ':'"),
        (b"a", JSON, "line 7 is not JSON"),
        (b"\xff", JSON, "line 7 is not JSON"),
        (b"[" * 100_000, JSON, "line 7 is not JSON"),
        (b"[1]", JSON, "line 7 is not a JSON object"),
        (b'{"value":{"base64":"?"}}', JSON, "line 7 has base64"),
        (b'{"value":5}', JSON, "line 7 has 5 as its value: expected text, null or"),
        (b'{"value":{"id":1}}', JSON, 'line 7 has {"id": 1} as its value: expected text'),
        (b'{"value":"%s"}' % (b"x" * 99) * 2, JSON, "line 7 is not JSON"),
        (b'{"value":[' + b"0," * 99 + b"0]}", JSON, r"line 7 has .{40}[.]{3} as its value"),
        (b'{"key":true}', JSON, "line 7 has true as its key: expected text"),
        (b'{"headers":[["a",1]]}', JSON, "line 7 has 1 as its header: expected text"),
        (b'{"valeu":"x"}', JSON, "line 7 has a field 'valeu'; a record has key, value, headers"),
        (b'{"value":"\\ud800"}', JSON, "line 7 has text that no UTF-8"),
        (b'{"headers":{"a":"b"}}', JSON, "line 7 has headers"),
        (b'{"headers":[["a"]]}', JSON, "line 7 has headers"),
        (b'{"partition":-1}', JSON, "line 7 has -1 as its partition"),
        (b'{"partition":2147483648}', JSON, "line 7 has 2147483648 as its partition"),
        (b'{"timestamp":"now"}', JSON, "line 7 has 'now' as its timestamp"),
        (b'{"timestamp":true}', JSON, "line 7 has True as its timestamp"),
    ],
)
def test_a_line_that_is_no_record_is_named(line: bytes, form: InputFormat, sentence: str) -> None:
    with pytest.raises(QuestionError, match=sentence):
        parse_line(line, 7, form)


@given(st.binary(max_size=60))
def test_no_line_is_more_than_one_sentence(line: bytes) -> None:
    with contextlib.suppress(QuestionError):
        parse_line(line, 1, JSON)


blob = st.none() | st.binary(max_size=20) | st.text(max_size=20).map(str.encode)


@given(blob, blob, st.lists(st.tuples(st.text(max_size=5), blob), max_size=3), st.integers(-1, 2**62))
def test_what_consume_prints_as_json_produce_reads_back(
    key: bytes | None, value: bytes | None, headers: list[tuple[str, bytes | None]], timestamp_ms: int
) -> None:
    record = ConsumerRecord("t", 3, 9, timestamp_ms, TimestampType.CREATE_TIME, key, value, tuple(headers))
    line = renderer(OutputFormat(as_json=True))(record)

    parsed = parse_line(line.removesuffix(b"\n"), 1, JSON)

    assert json.loads(line)["offset"] == 9
    assert (parsed.key, parsed.value, list(parsed.headers), parsed.partition) == (key, value, headers, 3)
    assert parsed.timestamp_ms == (None if timestamp_ms < 0 else timestamp_ms)
