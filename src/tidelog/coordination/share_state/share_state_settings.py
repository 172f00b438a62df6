"""How a share coordinator works, as the broker's configuration says."""

from __future__ import annotations

from msgspec import Struct


class ShareStateSettings(Struct, frozen=True):
    """The keys of the broker that concern the state of share partitions."""

    updates_per_snapshot: int = 500
    cold_snapshot_interval_ms: int = 300_000
