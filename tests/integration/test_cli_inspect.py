"""`tidelog dump-log` and `tidelog verify` as processes, on the directories that Apache Kafka wrote."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.support.command_line import json_lines, tidelog
from tests.support.command_process import DEADLINE_S, CommandProcess
from tests.support.kafka_fixtures import KafkaFixture
from tidelog import Admin, Consumer, Producer
from tidelog.client.admin import NewTopic, value_of
from tidelog.storage.os_files import OsFiles
from tidelog.storage.verification.directory_check import verify
from tidelog.storage.verification.findings import Severity
from tidelog.wire.records import Record, build_batch

TIDELOG = [sys.executable, "-c", "from tidelog.cli.main import main; main()"]

# Files in which every bit is checked against something else.
CHECKED_SUFFIXES = (".log", ".index", ".timeindex", ".snapshot", ".txnindex", ".checkpoint")


def run(*arguments: str | Path, **options: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*TIDELOG, *map(str, arguments)], capture_output=True, text=True, check=False, timeout=120, **options
    )


def files_of(fixture: KafkaFixture) -> list[Path]:
    """Everything but the lock, which is empty."""
    return sorted(path for path in fixture.data.rglob("*") if path.is_file() and path.name != ".lock")


# verify


@pytest.mark.parametrize("options", [[], ["--records"]])
def test_verify_finds_no_fault_with_apache_kafka(kafka_fixture: KafkaFixture, options: list[str]) -> None:
    result = run("verify", kafka_fixture.data, "--json", *options)

    found = [json.loads(line) for line in result.stdout.splitlines()]

    assert (result.returncode, result.stderr) == (0, "")
    assert [line["sentence"] for line in found[:-1] if line["severity"] != "note"] == []
    assert found[-1]["partitions"] == len([path for path in kafka_fixture.data.iterdir() if _is_checked(path)])
    assert found[-1]["batches"] > 300


def _is_checked(path: Path) -> bool:
    return path.is_dir() and not path.name.endswith("-delete")


def test_verify_finds_no_fault_with_a_partition_by_itself(kafka_fixture: KafkaFixture) -> None:
    for partition in filter(_is_checked, kafka_fixture.data.iterdir()):
        report = verify(OsFiles(), str(partition), decodes_records=True)
        assert [finding for finding in report.findings if finding.severity is not Severity.NOTE] == [], partition


def test_verify_changes_nothing(kafka_fixture: KafkaFixture, tmp_path: Path) -> None:
    copy = kafka_fixture.copy(tmp_path)
    for path in [copy, *copy.rglob("*")]:
        path.chmod(0o500 if path.is_dir() else 0o400)
    before = {path: (path.stat().st_mtime_ns, path.stat().st_size) for path in copy.rglob("*")}

    assert run("verify", copy, "--records").returncode == 0

    assert {path: (path.stat().st_mtime_ns, path.stat().st_size) for path in copy.rglob("*")} == before
    for path in [copy, *copy.rglob("*")]:
        path.chmod(0o700)


def test_verify_finds_any_flipped_bit_that_something_depends_on(clean_kafka: KafkaFixture, tmp_path: Path) -> None:
    copy = clean_kafka.copy(tmp_path)
    random = Random(11)
    overlooked = []
    for path in sorted(
        path for path in copy.glob("*/*") if path.suffix in CHECKED_SUFFIXES and _is_checked(path.parent)
    ):
        content = path.read_bytes()
        for _ in range(2 if content else 0):
            position = random.randrange(len(content))
            damaged = bytearray(content)
            # The high bit: a low one may turn an entry of an index into another one that is right as well.
            damaged[position] ^= 0x80
            path.write_bytes(damaged)
            report = verify(OsFiles(), str(path.parent))
            if not report.count(Severity.ERROR) + report.count(Severity.WARNING):
                overlooked.append((path.name, position))
        path.write_bytes(content)

    assert overlooked == []


def test_verify_finds_any_cut(clean_kafka: KafkaFixture, tmp_path: Path) -> None:
    copy = clean_kafka.copy(tmp_path)
    overlooked = []
    for path in sorted(
        path for path in copy.glob("*/*") if path.suffix in CHECKED_SUFFIXES and _is_checked(path.parent)
    ):
        content = path.read_bytes()
        if content:
            path.write_bytes(content[:-1])
            if not verify(OsFiles(), str(path.parent)).count(Severity.ERROR):
                overlooked.append(path.name)
            path.write_bytes(content)

    assert overlooked == []


def test_verify_survives_garbage_in_every_file(killed_kafka: KafkaFixture, tmp_path: Path) -> None:
    copy = killed_kafka.copy(tmp_path)
    random = Random(12)
    for path in sorted(path for path in copy.rglob("*") if path.is_file() and path.name != ".lock"):
        content = path.read_bytes()
        for garbage in (b"", random.randbytes(300), b"\xff" * 300, content[: len(content) // 2] + random.randbytes(50)):
            path.write_bytes(garbage)
            verify(OsFiles(), str(copy if path.parent == copy else path.parent), decodes_records=True)
        path.write_bytes(content)


def write_of_all_kinds(bootstrap: str) -> None:
    """A topic that is written to, one that is compacted, one that is not used, a group and transactions."""
    admin = Admin(bootstrap_servers=bootstrap)
    topics = [
        NewTopic("orders", 3),
        NewTopic("latest", 1, configs={"cleanup.policy": "compact"}),
        NewTopic("unused", 2),
    ]
    with admin, Producer(bootstrap_servers=bootstrap, transactional_id="any") as producer:
        for each in admin.create_topics(topics).values():
            value_of(each)
        for number in range(3):
            with producer.transaction():
                producer.send("orders", b"v" * 1000, key=b"%d" % number)
                producer.send("latest", b"v", key=b"k")
    with Consumer("orders", bootstrap_servers=bootstrap, group_id="any", auto_offset_reset="earliest") as consumer:
        assert consumer.poll(timeout_ms=DEADLINE_S * 1000)
        consumer.commit()


def assert_no_findings(path: Path, options: list[str] | None = None) -> int:
    """How many partitions were checked."""
    result = tidelog("verify", path, "--json", *(options or []))
    *findings, summary = json_lines(result)
    # A checkpoint that is just being written has a name that is none of Kafka's.
    worse = [each for each in findings if each["severity"] != "note"]
    assert (result.exit_code, result.stderr, worse) == (0, "", []), path
    return int(summary["partitions"])


def test_verify_finds_no_fault_with_a_healthy_node_that_runs_or_has_stopped(tmp_path: Path) -> None:
    node = tmp_path / "node-1"
    levels = [tmp_path, node, node / "data"]
    counts: list[int] = []
    few = ["--set", "offsets.topic.num.partitions=3", "--set", "transaction.state.log.num.partitions=3"]
    # The second life has another leader epoch, which no checkpoint knows before the logs are forced to disk.
    for _ in range(2):
        with CommandProcess("up", "--port", "0", "--dir", tmp_path, *few) as up:
            ready = up.ready_line()
            if not counts:
                write_of_all_kinds(ready.split()[1])
            with Producer(bootstrap_servers=ready.split()[1]) as producer:
                producer.send("orders", b"another").result()
            counts += [assert_no_findings(path) for path in levels]
            shown = tidelog("dump-log", tmp_path, "--json")
            up.send(signal.SIGTERM)
            assert up.end()[0] == 0
        counts += [assert_no_findings(path, ["--records"]) for path in levels]
        assert f"data in {tmp_path}," in ready
        assert (shown.exit_code, shown.stderr) == (0, "")
        assert any(line["type"] == "record" for line in json_lines(shown))

    assert min(counts) == max(counts) > 6 + 1


# dump-log


def test_dump_log_reads_every_file_that_apache_kafka_wrote(kafka_fixture: KafkaFixture) -> None:
    result = run("dump-log", "--json", *files_of(kafka_fixture))

    found = [json.loads(line) for line in result.stdout.splitlines()]

    assert (result.returncode, result.stderr) == (0, "")
    assert [line["path"] for line in found if line["type"] == "file"] == list(map(str, files_of(kafka_fixture)))
    assert [line for line in found if "not_decoded" in line] == []


def test_dump_log_agrees_with_apache_kafka_on_every_batch_and_record(kafka_fixture: KafkaFixture) -> None:
    for name, expected in kafka_fixture.expected["batches"].items():
        found = json_lines(tidelog("dump-log", "--json", kafka_fixture.data / name))
        assert [
            (
                line["position"],
                line["base_offset"],
                line["last_offset"],
                line["codec"],
                line["crc"],
                line["producer_id"],
            )
            for line in found
            if line["type"] == "batch"
        ] == [
            (
                each["position"],
                each["base_offset"],
                each["last_offset"],
                each["codec"],
                each["crc"],
                each["producer_id"],
            )
            for each in expected
        ], name
        assert [(line["offset"], line["timestamp"]) for line in found if line["type"] == "record"] == [
            (record["offset"], record["timestamp"]) for each in expected for record in each["records"]
        ], name


def test_dump_log_is_not_stopped_by_a_reader_that_leaves(kafka_fixture: KafkaFixture) -> None:
    command = subprocess.Popen(
        [*TIDELOG, "dump-log", *map(str, files_of(kafka_fixture))], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert command.stdout is not None
    assert command.stderr is not None
    assert command.stdout.readline()
    command.stdout.close()

    assert command.stderr.read() == b""
    command.stderr.close()
    assert command.wait(60) == 0


def test_dump_log_prints_names_that_are_no_utf_8(tmp_path: Path) -> None:
    path = tmp_path / os.fsdecode(b"\xff-0") / "00000000000000000000.log"
    path.parent.mkdir()
    path.write_bytes(build_batch([Record(0, 0, None, "ß".encode())]))

    for encoding in ("utf-8", "ascii"):
        result = subprocess.run(
            [*TIDELOG, "dump-log", path],
            capture_output=True,
            check=False,
            env={**os.environ, "PYTHONIOENCODING": encoding},
        )
        assert (result.returncode, result.stderr) == (0, b"")
        assert b"1 record" in result.stdout


def test_dump_log_of_a_large_file_takes_little_memory(tmp_path: Path) -> None:
    path = tmp_path / "00000000000000000000.log"
    batch = build_batch([Record(0, 0, None, bytes(1000))])
    path.write_bytes(batch)
    # A hole of 1 GB, and the process may have less than that.
    os.truncate(path, 1 << 30)
    limited = "import resource; resource.setrlimit(resource.RLIMIT_AS, (800 << 20, 800 << 20)); "

    result = subprocess.run(
        [sys.executable, "-c", limited + TIDELOG[-1], "dump-log", "--batches", str(path)],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )

    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.splitlines()[-1].startswith(f"byte {len(batch)}: {(1 << 30) - len(batch)} zero bytes")


def test_help_is_quick_because_commands_import_what_they_use() -> None:
    code = (
        "import sys; from typer.testing import CliRunner; from tidelog.cli.commands import all_commands; "
        "assert CliRunner().invoke(all_commands(), ['--help']).exit_code == 0; "
        "print([name for name in sys.modules if name.startswith('tidelog.') and not name.startswith('tidelog.cli')])"
    )

    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == (
        "['tidelog.kernel_choice']\n"
    )


def test_a_node_starts_without_what_it_does_not_use() -> None:
    # The configuration is wrong, which is found once all is imported.
    code = (
        "import atexit, sys; from tidelog.cli.main import main; "
        "unused = ('typer', 'click', 'rich', 'argparse', 'email', 'importlib.metadata', 'difflib', 'shutil', 'pyarrow', 'numpy', "
        "'tidelog.client', 'tidelog.console', 'tidelog.simulation', 'tidelog.spark', 'tidelog.testing', 'tidelog.cli.commands'); "
        "atexit.register(lambda: print([name for name in unused if name in sys.modules])); "
        "sys.argv[1:] = ['broker', '--set', 'listeners=PLAINTEXT://:nine']; main()"
    )

    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)

    assert (ended.returncode, ended.stdout) == (2, "[]\n"), ended.stderr


def test_a_cluster_starts_its_node_before_it_imports_anything_else() -> None:
    code = (
        "import subprocess, sys\n"
        "class Spawned(subprocess.Popen):\n"
        "    def __init__(self, *_, **__):\n"
        "        print(sorted(name for name in sys.modules if name.partition('.')[0] in ('tidelog', 'typer', 'msgspec')))\n"
        "        sys.exit(0)\n"
        "subprocess.Popen = Spawned\n"
        "sys.argv[1:] = ['up', '--port', '0']\n"
        "from tidelog.cli.main import main; main()"
    )

    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    names = ["", ".interrupts", ".main", ".node", ".node.broker_options", ".node.node_process", ".node.up_options"]
    expected = ["tidelog", *(f"tidelog.cli{name}" for name in names), "tidelog.kernel_choice"]
    assert ended.stdout == f"{expected}\n"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has a device that is always full")
def test_a_full_disk_behind_the_output_is_a_sentence(kafka_fixture: KafkaFixture) -> None:
    log = next(path for path in files_of(kafka_fixture) if path.suffix == ".log" and path.stat().st_size)

    for command in (("dump-log", log), ("verify", kafka_fixture.data)):
        with Path("/dev/full").open("w") as full:
            result = subprocess.run(
                [*TIDELOG, *map(str, command)], stdout=full, stderr=subprocess.PIPE, text=True, check=False, timeout=120
            )

        assert result.returncode == 1
        assert result.stderr == "tidelog: the output is not complete: where it is written to, the disk is full\n"
