"""How a coordinator of transactions works, as the broker's configuration and the cluster's features say."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct


class TransactionSettings(Struct, frozen=True):
    """The keys of the broker that concern transactions, and the level of the feature `transaction.version`."""

    max_timeout_ms: int = 900_000
    transactional_id_expiration_ms: int = 7 * 24 * 3_600_000
    remove_expired_interval_ms: int = 3_600_000
    abort_timed_out_interval_ms: int = 10_000
    is_two_phase_commit_enabled: bool = False
    transaction_version: Callable[[], int] = lambda: 2
    """The level that is in force now; it may rise while the coordinator works."""
