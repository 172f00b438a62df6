"""What the directory of the cluster metadata holds beyond a log, and what the metadata know of other partitions."""

from __future__ import annotations

import struct

import pytest

from tests.support.data_directory import (
    TOPIC_ID,
    DataDirectory,
    error,
)
from tests.support.log_builder import START_MS
from tidelog.model.ids import uuid_to_text
from tidelog.storage.verification.findings import Severity
from tidelog.wire.control_records import ControlType
from tidelog.wire.internal_records import encode_control_value, encode_metadata_record
from tidelog.wire.messages.internal.cluster_metadata import TopicRecord
from tidelog.wire.messages.internal.control_records import SnapshotFooterRecord, SnapshotHeaderRecord
from tidelog.wire.records import Record, build_batch

METADATA = "__cluster_metadata-0"


def control(base_offset: int, kind: int, value: bytes, epoch: int) -> bytes:
    record = Record(base_offset, START_MS, struct.pack(">hh", 0, kind), value)
    return build_batch([record], base_offset=base_offset, leader_epoch=epoch, is_control=True)


HEADER = encode_control_value(SnapshotHeaderRecord(version=0, last_contained_log_timestamp=0), 0)
FOOTER = encode_control_value(SnapshotFooterRecord(version=0), 0)


def metadata_batch(base_offset: int, epoch: int, *topics: tuple[str, bytes]) -> bytes:
    rows = [
        Record(
            base_offset + number, START_MS, None, encode_metadata_record(TopicRecord(name=name, topic_id=topic_id), 0)
        )
        for number, (name, topic_id) in enumerate(topics)
    ]
    return build_batch(rows, base_offset=base_offset, leader_epoch=epoch)


def snapshot(*parts: bytes, epoch: int = 2) -> bytes:
    return b"".join(
        [
            control(0, ControlType.SNAPSHOT_HEADER, HEADER, epoch),
            *parts,
            control(9, ControlType.SNAPSHOT_FOOTER, FOOTER, epoch),
        ]
    )


@pytest.fixture
def with_metadata(stopped: DataDirectory) -> DataDirectory:
    """A data directory with a metadata log that begins at offset 5, behind a snapshot."""
    stopped.files.make_directory(f"/data/{METADATA}")
    log = metadata_batch(5, 3, ("payments", bytes(15) + b"\x09"))
    for name, content in {
        "00000000000000000005.log": log,
        "00000000000000000005.index": b"",
        "00000000000000000005.timeindex": struct.pack(">qi", START_MS, 0),
        "leader-epoch-checkpoint": b"0\n1\n3 5\n",
        "partition.metadata": b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ",
        "quorum-state": b'{"leaderId":1,"leaderEpoch":3,"votedId":-1,"votedDirectoryId":"","data_version":1}',
        "00000000000000000005-0000000002.checkpoint": snapshot(metadata_batch(1, 2, ("orders", TOPIC_ID))),
    }.items():
        stopped.write_file(f"{METADATA}/{name}", content)
    return stopped


def test_whole_metadata_have_no_findings(with_metadata: DataDirectory) -> None:
    assert with_metadata.report().findings == []
    assert with_metadata.report(METADATA).findings == []


def test_a_topic_id_that_the_metadata_do_not_know_is_an_error(with_metadata: DataDirectory) -> None:
    other = uuid_to_text(bytes(reversed(TOPIC_ID)))
    for partition in (0, 1):
        with_metadata.write_file(f"orders-{partition}/partition.metadata", f"version: 0\ntopic_id: {other}".encode())

    assert with_metadata.findings()[0] == error(
        "orders-0/partition.metadata",
        None,
        f"it says topic id {other}, and the cluster metadata say {uuid_to_text(TOPIC_ID)}",
    )


def test_a_topic_that_the_metadata_do_not_know_is_a_warning(with_metadata: DataDirectory) -> None:
    with_metadata.write_file(f"{METADATA}/00000000000000000005-0000000002.checkpoint", snapshot())

    found = with_metadata.findings()

    assert [finding.severity for finding in found] == [Severity.WARNING] * 2
    assert found[0].sentence == (
        "the cluster metadata know no topic orders: Kafka will set the partition aside as a stray one"
    )


@pytest.mark.parametrize(
    ("content", "position", "sentence"),
    [
        (
            control(0, ControlType.SNAPSHOT_HEADER, HEADER, 2),
            75 + 7,
            "it does not end with a snapshot's footer: it was not written to its end",
        ),
        (control(0, ControlType.SNAPSHOT_FOOTER, FOOTER, 2), 0, "it does not begin with a snapshot's header"),
        (snapshot(epoch=1), 0, "a batch of leader epoch 1 in a snapshot of epoch 2"),
        (snapshot() + bytes(9), len(snapshot()), "9 zero bytes to the end, where a snapshot has none"),
        (snapshot() + b"x", len(snapshot()), "only 1 bytes are left, and the header of a batch takes 61"),
    ],
)
def test_a_damaged_snapshot_of_metadata_is_found(
    with_metadata: DataDirectory, content: bytes, position: int, sentence: str
) -> None:
    name = f"{METADATA}/00000000000000000005-0000000002.checkpoint"
    with_metadata.write_file(name, content)
    if "footer" in sentence:
        position = len(content)

    assert with_metadata.findings(METADATA) == [error(name.partition("/")[2], position, sentence)]


def test_metadata_that_are_nowhere_are_an_error(with_metadata: DataDirectory) -> None:
    with_metadata.remove(f"{METADATA}/00000000000000000005-0000000002.checkpoint")

    assert with_metadata.findings(METADATA) == [
        error(".", None, "the log begins at offset 5 and the newest snapshot ends at 0: what lies between is lost")
    ]


def test_a_metadata_record_that_does_not_decode_is_an_error(with_metadata: DataDirectory) -> None:
    content = build_batch([Record(5, START_MS, None, b"\x01\x02\x00\xff")], base_offset=5, leader_epoch=3)
    with_metadata.write_file(f"{METADATA}/00000000000000000005.log", content)

    (found,) = with_metadata.findings(METADATA)

    assert (found.severity, found.path, found.position) == (Severity.ERROR, "00000000000000000005.log", 0)
    assert found.sentence.startswith("the record at offset 5 does not decode: TopicRecord v0")


def test_a_metadata_record_of_a_later_release_is_a_warning(with_metadata: DataDirectory) -> None:
    content = build_batch([Record(5, START_MS, None, b"\x01\x7f\x00")], base_offset=5, leader_epoch=3)
    with_metadata.write_file(f"{METADATA}/00000000000000000005.log", content)

    (found,) = with_metadata.findings(METADATA)

    assert found.severity is Severity.WARNING
    assert found.sentence.startswith("the record at offset 5 is of a later release: ")


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"[]", "it is not the JSON object that Kafka writes"),
        (b"{", "it is not the JSON object that Kafka writes"),
        (b"{}", "it has data_version None; only 0 and 1 are known"),
        (b'{"data_version":1,"leaderId":1,"leaderEpoch":3}', "votedId is missing, or no number"),
        (
            b'{"data_version":1,"leaderId":1,"leaderEpoch":2,"votedId":-1}',
            "it says leader epoch 2, and the log has batches of epoch 3",
        ),
    ],
)
def test_a_wrong_quorum_state_is_an_error(with_metadata: DataDirectory, content: bytes, sentence: str) -> None:
    with_metadata.write_file(f"{METADATA}/quorum-state", content)

    assert with_metadata.findings(METADATA) == [error("quorum-state", None, sentence)]
