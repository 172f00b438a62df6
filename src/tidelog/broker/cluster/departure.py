"""The order in which the nodes of a cluster go, when several of them stop at once.

A broker that stops is let go by the active controller, and that takes a quorum. So

    a voter stays          while another broker is just being let go: the two may be all that is left of the quorum
    nobody waits           for a quorum that cannot be any more, because the ports of too many voters are closed

Between the two, nodes that are told to stop in the same moment all leave in order, and the last of those that are not does so
without. Whoever waits sets its own deadline: a machine that is off closes no port.
"""

from __future__ import annotations

from functools import partial
from typing import TypeVar

from tidelog.controller.image import BrokerRegistration, ClusterImage
from tidelog.controller.network_peers import Dial
from tidelog.model.ids import NodeId
from tidelog.model.pending import Pending
from tidelog.net.node_connection import Event, NodeConnection
from tidelog.raft.voter_set import VoterSet

T = TypeVar("T")


class Departure:
    """One for each node that stops. `begin` it when the stop begins; `end` it when nothing is waited for any more."""

    def __init__(self, node_id: NodeId, voters: VoterSet, listener: str, dial: Dial) -> None:
        """`listener` is the one by which controllers talk to each other. What `dial` makes comes about again when it breaks."""
        self._node_id = node_id
        self._voters = voters
        self._listener = listener
        self._dial = dial
        self._connections: list[NodeConnection] = []
        self._gone: set[NodeId] = set()
        self._waiting: list[Pending[None]] = []
        self._others_left: Pending[None] | None = None
        self._image = ClusterImage()

    @property
    def is_quorum_lost(self) -> bool:
        """Whether so many voters are gone that the others decide nothing."""
        return (len(self._voters) - len(self._gone)) * 2 <= len(self._voters)

    def begin(self) -> None:
        """Look after the other voters."""
        for voter_id in self._voters.ids:
            node = self._voters.node(voter_id, self._listener)
            if voter_id != self._node_id and node is not None:
                connection = self._dial(node.host, node.port, partial(self._told, voter_id))
                self._connections.append(connection)
                connection.connect()

    def end(self) -> None:
        for connection in self._connections:
            connection.close()
        self._connections.clear()

    def unless_lost(self, wanted: Pending[T]) -> Pending[None]:
        """Completes with `wanted`, or when there is no quorum any more that it could come from."""
        settled: Pending[None] = Pending()
        wanted.then(lambda _: settled.complete(None))
        if self.is_quorum_lost:
            settled.complete(None)
        else:
            self._waiting.append(settled)
        return settled

    def others_left(self, image: ClusterImage) -> Pending[None]:
        """Completes when no other broker is just being let go. Tell of every `image` from now on by `follow`."""
        self._others_left = Pending()
        self.follow(image)
        return self.unless_lost(self._others_left)

    def follow(self, image: ClusterImage) -> None:
        """The cluster is like this by now."""
        self._image = image
        if self._others_left is not None and not any(map(self._is_leaving, image.brokers.values())):
            self._others_left.complete(None)

    def _is_leaving(self, broker: BrokerRegistration) -> bool:
        # One whose port is closed was let go, or has given up: that it was may never be heard of from a leader that goes too.
        is_there = broker.node_id != self._node_id and broker.node_id not in self._gone
        return broker.in_controlled_shutdown and not broker.fenced and is_there

    def _told(self, voter_id: NodeId, event: Event) -> None:
        if event is Event.CONNECTED:
            self._gone.discard(voter_id)
        elif event is Event.REFUSED:
            self._gone.add(voter_id)
            self.follow(self._image)
            if self.is_quorum_lost:
                waiting, self._waiting = self._waiting, []
                for each in waiting:
                    each.complete(None)
