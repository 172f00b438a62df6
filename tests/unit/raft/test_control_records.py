from __future__ import annotations

import pytest

from tests.simulation.raft_cluster import voter
from tidelog.model.ids import NodeId, Offset
from tidelog.raft.control_records import ControlHistory, KRaftVersion, LeaderChange, Voters
from tidelog.raft.errors import InvariantError
from tidelog.raft.voter_set import VoterSet

ONE = VoterSet([voter(1)])
TWO = VoterSet([voter(1), voter(2)])
THREE = VoterSet([voter(1), voter(2), voter(3)])


def history() -> ControlHistory:
    """Static voters, then one, two and three of them in the log."""
    return ControlHistory(
        VoterSet([voter(9)]),
        [
            (Offset(3), KRaftVersion(1)),
            (Offset(4), Voters(ONE)),
            (Offset(10), Voters(TWO)),
            (Offset(20), Voters(THREE)),
        ],
    )


def test_static_voters_hold_as_long_as_the_log_names_none() -> None:
    empty = ControlHistory(ONE)

    assert empty.voters == ONE
    assert empty.voters_offset is None
    assert empty.former_voters is None
    assert empty.kraft_version == 0
    assert not empty.is_reconfigurable


def test_the_latest_set_holds_from_where_it_was_written() -> None:
    assert history().voters == THREE
    assert history().voters_offset == 20
    assert history().former_voters == TWO
    assert history().is_reconfigurable


def test_a_truncation_brings_the_set_before_back() -> None:
    cut = history()
    cut.truncate_from(Offset(20))
    assert cut.voters == TWO

    cut.truncate_from(Offset(3))
    assert cut.voters == VoterSet([voter(9)])
    assert cut.kraft_version == 0


def test_a_truncation_after_the_last_record_changes_nothing() -> None:
    cut = history()
    cut.truncate_from(Offset(21))

    assert cut.voters == THREE


def test_the_set_at_an_offset_is_the_last_one_written_by_then() -> None:
    assert [history().voters_at(Offset(at)) for at in (3, 4, 9, 10, 19, 20, 99)] == [
        None,
        ONE,
        ONE,
        TWO,
        TWO,
        THREE,
        THREE,
    ]
    assert [history().kraft_version_at(Offset(at)) for at in (2, 3)] == [0, 1]


def test_what_a_snapshot_made_superfluous_is_forgotten_but_not_what_holds() -> None:
    short = history()
    short.forget_before(Offset(15))

    assert short.voters_at(Offset(15)) == TWO
    assert short.voters_at(Offset(4)) is None
    assert short.kraft_version == 1
    assert short.voters == THREE


def test_a_snapshot_replaces_everything() -> None:
    replaced = history()
    replaced.replace([(Offset(99), KRaftVersion(1)), (Offset(99), Voters(ONE))])

    assert (replaced.voters, replaced.voters_offset) == (ONE, 99)


def test_a_leader_change_changes_no_voters() -> None:
    same = history()
    same.apply(Offset(30), LeaderChange(NodeId(1), (NodeId(1),), ()))

    assert same.voters_offset == 20


def test_a_set_that_differs_by_two_stops_the_node() -> None:
    with pytest.raises(InvariantError, match="more than one"):
        history().apply(Offset(30), Voters(ONE))


def test_the_first_set_may_replace_the_bootstrap_checkpoint_as_a_whole() -> None:
    bootstrap = ControlHistory(VoterSet(), [(Offset(-1), Voters(ONE))])
    bootstrap.apply(Offset(0), Voters(THREE))

    assert bootstrap.voters == THREE


def test_records_must_come_in_order() -> None:
    with pytest.raises(InvariantError, match="order"):
        history().apply(Offset(19), Voters(THREE))
