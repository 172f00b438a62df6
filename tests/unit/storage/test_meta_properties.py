"""Whose a log directory is."""

from __future__ import annotations

import pytest

from tests.unit.storage.disks import Place
from tidelog.model.ids import DirectoryId, NodeId, uuid_from_text
from tidelog.storage.errors import DamagedFileError
from tidelog.storage.meta_properties import MetaProperties, read_meta_properties, write_meta_properties

DIRECTORY_ID = "hUvdzVNQSYeaRVTRpKxbaw"
IDENTITY = MetaProperties("MkU3OEVBNTcwNTJENDM2Qg", NodeId(1), DirectoryId(uuid_from_text(DIRECTORY_ID)))


def test_the_identity_is_written_as_kafka_reads_it(place: Place) -> None:
    write_meta_properties(place.files, place.directory, IDENTITY)

    assert place.read("meta.properties").decode().splitlines()[1:] == [
        "version=1",
        "cluster.id=MkU3OEVBNTcwNTJENDM2Qg",
        "node.id=1",
        f"directory.id={DIRECTORY_ID}",
    ]
    assert read_meta_properties(place.files, place.directory) == IDENTITY


def test_what_kafka_wrote_is_read(place: Place) -> None:
    place.write(
        "meta.properties",
        f"#\n#Sat Nov 15 21:00:00 UTC 2025\ncluster.id=abc\ndirectory.id={DIRECTORY_ID}\nnode.id=7\nversion=1\n".encode(),
    )

    identity = read_meta_properties(place.files, place.directory)

    assert identity == MetaProperties("abc", NodeId(7), IDENTITY.directory_id)


def test_an_older_file_has_no_directory_id(place: Place) -> None:
    place.write("meta.properties", b"version=1\ncluster.id=abc\nnode.id=7\n")

    identity = read_meta_properties(place.files, place.directory)

    assert identity == MetaProperties("abc", NodeId(7), None)
    write_meta_properties(place.files, place.directory, identity)
    assert read_meta_properties(place.files, place.directory) == identity


def test_a_directory_that_was_never_formatted_has_no_identity(place: Place) -> None:
    assert read_meta_properties(place.files, place.directory) is None


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "it has version 0"),
        (b"version=0\nbroker.id=1\n", "Version 0 is ZooKeeper's"),
        (b"version=2\ncluster.id=a\nnode.id=1\n", "it has version 2"),
        (b"version=1\nnode.id=1\n", "cluster.id is missing"),
        (b"version=1\ncluster.id=a\n", "node.id is missing"),
        (b"version=1\ncluster.id=a\nnode.id=one\n", "node.id=one is no number"),
        (b"version=1\ncluster.id=a\nnode.id=1\ndirectory.id=x\n", "directory.id: 'x' is not an id"),
    ],
)
def test_what_cannot_be_understood_is_damaged(place: Place, content: bytes, reason: str) -> None:
    place.write("meta.properties", content)

    with pytest.raises(DamagedFileError) as raised:
        read_meta_properties(place.files, place.directory)

    assert reason in str(raised.value)
