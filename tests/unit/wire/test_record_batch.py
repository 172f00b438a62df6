from __future__ import annotations

from struct import pack_into

import msgspec
import pytest

from tidelog.wire.batch_errors import CorruptBatchError, UnsupportedMagicError
from tidelog.wire.compression import Compression
from tidelog.wire.record_batch import (
    HEADER_BYTES,
    BatchHeader,
    TimestampType,
    check_batch,
    crc_matches,
    each_batch,
    read_header,
    restamp,
    stamp_crc,
)
from tidelog.wire.records import Record, build_batch, decode_rows

ROWS = [Record(10, 1000, b"a", b"1"), Record(11, 1010, None, b"2"), Record(12, 1005, b"c", None)]


def batch(**options: object) -> bytearray:
    return bytearray(build_batch(ROWS, base_offset=10, **options))  # type: ignore[arg-type]


def with_int32(data: bytearray, position: int, value: int) -> bytearray:
    pack_into(">i", data, position, value)
    return data


def test_a_header_is_read_field_by_field() -> None:
    data = batch(
        codec=Compression.ZSTD,
        producer_id=2**40,
        producer_epoch=7,
        base_sequence=5,
        leader_epoch=9,
        is_transactional=True,
        timestamp_type=TimestampType.LOG_APPEND_TIME,
    )

    header = read_header(data)

    assert header == BatchHeader(
        base_offset=10,
        batch_length=len(data) - 12,
        partition_leader_epoch=9,
        magic=2,
        crc=header.crc,
        attributes=0b0001_1100,
        last_offset_delta=2,
        base_timestamp=1000,
        max_timestamp=1010,
        producer_id=2**40,
        producer_epoch=7,
        base_sequence=5,
        record_count=3,
    )
    assert header.size_bytes == len(data)
    assert (header.last_offset, header.next_offset, header.last_sequence) == (12, 13, 7)
    assert header.codec is Compression.ZSTD
    assert header.timestamp_type is TimestampType.LOG_APPEND_TIME
    assert header.is_transactional
    assert not header.is_control
    assert not header.has_delete_horizon
    assert header.delete_horizon_ms is None


def test_a_delete_horizon_takes_the_place_of_the_base_timestamp() -> None:
    header = read_header(batch(delete_horizon_ms=5000))

    assert header.has_delete_horizon
    assert header.delete_horizon_ms == 5000
    assert decode_rows(batch(delete_horizon_ms=5000)) == ROWS
    assert header.max_timestamp == 1010


@pytest.mark.parametrize(
    ("base", "delta", "last"),
    [(0, 0, 0), (2**31 - 1, 0, 2**31 - 1), (2**31 - 1, 1, 0), (2**31 - 2, 5, 3), (-1, 4, -1)],
)
def test_sequences_go_on_from_zero_after_the_largest(base: int, delta: int, last: int) -> None:
    header = msgspec.structs.replace(read_header(batch()), base_sequence=base, last_offset_delta=delta)

    assert header.last_sequence == last


def test_a_header_at_a_position_is_found() -> None:
    assert read_header(b"xyz" + batch(), 3) == read_header(batch())
    assert read_header(memoryview(b"xyz" + batch()), 3) == read_header(batch())


@pytest.mark.parametrize("size", [0, 1, 16, 17, HEADER_BYTES - 1])
def test_too_few_bytes_for_a_header_are_refused(size: int) -> None:
    with pytest.raises(CorruptBatchError, match=f"only {size} are left"):
        read_header(batch()[:size])


def test_a_position_outside_of_the_buffer_is_refused() -> None:
    for position in (-1, 10_000):
        with pytest.raises(CorruptBatchError):
            read_header(batch(), position)


@pytest.mark.parametrize("magic", [0, 1, 3, 127, -1])
def test_another_magic_is_refused_by_its_number(magic: int) -> None:
    data = batch()
    pack_into(">b", data, 16, magic)

    with pytest.raises(UnsupportedMagicError, match=f"magic {magic};") as caught:
        read_header(data)
    assert caught.value.magic == magic


def test_a_short_message_of_an_old_format_is_named_as_such() -> None:
    data = batch()[:40]
    data[16] = 1

    with pytest.raises(UnsupportedMagicError):
        read_header(data)


@pytest.mark.parametrize(("position", "value"), [(8, 48), (8, 0), (8, -1), (8, -(2**31)), (23, -1), (57, -1)])
def test_lengths_and_counts_that_cannot_be_are_refused(position: int, value: int) -> None:
    with pytest.raises(CorruptBatchError, match="claims"):
        read_header(with_int32(batch(), position, value))


def test_offsets_beyond_the_largest_are_refused() -> None:
    data = batch()
    pack_into(">q", data, 0, 2**63 - 2)

    with pytest.raises(CorruptBatchError, match="largest offset"):
        read_header(data)


def test_a_codec_that_does_not_exist_is_refused() -> None:
    data = batch()
    data[22] |= 7
    stamp_crc(data)
    header = read_header(data)

    with pytest.raises(CorruptBatchError, match="codec 7"):
        check_batch(data, header)
    with pytest.raises(CorruptBatchError, match="codec 7"):
        _ = header.codec


def test_every_flipped_bit_that_the_checksum_covers_is_noticed() -> None:
    whole = batch()
    header = read_header(whole)
    check_batch(whole, header)

    for position in range(17, len(whole)):
        damaged = bytearray(whole)
        damaged[position] ^= 0x10
        assert not crc_matches(damaged, msgspec.structs.replace(header, crc=int.from_bytes(damaged[17:21])))


def test_a_wrong_checksum_and_a_cut_batch_are_refused() -> None:
    data = batch()
    header = read_header(data)

    with pytest.raises(CorruptBatchError, match="2 of its"):
        check_batch(data[:-2], header)
    data[-1] ^= 1
    with pytest.raises(CorruptBatchError, match="checksum of the batch at offset 10"):
        check_batch(data, header)


def test_batches_are_walked_one_after_the_other() -> None:
    first, second = batch(), bytearray(build_batch([Record(13, 5, None, b"x" * 50)], base_offset=13))

    found = list(each_batch(first + second))

    assert [position for position, _ in found] == [0, len(first)]
    assert [header.base_offset for _, header in found] == [10, 13]
    assert list(each_batch(first + second, len(first))) == found[1:]
    assert list(each_batch(first + second, 0, len(first))) == found[:1]


def test_a_cut_last_batch_ends_the_walk_wherever_the_cut_is() -> None:
    first, second = batch(), batch()

    for cut in range(len(second)):
        assert len(list(each_batch(first + second[:cut]))) == 1
        assert len(list(each_batch(first + second, 0, len(first) + cut))) == 1


def test_damage_in_the_walk_is_raised_and_not_taken_for_the_end() -> None:
    for cut in (HEADER_BYTES, 12):
        with pytest.raises(CorruptBatchError):
            list(each_batch(batch() + with_int32(batch(), 8, 3)[:cut]))


def test_restamping_gives_a_place_in_the_log_and_leaves_the_checksum() -> None:
    data = bytearray(b"xx") + batch()
    before = read_header(data, 2)

    restamp(data, 2, base_offset=2**40, leader_epoch=77)

    after = read_header(data, 2)
    assert after == msgspec.structs.replace(before, base_offset=2**40, partition_leader_epoch=77)
    check_batch(data, after, 2)
    assert [row.offset for row in decode_rows(data, 2)] == [2**40, 2**40 + 1, 2**40 + 2]


@pytest.mark.parametrize("codec", Compression)
def test_restamping_with_an_append_time_gives_it_to_every_record(codec: Compression) -> None:
    data = batch(codec=codec)

    restamp(memoryview(data), 0, base_offset=100, leader_epoch=1, append_time_ms=9999)

    header = read_header(data)
    check_batch(data, header)
    assert header.timestamp_type is TimestampType.LOG_APPEND_TIME
    assert header.max_timestamp == 9999
    assert header.codec is codec
    assert decode_rows(data) == [row._replace(offset=100 + index, timestamp=9999) for index, row in enumerate(ROWS)]
