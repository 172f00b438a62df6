"""A node for tests of the admin plane: an image made of records, a table of keys, and a controller that is a function.

`ask` sends a request through the codec in the version that a test names, both ways, so that a handler sees what a client can send
and a test sees what a client would.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from types import SimpleNamespace
from typing import Any, TypeVar, cast

from tests.support.data_node import ManualTimers
from tests.support.log_builder import ManualClock
from tidelog.broker.cluster.auto_topics import AutoTopics
from tidelog.broker.cluster.doubted_brokers import DoubtedBrokers
from tidelog.broker.cluster.envelopes import FORWARDABLE
from tidelog.broker.cluster.known_hosts import KnownHosts
from tidelog.broker.requests.caller import AllowAll, Authorizer, Caller
from tidelog.broker.requests.handling import HANDLERS
from tidelog.broker.requests.node_view import Node
from tidelog.broker.telemetry.client_telemetry import ClientTelemetry
from tidelog.controller.features import BOOTSTRAP_LEVELS
from tidelog.controller.image import ClusterImage
from tidelog.controller.image_delta import ImageDelta
from tidelog.controller.requests import SENT_BY_NODES, cut_to_version
from tidelog.model.acl import AclOperation, ResourceType
from tidelog.model.cleaner_config import LOG_CLEANER_THREADS
from tidelog.model.config import (
    ConfigKey,
    ConfigKeys,
    ConfigType,
    ConfigValues,
    UpdateMode,
    int_key,
    list_key,
    string_key,
)
from tidelog.model.ids import LeaderEpoch, NodeId, Offset, TimestampMs
from tidelog.model.pending import Pending
from tidelog.model.principal import ANONYMOUS, Principal
from tidelog.model.security_protocol import SecurityProtocol
from tidelog.model.slow_work import InlineSlowWork
from tidelog.model.telemetry_config import TELEMETRY_KEYS
from tidelog.net.address import Address
from tidelog.net.connection import UNKNOWN_SOFTWARE, Connection
from tidelog.security.acl_set import Rule
from tidelog.security.authorizer import ANY_NAME
from tidelog.security.delegation_tokens import TokenSecret
from tidelog.wire.codec import decode, encode
from tidelog.wire.messages.configs import AlterConfigsRequest, IncrementalAlterConfigsRequest
from tidelog.wire.messages.internal import cluster_metadata as records
from tidelog.wire.schema import MetadataRecord, Request, Response

A = TypeVar("A", bound=Response)

LISTENER = "PLAINTEXT"
CONTROLLER_LISTENER = "CONTROLLER"
CLUSTER_ID = "MkU3OEVBNTcwNTJENDM2Qg"
DIRECTORY = b"d" * 16

BROKER_TABLE = ConfigKeys(
    [
        int_key("broker.id", -1, doc="Who."),
        int_key("node.id", -1, doc="Who."),
        string_key("broker.rack", "", doc="Where the broker stands."),
        list_key("log.dirs", (), doc="Where the data is."),
        ConfigKey("log.retention.ms", ConfigType.LONG, None, "In ms.", UpdateMode.CLUSTER_WIDE),
        ConfigKey("log.retention.minutes", ConfigType.INT, None, "In minutes."),
        int_key("log.retention.hours", 168, doc="In hours."),
        ConfigKey("log.roll.ms", ConfigType.LONG, None, "In ms.", UpdateMode.CLUSTER_WIDE),
        LOG_CLEANER_THREADS,
        int_key("log.roll.hours", 168, doc="In hours."),
        list_key("log.cleanup.policy", ("delete",), update_mode=UpdateMode.CLUSTER_WIDE, doc="What goes."),
        int_key("min.insync.replicas", 1, at_least=1, update_mode=UpdateMode.CLUSTER_WIDE, doc="How many."),
        int_key("num.io.threads", 8, at_least=1, update_mode=UpdateMode.CLUSTER_WIDE, doc="How many."),
        int_key("num.partitions", 1, at_least=1, doc="How many."),
        string_key("listener.security.protocol.map", "", update_mode=UpdateMode.PER_BROKER, doc="What is what."),
        string_key("ssl.keystore.type", "JKS", update_mode=UpdateMode.PER_BROKER, doc="Which kind."),
        ConfigKey("ssl.key.password", ConfigType.PASSWORD, None, "Hush.", UpdateMode.PER_BROKER),
        int_key("group.consumer.session.timeout.ms", 45_000, doc="How long."),
    ]
)


class Denies:
    """Allows all but what it is told. A name of None stands for every one."""

    def __init__(self, *denied: tuple[AclOperation, ResourceType, str | None]) -> None:
        self._denied = denied
        self.revision = 0

    def allows(
        self, principal: Principal, host: str, operation: AclOperation, resource_type: ResourceType, name: str
    ) -> bool:
        return not any(
            (operation, resource_type) == denied[:2] and denied[2] in {None, name} for denied in self._denied
        )

    def rule(
        self, principal: Principal, host: str, operation: AclOperation, resource_type: ResourceType, name: str
    ) -> Rule:
        return Rule(self.allows(principal, host, operation, resource_type, name), "Test")

    def allows_any(self, principal: Principal, host: str, operation: AclOperation, resource_type: ResourceType) -> bool:
        return self.allows(principal, host, operation, resource_type, ANY_NAME)


@dataclass
class FixedClock:
    now: int = 1_700_000_000_000
    monotonic: int = 5_000

    def now_ms(self) -> TimestampMs:
        return TimestampMs(self.now)

    def monotonic_ms(self) -> int:
        return self.monotonic

    def monotonic_ns(self) -> int:
        return self.monotonic * 1_000_000


class FixedQuorum:
    def __init__(self) -> None:
        self.leader_id: NodeId | None = NodeId(1)
        self.kraft_version = 1


# Of what is forwarded, brokers themselves look at changes of configurations.
JUDGED_BY_CONTROLLERS = (FORWARDABLE | {each.api_key for each in SENT_BY_NODES}) - {
    AlterConfigsRequest.api_key,
    IncrementalAlterConfigsRequest.api_key,
}


def _known(given: dict[str, str] | None, table: ConfigKeys) -> dict[str, str]:
    return {name: text for name, text in (given or {}).items() if name in table}


class AdminNode:
    """As much of `Node` as the admin plane uses. What is forwarded is kept, and answered by `controller`."""

    def __init__(self, *applied: MetadataRecord, static: dict[str, str] | None = None) -> None:
        self.node_id = NodeId(1)
        self.cluster_id = CLUSTER_ID
        self.http_address = ""
        self.image = image_of(*applied)
        acting = _known(static, BROKER_TABLE)
        given = {**(static or {}), **BROKER_TABLE.parse(acting).given}
        self.static_config = ConfigValues(BROKER_TABLE, given)
        self.config: ConfigValues = self.static_config
        self.clock = FixedClock()
        self.random = Random(1)
        self.telemetry = ClientTelemetry(
            TELEMETRY_KEYS.parse(_known(static, TELEMETRY_KEYS)), self.clock.monotonic_ms, self.random
        )
        self.quorum = FixedQuorum()
        self.log_directories: Any = []
        self.partitions: Any = None
        self.auto_topics = AutoTopics(cast("Any", self))
        self.timers = ManualTimers(ManualClock())
        self.doubted_brokers = DoubtedBrokers(self.timers)
        self.forwarded: list[Request] = []
        self.controller: Callable[[Any], Response] | None = None
        self.unanswered: list[Pending[Any]] = []
        self.protocol = SecurityProtocol.PLAINTEXT
        self.token_secret: TokenSecret | None = None
        self.known_hosts = KnownHosts(InlineSlowWork(), lambda _name: False)

    def security_protocol(self, _listener_name: str) -> SecurityProtocol:
        return self.protocol

    def is_controller_listener(self, listener_name: str) -> bool:
        return listener_name == CONTROLLER_LISTENER

    is_active_controller = True

    def forward(self, request: Request, answer: type[A], caller: Caller | None) -> Pending[A]:
        self.forwarded.append(request)
        pending: Pending[A] = Pending()
        if self.controller is None:
            self.unanswered.append(pending)
        else:
            decided = self.controller(request)
            assert isinstance(decided, answer)
            pending.complete(cut_to_version(request, decided, None if caller is None else caller.api_version))
        return pending


def caller_of(
    request: Request,
    version: int,
    *,
    authorizer: Authorizer | None = None,
    listener: str | None = None,
    principal: Principal = ANONYMOUS,
) -> Caller:
    """Where no listener is named, one of those that judge: what brokers only pass on is asked of a controller."""
    if listener is None:
        listener = CONTROLLER_LISTENER if request.api_key in JUDGED_BY_CONTROLLERS else LISTENER
    connection = SimpleNamespace(
        principal=principal,
        listener_name=listener,
        peer_address=Address("10.0.0.9", 40_000),
        host="10.0.0.9",
        client_software=UNKNOWN_SOFTWARE,
    )
    return Caller(cast("Connection", connection), "test", request.api_key, version, authorizer or AllowAll())


def ask(
    node: AdminNode,
    request: Request,
    answer: type[A],
    version: int,
    *,
    authorizer: Authorizer | None = None,
    caller: Caller | None = None,
    listener: str | None = None,
) -> A:
    """What a client gets for a request, which must be there at once."""
    received = decode(type(request), version, encode(request, version))
    caller = caller or caller_of(request, version, authorizer=authorizer, listener=listener)
    response = HANDLERS[request.api_key].answer(received, caller, cast("Node", node))
    if isinstance(response, Pending):
        response = response.value
    assert isinstance(response, answer)
    return decode(answer, version, encode(response, version))


# Records


def image_of(*applied: MetadataRecord) -> ClusterImage:
    delta = ImageDelta(ClusterImage())
    for number, record in enumerate(applied):
        delta.apply(record, Offset(number))
    return delta.image(Offset(max(len(applied) - 1, 0)), LeaderEpoch(1), 7)


def features() -> list[MetadataRecord]:
    return [records.FeatureLevelRecord(name=name, feature_level=level) for name, level in BOOTSTRAP_LEVELS.items()]


def broker(
    node: int,
    *,
    fenced: bool = False,
    listeners: tuple[str, ...] = (LISTENER,),
    rack: str | None = None,
    directories: tuple[bytes, ...] = (DIRECTORY,),
) -> records.RegisterBrokerRecord:
    return records.RegisterBrokerRecord(
        broker_id=node,
        incarnation_id=b"i" * 16,
        broker_epoch=node,
        end_points=[
            records.BrokerEndpoint(name=name, host=f"host{node}", port=9092 + number, security_protocol=0)
            for number, name in enumerate(listeners)
        ],
        features=[],
        rack=rack,
        fenced=fenced,
        log_dirs=list(directories),
    )


def controller(node: int) -> records.RegisterControllerRecord:
    point = records.ControllerEndpoint(name=CONTROLLER_LISTENER, host=f"host{node}", port=9093, security_protocol=0)
    return records.RegisterControllerRecord(
        controller_id=node, incarnation_id=b"c" * 16, zk_migration_ready=False, end_points=[point], features=[]
    )


def topic_id_of(name: str) -> bytes:
    return name.encode()[:16].ljust(16, b"#")


def topic(name: str, partitions: int = 1, **changes: Any) -> list[MetadataRecord]:
    """A topic whose partitions are on broker 1, unless changes of the PartitionRecord say otherwise."""
    facts: dict[str, Any] = {
        "replicas": [1],
        "isr": [1],
        "removing_replicas": [],
        "adding_replicas": [],
        "leader": 1,
        "leader_epoch": 4,
        "partition_epoch": 0,
        "directories": [DIRECTORY],
        **changes,
    }
    topic_id = topic_id_of(name)
    made: list[MetadataRecord] = [records.TopicRecord(name=name, topic_id=topic_id)]
    made += [records.PartitionRecord(partition_id=index, topic_id=topic_id, **facts) for index in range(partitions)]
    return made


def config(resource_type: int, resource_name: str, name: str, value: str) -> records.ConfigRecord:
    return records.ConfigRecord(resource_type=resource_type, resource_name=resource_name, name=name, value=value)
