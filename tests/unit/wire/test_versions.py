from __future__ import annotations

import pytest

from tidelog.wire.versions import VERSION_MAX, VersionRange


@pytest.mark.parametrize(
    ("text", "lowest", "highest"), [("3-13", 3, 13), ("9+", 9, VERSION_MAX), ("4", 4, 4), ("0-0", 0, 0)]
)
def test_a_range_is_read_as_kafka_writes_it(text: str, lowest: int, highest: int) -> None:
    assert VersionRange.parse(text) == (lowest, highest)


@pytest.mark.parametrize("text", ["3-13", "9+", "4", "none"])
def test_a_range_prints_as_it_was_written(text: str) -> None:
    assert str(VersionRange.parse(text)) == text


def test_both_ends_belong_to_a_range() -> None:
    versions = VersionRange.parse("3-13")

    assert 3 in versions
    assert 13 in versions
    assert 2 not in versions
    assert 14 not in versions
    assert list(VersionRange(3, 5).each()) == [3, 4, 5]


def test_ranges_that_do_not_meet_share_nothing() -> None:
    assert not VersionRange.parse("0-3") & VersionRange.parse("4+")
    assert VersionRange.parse("0-4") & VersionRange.parse("4+") == VersionRange(4, 4)
    assert 0 not in VersionRange.parse("none")
