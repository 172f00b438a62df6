"""The metadata quorum's own APIs, which its replica on this node answers: nothing is decided here but who may ask.

Its Fetch is in `fetch`, beside that of partitions.
"""

from __future__ import annotations

from tidelog.broker.requests.handling import handles
from tidelog.broker.requests.quorum_requests import ask_quorum, change_voters
from tidelog.wire.messages.fetch_snapshot import FetchSnapshotRequest
from tidelog.wire.messages.quorum import BeginQuorumEpochRequest, EndQuorumEpochRequest, VoteRequest
from tidelog.wire.messages.raft_voters import AddRaftVoterRequest, RemoveRaftVoterRequest, UpdateRaftVoterRequest
from tidelog.wire.schema import Request

# Between replicas of the metadata log.
QUORUM_APIS: dict[type[Request], str] = {
    # v1 voters by directory id (KIP-853) · v2 pre-vote (KIP-996)
    VoteRequest: "a replica of the metadata log asks for a vote, or whether it would get one",
    # v1 directory ids, the leader's endpoints (KIP-853)
    BeginQuorumEpochRequest: "the leader of the metadata quorum makes itself known",
    # v1 directory ids, the leader's endpoints (KIP-853)
    EndQuorumEpochRequest: "the leader of the metadata quorum resigns, and names who should follow it",
    # v1 replica directory, the leader's endpoint (KIP-853)
    FetchSnapshotRequest: "a piece of a snapshot of the metadata log, for a replica that is too far behind",
    # The leader writes it into the log where the voters are there (kraft.version 1), and keeps it in memory otherwise.
    UpdateRaftVoterRequest: "a voter of the metadata quorum tells where it listens now, and what it supports (KIP-853)",
}

# Of administrators, whom a broker answers too: it passes them on to the active controller.
VOTER_APIS: dict[type[Request], str] = {
    # v1 whether to answer only once the change is committed
    AddRaftVoterRequest: "an observer of the metadata log that has caught up becomes a voter (KIP-853)",
    RemoveRaftVoterRequest: "a voter of the metadata quorum is one no longer (KIP-853)",
}

for api, purpose in QUORUM_APIS.items():
    handles(api, listeners=("controller",), purpose=purpose)(ask_quorum)
for api, purpose in VOTER_APIS.items():
    handles(api, purpose=purpose)(change_voters)
