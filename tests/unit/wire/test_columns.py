from __future__ import annotations

import subprocess
import sys
from typing import Any

import pyarrow as pa
import pytest

from tests.support.kernel_twins import twin
from tidelog.wire import columns
from tidelog.wire.batch_errors import CorruptBatchError, DecompressedTooLargeError
from tidelog.wire.columns import build_batches, read_columns, schema
from tidelog.wire.compression import Compression
from tidelog.wire.control_records import ControlType, build_end_txn_marker
from tidelog.wire.record_batch import TimestampType, check_batch, each_batch, read_header, restamp
from tidelog.wire.records import Record, build_batch, decode_rows, each_record

__all__ = ["twin"]
pytestmark = pytest.mark.usefixtures("twin")

# Around the twelve bytes that fit into a view itself, and the four that it begins with.
SIZES = [0, 1, 3, 4, 5, 11, 12, 13, 16, 100, 1000]
ROWS = [
    Record(
        index,
        1_700_000_000_000 - 7 * index,
        None if index % 3 == 0 else bytes(range(SIZES[index % len(SIZES)] % 256)),
        None if index % 5 == 0 else b"v" * SIZES[(index + 4) % len(SIZES)],
        tuple((f"h{number}", None if number % 2 else b"x" * number) for number in range(index % 4)),
    )
    for index in range(60)
]


def rows_of(batch: pa.RecordBatch) -> list[Record]:
    batch.validate(full=True)
    taken = batch.to_pydict()
    headers = taken.get("headers", [[]] * batch.num_rows)
    return [
        Record(offset, timestamp, key, value, tuple((header["key"], header["value"]) for header in listed))
        for key, value, offset, timestamp, listed in zip(
            taken["key"], taken["value"], taken["offset"], taken["timestamp"], headers, strict=True
        )
    ]


def without_headers(rows: list[Record]) -> list[Record]:
    return [row._replace(headers=()) for row in rows]


def fetch(*codecs: Compression) -> bytes:
    """The rows in as many batches as there are codecs."""
    size = -(-len(ROWS) // len(codecs))
    parts = [ROWS[size * index : size * (index + 1)] for index in range(len(codecs))]
    return b"".join(
        build_batch(part, base_offset=part[0].offset, codec=codec) for part, codec in zip(parts, codecs, strict=True)
    )


def build(records: pa.Table | pa.RecordBatch, **options: Any) -> list[bytearray]:
    return list(build_batches(records, **{"timestamp_ms": 5, **options}))


@pytest.mark.parametrize("views", [False, True], ids=["binary", "views"])
@pytest.mark.parametrize("headers", [False, True], ids=["without headers", "with headers"])
def test_batches_of_every_codec_become_one_set_of_columns(views: bool, headers: bool) -> None:
    mixed = [Compression.NONE, *Compression, Compression.NONE, Compression.NONE]

    read = read_columns(fetch(*mixed), views=views, headers=headers, check_crcs=True)

    assert read.schema == schema(headers=headers, views=views)
    assert rows_of(read) == (ROWS if headers else without_headers(ROWS))


def test_the_plain_form_is_exactly_what_spark_takes() -> None:
    assert schema().types == [pa.binary(), pa.binary(), pa.int64(), pa.int64()]
    assert schema(headers=True).field("headers").type == pa.list_(
        pa.struct([pa.field("key", pa.string(), nullable=False), pa.field("value", pa.binary())])
    )


def test_views_point_into_the_fetch_buffer_where_it_is_not_compressed() -> None:
    data = fetch(Compression.NONE, Compression.NONE)

    values = read_columns(data, views=True).column("value")

    buffers = values.buffers()
    assert len(buffers) == 3
    assert buffers[2] is not None
    assert buffers[2].address == pa.py_buffer(data).address


def test_a_fetch_may_end_in_the_middle_of_a_batch() -> None:
    whole, last = build_batch(ROWS[:30]), build_batch(ROWS[30:], base_offset=30)

    for cut in (0, 1, 30, 61, len(last) - 1):
        assert read_columns(whole + last[:cut]).num_rows == 30
    assert rows_of(read_columns(b"xx" + whole, 2, headers=True)) == ROWS[:30]


@pytest.mark.parametrize("data", [b"", build_batch(ROWS)[:50]], ids=["nothing", "less than a header"])
@pytest.mark.parametrize("headers", [False, True])
@pytest.mark.parametrize("views", [False, True])
def test_nothing_becomes_empty_columns(data: bytes, headers: bool, views: bool) -> None:
    read = read_columns(data, headers=headers, views=views)

    assert (read.num_rows, read.schema) == (0, schema(headers=headers, views=views))


def test_records_before_the_wanted_offset_are_left_out() -> None:
    data = fetch(*[Compression.NONE] * 3)

    for offset in (0, 1, 19, 20, 59):
        assert rows_of(read_columns(data, from_offset=offset, headers=True)) == ROWS[offset:]
    assert read_columns(data, from_offset=60).num_rows == 0


def test_control_records_and_unwanted_batches_are_left_out() -> None:
    aborted = build_batch(ROWS[:2], producer_id=7, is_transactional=True)
    marker = build_end_txn_marker(
        ControlType.ABORT, producer_id=7, producer_epoch=0, coordinator_epoch=0, timestamp=0, base_offset=2
    )
    wanted = build_batch(ROWS[3:5], base_offset=3)

    read = read_columns(aborted + marker + wanted, is_wanted=lambda header: header.producer_id != 7)

    assert read.column("offset").to_pylist() == [3, 4]


def test_log_append_time_is_that_of_every_row() -> None:
    data = bytearray(build_batch(ROWS))
    restamp(data, 0, base_offset=100, leader_epoch=0, append_time_ms=42)

    read = read_columns(data)

    assert set(read.column("timestamp").to_pylist()) == {42}
    assert read.column("offset").to_pylist() == [100 + index for index in range(60)]


def test_header_keys_that_are_not_utf8_are_replaced() -> None:
    data = bytearray(build_batch([Record(0, 0, None, None, (("abc", b"1"), ("d", None)))]))
    data[data.index(b"abc") + 1] = 0xFF

    assert rows_of(read_columns(data, headers=True))[0].headers == (("a\ufffdc", b"1"), ("d", None))


def test_damage_is_refused() -> None:
    data = bytearray(fetch(Compression.NONE, Compression.ZSTD))
    data[-1] ^= 1
    with pytest.raises(CorruptBatchError, match="checksum"):
        read_columns(data, check_crcs=True)

    damaged = bytearray(build_batch(ROWS))
    damaged[61] = 0x7F
    with pytest.raises(CorruptBatchError, match="record 0"):
        read_columns(damaged)


@pytest.mark.parametrize("codec", [Compression.NONE, Compression.SNAPPY])
def test_a_count_that_the_bytes_cannot_hold_is_refused_before_anything_is_allocated(codec: Compression) -> None:
    data = bytearray(build_batch(ROWS, codec=codec))
    data[57:61] = (2**31 - 1).to_bytes(4)
    data[23:27] = (2**31 - 1).to_bytes(4)

    with pytest.raises(CorruptBatchError, match="claims 2147483647 records"):
        read_columns(data)


def test_the_limit_holds_for_all_batches_together() -> None:
    data = build_batch([Record(0, 0, None, bytes(1000))], codec=Compression.ZSTD) * 3

    assert read_columns(data, decompressed_bytes_max=3100).num_rows == 3
    with pytest.raises(DecompressedTooLargeError, match="allowed 2900 bytes"):
        read_columns(data, decompressed_bytes_max=2900)


def test_more_than_arrow_can_point_into_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    data = build_batch([Record(0, 0, None, bytes(1000))], codec=Compression.ZSTD)
    monkeypatch.setattr(columns, "COLUMN_BYTES_MAX", 900)

    with pytest.raises(ValueError, match="read fewer batches"):
        read_columns(data)
    with pytest.raises(ValueError, match="at most 900 bytes"):
        read_columns(data * 50)


@pytest.mark.parametrize("codec", Compression)
def test_columns_become_batches_again(codec: Compression) -> None:
    table = read_columns(fetch(Compression.NONE), headers=True)

    batches = build(table, codec=codec, batch_bytes_max=1000)

    assert len(batches) > 5
    assert list(each_record(b"".join(batches))) == ROWS
    for batch in batches:
        check_batch(batch, read_header(batch))


def test_batches_are_those_that_are_built_from_rows() -> None:
    table = read_columns(fetch(Compression.NONE), headers=True)

    (batch,) = build(
        table, batch_bytes_max=10**6, producer_id=4, producer_epoch=2, base_sequence=9, is_transactional=True
    )

    assert batch == build_batch(ROWS, producer_id=4, producer_epoch=2, base_sequence=9, is_transactional=True)


def test_offsets_and_sequences_go_on_from_batch_to_batch() -> None:
    table = pa.table({"value": [b"x" * 30] * 10})

    batches = build(
        table, batch_bytes_max=180, base_offset=50, producer_id=1, producer_epoch=0, base_sequence=2**31 - 2
    )

    headers = [header for _, header in each_batch(b"".join(batches))]
    assert [(header.base_offset, header.record_count) for header in headers] == [(50, 3), (53, 3), (56, 3), (59, 1)]
    assert [header.base_sequence for header in headers] == [2**31 - 2, 1, 4, 7]


@pytest.mark.parametrize("limit", [62, 63, 100, 101, 102, 103, 104, 400])
def test_no_batch_is_larger_than_the_limit_unless_for_one_record(limit: int) -> None:
    table = pa.table({"value": [b"x" * (index * 7 % 50) for index in range(100)]})

    batches = build(table, batch_bytes_max=limit)

    assert [row.value for row in each_record(b"".join(batches))] == table.column("value").to_pylist()
    sizes = [(len(batch), read_header(batch).record_count) for batch in batches]
    assert all(size <= limit or count == 1 for size, count in sizes)
    # Nor could any have taken the first record of the next.
    for (size, _), following in zip(sizes, batches[1:], strict=False):
        first = decode_rows(following)[0]
        assert size + 8 + len(first.value or b"") > limit


VALUES = [b"abc", None, b"", b"a longer one than twelve", b"z"]
TEXTS = [None if value is None else value.decode() for value in VALUES]


@pytest.mark.parametrize(
    "array",
    [
        pa.array(VALUES, pa.binary()),
        pa.array(VALUES, pa.large_binary()),
        pa.array(VALUES, pa.binary_view()),
        pa.array(TEXTS, pa.string()),
        pa.array(TEXTS, pa.large_string()),
        pa.array(TEXTS, pa.string_view()),
        pa.array(VALUES, pa.binary()).dictionary_encode(),
        pa.array([b"??", *VALUES, b"!!"], pa.binary()).slice(1, 5),
        pa.array([b"??", *VALUES, b"!!"], pa.binary_view()).slice(1, 5),
        pa.array(["??", *TEXTS, "!!"], pa.large_string()).slice(1, 5),
    ],
    ids=lambda array: f"{array.type} from {array.offset}",
)
def test_keys_and_values_may_be_of_any_binary_or_text_type(array: Any) -> None:
    (batch,) = build(pa.table({"key": array, "value": array}))

    assert [(row.key, row.value) for row in decode_rows(batch)] == [(value, value) for value in VALUES]


def test_fixed_size_values_and_columns_of_nulls_are_taken() -> None:
    fixed = pa.array([b"ab", None, b"cd"], pa.binary(2))
    for nulls in (pa.nulls(3), pa.nulls(3, pa.binary()), pa.array([b"a", None, None, None], pa.binary()).slice(1)):
        (batch,) = build(pa.table({"key": nulls, "value": fixed}))
        assert [(row.key, row.value) for row in decode_rows(batch)] == [(None, b"ab"), (None, None), (None, b"cd")]


@pytest.mark.parametrize(
    ("array", "expected"),
    [
        (pa.array([1, 2, None], pa.int64()), [1, 2, 5]),
        (pa.array([1, 2, None], pa.int32()), [1, 2, 5]),
        (pa.array([1_500_000, 2_999_999, None], pa.timestamp("ns", "UTC")), [1, 2, 5]),
        (pa.array([1, -2, 3], pa.timestamp("s")), [1000, -2000, 3000]),
        (pa.array([9, 1, 2, 3], pa.timestamp("ms", "Europe/Lisbon")).slice(1), [1, 2, 3]),
        (pa.nulls(3), [5, 5, 5]),
    ],
    ids=lambda value: str(value.type) if isinstance(value, pa.Array) else "",
)
def test_timestamps_may_be_numbers_or_of_arrows_type(array: Any, expected: list[int]) -> None:
    (batch,) = build(pa.table({"value": [b"", b"", b""], "timestamp": array}))

    assert [row.timestamp for row in decode_rows(batch)] == expected


def test_rows_without_timestamps_get_the_given_one() -> None:
    (batch,) = build(pa.table({"value": [b"x"]}), timestamp_ms=99, timestamp_type=TimestampType.LOG_APPEND_TIME)

    assert decode_rows(batch) == [Record(0, 99, None, b"x")]
    assert read_header(batch).timestamp_type is TimestampType.LOG_APPEND_TIME


HEADERS = [[("a", b"1"), ("b", None)], None, [], [("c", b"")]]
HEADER_STRUCTS = [None if row is None else [{"key": key, "value": value} for key, value in row] for row in HEADERS]
READ_HEADERS = [(("a", b"1"), ("b", None)), (), (), (("c", b""),)]


@pytest.mark.parametrize(
    "array",
    [
        pa.array(HEADER_STRUCTS, columns.HEADERS_TYPE),
        pa.array(HEADER_STRUCTS, pa.large_list(pa.struct([("key", pa.large_string()), ("value", pa.binary_view())]))),
        pa.array(HEADER_STRUCTS, pa.list_(pa.struct([("value", pa.large_binary()), ("key", pa.binary())]))),
        pa.array(HEADERS, pa.map_(pa.string(), pa.binary())),
        pa.array([[("zz", b"z")], *HEADERS], pa.map_(pa.string(), pa.binary())).slice(1),
        pa.array([[{"key": "zz", "value": None}], *HEADER_STRUCTS], columns.HEADERS_TYPE).slice(1),
    ],
    ids=lambda array: f"{array.type} from {array.offset}",
)
def test_headers_may_be_lists_or_maps(array: Any) -> None:
    (batch,) = build(pa.table({"value": [b""] * 4, "headers": array}))

    assert [row.headers for row in decode_rows(batch)] == READ_HEADERS


def test_a_null_list_that_still_has_a_length_has_no_headers() -> None:
    whole = pa.array([[{"key": "a", "value": b"1"}]] * 2, columns.HEADERS_TYPE)
    masked = pa.Array.from_buffers(
        whole.type,
        2,
        [pa.py_buffer(b"\x02"), whole.buffers()[1]],
        children=[whole.values],  # type: ignore[attr-defined]
    )

    (batch,) = build(pa.table({"value": [b""] * 2, "headers": masked}))

    assert [row.headers for row in decode_rows(batch)] == [(), (("a", b"1"),)]


def test_header_columns_without_any_header_are_taken() -> None:
    for array in (pa.nulls(2), pa.array([[], None], columns.HEADERS_TYPE)):
        (batch,) = build(pa.table({"value": [b"", b""], "headers": array}))
        assert [row.headers for row in decode_rows(batch)] == [(), ()]


def test_all_header_values_may_be_null() -> None:
    array = pa.array([[{"key": "a", "value": None}], [{"key": "b", "value": None}]], columns.HEADERS_TYPE)

    (batch,) = build(pa.table({"value": [b"", b""], "headers": array}))

    assert [row.headers for row in decode_rows(batch)] == [(("a", None),), (("b", None),)]


def test_small_chunks_are_put_together_and_large_ones_are_not_copied() -> None:
    small = pa.chunked_array([[b"a"], [], [b"b"], [b"c"]], pa.binary())
    large = pa.chunked_array([[b"x"] * 5000, [b"y"] * 5000], pa.binary())

    assert len(build(pa.table({"value": small}))) == 1
    batches = build(pa.table({"value": large}), batch_bytes_max=10**6)
    assert [read_header(batch).record_count for batch in batches] == [5000, 5000]


def test_record_batches_and_empty_tables_are_taken() -> None:
    batch = pa.RecordBatch.from_pydict({"value": [b"x", b"y"]})

    assert [row.value for row in each_record(build(batch)[0])] == [b"x", b"y"]
    assert [row.value for row in each_record(build(batch.slice(1))[0])] == [b"y"]
    assert build(batch.slice(2)) == []
    assert build(pa.table({"value": pa.array([], pa.binary())})) == []


STRUCT_WITHOUT_KEY = pa.struct([("name", pa.string()), ("value", pa.binary())])


@pytest.mark.parametrize(
    ("table", "options", "message"),
    [
        ({"key": [b"x"]}, {}, "`value` is missing"),
        ({"value": [b"x"], "topic": ["t"]}, {}, "no column 'topic'"),
        ({"value": [1]}, {}, "`value` is of type int64"),
        ({"value": [b"x"], "key": [1.5]}, {}, "`key` is of type double"),
        ({"value": [b"x"], "timestamp": ["today"]}, {}, "`timestamp` is of type string"),
        ({"value": [b"x"], "timestamp": [1.5]}, {}, "`timestamp` is of type double"),
        ({"value": [b"x"], "headers": [b"x"]}, {}, "`headers` is of type binary"),
        ({"value": [b"x"], "headers": pa.array([[]], pa.list_(STRUCT_WITHOUT_KEY))}, {}, "`headers` is of type list"),
        ({"value": [b"x"], "headers": pa.array([[None]], columns.HEADERS_TYPE)}, {}, "a header is null"),
        ({"value": [b"x"], "headers": [[{"key": None, "value": b""}]]}, {}, "key of a header is null"),
        (
            {"value": [b"x"], "headers": [[{"key": "a", "value": b""}, {"key": None, "value": b""}]]},
            {},
            "key of a header is null",
        ),
        ({"value": [b"x"]}, {"batch_bytes_max": 61}, "batch_bytes_max is 61"),
        ({"value": [b"x"]}, {"batch_bytes_max": 2**31}, "batch_bytes_max is"),
        ({"value": [b"x"]}, {"base_offset": -1}, "negative"),
        ({"value": [b"x", b"y"], "timestamp": [-1, 2**63 - 1]}, {}, "too far apart"),
        ({"value": [b"x"]}, {"codec": Compression.GZIP, "level": 99}, "99 is none of them"),
    ],
)
def test_columns_that_cannot_be_records_are_refused(
    table: dict[str, Any], options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        build(pa.table(table), **options)


def test_a_column_that_is_there_twice_is_refused() -> None:
    twice = pa.Table.from_arrays([pa.array([b"x"]), pa.array([b"y"])], names=["value", "value"])

    with pytest.raises(ValueError, match="twice"):
        build(twice)


def test_an_arrow_array_that_lies_about_its_data_is_refused() -> None:
    offsets = b"".join(offset.to_bytes(8, sys.byteorder) for offset in (0, 3, 2, 4))
    array = pa.Array.from_buffers(pa.large_binary(), 3, [None, pa.py_buffer(offsets), pa.py_buffer(b"abcdef")])

    with pytest.raises(ValueError, match="do not rise"):
        build(pa.RecordBatch.from_arrays([array], names=["value"]))


def test_without_pyarrow_the_extra_is_named() -> None:
    program = "import sys; sys.modules['pyarrow'] = None\nimport tidelog.wire.records\nimport tidelog.wire.columns"

    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)

    assert run.returncode != 0
    assert "ImportError: Arrow columns need pyarrow, which `pip install tidelog[arrow]` installs" in run.stderr
