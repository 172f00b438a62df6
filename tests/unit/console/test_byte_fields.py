"""Every byte of a batch has a name."""

from __future__ import annotations

from itertools import pairwise

import pytest

from tidelog.console.xray.byte_fields import fields_of
from tidelog.wire.compression import Compression
from tidelog.wire.record_batch import read_header
from tidelog.wire.records import Record, build_batch

RECORDS = [
    Record(7, 1000, b"key", b"value", (("h", b"x"), ("null", None))),
    Record(8, 1005, None, b"v" * 300),
    Record(9, 1001, b"", None),
]


def batch(compression: Compression = Compression.NONE) -> bytes:
    return bytes(build_batch(RECORDS, base_offset=7, codec=compression))


def test_the_fields_of_a_batch_follow_each_other_without_a_gap() -> None:
    data = batch()
    fields = fields_of(data)
    assert fields[0].start == 0
    assert fields[-1].end == len(data)
    for before, after in pairwise(fields):
        assert before.end == after.start, (before, after)


def test_fields_have_the_values_of_header_and_records() -> None:
    data = batch()
    fields = fields_of(data)
    header = {each.name: each.value for each in fields if each.record is None}
    assert header["baseOffset"] == "7"
    assert header["recordsCount"] == "3"
    assert header["crc"] == f"{read_header(data).crc:#010x}"
    first = {each.name: each for each in fields if each.record == 0}
    assert data[first["key"].start : first["key"].end] == b"key"
    assert data[first["value"].start : first["value"].end] == b"value"
    assert [each.name for each in fields if each.record == 0].count("headerKey") == 2
    second = {each.name: each for each in fields if each.record == 1}
    assert "key" not in second
    assert second["offsetDelta"].meaning.endswith("offset 8")


def test_compressed_records_are_one_field() -> None:
    data = batch(Compression.ZSTD)
    last = fields_of(data)[-1]
    assert (last.name, last.start, last.end) == ("records", 61, len(data))
    assert "zstd" in last.value


@pytest.mark.parametrize("cut", [61, 62, 70, 100])
def test_a_batch_that_is_cut_off_is_told_as_far_as_it_goes(cut: int) -> None:
    fields = fields_of(batch()[:cut])
    assert len(fields) >= 13
    assert max(each.end for each in fields) <= cut
