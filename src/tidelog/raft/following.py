"""The work of a replica that does not lead: it finds the leader, fetches its log, and cuts or replaces its own where they differ.

Fetch and FetchSnapshot as sent. A voter asks for more only when what it has is on disk, since by asking it acknowledges.
"""

from __future__ import annotations

from tidelog.model.errors import ErrorCode
from tidelog.model.ids import NO_OFFSET, Offset
from tidelog.raft.effects import AbandonSnapshot, AppendToLog, FlushLog, InstallSnapshot, TruncateLog, WriteSnapshot
from tidelog.raft.errors import invariant
from tidelog.raft.events import SnapshotInstalled
from tidelog.raft.log_view import OffsetAndEpoch, truncation_offset
from tidelog.raft.messages import (
    AddVoterRequest,
    Batch,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    RemoveVoterRequest,
    Request,
    UpdateVoterRequest,
    UpdateVoterResponse,
)
from tidelog.raft.quorum import Quorum
from tidelog.raft.roles import Follower, SnapshotDownload
from tidelog.raft.voter_set import Node, endpoint_for


def poll_follower(quorum: Quorum, follower: Follower) -> None:
    """Keeps exactly one request on its way: to the leader, or to anybody who may know a newer one while the leader is silent."""
    endpoint = endpoint_for(follower.leader_endpoints, quorum.local.listener)
    assert endpoint is not None, "a follower knows its leader's address"
    leader = Node(follower.leader_id, endpoint.host, endpoint.port)
    if quorum.is_shutting_down:
        return
    if follower.update_voter_deadline_ms <= quorum.now_ms:
        wanted = _membership_request(quorum, follower)
        if wanted is not None and not quorum.connections.is_ready(leader.id):
            return
        follower.update_voter_deadline_ms = quorum.now_ms + quorum.config.fetch_timeout_ms
        if wanted is not None:
            quorum.send(leader, wanted)
            return
    if quorum.connections.is_backing_off(leader.id):
        poll_unattached(quorum)
    elif not quorum.connections.is_any_awaited and _may_fetch(quorum):
        quorum.send(leader, _fetch_request(quorum, follower))


def poll_unattached(quorum: Quorum) -> None:
    """Asks any known node for the leader, by a fetch."""
    if quorum.connections.is_any_awaited or not _may_fetch(quorum):
        return
    servers = _bootstrap_servers(quorum)
    if not servers:
        return
    first = quorum.random.randrange(len(servers))
    for server in servers[first:] + servers[:first]:
        if quorum.connections.is_ready(server.id):
            quorum.send(server, _fetch_request(quorum, None))
            return


def take_fetch(quorum: Quorum, follower: Follower, response: FetchResponse) -> bool:
    """Takes in a leader's answer to a fetch. False where the answer is not valid."""
    if response.error is not ErrorCode.NONE:
        return False
    if response.diverging is not None:
        is_sound = _truncate(quorum, response.diverging)
    elif response.snapshot_id is not None:
        is_sound = _start_download(quorum, follower, response.snapshot_id)
    else:
        is_sound = not response.batches or _append(quorum, response.batches)
        if is_sound and response.high_watermark is not None and response.high_watermark >= 0:
            quorum.advance_high_watermark(min(response.high_watermark, quorum.log.end.offset))
    if is_sound:
        follower.fetched(quorum.fetch_deadline_ms())
    return is_sound


def take_fetch_snapshot(quorum: Quorum, follower: Follower, response: FetchSnapshotResponse) -> bool:
    """Takes in a piece of a snapshot. False where it is not valid: the download then starts over with a fetch."""
    download = follower.download
    if download is None:
        return False
    if response.error is not ErrorCode.NONE:
        if response.error in {ErrorCode.SNAPSHOT_NOT_FOUND, ErrorCode.POSITION_OUT_OF_RANGE}:
            # The leader has a newer one by now, or it is another leader.
            _abandon_download(quorum, follower)
            follower.fetched(quorum.fetch_deadline_ms())
            return True
        return False
    end_position = download.position + len(response.data)
    if (
        response.snapshot_id != download.snapshot_id
        or response.position != download.position
        or not response.data
        or end_position > response.size_bytes
    ):
        _abandon_download(quorum, follower)
        return False
    quorum.outbox.emit(WriteSnapshot(download.snapshot_id, download.position, response.data))
    download.position = end_position
    if end_position == response.size_bytes:
        follower.download = None
        quorum.installing = download.snapshot_id
        quorum.outbox.emit(InstallSnapshot(download.snapshot_id))
    follower.fetched(quorum.fetch_deadline_ms())
    return True


def snapshot_installed(quorum: Quorum, installed: SnapshotInstalled) -> None:
    """The log now begins and ends where the snapshot does."""
    invariant(
        installed.snapshot_id == quorum.installing,
        f"snapshot {installed.snapshot_id} was reported installed while {quorum.installing} was being installed",
    )
    quorum.installing = None
    quorum.log.replaced(installed.snapshot_id)
    last_offset = Offset(installed.snapshot_id.offset - 1)
    quorum.control.replace((last_offset, record) for record in installed.control)
    quorum.advance_high_watermark(installed.snapshot_id.offset)


def take_update_voter_answer(quorum: Quorum, follower: Follower, response: UpdateVoterResponse) -> bool:
    if response.error not in {ErrorCode.NONE, ErrorCode.UNSUPPORTED_VERSION}:
        return False
    follower.has_updated_leader = True
    follower.fetched(quorum.fetch_deadline_ms())
    return True


def _may_fetch(quorum: Quorum) -> bool:
    must_be_durable = quorum.is_voter or quorum.local.can_become_voter
    return quorum.installing is None and (quorum.log.is_durable or not must_be_durable)


def _fetch_request(quorum: Quorum, follower: Follower | None) -> Request:
    local = quorum.local
    if follower is not None and follower.download is not None:
        download = follower.download
        return FetchSnapshotRequest(
            local.key,
            quorum.epoch,
            download.snapshot_id,
            download.position,
            quorum.config.fetch_snapshot_bytes_max,
            local.cluster_id,
        )
    return FetchRequest(
        local.key,
        quorum.epoch,
        quorum.log.end,
        NO_OFFSET if quorum.high_watermark is None else quorum.high_watermark,
        quorum.config.fetch_wait_ms,
        quorum.config.fetch_bytes_max,
        local.cluster_id,
    )


def _membership_request(quorum: Quorum, follower: Follower) -> Request | None:
    """What this replica wants changed about its place among the voters, if anything."""
    local = quorum.local
    if quorum.is_voter:
        is_outdated = quorum.control.is_reconfigurable and quorum.voters.needs_update(local.voter)
        is_unreported = not quorum.control.is_reconfigurable and not follower.has_updated_leader
        if is_outdated or is_unreported:
            return UpdateVoterRequest(local.key, quorum.epoch, local.endpoints, local.kraft_versions, local.cluster_id)
        return None
    if not (quorum.config.auto_join_enable and local.can_become_voter and quorum.control.is_reconfigurable):
        return None
    former = quorum.voters.get(local.key.id)
    if former is not None:
        # This node with the disk that it had before: that replica will never come back.
        return RemoveVoterRequest(former.key, local.cluster_id)
    return AddVoterRequest(local.key, local.endpoints, False, local.cluster_id)


def _bootstrap_servers(quorum: Quorum) -> list[Node]:
    """Whom to ask for the leader: the configured servers, and the voters that the log names. Never this replica."""
    local = quorum.local
    own = endpoint_for(local.endpoints, local.listener)
    voters = (quorum.voters.node(voter_id, local.listener) for voter_id in quorum.voters.ids)
    # A voter that is configured too is asked under the voter's id, under which its other answers are awaited.
    by_address = {(node.host, node.port): node for node in (*local.bootstrap_servers, *voters) if node is not None}
    return [
        node
        for address, node in by_address.items()
        if node.id != local.key.id and (own is None or address != (own.host, own.port))
    ]


def _truncate(quorum: Quorum, diverging: OffsetAndEpoch) -> bool:
    if diverging.offset < 0 or diverging.epoch < 0:
        return False
    end_offset = truncation_offset(quorum.log.view, diverging)
    if end_offset >= quorum.log.end.offset:
        return False
    invariant(
        quorum.high_watermark is None or end_offset >= quorum.high_watermark,
        f"the leader of epoch {quorum.epoch} wants the log cut at {end_offset}, below the committed {quorum.high_watermark}",
    )
    quorum.log.truncated(end_offset)
    quorum.control.truncate_from(end_offset)
    quorum.outbox.emit(TruncateLog(end_offset))
    return True


def _append(quorum: Quorum, batches: tuple[Batch, ...]) -> bool:
    end = quorum.log.end
    for batch in batches:
        if (
            batch.base_offset != end.offset
            or batch.next_offset <= batch.base_offset
            or not end.epoch <= batch.epoch <= quorum.epoch
        ):
            return False
        end = OffsetAndEpoch(offset=batch.next_offset, epoch=batch.epoch)
    for batch in batches:
        quorum.log.appended(batch.next_offset, batch.epoch)
        for position, record in enumerate(batch.control):
            quorum.control.apply(Offset(batch.base_offset + position), record)
    quorum.outbox.emit(AppendToLog(batches))
    if quorum.is_voter or quorum.local.can_become_voter:
        quorum.outbox.emit(FlushLog(quorum.log.flush_ordered()))
    return True


def _start_download(quorum: Quorum, follower: Follower, snapshot_id: OffsetAndEpoch) -> bool:
    if snapshot_id.offset <= 0 or snapshot_id.epoch < 0:
        return False
    invariant(
        quorum.high_watermark is None or snapshot_id.offset >= quorum.high_watermark,
        f"the leader of epoch {quorum.epoch} offers snapshot {snapshot_id}, below the committed {quorum.high_watermark}",
    )
    follower.download = SnapshotDownload(snapshot_id)
    return True


def _abandon_download(quorum: Quorum, follower: Follower) -> None:
    if follower.download is not None:
        quorum.outbox.emit(AbandonSnapshot(follower.download.snapshot_id))
        follower.download = None
