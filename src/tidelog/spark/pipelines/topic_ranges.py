"""How far the topics of a query are, before and after each batch: in which offsets its records are to be found again.

Everything of a batch lies in what has come to its topics since the batch before. Records of others, and of attempts that do not
count, may lie in between.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

from tidelog.client.admin import Admin
from tidelog.client.admin.records import OffsetSpec
from tidelog.client.consumer.topic_partition import TopicPartition
from tidelog.client.errors import ClientError
from tidelog.spark.pipelines.sink_writing import TopicCluster
from tidelog.spark.sink.audit_entry import PartitionRange
from tidelog.spark.sink.open_transactions import admin_settings

log = logging.getLogger(__name__)


class TopicRanges:
    """Asks the clusters of a query's topics. A cluster that does not answer leaves a gap in the account, and stops nothing."""

    def __init__(self, clusters: Sequence[TopicCluster]) -> None:
        self._clusters = clusters
        self._admins: dict[int, Admin] = {}
        self._last_of: dict[int, dict[TopicPartition, int]] = {}

    def begin(self) -> None:
        """Look where the topics end now."""
        self.since_last()

    def since_last(self) -> dict[str, tuple[PartitionRange, ...]]:
        found: dict[str, tuple[PartitionRange, ...]] = {}
        for index, cluster in enumerate(self._clusters):
            try:
                ends = self._ends(index, cluster)
            except ClientError as error:
                log.info("the ends of topics are not known, and are left out of the account: %s", error)
                self._last_of.pop(index, None)
                continue
            last = self._last_of.get(index)
            self._last_of[index] = ends
            if last is None:
                continue
            for each in cluster.sinks:
                found[each.sink] = _between(each.topic, last, ends)
        return found

    def close(self) -> None:
        admins, self._admins = self._admins, {}
        for each in admins.values():
            each.close()

    def _ends(self, index: int, cluster: TopicCluster) -> dict[TopicPartition, int]:
        admin = self._admins.get(index)
        if admin is None:
            admin = self._admins[index] = Admin(**admin_settings(cluster.options.client))
        described = admin.describe_topics([each.topic for each in cluster.sinks])
        wanted = [
            TopicPartition(topic, partition.index)
            for topic, found in described.items()
            if not isinstance(found, ClientError)
            for partition in found.partitions
        ]
        listed = admin.list_offsets(dict.fromkeys(wanted, OffsetSpec.LATEST))
        return {
            each: outcome.offset
            for each, outcome in listed.items()
            if not isinstance(outcome, ClientError) and outcome.offset is not None
        }


def _between(
    topic: str, last: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]
) -> tuple[PartitionRange, ...]:
    return tuple(
        PartitionRange(topic, each.partition, last.get(each, 0), end)
        for each, end in sorted(ends.items())
        if each.topic == topic and end > last.get(each, 0)
    )
