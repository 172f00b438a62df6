"""`tidelog consume --share`: a member of a share group that prints records and accepts what it has printed, and nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tidelog.cli.admin_session import remark
from tidelog.cli.cluster_login import login_settings
from tidelog.cli.records.output_records import Row
from tidelog.client.admin import Admin, OffsetSpec, value_of
from tidelog.client.consumer.topic_partition import TopicPartition
from tidelog.client.share.options import ShareOptions
from tidelog.client.share.share_consumer import ShareConsumer


class SharedReading:
    """Of these partitions, which are all of some topics."""

    def __init__(
        self,
        admin: Admin,
        bootstrap: str,
        group: str,
        partitions: Sequence[TopicPartition],
        *,
        at_once_max: int,
        is_exact: bool,
    ) -> None:
        """A poll returns `at_once_max` records; a few more, to the end of a batch, unless it `is_exact`."""
        self._admin = admin
        self._group = group
        self._partitions = partitions
        own: dict[str, Any] = {
            "bootstrap_servers": bootstrap,
            "group_id": group,
            "allow_auto_create_topics": False,
            "share_acknowledgement_mode": "explicit",
            "share_acquire_mode": "record_limit" if is_exact else "batch_optimized",
            "max_poll_records": at_once_max,
            "fetch_max_wait_ms": 100,
        }
        self.consumer = ShareConsumer(**{"client_id": "tidelog-consume", **login_settings(ShareOptions), **own})
        self._printed: Sequence[Row] = ()
        self._leaders = 1
        self._ends: dict[TopicPartition, int] = {}

    def begin(self) -> None:
        described = self._admin.describe_topics({each.topic for each in self._partitions})
        self._leaders = len({each.leader for topic in described.values() for each in value_of(topic).partitions})
        self._ends = self._listed()
        self.consumer.subscribe(sorted({each.topic for each in self._partitions}))

    def poll(self, timeout_ms: float, limit: int) -> list[Row]:
        """No more than `limit`; what was acquired beyond that is released when the consumer is closed."""
        rows: list[Row] = list(self.consumer.poll(timeout_ms=timeout_ms)[:limit])
        self._printed = rows
        return rows

    def commit(self) -> None:
        """Accept what the last poll returned."""
        for row in self._printed:
            self.consumer.acknowledge(row)  # type: ignore[arg-type]  # of the share consumer's own kind
        for error in self.consumer.commit().values():
            if error is not None:
                remark("consume", f"records were printed that somebody else may have too: {error}")

    def is_over(self) -> bool:
        """Whether the group has settled what was there at the beginning. Of a partition of which it has settled nothing at all,
        whether every leader has had the time to say that there is nothing to be had."""
        positions = self._admin.list_share_group_offsets(self._group, self._partitions)
        ends = self._listed()
        has_asked = self.consumer.metrics()["messaging.kafka.consumer.fetches"] > 2 * self._leaders
        return all(
            has_asked
            if (position := positions.get(each)) is None or position.lag is None
            else position.lag <= ends[each] - self._ends[each]
            for each in self._partitions
        )

    def _listed(self) -> dict[TopicPartition, int]:
        listed = self._admin.list_offsets(dict.fromkeys(self._partitions, OffsetSpec.LATEST))
        return {partition: value_of(listed[partition]).offset or 0 for partition in self._partitions}
