"""`tidelog dump-log`, asked for what it cannot do."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from typer.testing import Result

from tests.support.command_line import tidelog
from tests.support.log_builder import START_MS
from tidelog.wire.records import Record, build_batch

PLAIN = build_batch([Record(0, START_MS, b"k", b"v"), Record(1, START_MS, None, b"")])


def run(*arguments: str | Path) -> Result:
    return tidelog("dump-log", *arguments)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "orders-0" / "00000000000000000000.log"
    path.parent.mkdir()
    path.write_bytes(PLAIN)
    return path


def test_a_missing_file_is_said_and_the_next_one_is_shown(log: Path) -> None:
    result = run(log.parent / "gone.log", log)

    assert result.exit_code == 2
    assert result.stderr == f"tidelog dump-log: {log.parent}/gone.log does not exist\n"
    assert "batch 0..1" in result.stdout


def test_damage_counts_more_than_a_missing_file(log: Path) -> None:
    log.write_bytes(b"x")

    assert run(log.parent / "gone.log", log).exit_code == 1


@pytest.mark.parametrize("above", [0, 1, 2, 3])
def test_a_directory_stands_for_the_files_in_it(log: Path, tmp_path: Path, above: int) -> None:
    data = tmp_path / "cluster" / "node-1" / "data"
    data.mkdir(parents=True)
    partition = log.parent.rename(data / "orders-0")
    (partition / "notes.txt").write_text("hello")
    (data / "meta.properties").write_text("version=1\ncluster.id=c\nnode.id=1\n")
    (data.parent / "server.properties").write_text("node.id=1\n")

    result = run([partition, *partition.parents][above])

    shown = [line.partition(": ")[0] for line in result.stdout.splitlines() if line.startswith(str(tmp_path))]
    assert (result.exit_code, result.stderr) == (0, "")
    assert shown == [str(data / "meta.properties")] * (above > 0) + [str(partition / log.name)]


@pytest.mark.parametrize("options", [["--batches"], ["--offset", "0"], ["--decode-as", "__consumer_offsets"]])
def test_of_a_directory_only_the_files_that_an_option_is_about_are_shown(log: Path, options: list[str]) -> None:
    (log.parent / "leader-epoch-checkpoint").write_text("0\n1\n0 0\n")

    result = run(log.parent, *options)

    assert (result.exit_code, result.stderr) == (0, "")
    assert str(log) in result.stdout
    assert "leader-epoch-checkpoint" not in result.stdout


def test_a_directory_without_files_of_a_node_is_said_and_the_next_one_is_shown(log: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()

    result = run(other, log)

    assert result.exit_code == 2
    assert result.stderr == (
        f"tidelog dump-log: {other} holds no data directory: "
        "meta.properties or partitions are neither in it nor up to 2 directories below\n"
    )
    assert "batch 0..1" in result.stdout


def test_a_directory_without_the_files_that_were_asked_for_is_said(log: Path) -> None:
    (log.parent / "partition.metadata").write_text("version: 0\n")
    log.unlink()

    result = run(log.parent, "--batches")

    assert result.exit_code == 2
    assert result.stderr == (
        f"tidelog dump-log: {log.parent} holds no file to show: none of the kind that was asked for is in it\n"
    )


def test_a_file_of_no_known_kind_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("hello")

    result = run(path)

    assert result.exit_code == 2
    assert result.stderr == (
        f"tidelog dump-log: cannot dump {path}: "
        "its name is none that Kafka gives to a file in a data directory, such as 00000000000000000000.log\n"
    )


def test_an_unreadable_file_is_said(tmp_path: Path) -> None:
    path = tmp_path / "00000000000000000000.log"
    path.symlink_to(path)

    result = run(path)

    assert result.exit_code == 2
    assert result.stderr.startswith("tidelog dump-log: cannot ")
    assert "Too many levels of symbolic links (ELOOP)" in result.stderr


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "00000000000000000000.log"
    os.mkfifo(path)

    result = run(path)

    assert (result.exit_code, result.stderr) == (2, f"tidelog dump-log: cannot dump {path}: it is no regular file\n")


@pytest.mark.parametrize(
    ("name", "options", "sentence"),
    [
        (
            "leader-epoch-checkpoint",
            ["--offset", "3"],
            "--offset has no meaning for {path}: checkpoint of leader epochs",
        ),
        ("00000000000000000000.index", ["--batches"], "--batches has no meaning for {path}: offset index"),
        (
            "00000000000000000000.log",
            ["--decode-as", "orders"],
            (
                "--decode-as takes one of __cluster_metadata, __remote_log_metadata, __consumer_offsets, __transaction_state, "
                "__share_group_state, and orders is none of them"
            ),
        ),
        (
            "00000000000000000000.log",
            ["--batches", "--decode-as", "__consumer_offsets"],
            "--decode-as is about records and --batches leaves them out: use one of the two",
        ),
    ],
)
def test_an_option_without_meaning_is_refused(tmp_path: Path, name: str, options: list[str], sentence: str) -> None:
    path = tmp_path / name
    path.write_bytes(b"")

    result = run(path, *options)

    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == f"tidelog dump-log: {sentence.format(path=path)}\n"


@pytest.mark.parametrize(
    "options", [[], ["--nonsense", "x.log"], ["--limit", "-1", "x.log"], ["--offset", "x", "x.log"]]
)
def test_a_wrong_command_line_is_refused(options: list[str]) -> None:
    result = run(*options)

    assert result.exit_code == 2
    assert "Error: " in result.stderr
