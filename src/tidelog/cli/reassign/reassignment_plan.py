"""Where replicas should go when brokers come and go: as few of them as possible move.

    kept        every replica that is on a broker which stays, and in a rack of its own where that can be
    filled      what is missing goes to the broker that has least, of a rack that the partition is not in
    evened      from the broker that has most to the one that has least, one replica at a time, until they differ by one at most
    led         preferred leaders, which cost no copying, are evened the same way

Racks come first: no step puts a partition into fewer racks than it was in, even where brokers stay uneven by that. Of the
partitions that could move, one of the topic that is most uneven does. The same cluster gives the same plan.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeAlias

Place: TypeAlias = tuple[str, int]
Replicas: TypeAlias = tuple[int, ...]


class PlanError(Exception):
    """There is no such plan, in one sentence."""


@dataclass(frozen=True, slots=True)
class PlannedBroker:
    """A broker that may have replicas."""

    node_id: int
    rack: str | None = None


def plan_replicas(
    current: Mapping[Place, Replicas], brokers: Iterable[PlannedBroker], *, replication_factor: int | None = None
) -> dict[Place, Replicas]:
    """The partitions of `current` that change, with the replicas that they are to have on `brokers`.

    Each keeps as many replicas as it has, or gets `replication_factor`.
    """
    planner = _Planner(current, {broker.node_id: broker.rack for broker in brokers}, replication_factor)
    planner.keep()
    planner.fill()
    planner.spread_over_racks()
    planner.even_replicas()
    planner.even_leaders()
    return {place: replicas for place, replicas in planner.planned().items() if replicas != current[place]}


class _Planner:
    def __init__(
        self, current: Mapping[Place, Replicas], racks: Mapping[int, str | None], replication_factor: int | None
    ) -> None:
        self._current = dict(sorted(current.items()))
        self._racks = dict(sorted(racks.items()))
        self._factors = {place: replication_factor or len(replicas) for place, replicas in self._current.items()}
        self._wanted: dict[Place, list[int]] = {}
        self._load: Counter[int] = Counter(dict.fromkeys(self._racks, 0))
        self._topic_load: Counter[tuple[str, int]] = Counter()
        # In an order that does not depend on chance: dictionaries, not sets.
        self._on: dict[int, dict[str, dict[Place, None]]] = {broker: {} for broker in self._racks}
        for place, factor in self._factors.items():
            if factor > len(self._racks):
                topic, index = place
                raise PlanError(
                    f"{topic}-{index} is to have {factor} replicas, and there are {len(self._racks)} brokers for them: "
                    "name more brokers, or lower --replication-factor"
                )

    def planned(self) -> dict[Place, Replicas]:
        return {place: tuple(replicas) for place, replicas in self._wanted.items()}

    # --- the steps ---------------------------------------------------------------------------------------------------------

    def keep(self) -> None:
        for place, replicas in self._current.items():
            self._wanted[place] = []
            for replica in replicas:
                if replica in self._racks:
                    self._add(place, replica)
        for place, wanted in self._wanted.items():
            while len(wanted) > self._factors[place]:
                # Not the leader; else whoever shares a rack, and of those whoever has most.
                self._drop(
                    place, max(wanted[1:], key=lambda node: (self._sharing(place, node), self._load[node], node))
                )

    def fill(self) -> None:
        for place, wanted in self._wanted.items():
            while len(wanted) < self._factors[place]:
                others = [node for node in self._racks if node not in wanted]
                self._add(place, min(others, key=lambda node: (self._sharing(place, node), self._load[node], node)))

    def spread_over_racks(self) -> None:
        """Repair what others have placed without regard to racks."""
        for place, wanted in self._wanted.items():
            while self._rack_count(wanted) < min(len(wanted), len(set(self._racks.values()))):
                used = {self._racks[node] for node in wanted}
                free = [node for node, rack in self._racks.items() if rack not in used]
                doubled = [node for node in wanted if self._sharing(place, node)]
                source = max(doubled, key=lambda node: (wanted.index(node) > 0, self._load[node], node))
                self._move(place, source, min(free, key=lambda node: (self._load[node], node)))

    def even_replicas(self) -> None:
        def move(source: int, target: int) -> bool:
            place = self._best_move(source, target)
            if place is not None:
                self._move(place, source, target)
            return place is not None

        self._even(self._load, self._can_move, move)

    def even_leaders(self) -> None:
        leaders: Counter[int] = Counter(dict.fromkeys(self._racks, 0))
        led: dict[int, dict[Place, None]] = {node: {} for node in self._racks}
        for place, wanted in self._wanted.items():
            leaders[wanted[0]] += 1
            led[wanted[0]][place] = None

        def move(source: int, target: int) -> bool:
            place = next((each for each in led[source] if target in self._wanted[each]), None)
            if place is None:
                return False
            wanted = self._wanted[place]
            wanted.remove(target)
            wanted.insert(0, target)
            del led[source][place]
            led[target][place] = None
            leaders[source] -= 1
            leaders[target] += 1
            return True

        self._even(leaders, lambda source, target: any(target in self._wanted[each] for each in led[source]), move)

    def _even(
        self,
        counts: Counter[int],
        can_move: Callable[[int, int], bool],
        move: Callable[[int, int], bool],
    ) -> None:
        """Move one at a time from who has most to who has least, along others where the two have nothing to exchange."""
        # Each round brings two brokers nearer to each other; the bound is for what cannot be evened out.
        for _ in range(sum(counts.values()) + 1):
            chain = _shortest_chain(counts, can_move)
            if chain is None:
                return
            # From the end: who passes something on does so before it gets something.
            for source, target in reversed(list(pairwise(chain))):
                if not move(source, target):
                    return

    # --- moving ------------------------------------------------------------------------------------------------------------

    def _best_move(self, source: int, target: int) -> Place | None:
        """The partition whose replica goes best from one broker to another; None where none can."""

        def surplus(topic: str) -> int:
            return self._topic_load[topic, source] - self._topic_load[topic, target]

        on_source = self._on[source]
        topic = max(on_source, key=surplus, default="")
        place = self._movable(on_source.get(topic, {}), source, target)
        if place is not None:
            return place
        others = sorted(on_source, key=surplus, reverse=True)
        found = (self._movable(on_source[topic], source, target) for topic in others)
        return next((place for place in found if place is not None), None)

    def _can_move(self, source: int, target: int) -> bool:
        return any(self._movable(places, source, target) is not None for places in self._on[source].values())

    def _movable(self, places: dict[Place, None], source: int, target: int) -> Place | None:
        """One of the partitions of a topic on a broker that may move, best one that the broker does not lead."""
        led: Place | None = None
        passed: list[Place] = []
        found: Place | None = None
        for place in places:
            if self._may_move(place, source, target):
                if self._wanted[place][0] != source:
                    found = place
                    break
                led = led or place
            passed.append(place)
        # What has been looked at in vain comes last next time: else thousands of them are looked at for each move.
        for place in passed:
            del places[place]
            places[place] = None
        return found or led

    def _may_move(self, place: Place, source: int, target: int) -> bool:
        wanted = self._wanted[place]
        if target in wanted:
            return False
        swapped = [target if node == source else node for node in wanted]
        return self._rack_count(swapped) >= self._rack_count(wanted)

    def _move(self, place: Place, source: int, target: int) -> None:
        wanted = self._wanted[place]
        position = wanted.index(source)
        self._drop(place, source)
        # A broker that has everything already goes on leading.
        self._add(place, target, position or len(wanted))

    def _add(self, place: Place, node: int, position: int | None = None) -> None:
        wanted = self._wanted[place]
        wanted.insert(len(wanted) if position is None else position, node)
        self._load[node] += 1
        self._topic_load[place[0], node] += 1
        self._on[node].setdefault(place[0], {})[place] = None

    def _drop(self, place: Place, node: int) -> None:
        self._wanted[place].remove(node)
        self._load[node] -= 1
        self._topic_load[place[0], node] -= 1
        del self._on[node][place[0]][place]

    def _sharing(self, place: Place, node: int) -> int:
        """How many other replicas of a partition are in the rack of a broker."""
        return sum(self._racks[other] == self._racks[node] for other in self._wanted[place] if other != node)

    def _rack_count(self, replicas: Iterable[int]) -> int:
        return len({self._racks[node] for node in replicas})


def _shortest_chain(counts: Counter[int], can_move: Callable[[int, int], bool]) -> list[int] | None:
    """Brokers of which each can give something to the next, from one that has at least two more than the last one."""
    for source in sorted(counts, key=lambda node: (-counts[node], node)):
        if counts[source] - min(counts.values()) < 2:
            return None
        came_from: dict[int, int | None] = {source: None}
        queue = deque([source])
        while queue:
            node = queue.popleft()
            for other in sorted(counts, key=lambda each: (counts[each], each)):
                if other in came_from or not can_move(node, other):
                    continue
                came_from[other] = node
                if counts[source] - counts[other] >= 2:
                    return _back_to_the_start(other, came_from)
                queue.append(other)
    return None


def _back_to_the_start(last: int, came_from: Mapping[int, int | None]) -> list[int]:
    chain = [last]
    while (before := came_from[chain[-1]]) is not None:
        chain.append(before)
    return chain[::-1]
