"""What is behind an embedded cluster: for tests that break a node from inside."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, TypeVar

from tidelog.broker.node.node import BrokerNode
from tidelog.testing import EmbeddedCluster

T = TypeVar("T")


def nodes_of(cluster: EmbeddedCluster) -> list[BrokerNode]:
    """Its nodes, in the order of their numbers."""
    assert cluster._hosted is not None
    return [each.node for _, each in sorted(cluster._hosted._hosted.items())]


def call_on(cluster: EmbeddedCluster, work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine on the thread of its nodes."""
    assert cluster._thread is not None
    return cluster._thread.call(work)
