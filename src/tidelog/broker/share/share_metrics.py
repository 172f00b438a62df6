"""What is counted of share groups, under the names of Kafka's ShareGroupMetrics, SharePartitionMetrics and ShareSessionCache.

Where this differs from Kafka: there are no times of a fetch lock. One fetch reads and acquires in one go, and none waits for
another.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tidelog.broker.share.acknowledgement import Acknowledged, AcknowledgeType
from tidelog.model.ids import TopicName
from tidelog.model.metrics import LATENCY_BOUNDS_MS, Histogram

_RATIO_BOUNDS = (10, 20, 30, 40, 50, 60, 70, 80, 90, 100)

REQUEST_COUNTERS = {
    "total_share_fetch_requests": "Topics in ShareFetch requests.",
    "failed_share_fetch_requests": "Topics in ShareFetch requests of which a partition could not be fetched.",
    "total_share_acknowledgement_requests": "Topics of which records were acknowledged, in requests.",
    "failed_share_acknowledgement_requests": "Topics of which records were acknowledged in vain, in requests.",
}


class GroupTimes:
    """Of the fetches of one group."""

    __slots__ = ("acquire_ms", "fetch_ratio")

    def __init__(self) -> None:
        self.fetch_ratio = Histogram(_RATIO_BOUNDS)
        """How many in a hundred of the partitions asked for could be fetched."""
        self.acquire_ms = Histogram(LATENCY_BOUNDS_MS)
        """How long it took until there was one to fetch."""


class ShareMetrics:
    """Of a node."""

    def __init__(self) -> None:
        self.acknowledged = dict.fromkeys(AcknowledgeType, 0)
        self.load_ms = Histogram(LATENCY_BOUNDS_MS)
        self.expired_fetches = 0
        self.of_groups: dict[str, GroupTimes] = {}
        self._requests: dict[str, dict[TopicName, int]] = {name: {} for name in REQUEST_COUNTERS}
        self._gone = dict.fromkeys(REQUEST_COUNTERS, 0)

    def times_of(self, group_id: str) -> GroupTimes:
        """Of a group of which this node leads something."""
        times = self.of_groups.get(group_id)
        if times is None:
            times = self.of_groups[group_id] = GroupTimes()
        return times

    def count_requests(self, name: str, topics: Iterable[TopicName]) -> None:
        """Once for each topic that a request names, whichever of its partitions."""
        counts = self._requests[name]
        for topic in dict.fromkeys(topics):
            counts[topic] = counts.get(topic, 0) + 1

    def count_acknowledged(self, said: Sequence[Acknowledged]) -> None:
        """What members have said of their records, once it is committed."""
        for each in said:
            if len(each.types) == 1:
                self.acknowledged[AcknowledgeType(each.types[0])] += each.last_offset - each.first_offset + 1
                continue
            for kind in each.types:
                self.acknowledged[AcknowledgeType(kind)] += 1

    def requests(self, name: str) -> tuple[int, dict[TopicName, int]]:
        """Of all topics together, and of each that is still there."""
        by_topic = self._requests[name]
        return self._gone[name] + sum(by_topic.values()), by_topic

    def topic_removed(self, topic: TopicName) -> None:
        """Its counts stay in the sums, so that they never go back."""
        for name, by_topic in self._requests.items():
            self._gone[name] += by_topic.pop(topic, 0)
