"""The metadata logs that Apache Kafka wrote, carried on by our controller."""

from __future__ import annotations

import asyncio
from pathlib import Path
from random import Random

import pytest

from tests.support.kafka_fixtures import KafkaFixture
from tests.support.metadata_node import SOMEBODY, creatable
from tidelog.controller.formatting import FormatError, check_identity
from tidelog.controller.image import ClusterImage, Endpoint
from tidelog.controller.image_delta import ImageDelta
from tidelog.controller.metadata_service import MetadataParts, MetadataService, listeners, supported_features
from tidelog.controller.settings import ControllerSettings
from tidelog.model.controller_config import CONTROLLER_CONFIG_KEYS
from tidelog.model.ids import NodeId, Offset, TopicName
from tidelog.model.slow_work import InlineSlowWork
from tidelog.model.timers import LoopTimers
from tidelog.simulation.loop import VirtualClock, VirtualTimeLoop
from tidelog.storage.clean_shutdown import read_clean_shutdown_epoch
from tidelog.storage.os_files import OsFiles
from tidelog.storage.seams import Seams
from tidelog.wire.messages.broker_lifecycle import (
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
)
from tidelog.wire.messages.topics import CreateTopicsRequest, CreateTopicsResponse
from tidelog.wire.schema import Request, Response

NODE = NodeId(1)


class Node:
    """Our controller on a directory that Kafka wrote."""

    def __init__(self, data: Path) -> None:
        self.loop = VirtualTimeLoop()
        self.files = OsFiles()
        self.clock = VirtualClock(self.loop, start_ms=1_900_000_000_000)
        identity = check_identity(self.files, str(data), None, NODE)
        assert identity is not None
        self.identity = identity
        config = CONTROLLER_CONFIG_KEYS.parse({"metadata.max.idle.interval.ms": "0"})
        self.service = MetadataService.open(
            Seams(self.files, self.clock, InlineSlowWork(), Random(1)),
            LoopTimers(self.loop),
            MetadataParts(
                directory=str(data),
                identity=identity,
                listener="CONTROLLER",
                endpoints=(Endpoint("CONTROLLER", "127.0.0.1", 19093, 0),),
                config=config,
                settings=ControllerSettings.from_values(config, node_id=NODE, cluster_id=identity.cluster_id),
                on_fault=_fail,
            ),
        )
        self.before = self._replayed()
        self.service.start()

    def _replayed(self) -> ClusterImage:
        """What the log alone says, from its first offset on."""
        log = self.service.log
        assert log.start_offset() == 0
        delta = ImageDelta(ClusterImage())
        for batch in log.batches(Offset(0), log.end().offset):
            for number, framed in enumerate(batch.records):
                delta.apply(framed.message, Offset(batch.base_offset + number))
        return delta.image(log.end().offset, log.end().epoch, 0)

    @property
    def image(self) -> ClusterImage:
        return self.service.committed.image

    def ask(self, request: Request) -> Response:
        return self.service.controller.handle(request, SOMEBODY).value

    def serve(self, previous_epoch: int) -> int:
        """The node's broker comes up."""
        known = self.image.brokers[NODE]
        registered = self.ask(
            BrokerRegistrationRequest(
                broker_id=NODE,
                cluster_id=self.identity.cluster_id,
                incarnation_id=b"new life........",
                listeners=listeners(known.endpoints),
                features=supported_features(),
                rack=None,
                log_dirs=list(known.log_directories),
                previous_broker_epoch=previous_epoch,
            )
        )
        assert isinstance(registered, BrokerRegistrationResponse)
        assert registered.error_code == 0
        beaten = self.ask(
            BrokerHeartbeatRequest(
                broker_id=NODE,
                broker_epoch=registered.broker_epoch,
                current_metadata_offset=self.image.offset,
                want_fence=False,
                want_shut_down=False,
            )
        )
        assert isinstance(beaten, BrokerHeartbeatResponse)
        assert not beaten.is_fenced
        return registered.broker_epoch

    def close(self) -> None:
        self.service.quorum.shutdown(100)
        self.service.close()


def _fail(error: BaseException) -> None:
    raise error


@pytest.fixture
def copied(kafka_fixture: KafkaFixture, tmp_path: Path) -> Path:
    """A directory of Kafka's, to work on."""
    return kafka_fixture.copy(tmp_path, with_metadata=True)


def test_we_lead_the_next_epoch_of_kafkas_quorum(copied: Path) -> None:
    node = Node(copied)

    assert node.service.quorum.is_leader
    assert node.service.quorum.kraft_version == 1
    assert [voter.key.directory_id for voter in node.service.quorum.voters.voters] == [node.identity.directory_id]
    node.close()
    again = Node(copied)
    assert again.service.quorum.epoch == node.service.quorum.epoch + 1
    again.close()


def test_kafkas_snapshot_and_the_log_after_it_say_what_the_whole_log_says(copied: Path) -> None:
    node = Node(copied)

    image = node.image
    assert image.topics == node.before.topics
    assert image.brokers == node.before.brokers
    assert image.configs == node.before.configs
    assert image.features == node.before.features
    assert image.quotas == node.before.quotas
    assert image.scram_credentials == node.before.scram_credentials
    assert image.next_producer_id == node.before.next_producer_id
    node.close()


def test_kafkas_topics_are_led_again_and_new_ones_come(copied: Path) -> None:
    node = Node(copied)
    epoch = read_clean_shutdown_epoch(node.files, str(copied))
    topics = {topic.name: topic.topic_id for topic in node.image.topics.values()}

    node.serve(-1 if epoch is None else epoch)
    created = node.ask(CreateTopicsRequest(topics=[creatable("ours", 2)]))

    assert isinstance(created, CreateTopicsResponse)
    assert created.topics[0].error_code == 0
    for topic in node.image.topics.values():
        assert topic.topic_id == topics.get(topic.name, created.topics[0].topic_id)
        for partition in topic.partitions.values():
            assert (partition.leader, partition.isr) == (1, (1,))
            # Killed, a leader may have lost the end of its log, and says so until it has looked.
            is_new = topic.name == "ours"
            assert partition.leader_recovery == (0 if epoch is not None or is_new else 1)
    node.close()


def test_we_carry_on_through_restarts_of_our_own(copied: Path) -> None:
    node = Node(copied)
    node.serve(-1)
    node.ask(CreateTopicsRequest(topics=[creatable("ours")]))
    node.close()

    again = Node(copied)

    assert TopicName("ours") in again.image.topic_ids
    assert set(again.image.topic_ids) == set(node.image.topic_ids)
    again.loop.run_until_complete(asyncio.sleep(1))
    again.close()


def test_a_directory_of_another_node_is_refused(copied: Path) -> None:
    with pytest.raises(FormatError, match=r"belongs to node 1, not to node 2: set node\.id=1"):
        check_identity(OsFiles(), str(copied), None, NodeId(2))
