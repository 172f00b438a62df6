"""The share coordinator of a node: joins the shards of `coordination.share_state` with the node's partitions and the cluster's
metadata.

    coordinator.write(key, asked)      decided here, appended, answered once it is committed
    coordinator.start()                from now on what no state needs any more is deleted from the log

Everything that is answered, a refusal too, waits until what was written before is committed: it may rest on that.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from functools import partial
from typing import TypeVar, cast

from tidelog.broker.coordinators.coordinator_elections import CoordinatorElections, Hosting
from tidelog.broker.groups.group_coordinator import LEADER_ONLY
from tidelog.controller.image import ClusterImage
from tidelog.controller.image_delta import ImageDelta
from tidelog.coordination.coordinator_log import CoordinatorPartition
from tidelog.coordination.decision import Decision
from tidelog.coordination.host import CoordinatorHost, HostSeams
from tidelog.coordination.share_state.share_partition_key import SharePartitionKey
from tidelog.coordination.share_state.share_state_settings import ShareStateSettings
from tidelog.coordination.share_state.share_state_shard import ShareStateShard, refused, refused_read, refused_summary
from tidelog.model import share_coordinator_config as keys
from tidelog.model.config import ConfigValues
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import NodeId, PartitionIndex
from tidelog.model.internal_topics import SHARE_GROUP_STATE
from tidelog.model.metrics import LATENCY_BOUNDS_MS, Histogram
from tidelog.model.pending import Pending, after
from tidelog.model.timers import Timer, Timers
from tidelog.storage.seams import Seams
from tidelog.wire.compression import Compression
from tidelog.wire.internal_records import CoordinatorLog
from tidelog.wire.messages import share_group_state as wire

logger = logging.getLogger(__name__)

A = TypeVar("A")


class ShareCoordinator:
    """The share partitions whose partition of `__share_group_state` this node leads."""

    def __init__(
        self,
        node: Hosting,
        config: ConfigValues,
        seams: Seams,
        timers: Timers,
        turn: AbstractContextManager[None],
    ) -> None:
        self._node = node
        self._timers = timers
        self._monotonic_ms = seams.clock.monotonic_ms
        self._settings = ShareStateSettings(
            updates_per_snapshot=config[keys.SNAPSHOT_UPDATE_RECORDS_PER_SNAPSHOT],
            cold_snapshot_interval_ms=config[keys.COLD_PARTITION_SNAPSHOT_INTERVAL_MS],
        )
        self._prune_interval_ms = config[keys.STATE_TOPIC_PRUNE_INTERVAL_MS]
        self._elections = CoordinatorElections(node, SHARE_GROUP_STATE, config[keys.STATE_TOPIC_NUM_PARTITIONS])
        self._host: CoordinatorHost[ShareStateShard] = CoordinatorHost(
            CoordinatorLog.SHARE_GROUP_STATE,
            self._new_shard,
            HostSeams(seams.clock, timers, seams.slow_work, turn),
            required_acks=LEADER_ONLY,
            commit_timeout_ms=config[keys.WRITE_TIMEOUT_MS],
            load_buffer_bytes=config[keys.LOAD_BUFFER_SIZE],
            codec=Compression(config[keys.STATE_TOPIC_COMPRESSION_CODEC]),
        )
        self._prune_timer: Timer | None = None
        self.write_count = 0
        self.write_ms = Histogram(LATENCY_BOUNDS_MS)
        """How long writes took, until they were committed."""
        self.pruned_before: dict[int, int] = {}
        """By partition of the log: where its records begin since the last time some were deleted."""

    def _new_shard(self, _index: int, _leader_epoch: int, _partition: CoordinatorPartition) -> ShareStateShard:
        return ShareStateShard(self._settings, lambda: self._node.image)

    # --- following the cluster ---------------------------------------------------------------------------------------------

    def follow(self, image: ClusterImage, delta: ImageDelta | None = None) -> None:
        """Lead what the metadata says, after the node's partitions have followed it."""
        self._elections.follow(self._host, image, delta)
        if delta is not None and delta.topics_removed:
            removed = frozenset(delta.topics_removed)
            self._host.decide_everywhere(lambda shard, now_ms: shard.topics_removed(removed, now_ms))

    def start(self) -> None:
        """Delete what is not needed any more, from time to time."""
        self._prune_timer = self._timers.after(self._prune_interval_ms, self._prune)

    def stop(self) -> None:
        """The node stops."""
        if self._prune_timer is not None:
            self._prune_timer.cancel()
        self._host.close()

    def leader_of(self, key: SharePartitionKey) -> NodeId | None:
        """The broker that keeps a share partition's state at the moment."""
        return self._elections.leader_of(str(key))

    # --- requests ----------------------------------------------------------------------------------------------------------

    def initialise(
        self, key: SharePartitionKey, asked: wire.PartitionData
    ) -> wire.PartitionResult | Pending[wire.PartitionResult]:
        return self._decide(
            key, lambda shard, now_ms: shard.initialise(key, asked, now_ms), _refusal(refused, key, "initialize")
        )

    def read(
        self, key: SharePartitionKey, asked: wire.ReadShareGroupStatePartitionData
    ) -> wire.ReadShareGroupStatePartitionResult | Pending[wire.ReadShareGroupStatePartitionResult]:
        return self._decide(
            key, lambda shard, now_ms: shard.read(key, asked, now_ms), _refusal(refused_read, key, "read")
        )

    def write(
        self, key: SharePartitionKey, asked: wire.WriteShareGroupStatePartitionData
    ) -> wire.PartitionResult | Pending[wire.PartitionResult]:
        begun_ms = self._monotonic_ms()
        self.write_count += 1

        def written(answer: wire.PartitionResult) -> wire.PartitionResult:
            self.write_ms.observe(self._monotonic_ms() - begun_ms)
            return answer

        return after(
            self._decide(key, lambda shard, now_ms: shard.write(key, asked, now_ms), _refusal(refused, key, "write")),
            written,
        )

    def delete(self, key: SharePartitionKey) -> wire.PartitionResult | Pending[wire.PartitionResult]:
        return self._decide(key, lambda shard, _now_ms: shard.delete(key), _refusal(refused, key, "delete"))

    def summary(
        self, key: SharePartitionKey
    ) -> wire.ReadShareGroupStateSummaryPartitionResult | Pending[wire.ReadShareGroupStateSummaryPartitionResult]:
        return self._decide(
            key, lambda shard, _now_ms: Decision(shard.summary(key)), _refusal(refused_summary, key, "read summary of")
        )

    def _decide(
        self,
        key: SharePartitionKey,
        decide: Callable[[ShareStateShard, int], Decision[A]],
        refuse: Callable[[ErrorCode], A],
    ) -> A | Pending[A]:
        index = self._elections.partition_of(str(key))
        active = self._host.active(index)
        if active is None:
            return refuse(self._host.refusal(index))
        decision = decide(active.shard, active.now_ms())
        if decision.records:
            return active.carry_out(decision, refuse)
        # Nothing that a shard decides is pending by itself.
        return active.answer_when_committed(cast("A", decision.answer), refuse)

    # --- pruning -----------------------------------------------------------------------------------------------------------

    def _prune(self) -> None:
        self._prune_timer = self._timers.after(self._prune_interval_ms, self._prune)
        for index in self._host.active_indexes:
            needed = self._host.read(index, lambda shard: shard.needed_from, lambda _error: None)
            if isinstance(needed, Pending):
                needed.then(partial(self._delete_before, index))
            else:
                self._delete_before(index, needed)

    def _delete_before(self, index: int, needed_from: int | None) -> None:
        if not needed_from or self.pruned_before.get(index) == needed_from:
            return
        partition = self._node.partitions.named(SHARE_GROUP_STATE).get(PartitionIndex(index))
        if partition is None:
            return
        deleted = partition.delete_records(needed_from)
        if isinstance(deleted, ErrorCode):
            logger.warning("partition %d of %s cannot be pruned: %s", index, SHARE_GROUP_STATE, deleted.message)
        else:
            self.pruned_before[index] = needed_from

    def shards(self) -> Iterator[ShareStateShard]:
        return self._host.active_shards()


def _refusal(
    refuse: Callable[[SharePartitionKey, ErrorCode, str | None], A], key: SharePartitionKey, what: str
) -> Callable[[ErrorCode], A]:
    """What is answered where no shard decides, or nothing can be written."""
    return lambda error: refuse(key, error, f"Unable to {what} share group state: {error.message}")
