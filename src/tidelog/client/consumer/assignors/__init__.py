"""How the leader of a classic group shares the partitions out. Each assignor is a pure function with a name.

range                partitions of each topic in runs, the same runs for topics with as many partitions
roundrobin           all partitions in turn
sticky               balanced, and as much as possible stays where it was; all is given up before a rebalance
cooperative-sticky   the same, in two steps: what moves is given up first, what stays is never interrupted
"""

from __future__ import annotations

from tidelog.client.consumer.assignors.assignor import Assignor
from tidelog.client.consumer.assignors.cooperative_sticky import CooperativeStickyAssignor
from tidelog.client.consumer.assignors.range import RangeAssignor
from tidelog.client.consumer.assignors.round_robin import RoundRobinAssignor
from tidelog.client.consumer.assignors.sticky import StickyAssignor

ASSIGNORS: dict[str, Assignor] = {
    each.name: each for each in (RangeAssignor(), RoundRobinAssignor(), StickyAssignor(), CooperativeStickyAssignor())
}

__all__ = [
    "ASSIGNORS",
    "Assignor",
    "CooperativeStickyAssignor",
    "RangeAssignor",
    "RoundRobinAssignor",
    "StickyAssignor",
]
