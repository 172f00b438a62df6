"""Records into batches: what is written is what any reader reads back."""

from __future__ import annotations

import gc

import pytest
from hypothesis import given, strategies as st

from tidelog import kernel_choice
from tidelog.client.producer import batch_builder
from tidelog.client.producer.record_metadata import RecordMetadata
from tidelog.wire.record_batch import HEADER_BYTES, check_batch, read_header
from tidelog.wire.records import Record, build_batch, decode_rows, seal_batch

fields = st.none() | st.binary(max_size=8) | st.sampled_from([bytes(63), bytes(64), bytes(300)])
headers = st.lists(st.tuples(st.text(max_size=10), st.none() | st.binary(max_size=20)), max_size=3).map(tuple)
rows = st.lists(st.tuples(st.integers(-1, 2**45), fields, fields, headers), min_size=1, max_size=10)


@given(rows=rows)
def test_a_batch_is_the_same_as_one_that_is_built_at_once(
    rows: list[tuple[int, bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]],
) -> None:
    builder = batch_builder.BatchBuilder(1 << 20, HEADER_BYTES)

    for timestamp, key, value, row_headers in rows:
        assert builder.append(timestamp, key, value, row_headers, None) is not None
    buffer, base_timestamp, max_timestamp = builder.finish()
    sealed = seal_batch(
        buffer,
        record_count=len(rows),
        base_offset=0,
        last_offset=len(rows) - 1,
        base_timestamp=base_timestamp,
        max_timestamp=max_timestamp,
    )

    expected = build_batch([Record(index, *row) for index, row in enumerate(rows)])
    check_batch(sealed, read_header(sealed))
    assert decode_rows(sealed) == decode_rows(expected)
    assert bytes(sealed) == expected


def test_a_batch_ends_before_the_record_that_does_not_fit() -> None:
    # Length, attributes, two deltas, null key, length of the value, header count; the value has 10 bytes.
    builder = batch_builder.BatchBuilder(HEADER_BYTES + 2 * 17, HEADER_BYTES)

    taken = [builder.append(5, None, bytes(10), (), None) is not None for _ in range(3)]

    assert taken == [True, True, False]
    assert builder.record_count == 2
    assert builder.size_bytes == HEADER_BYTES + 2 * 17


def test_what_a_record_may_take_is_never_less_than_what_it_takes() -> None:
    for size in (0, 1, 63, 64, 8191, 8192, 100_000):
        for key in (None, bytes(size)):
            needed = batch_builder.required_bytes(key, bytes(size), [("h", b"v")])
            builder = batch_builder.BatchBuilder(HEADER_BYTES + needed, HEADER_BYTES)
            assert builder.append(2**45, key, bytes(size), [("h", b"v")], None) is not None


@pytest.mark.parametrize("bad", ["text", 7, object()])
def test_what_is_not_bytes_is_a_type_error_and_changes_nothing(bad: object) -> None:
    builder = batch_builder.BatchBuilder(1000, HEADER_BYTES)

    for key, value, pairs in ((bad, None, ()), (None, bad, ()), (None, b"", [("k", bad)]), (None, b"", [(7, b"")])):
        with pytest.raises(TypeError):
            builder.append(0, key, value, pairs, None)

    assert (builder.record_count, builder.size_bytes) == (0, HEADER_BYTES)


@pytest.mark.parametrize(
    ("bad", "sentence"),
    [
        ({"a": b"5"}, "pairs such as"),
        ("ab", "pairs such as"),
        (5, "not int"),
        (["ab"], "each has a string"),
        ([("a",)], "each has a string"),
        ([("a", 5)], "the value of the header 'a' is bytes or None, not int"),
        ([(b"a", b"5")], "the key of a header is a string, not bytes"),
    ],
)
def test_headers_that_are_none_are_a_sentence(bad: object, sentence: str) -> None:
    builder = batch_builder.BatchBuilder(1000, HEADER_BYTES)

    with pytest.raises(TypeError, match=sentence):
        builder.append(0, None, b"", bad, None)

    assert (builder.record_count, builder.size_bytes) == (0, HEADER_BYTES)


def test_a_header_key_that_utf8_does_not_have_is_a_sentence() -> None:
    with pytest.raises(ValueError, match="has characters that UTF-8 does not have"):
        batch_builder.BatchBuilder(1000, HEADER_BYTES).append(0, None, b"", [("\ud800", b"")], None)


def test_buffers_of_other_kinds_are_taken() -> None:
    builder = batch_builder.BatchBuilder(1000, HEADER_BYTES)

    builder.append(0, bytearray(b"k"), memoryview(b"v"), (), None)
    buffer, _, _ = builder.finish()

    assert bytes(buffer[HEADER_BYTES:]).endswith(b"\x02k\x02v\x00")


def test_callbacks_hear_of_their_records_and_their_failures_are_kept_apart() -> None:
    builder = batch_builder.BatchBuilder(1000, HEADER_BYTES)
    heard: list[object] = []

    def fail(_error: object, _metadata: object) -> None:
        raise ValueError("mine")

    builder.append(70, None, b"a", (), lambda error, metadata: heard.append((error, metadata)))
    builder.append(71, None, b"b", (), None)
    builder.append(72, None, b"c", (), fail)
    builder.append(73, None, b"d", (), lambda error, metadata: heard.append((error, metadata)))
    reported = builder.take_reported()
    assert reported[1::3] == [0, 2, 3]
    assert reported[2::3] == [70, 72, 73]
    failures = batch_builder.report(reported, RecordMetadata, "t", 4, 100, -1)

    assert heard == [(None, ("t", 4, 100, 70)), (None, ("t", 4, 103, 73))]
    assert [str(failure) for failure in failures] == ["mine"]
    assert builder.take_reported() == []


@pytest.mark.parametrize(
    ("offset", "append_time_ms", "expected"), [(100, -1, (101, 71)), (100, 900, (101, 900)), (-1, -1, (-1, 71))]
)
def test_a_delivery_of_a_written_batch_waits_for_nothing(
    offset: int, append_time_ms: int, expected: tuple[int, int]
) -> None:
    builder = batch_builder.BatchBuilder(1000, HEADER_BYTES)
    builder.append(70, None, b"a", (), None)
    delivery = builder.append(71, None, b"b", (), None)

    builder.written(RecordMetadata, "t", 4, offset, append_time_ms)

    assert delivery is not None
    metadata = delivery.result(timeout_s=0)
    assert type(metadata) is RecordMetadata
    assert metadata == RecordMetadata("t", 4, *expected)
    for _ in range(2):
        # As `await` does it, and as often as anybody likes.
        with pytest.raises(StopIteration) as returned:
            delivery.__await__().send(None)
        assert returned.value.value == metadata


def test_many_deliveries_are_nothing_to_the_garbage_collector() -> None:
    if kernel_choice.choice.twin != "compiled":
        pytest.skip("the kernel is not compiled")
    builder = batch_builder.BatchBuilder(1000, HEADER_BYTES)

    assert not gc.is_tracked(builder.append(0, None, b"a", (), None))
