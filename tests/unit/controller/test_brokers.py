"""Brokers come, live, stop, fall silent and are forgotten; and what becomes of the partitions that they led."""

from __future__ import annotations

import pytest

from tests.support.metadata_node import CLUSTER_ID, MetadataNode, directory_id
from tidelog.controller.image import LeaderRecovery, Partition
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import NodeId, PartitionIndex, TopicName
from tidelog.wire.messages.broker_lifecycle import (
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
)
from tidelog.wire.messages.internal import cluster_metadata as records

SESSION_MS = 9000


@pytest.fixture
def node() -> MetadataNode:
    node = MetadataNode(config={"metadata.max.idle.interval.ms": "0"})
    node.start()
    return node


def partition(node: MetadataNode, topic: str = "orders", index: int = 0) -> Partition:
    found = node.image.topic(TopicName(topic))
    assert found is not None
    return found.partitions[PartitionIndex(index)]


class TestRegistration:
    def register(self, node: MetadataNode, request: BrokerRegistrationRequest) -> BrokerRegistrationResponse:
        return node.ask(request, BrokerRegistrationResponse)

    def test_a_brokers_epoch_is_the_offset_of_its_registration(self, node: MetadataNode) -> None:
        epoch = node.register(7, rack="r")

        broker = node.image.brokers[NodeId(7)]
        assert broker.epoch == epoch == node.image.offset
        assert (broker.fenced, broker.rack, broker.log_directories) == (True, "r", (directory_id(7),))

    def test_the_same_life_may_say_something_else(self, node: MetadataNode) -> None:
        request = node.registration(1)
        epoch = self.register(node, request).broker_epoch
        node.heartbeat(1, epoch)
        request.rack = "moved"

        again = self.register(node, request)

        assert again.broker_epoch == epoch
        broker = node.image.brokers[NodeId(1)]
        assert (broker.rack, broker.fenced) == ("moved", False)

    def test_a_broker_that_serves_is_not_replaced(self, node: MetadataNode) -> None:
        node.serve(1)

        assert self.register(node, node.registration(1)).error_code == ErrorCode.DUPLICATE_BROKER_REGISTRATION

    def test_a_broker_that_is_fenced_is(self, node: MetadataNode) -> None:
        former = node.register(1)

        assert node.register(1) > former

    def test_nobody_waits_for_a_session_of_a_former_life_of_the_node(self, node: MetadataNode) -> None:
        epochs = node.serve(1)
        node.forget()
        node.start()

        assert node.register(1) > epochs[1]

    def test_a_broker_that_came_back_to_this_controller_is_not_replaced(self, node: MetadataNode) -> None:
        epochs = node.serve(1)
        node.forget()
        node.start()
        node.heartbeat(1, epochs[1])

        assert self.register(node, node.registration(1)).error_code == ErrorCode.DUPLICATE_BROKER_REGISTRATION

    @pytest.mark.parametrize(
        ("field", "value", "error"),
        [
            ("cluster_id", "another", ErrorCode.INCONSISTENT_CLUSTER_ID),
            ("is_migrating_zk_broker", True, ErrorCode.BROKER_ID_NOT_REGISTERED),
            ("log_dirs", [], ErrorCode.INVALID_REGISTRATION),
            ("log_dirs", [bytes(16)], ErrorCode.INVALID_REGISTRATION),
            ("log_dirs", [b"a" * 16, b"a" * 16], ErrorCode.INVALID_REGISTRATION),
            ("log_dirs", [directory_id(2)], ErrorCode.INVALID_REGISTRATION),
            ("features", [], ErrorCode.INVALID_REGISTRATION),
        ],
    )
    def test_what_cannot_join_is_refused(self, node: MetadataNode, field: str, value: object, error: ErrorCode) -> None:
        node.register(2)
        request = node.registration(1)
        setattr(request, field, value)

        assert self.register(node, request).error_code == error
        assert NodeId(1) not in node.image.brokers

    @pytest.mark.parametrize(("lowest", "highest"), [(17, 29), (31, 40), (0, 0)])
    def test_a_broker_must_support_what_the_cluster_uses(self, node: MetadataNode, lowest: int, highest: int) -> None:
        request = node.registration(1)
        for feature in request.features:
            if feature.name == "metadata.version":
                feature.min_supported_version, feature.max_supported_version = lowest, highest

        assert self.register(node, request).error_code == ErrorCode.UNSUPPORTED_VERSION

    def test_also_a_feature_that_it_does_not_name(self, node: MetadataNode) -> None:
        request = node.registration(1)
        request.features = [feature for feature in request.features if feature.name != "group.version"]

        assert self.register(node, request).error_code == ErrorCode.UNSUPPORTED_VERSION


class TestHeartbeats:
    def test_a_broker_serves_once_it_has_seen_its_registration(self, node: MetadataNode) -> None:
        epoch = node.register(1)

        early = node.heartbeat(1, epoch, offset=epoch - 1)
        waiting = node.heartbeat(1, epoch, want_fence=True)
        granted = node.heartbeat(1, epoch)

        assert (early.is_caught_up, early.is_fenced) == (False, True)
        assert (waiting.is_caught_up, waiting.is_fenced) == (True, True)
        assert (granted.is_caught_up, granted.is_fenced) == (True, False)
        assert not node.image.brokers[NodeId(1)].fenced

    def test_it_writes_what_kafka_writes(self, node: MetadataNode) -> None:
        epoch = node.register(1)
        node.heartbeat(1, epoch)

        [batch] = [batch for batch in node.batches() if batch.base_offset > epoch]
        assert [framed.version for framed in batch.records] == [0]
        assert batch.records[0].message == records.BrokerRegistrationChangeRecord(
            broker_id=1, broker_epoch=epoch, fenced=-1
        )

    def test_a_heartbeat_that_changes_nothing_writes_nothing(self, node: MetadataNode) -> None:
        epochs = node.serve(1)
        end = node.image.offset

        node.heartbeat(1, epochs[1])

        assert node.image.offset == end

    def test_of_a_former_life_is_refused(self, node: MetadataNode) -> None:
        epoch = node.register(1)

        assert node.heartbeat(1, epoch - 1).error_code == ErrorCode.STALE_BROKER_EPOCH
        assert node.heartbeat(9, epoch).error_code == ErrorCode.STALE_BROKER_EPOCH

    def test_a_broker_may_ask_to_be_fenced(self, node: MetadataNode) -> None:
        epochs = node.serve(1)

        assert node.heartbeat(1, epochs[1], want_fence=True).is_fenced
        assert node.image.brokers[NodeId(1)].fenced

    def test_directories_closed_to_new_replicas_are_noted(self, node: MetadataNode) -> None:
        epochs = node.serve(1)
        request = BrokerHeartbeatRequest(
            broker_id=1,
            broker_epoch=epochs[1],
            current_metadata_offset=node.image.offset,
            want_fence=False,
            want_shut_down=False,
            cordoned_log_dirs=[directory_id(1)],
        )

        node.ask(request, BrokerHeartbeatResponse)
        end = node.image.offset
        node.ask(request, BrokerHeartbeatResponse)

        assert node.image.offset == end
        assert node.image.brokers[NodeId(1)].cordoned_directories == (directory_id(1),)
        assert node.create_topic("orders").error_code == ErrorCode.INVALID_REPLICATION_FACTOR


class TestSilence:
    def test_a_silent_broker_is_fenced_when_its_session_is_over(self, node: MetadataNode) -> None:
        node.serve(1)

        node.advance(SESSION_MS)
        before = node.image.brokers[NodeId(1)].fenced
        node.advance(10)

        assert (before, node.image.brokers[NodeId(1)].fenced) == (False, True)

    def test_one_that_reports_is_not(self, node: MetadataNode) -> None:
        epochs = node.serve(1, 2)

        for _ in range(10):
            node.advance(2000)
            node.heartbeat(1, epochs[1])

        assert not node.image.brokers[NodeId(1)].fenced
        assert node.image.brokers[NodeId(2)].fenced

    def test_others_lead_instead_and_the_fenced_one_is_not_in_sync(self, node: MetadataNode) -> None:
        epochs = node.serve(1, 2)
        node.create_topic("orders", assignments={0: [1, 2]})
        end = node.image.offset + 1

        for _ in range(5):
            node.advance(2000)
            node.heartbeat(2, epochs[2])

        after = partition(node)
        assert (after.leader, after.leader_epoch, after.isr) == (2, 1, (2,))
        change, fenced = node.records(end)
        assert isinstance(change, records.PartitionChangeRecord)
        assert isinstance(fenced, records.BrokerRegistrationChangeRecord)

    def test_a_new_controller_gives_everybody_a_whole_session(self, node: MetadataNode) -> None:
        node.serve(1)
        node.advance(SESSION_MS - 100)
        node.forget()
        node.start()

        node.advance(SESSION_MS - 100)
        before = node.image.brokers[NodeId(1)].fenced
        node.advance(200)

        assert (before, node.image.brokers[NodeId(1)].fenced) == (False, True)

    def test_a_broker_that_comes_back_leads_what_nobody_led(self, node: MetadataNode) -> None:
        epochs = node.serve(1)
        node.create_topic("orders")
        node.advance(SESSION_MS + 10)
        alone = partition(node)

        node.heartbeat(1, epochs[1])

        assert (alone.leader, alone.isr, alone.eligible_leader_replicas) == (-1, (), (1,))
        after = partition(node)
        assert (after.leader, after.isr, after.eligible_leader_replicas) == (1, (1,), ())
        assert after.leader_recovery is LeaderRecovery.RECOVERED


class TestStopping:
    def test_the_only_broker_stops_as_kafkas_does(self, node: MetadataNode) -> None:
        """The records of an Apache Kafka node that was stopped, in order: see the directory `clean` of tests/fixtures."""
        epochs = node.serve(1)
        topic_id = node.create_topic("orders").topic_id
        end = node.image.offset + 1

        first = node.heartbeat(1, epochs[1], want_shut_down=True)
        second = node.heartbeat(1, epochs[1], want_shut_down=True)

        assert (first.should_shut_down, second.should_shut_down) == (False, True)
        assert node.records(end) == [
            records.BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=epochs[1], in_controlled_shutdown=1),
            records.PartitionChangeRecord(
                partition_id=0,
                topic_id=topic_id,
                isr=[],
                leader=-1,
                eligible_leader_replicas=[1],
                last_known_elr=[1],
            ),
            records.BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=epochs[1], fenced=1),
        ]

    def test_and_comes_back_as_kafkas_does(self, node: MetadataNode) -> None:
        epochs = node.serve(1)
        topic_id = node.create_topic("orders").topic_id
        for _ in range(2):
            node.heartbeat(1, epochs[1], want_shut_down=True)
        node.stop()
        node.start()
        epoch = node.register(1, previous_epoch=epochs[1])
        end = node.image.offset + 1

        node.heartbeat(1, epoch)

        assert node.records(end) == [
            records.BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=epoch, fenced=-1),
            records.PartitionChangeRecord(
                partition_id=0, topic_id=topic_id, isr=[1], leader=1, eligible_leader_replicas=[], last_known_elr=[]
            ),
        ]

    def test_a_broker_goes_when_the_others_know_who_leads_instead(self, node: MetadataNode) -> None:
        epochs = node.serve(1, 2)
        node.create_topic("orders", assignments={0: [1, 2]})
        seen = node.image.offset

        first = node.heartbeat(1, epochs[1], want_shut_down=True)
        node.heartbeat(2, epochs[2], offset=seen)
        waiting = node.heartbeat(1, epochs[1], want_shut_down=True)
        node.heartbeat(2, epochs[2])
        granted = node.heartbeat(1, epochs[1], want_shut_down=True)

        assert [each.should_shut_down for each in (first, waiting, granted)] == [False, False, True]
        assert partition(node).leader == 2

    def test_one_that_leads_nothing_goes_at_once(self, node: MetadataNode) -> None:
        epochs = node.serve(1)

        assert node.heartbeat(1, epochs[1], want_shut_down=True).should_shut_down
        assert node.image.brokers[NodeId(1)].fenced

    def test_so_does_one_that_is_fenced_or_wants_to_be(self, node: MetadataNode) -> None:
        fenced = node.register(1)
        epochs = node.serve(2)
        end = node.image.offset

        assert node.heartbeat(1, fenced, want_shut_down=True).should_shut_down
        assert node.image.offset == end
        assert node.heartbeat(2, epochs[2], want_fence=True, want_shut_down=True).should_shut_down

    def test_a_broker_that_stops_gets_no_new_replicas(self, node: MetadataNode) -> None:
        epochs = node.serve(1, 2)
        node.create_topic("orders", assignments={0: [1, 2]})
        node.heartbeat(1, epochs[1], want_shut_down=True)

        for number in range(5):
            node.create_topic(f"topic-{number}")
            assert node.leaders(f"topic-{number}") == [2]


class TestUncleanStops:
    def test_a_broker_that_was_killed_has_to_recover_what_it_led_last(self, node: MetadataNode) -> None:
        """As Apache Kafka with KIP-966: nobody else can have the records, but some of its own may be gone."""
        node.serve(1)
        node.create_topic("orders")
        node.forget()
        node.start()

        epoch = node.register(1)
        away = partition(node)
        node.heartbeat(1, epoch)

        assert (away.leader, away.isr, away.eligible_leader_replicas, away.last_known_elr) == (-1, (), (), (1,))
        after = partition(node)
        assert (after.leader, after.isr, after.leader_recovery) == (1, (1,), LeaderRecovery.RECOVERING)
        assert after.last_known_elr == ()

    def test_after_a_clean_stop_there_is_nothing_to_recover(self, node: MetadataNode) -> None:
        epochs = node.serve(1)
        node.create_topic("orders")
        node.forget()
        node.start()

        epoch = node.register(1, previous_epoch=epochs[1])
        away = partition(node)
        node.heartbeat(1, epoch)

        assert (away.leader, away.eligible_leader_replicas) == (-1, (1,))
        assert partition(node).leader_recovery is LeaderRecovery.RECOVERED

    def test_where_others_are_in_sync_they_lead(self, node: MetadataNode) -> None:
        epochs = node.serve(1, 2)
        node.create_topic("orders", assignments={0: [1, 2]})
        node.heartbeat(1, epochs[1], want_fence=True)
        node.forget()
        node.start()

        node.register(1)

        after = partition(node)
        assert (after.leader, after.isr, after.last_known_elr) == (2, (2,), ())


class TestDirectories:
    def test_what_lies_in_a_lost_directory_is_led_elsewhere(self, node: MetadataNode) -> None:
        epochs = node.serve(1, 2)
        node.create_topic("orders", assignments={0: [1, 2]})

        node.heartbeat(1, epochs[1], offline=[directory_id(1)])

        assert partition(node).leader == 2
        assert node.image.brokers[NodeId(1)].log_directories == (directory_id(1),)

    def test_others_of_the_same_broker_go_on(self, node: MetadataNode) -> None:
        epochs = node.serve(1, directories=2)

        end = node.image.offset + 1
        node.heartbeat(1, epochs[1], offline=[directory_id(1, 0)])

        assert node.image.brokers[NodeId(1)].log_directories == (directory_id(1, 1),)
        [change] = node.records(end)
        assert change == records.BrokerRegistrationChangeRecord(
            broker_id=1, broker_epoch=epochs[1], log_dirs=[directory_id(1, 1)]
        )
        before = node.image.offset
        node.heartbeat(1, epochs[1], offline=[directory_id(1, 0)])
        assert node.image.offset == before


class TestForgetting:
    def test_a_broker_is_in_no_set_any_longer(self, node: MetadataNode) -> None:
        node.serve(1, 2)
        node.create_topic("orders", assignments={0: [1, 2], 1: [2, 1]})

        answer = node.ask(UnregisterBrokerRequest(broker_id=1), UnregisterBrokerResponse)

        assert answer.error_code == 0
        assert set(node.image.brokers) == {2}
        assert node.leaders("orders") == [2, 2]
        assert partition(node, index=1).isr == (2,)

    def test_one_that_is_not_there_cannot_be(self, node: MetadataNode) -> None:
        answer = node.ask(UnregisterBrokerRequest(broker_id=5), UnregisterBrokerResponse)

        assert answer.error_code == ErrorCode.BROKER_ID_NOT_REGISTERED
        assert answer.error_message == "Broker ID 5 is not currently registered"


def test_a_request_names_the_cluster_that_it_means() -> None:
    assert MetadataNode().registration(1).cluster_id == CLUSTER_ID
