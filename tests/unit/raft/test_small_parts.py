"""Outbox, connections, the local log, the ballot and the replicas' progress."""

from __future__ import annotations

import pytest

from tests.simulation.raft_cluster import replica_key, voter
from tests.simulation.raft_disk import Disk
from tests.unit.raft.bench import batch, position, state
from tidelog.model.ids import LeaderEpoch, NodeId, Offset
from tidelog.raft.ballot import Ballot
from tidelog.raft.connections import Connections
from tidelog.raft.effects import AdvanceHighWatermark, SaveQuorumState
from tidelog.raft.errors import InvariantError
from tidelog.raft.local_log import LocalLog
from tidelog.raft.outbox import Outbox
from tidelog.raft.progress import CAUGHT_UP_WITHIN_MS, OBSERVER_SESSION_TIMEOUT_MS, OBSERVERS_MAX, Progress
from tidelog.raft.voter_set import ReplicaKey, VoterSet

THREE = VoterSet([voter(1), voter(2), voter(3)])
ONE, TWO, THIRD = NodeId(1), NodeId(2), NodeId(3)


def moved(offset: int) -> AdvanceHighWatermark:
    return AdvanceHighWatermark(Offset(offset))


def test_nothing_leaves_behind_a_save_until_it_is_done() -> None:
    outbox = Outbox()
    outbox.emit(moved(1))
    outbox.save(state(1))
    outbox.emit(moved(2))
    outbox.save(state(2))
    outbox.emit(moved(3))

    assert outbox.drain() == [moved(1), SaveQuorumState(1, state(1))]
    assert (outbox.drain(), outbox.held) == ([], 3)
    outbox.saved(1)
    assert outbox.drain() == [moved(2), SaveQuorumState(2, state(2))]
    outbox.saved(2)
    assert outbox.drain() == [moved(3)]


def test_a_save_that_was_not_ordered_stops_the_node() -> None:
    outbox = Outbox()
    outbox.save(state(1))
    outbox.drain()

    with pytest.raises(InvariantError):
        outbox.saved(2)


def test_a_peer_is_asked_one_thing_at_a_time() -> None:
    connections = Connections(request_timeout_ms=100, retry_backoff_ms=10)
    request_id = connections.sent(TWO, now_ms=0)

    assert not connections.is_ready(TWO)
    assert connections.is_ready(THIRD)
    assert connections.is_any_awaited
    assert connections.answered(request_id) == TWO
    assert connections.is_ready(TWO)


def test_an_answer_that_nobody_waits_for_is_nobodys() -> None:
    connections = Connections(100, 10)
    request_id = connections.sent(TWO, now_ms=0)
    connections.reset()

    assert connections.answered(request_id) is None
    assert connections.failed(request_id, 5) is None


def test_a_peer_that_failed_is_left_alone_for_a_while() -> None:
    connections = Connections(100, 10)
    connections.failed(connections.sent(TWO, now_ms=0), now_ms=5)

    assert connections.is_backing_off(TWO)
    assert connections.deadline_ms == 15
    connections.expire(14)
    assert not connections.is_ready(TWO)
    connections.expire(15)
    assert connections.is_ready(TWO)


def test_an_answer_that_is_overdue_counts_as_a_failure() -> None:
    connections = Connections(100, 10)
    request_id = connections.sent(TWO, now_ms=0)
    connections.expire(100)

    assert connections.is_backing_off(TWO)
    assert connections.answered(request_id) is None


def local_log() -> LocalLog:
    disk = Disk()
    disk.append((batch(0, 5, 1), batch(5, 9, 2)))
    return LocalLog(disk)


def test_what_was_there_at_the_start_is_durable() -> None:
    log = local_log()

    assert log.end == log.durable_end() == position(9, 2)


def test_an_append_counts_when_its_flush_is_done() -> None:
    log = local_log()
    log.appended(Offset(12), LeaderEpoch(3))
    flush_id = log.flush_ordered()
    log.appended(Offset(15), LeaderEpoch(3))

    assert log.durable_end() == position(9, 2)
    log.flushed(flush_id)
    assert log.durable_offset == 12
    assert not log.is_durable


def test_a_flush_covers_those_ordered_before_and_may_come_again() -> None:
    log = local_log()
    flush_ids = []
    for next_offset in (10, 11, 12):
        log.appended(Offset(next_offset), LeaderEpoch(3))
        flush_ids.append(log.flush_ordered())
    log.flushed(flush_ids[1])
    log.flushed(flush_ids[0])

    assert log.durable_offset == 11


def test_a_flush_does_not_cover_what_was_written_in_place_of_what_it_was_ordered_for() -> None:
    log = local_log()
    log.appended(Offset(12), LeaderEpoch(3))
    flush_id = log.flush_ordered()
    log.truncated(Offset(5))
    log.appended(Offset(20), LeaderEpoch(4))
    log.flushed(flush_id)

    assert log.durable_offset == 5


def test_a_truncation_takes_the_durable_end_along() -> None:
    log = local_log()
    log.truncated(Offset(5))

    assert log.end == log.durable_end() == position(5, 1)


def test_a_snapshot_in_place_of_the_log_is_durable() -> None:
    log = local_log()
    log.appended(Offset(12), LeaderEpoch(3))
    flush_id = log.flush_ordered()
    log.replaced(position(40, 6))
    log.flushed(flush_id)

    assert log.end == log.durable_end() == position(40, 6)


@pytest.mark.parametrize(("next_offset", "epoch"), [(9, 2), (10, 1)])
def test_a_log_does_not_go_back_by_appending(next_offset: int, epoch: int) -> None:
    with pytest.raises(InvariantError):
        local_log().appended(Offset(next_offset), LeaderEpoch(epoch))


def test_a_majority_wins() -> None:
    ballot = Ballot(THREE, replica_key(1))
    before = ballot.is_won
    ballot.record(TWO, granted=True)

    assert (before, ballot.is_won) == (False, True)
    assert ballot.granting_voters == (1, 2)


def test_an_election_is_lost_when_the_rest_cannot_make_a_majority() -> None:
    ballot = Ballot(THREE, replica_key(1))
    ballot.record(TWO, granted=False)
    before = ballot.is_lost
    ballot.record(THIRD, granted=False)

    assert (before, ballot.is_lost) == (False, True)
    assert ballot.unanswered == ()


def test_a_voter_that_is_gone_makes_an_election_hopeless_but_not_lost() -> None:
    ballot = Ballot(THREE, replica_key(1))
    ballot.record(TWO, granted=False)
    ballot.record_unreachable(THIRD)

    assert ballot.is_hopeless
    assert not ballot.is_lost
    ballot.record(THIRD, granted=True)
    assert ballot.is_won


def test_strangers_do_not_vote_and_neither_does_one_that_was_removed() -> None:
    ballot = Ballot(VoterSet([voter(2), voter(3)]), replica_key(1))
    ballot.record(NodeId(9), granted=True)
    ballot.record(TWO, granted=True)
    before = ballot.is_won
    ballot.record(THIRD, granted=True)

    assert (before, ballot.is_won) == (False, True)


def progress_of(**ends: int) -> Progress:
    progress = Progress(THREE, replica_key(1))
    for name, end in ends.items():
        progress.fetched(replica_key(int(name[1:])), Offset(end), Offset(100), now_ms=1)
    return progress


@pytest.mark.parametrize(
    ("ends", "own", "committed"),
    [
        ({}, 100, None),
        ({"n2": 40}, 100, 40),
        ({"n2": 40, "n3": 70}, 100, 70),
        ({"n2": 40, "n3": 70}, 50, 50),
        ({"n2": 40, "n3": 70}, 10, 40),
    ],
)
def test_a_majority_has_committed_what_its_last_member_has(
    ends: dict[str, int], own: int, committed: int | None
) -> None:
    assert progress_of(**ends).committed_offset(Offset(own)) == committed


def test_a_leader_that_is_no_voter_does_not_count_itself() -> None:
    progress = progress_of(n2=40, n3=70)
    progress.use_voters(VoterSet([voter(2), voter(3)]))

    assert not progress.is_leader_voter
    assert progress.committed_offset(Offset(100)) == 40


def test_a_replica_keeps_its_progress_when_it_becomes_a_voter_and_back() -> None:
    progress = progress_of(n2=40, n4=60)
    four = THREE.with_voter(voter(4))
    assert four is not None
    progress.use_voters(four)
    assert progress.committed_offset(Offset(100)) == 40

    progress.use_voters(THREE)
    assert [(known.key, known.end_offset) for known in progress.observers] == [(replica_key(4), 60)]


def test_a_voter_with_another_disk_starts_from_nothing() -> None:
    progress = progress_of(n2=40)
    progress.fetched(replica_key(2, incarnation=1), Offset(99), Offset(100), now_ms=2)

    assert progress.committed_offset(Offset(100)) == 40
    assert [known.key for known in progress.observers] == [replica_key(2, incarnation=1)]


def test_successors_are_ordered_by_their_log() -> None:
    assert progress_of(n3=70).successors() == (replica_key(3), replica_key(2))
    assert progress_of(n2=70, n3=70).successors() == (replica_key(2), replica_key(3))


def test_a_replica_is_caught_up_that_has_what_was_there_when_it_asked_before() -> None:
    progress = Progress(THREE, replica_key(1))
    observer = replica_key(4)
    progress.fetched(observer, Offset(50), Offset(100), now_ms=10)
    assert not progress.is_caught_up(observer, 10)
    progress.fetched(observer, Offset(100), Offset(120), now_ms=20)

    assert progress.is_caught_up(observer, 20)
    assert progress.observers[0].last_caught_up_ms == 10
    assert not progress.is_caught_up(observer, 20 + CAUGHT_UP_WITHIN_MS)


def test_observers_are_forgotten_when_they_are_silent_or_too_many() -> None:
    progress = progress_of(n4=1)
    counts = []
    for now_ms in (OBSERVER_SESSION_TIMEOUT_MS, OBSERVER_SESSION_TIMEOUT_MS + 1):
        progress.forget_silent_observers(now_ms)
        counts.append(len(progress.observers))
    assert counts == [1, 0]

    for number in range(OBSERVERS_MAX + 5):
        progress.fetched(ReplicaKey(NodeId(100 + number)), Offset(1), Offset(1), now_ms=1)
    assert len(progress.observers) == OBSERVERS_MAX
    assert progress.observers[0].key.id == 105


def test_silent_voters_are_those_that_did_not_fetch_for_a_while() -> None:
    progress = progress_of(n2=40)

    assert progress.silent_voters(now_ms=50, interval_ms=100) == (replica_key(3),)
    assert progress.silent_voters(now_ms=101, interval_ms=100) == (replica_key(2), replica_key(3))
