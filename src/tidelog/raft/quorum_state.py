"""The file `quorum-state`: what a replica must not forget about an election, as text.

JSON on one line without an end of line, byte for byte as Apache Kafka writes it. `data_version` 0 goes with static voters and
lists them; 1 goes with voters in the log and knows the directory of the replica voted for. Reading and writing the file
itself, with its sync and rename, is the caller's part.
"""

from __future__ import annotations

import json

from msgspec import Struct

from tidelog.model.ids import ZERO_UUID, DirectoryId, LeaderEpoch, NodeId, uuid_from_text, uuid_to_text
from tidelog.raft.errors import QuorumStateError
from tidelog.raft.voter_set import ReplicaKey

FILE_NAME = "quorum-state"
STATIC_VOTERS = 0
DYNAMIC_VOTERS = 1

_NONE = -1
# A voter set is a handful of nodes; a file beyond this was not written by a quorum.
TEXT_BYTES_MAX = 1 << 20


class QuorumState(Struct, frozen=True):
    """The election as one replica knows it. `voter_ids` is written only where voters are static."""

    epoch: LeaderEpoch
    leader_id: NodeId | None = None
    voted_key: ReplicaKey | None = None
    voter_ids: tuple[NodeId, ...] = ()
    data_version: int = STATIC_VOTERS

    def same_election(self, other: QuorumState) -> bool:
        """Whether both say the same of epoch, leader and vote, whatever format they are written in."""
        return (self.epoch, self.leader_id, self.voted_key) == (other.epoch, other.leader_id, other.voted_key)


def to_text(state: QuorumState) -> str:
    """The content of the file."""
    leader_id = _NONE if state.leader_id is None else state.leader_id
    voted_id = _NONE if state.voted_key is None else state.voted_key.id
    fields: dict[str, object]
    if state.data_version == STATIC_VOTERS:
        fields = {
            "clusterId": "",
            "leaderId": leader_id,
            "leaderEpoch": state.epoch,
            "votedId": voted_id,
            "appliedOffset": 0,
            "currentVoters": [{"voterId": voter_id} for voter_id in state.voter_ids],
        }
    else:
        directory_id = None if state.voted_key is None else state.voted_key.directory_id
        fields = {
            "leaderId": leader_id,
            "leaderEpoch": state.epoch,
            "votedId": voted_id,
            "votedDirectoryId": uuid_to_text(directory_id or ZERO_UUID),
        }
    return json.dumps({**fields, "data_version": state.data_version}, separators=(",", ":"))


def from_text(text: str) -> QuorumState:
    """The state that `to_text`, or Apache Kafka, wrote. QuorumStateError for anything else."""
    if len(text) > TEXT_BYTES_MAX:
        raise QuorumStateError(f"quorum-state is {len(text)} characters long, which no quorum writes")
    try:
        fields = json.loads(text)
    except (ValueError, RecursionError) as fault:
        raise QuorumStateError("quorum-state is not JSON") from fault
    if not isinstance(fields, dict):
        raise QuorumStateError("quorum-state is not a JSON object")
    data_version = _integer(fields, "data_version", minimum=0)
    if data_version not in {STATIC_VOTERS, DYNAMIC_VOTERS}:
        raise QuorumStateError(f"quorum-state has data_version {data_version}; this program knows 0 and 1")
    leader_id = _integer(fields, "leaderId", minimum=_NONE)
    voted_id = _integer(fields, "votedId", minimum=_NONE)
    return QuorumState(
        epoch=LeaderEpoch(_integer(fields, "leaderEpoch", minimum=0)),
        leader_id=None if leader_id == _NONE else NodeId(leader_id),
        voted_key=None if voted_id == _NONE else ReplicaKey(NodeId(voted_id), _directory_id(fields, data_version)),
        voter_ids=_voter_ids(fields) if data_version == STATIC_VOTERS else (),
        data_version=data_version,
    )


def _integer(fields: dict[str, object], name: str, *, minimum: int) -> int:
    value = fields.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or not minimum <= value <= 0x7FFFFFFF:
        raise QuorumStateError(f"quorum-state has no valid {name}: {value!r}")
    return value


def _directory_id(fields: dict[str, object], data_version: int) -> DirectoryId | None:
    if data_version == STATIC_VOTERS:
        return None
    text = fields.get("votedDirectoryId")
    try:
        directory_id = uuid_from_text(text) if isinstance(text, str) else b""
    except ValueError:
        directory_id = b""
    if not directory_id:
        raise QuorumStateError(f"quorum-state has no valid votedDirectoryId: {text!r}")
    return None if directory_id == ZERO_UUID else DirectoryId(directory_id)


def _voter_ids(fields: dict[str, object]) -> tuple[NodeId, ...]:
    voters = fields.get("currentVoters")
    if voters is None:
        return ()
    if not isinstance(voters, list) or not all(isinstance(voter, dict) for voter in voters):
        raise QuorumStateError(f"quorum-state has no valid currentVoters: {voters!r}")
    return tuple(NodeId(_integer(voter, "voterId", minimum=0)) for voter in voters)
