"""What clients may have changed of topics and partitions, for the controller of this node while it is the active one."""

from __future__ import annotations

from collections.abc import Callable

from tidelog.broker.quotas.accounts import Account
from tidelog.broker.quotas.client_quotas import ClientQuotas


class TakenMutations:
    """What one request takes. Strict: what is too much is not done; otherwise it is, and paid for afterwards."""

    __slots__ = ("_account", "_is_strict", "_now_ms", "throttle_ms")

    def __init__(self, account: Account, is_strict: bool, now_ms: Callable[[], int]) -> None:
        self._account = account
        self._is_strict = is_strict
        self._now_ms = now_ms
        self.throttle_ms = 0

    def take(self, partitions: int) -> bool:
        now_ms = self._now_ms()
        if not self._is_strict:
            self.throttle_ms = self._account.take(partitions, now_ms)
            return True
        waits_ms = self._account.take_if_paid(partitions, now_ms)
        if waits_ms is None:
            return True
        self.throttle_ms = waits_ms
        return False


class MutationQuotas:
    """`MutationLimits` by the quotas of a node."""

    def __init__(self, quotas: ClientQuotas, now_ms: Callable[[], int]) -> None:
        self._quotas = quotas
        self._now_ms = now_ms

    def of(self, user: str, client_id: str | None, *, is_strict: bool) -> TakenMutations | None:
        if not self._quotas.is_on:
            return None
        return TakenMutations(self._quotas.account(user, client_id or "", self._now_ms()), is_strict, self._now_ms)
