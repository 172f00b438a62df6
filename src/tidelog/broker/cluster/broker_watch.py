"""How the active controller notices within a moment that a broker is dead.

A broken connection is a reason to look, not a proof: the broker is dialled where it listens, and only a closed port says that its
process is gone. Then its session is over at once. A broker that hangs, or a machine that is off, is found by its session's
time-out. Fencing a broker that lives is safe and costs an election: it registers again.

    a broker's heartbeat connection breaks            look; and again a few times while its port is open
    a controller becomes active                       look at every other broker, since the one that died may be why it is; and
                                                      after `SILENCE_MS` at those that it has not heard of until then
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from tidelog.controller.image import ClusterImage
from tidelog.controller.network_peers import Dial
from tidelog.model.ids import BrokerEpoch, NodeId
from tidelog.model.timers import Timer, Timers
from tidelog.net.connection import Connection
from tidelog.net.node_connection import Event, NodeConnection

# Those who live send their heartbeat as soon as they know of a new active controller.
SILENCE_MS = 300

# So often, and so long after each other, a broker whose port is open is looked at: unless its heartbeats have come again.
LOOKS = 4
AGAIN_MS = 100


class Sessions(Protocol):
    """The active controller, as far as sessions of brokers go."""

    @property
    def is_active(self) -> bool: ...

    def is_heard(self, broker: NodeId) -> bool:
        """Whether this controller has heard from a broker since it became active."""
        ...

    def end_session(self, broker: NodeId, epoch: BrokerEpoch) -> None:
        """A broker's process is gone."""
        ...


class BrokerWatch:
    """One for each controller. Does nothing while that is not the active one."""

    def __init__(
        self, sessions: Sessions, image: Callable[[], ClusterImage], dial: Dial, timers: Timers, *, node_id: NodeId
    ) -> None:
        self._sessions = sessions
        self._image = image
        self._dial = dial
        self._timers = timers
        self._node_id = node_id
        self._heartbeats: dict[Connection, tuple[NodeId, BrokerEpoch]] = {}
        self._dialling: dict[NodeId, NodeConnection] = {}
        self._again: dict[NodeId, Timer] = {}
        self._timer: Timer | None = None

    def heard(self, connection: Connection, broker: NodeId, epoch: BrokerEpoch) -> None:
        """A heartbeat has come by this connection."""
        self._heartbeats[connection] = broker, epoch

    def connection_closed(self, connection: Connection) -> None:
        """A connection to this controller has ended."""
        known = self._heartbeats.pop(connection, None)
        if known is not None:
            self._look(*known, LOOKS)

    def became_active(self) -> None:
        """This controller decides from now on."""
        if self._timer is not None:
            self._timer.cancel()
        # Not from within the controller's own beginning.
        self._timer = self._timers.after(0, self._look_at_all)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for timer in self._again.values():
            timer.cancel()
        self._again.clear()
        for connection in self._dialling.values():
            connection.close()
        self._dialling.clear()

    def _look_at_all(self) -> None:
        self._look_at_silent()
        self._timer = self._timers.after(SILENCE_MS, self._look_at_silent)

    def _look_at_silent(self) -> None:
        self._timer = None
        if self._sessions.is_active:
            for broker in self._image().brokers.values():
                if not broker.fenced and not self._sessions.is_heard(broker.node_id):
                    self._look(broker.node_id, broker.epoch, 1)

    def _look_again(self, node: NodeId, epoch: BrokerEpoch, looks: int) -> None:
        self._again.pop(node, None)
        if not any(heard == node for heard, _ in self._heartbeats.values()):
            self._look(node, epoch, looks)

    def _look(self, node: NodeId, epoch: BrokerEpoch, looks: int) -> None:
        timer = self._again.pop(node, None)
        if timer is not None:
            timer.cancel()
        broker = self._image().brokers.get(node)
        if not self._sessions.is_active or broker is None or broker.epoch != epoch or node == self._node_id:
            return
        if broker.fenced or node in self._dialling or not broker.endpoints:
            return
        endpoint = broker.endpoints[0]

        def told(event: Event) -> None:
            dialled = self._dialling.pop(node, None)
            if dialled is not None:
                dialled.close()
                if event is Event.REFUSED:
                    self._sessions.end_session(node, epoch)
                elif looks > 1:
                    # A process that dies closes its connections one by one, and the port may be the last of them.
                    self._again[node] = self._timers.after(AGAIN_MS, lambda: self._look_again(node, epoch, looks - 1))

        connection = self._dialling[node] = self._dial(endpoint.host, endpoint.port, told)
        connection.connect()
