from __future__ import annotations

import pytest

from tidelog.wire.errors import MalformedError
from tidelog.wire.varint import read_uvarint, write_uvarint

EXAMPLES = [
    (0, "00"),
    (1, "01"),
    (127, "7f"),
    (128, "8001"),
    (16_383, "ff7f"),
    (16_384, "808001"),
    (2_097_151, "ffff7f"),
    (2_097_152, "80808001"),
    (268_435_455, "ffffff7f"),
    (268_435_456, "8080808001"),
    (2**31 - 1, "ffffffff07"),
    (2**32 - 1, "ffffffff0f"),
]


@pytest.mark.parametrize(("value", "written"), EXAMPLES)
def test_values_around_each_length(value: int, written: str) -> None:
    data = bytes.fromhex(written)

    assert write_uvarint(value) == data
    assert read_uvarint(b"\xff" + data + b"\xff", 1) == (value, 1 + len(data))


@pytest.mark.parametrize("written", ["8000", "808000", "8080808000"])
def test_leading_zeros_are_read_as_java_reads_them(written: str) -> None:
    data = bytes.fromhex(written)

    assert read_uvarint(data, 0) == (0, len(data))


@pytest.mark.parametrize("written", ["ffffffff10", "ffffffff7f", "ffffffffff01", "808080808000"])
def test_more_than_32_bits_are_malformed(written: str) -> None:
    with pytest.raises(MalformedError, match="32 bits"):
        read_uvarint(bytes.fromhex(written), 0)


def test_what_does_not_fit_is_not_written() -> None:
    with pytest.raises(OverflowError):
        write_uvarint(2**32)
