"""What is counted of every topic: kafka.server's BrokerTopicMetrics, for each topic and for all of them together.

    counts = metrics.topics[name]                     # only of a topic that this node has replicas of
    counts.produced(1, message_count, len(records))

Per partition of a request, never per record: how many records came in is the difference of two offsets. The sums over all topics
are made when somebody asks. A topic that goes leaves its counts to them, so that they never go back.

Where this differs from Kafka: records that are recognised as a producer's repetition are not counted as having come in, since
nothing is written; and a fetch in a session counts only the partitions that were looked at.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from tidelog.broker.metrics.topic_counts import COUNTERS, TopicCounts
from tidelog.model.ids import TopicName
from tidelog.model.metrics import Kind, Reading, Registry

PREFIX = "kafka_server_broker_topic_metrics_"


class TopicMetrics(dict[TopicName, TopicCounts]):
    """By topic. Whoever looks one up makes sure that the topic exists: its name becomes a label."""

    def __init__(self) -> None:
        super().__init__()
        self._gone = TopicCounts()

    def __missing__(self, topic: TopicName) -> TopicCounts:
        counts = self[topic] = TopicCounts()
        return counts

    def remove(self, topic: TopicName) -> None:
        """Forget a topic that was deleted, or of which this node has no replica any more."""
        counts = self.pop(topic, None)
        if counts is not None:
            self._gone.add(counts)

    def register(self, registry: Registry) -> None:
        """Declare the families."""
        for name, help_text in COUNTERS.items():
            registry.family(
                Kind.COUNTER,
                f"{PREFIX}{name}_total",
                f"{help_text} Without a topic: of all of them.",
                ("topic",),
                partial(self._read, name),
            )

    def _read(self, name: str) -> Iterable[Reading]:
        by_topic: list[Reading] = [((topic,), getattr(counts, name)) for topic, counts in self.items()]
        total = getattr(self._gone, name) + sum(getattr(counts, name) for counts in self.values())
        return [((), total), *by_topic]
