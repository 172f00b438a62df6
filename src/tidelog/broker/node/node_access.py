"""A node's authoriser, put together: chosen by the configuration, kept up with the cluster's ACLs, and shown in the metrics."""

from __future__ import annotations

import logging

from tidelog.broker.config.node_config import authorizer_of, starts_early
from tidelog.broker.node.node_metadata import NodeMetadata
from tidelog.broker.requests.caller import AllowAll, Authorizer
from tidelog.controller.image import ClusterImage
from tidelog.controller.image_delta import ImageDelta
from tidelog.model.config import ConfigValues
from tidelog.model.metrics import Registry

logger = logging.getLogger(__name__)

# Kafka's group of the metrics of its plug-ins, of which the authoriser is one.
_METRICS = "kafka_server_plugins_"


class NodeAccess:
    """One for each node. `authorizer` is what all of its listeners ask."""

    def __init__(self, config: ConfigValues) -> None:
        self._config = config
        self._standard = authorizer_of(config)
        self.authorizer: Authorizer = self._standard or AllowAll()

    def serves_early(self, listener_name: str) -> bool:
        """Whether a listener for controllers serves before the ACLs are there. Super users alone get anything there till then."""
        return self._standard is None or starts_early(self._config, listener_name)

    def follow(self, metadata: NodeMetadata) -> None:
        """Decide by the ACLs of the cluster's metadata, from the moment on at which this node has caught up with it."""
        standard = self._standard
        if standard is None:
            return

        def follow(image: ClusterImage, _delta: ImageDelta) -> None:
            standard.follow(image.access_control)
            if not standard.is_ready and metadata.is_led.is_complete:
                standard.is_ready = True
                logger.info("this node decides by %d ACLs", standard.acl_count)

        # After what completes `is_led`.
        metadata.service.committed.subscribe(follow)

    def warn_of(self, image: ClusterImage) -> None:
        """Say so where the cluster has ACLs and this node does not look at them."""
        if self._standard is None and image.access_control:
            logger.warning(
                "the cluster has %d ACLs, and this node has no authoriser: everybody may do everything here until "
                "authorizer.class.name is set",
                len(image.access_control),
            )

    def register_metrics(self, registry: Registry) -> None:
        standard = self._standard

        def count(name: str) -> int:
            return 0 if standard is None else getattr(standard, name)

        registry.counted(
            f"{_METRICS}authorization_allowed_total",
            "Questions of what a caller may do that were answered with yes.",
            lambda: count("allowed_count"),
        )
        registry.counted(
            f"{_METRICS}authorization_denied_total",
            "Questions of what a caller may do that were answered with no.",
            lambda: count("denied_count"),
        )
        registry.counted(
            f"{_METRICS}authorization_request_total",
            "Questions of what a caller may do.",
            lambda: count("allowed_count") + count("denied_count"),
        )
        registry.gauge(f"{_METRICS}acls_total_count", "ACLs that this node decides by.", lambda: count("acl_count"))
