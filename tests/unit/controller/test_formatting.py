"""What `format` leaves in a directory."""

from __future__ import annotations

from random import Random

import pytest

from tidelog.controller.features import BOOTSTRAP_LEVELS
from tidelog.controller.formatting import (
    FormatError,
    bootstrap_records,
    check_identity,
    format_directories,
    new_cluster_id,
    read_bootstrap,
    refuse_lost_identity,
)
from tidelog.controller.snapshot_file import read_snapshot
from tidelog.model.clock import SystemClock
from tidelog.model.ids import DirectoryId, NodeId, uuid_from_text, uuid_to_text
from tidelog.raft.control_records import KRaftVersion, Voters
from tidelog.raft.voter_set import Endpoint, ReplicaKey, Voter, VoterSet
from tidelog.simulation.disk import SimulatedCrash, SimulatedDisk
from tidelog.storage.meta_properties import MetaProperties, read_meta_properties, write_meta_properties
from tidelog.wire.messages.internal.cluster_metadata import FeatureLevelRecord

CLUSTER = "MkU3OEVBNTcwNTJENDM2Qg"
ENDPOINTS = (Endpoint("CONTROLLER", "127.0.0.1", 9093),)
FIRST_VOTERS = "__cluster_metadata-0/00000000000000000000-0000000000.checkpoint"


def formatted(disk: SimulatedDisk, *directories: str, cluster: str = CLUSTER, node: int = 1) -> list[MetaProperties]:
    return format_directories(
        disk,
        directories,
        cluster_id=cluster,
        node_id=NodeId(node),
        controller_endpoints=ENDPOINTS,
        random=Random(4),
        clock=SystemClock(),
    )


def test_every_directory_gets_an_identity_of_its_own_and_the_first_one_the_voters() -> None:
    disk = SimulatedDisk()

    first, second = formatted(disk, "/a", "/b")

    assert first.directory_id != second.directory_id
    assert [read_meta_properties(disk, path) for path in ("/a", "/b")] == [first, second]
    assert disk.list_directory("/a") == ["__cluster_metadata-0", "bootstrap.checkpoint", "meta.properties"]
    assert disk.list_directory("/b") == ["bootstrap.checkpoint", "meta.properties"]
    assert disk.list_directory("/a/__cluster_metadata-0") == [FIRST_VOTERS.rpartition("/")[2]]


def test_the_files_have_the_size_that_kafka_gives_them() -> None:
    """As Apache Kafka 4.3.1 formats the same node: 411 and 241 bytes. The content is compared in tests/compat."""
    disk = SimulatedDisk()

    formatted(disk, "/a")

    assert disk.size_of("/a/bootstrap.checkpoint") == 411
    assert disk.size_of(f"/a/{FIRST_VOTERS}") == 241


def test_the_node_is_the_only_voter_and_listens_where_it_says() -> None:
    disk = SimulatedDisk()

    [identity] = formatted(disk, "/a")

    voters = VoterSet([Voter(ReplicaKey(NodeId(1), identity.directory_id), ENDPOINTS)])
    snapshot = read_snapshot(disk, f"/a/{FIRST_VOTERS}")
    assert snapshot.head.control == (KRaftVersion(1), Voters(voters))
    assert snapshot.records == ()


def test_the_bootstrap_records_are_the_levels_of_a_new_cluster() -> None:
    disk = SimulatedDisk()

    formatted(disk, "/a")

    records = read_bootstrap(disk, "/a")
    assert records == bootstrap_records()
    levels = [record.message for record in records]
    assert [level.name for level in levels if isinstance(level, FeatureLevelRecord)] == list(BOOTSTRAP_LEVELS)


def test_without_the_file_a_cluster_begins_with_the_same_levels() -> None:
    assert read_bootstrap(SimulatedDisk(), "/nowhere") == bootstrap_records()


def test_a_formatted_directory_is_left_as_it_is() -> None:
    disk = SimulatedDisk()
    before = formatted(disk, "/a", "/b")
    disk.remove(f"/a/{FIRST_VOTERS}")

    after = formatted(disk, "/a", "/b", "/c")

    assert after[:2] == before
    assert disk.list_directory("/a/__cluster_metadata-0") == []
    assert read_meta_properties(disk, "/c") == after[2]


def test_a_directory_from_before_directories_had_ids_gets_one() -> None:
    disk = SimulatedDisk()
    formatted(disk, "/a")
    write_meta_properties(disk, "/a", MetaProperties(CLUSTER, NodeId(1)))

    [identity] = formatted(disk, "/a")

    assert identity.directory_id is not None
    assert read_meta_properties(disk, "/a") == identity


@pytest.mark.parametrize(
    ("cluster", "node", "sentence"),
    [
        ("another", 1, "/a belongs to cluster MkU3OEVBNTcwNTJENDM2Qg, not to another: choose another directory"),
        (CLUSTER, 2, "/a belongs to node 1, not to node 2: set node.id=1, or choose another directory"),
    ],
)
def test_a_directory_of_another_is_refused_in_one_sentence(cluster: str, node: int, sentence: str) -> None:
    disk = SimulatedDisk()
    formatted(disk, "/a")

    with pytest.raises(FormatError) as refused:
        formatted(disk, "/a", cluster=cluster, node=node)

    assert str(refused.value) == sentence


def test_a_damaged_identity_is_refused_and_not_overwritten() -> None:
    disk = SimulatedDisk()
    formatted(disk, "/a")
    disk.write_bytes_atomically("/a/meta.properties", b"version=1\n")

    with pytest.raises(FormatError, match=r"cluster\.id is missing"):
        formatted(disk, "/a")

    assert disk.read_bytes("/a/meta.properties", 100) == b"version=1\n"


def test_a_second_metadata_log_is_never_begun() -> None:
    disk = SimulatedDisk()
    formatted(disk, "/a", "/b")

    with pytest.raises(FormatError, match="/a holds the metadata log of the node: name it first"):
        formatted(disk, "/c", "/a")

    assert not disk.exists("/c/meta.properties")


def test_several_voters_are_written_down_as_they_are_given() -> None:
    disk = SimulatedDisk()
    own = DirectoryId(b"\x11" * 16)
    voters = VoterSet(
        [
            Voter(ReplicaKey(NodeId(1), own), ENDPOINTS),
            Voter(ReplicaKey(NodeId(2), DirectoryId(b"\x22" * 16)), ENDPOINTS),
        ]
    )

    [identity, other] = format_directories(
        disk,
        ["/a", "/b"],
        cluster_id=CLUSTER,
        node_id=NodeId(1),
        controller_endpoints=ENDPOINTS,
        random=Random(4),
        clock=SystemClock(),
        voters=voters,
    )

    assert identity.directory_id == own != other.directory_id
    assert Voters(voters) in read_snapshot(disk, f"/a/{FIRST_VOTERS}").head.control


def test_a_crash_at_any_write_leaves_a_directory_that_can_be_formatted() -> None:
    counted = SimulatedDisk()
    formatted(counted, "/a")
    for crash_at in range(1, counted.changes + 1):
        disk = SimulatedDisk()
        disk.crash_at(crash_at)
        with pytest.raises(SimulatedCrash):
            formatted(disk, "/a")
        disk.crash(Random(crash_at))

        identity = check_identity(disk, "/a", CLUSTER, NodeId(1)) if disk.is_dir("/a") else None
        [after] = formatted(disk, "/a")

        assert identity in {None, after}
        assert read_bootstrap(disk, "/a") == bootstrap_records()
        assert read_snapshot(disk, f"/a/{FIRST_VOTERS}").head.control[0] == KRaftVersion(1)


def test_a_new_cluster_id_is_an_id() -> None:
    cluster_id = new_cluster_id(Random(3))

    assert uuid_to_text(uuid_from_text(cluster_id)) == cluster_id


@pytest.mark.parametrize(
    "left",
    [
        "/a/orders-0",
        "/a/__cluster_metadata-0/00000000000000000000.log",
        "/a/orders-0.5f7b0c1e2d3a4b5c8d9e0f1a2b3c4d5e-stray",
    ],
)
def test_logs_without_an_identity_are_not_given_a_new_one(left: str) -> None:
    disk = SimulatedDisk()
    disk.make_directory("/a")
    disk.make_directory(left if left.count("/") == 2 else left.rpartition("/")[0])
    if left.endswith(".log"):
        disk.open(left, create=True).close()

    with pytest.raises(FormatError, match=r"/a holds logs, and its meta\.properties is missing: put the file back"):
        refuse_lost_identity(disk, "/a")


def test_what_a_broken_off_format_leaves_is_not_taken_for_logs() -> None:
    disk = SimulatedDisk()
    formatted(disk, "/a")
    disk.remove("/a/meta.properties")

    refuse_lost_identity(disk, "/a")
    refuse_lost_identity(disk, "/none")
