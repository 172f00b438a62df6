"""How the active controller looks after brokers: when it dials them, and what a closed port means."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import pytest

from tests.support.data_node import DataNode
from tidelog.broker.cluster.broker_watch import AGAIN_MS, LOOKS, SILENCE_MS, BrokerWatch
from tidelog.controller.image import ClusterImage
from tidelog.model.ids import BrokerEpoch, NodeId
from tidelog.net.connection import Connection
from tidelog.net.node_connection import Event, NodeConnection

ME, OTHER = NodeId(1), NodeId(2)


class Dialled:
    """A connection that is only ever opened."""

    def __init__(self, address: tuple[str, int], told: Callable[[Event], None]) -> None:
        self.address = address
        self.told = told
        self.is_closed = False

    def connect(self) -> None: ...

    def close(self) -> None:
        self.is_closed = True


class Watched:
    """A controller with two brokers, this node's own and another."""

    def __init__(self) -> None:
        self.node = DataNode()
        for broker in (ME, OTHER):
            self.node.register_broker(broker, f"node-{broker}", 9092)
        self.is_active = True
        self.heard: set[NodeId] = set()
        self.ended: list[tuple[NodeId, BrokerEpoch]] = []
        self.dialled: list[Dialled] = []
        self.watch = BrokerWatch(self, lambda: self.image, self._dial, self.node.timers, node_id=ME)

    @property
    def image(self) -> ClusterImage:
        return self.node.image

    @property
    def epoch(self) -> BrokerEpoch:
        return self.image.brokers[OTHER].epoch

    def is_heard(self, broker: NodeId) -> bool:
        return broker in self.heard

    def end_session(self, broker: NodeId, epoch: BrokerEpoch) -> None:
        self.ended.append((broker, epoch))

    def _dial(self, host: str, port: int, on_event: Callable[[Event], None]) -> NodeConnection:
        self.dialled.append(Dialled((host, port), on_event))
        return cast("NodeConnection", self.dialled[-1])

    def heartbeat(self) -> Connection:
        connection = cast("Connection", object())
        self.watch.heard(connection, OTHER, self.epoch)
        return connection


@pytest.fixture
def watched() -> Watched:
    return Watched()


def test_a_broker_whose_heartbeats_break_off_is_dialled_and_a_closed_port_ends_its_session(watched: Watched) -> None:
    watched.watch.connection_closed(watched.heartbeat())
    [dialled] = watched.dialled
    assert dialled.address == ("node-2", 9092)
    assert watched.ended == []
    dialled.told(Event.REFUSED)
    assert watched.ended == [(OTHER, watched.epoch)]
    assert dialled.is_closed


@pytest.mark.parametrize("event", [Event.CONNECTED, Event.UNREACHABLE])
def test_anything_but_a_closed_port_proves_nothing(watched: Watched, event: Event) -> None:
    watched.watch.connection_closed(watched.heartbeat())
    watched.dialled[0].told(event)
    assert watched.ended == []
    # And the next reason to look is one.
    watched.watch.connection_closed(watched.heartbeat())
    assert len(watched.dialled) == 2


def test_a_port_that_closes_after_the_connections_is_found_closed(watched: Watched) -> None:
    watched.watch.connection_closed(watched.heartbeat())
    watched.dialled[0].told(Event.CONNECTED)
    watched.node.timers.advance(AGAIN_MS)
    watched.dialled[1].told(Event.REFUSED)
    assert watched.ended == [(OTHER, watched.epoch)]


def test_a_broker_is_looked_at_a_few_times_and_not_once_its_heartbeats_come_again(watched: Watched) -> None:
    watched.watch.connection_closed(watched.heartbeat())
    for look in range(LOOKS):
        assert len(watched.dialled) == look + 1
        watched.dialled[look].told(Event.CONNECTED)
        watched.node.timers.advance(AGAIN_MS)
    assert len(watched.dialled) == LOOKS
    watched.watch.connection_closed(watched.heartbeat())
    watched.dialled[LOOKS].told(Event.CONNECTED)
    watched.heartbeat()
    watched.node.timers.advance(AGAIN_MS)
    assert len(watched.dialled) == LOOKS + 1


def test_the_end_leaves_no_timer(watched: Watched) -> None:
    watched.watch.connection_closed(watched.heartbeat())
    watched.dialled[0].told(Event.CONNECTED)
    watched.watch.stop()
    assert watched.node.timers.pending == 0


def test_other_connections_that_end_are_no_reason_to_look(watched: Watched) -> None:
    watched.heartbeat()
    watched.watch.connection_closed(cast("Connection", object()))
    assert watched.dialled == []


def test_a_broker_that_has_registered_since_is_not_looked_at(watched: Watched) -> None:
    connection = watched.heartbeat()
    watched.node.register_broker(OTHER, "node-2", 9092)
    watched.watch.heard(connection, OTHER, BrokerEpoch(watched.epoch - 1))
    watched.watch.connection_closed(connection)
    assert watched.dialled == []


def test_a_standby_looks_after_nobody(watched: Watched) -> None:
    watched.is_active = False
    watched.watch.connection_closed(watched.heartbeat())
    watched.watch.became_active()
    watched.node.timers.advance(SILENCE_MS)
    assert watched.dialled == []


def test_a_new_active_controller_looks_at_all_others_and_later_at_those_that_stay_silent(watched: Watched) -> None:
    watched.watch.became_active()
    watched.node.timers.advance(0)
    assert [each.address for each in watched.dialled] == [("node-2", 9092)]
    watched.dialled[0].told(Event.CONNECTED)
    watched.node.timers.advance(SILENCE_MS)
    assert len(watched.dialled) == 2
    watched.dialled[1].told(Event.CONNECTED)
    watched.heard.add(OTHER)
    watched.watch.became_active()
    watched.node.timers.advance(SILENCE_MS)
    watched.node.timers.advance(SILENCE_MS)
    assert len(watched.dialled) == 2
