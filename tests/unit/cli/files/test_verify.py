"""`tidelog verify`: findings on one screen, a summary, and an exit code."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import Result

from tests.support.command_line import tidelog
from tests.support.data_directory import FIRST, LAST, DataDirectory, log_file
from tidelog.cli.files.verify import FINDINGS_SHOWN_MAX
from tidelog.storage.os_files import OsFiles


def run(*arguments: str | Path) -> Result:
    return tidelog("verify", *arguments)


@pytest.fixture
def directory(tmp_path: Path) -> DataDirectory:
    written = DataDirectory(OsFiles(), str(tmp_path / "data"))
    written.write()
    return written


def size_of_logs(directory: DataDirectory) -> int:
    return sum(path.stat().st_size for path in Path(directory.path).glob("*/*.log"))


def test_a_whole_directory_is_one_line(directory: DataDirectory) -> None:
    result = run(directory.path)

    assert result.exit_code == 0
    assert result.stdout == (
        f"checked 2 partitions, 6 segments, 32 batches, {size_of_logs(directory)} bytes: 0 errors, 0 warnings, 0 notes\n"
    )


def test_findings_come_worst_first_with_their_place(directory: DataDirectory) -> None:
    directory.write_file("notes.txt", b"")
    directory.remove("orders-1/partition.metadata")
    directory.truncate(log_file(FIRST, ".index"), 13)

    result = run(directory.path)

    assert result.exit_code == 1
    assert result.stdout.splitlines() == [
        f"error: {log_file(FIRST, '.index')}, byte 8: 5 bytes are left at the end, and an entry takes 8",
        "warning: orders-1/partition.metadata: the file is missing: Kafka takes the partition for a stray one and sets it aside",
        "note: notes.txt: it is none of Kafka's",
        f"checked 2 partitions, 6 segments, 32 batches, {size_of_logs(directory)} bytes: 1 error, 1 warning, 1 note",
    ]


def test_what_does_not_fit_on_a_screen_is_counted(directory: DataDirectory) -> None:
    for number in range(100):
        OsFiles().make_directory(f"{directory.path}/bills-{number}")
        directory.write_file(f"bills-{number}/partition.metadata", b"no version")

    result, listed = run(directory.path), run(directory.path, "--json")

    shown = result.stdout.splitlines()
    assert len(shown) == FINDINGS_SHOWN_MAX + 2
    assert {line.partition(":")[0] for line in shown[:FINDINGS_SHOWN_MAX]} == {"error"}
    found = json.loads(listed.stdout.splitlines()[-1])
    assert found["errors"] == 100
    assert shown[-2].startswith(f"and {100 - FINDINGS_SHOWN_MAX} errors, ")
    assert shown[-2].endswith(" more; --json lists all")
    assert len(listed.stdout.splitlines()) == sum(found[kind] for kind in ("errors", "warnings", "notes")) + 1


def test_warnings_alone_are_a_success(directory: DataDirectory) -> None:
    directory.remove("orders-1/partition.metadata")

    assert run(directory.path).exit_code == 0


def test_json_has_one_object_a_line(directory: DataDirectory) -> None:
    directory.truncate(log_file(LAST, ".index"), 13)

    result = run(directory.path, "--json")

    assert result.exit_code == 1
    assert [json.loads(line) for line in result.stdout.splitlines()] == [
        {
            "type": "finding",
            "severity": "error",
            "path": log_file(LAST, ".index"),
            "position": 8,
            "sentence": "5 bytes are left at the end, and an entry takes 8",
        },
        {
            "type": "summary",
            "partitions": 2,
            "segments": 6,
            "batches": 32,
            "bytes": size_of_logs(directory),
            "errors": 1,
            "warnings": 0,
            "notes": 0,
        },
    ]


def test_one_partition_is_named_by_its_directory(directory: DataDirectory) -> None:
    result = run(f"{directory.path}/orders-1")

    assert result.exit_code == 0
    assert result.stdout.startswith("checked 1 partition, 3 segments, 16 batches, ")


def test_records_are_decoded_on_request(directory: DataDirectory) -> None:
    directory.put(log_file(FIRST), 61, b"\x7f")
    directory.reseal(log_file(FIRST), 0)

    assert run(directory.path).exit_code == 0
    assert run(directory.path, "--records").exit_code == 1


def test_a_directory_that_is_none_is_refused(tmp_path: Path) -> None:
    result = run(tmp_path / "gone")

    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == f"tidelog verify: {tmp_path}/gone does not exist\n"


def test_a_wrong_option_is_refused(directory: DataDirectory) -> None:
    result = run(directory.path, "--fix")

    assert result.exit_code == 2
    assert "No such option: --fix" in result.stderr
