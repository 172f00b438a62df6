from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum

import pytest

from tests.support.kernel_twins import twin
from tidelog.wire import records
from tidelog.wire.batch_errors import CorruptBatchError, DecompressedTooLargeError
from tidelog.wire.compression import Compression
from tidelog.wire.control_records import (
    ControlType,
    EndTxnMarker,
    build_end_txn_marker,
    control_key,
    read_control_type,
    read_end_txn_marker,
)
from tidelog.wire.record_batch import HEADER_BYTES, TimestampType, check_batch, read_header
from tidelog.wire.records import (
    Record,
    build_batch,
    build_empty_batch,
    decode_batch,
    decode_rows,
    decode_tuples,
    each_record,
    seal_batch,
)

__all__ = ["twin"]
pytestmark = pytest.mark.usefixtures("twin")

# Written by Apache Kafka 4.3.1's own MemoryRecords.
KAFKA_ROWS = [
    Record(5, 1700000000000, b"k", b"one", (("h", b"x"), ("n", None))),
    Record(6, 1700000000007, None, b""),
    Record(7, 1699999999990, b"", None),
]
KAFKA_BATCHES = {
    Compression.NONE: "00000000000000050000005100000004023ce78fc30010000000020000018bcfe568000000018bcfe568070000000000000009"
    "00037ffffffe0000000322000000026b066f6e650402680278026e010c000e020100000c001304000100",
    Compression.GZIP: "00000000000000050000006500000004024daa938c0011000000020000018bcfe568000000018bcfe568070000000000000009"
    "00037ffffffe000000031f8b08000000000000ff5362606060ca66cbcf4b6561ca60aa60ca63e461e063626460e06110666160640000"
    "7b23365120000000",
    Compression.SNAPPY: "0000000000000005000000670000000402dec840af0012000000020000018bcfe568000000018bcfe568070000000000000009"
    "00037ffffffe0000000382534e4150505900000000010000000100000022207c22000000026b066f6e650402680278026e010c000e02"
    "0100000c001304000100",
    Compression.LZ4: "000000000000000500000060000000040204a480220013000000020000018bcfe568000000018bcfe568070000000000000009"
    "00037ffffffe0000000304224d186040822000008022000000026b066f6e650402680278026e010c000e020100000c00130400010000"
    "000000",
    Compression.ZSTD: "00000000000000050000005d00000004024776ff610014000000020000018bcfe568000000018bcfe568070000000000000009"
    "00037ffffffe0000000328b52ffd005800010022000000026b066f6e650402680278026e010c000e020100000c001304000100010000",
}
KAFKA_COMMIT = (
    "0000000000000007000000420000000402f26e31a90030000000000000018bcfe568000000018bcfe5680000000000000000090003"
    "ffffffff000000012000000008000000010c00000000000b00"
)


def zigzag(number: int) -> bytes:
    bits = number << 1 ^ number >> 63
    out = bytearray()
    while bits >= 0x80:
        out.append(bits & 0x7F | 0x80)
        bits >>= 7
    return bytes([*out, bits])


def record(
    *,
    length: int | None = None,
    timestamp: bytes = b"\0",
    offset: bytes = b"\0",
    key: bytes = b"\1",
    value: bytes = b"\1",
    headers: bytes = b"\0",
) -> bytes:
    """One record from raw pieces."""
    body = b"\0" + timestamp + offset + key + value + headers
    return zigzag(len(body) if length is None else length) + body


def sealed(data: bytes, *, count: int = 1, last: int = 9, base_timestamp: int = 0) -> bytes:
    """A batch, correct but for what is in `data`."""
    return bytes(
        seal_batch(
            bytearray(HEADER_BYTES) + data,
            record_count=count,
            base_offset=0,
            last_offset=last,
            base_timestamp=base_timestamp,
            max_timestamp=0,
        )
    )


@pytest.mark.parametrize("codec", Compression)
def test_batches_that_apache_kafka_wrote_are_read(codec: Compression) -> None:
    data = bytes.fromhex(KAFKA_BATCHES[codec])
    header = read_header(data)

    check_batch(data, header)

    assert header.codec is codec
    assert (header.producer_id, header.producer_epoch, header.base_sequence, header.last_sequence) == (
        9,
        3,
        2**31 - 2,
        0,
    )
    assert (header.partition_leader_epoch, header.is_transactional, header.is_control) == (4, True, False)
    assert decode_rows(data) == KAFKA_ROWS


@pytest.mark.parametrize("codec", [Compression.NONE, Compression.LZ4])
def test_the_same_bytes_are_built_that_apache_kafka_writes(codec: Compression) -> None:
    built = build_batch(
        KAFKA_ROWS,
        base_offset=5,
        codec=codec,
        producer_id=9,
        producer_epoch=3,
        base_sequence=2**31 - 2,
        leader_epoch=4,
        is_transactional=True,
    )

    assert built.hex() == KAFKA_BATCHES[codec]


def test_rows_are_named_tuples_and_plain_ones_on_request() -> None:
    data = build_batch(KAFKA_ROWS, base_offset=5)

    named, plain = decode_rows(data), decode_tuples(data, read_header(data))

    assert named == plain == KAFKA_ROWS
    assert {type(row) for row in named} == {Record}
    assert {type(row) for row in plain} == {tuple}
    assert named[0].headers == (("h", b"x"), ("n", None))


def test_records_of_several_batches_are_iterated_without_control_records() -> None:
    first = build_batch(KAFKA_ROWS, base_offset=5)
    marker = build_end_txn_marker(
        ControlType.COMMIT, producer_id=1, producer_epoch=0, coordinator_epoch=0, timestamp=0, base_offset=8
    )
    last = build_batch([Record(9, 1, None, b"x")], base_offset=9, codec=Compression.GZIP)

    assert list(each_record(first + marker + last + last[:50])) == [*KAFKA_ROWS, Record(9, 1, None, b"x")]
    assert list(each_record(first + last, len(first))) == [Record(9, 1, None, b"x")]


def test_any_buffer_is_read_from_any_position() -> None:
    data = b"before" + build_batch(KAFKA_ROWS, base_offset=5) + b"behind"

    for buffer in (data, bytearray(data), memoryview(data), memoryview(bytearray(data))):
        assert decode_rows(buffer, 6) == KAFKA_ROWS


def test_gaps_that_compaction_leaves_are_kept() -> None:
    rows = [Record(12, 5, b"a", b"1"), Record(2**31 + 5, 6, b"b", None)]

    data = build_batch(rows, base_offset=10, last_offset=10 + 2**31 - 1)

    assert decode_rows(data) == rows
    assert read_header(data).last_offset == 10 + 2**31 - 1


def test_an_empty_batch_keeps_what_the_producer_has_sent() -> None:
    data = build_empty_batch(
        base_offset=100,
        last_offset=120,
        timestamp=77,
        producer_id=5,
        producer_epoch=2,
        base_sequence=30,
        leader_epoch=8,
        is_transactional=True,
    )

    header = read_header(data)
    check_batch(data, header)
    assert len(data) == HEADER_BYTES
    assert decode_rows(data) == []
    assert (header.base_offset, header.next_offset, header.record_count) == (100, 121, 0)
    assert (header.producer_id, header.producer_epoch, header.last_sequence) == (5, 2, 50)
    assert (header.max_timestamp, header.is_transactional) == (77, True)


def test_log_append_time_is_that_of_every_record() -> None:
    data = build_batch(KAFKA_ROWS, base_offset=5, timestamp_type=TimestampType.LOG_APPEND_TIME)

    assert {row.timestamp for row in decode_rows(data)} == {1700000000007}


def test_the_extremes_of_every_number_are_kept() -> None:
    far = [Record(0, -(2**63), None, None), Record(2**31 - 1, -1, None, None)]
    near = [Record(0, 2**63 - 1, None, b""), Record(1, 0, None, b"")]

    assert decode_rows(build_batch(far)) == far
    assert decode_rows(build_batch(near)) == near
    assert read_header(build_batch(far)).max_timestamp == -1


def test_text_that_is_not_utf8_is_replaced_as_java_does() -> None:
    data = sealed(record(headers=b"\x02" + zigzag(2) + b"\xffa" + b"\1"))

    assert decode_rows(data)[0].headers == (("\ufffda", None),)


def test_many_headers_with_large_values_are_kept() -> None:
    headers = tuple((f"header-{index} é", None if index % 3 else bytes(index)) for index in range(200))

    assert decode_rows(build_batch([Record(0, 0, None, None, headers)]))[0].headers == headers


FITTING = b"\2a"
DAMAGED: dict[str, tuple[str, bytes]] = {
    "a length beyond the batch": ("length", record(length=1000)),
    "a negative length": ("length", record(length=-5)),
    "a length that is too small for a record": ("length", record(length=5)),
    "a length of six bytes": ("length", b"\xff\xff\xff\xff\xff\x01" + bytes(20)),
    "a length that is cut off": ("length", b"\xff" * 7),
    "a timestamp delta of eleven bytes": ("timestamp", record(timestamp=b"\x80" * 10 + b"\1")),
    "a timestamp delta of 65 bits": ("timestamp", record(timestamp=b"\xff" * 9 + b"\2")),
    "a timestamp delta that takes the rest": ("timestamp", b"\x0c\0" + b"\x80" * 5),
    "a negative offset delta": ("offset", record(offset=b"\1")),
    "an offset delta beyond the last": ("offset", record(offset=zigzag(10))),
    "an offset delta of 33 bits": ("offset", record(offset=b"\xff\xff\xff\xff\x1f")),
    "a key that is longer than the record": ("key", record(key=zigzag(30) + b"abc")),
    "a key length below null": ("key", record(key=b"\3")),
    "a key that takes the value's length": ("value", record(key=zigzag(2) + b"ab", value=b"", headers=b"")),
    "a value that is longer than the record": ("value", record(value=zigzag(2**31 - 1) + b"abc")),
    "a value length below null": ("value", record(value=zigzag(-(2**31)))),
    "a negative header count": ("headers", record(headers=b"\1")),
    "more headers than bytes": ("headers", record(headers=zigzag(2**31 - 1))),
    "a header key of null": ("headers", record(headers=b"\2" + b"\1" + b"\1")),
    "a header key that does not fit": ("headers", record(headers=b"\2" + zigzag(9) + b"ab")),
    "a header value that does not fit": ("headers", record(headers=b"\2" + FITTING + zigzag(5) + b"a")),
    "a header value below null": ("headers", record(headers=b"\2" + FITTING + b"\3")),
    "a header that is missing": ("headers", record(headers=b"\4" + FITTING + FITTING)),
    "bytes behind the headers": ("left over", record(headers=b"\0\0")),
}


@pytest.mark.parametrize("case", DAMAGED)
def test_a_damaged_record_is_refused_with_what_is_wrong(case: str) -> None:
    what, data = DAMAGED[case]

    with pytest.raises(CorruptBatchError, match=f"record 0 of the batch at offset 0 is damaged: .*{what}"):
        decode_rows(sealed(data))


@pytest.mark.parametrize(
    ("first", "second"), [(0, 0), (1, 0), (5, 5), (9, 0)], ids=["twice zero", "falling", "twice five", "back to zero"]
)
def test_offsets_out_of_order_are_refused(first: int, second: int) -> None:
    data = record(offset=zigzag(first)) + record(offset=zigzag(second))

    with pytest.raises(CorruptBatchError, match=r"record 1 .* its offset"):
        decode_rows(sealed(data, count=2))


@pytest.mark.parametrize(("base", "delta"), [(2**63 - 1, 1), (-(2**63), -1), (1, 2**63 - 1), (-2, -(2**63))])
def test_a_timestamp_beyond_64_bits_is_refused(base: int, delta: int) -> None:
    with pytest.raises(CorruptBatchError, match="timestamp"):
        decode_rows(sealed(record(timestamp=zigzag(delta)), base_timestamp=base))


def test_a_count_that_does_not_agree_with_the_records_is_refused() -> None:
    two = record() + record(offset=zigzag(1))

    with pytest.raises(CorruptBatchError, match="7 bytes follow the last record"):
        decode_rows(sealed(two, count=1))
    with pytest.raises(CorruptBatchError, match="7 bytes follow the last record"):
        decode_rows(sealed(record(), count=0))
    with pytest.raises(CorruptBatchError, match="record 1"):
        decode_rows(sealed(record(value=zigzag(7) + bytes(7)), count=2))


@pytest.mark.parametrize("count", [2, 1000, 2**31 - 1])
def test_a_count_that_the_bytes_cannot_hold_is_refused_before_anything_is_allocated(count: int) -> None:
    with pytest.raises(CorruptBatchError, match=f"claims {count} records"):
        decode_rows(sealed(record(), count=count, last=2**31 - 1))


def test_a_batch_that_is_cut_off_is_refused() -> None:
    for codec in Compression:
        data = build_batch(KAFKA_ROWS, base_offset=5, codec=codec)
        for cut in (1, 10, len(data) - HEADER_BYTES):
            with pytest.raises(CorruptBatchError, match=f"{cut} of its bytes are missing"):
                decode_rows(data[:-cut])


@pytest.mark.parametrize("codec", [codec for codec in Compression if codec])
def test_a_bomb_stops_at_the_limit(codec: Compression) -> None:
    data = build_batch([Record(0, 0, None, bytes(1_000_000))], codec=codec)

    assert len(decode_rows(data, decompressed_bytes_max=1_000_100)) == 1
    with pytest.raises(DecompressedTooLargeError):
        decode_rows(data, decompressed_bytes_max=999_999)


ROW = Record(0, 0, None, b"v")


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: build_batch([]), "build_empty_batch"),
        (lambda: build_batch([ROW, ROW]), "offset 0 does not rise"),
        (lambda: build_batch([Record(4, 0, None, None)], base_offset=5), "offset 4"),
        (lambda: build_batch([Record(2**31, 0, None, None)]), "too far"),
        (lambda: build_batch([Record(2**70, 0, None, None)]), "offset"),
        (lambda: build_batch([ROW], base_offset=-1), "negative"),
        (lambda: build_batch([Record(0, -1, None, None), Record(1, 2**63 - 1, None, None)]), "too far apart"),
        (lambda: build_batch([Record(0, 1, None, None), Record(1, -(2**63), None, None)]), "too far apart"),
        (lambda: build_batch([ROW, Record(1, 2**63, None, None)]), "64 bits"),
        (lambda: build_batch([ROW, Record(1, -(2**63) - 1, None, None)]), "64 bits"),
        (lambda: build_batch([ROW], last_offset=2**40), "out of range"),
        (lambda: build_batch([ROW], producer_id=2**63), "out of range"),
        (lambda: build_batch([ROW], producer_epoch=2**15), "out of range"),
        (lambda: build_batch([ROW], level=3), "needs a codec"),
        (lambda: build_batch([ROW], codec=Compression.GZIP, level=10), "10 is none of them"),
    ],
)
def test_what_no_batch_can_hold_is_refused(build: Callable[[], bytes], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        build()


@pytest.mark.parametrize(
    "row",
    [
        Record(0, 0, "text", None),  # type: ignore[arg-type]
        Record(0, 0, None, 5),  # type: ignore[arg-type]
        Record(0, 0, None, bytearray(b"x")),  # type: ignore[arg-type]
        Record(0, 0, None, None, (("key", "text"),)),  # type: ignore[arg-type]
        (0, 0, None, None),
        [0, 0, None, None, ()],
    ],
)
def test_rows_of_other_types_are_refused(row: object) -> None:
    with pytest.raises(TypeError):
        build_batch([row])  # type: ignore[list-item]


def test_bytes_and_text_of_a_derived_type_are_bytes_and_text() -> None:
    class Bytes(bytes):
        """What numpy's bytes are, for one."""

    class Name(StrEnum):
        TRACE = "trace"

    batch = build_batch([Record(0, 0, Bytes(b"key"), Bytes(b"value"), ((Name.TRACE, Bytes(b"x")),))])

    assert decode_rows(batch) == [Record(0, 0, b"key", b"value", (("trace", b"x"),))]


def test_a_batch_beyond_2_gb_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "BATCH_BYTES_MAX", 1000)

    with pytest.raises(ValueError, match="ends at 1000"):
        build_batch([Record(0, 0, None, bytes(1000))])


def test_an_end_of_transaction_marker_is_what_apache_kafka_writes() -> None:
    built = build_end_txn_marker(
        ControlType.COMMIT,
        producer_id=9,
        producer_epoch=3,
        coordinator_epoch=11,
        timestamp=1700000000000,
        base_offset=7,
        leader_epoch=4,
    )

    assert built.hex() == KAFKA_COMMIT
    (row,) = decode_batch(built, read_header(built))
    assert read_end_txn_marker(row) == EndTxnMarker(ControlType.COMMIT, 11)
    assert read_header(built).is_control


@pytest.mark.parametrize("control_type", ControlType)
def test_a_control_record_names_its_type(control_type: ControlType) -> None:
    assert read_control_type(control_key(control_type)) is control_type


def test_unknown_control_types_and_later_versions_are_passed_over() -> None:
    assert read_control_type(b"\0\0\0\x63") is ControlType.UNKNOWN
    assert read_control_type(b"\0\5\0\1 and more") is ControlType.COMMIT
    later = Record(0, 0, b"\0\0\0\0", b"\0\1\0\0\0\7 and more")
    assert read_end_txn_marker(later) == EndTxnMarker(ControlType.ABORT, 7)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, b"\0\0\0\0\0\1"),
        (b"\0\0\0", b"\0\0\0\0\0\1"),
        (b"\xff\xff\0\0", b"\0\0\0\0\0\1"),
        (b"\0\0\0\2", b"\0\0\0\0\0\1"),
        (b"\0\0\0\0", None),
        (b"\0\0\0\0", b"\0\0\0\0\0"),
        (b"\0\0\0\1", b"\xff\xff\0\0\0\1"),
    ],
)
def test_a_damaged_marker_is_refused(key: bytes | None, value: bytes | None) -> None:
    with pytest.raises(CorruptBatchError):
        read_end_txn_marker(Record(0, 0, key, value))


def test_only_commit_and_abort_end_a_transaction() -> None:
    with pytest.raises(ValueError, match="LEADER_CHANGE ends no transaction"):
        build_end_txn_marker(
            ControlType.LEADER_CHANGE, producer_id=1, producer_epoch=0, coordinator_epoch=0, timestamp=0
        )
