"""All that a node counts while it works. What can be read when somebody asks is in `node_gauges`."""

from __future__ import annotations

from tidelog.broker.metrics.authentication_metrics import AuthenticationMetrics
from tidelog.broker.metrics.request_metrics import RequestMetrics
from tidelog.broker.metrics.topic_metrics import TopicMetrics
from tidelog.model.metrics import Registry


class BrokerMetrics:
    """One for each node; handlers and dispatch count in it."""

    def __init__(self) -> None:
        self.registry = Registry()
        self.requests = RequestMetrics()
        self.topics = TopicMetrics()
        self.authentication = AuthenticationMetrics()
        self.requests.register(self.registry)
        self.topics.register(self.registry)
        self.authentication.register(self.registry)
