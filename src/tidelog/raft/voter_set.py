"""Who votes: replicas, where they listen, and the set of them whose majority decides.

A replica is its node id and the id of the directory that holds its log, so that a node which lost its disk is not taken for the
replica it was. Static voters (kraft.version 0) come from configuration, where directory ids are not known: such a voter
is any replica with its node id. A set is immutable; a change is a new set, and differs from the old one by one voter, which is
what keeps any two majorities overlapping.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from tidelog.model.ids import DirectoryId, NodeId


class ReplicaKey(Struct, frozen=True):
    """One replica of the log. `directory_id` is None where it is not known."""

    id: NodeId
    directory_id: DirectoryId | None = None

    def matches(self, other: ReplicaKey) -> bool:
        """Whether `other` may be the replica that this key was written down for."""
        return self.id == other.id and self.directory_id in {None, other.directory_id}


class Endpoint(Struct, frozen=True):
    """Where one listener of a replica can be reached."""

    listener: str
    host: str
    port: int


Endpoints = tuple[Endpoint, ...]


class Node(Struct, frozen=True):
    """Whom to send to. Bootstrap servers whose id is not known have ids below -1, as in Kafka."""

    id: NodeId
    host: str
    port: int


class VersionRange(Struct, frozen=True):
    """The levels of a feature that a node supports, both ends included."""

    minimum: int
    maximum: int

    def supports(self, level: int) -> bool:
        return self.minimum <= level <= self.maximum


class Voter(Struct, frozen=True):
    """A replica that votes, as a VotersRecord describes it."""

    key: ReplicaKey
    endpoints: Endpoints
    kraft_versions: VersionRange = VersionRange(0, 1)


def endpoint_for(endpoints: Endpoints, listener: str) -> Endpoint | None:
    """The endpoint of a listener, by its name."""
    return next((endpoint for endpoint in endpoints if endpoint.listener == listener), None)


class VoterSet:
    """The voters, ordered by node id: iteration must not depend on hashing."""

    __slots__ = ("_by_id",)

    def __init__(self, voters: Iterable[Voter] = ()) -> None:
        self._by_id = {voter.key.id: voter for voter in sorted(voters, key=lambda voter: voter.key.id)}

    @property
    def voters(self) -> tuple[Voter, ...]:
        return tuple(self._by_id.values())

    @property
    def ids(self) -> tuple[NodeId, ...]:
        return tuple(self._by_id)

    @property
    def keys(self) -> tuple[ReplicaKey, ...]:
        return tuple(voter.key for voter in self._by_id.values())

    def __len__(self) -> int:
        return len(self._by_id)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, VoterSet) and self._by_id == other._by_id

    def __hash__(self) -> int:
        return hash(self.voters)

    def __repr__(self) -> str:
        return f"VoterSet({list(self._by_id)})"

    @property
    def majority(self) -> int:
        return len(self._by_id) // 2 + 1

    def get(self, node_id: NodeId) -> Voter | None:
        return self._by_id.get(node_id)

    def is_voter(self, replica: ReplicaKey) -> bool:
        voter = self._by_id.get(replica.id)
        return voter is not None and voter.key.matches(replica)

    def is_only_voter(self, replica: ReplicaKey) -> bool:
        return len(self._by_id) == 1 and self.is_voter(replica)

    def endpoints_of(self, node_id: NodeId) -> Endpoints:
        voter = self._by_id.get(node_id)
        return () if voter is None else voter.endpoints

    def node(self, node_id: NodeId, listener: str) -> Node | None:
        """Where to reach a voter by the given listener."""
        endpoint = endpoint_for(self.endpoints_of(node_id), listener)
        return None if endpoint is None else Node(node_id, endpoint.host, endpoint.port)

    def with_voter(self, voter: Voter) -> VoterSet | None:
        """The set with one voter more, or None where its id is taken."""
        if voter.key.id in self._by_id:
            return None
        return VoterSet([*self._by_id.values(), voter])

    def without_voter(self, replica: ReplicaKey) -> VoterSet | None:
        """The set with one voter less, or None where it is not in the set or is the last one."""
        voter = self._by_id.get(replica.id)
        if voter is None or voter.key != replica or len(self._by_id) == 1:
            return None
        return VoterSet(other for other in self._by_id.values() if other.key.id != replica.id)

    def with_updated_voter(self, voter: Voter, *, any_directory: bool = False) -> VoterSet | None:
        """The set with a voter's endpoints and versions renewed, or None where that replica is not in the set."""
        old = self._by_id.get(voter.key.id)
        if old is None or not (any_directory or old.key.matches(voter.key)):
            return None
        return VoterSet([*(other for other in self._by_id.values() if other.key.id != voter.key.id), voter])

    def needs_update(self, voter: Voter) -> bool:
        """Whether the set holds this replica with other endpoints or versions than it has now."""
        old = self._by_id.get(voter.key.id)
        return old is not None and old.key.matches(voter.key) and old != voter

    def supports(self, kraft_version: int) -> bool:
        return all(voter.kraft_versions.supports(kraft_version) for voter in self._by_id.values())

    def has_overlapping_majority(self, other: VoterSet) -> bool:
        """Whether every majority of one set meets every majority of the other: they differ by at most one voter each way."""
        added = sum(key not in self.keys for key in other.keys)
        removed = sum(key not in other.keys for key in self.keys)
        return added <= 1 and removed <= 1
