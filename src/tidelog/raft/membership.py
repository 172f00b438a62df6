"""Changes of the voter set (KIP-853), one at a time and one voter at a time, by the leader.

A change begins only when the leader has committed a record of its own epoch and the set before is committed: then any majority
of the old set meets any majority of the new one, and no leader of an earlier epoch can still have a change under way.
AddVoter first asks the new voter which kraft.version it supports; it must have caught up before, or it would hold up every
commit.
"""

from __future__ import annotations

from tidelog.model.errors import ErrorCode
from tidelog.model.ids import NodeId
from tidelog.raft.control_records import RECONFIGURATION_VERSION, ControlRecord, KRaftVersion, Voters
from tidelog.raft.effects import Respond, UpgradeAnswered
from tidelog.raft.events import UpgradeRequested
from tidelog.raft.leading import append_control, refusal
from tidelog.raft.messages import (
    AddVoterRequest,
    AddVoterResponse,
    ApiVersionsRequest,
    ApiVersionsResponse,
    RemoveVoterRequest,
    RemoveVoterResponse,
    UpdateVoterRequest,
    UpdateVoterResponse,
)
from tidelog.raft.quorum import Quorum
from tidelog.raft.roles import Leader
from tidelog.raft.roles.leader import AddingVoter, RemovingVoter
from tidelog.raft.voter_set import Node, Voter, endpoint_for


def answer_add_voter(quorum: Quorum, request_id: int, request: AddVoterRequest) -> None:
    """Begins to add a voter, or says why not. The answer may come when the change is committed."""
    error, message = _add_fault(quorum, request)
    if error is not ErrorCode.NONE:
        quorum.outbox.emit(Respond(request_id, AddVoterResponse(error, message)))
        return
    leader = quorum.role
    endpoint = endpoint_for(request.endpoints, quorum.local.listener)
    assert isinstance(leader, Leader)
    assert endpoint is not None
    probe_id = quorum.send(Node(request.voter.id, endpoint.host, endpoint.port), ApiVersionsRequest())
    leader.change = AddingVoter(
        request_id,
        request.voter,
        request.endpoints,
        request.ack_when_committed,
        quorum.now_ms + quorum.config.request_timeout_ms,
        probe_id,
    )


def take_versions(quorum: Quorum, node_id: NodeId, response: ApiVersionsResponse) -> bool:
    """The new voter told which versions it supports: the change can be written down."""
    leader = quorum.role
    if not isinstance(leader, Leader):
        return True
    change = leader.change
    if not isinstance(change, AddingVoter) or change.voters_offset is not None or change.voter.id != node_id:
        return True
    if response.error is not ErrorCode.NONE:
        _abort_add(
            quorum, leader, change, ErrorCode.REQUEST_TIMED_OUT, f"voter {node_id} answered {response.error.name}"
        )
        return False
    versions = response.kraft_versions
    if versions is None or not versions.supports(quorum.control.kraft_version):
        sentence = f"voter {node_id} does not support kraft.version {quorum.control.kraft_version}"
        _abort_add(quorum, leader, change, ErrorCode.INVALID_REQUEST, sentence)
        return True
    if not leader.progress.is_caught_up(change.voter, quorum.now_ms):
        sentence = f"voter {node_id} has not caught up with the leader's log"
        _abort_add(quorum, leader, change, ErrorCode.REQUEST_TIMED_OUT, sentence)
        return True
    updated = quorum.voters.with_voter(Voter(change.voter, change.endpoints, versions))
    assert updated is not None, "checked when the change began, and no other change could begin since"
    change.voters_offset = append_control(quorum, leader, Voters(updated))
    if not change.is_answered_when_committed:
        change.is_answered = True
        quorum.outbox.emit(Respond(change.request_id, AddVoterResponse(ErrorCode.NONE)))
    return True


def probe_failed(quorum: Quorum, request_id: int) -> None:
    """The new voter could not be asked for its versions."""
    leader = quorum.role
    if isinstance(leader, Leader) and isinstance(leader.change, AddingVoter):
        change = leader.change
        if change.probe_request_id == request_id and change.voters_offset is None:
            sentence = f"voter {change.voter.id} could not be reached"
            _abort_add(quorum, leader, change, ErrorCode.REQUEST_TIMED_OUT, sentence)


def answer_remove_voter(quorum: Quorum, request_id: int, request: RemoveVoterRequest) -> None:
    """Removes a voter, or says why not. Answered when the change is committed."""
    error, message = ErrorCode.NONE, None
    if request.cluster_id not in {None, quorum.local.cluster_id}:
        error = ErrorCode.INCONSISTENT_CLUSTER_ID
    elif (refused := refusal(quorum, quorum.epoch)) is not ErrorCode.NONE:
        error = refused
    elif request.voter.id < 0 or request.voter.directory_id is None:
        error, message = ErrorCode.INVALID_REQUEST, "the request names no voter"
    else:
        error, message = _change_fault(quorum)
    leader = quorum.role
    updated = quorum.voters.without_voter(request.voter)
    if error is ErrorCode.NONE and updated is None:
        error, message = (
            ErrorCode.VOTER_NOT_FOUND,
            f"voter {request.voter.id} is not in the set, or is the last one in it",
        )
    if error is not ErrorCode.NONE or updated is None or not isinstance(leader, Leader):
        quorum.outbox.emit(Respond(request_id, RemoveVoterResponse(error, message)))
        return
    voters_offset = append_control(quorum, leader, Voters(updated))
    leader.change = RemovingVoter(request_id, voters_offset, quorum.now_ms + quorum.config.request_timeout_ms)


def answer_update_voter(quorum: Quorum, request: UpdateVoterRequest) -> UpdateVoterResponse:
    """Notes a voter's new endpoints and versions; in the log where voters are there, else in memory. Answered at once."""
    if request.cluster_id not in {None, quorum.local.cluster_id}:
        return UpdateVoterResponse(ErrorCode.INCONSISTENT_CLUSTER_ID)
    error = refusal(quorum, request.epoch)
    if error is ErrorCode.NONE:
        assert isinstance(quorum.role, Leader)
        error = _update_voter(quorum, quorum.role, request)
    role = quorum.role
    return UpdateVoterResponse(error, role.epoch, role.leader_id, role.leader_endpoints)


def _update_voter(quorum: Quorum, leader: Leader, request: UpdateVoterRequest) -> ErrorCode:
    versions = request.kraft_versions
    if (
        request.voter.id < 0
        or request.voter.directory_id is None
        or endpoint_for(request.endpoints, quorum.local.listener) is None
        or not 0 <= versions.minimum <= versions.maximum
    ):
        return ErrorCode.INVALID_REQUEST
    if leader.change is not None or leader.high_watermark is None:
        return ErrorCode.REQUEST_TIMED_OUT
    if not versions.supports(quorum.control.kraft_version):
        return ErrorCode.INVALID_REQUEST
    voter = Voter(request.voter, request.endpoints, versions)
    if quorum.control.is_reconfigurable:
        voters_offset = quorum.control.voters_offset
        if voters_offset is None or voters_offset >= leader.high_watermark:
            return ErrorCode.REQUEST_TIMED_OUT
        updated = quorum.voters.with_updated_voter(voter)
        if updated is None:
            return ErrorCode.VOTER_NOT_FOUND
        if updated != quorum.voters:
            append_control(quorum, leader, Voters(updated))
    else:
        if leader.reported_voters is None:
            return ErrorCode.REQUEST_TIMED_OUT
        updated = leader.reported_voters.with_updated_voter(voter, any_directory=True)
        if updated is None:
            return ErrorCode.VOTER_NOT_FOUND
        leader.reported_voters = updated
    leader.heard_from(request.voter, quorum.now_ms, quorum.config.check_quorum_timeout_ms)
    return ErrorCode.NONE


def upgrade(quorum: Quorum, wanted: UpgradeRequested) -> None:
    """Raises kraft.version: from here on the voters are in the log, as they described themselves."""
    error, message = _upgrade(quorum, wanted)
    quorum.outbox.emit(UpgradeAnswered(wanted.upgrade_id, error, message))


def _upgrade(quorum: Quorum, wanted: UpgradeRequested) -> tuple[ErrorCode, str | None]:
    leader = quorum.role
    present = quorum.control.kraft_version
    if not isinstance(leader, Leader) or leader.epoch != wanted.epoch:
        return ErrorCode.NOT_LEADER_OR_FOLLOWER, None
    if wanted.kraft_version == present:
        return ErrorCode.NONE, None
    if (
        wanted.kraft_version < present
        or wanted.kraft_version > RECONFIGURATION_VERSION
        or leader.reported_voters is None
    ):
        return ErrorCode.INVALID_UPDATE_VERSION, f"kraft.version cannot change from {present} to {wanted.kraft_version}"
    reported = leader.reported_voters
    if not reported.supports(wanted.kraft_version) or any(key.directory_id is None for key in reported.keys):
        return (
            ErrorCode.INVALID_UPDATE_VERSION,
            f"not all voters are known to support kraft.version {wanted.kraft_version} yet",
        )
    if not wanted.validate_only:
        records: list[ControlRecord] = [KRaftVersion(wanted.kraft_version), Voters(reported)]
        leader.reported_voters = None
        append_control(quorum, leader, *records)
    return ErrorCode.NONE, None


def poll_change(quorum: Quorum, leader: Leader) -> None:
    """Answers the request of a change that is committed, or has taken too long."""
    change = leader.change
    if change is None:
        return
    offset = change.voters_offset
    if offset is not None and leader.high_watermark is not None and leader.high_watermark > offset:
        _answer_change(quorum, leader, change, ErrorCode.NONE, None)
    elif change.deadline_ms <= quorum.now_ms:
        _answer_change(quorum, leader, change, ErrorCode.REQUEST_TIMED_OUT, None)


def _answer_change(
    quorum: Quorum, leader: Leader, change: AddingVoter | RemovingVoter, error: ErrorCode, message: str | None
) -> None:
    leader.change = None
    match change:
        case AddingVoter(is_answered=True):
            pass
        case AddingVoter():
            quorum.outbox.emit(Respond(change.request_id, AddVoterResponse(error, message)))
        case RemovingVoter():
            quorum.outbox.emit(Respond(change.request_id, RemoveVoterResponse(error, message)))


def _abort_add(quorum: Quorum, leader: Leader, change: AddingVoter, error: ErrorCode, message: str) -> None:
    _answer_change(quorum, leader, change, error, message)


def _add_fault(quorum: Quorum, request: AddVoterRequest) -> tuple[ErrorCode, str | None]:
    if request.cluster_id not in {None, quorum.local.cluster_id}:
        return ErrorCode.INCONSISTENT_CLUSTER_ID, None
    error = refusal(quorum, quorum.epoch)
    if error is not ErrorCode.NONE:
        return error, None
    if request.voter.id < 0 or request.voter.directory_id is None:
        return ErrorCode.INVALID_REQUEST, "the request names no voter"
    if endpoint_for(request.endpoints, quorum.local.listener) is None:
        return ErrorCode.INVALID_REQUEST, f"the voter has no endpoint for listener {quorum.local.listener}"
    error, message = _change_fault(quorum)
    if error is not ErrorCode.NONE:
        return error, message
    if quorum.voters.get(request.voter.id) is not None:
        return ErrorCode.DUPLICATE_VOTER, f"a voter with id {request.voter.id} is in the set already"
    if not quorum.connections.is_ready(request.voter.id):
        return ErrorCode.REQUEST_TIMED_OUT, f"voter {request.voter.id} is not ready for a request"
    return ErrorCode.NONE, None


def _change_fault(quorum: Quorum) -> tuple[ErrorCode, str | None]:
    """Why the voter set cannot change now, or NONE."""
    leader = quorum.role
    assert isinstance(leader, Leader)
    if leader.change is not None:
        return ErrorCode.REQUEST_TIMED_OUT, "another change of the voters is under way"
    if leader.high_watermark is None:
        return ErrorCode.REQUEST_TIMED_OUT, "the leader has not committed anything in its epoch yet"
    if not quorum.control.is_reconfigurable:
        return (
            ErrorCode.UNSUPPORTED_VERSION,
            f"kraft.version is {quorum.control.kraft_version}; voters can change from 1 on",
        )
    voters_offset = quorum.control.voters_offset
    if voters_offset is None or voters_offset >= leader.high_watermark:
        return ErrorCode.REQUEST_TIMED_OUT, "the last change of the voters is not committed yet"
    return ErrorCode.NONE, None
