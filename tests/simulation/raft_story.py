"""A simulated history as text that a person can follow: one line for each step in which something of note happened."""

from __future__ import annotations

from collections.abc import Iterator

from tests.simulation.raft_cluster import Cluster, Replica
from tidelog.model.ids import NodeId
from tidelog.raft.control_records import KRaftVersion, LeaderChange, Voters
from tidelog.raft.effects import (
    AbandonSnapshot,
    AdvanceHighWatermark,
    AppendToLog,
    BecameLeader,
    Effect,
    InstallSnapshot,
    LostLeadership,
    Respond,
    RespondWithRecords,
    SaveQuorumState,
    Send,
    TruncateLog,
)
from tidelog.raft.events import ConnectionRefused, Event
from tidelog.raft.messages import (
    Batch,
    BeginQuorumEpochRequest,
    EndQuorumEpochRequest,
    FetchRequest,
    Request,
    Response,
    VoteRequest,
    VoteResponse,
)


class Story:
    """Follows a cluster from its beginning."""

    def __init__(self, cluster: Cluster) -> None:
        self.lines: list[str] = []
        self._cluster = cluster
        self._roles: dict[NodeId, str] = {}
        cluster.follow = self._follow

    def say(self, sentence: str) -> None:
        """A heading, for what happens from outside."""
        self.lines.append(f"\n# {sentence}\n")

    def text(self) -> str:
        return "\n".join(self.lines).strip() + "\n"

    def _follow(self, replica: Replica, event: Event, effects: list[Effect]) -> None:
        assert replica.machine is not None
        words = list(_words(event, effects))
        role = f"{type(replica.machine.role).__name__} {replica.machine.epoch}"
        if self._roles.get(replica.key.id) != role:
            self._roles[replica.key.id] = role
            words.insert(0, f"is {role}")
        if words:
            self.lines.append(f"{self._cluster.now_ms:>6} ms  node {replica.key.id}: {'; '.join(words)}")


def _words(event: Event, effects: list[Effect]) -> Iterator[str]:
    if isinstance(event, ConnectionRefused):
        yield f"finds the port of {event.node_id} closed"
    for effect in effects:
        match effect:
            case SaveQuorumState(_, state):
                vote = "" if state.voted_key is None else f", vote for {state.voted_key.id}"
                leader = "" if state.leader_id is None else f", leader {state.leader_id}"
                yield f"saves epoch {state.epoch}{leader}{vote}"
            case Send(to, _, request):
                if not isinstance(request, FetchRequest):
                    yield f"asks {to.id} {_request(request)}"
            case Respond(_, response) | RespondWithRecords(_, response):
                yield from _response(response)
            case AppendToLog(batches):
                yield f"appends {', '.join(_batch(batch) for batch in batches)}"
            case TruncateLog(end_offset):
                yield f"truncates its log to {end_offset}"
            case AdvanceHighWatermark(offset):
                yield f"high watermark {offset}"
            case BecameLeader(epoch, offset):
                yield f"leads epoch {epoch} from {offset}"
            case LostLeadership(epoch):
                yield f"leads epoch {epoch} no more"
            case InstallSnapshot(snapshot_id):
                yield f"installs snapshot {snapshot_id}"
            case AbandonSnapshot(snapshot_id):
                yield f"abandons snapshot {snapshot_id}"
            case _:
                pass


def _request(request: Request) -> str:
    match request:
        case VoteRequest():
            kind = "for a pre-vote" if request.pre_vote else "for its vote"
            return f"{kind} in epoch {request.epoch}, log end {request.log_end}"
        case BeginQuorumEpochRequest():
            return f"to follow it in epoch {request.epoch}"
        case EndQuorumEpochRequest():
            order = [key.id for key in request.preferred_candidates]
            return f"to elect another after epoch {request.epoch}, best {order}"
        case _:
            return type(request).__name__


def _response(response: Response) -> Iterator[str]:
    if isinstance(response, VoteResponse):
        yield "grants it" if response.granted else f"refuses it ({response.error.name})"


def _batch(batch: Batch) -> str:
    names = {LeaderChange: "LeaderChange", KRaftVersion: "KRaftVersion", Voters: "Voters"}
    content = "+".join(names[type(record)] for record in batch.control) or f"record {batch.payload}"
    return f"{content} at {batch.base_offset}@{batch.epoch}"
