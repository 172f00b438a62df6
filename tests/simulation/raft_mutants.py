"""Known bugs of consensus, each as a patch to the real code: a simulation that does not find them proves nothing."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tidelog.model.errors import ErrorCode
from tidelog.model.ids import LeaderEpoch, Offset
from tidelog.raft import following, leading, membership, voting
from tidelog.raft.ballot import Ballot
from tidelog.raft.control_records import ControlHistory
from tidelog.raft.effects import Effect
from tidelog.raft.local_log import LocalLog
from tidelog.raft.log_view import Matching, OffsetAndEpoch
from tidelog.raft.outbox import Outbox
from tidelog.raft.progress import Progress
from tidelog.raft.quorum import Quorum
from tidelog.raft.quorum_state import QuorumState
from tidelog.raft.roles import Leader, Nominee, Prospective, Unattached, prospective as prospective_module, unattached
from tidelog.raft.voter_set import ReplicaKey, VoterSet

Patch = pytest.MonkeyPatch


def vote_twice(patch: Patch) -> None:
    """A voter forgets whom it voted for."""

    def can_grant(_leader: object, _voted: object, _candidate: object, is_log_up_to_date: bool, _pre: object) -> bool:
        return is_log_up_to_date

    def become_voted(self: Quorum, candidate: ReplicaKey) -> None:
        role = self.role
        if isinstance(role, Unattached):
            self._become(Unattached(role.epoch, role.leader_id, candidate, self.now_ms + self.election_timeout_ms()))

    patch.setattr(unattached, "can_grant_without_leader", can_grant)
    patch.setattr(prospective_module, "can_grant_without_leader", can_grant)
    patch.setattr(Quorum, "become_voted", become_voted)


def announce_before_saving(patch: Patch) -> None:
    """Messages do not wait for the vote to be on disk."""

    def drain(self: Outbox) -> list[Effect]:
        leaving = list(self._queue)
        self._queue.clear()
        return leaving

    patch.setattr(Outbox, "drain", drain)
    patch.setattr(Outbox, "saved", lambda _self, _save_id: None)


def forget_the_vote(patch: Patch) -> None:
    """A vote is given but not written down."""
    save = Outbox.save

    def save_without_vote(self: Outbox, state: QuorumState) -> None:
        save(self, QuorumState(state.epoch, state.leader_id, None, state.voter_ids, state.data_version))

    patch.setattr(Outbox, "save", save_without_vote)


def vote_for_a_shorter_log(patch: Patch) -> None:
    """A voter does not compare logs."""
    zero = OffsetAndEpoch(offset=Offset(0), epoch=LeaderEpoch(0))
    ask = voting._ask_for_votes

    def ask_with_real_end(asking: Quorum, nominee: Nominee, *, pre_vote: bool) -> None:
        patch.setattr(LocalLog, "durable_end", lambda log: log.end)
        ask(asking, nominee, pre_vote=pre_vote)
        patch.setattr(LocalLog, "durable_end", lambda _log: zero)

    patch.setattr(LocalLog, "durable_end", lambda _log: zero)
    patch.setattr(voting, "_ask_for_votes", ask_with_real_end)


def acknowledge_before_flushing(patch: Patch) -> None:
    """A follower fetches on while what it has is not on disk."""
    patch.setattr(following, "_may_fetch", lambda asking: asking.installing is None)


def count_own_unflushed_log(patch: Patch) -> None:
    """The leader counts its own log before it is on disk."""
    patch.setattr(LocalLog, "durable_offset", property(lambda log: log.end.offset))


def commit_an_earlier_epoch(patch: Patch) -> None:
    """A leader commits by counting replicas of records that are not of its epoch."""

    def commit(asking: Quorum, leader: Leader) -> None:
        committed = leader.progress.committed_offset(asking.log.durable_offset)
        if committed and (leader.high_watermark is None or committed > leader.high_watermark):
            leader.high_watermark = committed
            asking.advance_high_watermark(committed)

    patch.setattr(leading, "commit", commit)


def commit_without_majority(patch: Patch) -> None:
    """Half of the voters count as a majority."""

    def committed_offset(self: Progress, leader_durable_offset: Offset) -> Offset | None:
        ends = [leader_durable_offset if self._is_leader(voter) else voter.end_offset for voter in self.voters]
        reported = sorted((end for end in ends if end is not None), reverse=True)
        majority = max(1, len(self.voters) // 2)
        return reported[majority - 1] if len(reported) >= majority else None

    patch.setattr(Progress, "committed_offset", committed_offset)


def win_without_majority(patch: Patch) -> None:
    """Half of the votes win an election."""
    patch.setattr(Ballot, "is_won", property(lambda ballot: sum(ballot._granted.values()) * 2 >= len(ballot._voters)))


def ignore_divergence(patch: Patch) -> None:
    """A leader takes every follower's log for a prefix of its own."""
    patch.setattr(leading, "compare_reader", lambda _log, _offset, _epoch: Matching())


def lead_again_after_restart(patch: Patch) -> None:
    """A leader that restarts goes on as if it had never led."""
    start = Quorum.start

    def start_as_candidate(self: Quorum) -> None:
        stored = self._stored
        if stored is not None and stored.leader_id == self.local.key.id:
            self._stored = QuorumState(stored.epoch, None, self.local.key, stored.voter_ids, stored.data_version)
        start(self)

    patch.setattr(Quorum, "start", start_as_candidate)


def change_voters_at_will(patch: Patch) -> None:
    """A change of voters does not wait for the one before it."""
    patch.setattr(membership, "_change_fault", lambda _asking: (ErrorCode.NONE, None))
    patch.setattr(VoterSet, "has_overlapping_majority", lambda _self, _other: True)


def keep_voters_after_truncation(patch: Patch) -> None:
    """A voter set stays in force although the record that named it was cut off."""
    patch.setattr(ControlHistory, "truncate_from", lambda _self, _offset: None)


def skip_the_pre_vote(patch: Patch) -> None:
    """A replica that misses its leader raises the epoch at once."""

    def become_candidate_at_once(self: Quorum) -> None:
        role = self.role
        ballot = Ballot(VoterSet(), self.local.key)
        self.role = Prospective(role.epoch, role.leader_id, role.leader_endpoints, role.voted_key, ballot, self.now_ms)
        self.become_candidate()

    patch.setattr(Quorum, "become_prospective", become_candidate_at_once)


MUTANTS: dict[str, Callable[[Patch], None]] = {
    mutant.__name__: mutant
    for mutant in (
        vote_twice,
        announce_before_saving,
        forget_the_vote,
        vote_for_a_shorter_log,
        acknowledge_before_flushing,
        count_own_unflushed_log,
        commit_an_earlier_epoch,
        commit_without_majority,
        win_without_majority,
        ignore_divergence,
        lead_again_after_restart,
        change_voters_at_will,
        keep_voters_after_truncation,
    )
}
