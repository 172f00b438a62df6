"""Makes the directories of nodes that share a machine ready to be one cluster.

Apart from their configuration, because only the first start needs it.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from tidelog.broker.node.local_cluster import CONTROLLER_LISTENER, HOST, LocalNode, server_properties_of
from tidelog.controller.formatting import (
    METADATA_PARTITION,
    FormatError,
    check_identity,
    format_directories,
    new_cluster_id,
    refuse_lost_identity,
)
from tidelog.controller.snapshot_file import read_snapshot, snapshot_name
from tidelog.model.clock import Clock
from tidelog.model.ids import DirectoryId, NodeId, random_uuid
from tidelog.raft.control_records import Voters
from tidelog.raft.log_view import BOOTSTRAP_SNAPSHOT_ID
from tidelog.raft.voter_set import Endpoint, ReplicaKey, Voter, VoterSet
from tidelog.storage.files import Files
from tidelog.wire.internal_records import FramedRecord


def format_nodes(
    nodes: Sequence[LocalNode],
    *,
    files: Files,
    clock: Clock,
    random: Random,
    first_records: Sequence[FramedRecord] = (),
    cluster_id: str | None = None,
) -> None:
    """Make the directories of several nodes ready to be one cluster. FormatError where they belong to several already, or to
    another than `cluster_id`.

    All of them vote. A node that has lost its directory comes back without a vote: what it voted for is not known any more.
    `first_records` are what the cluster's log begins with beside its feature levels.
    """
    known = [check_identity(files, node.directory, cluster_id, NodeId(node.node_id)) for node in nodes]
    for node, identity in zip(nodes, known, strict=True):
        if identity is None:
            refuse_lost_identity(files, node.directory)
    ids = list(dict.fromkeys(each.cluster_id for each in known if each is not None and each.cluster_id))
    if len(ids) > 1:
        raise FormatError(f"the nodes belong to several clusters, {' and '.join(ids)}: choose another directory")
    if not any(known):
        voters: VoterSet | None = _new_voters(nodes, random)
    elif any(files.exists(server_properties_of(node)) for node in nodes):
        voters = None
    else:
        # The first start was killed between two nodes. None has voted yet, and each knows all voters.
        voters = _first_voters(files, next(node for node, each in zip(nodes, known, strict=True) if each is not None))
    cluster_id = ids[0] if ids else cluster_id or new_cluster_id(random)
    for node in nodes:
        format_directories(
            files,
            [node.directory],
            cluster_id=cluster_id,
            node_id=NodeId(node.node_id),
            controller_endpoints=_endpoints(node),
            random=random,
            clock=clock,
            voters=voters,
            is_static_quorum=voters is None,
            further=first_records,
        )


def _new_voters(nodes: Sequence[LocalNode], random: Random) -> VoterSet:
    return VoterSet(
        Voter(ReplicaKey(NodeId(node.node_id), DirectoryId(random_uuid(random))), _endpoints(node)) for node in nodes
    )


def _first_voters(files: Files, node: LocalNode) -> VoterSet | None:
    path = f"{node.directory}/{METADATA_PARTITION}/{snapshot_name(BOOTSTRAP_SNAPSHOT_ID)}"
    if not files.exists(path):
        return None
    control = read_snapshot(files, path).head.control
    return next((record.voter_set for record in control if isinstance(record, Voters)), None)


def _endpoints(node: LocalNode) -> tuple[Endpoint, ...]:
    return (Endpoint(CONTROLLER_LISTENER, HOST, node.controller_port),)
