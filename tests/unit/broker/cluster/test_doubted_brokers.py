"""What clients are told of a broker that has just been lost sight of: nothing until there is news, and not for long."""

from __future__ import annotations

from tests.support.data_node import DataNode
from tidelog.broker.cluster.doubted_brokers import HOLD_MS, NAMED_MS, DoubtedBrokers
from tidelog.model.ids import NodeId
from tidelog.net.node_connection import Event
from tidelog.wire.messages.internal.cluster_metadata import BrokerRegistrationChangeRecord

ME, OTHER, THIRD = NodeId(1), NodeId(2), NodeId(3)


class Observed:
    """A node with two others."""

    def __init__(self) -> None:
        self.node = DataNode()
        for broker in (ME, OTHER, THIRD):
            self.node.register_broker(broker, f"node-{broker}", 9092)
        self.doubted = DoubtedBrokers(self.node.timers)
        self.doubted.follow(self.node.image)
        self.events = {broker: self.doubted.connection_of(broker) for broker in (OTHER, THIRD)}

    def lead(self, broker: NodeId) -> None:
        """A partition is led by `broker` from now on."""
        if "orders" not in self.node.image.topic_ids:
            self.node.create_topic("orders", replicas=[ME, OTHER, THIRD])
        self.node.change("orders", leader=broker)
        self.doubted.follow(self.node.image)

    def fence(self, broker: NodeId) -> None:
        epoch = self.node.image.brokers[broker].epoch
        self.node.commit(BrokerRegistrationChangeRecord(broker_id=broker, broker_epoch=epoch, fenced=1))
        self.doubted.follow(self.node.image)


def test_nobody_waits_where_nothing_is_in_doubt() -> None:
    observed = Observed()
    assert not observed.doubted
    assert observed.doubted.settled([OTHER, THIRD]) is None


def test_who_asks_for_a_leader_in_doubt_waits_until_it_is_fenced() -> None:
    observed = Observed()
    observed.events[OTHER](Event.BROKEN)
    waiting = observed.doubted.settled([OTHER])
    assert waiting is not None
    assert observed.doubted.settled([THIRD]) is None
    observed.events[OTHER](Event.REFUSED)
    assert observed.doubted
    observed.fence(OTHER)
    assert waiting.is_complete
    assert not observed.doubted


def test_a_connection_that_comes_about_again_ends_the_doubt() -> None:
    observed = Observed()
    observed.events[OTHER](Event.BROKEN)
    waiting = observed.doubted.settled([OTHER])
    assert waiting is not None
    observed.events[OTHER](Event.CONNECTED)
    assert waiting.is_complete
    assert observed.doubted.fenced == {}


def test_without_news_the_answer_comes_after_a_while() -> None:
    observed = Observed()
    observed.events[OTHER](Event.BROKEN)
    observed.node.timers.advance(HOLD_MS - 1)
    # What happens to the connection meanwhile does not begin it anew.
    observed.events[OTHER](Event.BROKEN)
    waiting = observed.doubted.settled([OTHER])
    assert waiting is not None
    observed.node.timers.advance(1)
    assert waiting.is_complete


def test_who_asks_for_two_leaders_in_doubt_waits_for_both() -> None:
    observed = Observed()
    for broker in (OTHER, THIRD):
        observed.events[broker](Event.BROKEN)
    waiting = observed.doubted.settled([OTHER, THIRD])
    assert waiting is not None
    observed.fence(OTHER)
    assert not waiting.is_complete
    observed.fence(THIRD)
    assert waiting.is_complete


def test_a_broker_that_stopped_cleanly_is_not_named_any_longer() -> None:
    observed = Observed()
    observed.lead(OTHER)
    # It has handed over, and then it is fenced.
    observed.lead(THIRD)
    observed.fence(OTHER)
    assert [*observed.doubted.fenced] == []


def test_a_broker_that_led_when_it_was_fenced_is_named_for_a_moment_longer() -> None:
    observed = Observed()
    observed.lead(OTHER)
    observed.fence(OTHER)
    observed.node.timers.advance(NAMED_MS - 1)
    assert [*observed.doubted.fenced] == [OTHER]
    observed.node.timers.advance(1)
    assert [*observed.doubted.fenced] == []


def test_the_end_answers_all_and_leaves_no_timer() -> None:
    observed = Observed()
    observed.lead(THIRD)
    observed.fence(THIRD)
    observed.events[OTHER](Event.BROKEN)
    waiting = observed.doubted.settled([OTHER])
    assert waiting is not None
    observed.doubted.stop()
    assert waiting.is_complete
    assert observed.node.timers.pending == 0
