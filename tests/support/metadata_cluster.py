"""Several nodes' parts in the cluster's metadata, joined by messages in memory, on one virtual time."""

from __future__ import annotations

from collections.abc import Callable

from tests.support.metadata_node import MetadataNode, quorum_endpoint
from tidelog.model.ids import DirectoryId, NodeId
from tidelog.raft.messages import Request, Response
from tidelog.raft.voter_set import Node, ReplicaKey, Voter, VoterSet
from tidelog.simulation.disk import SimulatedDisk
from tidelog.simulation.loop import VirtualTimeLoop

_LATENCY_S = 0.001
_PATIENCE_MS = 30_000


class MetadataCluster:
    """Voters 1 to n. A node that is down, or cut off, answers nothing."""

    def __init__(self, size: int = 3, config: dict[str, str] | None = None) -> None:
        self.loop = VirtualTimeLoop()
        self.cut_off: set[int] = set()
        self.sent = 0
        voters = VoterSet(
            Voter(ReplicaKey(NodeId(node), DirectoryId(bytes([0xC0 + node]) * 16)), (quorum_endpoint(node),))
            for node in range(1, size + 1)
        )
        self.nodes = {
            node: MetadataNode(
                disk=SimulatedDisk(),
                config=config or {},
                seed=node,
                loop=self.loop,
                node_id=NodeId(node),
                voters=voters,
                peers=_Peers(self, node),
            )
            for node in range(1, size + 1)
        }

    def start(self, *nodes: int) -> None:
        for node in nodes or self.nodes:
            self.nodes[node].start()

    def crash(self, node: int) -> None:
        """The process dies; its disk keeps what it wrote."""
        self.nodes[node].forget()

    @property
    def running(self) -> list[MetadataNode]:
        return [node for node in self.nodes.values() if node.service is not None]

    @property
    def active(self) -> MetadataNode | None:
        """The active controller of the highest epoch."""
        active = [node for node in self.running if node.service is not None and node.service.controller.is_active]
        return max(active, key=lambda node: node.service.quorum.epoch if node.service else 0, default=None)

    def wait_until(self, condition: Callable[[], bool], what: str) -> None:
        """Let time pass until something holds; the test fails when it never does."""
        for _ in range(_PATIENCE_MS // 10):
            if condition():
                return
            self.nodes[1].advance(10)
        raise AssertionError(f"waited in vain for {what}")

    def elect(self) -> MetadataNode:
        """Wait for an active controller that is not cut off."""

        def is_elected() -> bool:
            return self.active is not None and self.active.node_id not in self.cut_off

        self.wait_until(is_elected, "an active controller")
        assert self.active is not None
        return self.active

    def settle(self) -> None:
        """Wait until all that run have seen the same."""
        reachable = [node for node in self.running if node.node_id not in self.cut_off]

        def is_same() -> bool:
            return len({node.image.offset for node in reachable}) == 1

        self.wait_until(is_same, "the same image everywhere")

    def deliver(self, sender: int, to: Node, request: Request, then: Callable[[Response | None], None]) -> None:
        """Bring a message to a node and its answer back, a moment later each."""
        self.sent += 1

        def answered(response: Response | None) -> None:
            self.loop.call_later(_LATENCY_S, lambda: then(response if self._reaches(to.id, sender) else None))

        def arrived() -> None:
            service = self.nodes[to.id].service
            if service is None or not self._reaches(sender, to.id):
                answered(None)
            else:
                service.quorum.receive(request).then(answered)

        self.loop.call_later(_LATENCY_S, arrived)

    def _reaches(self, one: int, other: int) -> bool:
        return one not in self.cut_off and other not in self.cut_off


class _Peers:
    def __init__(self, cluster: MetadataCluster, node: int) -> None:
        self._cluster = cluster
        self._node = node

    def send(self, to: Node, request: Request, then: Callable[[Response | None], None]) -> None:
        self._cluster.deliver(self._node, to, request, then)
