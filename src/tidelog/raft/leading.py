"""The leader's work: it opens its epoch, appends, serves those who fetch, and commits.

Fetch and FetchSnapshot as received. A record is committed once a majority of the voters has it on disk, and it or one after
it is of the leader's own epoch.
"""

from __future__ import annotations

from tidelog.model.errors import ErrorCode
from tidelog.model.ids import LeaderEpoch, Offset
from tidelog.raft.control_records import ControlRecord, KRaftVersion, LeaderChange, Voters
from tidelog.raft.effects import (
    AppendAccepted,
    AppendRefused,
    AppendToLog,
    FlushLog,
    Respond,
    RespondWithRecords,
    RespondWithSnapshot,
)
from tidelog.raft.events import AppendRequested
from tidelog.raft.log_view import (
    BOOTSTRAP_SNAPSHOT_ID,
    Diverging,
    Matching,
    OffsetAndEpoch,
    Snapshotted,
    compare_reader,
)
from tidelog.raft.messages import (
    Batch,
    BeginQuorumEpochRequest,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
)
from tidelog.raft.quorum import Quorum
from tidelog.raft.roles import Leader
from tidelog.raft.roles.leader import ParkedFetch

# A fetch beyond these is answered at once: followers ask one at a time, so more is a peer that does not behave.
PARKED_FETCHES_MAX = 2000
# Longer than any follower's patience; whoever asks for more would only hold the place of another.
PARKED_FETCH_MS_MAX = 60_000


def take_office(quorum: Quorum) -> None:
    """A won election: the epoch opens with a record that says so, since only a record of its own lets a leader commit.

    The first leader after the log was formatted also writes down the voters from the bootstrap checkpoint; any leader writes
    them again where its own endpoints or versions are not what they say.
    """
    quorum.become_leader()
    leader = quorum.role
    assert isinstance(leader, Leader)
    records: list[ControlRecord] = [LeaderChange(leader.leader_id, quorum.voters.ids, leader.granting_voters)]
    if quorum.control.is_reconfigurable:
        local = quorum.local.voter
        voters_offset = quorum.control.voters_offset
        if voters_offset is not None and (voters_offset < 0 or quorum.voters.needs_update(local)):
            updated = quorum.voters.with_updated_voter(local)
            if updated is not None:
                records += [KRaftVersion(quorum.control.kraft_version), Voters(updated)]
    append_control(quorum, leader, *records)


def append_control(quorum: Quorum, leader: Leader, *records: ControlRecord) -> Offset:
    """Appends one control batch. Voters in it count from here on. Answers the offset of its first record."""
    base_offset = quorum.log.end.offset
    for position, record in enumerate(records):
        quorum.control.apply(Offset(base_offset + position), record)
    leader.progress.use_voters(quorum.voters)
    _append(quorum, leader.epoch, Batch(base_offset, Offset(base_offset + len(records)), leader.epoch, records))
    return base_offset


def append_records(quorum: Quorum, wanted: AppendRequested) -> None:
    """Appends a batch of the user's, or refuses it where this replica does not lead in the epoch that the user thinks of."""
    leader = quorum.role
    if wanted.record_count < 1:
        quorum.outbox.emit(AppendRefused(wanted.append_id, ErrorCode.INVALID_REQUEST))
        return
    if not isinstance(leader, Leader) or leader.epoch != wanted.epoch or leader.is_resigning:
        quorum.outbox.emit(AppendRefused(wanted.append_id, ErrorCode.NOT_LEADER_OR_FOLLOWER))
        return
    base_offset = quorum.log.end.offset
    next_offset = Offset(base_offset + wanted.record_count)
    _append(quorum, leader.epoch, Batch(base_offset, next_offset, leader.epoch, (), wanted.payload))
    quorum.outbox.emit(AppendAccepted(wanted.append_id, base_offset, next_offset))


def _append(quorum: Quorum, epoch: LeaderEpoch, batch: Batch) -> None:
    quorum.log.appended(batch.next_offset, epoch)
    quorum.outbox.emit(AppendToLog((batch,)))
    quorum.outbox.emit(FlushLog(quorum.log.flush_ordered()))


def refusal(quorum: Quorum, epoch: LeaderEpoch) -> ErrorCode:
    """Why a request that only the leader of `epoch` can answer is refused, or NONE."""
    if epoch < quorum.epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    if epoch > quorum.epoch:
        return ErrorCode.UNKNOWN_LEADER_EPOCH
    if not isinstance(quorum.role, Leader):
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    return ErrorCode.NONE


def answer_fetch(quorum: Quorum, request_id: int, request: FetchRequest) -> None:
    """Serves a fetch, at once or when there is something to serve. The fetch acknowledges all below its offset."""
    error = _fetch_fault(quorum, request)
    if error is not ErrorCode.NONE:
        quorum.outbox.emit(Respond(request_id, _fetch_answer(quorum, error)))
        return
    leader = quorum.role
    assert isinstance(leader, Leader)
    if request.replica.id >= 0:
        _unpark(quorum, leader, request)
        comparison = compare_reader(quorum.log.view, request.log_end.offset, request.log_end.epoch)
        if isinstance(comparison, Matching):
            leader.progress.fetched(request.replica, request.log_end.offset, quorum.log.end.offset, quorum.now_ms)
            leader.heard_from(request.replica, quorum.now_ms, quorum.config.check_quorum_timeout_ms)
            commit(quorum, leader)
    fetch = ParkedFetch(request_id, request, quorum.now_ms + min(request.wait_ms_max, PARKED_FETCH_MS_MAX))
    if not _serve(quorum, leader, fetch, is_due=len(leader.parked) >= PARKED_FETCHES_MAX):
        leader.parked[request_id] = fetch


def _unpark(quorum: Quorum, leader: Leader, request: FetchRequest) -> None:
    """A follower that asks again has given up its earlier question."""
    for parked in [other for other in leader.parked.values() if other.request.replica == request.replica]:
        _serve(quorum, leader, leader.parked.pop(parked.request_id), is_due=True)


def _serve(quorum: Quorum, leader: Leader, fetch: ParkedFetch, *, is_due: bool = False) -> bool:
    """Answers a waiting fetch if there is a reason to. Whether it was answered."""
    request = fetch.request
    response = _fetch_answer(quorum, ErrorCode.NONE, leader.high_watermark)
    match compare_reader(quorum.log.view, request.log_end.offset, request.log_end.epoch):
        case Diverging(end):
            quorum.outbox.emit(
                Respond(fetch.request_id, _fetch_answer(quorum, ErrorCode.NONE, leader.high_watermark, diverging=end))
            )
            return True
        case Snapshotted(snapshot_id):
            quorum.outbox.emit(
                Respond(
                    fetch.request_id,
                    _fetch_answer(quorum, ErrorCode.NONE, leader.high_watermark, snapshot_id=snapshot_id),
                )
            )
            return True
        case Matching():
            pass
    if request.log_end.offset < quorum.log.end.offset:
        quorum.outbox.emit(
            RespondWithRecords(fetch.request_id, response, request.log_end.offset, max(1, request.bytes_max))
        )
        return True
    is_news = leader.high_watermark is not None and leader.high_watermark > request.high_watermark
    if is_due or is_news or fetch.deadline_ms <= quorum.now_ms:
        quorum.outbox.emit(Respond(fetch.request_id, response))
        return True
    return False


def commit(quorum: Quorum, leader: Leader) -> None:
    """Moves the high watermark to what a majority has, once that includes a record of this epoch."""
    committed = leader.progress.committed_offset(quorum.log.durable_offset)
    if committed is None or committed <= leader.epoch_start_offset:
        return
    if leader.high_watermark is None or committed > leader.high_watermark:
        leader.high_watermark = committed
        quorum.advance_high_watermark(committed)


def answer_fetch_snapshot(quorum: Quorum, request_id: int, request: FetchSnapshotRequest) -> None:
    """Serves a piece of a snapshot."""
    error = ErrorCode.NONE
    size_bytes: int | None = None
    if request.cluster_id not in {None, quorum.local.cluster_id}:
        quorum.outbox.emit(Respond(request_id, FetchSnapshotResponse(ErrorCode.INCONSISTENT_CLUSTER_ID)))
        return
    error = refusal(quorum, request.epoch)
    if error is ErrorCode.NONE:
        if request.snapshot_id != BOOTSTRAP_SNAPSHOT_ID:
            size_bytes = quorum.log.view.snapshot_size_bytes(request.snapshot_id)
        if size_bytes is None:
            error = ErrorCode.SNAPSHOT_NOT_FOUND
        elif not 0 <= request.position < size_bytes:
            error = ErrorCode.POSITION_OUT_OF_RANGE
    role = quorum.role
    if error is not ErrorCode.NONE or size_bytes is None:
        response = FetchSnapshotResponse(error, quorum.epoch, role.leader_id, role.leader_endpoints)
        quorum.outbox.emit(Respond(request_id, response))
        return
    assert isinstance(role, Leader)
    if request.replica.id not in {-1, quorum.local.key.id}:
        role.heard_from(request.replica, quorum.now_ms, quorum.config.check_quorum_timeout_ms)
    response = FetchSnapshotResponse(
        ErrorCode.NONE,
        quorum.epoch,
        role.leader_id,
        role.leader_endpoints,
        request.snapshot_id,
        size_bytes,
        request.position,
    )
    quorum.outbox.emit(RespondWithSnapshot(request_id, response, max(1, request.bytes_max)))


def poll_leader(quorum: Quorum, leader: Leader) -> bool:
    """Commits, serves those who wait, looks for silent voters. Whether the role changed."""
    commit(quorum, leader)
    is_unheard = leader.is_quorum_checked and leader.check_quorum_deadline_ms <= quorum.now_ms
    is_removed = (
        not quorum.is_voter
        and leader.high_watermark is not None
        and (quorum.control.voters_offset or 0) < leader.high_watermark
    )
    if leader.is_resigning or quorum.is_shutting_down or is_unheard or is_removed:
        quorum.become_resigned()
        return True
    for parked in list(leader.parked.values()):
        if _serve(quorum, leader, parked):
            del leader.parked[parked.request_id]
    if leader.begin_epoch_deadline_ms <= quorum.now_ms:
        leader.begin_epoch_deadline_ms = quorum.now_ms + quorum.config.begin_epoch_interval_ms
        _announce(quorum, leader)
    return False


def _announce(quorum: Quorum, leader: Leader) -> None:
    """Tells the voters that do not fetch who leads."""
    for voter in leader.progress.silent_voters(quorum.now_ms, quorum.config.begin_epoch_interval_ms):
        node = quorum.voters.node(voter.id, quorum.local.listener)
        if node is not None and quorum.connections.is_ready(voter.id):
            quorum.send(
                node,
                BeginQuorumEpochRequest(
                    leader.leader_id, leader.epoch, leader.leader_endpoints, voter, quorum.local.cluster_id
                ),
            )


def _fetch_fault(quorum: Quorum, request: FetchRequest) -> ErrorCode:
    if request.cluster_id not in {None, quorum.local.cluster_id}:
        return ErrorCode.INCONSISTENT_CLUSTER_ID
    if (
        request.wait_ms_max < 0
        or request.log_end.offset < 0
        or not 0 <= request.log_end.epoch <= request.epoch
        or request.replica.id == quorum.local.key.id
    ):
        return ErrorCode.INVALID_REQUEST
    return refusal(quorum, request.epoch)


def _fetch_answer(
    quorum: Quorum,
    error: ErrorCode,
    high_watermark: Offset | None = None,
    *,
    diverging: OffsetAndEpoch | None = None,
    snapshot_id: OffsetAndEpoch | None = None,
) -> FetchResponse:
    if error is ErrorCode.INCONSISTENT_CLUSTER_ID:
        return FetchResponse(error)
    role = quorum.role
    start_offset = quorum.log.view.start_offset()
    return FetchResponse(
        error, role.epoch, role.leader_id, role.leader_endpoints, high_watermark, start_offset, diverging, snapshot_id
    )
