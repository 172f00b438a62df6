"""`record_decoder` and `record_encoder`: the twins agree, on hostile bytes too, and the plain one needs no Cython."""

from __future__ import annotations

import subprocess
import sys
from array import array
from collections.abc import Callable
from random import Random
from types import ModuleType
from typing import Any

import pytest

from tests.support.kernel_twins import TWINS, module_on
from tidelog.kernel_choice import Twin
from tidelog.wire.batch_errors import CorruptBatchError
from tidelog.wire.record_batch import HEADER_BYTES, read_header
from tidelog.wire.records import Record, build_batch

MUTATIONS = 3000

both = pytest.mark.skipif(len(TWINS) < 2, reason="there is one twin only")


@pytest.fixture(params=TWINS)
def decoder(request: pytest.FixtureRequest) -> ModuleType:
    chosen: Twin = request.param
    return module_on("tidelog.wire.record_decoder", chosen)


@pytest.fixture(params=TWINS)
def encoder(request: pytest.FixtureRequest) -> ModuleType:
    chosen: Twin = request.param
    return module_on("tidelog.wire.record_encoder", chosen)


def int64s(*values: int) -> memoryview:
    return memoryview(array("q", values))


def int32s(*values: int) -> memoryview:
    return memoryview(array("i", values))


def sample_batch(random: Random) -> bytes:
    rows = []
    offset = 0
    for _ in range(random.randrange(1, 12)):
        key = None if random.random() < 0.3 else random.randbytes(random.randrange(0, 20))
        value = None if random.random() < 0.2 else random.randbytes(random.choice([0, 1, 12, 13, 63, 64, 200]))
        headers = tuple((f"h{n}", None if n % 2 else b"x" * n) for n in range(random.choice([0, 0, 1, 3])))
        rows.append(Record(offset, random.choice([0, 1700000000000, -5]) + offset, key, value, headers))
        offset += random.choice([1, 1, 1, 70, 20_000])
    return build_batch(rows)


def mutated(data: bytes, random: Random) -> bytes:
    damaged = bytearray(data)
    for _ in range(random.randrange(1, 4)):
        match random.randrange(4):
            case 0:
                damaged[random.randrange(len(damaged))] = random.choice([0, 1, 0x7F, 0x80, 0xFF, random.randrange(256)])
            case 1:
                del damaged[random.randrange(1, len(damaged) + 1) :]
            case 2:
                damaged[random.randrange(len(damaged)) :] = random.randbytes(random.randrange(1, 10))
            case _:
                damaged[random.randrange(len(damaged))] ^= 1 << random.randrange(8)
    return bytes(damaged)


def outcome(run: Callable[..., object], *arguments: Any) -> object:
    try:
        return run(*arguments)
    except CorruptBatchError as error:
        return str(error)


def rows_of(kernel: ModuleType, data: bytes, count: int, base: int, timestamp: int, last: int) -> object:
    return kernel.decode_rows(tuple, data, 0, len(data), count, base, timestamp, last, None)


def columns_of(kernel: ModuleType, data: bytes, count: int, base: int, timestamp: int, last: int) -> object:
    """All that the column functions make of these bytes, in one value."""
    # Beyond the count of records that the bytes can hold nothing is written, so that this much is always enough.
    room = len(data) // 7 + 1
    offsets, timestamps = memoryview(bytearray(8 * room)).cast("q"), memoryview(bytearray(8 * room)).cast("q")
    keys, values, headers = (memoryview(bytearray(8 * room)).cast("i") for _ in range(3))
    total = kernel.scan_columns(
        data, 0, len(data), count, base, timestamp, last, None, 0, offsets, timestamps, keys, values, headers
    )
    made: list[object] = [total, offsets.tolist(), timestamps.tolist()]
    header_keys, header_values = (memoryview(bytearray(8 * (total + 1))).cast("i") for _ in range(2))
    list_offsets = memoryview(bytearray(4 * (count + 1))).cast("i")
    if count:
        kernel.scan_headers(memoryview(data), headers, 0, count, list_offsets, header_keys, header_values)
        made.append(list_offsets.tolist())
    for spans, rows in ((keys, count), (values, count), (header_keys, total), (header_values, total)):
        spans = spans[: 2 * rows]  # noqa: PLW2901
        validity = bytearray(rows // 8 + 1)
        nulls, size = kernel.measure_spans(spans, validity)
        gathered, ends = bytearray(size), memoryview(bytearray(4 * (rows + 1))).cast("i")
        octets = memoryview(bytearray(16 * rows + 16))
        if rows:
            kernel.gather_spans(spans, memoryview(data), 0, rows, ends, memoryview(gathered))
            kernel.view_spans(spans, memoryview(data), 0, rows, 3, octets.cast("i"), octets)
        made += [bytes(validity), nulls, size, bytes(gathered), ends.tolist(), bytes(octets)]
    return made


@both
def test_the_twins_agree_on_hostile_bytes() -> None:
    plain, compiled = (module_on("tidelog.wire.record_decoder", twin) for twin in TWINS)
    random = Random(20240229)
    refused = 0
    for number in range(MUTATIONS):
        batch = sample_batch(random)
        header = read_header(batch)
        data = batch[HEADER_BYTES:]
        count, last = header.record_count, header.last_offset_delta
        if number % 10:
            data = mutated(data, random)
        if number % 7 == 0:
            count = max(0, count + random.choice([-1, 1, 2**31]))
        if number % 11 == 0:
            last = random.choice([0, 1, 2**31 - 1])
        base = random.choice([0, 2**40])
        timestamp = random.choice([0, 1700000000000, 2**63 - 1, -(2**63)])
        # A copy: an allocation of exactly these bytes, with nothing of the batch behind them.
        batch_fields = (bytes(data), count, base, timestamp, last)

        expected = outcome(rows_of, plain, *batch_fields)
        columns = outcome(columns_of, plain, *batch_fields)

        assert outcome(rows_of, compiled, *batch_fields) == expected
        assert outcome(columns_of, compiled, *batch_fields) == columns
        # Rows and columns refuse the same batches, in the same words.
        assert isinstance(columns, str) == isinstance(expected, str)
        if isinstance(expected, str):
            refused += 1
            assert columns == expected
    assert MUTATIONS // 3 < refused < MUTATIONS * 0.95


def test_reading_stops_at_the_end_that_is_given_and_not_at_that_of_the_buffer(decoder: ModuleType) -> None:
    batch = build_batch([Record(0, 5, b"k", b"value"), Record(1, 6, None, b"other")])
    end = len(batch)

    for cut in range(1, end - HEADER_BYTES + 1):
        with pytest.raises(CorruptBatchError):
            decoder.decode_rows(tuple, batch + b"\0" * 100, HEADER_BYTES, end - cut, 2, 0, 5, 1, None)
    rows = decoder.decode_rows(tuple, b"\xff" * 9 + batch + b"\0" * 100, 9 + HEADER_BYTES, 9 + end, 2, 0, 5, 1, None)
    assert [row[3] for row in rows] == [b"value", b"other"]


def test_spans_of_several_sources_are_gathered_one_behind_the_other(decoder: ModuleType) -> None:
    spans = memoryview(array("i", [1, 2, 0, -1, 0, 0, 0, 3]))
    offsets, out = memoryview(array("i", [0] * 5)), bytearray(5)

    decoder.gather_spans(spans, memoryview(b"xabx"), 0, 2, offsets, memoryview(out))
    decoder.gather_spans(spans, memoryview(b"cde"), 2, 4, offsets, memoryview(out))

    assert (bytes(out), offsets.tolist()) == (b"abcde", [0, 2, 2, 2, 5])


@both
def test_the_twins_write_the_same_bytes() -> None:
    plain, compiled = (module_on("tidelog.wire.record_encoder", twin) for twin in TWINS)
    random = Random(11)
    for _ in range(200):
        rows = [
            Record(
                offset * random.choice([1, 1, 3]),
                random.choice([0, 64, 8191, 8192, 1700000000000, -(2**62)]),
                None if random.random() < 0.5 else random.randbytes(random.choice([0, 1, 63, 64, 8191, 8192])),
                random.randbytes(random.choice([0, 5, 8192])),
                tuple((f"é{n}", random.choice([None, b"", b"x"])) for n in range(random.choice([0, 1, 70]))),
            )
            for offset in range(random.choice([0, 1]), 5)
        ]
        rows.sort(key=lambda row: row.offset)
        rows = [row for index, row in enumerate(rows) if index == 0 or row.offset > rows[index - 1].offset]
        assert plain.encode_rows(rows, 61, 0, 5) == compiled.encode_rows(rows, 61, 0, 5)


@pytest.mark.parametrize(
    ("offsets", "data", "validity", "first", "count", "message"),
    [
        ((0, 3, 2, 4), b"abcd", None, 0, 3, "do not rise"),
        ((0, 1, 2, 99), b"abcd", None, 0, 3, "outside of its data"),
        ((-5, 1, 2, 3), b"abcd", None, 0, 3, "outside of its data"),
        ((0, 1, 2), b"abcd", None, 0, 3, "shorter than it says"),
        ((0, 1, 2, 3), b"abcd", None, 1, 3, "shorter than it says"),
        ((0, 1, 2, 3), b"abcd", None, -1, 3, "shorter than it says"),
        ((0, 1, 2, 3), b"abcd", None, 0, -1, "shorter than it says"),
        ((0,) * 12, b"", b"\xff", 0, 9, "validity bits"),
    ],
)
def test_a_column_that_lies_about_its_data_is_refused(
    encoder: ModuleType,
    offsets: tuple[int, ...],
    data: bytes,
    validity: bytes | None,
    first: int,
    count: int,
    message: str,
) -> None:
    for packed in (int64s(*offsets), int32s(*offsets)):
        with pytest.raises(ValueError, match=message):
            encoder.BinaryColumn(packed, data, validity, first, count)


def test_offsets_may_be_of_32_or_of_64_bits(encoder: ModuleType) -> None:
    built = []
    for packed in (int64s(0, 1, 3, 3, 6), int32s(0, 1, 3, 3, 6)):
        column = encoder.BinaryColumn(packed, b"abcdef", b"\x0d", 0, 4)
        built.append(encoder.RecordColumns(int64s(5, 6, 7, 8), None, column).encode(0, 0, 1000))

    assert built[0] == built[1]
    assert b"def" in built[0][0]
    # The second is null, so that its bytes are not there.
    assert b"bc" not in built[0][0]


def test_columns_that_do_not_belong_together_are_refused(encoder: ModuleType) -> None:
    two = encoder.BinaryColumn(int64s(0, 1, 2), b"ab", None, 0, 2)
    one = encoder.BinaryColumn(int64s(0, 1), b"a", None, 0, 1)
    for arguments in (
        (two, None),
        (None, two),
        (one, one, int64s(0, 1), None, None),
        (one, one, int64s(0, 1), one, two),
        (one, one, int64s(0), one, one),
        (one, one, int64s(0, 2), one, one),
        (one, one, int64s(-1, 1), one, one),
        (one, one, int64s(1, 0), one, one),
    ):
        with pytest.raises(ValueError, match=r"length|rise|outside"):
            encoder.RecordColumns(int64s(5), *arguments)


def test_a_row_that_is_not_there_is_refused(encoder: ModuleType) -> None:
    column = encoder.BinaryColumn(int64s(0, 1), b"a", None, 0, 1)
    records = encoder.RecordColumns(int64s(5), None, column)

    for row in (-1, 1, 2**40):
        with pytest.raises(ValueError, match="no such row"):
            records.encode(row, 61, 1000)


def test_the_plain_twin_runs_where_cython_is_not_installed() -> None:
    program = """
import os, sys
sys.modules["cython"] = None
os.environ["TIDELOG_KERNELS"] = "python"
from tidelog.kernel_choice import choice
from tidelog.wire.records import Record, build_batch, decode_rows
from tidelog.wire.columns import build_batches, read_columns
rows = [Record(0, 1, b"k", b"v", (("h", None),)), Record(1, 2, None, b"v" * 100)]
assert decode_rows(build_batch(rows)) == rows
table = read_columns(build_batch(rows), headers=True)
assert decode_rows(next(build_batches(table, timestamp_ms=0))) == rows
print(choice.twin, choice.reason)
"""
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)

    assert run.stderr == ""
    assert run.stdout.strip() == "python chosen by TIDELOG_KERNELS"
