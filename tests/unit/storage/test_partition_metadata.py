"""The topic id of a partition's directory."""

from __future__ import annotations

import pytest

from tests.unit.storage.disks import Place
from tidelog.model.ids import TopicId, uuid_from_text
from tidelog.storage.errors import DamagedFileError
from tidelog.storage.partition_metadata import read_partition_metadata, write_partition_metadata

TOPIC_ID = TopicId(uuid_from_text("F6Q5sCdKR3mLmpUTYTnHrQ"))


def test_the_text_is_kafkas(place: Place) -> None:
    write_partition_metadata(place.files, place.directory, TOPIC_ID)

    assert place.read("partition.metadata") == b"version: 0\ntopic_id: F6Q5sCdKR3mLmpUTYTnHrQ"
    assert read_partition_metadata(place.files, place.directory) == TOPIC_ID


def test_a_later_version_is_read_for_its_id(place: Place) -> None:
    place.write("partition.metadata", b"version: 3\ntopic_id: F6Q5sCdKR3mLmpUTYTnHrQ\nmore: x\n")

    assert read_partition_metadata(place.files, place.directory) == TOPIC_ID


def test_a_directory_without_the_file_has_no_id(place: Place) -> None:
    assert read_partition_metadata(place.files, place.directory) is None


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "line 1 is ''; expected version: ..."),
        (b"version: x\ntopic_id: F6Q5sCdKR3mLmpUTYTnHrQ", "it has version 'x'"),
        (b"version: -1\ntopic_id: F6Q5sCdKR3mLmpUTYTnHrQ", "it has version '-1'"),
        (b"version: 0\n", "line 2 is ''; expected topic_id: ..."),
        (b"version: 0\ntopic: F6Q5sCdKR3mLmpUTYTnHrQ", "expected topic_id: ..."),
        (b"version: 0\ntopic_id: short", "topic_id: 'short' is not an id"),
        (b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA", "all zeros"),
        (b"\xff" * 5000, "longer than the 4096 bytes"),
    ],
)
def test_what_makes_no_sense_is_damaged(place: Place, content: bytes, reason: str) -> None:
    place.write("partition.metadata", content)

    with pytest.raises(DamagedFileError) as raised:
        read_partition_metadata(place.files, place.directory)

    assert reason in str(raised.value)
