from __future__ import annotations

from tests.simulation.raft_cluster import LISTENER, endpoint, replica_key, voter
from tidelog.model.ids import NodeId
from tidelog.raft.voter_set import Endpoint, Node, ReplicaKey, VersionRange, Voter, VoterSet

THREE = VoterSet([voter(3), voter(1), voter(2)])


def test_voters_are_ordered_by_id() -> None:
    assert THREE.ids == (1, 2, 3)
    assert VoterSet([voter(1), voter(2), voter(3)]) == THREE
    assert hash(VoterSet([voter(1), voter(2), voter(3)])) == hash(THREE)


def test_a_voter_is_its_id_and_its_directory() -> None:
    assert THREE.is_voter(replica_key(1))
    assert not THREE.is_voter(replica_key(1, incarnation=1))
    assert not THREE.is_voter(ReplicaKey(NodeId(1)))
    assert not THREE.is_voter(replica_key(4))


def test_a_voter_whose_directory_is_not_known_is_any_with_its_id() -> None:
    static = VoterSet([Voter(ReplicaKey(NodeId(1)), (endpoint(1),))])

    assert static.is_voter(replica_key(1))
    assert static.is_only_voter(replica_key(1, incarnation=1))


def test_a_majority_is_more_than_half() -> None:
    assert [VoterSet(voter(other) for other in range(count)).majority for count in (1, 2, 3, 4, 5)] == [1, 2, 2, 3, 3]


def test_a_set_grows_and_shrinks_by_one() -> None:
    four = THREE.with_voter(voter(4))

    assert four is not None
    assert four.ids == (1, 2, 3, 4)
    assert four.without_voter(replica_key(2)) == VoterSet([voter(1), voter(3), voter(4)])


def test_an_id_cannot_be_added_twice_not_even_with_another_directory() -> None:
    assert THREE.with_voter(Voter(replica_key(1, incarnation=1), ())) is None


def test_only_a_voter_can_be_removed_and_never_the_last() -> None:
    assert THREE.without_voter(replica_key(4)) is None
    assert THREE.without_voter(replica_key(1, incarnation=1)) is None
    assert VoterSet([voter(1)]).without_voter(replica_key(1)) is None


def test_a_voter_is_updated_under_its_own_key_only() -> None:
    moved = Voter(replica_key(2), (Endpoint(LISTENER, "elsewhere", 1),))

    updated = THREE.with_updated_voter(moved)

    assert updated is not None
    assert updated.node(NodeId(2), LISTENER) == Node(NodeId(2), "elsewhere", 1)
    assert THREE.needs_update(moved)
    assert not updated.needs_update(moved)
    other_disk = Voter(replica_key(2, incarnation=1), moved.endpoints)
    assert THREE.with_updated_voter(other_disk) is None
    assert THREE.with_updated_voter(other_disk, any_directory=True) is not None
    assert not THREE.needs_update(other_disk)


def test_a_node_is_found_by_its_listener() -> None:
    assert THREE.node(NodeId(2), LISTENER) == Node(NodeId(2), "host-2", 9002)
    assert THREE.node(NodeId(2), "OTHER") is None
    assert THREE.node(NodeId(9), LISTENER) is None


def test_sets_that_differ_by_one_each_way_overlap() -> None:
    four = THREE.with_voter(voter(4))
    assert four is not None

    assert THREE.has_overlapping_majority(four)
    assert THREE.has_overlapping_majority(VoterSet([voter(1), voter(2), voter(4)]))
    assert not THREE.has_overlapping_majority(VoterSet([voter(1)]))
    assert not VoterSet([voter(1)]).has_overlapping_majority(THREE)


def test_a_version_is_supported_if_every_voter_supports_it() -> None:
    old = Voter(replica_key(4), (), VersionRange(0, 0))

    assert THREE.supports(1)
    assert not VoterSet([*THREE.voters, old]).supports(1)
