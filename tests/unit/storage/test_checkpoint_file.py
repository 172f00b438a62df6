"""Kafka's checkpoint files."""

from __future__ import annotations

import pytest

from tests.unit.storage.disks import Place
from tidelog.model.ids import Offset, PartitionIndex, TopicName, TopicPartition
from tidelog.storage.checkpoint_file import (
    RECOVERY_POINT_CHECKPOINT,
    read_lines,
    read_offsets,
    write_lines,
    write_offsets,
)
from tidelog.storage.errors import DamagedFileError

ORDERS_0 = TopicPartition(TopicName("orders"), PartitionIndex(0))
ORDERS_10 = TopicPartition(TopicName("orders"), PartitionIndex(10))
BILLS_2 = TopicPartition(TopicName("bills"), PartitionIndex(2))


def test_the_text_is_kafkas(place: Place) -> None:
    path = place.path(RECOVERY_POINT_CHECKPOINT)

    write_offsets(place.files, path, {ORDERS_10: Offset(977), ORDERS_0: Offset(2**63 - 1), BILLS_2: Offset(0)})

    assert place.read(RECOVERY_POINT_CHECKPOINT) == b"0\n3\nbills 2 0\norders 0 9223372036854775807\norders 10 977\n"
    assert read_offsets(place.files, path) == {BILLS_2: 0, ORDERS_0: 2**63 - 1, ORDERS_10: 977}


def test_no_partitions_are_written_and_read(place: Place) -> None:
    write_offsets(place.files, place.path("c"), {})

    assert place.read("c") == b"0\n0\n"
    assert read_offsets(place.files, place.path("c")) == {}


@pytest.mark.parametrize("content", [None, b"", b"0\n", b"0\n0\n"])
def test_a_missing_or_empty_file_has_no_entries(place: Place, content: bytes | None) -> None:
    if content is not None:
        place.write("c", content)

    assert read_offsets(place.files, place.path("c")) == {}


def test_spacing_may_vary_and_the_last_line_end_may_be_missing(place: Place) -> None:
    place.write("c", b"0\n2\norders  0\t5\norders 10 7")

    assert read_offsets(place.files, place.path("c")) == {ORDERS_0: 5, ORDERS_10: 7}


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"1\n0\n", "it has version 1; only version 0 is known"),
        (b"zero\n0\n", "the line 'zero' is malformed"),
        (b"0\n2\norders 0 5\n", "it announces 2 entries but has 1"),
        (b"0\n1\norders 0 5\norders 1 5\n", "it announces 1 entries but has 2"),
        (b"0\n1\norders 0\n", "the line 'orders 0' is malformed"),
        (b"0\n1\norders 0 5 6\n", "the line 'orders 0 5 6' is malformed"),
        (b"0\n1\norders 0 1_0\n", "the line '1_0' is malformed"),
        (b"0\n1\norders 0 " + b"9" * 5000 + b"\n", "is malformed"),
        (b"0\n1\norders 0 9223372036854775808\n", "the line '9223372036854775808' is malformed"),
        (b"0\n1\norders 2147483648 5\n", "the line '2147483648' is malformed"),
        (b"0\n1\n\n", "the line '' is malformed"),
        (b"0\n\xff\n", "byte 2 is not UTF-8"),
    ],
)
def test_what_kafka_would_not_read_is_damaged(place: Place, content: bytes, reason: str) -> None:
    place.write("c", content)

    with pytest.raises(DamagedFileError) as raised:
        read_offsets(place.files, place.path("c"))

    assert reason in str(raised.value)
    assert str(raised.value).startswith(f"cannot read {place.path('c')}: ")


def test_any_fields_are_written_as_text(place: Place) -> None:
    write_lines(place.files, place.path("c"), [(0, 5), (3, 99)])

    assert place.read("c") == b"0\n2\n0 5\n3 99\n"
    assert read_lines(place.files, place.path("c"), fields=2) == [["0", "5"], ["3", "99"]]
