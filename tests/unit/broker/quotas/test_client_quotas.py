"""Which limit a client has, whom it shares its account with, and when accounts vanish."""

from __future__ import annotations

import pytest

from tests.support.quota_traces import played, recorded
from tidelog.broker.quotas import client_quotas
from tidelog.broker.quotas.client_quotas import DEFAULT, UNUSED_MS_MAX, ClientQuotas, LimitOf

# In the order of precedence: the bound says which it is.
LIMITS = {
    LimitOf("u", "c"): 1.0,
    LimitOf("u", DEFAULT): 2.0,
    LimitOf("u", None): 3.0,
    LimitOf(DEFAULT, "c"): 4.0,
    LimitOf(DEFAULT, DEFAULT): 5.0,
    LimitOf(DEFAULT, None): 6.0,
    LimitOf(None, "c"): 7.0,
    LimitOf(None, DEFAULT): 8.0,
}


def quotas_of(limits: dict[LimitOf, float]) -> ClientQuotas:
    quotas = ClientQuotas(windows=11, window_ms=1000)
    quotas.set_limits(limits)
    return quotas


@pytest.mark.parametrize("place", range(8))
def test_the_most_specific_limit_counts(place: int) -> None:
    limits = dict(list(LIMITS.items())[place:])

    assert quotas_of(limits).account("u", "c", 0).bound == place + 1


def test_throttle_times_are_kafkas_on_recorded_traces() -> None:
    traces = recorded()

    for trace, kafka in traces:
        assert played(trace) == kafka

    assert len(traces) >= 300
    assert sum(number > 0 for _, kafka in traces for number in kafka) > 2_000


@pytest.mark.parametrize(
    ("limits", "is_by_user", "is_by_client_id"),
    [
        ({LimitOf("u", None): 1.0}, True, False),
        ({LimitOf(DEFAULT, None): 1.0}, True, False),
        ({LimitOf(None, "c"): 1.0}, False, True),
        ({LimitOf(None, DEFAULT): 1.0}, False, True),
        ({LimitOf("u", "c"): 1.0}, True, True),
        ({LimitOf(DEFAULT, DEFAULT): 1.0}, True, True),
    ],
)
def test_an_account_is_shared_by_whoever_has_the_same_limit(
    limits: dict[LimitOf, float], is_by_user: bool, is_by_client_id: bool
) -> None:
    quotas = quotas_of(limits)

    account = quotas.account("u", "c", 0)

    assert (quotas.account("other", "c", 0) is not account) == is_by_user
    assert (quotas.account("u", "other", 0) is not account) == is_by_client_id


def test_a_user_that_is_called_like_the_default_is_not_the_default() -> None:
    quotas = quotas_of({LimitOf(DEFAULT, None): 1.0})
    quotas.set_limits({LimitOf("<default>", None): 2.0, LimitOf(DEFAULT, None): 1.0})

    assert quotas.account("<default>", "", 0).bound == 2.0
    assert quotas.account("u", "", 0).bound == 1.0


def test_a_client_that_no_limit_is_for_is_counted_without_a_bound() -> None:
    quotas = quotas_of({LimitOf(None, "c"): 1.0})

    account = quotas.account("u", "other", 0)

    assert account.record(10**9, 0) == 0
    assert account.per_second(0) > 0


def test_what_was_counted_meets_a_limit_that_is_set_later() -> None:
    quotas = quotas_of({LimitOf(None, "c"): 1.0})
    quotas.account("u", "d", 0).record(20_000, 0)

    quotas.set_limits({LimitOf(None, "c"): 1.0, LimitOf(None, "d"): 1_000.0})

    assert quotas.account("u", "d", 0).record(0, 0) == 10_000


def test_without_limits_it_is_off() -> None:
    quotas = quotas_of({LimitOf(None, "c"): 1.0})
    assert quotas.is_on

    quotas.set_limits({})

    assert not quotas.is_on


def test_an_account_unused_for_an_hour_vanishes() -> None:
    quotas = quotas_of({LimitOf(None, DEFAULT): 1.0})
    quotas.account("u", "old", 0).record(1, 0)
    quotas.account("u", "used", 0).record(1, UNUSED_MS_MAX)
    generation = quotas.generation

    quotas.account("u", "new", UNUSED_MS_MAX + 1)

    assert len(quotas) == 2
    assert quotas.generation != generation
    assert [name.client_id for name, _ in quotas.accounts(UNUSED_MS_MAX + 1)] == ["used", "new"]


def test_a_client_of_many_names_does_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_quotas, "ACCOUNTS_MAX", 20)
    quotas = quotas_of({LimitOf(None, DEFAULT): 1.0})
    kept = quotas.account("u", "kept", 0)

    for number in range(200):
        kept.record(1, number)
        quotas.account("u", f"c{number}", number)

    assert len(quotas) <= 20
    assert quotas.account("u", "kept", 200) is kept
