"""What waits for a tab that watches a partition."""

from __future__ import annotations

import asyncio

import pytest

from tidelog.console.xray import partition_feed
from tidelog.console.xray.partition_feed import Watcher


def taken(watcher: Watcher) -> list[tuple[str, object]]:
    return asyncio.run(asyncio.wait_for(watcher.next(), 5))


def test_a_tab_that_does_not_read_keeps_one_of_each_that_tells_how_it_is_now() -> None:
    watcher = Watcher()
    for number in range(20_000):
        watcher.put(("state", {"partition": {"hw": number}, "sources": []}))
        watcher.put(("source", {"source": f"node {number % 3}", "traced": bool(number % 2)}))
    told = taken(watcher)
    assert [name for name, _ in told] == ["source", "source", "state", "source"]
    assert ("state", {"partition": {"hw": 19_999}, "sources": []}) in told


def test_a_tab_that_does_not_read_learns_how_many_it_has_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partition_feed, "WAITING_MAX", 10)
    watcher = Watcher()
    for number in range(25):
        watcher.put(("gap", {"node": 1, "dropped": number, "reason": "it fell behind"}))
    *kept, last = taken(watcher)
    assert len(kept) == 10
    assert last == ("gap", {"node": None, "dropped": 15, "reason": "more happened than this window takes"})
