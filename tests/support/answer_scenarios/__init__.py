"""What is asked of a node to record its answers; each module is one conversation, `tell` is its story."""

from __future__ import annotations

SCENARIOS = ("produce", "fetch", "fetch_sessions", "groups", "transactions")
