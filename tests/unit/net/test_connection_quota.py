from __future__ import annotations

from tidelog.net.connection_quota import Admission, ConnectionQuota


def quota(connections_max: int = 100, per_ip_max: int = 100, **overrides: int) -> ConnectionQuota:
    made = ConnectionQuota(connections_max, per_ip_max, overrides)
    made.add_listener("CLIENTS")
    return made


def test_the_nodes_limit_counts_all_listeners() -> None:
    node = quota(connections_max=2)
    node.add_listener("OTHERS")
    node.admit("CLIENTS", "a")
    assert node.has_room("OTHERS")
    node.admit("OTHERS", "b")
    assert not node.has_room("CLIENTS")
    assert not node.has_room("OTHERS")

    node.release("OTHERS", "b")

    assert node.has_room("CLIENTS")


def test_a_listener_may_have_a_limit_of_its_own() -> None:
    node = quota()
    node.add_listener("SMALL", 1)
    node.admit("SMALL", "a")
    assert not node.has_room("SMALL")
    assert node.has_room("CLIENTS")


def test_an_address_has_its_limit_and_may_have_another() -> None:
    node = quota(per_ip_max=1, special=2)
    assert node.admit("CLIENTS", "a") is Admission.ADMITTED
    assert node.admit("CLIENTS", "a") is Admission.REFUSED
    assert node.admit("CLIENTS", "b") is Admission.ADMITTED
    assert node.admit("CLIENTS", "special") is Admission.ADMITTED
    assert node.admit("CLIENTS", "special") is Admission.ADMITTED
    assert node.admit("CLIENTS", "special") is Admission.REFUSED
    assert (node.count, node.connections_from("special")) == (4, 2)

    node.release("CLIENTS", "a")

    assert node.admit("CLIENTS", "a") is Admission.ADMITTED


def test_the_clusters_own_listener_is_never_kept_out_by_others() -> None:
    node = quota(connections_max=1)
    node.add_listener("REPLICATION", 2, protected=True)
    node.admit("CLIENTS", "a")
    assert node.has_room("REPLICATION")
    assert node.admit("REPLICATION", "b") is Admission.ADMITTED_FOR_ANOTHER
    node.release("CLIENTS", "a")
    node.admit("REPLICATION", "b")
    # Its own limit holds all the same.
    assert not node.has_room("REPLICATION")


def test_a_single_listener_has_nothing_to_be_protected_from() -> None:
    node = ConnectionQuota(1, 100, {})
    node.add_listener("ONLY", protected=True)
    node.admit("ONLY", "a")
    assert not node.has_room("ONLY")
