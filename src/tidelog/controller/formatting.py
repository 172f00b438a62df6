"""Makes a directory ready for a node: what `kafka-storage format --standalone` writes, file for file.

    meta.properties                       whose the directory is; each directory of a node has its own `directory.id`
    bootstrap.checkpoint                  the feature levels, and the users, that the first leader writes to the log
    __cluster_metadata-0/
        00000000000000000000-0000000000.checkpoint        the first voters; only in the directory of the metadata log

`meta.properties` comes last: a directory without it is not formatted, so a crash leaves one that can be formatted again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random

from tidelog.controller.features import BOOTSTRAP_LEVELS
from tidelog.controller.snapshot_file import (
    BOOTSTRAP_FILE,
    Snapshot,
    SnapshotHead,
    build_snapshot,
    read_snapshot,
    snapshot_name,
    write_snapshot,
)
from tidelog.model.clock import Clock
from tidelog.model.ids import DirectoryId, NodeId, PartitionIndex, TopicPartition, random_uuid, uuid_to_text
from tidelog.raft.control_records import ControlRecord, KRaftVersion, Voters
from tidelog.raft.log_view import BOOTSTRAP_SNAPSHOT_ID
from tidelog.raft.voter_set import Endpoints, ReplicaKey, Voter, VoterSet
from tidelog.storage.errors import DamagedFileError, StorageError
from tidelog.storage.files import Files, parent_of
from tidelog.storage.log_directory import METADATA_TOPIC
from tidelog.storage.meta_properties import MetaProperties, read_meta_properties, write_meta_properties
from tidelog.storage.partition_directory import parse_name
from tidelog.storage.segment import LOG_SUFFIX
from tidelog.wire.internal_records import FramedRecord
from tidelog.wire.messages.internal.cluster_metadata import FeatureLevelRecord

METADATA_PARTITION = TopicPartition(METADATA_TOPIC, PartitionIndex(0))

_KRAFT_VERSION = 1


class FormatError(Exception):
    """A directory that cannot be formatted, or is another's; one sentence says why and what to do."""


def new_cluster_id(random: Random) -> str:
    """An id for a new cluster."""
    return uuid_to_text(random_uuid(random))


def bootstrap_records(levels: Mapping[str, int] = BOOTSTRAP_LEVELS) -> tuple[FramedRecord, ...]:
    """The feature levels that a new cluster agrees on before anything else."""
    return tuple(FramedRecord(FeatureLevelRecord(name=name, feature_level=level), 0) for name, level in levels.items())


def format_directories(
    files: Files,
    directories: Sequence[str],
    *,
    cluster_id: str,
    node_id: NodeId,
    controller_endpoints: Endpoints,
    random: Random,
    clock: Clock,
    levels: Mapping[str, int] = BOOTSTRAP_LEVELS,
    further: Sequence[FramedRecord] = (),
    voters: VoterSet | None = None,
    is_static_quorum: bool = False,
) -> list[MetaProperties]:
    """Format those log directories of a node that are not formatted yet. The first one is that of the metadata log.

    The cluster's log begins with `levels`, and then the records of `further`, such as first users.

    The node is the only voter and listens at `controller_endpoints`, unless `voters` names others: the same set for every
    node of the cluster, in which this node has the directory id that its first directory will get. A static quorum is in the
    configuration, and none is written down.
    """
    known = [check_identity(files, directory, cluster_id, node_id) for directory in directories]
    if known[0] is None:
        for directory in directories[1:]:
            if files.is_dir(f"{directory}/{METADATA_PARTITION}"):
                # A second, empty metadata log would be another cluster under the same name.
                raise FormatError(
                    f"{directory} holds the metadata log of the node: name it first, or as metadata.log.dir"
                )
    identities = []
    for number, (directory, identity) in enumerate(zip(directories, known, strict=True)):
        if identity is not None:
            identities.append(_with_directory_id(files, directory, identity, random))
            continue
        directory_id = None if number or voters is None else _directory_of(voters, node_id)
        identities.append(
            format_directory(
                files,
                directory,
                cluster_id=cluster_id,
                node_id=node_id,
                directory_id=directory_id or DirectoryId(random_uuid(random)),
                controller_endpoints=controller_endpoints,
                voters=voters,
                with_metadata_log=number == 0 and not is_static_quorum,
                levels=levels,
                further=further,
                clock=clock,
            )
        )
    return identities


def format_directory(
    files: Files,
    directory: str,
    *,
    cluster_id: str,
    node_id: NodeId,
    directory_id: DirectoryId,
    controller_endpoints: Endpoints,
    clock: Clock,
    voters: VoterSet | None = None,
    with_metadata_log: bool = True,
    levels: Mapping[str, int] = BOOTSTRAP_LEVELS,
    further: Sequence[FramedRecord] = (),
) -> MetaProperties:
    """Format one directory, whatever it holds. Durable on return."""
    now_ms = clock.now_ms()
    _make_directory(files, directory)
    first = (*bootstrap_records(levels), *further)
    bootstrap = build_snapshot(SnapshotHead(0), first, epoch=0, timestamp_ms=now_ms)
    write_snapshot(files, f"{directory}/{BOOTSTRAP_FILE}", bootstrap)
    if with_metadata_log:
        if voters is None:
            voters = VoterSet([Voter(ReplicaKey(node_id, directory_id), controller_endpoints)])
        control: tuple[ControlRecord, ...] = (KRaftVersion(_KRAFT_VERSION), Voters(voters))
        log_directory = f"{directory}/{METADATA_PARTITION}"
        files.make_directory(log_directory)
        files.sync_directory(directory)
        write_snapshot(
            files,
            f"{log_directory}/{snapshot_name(BOOTSTRAP_SNAPSHOT_ID)}",
            build_snapshot(SnapshotHead(now_ms, control), (), epoch=0, timestamp_ms=now_ms),
        )
    identity = MetaProperties(cluster_id, node_id, directory_id)
    write_meta_properties(files, directory, identity)
    return identity


def check_identity(files: Files, directory: str, cluster_id: str | None, node_id: NodeId) -> MetaProperties | None:
    """The identity of a directory, None where it has none. `FormatError` where it belongs to another cluster or node."""
    try:
        identity = read_meta_properties(files, directory)
    except DamagedFileError as error:
        raise FormatError(f"{error}; repair the file, or choose another directory") from error
    if identity is None:
        return None
    if cluster_id is not None and identity.cluster_id != cluster_id:
        raise FormatError(
            f"{directory} belongs to cluster {identity.cluster_id}, not to {cluster_id}: choose another directory"
        )
    if identity.node_id != node_id:
        raise FormatError(
            f"{directory} belongs to node {identity.node_id}, not to node {node_id}: set node.id={identity.node_id}, "
            "or choose another directory"
        )
    return identity


def refuse_lost_identity(files: Files, directory: str) -> None:
    """FormatError where a directory without an identity holds logs: formatted on first use, they would be another cluster's.

    As in Kafka, which formats nothing by itself. What a format that was broken off leaves is no log: it is begun again.
    """
    if not files.is_dir(directory):
        return
    for name in files.list_directory(directory):
        named = parse_name(name)
        if named is None:
            continue
        if named.topic_partition != METADATA_PARTITION or any(
            each.endswith(LOG_SUFFIX) for each in files.list_directory(f"{directory}/{name}")
        ):
            raise FormatError(
                f"{directory} holds logs, and its meta.properties is missing: put the file back, or choose another directory"
            )


def read_bootstrap(files: Files, directory: str) -> tuple[FramedRecord, ...]:
    """What the first leader is to write; what a new cluster would agree on where the file is missing, as in Kafka."""
    try:
        snapshot: Snapshot = read_snapshot(files, f"{directory}/{BOOTSTRAP_FILE}")
    except StorageError as error:
        if error.is_missing:
            return bootstrap_records()
        raise
    return snapshot.records


def _make_directory(files: Files, directory: str) -> None:
    """Make a directory so that no crash takes it, with everything above that is missing."""
    if not files.is_dir(directory):
        parent = parent_of(directory)
        _make_directory(files, parent)
        files.make_directory(directory)
        files.sync_directory(parent)


def _with_directory_id(files: Files, directory: str, identity: MetaProperties, random: Random) -> MetaProperties:
    """An identity from before directories had ids gets one."""
    if identity.directory_id is None:
        identity = identity._replace(directory_id=DirectoryId(random_uuid(random)))
        write_meta_properties(files, directory, identity)
    return identity


def _directory_of(voters: VoterSet, node_id: NodeId) -> DirectoryId | None:
    voter = voters.get(node_id)
    return None if voter is None else voter.key.directory_id
