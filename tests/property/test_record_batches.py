"""Record batches: what is built is read again, by us and by the Python clients, and nothing hostile gets through.

Every property holds for the plain and for the compiled kernels.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from random import Random
from typing import Any

import msgspec
import pytest
from aiokafka import codec as aiokafka_codec
from aiokafka.record import _crecords as aiokafka_records
from hypothesis import given, strategies as st

from tests.support.kernel_twins import TWINS, using
from tidelog.kernel_choice import Twin
from tidelog.wire.batch_errors import CorruptBatchError
from tidelog.wire.columns import build_batches, read_columns
from tidelog.wire.compression import LEVELS, Compression, compress, decompress
from tidelog.wire.record_batch import (
    HEADER_BYTES,
    TimestampType,
    check_batch,
    each_batch,
    read_header,
    restamp,
    stamp_crc,
)
from tidelog.wire.records import Record, build_batch, decode_rows, decode_tuples, each_record

with warnings.catch_warnings():
    # kafka-python reads its own schemas with a deprecated function.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka import codec as kafka_python_codec
    from kafka.record import default_records as kafka_python_records
    from kafka.record.memory_records import MemoryRecords as KafkaPythonMemoryRecords

both_twins = pytest.mark.parametrize("twin", TWINS)
INT64 = st.integers(-(2**63), 2**63 - 1)
# Also with NUL, combining marks and what needs four bytes; surrogates are no text.
HEADER_KEYS = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
FIELDS = st.none() | st.binary(max_size=40) | st.binary(min_size=60, max_size=70).map(lambda data: data * 130)
HEADERS = st.lists(st.tuples(HEADER_KEYS, st.none() | st.binary(max_size=10)), max_size=3).map(tuple)
TIMES = st.integers(0, 2**42)


@st.composite
def rows(draw: st.DrawFn, *, timestamps: st.SearchStrategy[int] = TIMES, gaps: bool = True) -> list[Record]:
    """Records of one batch; offsets count from 0, with gaps where compaction has been."""
    steps = st.integers(1, 300) if gaps else st.just(1)
    offset = draw(st.integers(0, 5)) if gaps else 0
    listed = []
    for _ in range(draw(st.integers(1, 12))):
        listed.append(Record(offset, draw(timestamps), draw(FIELDS), draw(FIELDS), draw(HEADERS)))
        offset += draw(steps)
    return listed


@st.composite
def levels(draw: st.DrawFn, codec: Compression) -> int | None:
    return draw(st.none() | st.sampled_from(list(LEVELS[codec])[-12:])) if codec in LEVELS else None


@st.composite
def attributes(draw: st.DrawFn) -> dict[str, Any]:
    codec = draw(st.sampled_from(Compression))
    return {
        "codec": codec,
        "level": draw(levels(codec)),
        "timestamp_type": draw(st.sampled_from(TimestampType)),
        "producer_id": draw(INT64),
        "producer_epoch": draw(st.integers(-(2**15), 2**15 - 1)),
        "base_sequence": draw(st.integers(-1, 2**31 - 1)),
        "leader_epoch": draw(st.integers(-1, 2**31 - 1)),
        "is_transactional": draw(st.booleans()),
        "is_control": draw(st.booleans()),
        "delete_horizon_ms": draw(st.none() | TIMES),
    }


@both_twins
@given(rows(), attributes(), st.integers(0, 2**62))
def test_what_is_built_is_read(twin: Twin, listed: list[Record], fields: dict[str, Any], base_offset: int) -> None:
    moved = [row._replace(offset=row.offset + base_offset) for row in listed]
    with using(twin):
        data = build_batch(moved, base_offset=base_offset, **fields)
        header = read_header(data)
        check_batch(data, header)
        latest = max(row.timestamp for row in moved)
        if fields["timestamp_type"] is TimestampType.LOG_APPEND_TIME:
            moved = [row._replace(timestamp=latest) for row in moved]

        assert decode_rows(data) == decode_tuples(data, header) == moved

    assert header.codec is fields["codec"]
    assert header.timestamp_type is fields["timestamp_type"]
    assert (header.producer_id, header.producer_epoch) == (fields["producer_id"], fields["producer_epoch"])
    assert (header.base_sequence, header.partition_leader_epoch) == (fields["base_sequence"], fields["leader_epoch"])
    assert (header.is_transactional, header.is_control) == (fields["is_transactional"], fields["is_control"])
    assert header.delete_horizon_ms == fields["delete_horizon_ms"]
    assert (header.base_offset, header.last_offset) == (base_offset, moved[-1].offset)
    assert (header.record_count, header.max_timestamp) == (len(moved), latest)


@given(rows(timestamps=st.integers(-(2**61), 2**61)), st.sampled_from(Compression))
def test_both_twins_build_the_same_bytes(listed: list[Record], codec: Compression) -> None:
    built = []
    for twin in TWINS:
        with using(twin):
            built.append(build_batch(listed, codec=codec))

    assert built[0] == built[1]


@both_twins
@given(rows(), st.sampled_from(Compression), st.integers(0, 2**62), st.integers(0, 2**31 - 1), st.none() | TIMES)
def test_a_restamped_batch_differs_in_its_place_and_time_only(
    twin: Twin,
    listed: list[Record],
    codec: Compression,
    base_offset: int,
    leader_epoch: int,
    append_time_ms: int | None,
) -> None:
    with using(twin):
        data = bytearray(build_batch(listed, codec=codec))
        before = read_header(data)

        restamp(data, 0, base_offset=base_offset, leader_epoch=leader_epoch, append_time_ms=append_time_ms)

        after = read_header(data)
        check_batch(data, after)
        expected = msgspec.structs.replace(before, base_offset=base_offset, partition_leader_epoch=leader_epoch)
        if append_time_ms is not None:
            expected = msgspec.structs.replace(
                expected, crc=after.crc, attributes=before.attributes | 8, max_timestamp=append_time_ms
            )
        assert after == expected
        assert decode_rows(data) == [
            row._replace(
                offset=row.offset + base_offset, timestamp=row.timestamp if append_time_ms is None else append_time_ms
            )
            for row in listed
        ]


@both_twins
@given(
    st.lists(st.tuples(rows(), st.sampled_from(Compression)), max_size=3),
    st.booleans(),
    st.integers(62, 3000),
)
def test_columns_are_the_rows_and_become_the_rows_again(
    twin: Twin, batches: list[tuple[list[Record], Compression]], views: bool, batch_bytes_max: int
) -> None:
    with using(twin):
        fetched, base_offset = b"", 0
        for listed, codec in batches:
            moved = [row._replace(offset=row.offset + base_offset) for row in listed]
            fetched += build_batch(moved, base_offset=base_offset, codec=codec)
            base_offset = moved[-1].offset + 1
        expected = list(each_record(fetched))

        read = read_columns(fetched, headers=True, views=views, check_crcs=True)
        read.validate(full=True)
        taken = read.to_pydict()
        assert taken["offset"] == [row.offset for row in expected]
        assert taken["timestamp"] == [row.timestamp for row in expected]
        assert taken["key"] == [row.key for row in expected]
        assert taken["value"] == [row.value for row in expected]
        assert [tuple((each["key"], each["value"]) for each in listed) for listed in taken["headers"]] == [
            row.headers for row in expected
        ]

        built = list(build_batches(read, timestamp_ms=0, batch_bytes_max=batch_bytes_max))
        assert list(each_record(b"".join(built))) == [row._replace(offset=index) for index, row in enumerate(expected)]
        for batch in built:
            check_batch(batch, header := read_header(batch))
            assert len(batch) <= batch_bytes_max or header.record_count == 1


@given(st.binary(max_size=3000) | st.binary(min_size=1, max_size=60).map(lambda data: data * 2000), st.data())
def test_every_codec_returns_what_it_was_given(content: bytes, data: st.DataObject) -> None:
    codec = data.draw(st.sampled_from(Compression))

    packed = compress(codec, content, data.draw(levels(codec)))

    assert bytes(decompress(codec, packed, len(content))) == content
    assert bytes(decompress(codec, bytearray(packed), len(content))) == content


def codecs_of(module: Any) -> list[Compression]:
    """The codecs that a client can use with what is installed."""
    available = {
        Compression.GZIP: module.has_gzip,
        Compression.SNAPPY: module.has_snappy,
        Compression.LZ4: module.has_lz4,
        Compression.ZSTD: module.has_zstd,
    }
    return [Compression.NONE, *(codec for codec, is_there in available.items() if is_there())]


CLIENTS: dict[str, tuple[list[Compression], Any, Any]] = {
    "aiokafka": (
        codecs_of(aiokafka_codec),
        aiokafka_records.MemoryRecords,
        aiokafka_records.DefaultRecordBatchBuilder,
    ),
    "kafka-python": (
        codecs_of(kafka_python_codec),
        KafkaPythonMemoryRecords,
        kafka_python_records.DefaultRecordBatchBuilder,
    ),
}
clients = pytest.mark.parametrize("client", CLIENTS)


@clients
@given(rows(), st.data(), st.integers(0, 2**62), st.sampled_from(TimestampType))
def test_python_clients_read_what_we_build(
    client: str, listed: list[Record], data: st.DataObject, base_offset: int, timestamp_type: TimestampType
) -> None:
    codecs, memory_records, _ = CLIENTS[client]
    codec = data.draw(st.sampled_from(codecs))
    built = build_batch(
        [row._replace(offset=row.offset + base_offset) for row in listed],
        base_offset=base_offset,
        codec=codec,
        level=data.draw(levels(codec)),
        timestamp_type=timestamp_type,
        producer_id=77,
        producer_epoch=3,
        base_sequence=12,
        is_transactional=True,
    )

    batch = memory_records(built).next_batch()

    assert batch.validate_crc()
    assert (batch.producer_id, batch.producer_epoch, batch.is_transactional) == (77, 3, True)
    assert [
        Record(each.offset, each.timestamp, each.key, each.value, tuple(each.headers)) for each in batch
    ] == decode_rows(built)


@both_twins
@clients
@given(rows(gaps=False), st.data(), st.booleans())
def test_we_read_what_python_clients_build(
    twin: Twin, client: str, listed: list[Record], data: st.DataObject, is_transactional: bool
) -> None:
    codecs, _, builder_of = CLIENTS[client]
    builder = builder_of(2, data.draw(st.sampled_from(codecs)), is_transactional, 5, 6, 7, 10**8)
    for row in listed:
        assert builder.append(row.offset, row.timestamp, row.key, row.value, list(row.headers)) is not None

    built = builder.build()

    with using(twin):
        header = read_header(built)
        check_batch(built, header)
        assert decode_rows(built) == listed
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (5, 6, 7)
    assert header.is_transactional is is_transactional
    assert header.max_timestamp == max(row.timestamp for row in listed)


@given(rows(), st.sampled_from(Compression), st.integers(0, 2**32), st.booleans())
def test_damage_is_refused_or_read_the_same_by_both_twins(
    listed: list[Record], codec: Compression, seed: int, crc_is_right: bool
) -> None:
    random = Random(seed)
    damaged = bytearray(build_batch(listed, codec=codec))
    for _ in range(random.randrange(1, 5)):
        # More often in the header and in the first record, where the numbers are.
        position = random.choice([random.randrange(8, HEADER_BYTES + 12), random.randrange(len(damaged))])
        damaged[position % len(damaged)] = random.choice([0, 1, 0x7F, 0x80, 0xFF, random.randrange(256)])
    if crc_is_right and int.from_bytes(damaged[8:12], signed=True) == len(damaged) - 12:
        stamp_crc(damaged)

    outcomes = []
    for twin in TWINS:
        with using(twin):
            outcomes.append((outcome(decode_all, damaged), outcome(columns_of, damaged)))

    assert outcomes[0] == outcomes[1]


@given(st.binary(max_size=300), st.booleans())
def test_bytes_that_were_never_a_batch_are_refused_or_end_the_walk(junk: bytes, like_a_header: bool) -> None:
    data = bytearray(junk)
    if like_a_header and len(data) > 61:
        data[8:12], data[16] = (len(data) - 12).to_bytes(4), 2

    outcomes = []
    for twin in TWINS:
        with using(twin):
            outcomes.append((outcome(decode_all, data), outcome(columns_of, data)))

    assert outcomes[0] == outcomes[1]


def decode_all(data: bytearray) -> object:
    return [(position, decode_rows(data, position, decompressed_bytes_max=10**6)) for position, _ in each_batch(data)]


def columns_of(data: bytearray) -> object:
    # Compared by value: what a null's buffers hold means nothing.
    return read_columns(bytes(data), headers=True, views=True, decompressed_bytes_max=10**6).to_pydict()


def outcome(run: Callable[[bytearray], object], data: bytearray) -> object:
    try:
        return run(data)
    except CorruptBatchError as error:
        return str(error)
