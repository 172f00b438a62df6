"""Where the replicas of new partitions go.

Racks come first: the replicas of a partition go to as many racks as there are. Then brokers: each takes its turn within its rack.
A broker that is fenced gets a replica only where its rack has no other left, and never the first one, which leads.

Successive partitions start one rack further on, and a rack's brokers lead in turn; where to begin is chance. After as many
partitions as there are brokers to lead them the order is shuffled: the next ones pair the brokers differently.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from random import Random

from msgspec import Struct

from tidelog.controller.decision import Refusal
from tidelog.controller.image import ClusterImage
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import NodeId


class UsableBroker(Struct, frozen=True):
    """A broker that may get replicas."""

    node_id: NodeId
    rack: str | None
    is_fenced: bool


def usable_brokers(image: ClusterImage) -> list[UsableBroker]:
    """All registered brokers but those on their way out, and those all of whose directories are closed to new replicas.

    A broker that has stopped is fenced and as good a place as any other that is down: it comes back and catches up.
    """
    return [
        UsableBroker(broker.node_id, broker.rack, broker.fenced)
        for broker in image.brokers.values()
        if (broker.fenced or not broker.in_controlled_shutdown)
        and not (broker.cordoned_directories and set(broker.log_directories) <= set(broker.cordoned_directories))
    ]


def place_replicas(
    brokers: Iterable[UsableBroker], *, partitions: int, replicas: int, random: Random
) -> list[list[NodeId]] | Refusal:
    """The replicas of each of so many partitions, the first of each one to lead."""
    usable = sorted(brokers, key=lambda broker: broker.node_id)
    active = sum(not broker.is_fenced for broker in usable)
    if active == 0:
        return _refused("All brokers are currently fenced.")
    if replicas > len(usable):
        return _refused(
            f"The target replication factor of {replicas} cannot be reached because only {len(usable)} "
            "broker(s) are registered or some brokers have all their log directories cordoned."
        )
    racks = _Racks(usable, random)
    placed: list[list[NodeId]] = []
    for number in range(partitions):
        if number and number % active == 0:
            racks.shuffle(random)
        placed.append(racks.place(replicas))
    return placed


def _refused(reason: str) -> Refusal:
    return Refusal(ErrorCode.INVALID_REPLICATION_FACTOR, reason)


class _Ring:
    """A ring of brokers: each partition visits every one at most once, from its own start on."""

    def __init__(self, nodes: Sequence[NodeId], random: Random) -> None:
        self._nodes = list(nodes)
        self._base = random.randrange(len(self._nodes)) if self._nodes else 0
        self._at = self._base
        self._left = 0

    def begin(self, turn: int) -> None:
        self._at = self._base + turn
        self._left = len(self._nodes)

    def take(self) -> NodeId | None:
        if not self._left:
            return None
        node = self._nodes[self._at % len(self._nodes)]
        self._at += 1
        self._left -= 1
        return node

    def shuffle(self, random: Random) -> None:
        random.shuffle(self._nodes)


class _Rack:
    def __init__(self, brokers: Sequence[UsableBroker], random: Random) -> None:
        self.active = _Ring([broker.node_id for broker in brokers if not broker.is_fenced], random)
        self._fenced = _Ring([broker.node_id for broker in brokers if broker.is_fenced], random)

    def begin(self, turn: int) -> None:
        self.active.begin(turn)
        self._fenced.begin(turn)

    def take(self) -> NodeId | None:
        node = self.active.take()
        return self._fenced.take() if node is None else node

    def shuffle(self, random: Random) -> None:
        self.active.shuffle(random)
        self._fenced.shuffle(random)


class _Racks:
    def __init__(self, brokers: Sequence[UsableBroker], random: Random) -> None:
        by_name: dict[str | None, list[UsableBroker]] = {}
        for broker in brokers:
            by_name.setdefault(broker.rack, []).append(broker)
        names = sorted(by_name, key=lambda name: (name is not None, name or ""))
        self._racks = [_Rack(by_name[name], random) for name in names]
        self._first = random.randrange(len(self._racks))
        self._count = 0

    def shuffle(self, random: Random) -> None:
        random.shuffle(self._racks)
        for rack in self._racks:
            rack.shuffle(random)

    def place(self, replicas: int) -> list[NodeId]:
        round_, turn = divmod(self._count, len(self._racks))
        self._count += 1
        first = (self._first + turn) % len(self._racks)
        order = self._racks[first:] + self._racks[:first]
        for distance, rack in enumerate(order):
            # A rack's brokers lead one after another, a round each; as followers they come in another order than as leaders, so
            # that those who follow one broker do not all lead beside each other.
            rack.begin(round_ + distance)
        leader_rack, leader = next((rack, node) for rack in order if (node := rack.active.take()) is not None)
        placed = [leader]
        following = [rack for rack in order if rack is not leader_rack] + [leader_rack]
        while True:
            for rack in following:
                if len(placed) == replicas:
                    return placed
                node = rack.take()
                if node is not None:
                    placed.append(node)
