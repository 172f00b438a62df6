"""A node's part in the cluster's metadata, put together: its replica of the metadata log, the controller that may lead by it,
and its ways to the other nodes.

metadata = NodeMetadata(parts, ...)      the log is read; nothing is sent yet
metadata.start()                  takes part in elections
metadata.is_led                   completes when this node knows the cluster as the leader does
"""

from __future__ import annotations

from collections.abc import Callable

from tidelog.broker.cluster.cluster_links import ClusterLinks
from tidelog.broker.cluster.local_controller import ClientsRequest
from tidelog.broker.config.config_resources import ConfigResourceType
from tidelog.broker.config.config_view import static_topic_defaults
from tidelog.broker.config.node_config import bootstrap_servers, voters_of
from tidelog.broker.groups.group_limits import group_config_problem
from tidelog.broker.node.node_parts import NodeParts
from tidelog.controller.cluster_view import TopicDefaults
from tidelog.controller.errors import MetadataFault
from tidelog.controller.image import ClusterImage, Endpoint
from tidelog.controller.image_delta import ImageDelta
from tidelog.controller.metadata_service import MetadataParts, MetadataService
from tidelog.controller.settings import ControllerSettings
from tidelog.model import broker_config as keys
from tidelog.model.client_metrics_config import CLIENT_METRICS_KEYS
from tidelog.model.config import ConfigValues
from tidelog.model.controller_config import CONTROLLER_QUORUM_REQUEST_TIMEOUT_MS
from tidelog.model.group_config import GROUP_KEYS
from tidelog.model.ids import NodeId
from tidelog.model.pending import Pending
from tidelog.model.topic_config import TOPIC_KEYS, compaction_lag_problem
from tidelog.net.node_connection import ConnectionParts
from tidelog.storage.log_directory import LogDirectory


class NodeMetadata:
    """One for each node, broker or not. A node that is no controller follows the log and never leads."""

    def __init__(
        self,
        parts: NodeParts,
        directory: LogDirectory,
        endpoints: tuple[Endpoint, ...],
        *,
        can_lead: bool,
        for_client: ClientsRequest,
        on_fault: Callable[[MetadataFault], None],
    ) -> None:
        """`directory` has the metadata log. `endpoints` are those for controllers. `for_client` authorises and decides what
        clients ask of this node's controller."""
        assert directory.identity is not None
        config = parts.config
        listener = config[keys.CONTROLLER_LISTENER_NAMES][0]
        self.is_led: Pending[None] = Pending()
        server, seams = parts.server, parts.seams
        self.links = ClusterLinks(
            ConnectionParts(parts.loop, parts.transport, seams.random, server.buffers, server.turn),
            parts.timers,
            seams.clock,
            node_id=parts.node_id,
            controller_listener=listener,
            request_timeout_ms=config[CONTROLLER_QUORUM_REQUEST_TIMEOUT_MS],
            brokers=parts.security.brokers,
            controllers=parts.security.controllers,
        )
        parts.stopping.append(self.links.close)
        self.service = MetadataService.open(
            seams,
            parts.timers,
            MetadataParts(
                directory=directory.path,
                identity=directory.identity,
                listener=listener,
                endpoints=endpoints,
                config=config,
                settings=_controller_settings(config, parts.node_id, parts.cluster_id),
                on_fault=on_fault,
                static_voters=voters_of(config),
                bootstrap_servers=bootstrap_servers(config),
                peers=self.links.peers,
                can_become_voter=can_lead,
            ),
        )
        parts.stopping.append(self.service.abandon)
        self.service.committed.subscribe(self._look_if_caught_up)
        self.links.join(self.service, for_client)

    @property
    def image(self) -> ClusterImage:
        """The cluster as far as this node has seen it committed."""
        return self.service.committed.image

    def start(self) -> None:
        """Take part in elections, or follow who was elected."""
        self.service.start()

    def _look_if_caught_up(self, image: ClusterImage, _delta: ImageDelta) -> None:
        """An active controller writes records all the time, so that an image follows in which all of this holds."""
        if self.service.quorum.is_caught_up and image.features:
            self.is_led.complete(None)


def _controller_settings(config: ConfigValues, node_id: NodeId, cluster_id: str) -> ControllerSettings:
    return ControllerSettings.from_values(
        config,
        node_id=node_id,
        cluster_id=cluster_id,
        topic_defaults=TopicDefaults(static_topic_defaults(config)),
        config_keys={
            ConfigResourceType.TOPIC: TOPIC_KEYS,
            # A broker checks its own keys before it passes a change on.
            ConfigResourceType.BROKER: None,
            ConfigResourceType.CLIENT_METRICS: CLIENT_METRICS_KEYS,
            ConfigResourceType.GROUP: GROUP_KEYS,
        },
        config_problems={
            ConfigResourceType.GROUP: lambda own: group_config_problem(config, own),
            ConfigResourceType.TOPIC: compaction_lag_problem,
        },
    )
