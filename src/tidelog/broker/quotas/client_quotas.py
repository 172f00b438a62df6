# cython: annotation_typing=False, auto_pickle=False, binding=False, nonecheck=True
"""Which limit a client has of one kind, and with whom it shares it: users, client ids, and the defaults of both.

The first limit that is set counts:

    user and client id · user and default client id · user · default user and client id · default user and default client id
    default user · client id · default client id

Who has it by user alone shares one account with everybody of that user, whatever their client ids; by client id alone, with
everybody of that client id; by both, with those who have both. As in Kafka's `ClientQuotaManager`, which of these it is follows
from all the limits that are set: a client that none of them is for is counted as well, and has no bound.

Accounts unused for an hour vanish.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum
from typing import NamedTuple, TypeAlias

from tidelog.broker.quotas.accounts import Account

# As Kafka's.
UNUSED_MS_MAX = 3_600_000
# How often those are looked for, at most.
EXPIRY_INTERVAL_MS = 30_000

# A client may call itself something else in every request. An account takes a kilobyte or two; beyond this many, those that were
# unused for the longest go first, a tenth at a time.
ACCOUNTS_MAX = 10_000


class Default(Enum):
    """Stands for every user or client id that has nothing of its own."""

    DEFAULT = "<default>"


DEFAULT = Default.DEFAULT
Name: TypeAlias = str | Default | None


class LimitOf(NamedTuple):
    """Whom a limit is for. None: whatever it is."""

    user: Name
    client_id: Name


class AccountName(NamedTuple):
    """Who shares an account. Empty: whatever it is."""

    user: str
    client_id: str


class ClientQuotas:
    """The limits of one kind, and the accounts of those that were seen.

    `generation` is another number whenever an account that was given out may not be the right one any more.
    """

    __slots__ = ("_accounts", "_expired_ms", "_kinds", "_limits", "_window_ms", "_windows", "generation", "is_on")

    def __init__(self, windows: int, window_ms: int) -> None:
        self._windows = windows
        self._window_ms = window_ms
        self._limits: Mapping[LimitOf, float] = {}
        # Whether there are limits by user and client id, by user, by client id.
        self._kinds = (False, False, False)
        self._accounts: dict[AccountName, Account] = {}
        self._expired_ms: int | None = None
        self.generation = 0
        self.is_on = False
        """Whether there is any limit: otherwise nobody is counted."""

    def __len__(self) -> int:
        return len(self._accounts)

    def accounts(self, now_ms: int) -> Iterable[tuple[AccountName, Account]]:
        """All that were used within the last hour."""
        self._expire(now_ms)
        return list(self._accounts.items())

    def set_limits(self, limits: Mapping[LimitOf, float]) -> None:
        """All limits of this kind. What was counted stays; new bounds hold for it."""
        self._limits = limits
        self._kinds = (
            any(of.user is not None and of.client_id is not None for of in limits),
            any(of.user is not None and of.client_id is None for of in limits),
            any(of.user is None and of.client_id is not None for of in limits),
        )
        self.is_on = bool(limits)
        self.generation += 1
        for name, account in self._accounts.items():
            account.bound = self._bound(name)

    def account(self, user: str, client_id: str, now_ms: int) -> Account:
        """The account of a client, which is made if there is none."""
        name = self._name(user, client_id)
        account = self._accounts.get(name)
        if account is None:
            self._expire(now_ms)
            if len(self._accounts) >= ACCOUNTS_MAX:
                self._drop_some()
            account = Account(self._windows, self._window_ms, self._bound(name), now_ms)
            self._accounts[name] = account
        return account

    def _name(self, user: str, client_id: str) -> AccountName:
        by_both, by_user, by_client_id = self._kinds
        if not by_both and not by_user:
            return AccountName("", client_id)
        if not by_both and not by_client_id:
            return AccountName(user, "")
        if not by_user and not by_client_id:
            return AccountName(user, client_id)
        limits = self._limits
        if LimitOf(user, client_id) in limits or LimitOf(user, DEFAULT) in limits:
            return AccountName(user, client_id)
        if LimitOf(user, None) in limits:
            return AccountName(user, "")
        if LimitOf(DEFAULT, client_id) in limits or LimitOf(DEFAULT, DEFAULT) in limits:
            return AccountName(user, client_id)
        if LimitOf(DEFAULT, None) in limits:
            return AccountName(user, "")
        return AccountName("", client_id)

    def _bound(self, name: AccountName) -> float | None:
        """By the account's name, as Kafka: a client without an id is not found among those by user and client id."""
        user, client_id = name
        asked: tuple[LimitOf, ...] = ()
        if user and client_id:
            asked = (
                LimitOf(user, client_id),
                LimitOf(user, DEFAULT),
                LimitOf(DEFAULT, client_id),
                LimitOf(DEFAULT, DEFAULT),
            )
        elif user:
            asked = (LimitOf(user, None), LimitOf(DEFAULT, None))
        elif client_id:
            asked = (LimitOf(None, client_id), LimitOf(None, DEFAULT))
        for of in asked:
            bound = self._limits.get(of)
            if bound is not None:
                return bound
        return None

    def _expire(self, now_ms: int) -> None:
        if self._expired_ms is not None and now_ms - self._expired_ms < EXPIRY_INTERVAL_MS:
            return
        self._expired_ms = now_ms
        unused = [name for name, each in self._accounts.items() if now_ms - each.used_ms > UNUSED_MS_MAX]
        self._drop(unused)

    def _drop_some(self) -> None:
        by_use = sorted(self._accounts, key=lambda name: self._accounts[name].used_ms)
        self._drop(by_use[: ACCOUNTS_MAX // 10])

    def _drop(self, names: list[AccountName]) -> None:
        for name in names:
            del self._accounts[name]
        if names:
            self.generation += 1
