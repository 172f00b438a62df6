"""How partitions are shared among the members of a group: pure functions, by the names that a member may ask for."""

from __future__ import annotations

from collections.abc import Mapping

from tidelog.coordination.consumer.assignors.range import assign_ranges
from tidelog.coordination.consumer.assignors.subscription import Assignor
from tidelog.coordination.consumer.assignors.uniform import assign_uniformly

ASSIGNORS: Mapping[str, Assignor] = {"uniform": assign_uniformly, "range": assign_ranges}
