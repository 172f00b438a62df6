"""How fast connections may come, from where and through which listener."""

from __future__ import annotations

import pytest

from tidelog.net import connection_rates
from tidelog.net.connection_rates import NO_RATE, ConnectionRates, plain_address


def test_a_listener_waits_when_connections_come_faster_than_it_may_accept_them() -> None:
    rates = ConnectionRates()
    waits = [rates.accepted("CLIENTS", NO_RATE, 5, 0) for _ in range(52)]

    # Fifty in ten seconds; one more is a fifth of a second too early.
    assert waits == [0] * 50 + [200, 400]


def test_nobody_waits_for_longer_than_a_window() -> None:
    rates = ConnectionRates()

    assert max(rates.accepted("CLIENTS", NO_RATE, 1, 0) for _ in range(1_000)) == 1_000


def test_the_nodes_rate_counts_all_listeners_and_the_longer_wait_counts() -> None:
    rates = ConnectionRates()
    for _ in range(10):
        assert rates.accepted("A", 1, NO_RATE, 0) == 0

    assert rates.accepted("B", 1, 100, 0) == 1_000


def test_a_rate_of_nothing_waits_for_a_window_each_time() -> None:
    assert ConnectionRates().accepted("A", 0, NO_RATE, 0) == 1_000


def test_an_address_has_its_own_rate_or_that_of_all_others() -> None:
    rates = ConnectionRates()
    rates.limit_addresses({None: 1, "10.0.0.1": 2})

    assert [rates.from_address("10.0.0.1", 0) for _ in range(21)] == [0] * 20 + [500]
    assert [rates.from_address("10.0.0.2", 0) for _ in range(11)] == [0] * 10 + [1_000]


def test_what_is_too_much_was_not_counted() -> None:
    rates = ConnectionRates()
    rates.limit_addresses({None: 1})
    for _ in range(500):
        rates.from_address("10.0.0.1", 0)

    # Eleven seconds later the first ten are forgotten, and nothing else was there.
    assert rates.from_address("10.0.0.1", 11_000) == 0


def test_addresses_without_a_rate_are_not_kept() -> None:
    rates = ConnectionRates()
    rates.limit_addresses({"10.0.0.1": 1})

    assert rates.from_address("10.0.0.2", 0) == 0
    assert rates._addresses == {}


def test_an_address_of_many_does_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection_rates, "ADDRESSES_MAX", 3)
    rates = ConnectionRates()
    rates.limit_addresses({None: 1})
    for number in range(10):
        rates.from_address(f"10.0.0.{number}", 0)

    assert list(rates._addresses) == ["10.0.0.7", "10.0.0.8", "10.0.0.9"]
    rates.from_address("10.0.0.7", 4_000_000)
    assert list(rates._addresses) == ["10.0.0.7"]


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("::FFFF:10.0.0.1", "10.0.0.1"),
        ("0:0:0:0:0:0:0:1", "::1"),
        ("[::1]", "::1"),
        ("fe80::1%eth0", "fe80::1"),
        ("client", "client"),
    ],
)
def test_an_address_has_one_spelling(text: str, plain: str) -> None:
    assert plain_address(text) == plain
