"""`verify` finds what is wrong with a data directory, and says it in one sentence."""

from __future__ import annotations

import errno

import pytest

from tests.support.data_directory import (
    END,
    FIRST,
    LAST,
    SECOND,
    TOPIC_ID,
    DataDirectory,
    error,
    log_file,
    warning,
)
from tidelog.model.ids import uuid_to_text
from tidelog.simulation.disk import SimulatedDisk
from tidelog.storage.verification.data_directories import NotADataDirectoryError
from tidelog.storage.verification.directory_check import DataDirectoryCheck, verify
from tidelog.storage.verification.findings import Finding, Severity

# What is right


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("decodes_records", [True, False])
def test_what_we_write_has_no_findings(clean: bool, decodes_records: bool) -> None:
    directory = DataDirectory(SimulatedDisk())
    directory.write(clean=clean)

    report = directory.report(decodes_records=decodes_records)

    assert report.findings == []
    logs = [log_file(base_offset, partition=partition) for base_offset in (FIRST, SECOND, LAST) for partition in (0, 1)]
    assert (report.partitions, report.segments) == (2, 6)
    assert report.batches == sum(len(directory.batches(name)) for name in logs)
    assert report.bytes_checked == sum(len(directory.read(name)) for name in logs)


def test_one_partition_can_be_checked_alone(stopped: DataDirectory) -> None:
    stopped.flip(log_file(FIRST, partition=1), 70)

    assert stopped.report("orders-0").findings == []
    assert stopped.report("orders-0/").partitions == 1
    assert [finding.path for finding in stopped.findings("orders-1")] == ["00000000000000000000.log"]


def cluster(disk: SimulatedDisk) -> DataDirectory:
    """What `tidelog up` makes of two nodes, the second with a damaged log."""
    for node in (1, 2):
        DataDirectory(disk, f"/cluster/node-{node}/data").write()
    second = DataDirectory(disk, "/cluster/node-2/data")
    second.flip(log_file(FIRST), 70)
    disk.open("/cluster/node-1.log", create=True).close()
    return DataDirectory(disk, "/cluster")


@pytest.mark.parametrize(
    ("path", "partitions", "damaged"),
    [
        (None, 4, ["node-2/data/orders-0/00000000000000000000.log"]),
        ("", 4, ["node-2/data/orders-0/00000000000000000000.log"]),
        ("node-1", 2, []),
        ("node-2", 2, ["data/orders-0/00000000000000000000.log"]),
        ("node-2/data", 2, ["orders-0/00000000000000000000.log"]),
        ("node-2/data/meta.properties", 2, ["orders-0/00000000000000000000.log"]),
        ("node-2/data/orders-0", 1, ["00000000000000000000.log"]),
        ("node-2/data/orders-0/00000000000000000012.index", 1, ["00000000000000000000.log"]),
    ],
)
def test_any_directory_from_that_of_the_cluster_down_can_be_checked(
    path: str | None, partitions: int, damaged: list[str]
) -> None:
    directory = cluster(SimulatedDisk())

    report = directory.report(path)

    assert report.partitions == partitions
    assert [finding.path for finding in report.findings] == damaged


def test_a_directory_that_cannot_be_read_on_the_way_holds_nothing() -> None:
    disk = SimulatedDisk()
    directory = cluster(disk)
    disk.fail("list_directory", "/cluster/node-2", errno.EACCES)

    assert directory.report().findings == []


@pytest.mark.parametrize("path", [None, "orders-0"])
@pytest.mark.parametrize("in_use", [True, False])
def test_what_is_gone_at_the_next_look_is_no_finding_while_a_node_runs(
    killed: DataDirectory, path: str | None, in_use: bool
) -> None:
    disk = killed.files
    assert isinstance(disk, SimulatedDisk)
    if in_use:
        disk.lock("/data/.lock")
    disk.fail("open", f"/data/{log_file(FIRST, '.index')}", errno.EIO, times=1)

    assert bool(killed.findings(path)) == (not in_use)
    assert killed.findings(path) == []


def test_what_stays_is_a_finding_of_a_running_node_too(killed: DataDirectory) -> None:
    killed.files.lock("/data/.lock")
    whole = killed.report()
    killed.flip(log_file(FIRST), 70)

    report = killed.report()

    assert [(each.severity, each.path) for each in report.findings] == [(Severity.ERROR, log_file(FIRST))]
    assert (report.partitions, report.segments) == (whole.partitions, whole.segments)


@pytest.mark.parametrize("suffix", [".cleaned", ".swap"])
def test_a_compaction_that_is_under_way_is_no_warning(killed: DataDirectory, suffix: str) -> None:
    name = log_file(FIRST, f".log{suffix}")
    killed.write_file(name, b"")
    left = [each.severity for each in killed.report().findings]
    killed.files.lock("/data/.lock")

    assert left == [Severity.WARNING]
    assert killed.report().findings == [Finding(Severity.NOTE, name, None, "of a compaction that is under way")]


def test_a_partition_that_came_after_the_listing_is_not_missed(killed: DataDirectory) -> None:
    disk = killed.files
    assert isinstance(disk, SimulatedDisk)
    killed.write_file("replication-offset-checkpoint", b"0\n1\nnew 0 0\n")
    disk.lock("/data/.lock")
    check = DataDirectoryCheck(disk, "/data", disk.list_directory("/data"), decodes_records=False)
    disk.make_directory("/data/new-0")

    assert check.run().findings == []


def test_nothing_is_written(stopped: DataDirectory) -> None:
    stopped.flip(log_file(LAST), 70)
    disk = stopped.files
    assert isinstance(disk, SimulatedDisk)
    before = {name: stopped.read(f"orders-0/{name}") for name in disk.list_directory("/data/orders-0")}
    changes = disk.changes

    stopped.report(decodes_records=True)

    assert disk.changes == changes
    assert {name: stopped.read(f"orders-0/{name}") for name in disk.list_directory("/data/orders-0")} == before


@pytest.mark.parametrize(
    ("path", "sentence"),
    [
        ("/nowhere", "/nowhere does not exist"),
        ("/other/notes", "/other/notes is no file of a data directory"),
        (
            "/other",
            "/other holds no data directory: meta.properties or partitions are neither in it nor up to 2 directories below",
        ),
    ],
)
def test_where_there_is_nothing_to_check_it_says_so(stopped: DataDirectory, path: str, sentence: str) -> None:
    stopped.files.make_directory("/other/not-1")
    stopped.files.open("/other/notes", create=True).close()

    with pytest.raises(NotADataDirectoryError) as raised:
        verify(stopped.files, path)

    assert str(raised.value) == sentence


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        (
            "orders-0/leader-epoch-checkpoint",
            "the file is missing: leader and followers cannot tell where their logs part",
        ),
        (
            "orders-0/partition.metadata",
            "the file is missing: Kafka takes the partition for a stray one and sets it aside",
        ),
        ("meta.properties", "the file is missing: no node knows the directory as its own"),
    ],
)
def test_a_missing_file_is_a_warning(stopped: DataDirectory, name: str, sentence: str) -> None:
    stopped.remove(name)

    assert stopped.findings() == [warning(name, None, sentence)]


def test_two_ids_for_one_topic_are_an_error(stopped: DataDirectory) -> None:
    other = bytes(reversed(TOPIC_ID))
    stopped.write_file("orders-1/partition.metadata", f"version: 0\ntopic_id: {uuid_to_text(other)}".encode())

    assert stopped.findings() == [
        error(
            "orders-1/partition.metadata",
            None,
            f"it says topic id {uuid_to_text(other)}, and orders-0 says {uuid_to_text(TOPIC_ID)}",
        )
    ]


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("meta.properties", b"version=1\n", "cluster.id is missing"),
        ("orders-0/partition.metadata", b"version: 0\n", "line 2 is ''; expected topic_id: ..."),
        ("recovery-point-offset-checkpoint", b"0\n1\norders zero 5\n", "the line 'zero' is malformed"),
        ("recovery-point-offset-checkpoint", b"0\n1\norders 0 -5\n", "it gives orders-0 the impossible offset -5"),
        ("log-start-offset-checkpoint", b"7\n0\n", "it has version 7; only version 0 is known"),
    ],
)
def test_a_damaged_small_file_is_an_error(stopped: DataDirectory, name: str, content: bytes, sentence: str) -> None:
    stopped.write_file(name, content)

    assert stopped.findings() == [error(name, None, sentence)]


@pytest.mark.parametrize(
    ("name", "severity"),
    [
        ("recovery-point-offset-checkpoint", Severity.ERROR),
        ("log-start-offset-checkpoint", Severity.ERROR),
        ("replication-offset-checkpoint", Severity.ERROR),
        ("cleaner-offset-checkpoint", Severity.ERROR),
    ],
)
def test_an_offset_beyond_the_log_is_found(stopped: DataDirectory, name: str, severity: Severity) -> None:
    stopped.write_file(name, b"0\n1\norders 0 38\n")

    assert Finding(severity, "orders-0", None, f"the {name} says 38, and the log ends at {END}") in stopped.findings()


def test_a_checkpoint_of_a_partition_that_is_not_there_is_a_warning(stopped: DataDirectory) -> None:
    stopped.write_file("cleaner-offset-checkpoint", b"0\n2\ngone 0 3\ngone 1 3\n")

    assert stopped.findings() == [
        warning("cleaner-offset-checkpoint", None, "it names gone-0 (and 1 more), and there is no such partition here")
    ]


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"{", "it is not JSON: the controller will take the stop as unclean"),
        (b'{"version":0}', "it names no broker epoch: the controller will take the stop as unclean"),
        (b"[" * 3000, "it is not JSON: the controller will take the stop as unclean"),
    ],
)
def test_a_mark_that_proves_nothing_is_a_warning(stopped: DataDirectory, content: bytes, sentence: str) -> None:
    stopped.write_file(".kafka_cleanshutdown", content)

    assert stopped.findings() == [warning(".kafka_cleanshutdown", None, sentence)]


# What does not belong


def test_what_is_left_behind_is_named(stopped: DataDirectory) -> None:
    for name in ("00000000000000000000.log.deleted", "00000000000000000000.index.deleted", "readme.txt"):
        stopped.write_file(f"orders-0/{name}", b"")
    stopped.write_file("orders-1/00000000000000000012.log.swap", b"")
    stopped.write_file("orders-1/00000000000000000012.log.cleaned", b"")
    stopped.write_file("orders-1/00000000000000000099.index", b"")
    stopped.write_file("notes.txt", b"")
    stopped.files.make_directory("/data/orders-2.0123456789abcdef0123456789abcdef-delete")
    stopped.files.make_directory("/data/orders-3.0123456789abcdef0123456789abcdef-stray")

    found = {(finding.severity, finding.path): finding.sentence for finding in stopped.report().findings}

    note, warned = Severity.NOTE, Severity.WARNING
    assert found == {
        (note, "orders-0/00000000000000000000.index.deleted"): "it waits to be deleted (and 1 more like it)",
        (note, "orders-0/readme.txt"): "it is none of Kafka's",
        (warned, "orders-1/00000000000000000012.log.swap"): (
            "left by a compaction that did not finish; the next start puts it in place"
        ),
        (warned, "orders-1/00000000000000000012.log.cleaned"): (
            "left by a compaction that did not finish; the next start removes it"
        ),
        (warned, "orders-1/00000000000000000099.index"): "an index without its log file; the next start removes it",
        (note, "notes.txt"): "it is none of Kafka's",
        (note, "orders-2.0123456789abcdef0123456789abcdef-delete"): (
            "a partition that waits to be deleted; not checked"
        ),
        (warned, "orders-3.0123456789abcdef0123456789abcdef-stray"): (
            "a partition that the cluster did not know, set aside; not checked"
        ),
    }


def test_a_partition_without_segments_is_a_warning(stopped: DataDirectory) -> None:
    stopped.files.make_directory("/data/empty-0")

    assert warning("empty-0", None, "there is no segment in the partition's directory") in stopped.findings()


def test_a_disk_that_cannot_read_is_a_finding(stopped: DataDirectory) -> None:
    disk = stopped.files
    assert isinstance(disk, SimulatedDisk)
    disk.fail("pread", f"*/{log_file(FIRST)}", 5)

    (found,) = stopped.findings()

    assert (found.severity, found.path) == (Severity.ERROR, log_file(FIRST))
    assert found.sentence == f"cannot read /data/{log_file(FIRST)}: Input/output error (EIO)"
