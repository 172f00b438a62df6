"""`tidelog dump-log` of indexes, snapshots, checkpoints and the other small files."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from typer.testing import Result

from tests.support.command_line import json_lines as lines, tidelog
from tests.support.log_builder import START_MS
from tidelog.storage.producer_snapshot import ProducerSnapshotEntry, encode_snapshot


def run(*arguments: str | Path) -> Result:
    return tidelog("dump-log", *arguments)


OFFSET_INDEX = struct.pack(">iiii", 4, 100, 9, 200)
TIME_INDEX = struct.pack(">qiqi", START_MS, 4, START_MS + 1, 9)
TRANSACTION_INDEX = struct.pack(">hqqqq", 0, 9, 20, 25, 26) + struct.pack(">hqqqq", 0, 9, 27, 29, 30)
SNAPSHOT = encode_snapshot([ProducerSnapshotEntry(9, 1, 3, 28, 0, START_MS, 6, 20)])


@pytest.mark.parametrize(
    ("name", "content", "text"),
    [
        (
            "00000000000000000020.index",
            OFFSET_INDEX,
            [
                "offset index, 16 bytes, base offset 20",
                "entry 0  offset 24  position 100",
                "entry 1  offset 29  position 200",
            ],
        ),
        (
            "00000000000000000020.timeindex",
            TIME_INDEX,
            [
                "time index, 24 bytes, base offset 20",
                "entry 0  2023-11-14T22:13:20.000Z  offset 24",
                "entry 1  2023-11-14T22:13:20.001Z  offset 29",
            ],
        ),
        (
            "00000000000000000020.txnindex.deleted",
            TRANSACTION_INDEX[:34],
            [
                "index of aborted transactions, 34 bytes, base offset 20",
                "entry 0  version 0  producer id 9  first offset 20  last offset 25  last stable offset 26",
            ],
        ),
        (
            "00000000000000000030.snapshot",
            SNAPSHOT,
            [
                "snapshot of producers, 56 bytes, offset 30",
                (
                    "producer id 9  epoch 1  last sequence 3  last offset 28  offset delta 0  2023-11-14T22:13:20.000Z  "
                    "coordinator epoch 6  transaction first offset 20"
                ),
            ],
        ),
        (
            "recovery-point-offset-checkpoint",
            b"0\n2\norders 0 17\npay-ments 1 3\n",
            [
                "checkpoint of offsets, 30 bytes",
                "topic orders  partition 0  offset 17",
                "topic pay-ments  partition 1  offset 3",
            ],
        ),
        (
            "replication-offset-checkpoint",
            b"",
            ["checkpoint of offsets, 0 bytes", "byte 0: empty: no entries, as Kafka creates it"],
        ),
        (
            "leader-epoch-checkpoint",
            b"0\n1\n4 0\n",
            ["checkpoint of leader epochs, 8 bytes", "epoch 4  start offset 0"],
        ),
        (
            "partition.metadata",
            b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ",
            ["identity of a partition, 43 bytes", '{"version": "0", "topic_id": "AAAAAAAAAAAAAAAAAAAAAQ"}'],
        ),
        (
            "meta.properties",
            b"#\nversion=1\ncluster.id=c\nnode.id=1\n",
            ["identity of a data directory, 35 bytes", '{"version": "1", "cluster.id": "c", "node.id": "1"}'],
        ),
        (
            "quorum-state",
            b'{"leaderId":1,"data_version":1}',
            ["state of the quorum, 31 bytes", '{"leaderId": 1, "data_version": 1}'],
        ),
        (
            ".kafka_cleanshutdown",
            b'{"version":0,"brokerEpoch":7}',
            ["mark of a clean stop, 29 bytes", '{"version": 0, "brokerEpoch": 7}'],
        ),
    ],
)
def test_other_files_are_shown_entry_by_entry(tmp_path: Path, name: str, content: bytes, text: list[str]) -> None:
    path = tmp_path / name
    path.write_bytes(content)

    result = run(path)

    assert result.exit_code == 0
    assert result.stdout.splitlines() == [f"{path}: {text[0]}", *text[1:]]
    assert next(line["type"] for line in lines(run(path, "--json"))) == "file"


@pytest.mark.parametrize(
    ("name", "content", "position", "sentence"),
    [
        ("00000000000000000020.index", OFFSET_INDEX + OFFSET_INDEX[:8], 16, "offsets do not rise: 24 follows 29"),
        ("00000000000000000020.index", OFFSET_INDEX[:13], 8, "5 bytes are left at the end, and an entry takes 8"),
        (
            "00000000000000000020.timeindex",
            TIME_INDEX[12:] + TIME_INDEX[:12],
            12,
            f"timestamps do not rise: {START_MS} follows {START_MS + 1}",
        ),
        (
            "00000000000000000020.txnindex",
            TRANSACTION_INDEX[34:] + TRANSACTION_INDEX[:34],
            34,
            "transactions are out of order: one ended at offset 25, the one before at 29",
        ),
        ("00000000000000000030.snapshot", SNAPSHOT[:7], 0, "only 7 bytes, and the header of a snapshot takes 10"),
        ("00000000000000000030.snapshot", b"\x00\x07" + SNAPSHOT[2:], 0, "the version 7; only version 1 is known"),
        ("00000000000000000030.snapshot", b"", 0, "only 0 bytes, and the header of a snapshot takes 10"),
        ("leader-epoch-checkpoint", b"1\n0\n", 0, "the version '1'; only version 0 exists"),
        ("leader-epoch-checkpoint", b"0\nx\n", 2, "'x' where the number of entries should be"),
        ("leader-epoch-checkpoint", b"0\n2\n0 0\n1 x\n", 8, "line 4, '1 x', is not of the form 'epoch start_offset'"),
        ("leader-epoch-checkpoint", b"0\n2\n0 0\n", 8, "the file ends after 1 of the 2 entries that line 2 announces"),
        (
            "leader-epoch-checkpoint",
            b"0\n1\n0 0\n1 5\n",
            8,
            "line 4 is one more than the 1 entries that line 2 announces",
        ),
        (
            "cleaner-offset-checkpoint",
            b"0\n1\norders \xff 3\n",
            4,
            "line 3, 'orders \\\\xff 3', is not of the form 'topic partition offset'",
        ),
        ("meta.properties", b"version=1\n", 0, "cluster.id is missing"),
        (
            "partition.metadata",
            b"version: 0\ntopic_id: x",
            0,
            "topic_id: 'x' is not an id: expected 22 characters of url-safe base64",
        ),
        ("quorum-state", b'{"leaderId":,', 12, "not JSON: Expecting value"),
        ("quorum-state", b"[1]", 0, "a JSON object is expected, and this is list"),
        ("quorum-state", b'{"a":"\xff"}', 6, "a byte that is not UTF-8"),
        ("quorum-state", b"[" * 100_000, 0, "not JSON that anybody wrote: it is nested too deeply"),
    ],
)
def test_the_first_bad_byte_of_other_files_is_named(
    tmp_path: Path, name: str, content: bytes, position: int, sentence: str
) -> None:
    path = tmp_path / name
    path.write_bytes(content)

    result = run(path, "--json")

    assert result.exit_code == 1
    assert lines(result)[-1] == {"type": "damage", "position": position, "sentence": sentence}
    assert result.stderr == f"tidelog dump-log: {path}: damaged at byte {position}: {sentence}\n"


def test_a_damaged_snapshot_gives_both_checksums(tmp_path: Path) -> None:
    path = tmp_path / "00000000000000000030.snapshot"
    path.write_bytes(SNAPSHOT[:-1] + b"\x01")

    found = lines(run(path, "--json"))[-1]

    assert found["position"] == 2
    assert found["sentence"].endswith(f"and the header says {struct.unpack_from('>I', SNAPSHOT, 2)[0]:#010x}")


@pytest.mark.parametrize(
    ("name", "content", "options", "entries"),
    [
        ("00000000000000000020.index", OFFSET_INDEX, ["--offset", "25"], 1),
        ("00000000000000000020.timeindex", TIME_INDEX, ["--limit", "1"], 1),
        ("00000000000000000020.txnindex", TRANSACTION_INDEX, ["--offset", "26", "--limit", "5"], 1),
        ("leader-epoch-checkpoint", b"0\n2\n0 0\n1 5\n", ["--limit", "1"], 1),
        ("00000000000000000030.snapshot", SNAPSHOT, ["--limit", "0"], 0),
    ],
)
def test_offset_and_limit_choose_entries(
    tmp_path: Path, name: str, content: bytes, options: list[str], entries: int
) -> None:
    path = tmp_path / name
    path.write_bytes(content)

    assert [line["type"] for line in lines(run(path, "--json", *options))].count("entry") == entries


def test_a_preallocated_index_is_named(tmp_path: Path) -> None:
    path = tmp_path / "00000000000000000020.index"
    path.write_bytes(OFFSET_INDEX + bytes(80))

    result = run(path)

    assert result.exit_code == 0
    assert (
        result.stdout.splitlines()[-1]
        == "byte 16: 80 zero bytes to the end of the file: space that was preallocated, no damage"
    )
