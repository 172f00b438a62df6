"""The metadata quorum as an administrator sees it, looked at until it is as wanted."""

from __future__ import annotations

from collections.abc import Callable

from tests.support.cluster_load import wait_until
from tidelog import Admin
from tidelog.client.admin import QuorumDescription


def voters(quorum: QuorumDescription) -> list[int]:
    return [each.node_id for each in quorum.voters]


def until_quorum(admin: Admin, holds: Callable[[QuorumDescription], bool], what: str) -> QuorumDescription:
    found: list[QuorumDescription] = []

    def look() -> bool:
        found.append(admin.describe_quorum())
        return holds(found[-1])

    wait_until(look, what)
    return found[-1]


def is_caught_up(quorum: QuorumDescription, node_id: int) -> bool:
    """Whether an observer has what the leader has, or had when it last looked."""
    return any(each.node_id == node_id and each.last_caught_up_ms is not None for each in quorum.observers)
