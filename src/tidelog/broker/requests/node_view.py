"""What a handler sees of its node."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Protocol, TypeVar

from tidelog.broker.requests.caller import Caller
from tidelog.model.clock import Clock
from tidelog.model.config import ConfigValues
from tidelog.model.ids import NodeId
from tidelog.model.pending import Pending
from tidelog.model.security_protocol import SecurityProtocol
from tidelog.model.timers import Timers
from tidelog.wire.schema import Request, Response

if TYPE_CHECKING:
    from tidelog.broker.cluster.auto_topics import AutoTopics
    from tidelog.broker.cluster.broker_watch import BrokerWatch
    from tidelog.broker.cluster.doubted_brokers import DoubtedBrokers
    from tidelog.broker.cluster.known_hosts import KnownHosts
    from tidelog.broker.coordinators.internal_topics import InternalTopics
    from tidelog.broker.data.fetch_sessions import FetchSessions
    from tidelog.broker.groups.group_coordinator import GroupCoordinator
    from tidelog.broker.groups.streams_topics import StreamsTopics
    from tidelog.broker.maintenance.replica_moves import ReplicaMoves
    from tidelog.broker.metrics.broker_metrics import BrokerMetrics
    from tidelog.broker.node.node_tls import NodeTls
    from tidelog.broker.quotas.node_quotas import NodeQuotas
    from tidelog.broker.share.group_states import GroupStates
    from tidelog.broker.share.share_coordinator import ShareCoordinator
    from tidelog.broker.share.share_leader import ShareLeader
    from tidelog.broker.telemetry.client_telemetry import ClientTelemetry
    from tidelog.broker.transactions.transaction_admission import TransactionAdmission
    from tidelog.broker.transactions.transaction_coordinator import TransactionCoordinator
    from tidelog.controller.controller import ControllerContext
    from tidelog.controller.image import ClusterImage
    from tidelog.raft.messages import Request as QuorumRequest, Response as QuorumResponse
    from tidelog.replication.partitions import Partitions
    from tidelog.security.delegation_tokens import TokenCredentials, TokenSecret
    from tidelog.storage.log_directories import LogDirectories

A = TypeVar("A", bound=Response)


class QuorumView(Protocol):
    """What handlers ask of the metadata quorum."""

    @property
    def leader_id(self) -> NodeId | None: ...

    @property
    def kraft_version(self) -> int: ...

    def receive(self, request: QuorumRequest) -> Pending[QuorumResponse]:
        """A request of another replica, or of an administrator."""
        ...


class Node(Protocol):
    """One broker of the cluster, as its handlers use it. All of it runs on one thread."""

    @property
    def node_id(self) -> NodeId: ...

    @property
    def cluster_id(self) -> str: ...

    @property
    def config(self) -> ConfigValues:
        """The broker's own configuration, with what was changed at run time."""
        ...

    @property
    def static_config(self) -> ConfigValues:
        """The same without those changes: what the process was started with."""
        ...

    @property
    def tls(self) -> NodeTls:
        """Of its listeners, and of the calls to other nodes."""
        ...

    @property
    def http_address(self) -> str:
        """Where its port for watchers is reached, as a URL without a path; empty where it has none."""
        ...

    @property
    def clock(self) -> Clock: ...

    @property
    def timers(self) -> Timers: ...

    @property
    def random(self) -> Random: ...

    @property
    def image(self) -> ClusterImage:
        """The cluster's metadata as far as this node has seen it committed."""
        ...

    @property
    def quorum(self) -> QuorumView:
        """This node's replica of the metadata quorum."""
        ...

    @property
    def partitions(self) -> Partitions:
        """The replicas on this node."""
        ...

    @property
    def groups(self) -> GroupCoordinator:
        """The groups that this node coordinates."""
        ...

    @property
    def transactions(self) -> TransactionCoordinator:
        """The transactions that this node coordinates."""
        ...

    @property
    def transaction_admission(self) -> TransactionAdmission:
        """Who asks the coordinators of transactions before transactional records are appended."""
        ...

    @property
    def share_coordinator(self) -> ShareCoordinator:
        """The states of share partitions that this node keeps."""
        ...

    @property
    def group_states(self) -> GroupStates:
        """What share groups that this node coordinates have with share coordinators."""
        ...

    @property
    def share_leader(self) -> ShareLeader:
        """What share groups have in hand of the partitions that this node leads."""
        ...

    @property
    def internal_topics(self) -> InternalTopics: ...

    @property
    def doubted_brokers(self) -> DoubtedBrokers:
        """Brokers whose connection has just broken."""
        ...

    @property
    def log_directories(self) -> LogDirectories: ...

    @property
    def fetch_sessions(self) -> FetchSessions: ...

    @property
    def metrics(self) -> BrokerMetrics:
        """Where handlers count."""
        ...

    @property
    def quotas(self) -> NodeQuotas:
        """What clients may take of this node."""
        ...

    @property
    def telemetry(self) -> ClientTelemetry:
        """What clients push of their own metrics."""
        ...

    @property
    def known_hosts(self) -> KnownHosts:
        """Which names of hosts this node's controller may go by."""
        ...

    @property
    def auto_topics(self) -> AutoTopics: ...

    @property
    def streams_topics(self) -> StreamsTopics:
        """Internal topics of applications, which members of streams groups have created."""
        ...

    @property
    def replica_moves(self) -> ReplicaMoves: ...

    def is_controller_listener(self, listener_name: str) -> bool:
        """Whether a listener is for controllers (`controller.listener.names`). It answers other APIs than the brokers' ones."""
        ...

    def security_protocol(self, listener_name: str) -> SecurityProtocol:
        """How a listener of this node is spoken to."""
        ...

    @property
    def token_secret(self) -> TokenSecret | None:
        """What delegation tokens are made with; None where there are none."""
        ...

    @property
    def token_credentials(self) -> TokenCredentials:
        """What logins with delegation tokens are checked against."""
        ...

    def forward(self, request: Request, answer: type[A], caller: Caller | None) -> Pending[A]:
        """Have the active controller decide; the answer comes when what it decided is committed and visible here.

        From a broker's listener it goes there unjudged: the controller decides whether the caller may. On a controllers' listener
        the handler has judged, and this node's own controller decides. Without a caller it is this node that asks.
        """
        ...

    @property
    def is_active_controller(self) -> bool: ...

    def decide(self, request: Request, context: ControllerContext) -> Pending[Response]:
        """Have this node's own controller judge and decide what a client asks; NOT_CONTROLLER where it is not the active one."""
        ...

    @property
    def broker_watch(self) -> BrokerWatch:
        """Who looks after the brokers while this node's controller is the active one."""
        ...

    def next_producer_id(self) -> Pending[int]:
        """An id that no producer has had. -1 where the controller could not give any in time."""
        ...
