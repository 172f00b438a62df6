"""What an assignor is given, and what it returns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from tidelog.model.ids import TopicId

Assignment = Mapping[TopicId, tuple[int, ...]]
"""Partitions by topic, in ascending order; no topic without partitions. Never changed once it is made."""

NOTHING: Assignment = {}


class Subscription(NamedTuple):
    """A member, as far as its share depends on it."""

    instance_id: str | None
    topics: tuple[TopicId, ...]
    """Those that exist, each once, in ascending order."""
    assignment: Assignment
    """What it was meant to have so far."""


Assignor = Callable[[Mapping[str, Subscription], Mapping[TopicId, int]], dict[str, Assignment]]
"""Subscriptions by member id, and how many partitions each of their topics has; returns an assignment for every member."""


def sort_by_topic(partitions: Mapping[TopicId, list[int]]) -> Assignment:
    """An assignment from partitions in any order."""
    return {topic: tuple(sorted(partitions[topic])) for topic in sorted(partitions) if partitions[topic]}
