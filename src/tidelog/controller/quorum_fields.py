"""What the quorum's requests and responses in Kafka's words have in common: the one partition, replicas, endpoints."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

from tidelog.controller.formatting import METADATA_PARTITION
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import ZERO_UUID, DirectoryId, LeaderEpoch, NodeId, Offset
from tidelog.raft import messages as raft
from tidelog.raft.log_view import OffsetAndEpoch
from tidelog.raft.voter_set import Endpoint, Endpoints, ReplicaKey, endpoint_for
from tidelog.wire.messages import quorum as wire, raft_voters as voters_wire

TOPIC = METADATA_PARTITION.topic
PARTITION = METADATA_PARTITION.partition
NONE = -1

P = TypeVar("P")


class QuorumMessageError(Exception):
    """A message that makes no sense to a replica of the metadata log. One sentence says why."""


class _Named(Protocol):
    """A topic in a message, by its name."""

    @property
    def topic_name(self) -> str: ...

    @property
    def partitions(self) -> Sequence[Any]: ...


class _NodeEndpoint(Protocol):
    node_id: int
    host: str
    port: int


def only_partition(topics: Sequence[_Named]) -> Any:
    """The one partition that a message is about."""
    if len(topics) != 1 or topics[0].topic_name != TOPIC:
        raise QuorumMessageError(f"a message of the quorum is about {TOPIC} and nothing else")
    partitions = topics[0].partitions
    if len(partitions) != 1 or partitions[0].partition_index != PARTITION:
        raise QuorumMessageError(f"{TOPIC} has one partition")
    return partitions[0]


def directory_of(replica: ReplicaKey | None) -> bytes:
    """The id of a replica's directory, as messages have it: zero where it is not known."""
    return ZERO_UUID if replica is None or replica.directory_id is None else replica.directory_id


def replica_of(node_id: int, directory_id: bytes) -> ReplicaKey:
    """A replica as a message names it."""
    return ReplicaKey(NodeId(node_id), None if directory_id == ZERO_UUID else DirectoryId(directory_id))


def voter_of(node_id: int, directory_id: bytes) -> ReplicaKey | None:
    """Whom a request is meant for; older versions do not say."""
    return None if node_id < 0 else replica_of(node_id, directory_id)


def listeners_of(endpoints: Endpoints) -> list[voters_wire.Listener]:
    """Endpoints as a change of the voters names them."""
    return [voters_wire.Listener(name=each.listener, host=each.host, port=each.port) for each in endpoints]


def leader_endpoints_of(endpoints: Endpoints) -> list[wire.LeaderEndpoint]:
    """Endpoints as a leader names its own."""
    return [wire.LeaderEndpoint(name=each.listener, host=each.host, port=each.port) for each in endpoints]


def endpoints_of(told: Sequence[wire.LeaderEndpoint] | Sequence[voters_wire.Listener]) -> Endpoints:
    """Endpoints that a message names."""
    return tuple(Endpoint(each.name, each.host, each.port) for each in told)


def leader_id_of(response: raft.QuorumResponse) -> int:
    """The leader as messages have it: -1 where there is none."""
    return NONE if response.leader_id is None else response.leader_id


def leader_nodes(node: Callable[..., P], response: raft.QuorumResponse, listener: str, is_known: bool) -> list[P]:
    """Where the leader is reached by a listener, where that is known and the version can say so."""
    endpoint = endpoint_for(response.leader_endpoints, listener)
    if not is_known or endpoint is None or response.leader_id is None:
        return []
    return [node(node_id=response.leader_id, host=endpoint.host, port=endpoint.port)]


def leader_of(leader_id: int, nodes: Sequence[_NodeEndpoint], listener: str) -> tuple[NodeId | None, Endpoints]:
    """The leader that an answer names, and where it listens for controllers."""
    if leader_id < 0:
        return None, ()
    endpoints = tuple(Endpoint(listener, each.host, each.port) for each in nodes if each.node_id == leader_id)
    return NodeId(leader_id), endpoints


def offset_and_epoch(offset: int, epoch: int) -> OffsetAndEpoch | None:
    """A pair that is optional in a message: negative where it is not there."""
    if offset < 0 and epoch < 0:
        return None
    return OffsetAndEpoch(offset=Offset(offset), epoch=LeaderEpoch(epoch))


def payload_of(batch: raft.Batch) -> bytes:
    """The bytes of a batch that was read from the log."""
    if not isinstance(batch.payload, bytes):
        raise TypeError("batches for another replica are read from the log, as bytes")
    return batch.payload


def sentence_of(response: raft.AddVoterResponse | raft.RemoveVoterResponse) -> str | None:
    """What an administrator is told beside the error code."""
    if response.message is not None or response.error is ErrorCode.NONE:
        return response.message
    return response.error.message
