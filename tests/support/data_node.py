"""A node as far as the data plane needs one: replicas on a simulated disk, real metadata, time that a test moves.

node = DataNode()
node.create_topic("orders", partitions=2)
answer = node.ask(produce, produce_request("orders", 0, "a", "b"), version=13)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any, TypeVar, cast

from tests.support.log_builder import ManualClock
from tidelog.broker.data.fetch_sessions import FetchSessions
from tidelog.broker.metrics.broker_metrics import BrokerMetrics
from tidelog.broker.quotas.node_quotas import NodeQuotas
from tidelog.broker.requests.caller import AllowAll, Authorizer, Caller
from tidelog.controller.image import ClusterImage, ConfigResource
from tidelog.controller.image_delta import ImageDelta
from tidelog.model.acl import AclOperation, ResourceType
from tidelog.model.config import ConfigKeys, ConfigValues
from tidelog.model.data_plane_config import DATA_PLANE_KEYS, FETCH_MAX_BYTES
from tidelog.model.ids import (
    DirectoryId,
    LeaderEpoch,
    NodeId,
    Offset,
    PartitionIndex,
    TopicId,
    TopicName,
    TopicPartition,
)
from tidelog.model.pending import Pending
from tidelog.model.principal import ANONYMOUS, Principal
from tidelog.model.quota_config import QUOTA_KEYS
from tidelog.model.slow_work import InlineSlowWork
from tidelog.model.topic_config import TOPIC_KEYS
from tidelog.net.address import Address
from tidelog.net.connection import Connection
from tidelog.replication.partition import Partition
from tidelog.replication.partitions import Partitions
from tidelog.replication.topic_config import TopicConfig
from tidelog.security.acl_set import Rule
from tidelog.security.authorizer import ANY_NAME
from tidelog.simulation.disk import SimulatedDisk
from tidelog.storage.errors import StorageError
from tidelog.storage.log_directories import LogDirectories
from tidelog.storage.log_directory import LogDirectory
from tidelog.storage.meta_properties import MetaProperties, write_meta_properties
from tidelog.storage.partition_log import PartitionLog
from tidelog.storage.seams import Seams
from tidelog.wire.messages.internal.cluster_metadata import (
    BrokerEndpoint,
    ConfigRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from tidelog.wire.schema import MetadataRecord, Request, Response

T = TypeVar("T")

NODE = NodeId(1)
OTHER = NodeId(2)
THIRD = NodeId(3)
TOPIC_RESOURCE = 2
BROKER_RESOURCE = 4
LISTENER = "PLAINTEXT"


class ManualTimer:
    """A callback that is due at some time, until it is cancelled."""

    def __init__(self, due_ms: float, callback: Callable[[], None]) -> None:
        self.due_ms = due_ms
        self.callback: Callable[[], None] | None = callback

    def cancel(self) -> None:
        self.callback = None


class ManualTimers:
    """Timers of a clock that a test moves."""

    def __init__(self, clock: ManualClock) -> None:
        self._clock = clock
        self._timers: list[ManualTimer] = []

    @property
    def pending(self) -> int:
        """How many are still to go off."""
        return sum(timer.callback is not None for timer in self._timers)

    def after(self, delay_ms: float, callback: Callable[[], None]) -> ManualTimer:
        timer = ManualTimer(self._clock.ms + delay_ms, callback)
        self._timers.append(timer)
        return timer

    def advance(self, ms: int) -> None:
        """Let time pass, and everything happen that is due then."""
        self._clock.advance(ms)
        for timer in [each for each in self._timers if each.due_ms <= self._clock.ms]:
            self._timers.remove(timer)
            callback, timer.callback = timer.callback, None
            if callback is not None:
                callback()


class FakeConnection:
    """What a handler may ask of a connection."""

    def __init__(self) -> None:
        self.principal: Principal = ANONYMOUS
        self.listener_name = LISTENER
        self.peer_address = Address("127.0.0.1", 50000)
        self.host = "127.0.0.1"
        self.is_closed = False

    def __str__(self) -> str:
        return "a test's connection"

    def abort(self, error: BaseException | None = None) -> None:
        assert error is None
        self.is_closed = True


class Denying:
    """An authoriser that allows everything but some operations, on some names or on any."""

    def __init__(self, *denied: tuple[AclOperation, str | None]) -> None:
        self._denied = denied
        self.revision = 0

    def change(self, *denied: tuple[AclOperation, str | None]) -> None:
        """From now on it denies these, and nothing else."""
        self._denied = denied
        self.revision += 1

    def allows(
        self, principal: Principal, host: str, operation: AclOperation, resource_type: ResourceType, name: str
    ) -> bool:
        assert principal
        assert host
        assert resource_type
        return not any(operation is denied and only in (None, name) for denied, only in self._denied)

    def rule(
        self, principal: Principal, host: str, operation: AclOperation, resource_type: ResourceType, name: str
    ) -> Rule:
        return Rule(self.allows(principal, host, operation, resource_type, name), "Test")

    def allows_any(self, principal: Principal, host: str, operation: AclOperation, resource_type: ResourceType) -> bool:
        return self.allows(principal, host, operation, resource_type, ANY_NAME)


class DataNode:
    """One broker of a cluster whose metadata the test writes."""

    def __init__(
        self, *, directories: Sequence[str] = ("/data",), authorizer: Authorizer | None = None, session_slots: int = 10
    ) -> None:
        self.node_id = NODE
        self.cluster_id = "MkU3OEVBNTcwNTJENDM2Qg"
        self.clock = ManualClock()
        self.timers = ManualTimers(self.clock)
        self.random = Random(5)
        self.disk = SimulatedDisk(self.clock)
        self.disk.make_directory("/")
        self.seams = Seams(self.disk, self.clock, InlineSlowWork(), self.random)
        self.image = ClusterImage()
        self.config = ConfigValues(ConfigKeys([*DATA_PLANE_KEYS.values()]), {})
        self.authorizer: Authorizer = authorizer or AllowAll()
        self.connection = FakeConnection()
        self.placed: list[tuple[TopicId, int, DirectoryId]] = []
        self.producer_ids: list[int] = list(range(1000, 2000))
        self.paths = directories
        self.log_directories = self._open_directories()
        self.partitions = self._new_partitions()
        self.fetch_sessions = FetchSessions(session_slots, self.clock, self.random, self.config[FETCH_MAX_BYTES])
        self.metrics = BrokerMetrics()
        self.quotas = NodeQuotas(ConfigValues(QUOTA_KEYS, {}), self.clock)

    # Node

    def forward(self, request: Request, answer: type[T], caller: Caller) -> Pending[T]:
        raise NotImplementedError("the data plane asks no controller")

    def is_controller_listener(self, listener_name: str) -> bool:
        return listener_name == "CONTROLLER"

    def next_producer_id(self) -> Pending[int]:
        pending: Pending[int] = Pending()
        pending.complete(self.producer_ids.pop(0) if self.producer_ids else -1)
        return pending

    # Starting

    def _open_directories(self) -> LogDirectories:
        opened = []
        for number, path in enumerate(self.paths):
            directory_id = DirectoryId(bytes([0x40 + number]) * 16)
            if not self.disk.exists(path):
                self.disk.make_directory(path)
                identity = MetaProperties(self.cluster_id, self.node_id, directory_id)
                write_meta_properties(self.disk, path, identity)
            opened.append(
                LogDirectory.open(
                    self.seams,
                    path,
                    config_of=lambda topic: self.topic_config(topic).log,
                    on_offline=self._directory_failed,
                )
            )
        return LogDirectories(opened)

    def _new_partitions(self) -> Partitions:
        partitions = Partitions(
            self.node_id,
            self.log_directories,
            self.clock,
            config_of=self.topic_config,
            on_placed=lambda topic_id, index, directory: self.placed.append((topic_id, index, directory)),
        )
        for directory in self.log_directories:
            directory.load(is_stray=lambda log: partitions.is_stray(self.image, log))
        return partitions

    def _directory_failed(self, directory: LogDirectory, error: StorageError) -> None:
        assert error is directory.fault
        self.partitions.directory_failed(directory)

    def restart(self, *, cleanly: bool = True, then: ClusterImage | None = None) -> None:
        """Stop and start again, with the metadata that there is; `then` is what it has become once the logs are loaded."""
        for directory in self.log_directories:
            if cleanly:
                directory.close(cast("Any", 1))
            else:
                directory.abandon()
        self.log_directories = self._open_directories()
        self.partitions = self._new_partitions()
        self.image = then or self.image
        self.partitions.apply(self.image)

    def topic_config(self, topic: TopicName) -> TopicConfig:
        values = dict(self.image.config_of(ConfigResource(BROKER_RESOURCE, "")))
        given = {key.name: values[key.synonym] for key in TOPIC_KEYS.values() if key.synonym in values}
        given.update(self.image.config_of(ConfigResource(TOPIC_RESOURCE, topic)))
        return TopicConfig.from_values(TOPIC_KEYS.parse(given))

    # Metadata

    def commit(self, *records: MetadataRecord) -> None:
        """The controller has committed these records."""
        delta = ImageDelta(self.image)
        offset = self.image.offset
        for record in records:
            offset = Offset(offset + 1)
            delta.apply(record, offset)
        self.image = delta.image(offset, LeaderEpoch(1), self.clock.ms)
        self.partitions.apply(self.image, delta)

    def create_topic(
        self,
        name: str,
        *,
        partitions: int = 1,
        replicas: Sequence[int] = (1,),
        isr: Sequence[int] | None = None,
        leader: int = 1,
        topic_id: bytes | None = None,
        directory: bytes | None = None,
        configs: Mapping[str, str] | None = None,
    ) -> TopicId:
        topic_id = topic_id or self.random.randbytes(16)
        self.commit(
            *(
                ConfigRecord(resource_type=TOPIC_RESOURCE, resource_name=name, name=key, value=value)
                for key, value in (configs or {}).items()
            ),
            TopicRecord(name=name, topic_id=topic_id),
            *(
                PartitionRecord(
                    partition_id=index,
                    topic_id=topic_id,
                    replicas=list(replicas),
                    isr=list(isr if isr is not None else replicas),
                    removing_replicas=[],
                    adding_replicas=[],
                    leader=leader,
                    leader_epoch=0,
                    partition_epoch=0,
                    directories=[directory or bytes([0x40]) * 16] * len(replicas),
                )
                for index in range(partitions)
            ),
        )
        return TopicId(topic_id)

    def change(self, topic: str, index: int = 0, **changes: Any) -> None:
        """A PartitionChangeRecord; one that names a leader begins an epoch."""
        topic_id = self.image.topic_ids[TopicName(topic)]
        self.commit(PartitionChangeRecord(partition_id=index, topic_id=topic_id, **changes))

    def delete_topic(self, name: str) -> None:
        self.commit(RemoveTopicRecord(topic_id=self.image.topic_ids[TopicName(name)]))

    def configure(self, topic: str, configs: Mapping[str, str]) -> None:
        self.commit(
            *(
                ConfigRecord(resource_type=TOPIC_RESOURCE, resource_name=topic, name=key, value=value)
                for key, value in configs.items()
            )
        )

    def register_broker(
        self, node_id: int, host: str, port: int, *, fenced: bool = False, rack: str | None = "r1"
    ) -> None:
        self.commit(
            RegisterBrokerRecord(
                broker_id=node_id,
                incarnation_id=bytes([node_id]) * 16,
                broker_epoch=node_id,
                end_points=[BrokerEndpoint(name=LISTENER, host=host, port=port, security_protocol=0)],
                features=[],
                rack=rack,
                fenced=fenced,
            )
        )

    # Partitions

    def partition(self, topic: str, index: int = 0) -> Partition:
        return self.partitions.named(TopicName(topic))[PartitionIndex(index)]

    def files(self, path: str = "/data") -> dict[str, bytes]:
        """Everything that the partitions have on disk."""
        disk = self.disk
        return {
            f"{directory}/{name}": disk.read_bytes(f"{path}/{directory}/{name}", 1 << 24)
            for directory in disk.list_directory(path)
            if disk.is_dir(f"{path}/{directory}")
            for name in disk.list_directory(f"{path}/{directory}")
        }

    def log(self, topic: str, index: int = 0) -> PartitionLog:
        log = self.partition(topic, index).log
        assert log is not None
        return log

    def directory_names(self, path: str = "/data") -> list[str]:
        return [name for name in self.disk.list_directory(path) if self.disk.is_dir(f"{path}/{name}")]

    # Requests

    def caller(self, api_key: int, version: int, client_id: str | None = "test") -> Caller:
        return Caller(cast("Connection", self.connection), client_id, api_key, version, self.authorizer)

    def ask(
        self, handler: Callable[[Any, Any, Any], Any], request: Request, version: int, client_id: str | None = "test"
    ) -> Any:
        """What a handler returns: a response, a pending one, or None."""
        return handler(request, self.caller(request.api_key, version, client_id), self)

    def answered(self, handler: Callable[[Any, Any, Any], Any], request: Request, version: int) -> Any:
        """The response of a handler that answers at once."""
        answer = self.ask(handler, request, version)
        if isinstance(answer, Pending):
            assert answer.is_complete, "the answer is still to come"
            answer = answer.value
        assert isinstance(answer, Response), answer
        return answer


def topic_partition(topic: str, index: int = 0) -> TopicPartition:
    return TopicPartition(TopicName(topic), PartitionIndex(index))
