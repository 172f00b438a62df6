"""Peers that say anything at all: a machine answers with error codes, or stops for a reason that it names; nothing else."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from tests.simulation.raft_cluster import CLUSTER_ID, endpoint, replica_key, voter
from tests.unit.raft.bench import Bench, batch, position, state
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import LeaderEpoch, NodeId, Offset
from tidelog.raft.control_records import Voters
from tidelog.raft.effects import InstallSnapshot, Respond, RespondWithRecords, RespondWithSnapshot, Send
from tidelog.raft.errors import InvariantError
from tidelog.raft.events import (
    AppendRequested,
    ConnectionRefused,
    Event,
    RequestFailed,
    RequestReceived,
    ResignRequested,
    ResponseReceived,
    SnapshotInstalled,
    Start,
    Tick,
)
from tidelog.raft.log_view import OffsetAndEpoch
from tidelog.raft.messages import (
    AddVoterRequest,
    AddVoterResponse,
    ApiVersionsRequest,
    ApiVersionsResponse,
    Batch,
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    EndQuorumEpochRequest,
    EndQuorumEpochResponse,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    RemoveVoterRequest,
    RemoveVoterResponse,
    Request,
    Response,
    UpdateVoterRequest,
    UpdateVoterResponse,
    VoteRequest,
    VoteResponse,
)
from tidelog.raft.voter_set import Endpoints, ReplicaKey, VersionRange, VoterSet

EVENTS = 120
ERRORS = list(ErrorCode)
# What a leader that lies about the log can make of a node: it stops, since going on would risk what is committed.
REASONS = ("wants the log cut at", "offers snapshot", "differ from those before by more than one")


class Liar:
    """Invents messages from a few small numbers, so that they often nearly fit."""

    def __init__(self, random: Random) -> None:
        self._random = random

    def number(self) -> int:
        return self._random.choice((-1, 0, 1, 2, 3, 3, 4, 5, 8))

    def epoch(self) -> LeaderEpoch:
        return LeaderEpoch(self.number())

    def node(self) -> NodeId:
        return NodeId(self._random.choice((-1, 1, 2, 3, 4)))

    def maybe_node(self) -> NodeId | None:
        return self._random.choice((None, self.node()))

    def key(self) -> ReplicaKey:
        node = self.node()
        return self._random.choice((ReplicaKey(node), replica_key(node % 256), replica_key(node % 256, incarnation=1)))

    def end(self) -> OffsetAndEpoch:
        return position(self.number(), self.number())

    def maybe_end(self) -> OffsetAndEpoch | None:
        return self._random.choice((None, None, self.end()))

    def endpoints(self) -> Endpoints:
        return self._random.choice(((), (endpoint(self.node()),), (endpoint(1), endpoint(2))))

    def cluster(self) -> str | None:
        return self._random.choice((None, CLUSTER_ID, CLUSTER_ID, "other"))

    def error(self) -> ErrorCode:
        return ErrorCode.NONE if self._random.random() < 0.6 else self._random.choice(ERRORS)

    def versions(self) -> VersionRange:
        return VersionRange(self.number(), self.number())

    def batches(self, end_offset: int) -> tuple[Batch, ...]:
        voters = VoterSet(voter(other) for other in range(1, self._random.randint(2, 5)))
        base = end_offset + self._random.choice((0, 0, 0, 1, -1))
        control = self._random.choice(((), (), (Voters(voters),)))
        made = Batch(Offset(base), Offset(base + self._random.choice((0, 1, 2))), self.epoch(), control, "lie")
        return self._random.choice(((), (made,), (made, made)))

    def request(self) -> Request:
        return self._random.choice(
            (
                VoteRequest(
                    self.key(), self.epoch(), self.end(), self._random.random() < 0.5, self.key(), self.cluster()
                ),
                BeginQuorumEpochRequest(self.node(), self.epoch(), self.endpoints(), self.key(), self.cluster()),
                EndQuorumEpochRequest(
                    self.node(), self.epoch(), (self.key(), self.key()), self.endpoints(), self.cluster()
                ),
                FetchRequest(
                    self.key(),
                    self.epoch(),
                    self.end(),
                    Offset(self.number()),
                    self.number(),
                    self.number(),
                    self.cluster(),
                ),
                FetchSnapshotRequest(
                    self.key(), self.epoch(), self.end(), self.number(), self.number(), self.cluster()
                ),
                AddVoterRequest(self.key(), self.endpoints(), self._random.random() < 0.5, self.cluster()),
                RemoveVoterRequest(self.key(), self.cluster()),
                UpdateVoterRequest(self.key(), self.epoch(), self.endpoints(), self.versions(), self.cluster()),
                ApiVersionsRequest(),
            )
        )

    def response(self, end_offset: int) -> Response:
        facts = (self.epoch(), self.maybe_node(), self.endpoints())
        offset = Offset(self.number())
        return self._random.choice(
            (
                VoteResponse(self.error(), self._random.random() < 0.7, *facts),
                BeginQuorumEpochResponse(self.error(), *facts),
                EndQuorumEpochResponse(self.error(), *facts),
                FetchResponse(
                    self.error(), *facts, offset, offset, self.maybe_end(), self.maybe_end(), self.batches(end_offset)
                ),
                FetchSnapshotResponse(
                    self.error(), *facts, self.maybe_end(), self.number(), self.number(), b"x" * max(0, self.number())
                ),
                AddVoterResponse(self.error()),
                RemoveVoterResponse(self.error()),
                UpdateVoterResponse(self.error(), *facts),
                ApiVersionsResponse(self.error(), self._random.choice((None, self.versions()))),
            )
        )


@pytest.mark.parametrize("seed", range(100))
def test_a_machine_among_liars_answers_each_once_or_stops_with_a_sentence(seed: int) -> None:
    random = Random(seed)
    liar = Liar(random)
    bench = Bench(
        random.choice((1, 2, 3, 4)),
        batches=(batch(0, 2, 1), batch(2, 3, 2)),
        stored=random.choice((None, state(3), state(3, 1), state(3, 2), state(3, None, replica_key(1)))),
        static=random.random() < 0.2,
        is_voter=random.random() < 0.8,
    )
    open_requests: list[int] = []
    installing: list[OffsetAndEpoch] = []
    asked: list[int] = []
    answered: Counter[int] = Counter()

    def event(number: int) -> Event:
        match random.randrange(10):
            case 0 | 1 | 2:
                asked.append(number)
                return RequestReceived(number, liar.request())
            case 3 | 4 | 5 if open_requests:
                return ResponseReceived(random.choice(open_requests[-3:]), liar.response(bench.machine.log_end.offset))
            case 6:
                return random.choice((ConnectionRefused(liar.node()), RequestFailed(liar.number())))
            case 7:
                return AppendRequested(number, bench.machine.epoch, liar.number())
            case 8:
                return ResignRequested(liar.epoch())
            case _:
                if installing:
                    return SnapshotInstalled(installing.pop(), ())
                bench.now_ms += random.choice((1, 50, 500, 3_000))
                return Tick()

    try:
        for number in range(EVENTS):
            for effect in bench.step(Start() if number == 0 else event(number)):
                match effect:
                    case Respond(request_id, _) | RespondWithRecords(request_id) | RespondWithSnapshot(request_id):
                        answered[request_id] += 1
                    case Send():
                        open_requests.append(effect.request_id)
                    case InstallSnapshot(snapshot_id):
                        bench.disk.install_empty(snapshot_id)
                        installing.append(snapshot_id)
                    case _:
                        pass
    except InvariantError as stopped:
        if not any(reason in str(stopped) for reason in REASONS):
            raise
    assert set(answered) <= set(asked)
    assert all(count == 1 for count in answered.values())
