"""Names of hosts that were looked up."""

from __future__ import annotations

from tidelog.broker.cluster.known_hosts import NAMES_MAX, REMEMBERED_MAX, KnownHosts, is_resolved
from tidelog.model.slow_work import InlineSlowWork


def test_what_was_found_is_known_until_it_is_found_no_more() -> None:
    there = {"a", "b"}
    hosts = KnownHosts(InlineSlowWork(), there.__contains__)

    assert hosts.look_up(["a", "c"]).is_complete

    assert ["a" in hosts, "b" in hosts, "c" in hosts] == [True, False, False]
    there.clear()
    hosts.look_up(["a"])
    assert "a" not in hosts


def test_a_request_cannot_have_any_number_of_names_looked_up_nor_remembered() -> None:
    asked: list[str] = []

    def found(name: str) -> bool:
        asked.append(name)
        return True

    hosts = KnownHosts(InlineSlowWork(), found)

    hosts.look_up([str(each) for each in range(NAMES_MAX + 1)])

    assert len(asked) == NAMES_MAX
    assert str(NAMES_MAX) not in hosts
    for number in range(REMEMBERED_MAX):
        hosts.look_up([f"host-{number}"])
    assert ["0" in hosts, "host-0" in hosts] == [False, True]


def test_the_systems_resolver_is_asked() -> None:
    assert is_resolved("localhost")
    # RFC 2606: there is never such a host.
    assert not is_resolved("nowhere.invalid")
    assert not is_resolved("x" * 300)
