"""What is read of a node's share coordinator when somebody asks, under the names of Kafka's share-coordinator-metrics."""

from __future__ import annotations

from collections.abc import Iterable

from tidelog.broker.share.cluster_persister import ClusterPersister
from tidelog.broker.share.share_coordinator import ShareCoordinator
from tidelog.model.internal_topics import SHARE_GROUP_STATE
from tidelog.model.metrics import Kind, Reading, Registry

_PREFIX = "kafka_server_share_coordinator_metrics_"


def register_share_coordinator(registry: Registry, coordinator: ShareCoordinator, persister: ClusterPersister) -> None:
    """Writes, how long they take, what is deleted, and what waits for a coordinator."""
    registry.counted(f"{_PREFIX}write_total", "Writes of share partitions' states.", lambda: coordinator.write_count)
    registry.family(
        Kind.HISTOGRAM,
        f"{_PREFIX}write_latency_ms",
        "How long a write of a share partition's state took, until it was committed.",
        (),
        lambda: [((), coordinator.write_ms)],
    )

    def pruned() -> Iterable[Reading]:
        return [((SHARE_GROUP_STATE, str(index)), offset) for index, offset in coordinator.pruned_before.items()]

    registry.family(
        Kind.GAUGE,
        f"{_PREFIX}last_pruned_offset",
        "Before which offset the log was last deleted, since no state needs it.",
        ("topic", "partition"),
        pruned,
    )
    registry.gauge(
        "tidelog_share_persister_queued_bytes",
        "About how much waits for an answer of a share coordinator, on this node or another.",
        lambda: persister.queued_bytes,
    )
