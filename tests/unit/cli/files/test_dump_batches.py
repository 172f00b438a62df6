"""`tidelog dump-log` of log files: batches, records, the records of internal topics, and damage."""

from __future__ import annotations

import os
import struct
from pathlib import Path

import pytest
from typer.testing import Result

from tests.support.command_line import json_lines as lines, tidelog
from tests.support.log_builder import START_MS
from tidelog.wire.compression import Compression
from tidelog.wire.control_records import ControlType, build_end_txn_marker
from tidelog.wire.internal_records import encode_coordinator_key, encode_coordinator_value, encode_metadata_record
from tidelog.wire.messages.internal.cluster_metadata import TopicRecord
from tidelog.wire.messages.internal.offset_records import OffsetCommitKey, OffsetCommitValue
from tidelog.wire.record_batch import stamp_crc
from tidelog.wire.records import Record, build_batch

PLAIN = build_batch(
    [
        Record(0, START_MS, b"k", b"v", (("note", b"x"), ("gone", None))),
        Record(1, START_MS + 1, None, b"\x00\xff"),
    ],
    leader_epoch=4,
)
PACKED = build_batch(
    [Record(2, START_MS + 2, b"", None)],
    base_offset=2,
    leader_epoch=4,
    codec=Compression.GZIP,
    producer_id=9,
    producer_epoch=1,
    base_sequence=3,
    is_transactional=True,
)
MARKER = build_end_txn_marker(
    ControlType.ABORT,
    producer_id=9,
    producer_epoch=1,
    coordinator_epoch=6,
    timestamp=START_MS + 3,
    base_offset=3,
    leader_epoch=4,
)


def run(*arguments: str | Path) -> Result:
    return tidelog("dump-log", *arguments)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "orders-0" / "00000000000000000000.log"
    path.parent.mkdir()
    path.write_bytes(PLAIN + PACKED + MARKER)
    return path


# Log files


def test_a_log_is_shown_batch_by_batch_and_record_by_record(log: Path) -> None:
    result = run(log)

    assert result.exit_code == 0
    assert result.stdout.splitlines() == [
        f"{log}: log segment, {log.stat().st_size} bytes, base offset 0",
        f"batch 0..1  at byte 0, {len(PLAIN)} bytes  2 records  create time up to 2023-11-14T22:13:20.001Z  leader epoch 4",
        '  0  2023-11-14T22:13:20.000Z  key "k"  value "v"  headers "note"="x" "gone"=null',
        "  1  2023-11-14T22:13:20.001Z  key null  value 0x00ff",
        (
            f"batch 2..2  at byte {len(PLAIN)}, {len(PACKED)} bytes  1 record  create time up to 2023-11-14T22:13:20.002Z  "
            "leader epoch 4  gzip  producer 9 epoch 1  sequence 3..3  transactional"
        ),
        '  2  2023-11-14T22:13:20.002Z  key ""  value null',
        (
            f"batch 3..3  at byte {len(PLAIN + PACKED)}, {len(MARKER)} bytes  1 record  "
            "create time up to 2023-11-14T22:13:20.003Z  leader epoch 4  producer 9 epoch 1  transactional  control"
        ),
        '  3  2023-11-14T22:13:20.003Z  ABORT v0 {"coordinator_epoch": 6}',
    ]


def test_json_has_one_object_a_line(log: Path) -> None:
    found = lines(run(log, "--json"))

    assert [line["type"] for line in found] == [
        "file",
        "batch",
        "record",
        "record",
        "batch",
        "record",
        "batch",
        "record",
    ]
    assert found[0] == {
        "type": "file",
        "path": str(log),
        "kind": "log segment",
        "size_bytes": log.stat().st_size,
        "base_offset": 0,
    }
    assert found[4] == {
        "type": "batch",
        "position": len(PLAIN),
        "size_bytes": len(PACKED),
        "base_offset": 2,
        "last_offset": 2,
        "record_count": 1,
        "partition_leader_epoch": 4,
        "codec": "gzip",
        "timestamp_type": "create",
        "base_timestamp": START_MS + 2,
        "max_timestamp": START_MS + 2,
        "producer_id": 9,
        "producer_epoch": 1,
        "base_sequence": 3,
        "last_sequence": 3,
        "is_transactional": True,
        "is_control": False,
        "delete_horizon_ms": None,
        "crc": struct.unpack_from(">I", PACKED, 17)[0],
    }
    assert found[2] == {
        "type": "record",
        "offset": 0,
        "timestamp": START_MS,
        "key": "k",
        "value": "v",
        "headers": [{"key": "note", "value": "x"}, {"key": "gone", "value": None}],
    }
    assert found[3]["value"] == {"base64": "AP8="}
    assert found[7]["control"] == {"message": "ABORT", "version": 0, "fields": {"coordinator_epoch": 6}}
    assert "key" not in found[7]


def test_batches_leaves_out_records(log: Path) -> None:
    assert [line["type"] for line in lines(run(log, "--json", "--batches"))] == ["file", "batch", "batch", "batch"]


@pytest.mark.parametrize(
    ("options", "offsets"),
    [
        (["--offset", "1"], [1, 2, 3]),
        (["--offset", "2"], [2, 3]),
        (["--offset", "99"], []),
        (["--limit", "0"], []),
        (["--limit", "1"], [0]),
        (["--limit", "3"], [0, 1, 2]),
        (["--offset", "1", "--limit", "2"], [1, 2]),
    ],
)
def test_offset_and_limit_choose_records(log: Path, options: list[str], offsets: list[int]) -> None:
    found = lines(run(log, "--json", *options))

    assert [line["offset"] for line in found if line["type"] == "record"] == offsets


def test_offset_and_limit_choose_batches(log: Path) -> None:
    found = lines(run(log, "--json", "--batches", "--offset", "1", "--limit", "2"))

    assert [line["base_offset"] for line in found if line["type"] == "batch"] == [0, 2]


def test_a_limit_stops_before_damage(log: Path) -> None:
    log.write_bytes(log.read_bytes() + b"x")

    assert run(log, "--limit", "4").exit_code == 0
    assert run(log, "--batches", "--limit", "3").exit_code == 0
    assert run(log).exit_code == 1


def test_an_empty_log_is_whole(log: Path) -> None:
    log.write_bytes(b"")

    result = run(log)

    assert (result.exit_code, result.stdout) == (0, f"{log}: log segment, 0 bytes, base offset 0\n")


def test_a_preallocated_tail_is_named_and_is_no_damage(log: Path) -> None:
    size = log.stat().st_size
    os.truncate(log, 10_000)

    result = run(log)

    assert result.exit_code == 0
    assert result.stdout.splitlines()[-1] == (
        f"byte {size}: {10_000 - size} zero bytes to the end of the file: space that was preallocated, no damage"
    )
    assert lines(run(log, "--json"))[-1]["type"] == "note"


@pytest.mark.parametrize("options", [[], ["--batches"]])
def test_damage_is_pointed_at_and_ends_the_file(log: Path, options: list[str]) -> None:
    content = bytearray(log.read_bytes())
    content[len(PLAIN) + 70] ^= 1
    log.write_bytes(content)
    right = struct.unpack_from(">I", PACKED, 17)[0]

    result = run(log, *options)

    assert result.exit_code == 1
    assert "batch 2..2" not in result.stdout
    assert result.stdout.splitlines()[1].startswith("batch 0..1")
    assert result.stderr.startswith(
        f"tidelog dump-log: {log}: damaged at byte {len(PLAIN) + 17}: the batch at offset 2 is damaged: its bytes have the CRC 0x"
    )
    assert result.stderr.endswith(
        f", its header says {right:#010x}. Everything before byte {len(PLAIN)} is whole; "
        f"the next whole batch begins at byte {len(PLAIN + PACKED)}, at offset 3\n"
    )


def test_damage_is_an_object_too(log: Path) -> None:
    os.truncate(log, len(PLAIN) + 10)

    found = lines(run(log, "--json"))

    assert found[-1] == {
        "type": "damage",
        "position": len(PLAIN),
        "sentence": "only 10 bytes are left, and the header of a batch takes 61. "
        f"Everything before byte {len(PLAIN)} is whole; no whole batch follows",
    }


def test_records_that_do_not_decode_are_damage(log: Path) -> None:
    content = bytearray(PLAIN)
    content[61] = 0x7F
    stamp_crc(content)
    log.write_bytes(content)

    result = run(log)

    assert result.exit_code == 1
    assert (
        "damaged at byte 61: the checksum of the batch at offset 0 is right, but its records do not decode: "
        in result.stderr
    )
    assert run(log, "--batches").exit_code == 0


def test_append_time_and_a_delete_horizon_are_shown(log: Path) -> None:
    log.write_bytes(build_batch([Record(0, START_MS, b"k", None)], delete_horizon_ms=START_MS + 5))

    assert "delete horizon 2023-11-14T22:13:20.005Z" in run(log).stdout


# Internal topics


OFFSET_KEY = encode_coordinator_key(OffsetCommitKey(group="g", topic="orders", partition=2))
OFFSET_VALUE = encode_coordinator_value(
    OffsetCommitValue(offset=17, leader_epoch=-1, metadata="", commit_timestamp=START_MS), 3
)


def internal_log(tmp_path: Path, directory: str, *rows: tuple[bytes | None, bytes | None]) -> Path:
    path = tmp_path / directory / "00000000000000000000.log"
    path.parent.mkdir()
    path.write_bytes(build_batch([Record(number, START_MS, key, value) for number, (key, value) in enumerate(rows)]))
    return path


def test_the_directory_says_how_to_decode(tmp_path: Path) -> None:
    path = internal_log(tmp_path, "__consumer_offsets-7", (OFFSET_KEY, OFFSET_VALUE), (OFFSET_KEY, None))

    found = lines(run(path, "--json"))

    key = {"message": "OffsetCommitKey", "version": 0, "fields": {"group": "g", "topic": "orders", "partition": 2}}
    assert found[2]["decoded"]["key"] == key
    assert found[2]["decoded"]["value"]["message"] == "OffsetCommitValue"
    assert found[2]["decoded"]["value"]["version"] == 3
    assert found[2]["decoded"]["value"]["fields"]["offset"] == 17
    assert found[3]["decoded"] == {"key": key, "value": None}


def test_a_decoded_record_is_one_line_of_text(tmp_path: Path) -> None:
    path = internal_log(tmp_path, "__consumer_offsets-7", (OFFSET_KEY, None))

    assert run(path).stdout.splitlines()[2] == (
        "  0  2023-11-14T22:13:20.000Z  "
        'key OffsetCommitKey v0 {"group": "g", "topic": "orders", "partition": 2}  value null'
    )


def test_what_cannot_be_decoded_is_shown_raw_with_the_reason(tmp_path: Path) -> None:
    path = internal_log(
        tmp_path, "__consumer_offsets-7", (b"\x7f\xff", b"value"), (None, b"value"), (OFFSET_KEY, b"\x00")
    )

    result = run(path, "--json")
    found = lines(result)

    assert result.exit_code == 0
    assert (found[2]["key"], found[2]["value"]) == ({"base64": "f/8="}, "value")
    assert found[2]["not_decoded"] == "__consumer_offsets has a record of the unknown type 32767"
    assert found[3]["not_decoded"] == "a record of __consumer_offsets has a key that is too short to name its type"
    assert "too short to name its version" in found[4]["not_decoded"]
    assert (
        run(path)
        .stdout.splitlines()[2]
        .endswith("(not decoded: __consumer_offsets has a record of the unknown type 32767)")
    )


def test_decode_as_overrules_the_directory(tmp_path: Path) -> None:
    path = internal_log(tmp_path, "backup", (OFFSET_KEY, OFFSET_VALUE))

    assert "decoded" not in lines(run(path, "--json"))[2]
    assert "decoded" in lines(run(path, "--json", "--decode-as", "__consumer_offsets"))[2]


def test_a_snapshot_of_metadata_is_decoded_wherever_it_is(tmp_path: Path) -> None:
    path = tmp_path / "00000000000000000012-0000000003.checkpoint"
    record = TopicRecord(name="orders", topic_id=bytes(15) + b"\x07")
    path.write_bytes(build_batch([Record(0, START_MS, None, encode_metadata_record(record, 0))]))

    found = lines(run(path, "--json"))

    assert (found[0]["kind"], found[0]["end_offset"], found[0]["epoch"]) == ("snapshot of the cluster metadata", 12, 3)
    fields = {"name": "orders", "topic_id": "AAAAAAAAAAAAAAAAAAAABw"}
    assert found[2]["decoded"] == {"value": {"message": "TopicRecord", "version": 0, "fields": fields}}


@pytest.mark.parametrize("form", [(), ("--json",)])
def test_what_cannot_be_decoded_of_the_metadata_may_be_a_secret(tmp_path: Path, form: tuple[str, ...]) -> None:
    path = internal_log(tmp_path, "__cluster_metadata-0", (b"hush-key", b"\x01\x7f\x00hush"))

    hidden = run(path, *form).stdout
    shown = run(path, "--show-secrets", *form).stdout

    assert "[hidden]" in hidden
    assert "not" in hidden
    assert "hush" not in hidden
    assert "hush-key" in shown
