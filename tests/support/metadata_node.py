"""A node's part in the cluster's metadata, on a simulated disk and virtual time, for tests of the controller."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import TypeVar

from tidelog.controller.cluster_view import TopicDefaults
from tidelog.controller.controller import Controller, ControllerContext
from tidelog.controller.errors import MetadataFault
from tidelog.controller.features import BOOTSTRAP_LEVELS
from tidelog.controller.formatting import METADATA_PARTITION, format_directories
from tidelog.controller.image import ClusterImage, Endpoint
from tidelog.controller.image_delta import ImageDelta
from tidelog.controller.metadata_log import LoggedBatch, MetadataLog
from tidelog.controller.metadata_service import MetadataParts, MetadataService, listeners, supported_features
from tidelog.controller.quorum import Peers
from tidelog.controller.settings import ControllerSettings
from tidelog.model.config import ConfigKeys
from tidelog.model.controller_config import CONTROLLER_CONFIG_KEYS
from tidelog.model.ids import DirectoryId, NodeId, TopicName
from tidelog.model.slow_work import InlineSlowWork, SlowWork
from tidelog.model.timers import LoopTimers
from tidelog.model.token_config import TOKEN_KEYS
from tidelog.raft.voter_set import Endpoint as QuorumEndpoint, ReplicaKey, Voter, VoterSet
from tidelog.simulation.disk import SimulatedDisk
from tidelog.simulation.loop import VirtualClock, VirtualTimeLoop
from tidelog.storage.files import Files
from tidelog.storage.meta_properties import MetaProperties
from tidelog.storage.seams import Seams
from tidelog.wire.messages.broker_lifecycle import (
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
)
from tidelog.wire.messages.topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from tidelog.wire.schema import MetadataRecord, Request, Response

R = TypeVar("R", bound=Response)

CLUSTER_ID = "MkU3OEVBNTcwNTJENDM2Qg"
DIRECTORY = "/logs"
NODE = NodeId(1)
CONTROLLER_ENDPOINT = Endpoint("CONTROLLER", "127.0.0.1", 9093, 0)
BROKER_ENDPOINT = Endpoint("PLAINTEXT", "127.0.0.1", 9092, 0)
SOMEBODY = ControllerContext()
_KEYS = ConfigKeys([*CONTROLLER_CONFIG_KEYS.values(), *TOKEN_KEYS.values()])


@dataclass
class MetadataNode:
    """A node that can be started again and again on one disk."""

    disk: Files = field(default_factory=SimulatedDisk)
    directory: str = DIRECTORY
    config: Mapping[str, str] = field(default_factory=dict)
    topic_defaults: Mapping[str, str] = field(default_factory=dict)
    slow_work: SlowWork = field(default_factory=InlineSlowWork)
    seed: int = 1
    loop: VirtualTimeLoop = field(default_factory=VirtualTimeLoop)
    node_id: NodeId = NODE
    voters: VoterSet | None = None
    peers: Peers | None = None
    endpoint: Endpoint | None = None
    is_static_quorum: bool = False
    levels: Mapping[str, int] = field(default_factory=lambda: BOOTSTRAP_LEVELS)

    def __post_init__(self) -> None:
        self.clock = VirtualClock(self.loop)
        self.random = Random(self.seed)
        self.faults: list[MetadataFault] = []
        self.published: list[tuple[ClusterImage, ImageDelta]] = []
        self.service: MetadataService | None = None
        self.incarnations = 0

    @property
    def seams(self) -> Seams:
        return Seams(self.disk, self.clock, self.slow_work, self.random)

    @property
    def controller_endpoint(self) -> Endpoint:
        return self.endpoint or controller_endpoint(self.node_id)

    def format(self) -> MetaProperties:
        [identity] = format_directories(
            self.disk,
            [self.directory],
            cluster_id=CLUSTER_ID,
            node_id=self.node_id,
            controller_endpoints=(_of_quorum(self.controller_endpoint),),
            random=self.random,
            clock=self.clock,
            voters=self.voters,
            levels=self.levels,
            is_static_quorum=self.is_static_quorum,
        )
        return identity

    def open(self) -> MetadataService:
        identity = self.format()
        config = _KEYS.parse(dict(self.config))
        service = MetadataService.open(
            self.seams,
            LoopTimers(self.loop),
            MetadataParts(
                directory=self.directory,
                identity=identity,
                listener=CONTROLLER_ENDPOINT.name,
                endpoints=(self.controller_endpoint,),
                config=config,
                settings=ControllerSettings.from_values(
                    config,
                    node_id=self.node_id,
                    cluster_id=CLUSTER_ID,
                    topic_defaults=TopicDefaults(dict(self.topic_defaults)),
                ),
                on_fault=self.faults.append,
                static_voters=self._static_voters() if self.is_static_quorum else None,
                peers=self.peers,
            ),
        )
        service.committed.subscribe(lambda image, delta: self.published.append((image, delta)))
        self.service = service
        return service

    def _static_voters(self) -> VoterSet:
        return VoterSet([Voter(ReplicaKey(self.node_id, None), (_of_quorum(self.controller_endpoint),))])

    def start(self) -> MetadataService:
        service = self.open()
        service.start()
        return service

    def stop(self) -> None:
        """A clean stop."""
        assert self.service is not None
        self.service.quorum.shutdown(1000)
        self.service.close()
        self.service = None

    def forget(self) -> None:
        """The process is gone."""
        if self.service is not None:
            self.service.abandon()
            self.service = None

    def advance(self, milliseconds: float) -> None:
        """Let time pass."""
        self.loop.run_until_complete(asyncio.sleep(milliseconds / 1000))

    # What a test asks

    @property
    def controller(self) -> Controller:
        assert self.service is not None
        return self.service.controller

    @property
    def image(self) -> ClusterImage:
        assert self.service is not None
        return self.service.committed.image

    @property
    def log(self) -> MetadataLog:
        assert self.service is not None
        return self.service.log

    def ask(self, request: Request, answer: type[R]) -> R:
        """A request that is answered without waiting."""
        response = self.controller.handle(request, SOMEBODY).value
        assert isinstance(response, answer)
        return response

    def batches(self) -> list[LoggedBatch]:
        """Everything in the log."""
        return list(self.log.batches(self.log.start_offset(), self.log.end().offset))

    def records(self, start: int = 0) -> list[MetadataRecord]:
        """The metadata records in the log from an offset on."""
        return [framed.message for batch in self.batches() if batch.base_offset >= start for framed in batch.records]

    def file_names(self) -> list[str]:
        return self.disk.list_directory(f"{self.directory}/{METADATA_PARTITION}")

    # Brokers and topics

    def register(
        self, broker_id: int = 1, *, rack: str | None = None, previous_epoch: int = -1, directories: int = 1
    ) -> int:
        """A broker in a new life. Its epoch."""
        answer = self.ask(
            self.registration(broker_id, rack=rack, previous_epoch=previous_epoch, directories=directories),
            BrokerRegistrationResponse,
        )
        assert answer.error_code == 0
        return answer.broker_epoch

    def registration(
        self, broker_id: int = 1, *, rack: str | None = None, previous_epoch: int = -1, directories: int = 1
    ) -> BrokerRegistrationRequest:
        self.incarnations += 1
        return BrokerRegistrationRequest(
            broker_id=broker_id,
            cluster_id=CLUSTER_ID,
            incarnation_id=self.incarnations.to_bytes(16, "big"),
            listeners=listeners([BROKER_ENDPOINT]),
            features=supported_features(),
            rack=rack,
            log_dirs=[directory_id(broker_id, number) for number in range(directories)],
            previous_broker_epoch=previous_epoch,
        )

    def heartbeat(
        self,
        broker_id: int,
        epoch: int,
        *,
        offset: int | None = None,
        want_fence: bool = False,
        want_shut_down: bool = False,
        offline: Sequence[bytes] = (),
    ) -> BrokerHeartbeatResponse:
        return self.ask(
            BrokerHeartbeatRequest(
                broker_id=broker_id,
                broker_epoch=epoch,
                current_metadata_offset=self.image.offset if offset is None else offset,
                want_fence=want_fence,
                want_shut_down=want_shut_down,
                offline_log_dirs=list(offline),
            ),
            BrokerHeartbeatResponse,
        )

    def serve(self, *broker_ids: int, rack: str | None = None, directories: int = 1) -> dict[int, int]:
        """Brokers that are registered and active, with their epochs."""
        epochs = {}
        for broker_id in broker_ids:
            epochs[broker_id] = self.register(broker_id, rack=rack, directories=directories)
            assert not self.heartbeat(broker_id, epochs[broker_id]).is_fenced
        return epochs

    def create_topic(
        self,
        name: str,
        *,
        partitions: int = 1,
        replicas: int = 1,
        configs: Mapping[str, str | None] | None = None,
        assignments: Mapping[int, Sequence[int]] | None = None,
        validate_only: bool = False,
    ) -> CreatableTopicResult:
        request = CreateTopicsRequest(
            topics=[creatable(name, partitions, replicas, configs, assignments)], validate_only=validate_only
        )
        [result] = self.ask(request, CreateTopicsResponse).topics
        return result

    def leaders(self, name: str) -> list[int]:
        topic = self.image.topic(TopicName(name))
        assert topic is not None
        return [partition.leader for partition in topic.partitions.values()]


def controller_endpoint(node_id: int) -> Endpoint:
    return Endpoint(CONTROLLER_ENDPOINT.name, CONTROLLER_ENDPOINT.host, CONTROLLER_ENDPOINT.port - 1 + node_id, 0)


def quorum_endpoint(node_id: int) -> QuorumEndpoint:
    return _of_quorum(controller_endpoint(node_id))


def _of_quorum(endpoint: Endpoint) -> QuorumEndpoint:
    return QuorumEndpoint(endpoint.name, endpoint.host, endpoint.port)


def creatable(
    name: str,
    partitions: int = 1,
    replicas: int = 1,
    configs: Mapping[str, str | None] | None = None,
    assignments: Mapping[int, Sequence[int]] | None = None,
) -> CreatableTopic:
    return CreatableTopic(
        name=name,
        num_partitions=-1 if assignments else partitions,
        replication_factor=-1 if assignments else replicas,
        assignments=[
            CreatableReplicaAssignment(partition_index=index, broker_ids=list(nodes))
            for index, nodes in (assignments or {}).items()
        ],
        configs=[CreatableTopicConfig(name=key, value=value) for key, value in (configs or {}).items()],
    )


def directory_id(broker_id: int, number: int = 0) -> DirectoryId:
    return DirectoryId(bytes([0xD0, broker_id, number]) + bytes(13))
