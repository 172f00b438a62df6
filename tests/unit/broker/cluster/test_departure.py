"""What a node that stops waits for: a quorum as long as there can be one, and others that are leaving too."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import pytest

from tests.support.data_node import DataNode
from tidelog.broker.cluster.departure import Departure
from tidelog.controller.image import ClusterImage
from tidelog.model.ids import DirectoryId, NodeId
from tidelog.model.pending import Pending
from tidelog.net.node_connection import Event, NodeConnection
from tidelog.raft.voter_set import Endpoint, ReplicaKey, Voter, VoterSet
from tidelog.wire.messages.internal.cluster_metadata import BrokerRegistrationChangeRecord

ME = NodeId(1)


class Dialled:
    def __init__(self, host: str, told: Callable[[Event], None]) -> None:
        self.host = host
        self.told = told
        self.is_closed = False

    def connect(self) -> None: ...

    def close(self) -> None:
        self.is_closed = True


class Leaving:
    """A node among voters 1 to `size`, or beside them."""

    def __init__(self, size: int = 3, node_id: int = ME) -> None:
        self.dialled: list[Dialled] = []
        voters = VoterSet(
            Voter(
                ReplicaKey(NodeId(number), DirectoryId(bytes([number]) * 16)),
                (Endpoint("CONTROLLER", f"node-{number}", 9093),),
            )
            for number in range(1, size + 1)
        )
        self.departure = Departure(NodeId(node_id), voters, "CONTROLLER", self._dial)
        self.departure.begin()

    def _dial(self, host: str, port: int, on_event: Callable[[Event], None]) -> NodeConnection:
        assert port == 9093
        self.dialled.append(Dialled(host, on_event))
        return cast("NodeConnection", self.dialled[-1])

    def tell(self, host: str, event: Event) -> None:
        next(each for each in self.dialled if each.host == host).told(event)


def image_with(*leaving: int, fenced: bool = False) -> ClusterImage:
    node = DataNode()
    for number in (1, 2, 3):
        node.register_broker(NodeId(number), f"node-{number}", 9092)
    for number in leaving:
        epoch = node.image.brokers[NodeId(number)].epoch
        node.commit(
            BrokerRegistrationChangeRecord(
                broker_id=number, broker_epoch=epoch, in_controlled_shutdown=1, fenced=int(fenced)
            )
        )
    return node.image


def test_all_voters_but_itself_are_looked_after_until_the_end() -> None:
    leaving = Leaving()
    assert [each.host for each in leaving.dialled] == ["node-2", "node-3"]
    leaving.departure.end()
    assert all(each.is_closed for each in leaving.dialled)


def test_what_comes_ends_the_wait() -> None:
    let_go: Pending[bool] = Pending()
    waiting = Leaving().departure.unless_lost(let_go)
    assert not waiting.is_complete
    let_go.complete(True)
    assert waiting.is_complete


def test_nobody_waits_for_a_quorum_whose_ports_are_closed() -> None:
    leaving = Leaving()
    waiting = leaving.departure.unless_lost(Pending[None]())
    leaving.tell("node-2", Event.REFUSED)
    before = waiting.is_complete
    leaving.tell("node-3", Event.REFUSED)
    assert (before, waiting.is_complete) == (False, True)
    assert leaving.departure.unless_lost(Pending[None]()).is_complete


def test_a_voter_that_is_back_counts_again() -> None:
    leaving = Leaving()
    waiting = leaving.departure.unless_lost(Pending[None]())
    leaving.tell("node-2", Event.REFUSED)
    leaving.tell("node-2", Event.CONNECTED)
    leaving.tell("node-3", Event.REFUSED)
    assert not waiting.is_complete


@pytest.mark.parametrize("event", [Event.BROKEN, Event.UNREACHABLE, Event.TIMED_OUT])
def test_anything_but_a_closed_port_proves_nothing(event: Event) -> None:
    leaving = Leaving()
    waiting = leaving.departure.unless_lost(Pending[None]())
    for host in ("node-2", "node-3"):
        leaving.tell(host, event)
    assert not waiting.is_complete


def test_a_broker_that_is_no_voter_needs_a_majority_of_the_others() -> None:
    leaving = Leaving(node_id=4)
    assert [each.host for each in leaving.dialled] == ["node-1", "node-2", "node-3"]
    waiting = leaving.departure.unless_lost(Pending[None]())
    leaving.tell("node-1", Event.REFUSED)
    assert not waiting.is_complete
    leaving.tell("node-2", Event.REFUSED)
    assert waiting.is_complete


def test_the_only_voter_has_nobody_to_lose() -> None:
    leaving = Leaving(1)
    assert leaving.dialled == []
    assert not leaving.departure.unless_lost(Pending[None]()).is_complete


def test_a_voter_stays_until_no_other_broker_is_just_leaving() -> None:
    leaving = Leaving()
    waiting = leaving.departure.others_left(image_with(1, 2))
    assert not waiting.is_complete
    leaving.departure.follow(image_with(2, 3))
    assert not waiting.is_complete
    leaving.departure.follow(image_with(1, 2, 3, fenced=True))
    assert waiting.is_complete


def test_itself_is_nobody_to_wait_for() -> None:
    assert Leaving().departure.others_left(image_with(1)).is_complete


def test_a_broker_that_is_gone_needs_nobody_to_let_it_go() -> None:
    leaving = Leaving()
    waiting = leaving.departure.others_left(image_with(2))
    before = waiting.is_complete
    leaving.tell("node-2", Event.REFUSED)
    assert (before, waiting.is_complete) == (False, True)
