"""What a node's configuration comes to at this moment: what the process was started with, and what was changed at run time."""

from __future__ import annotations

from collections.abc import Callable

from tidelog.broker.config.config_view import BrokerConfigView, effective_config, topic_values
from tidelog.controller.cluster_view import BROKER_RESOURCE
from tidelog.controller.image import ClusterImage
from tidelog.controller.image_delta import ImageDelta
from tidelog.model.config import ConfigValues
from tidelog.model.ids import NodeId, TopicName
from tidelog.replication.topic_config import TopicConfig


class CurrentConfig:
    """The broker's own values as `now`, and those of its topics. `image` is the cluster's metadata as far as it is known."""

    __slots__ = ("_image", "_node_id", "_static", "_topics", "_view", "now")

    def __init__(self, static: ConfigValues, node_id: NodeId, image: Callable[[], ClusterImage]) -> None:
        self.now = static
        self._static = static
        self._node_id = node_id
        self._image = image
        self._view = BrokerConfigView.of(static, ClusterImage(), node_id)
        self._topics: dict[TopicName, TopicConfig] = {}

    def topic(self, topic: TopicName) -> TopicConfig:
        """What a topic's configuration comes to on this node."""
        known = self._topics.get(topic)
        if known is None:
            known = self._topics[topic] = TopicConfig.from_values(topic_values(self._view, self._image(), topic))
        return known

    def read_anew(self) -> None:
        """The broker's own values may be others now, and with them those of any topic."""
        self._topics.clear()
        self._view = BrokerConfigView.of(self._static, self._image(), self._node_id)
        self.now = effective_config(self._static, self._view)

    def follow(self, delta: ImageDelta) -> None:
        """The cluster's metadata has changed by this."""
        for resource in delta.configs_changed:
            if resource.type == BROKER_RESOURCE:
                self.read_anew()
            else:
                self._topics.pop(TopicName(resource.name), None)
        for name in delta.topics_removed.values():
            self._topics.pop(name, None)
