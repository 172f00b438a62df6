"""What is read of a node when somebody asks: nothing here costs anything between two scrapes.

Under the names of Kafka's ReplicaManager, KafkaController, Log, LogManager, FetchSessionCache, socket-server-metrics,
raft-metrics and DelayedOperationPurgatory.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from functools import partial

from tidelog.broker.data.fetch_sessions import FetchSessions
from tidelog.broker.groups.group_coordinator import GroupCoordinator
from tidelog.broker.metrics.request_metrics import RequestMetrics
from tidelog.broker.metrics.topic_metrics import PREFIX as TOPIC_METRICS
from tidelog.broker.node.node_tls import NodeTls
from tidelog.controller.image import NO_LEADER, ClusterImage
from tidelog.controller.metadata_service import MetadataService
from tidelog.model.bugs import Housekeeping
from tidelog.model.clock import Clock
from tidelog.model.metrics import Histogram, Kind, Reading, Registry
from tidelog.net.socket_server import SocketServer
from tidelog.replication.partition import Partition
from tidelog.replication.partitions import Partitions
from tidelog.replication.roles import Leading, Offline
from tidelog.replication.traffic import ReplicationTraffic
from tidelog.security.cipher_suites import iana_name
from tidelog.storage.log_directories import LogDirectories
from tidelog.storage.partition_log import PartitionLog
from tidelog.wire.apis import api

_UNKNOWN = -1


def register_housekeeping(registry: Registry, housekeeping: Housekeeping) -> None:
    """What should be 0. Not Kafka's."""
    registry.family(
        Kind.COUNTER,
        "tidelog_node_housekeeping_failures_total",
        "Failures of what a node does by the clock, such as retention: bugs, which are logged and do not stop it.",
        ("work",),
        lambda: [((work,), count) for work, count in housekeeping.failures.items()],
    )


def register_server(registry: Registry, server: SocketServer) -> None:
    """Connections and bytes, by listener."""
    prefix = "kafka_server_socket_server_metrics_"

    def connection_count() -> Iterable[Reading]:
        counts = dict.fromkeys(server.listeners, 0)
        for connection in server.connections.values():
            counts[connection.listener_name] = counts.get(connection.listener_name, 0) + 1
        return [((name,), count) for name, count in counts.items()]

    def closed(name: str) -> Iterable[Reading]:
        return [((listener,), getattr(counts, name)) for listener, counts in server.counts.items()]

    def moved(name: str) -> Iterable[Reading]:
        sums = {listener: getattr(counts, name) for listener, counts in server.counts.items()}
        for connection in server.connections.values():
            sums[connection.listener_name] += getattr(connection, name)
        return [((listener,), total) for listener, total in sums.items()]

    family = registry.family
    family(Kind.GAUGE, prefix + "connection_count", "Open connections.", ("listener",), connection_count)
    for name, help_text, read in (
        ("connection_creation", "Connections that were accepted.", partial(closed, "accepted")),
        ("connection_close", "Connections that have ended.", partial(closed, "closed")),
        ("expired_connections_killed", "Connections that were closed for being idle.", partial(closed, "expired")),
        ("incoming_byte", "Bytes that were received.", partial(moved, "bytes_in")),
        ("outgoing_byte", "Bytes that were sent.", partial(moved, "bytes_out")),
    ):
        family(Kind.COUNTER, f"{prefix}{name}_total", help_text, ("listener",), read)
    family(
        Kind.COUNTER,
        prefix + "ip_connection_accept_throttled_total",
        "Connections that were not served, since their address makes too many.",
        ("listener",),
        lambda: [((name,), server.throttled.get(name, 0)) for name in server.counts],
    )


def register_tls(registry: Registry, server: SocketServer, tls: NodeTls, clock: Clock) -> None:
    """Connections by what they have agreed on, handshakes, and how long certificates are still valid, by listener. Nothing where
    no listener has TLS."""
    family = registry.family

    def connections() -> Iterable[Reading]:
        sessions = [(each.listener_name, each.tls) for each in server.connections.values()]
        agreed = Counter((name, iana_name(tls.cipher), tls.version) for name, tls in sessions if tls is not None)
        return [(labels, count) for labels, count in sorted(agreed.items())]

    family(
        Kind.GAUGE,
        "kafka_server_socket_server_metrics_connections",
        "Open connections with TLS, by cipher suite and version.",
        ("listener", "cipher", "protocol"),
        connections,
    )
    family(
        Kind.COUNTER,
        "tidelog_tls_handshakes_total",
        "TLS handshakes that were completed.",
        ("listener",),
        lambda: [((name,), each.handshakes) for name, each in tls.servers()],
    )
    family(
        Kind.COUNTER,
        "tidelog_tls_failed_handshakes_total",
        "TLS handshakes that failed.",
        ("listener",),
        lambda: [((name,), each.failed_handshakes) for name, each in tls.servers()],
    )
    family(
        Kind.GAUGE,
        "tidelog_tls_certificate_expiry_seconds",
        "How long the listener's certificate is still valid.",
        ("listener",),
        lambda: [((name,), expiry_s) for name, expiry_s in tls.expiries_s(clock.now_ms())],
    )


def register_waiting(registry: Registry, requests: RequestMetrics) -> None:
    """Requests that wait for an event."""

    def waiting() -> Iterable[Reading]:
        sums: defaultdict[str, int] = defaultdict(int)
        for (key, _), counts in requests.items():
            sums[api(key).name] += counts.waiting
        return [((name,), count) for name, count in sums.items()]

    registry.family(
        Kind.GAUGE,
        "kafka_server_delayed_operation_purgatory_num_delayed_operations",
        "Requests that wait: for records, for replicas, for the controller.",
        ("delayed_operation",),
        waiting,
    )


def register_fetch_sessions(registry: Registry, sessions: FetchSessions) -> None:
    """The cache of fetch sessions."""
    prefix = "kafka_server_fetch_session_cache_"
    registry.gauge(prefix + "num_incremental_fetch_sessions", "Fetch sessions.", lambda: len(sessions))
    registry.gauge(
        prefix + "num_incremental_fetch_partitions_cached",
        "Partitions in all fetch sessions.",
        lambda: sessions.cached_partitions,
    )
    registry.counted(
        prefix + "incremental_fetch_session_evictions_total",
        "Fetch sessions that had to make room for others.",
        lambda: sessions.evictions,
    )


def _is_under_replicated(partition: Partition, role: Leading) -> bool:
    return len(role.isr) < len(partition.replicas) - len(partition.adding_replicas)


def register_traffic(registry: Registry, traffic: ReplicationTraffic) -> None:
    """What the node copies from leaders, and what goes either way for reassignments: as in Kafka, of all topics together."""
    registry.counted(
        TOPIC_METRICS + "replication_bytes_in_total",
        "Bytes of record batches that this node has copied from leaders.",
        lambda: traffic.replication_bytes_in,
    )
    registry.counted(
        TOPIC_METRICS + "reassignment_bytes_in_total",
        "The part of them that was copied for replicas which a reassignment adds.",
        lambda: traffic.reassignment_bytes_in,
    )
    registry.counted(
        TOPIC_METRICS + "reassignment_bytes_out_total",
        "Bytes of record batches that followers were answered whose replicas a reassignment adds.",
        lambda: traffic.reassignment_bytes_out,
    )


def register_partitions(registry: Registry, partitions: Partitions) -> None:
    """The replicas of the node."""
    prefix = "kafka_server_replica_manager_"

    def leading(holds: Callable[[Leading], bool]) -> Callable[[], int]:
        return lambda: sum(isinstance(each.role, Leading) and holds(each.role) for each in partitions)

    gauge = registry.gauge
    gauge(prefix + "partition_count", "Replicas on this node.", lambda: len(partitions))
    gauge(prefix + "leader_count", "Partitions that this node leads.", leading(lambda _: True))
    gauge(
        prefix + "offline_replica_count",
        "Replicas on this node that cannot be used.",
        lambda: sum(isinstance(each.role, Offline) for each in partitions),
    )
    gauge(
        prefix + "under_replicated_partitions",
        "Partitions that this node leads and not all replicas of which are in sync; those that are being added do not count.",
        lambda: sum(isinstance(each.role, Leading) and _is_under_replicated(each, each.role) for each in partitions),
    )
    gauge(
        prefix + "reassigning_partitions",
        "Partitions that this node leads and that are on their way to other replicas.",
        lambda: sum(each.is_leading and bool(each.adding_replicas or each.removing_replicas) for each in partitions),
    )
    gauge(
        prefix + "under_min_isr_partition_count",
        "Partitions that this node leads with fewer replicas in sync than min.insync.replicas.",
        leading(lambda role: len(role.isr) < role.min_in_sync),
    )
    gauge(
        prefix + "at_min_isr_partition_count",
        "Partitions that this node leads with just min.insync.replicas replicas in sync.",
        leading(lambda role: len(role.isr) == role.min_in_sync),
    )

    def of_logs(value: Callable[[PartitionLog], int]) -> Callable[[], Iterable[Reading]]:
        return lambda: [
            ((each.topic_partition.topic, str(each.topic_partition.partition)), value(log))
            for each in partitions
            if (log := each.log) is not None
        ]

    for name, help_text, value in (
        ("size", "Bytes of a partition's segments.", lambda log: log.size_bytes),
        ("num_log_segments", "Segments of a partition.", lambda log: len(log.segment_base_offsets)),
        ("log_start_offset", "The first offset of a partition.", lambda log: log.log_start_offset),
        ("log_end_offset", "The offset that the next record of a partition gets.", lambda log: log.log_end_offset),
    ):
        registry.family(Kind.GAUGE, f"kafka_log_log_{name}", help_text, ("topic", "partition"), of_logs(value))


def register_groups(registry: Registry, groups: GroupCoordinator) -> None:
    """The groups that this node coordinates."""
    prefix = "kafka_coordinator_group_group_metadata_manager_"
    registry.gauge(
        prefix + "num_groups",
        "Groups that this node coordinates.",
        lambda: sum(len(shard.groups) for shard in groups.shards()),
    )
    registry.gauge(
        prefix + "num_offsets",
        "Offsets that they have committed.",
        lambda: sum(len(shard.offsets) for shard in groups.shards()),
    )

    def by_state() -> Iterable[Reading]:
        counts: defaultdict[tuple[str, str], int] = defaultdict(int)
        for shard in groups.shards():
            for group in shard.groups.values():
                counts[group.type_name.lower(), group.state_name] += 1
        return [(labels, count) for labels, count in sorted(counts.items())]

    registry.family(
        Kind.GAUGE,
        "kafka_server_group_coordinator_metrics_group_count",
        "The same, by protocol and state.",
        ("protocol", "state"),
        by_state,
    )


def register_directories(
    registry: Registry, directories: LogDirectories, offline_paths: Callable[[], list[str]]
) -> None:
    """The log directories. One that could not even be opened is offline too, but not among `directories`."""
    prefix = "kafka_log_log_manager_"
    registry.gauge(
        prefix + "offline_log_directory_count", "Log directories that are offline.", lambda: len(offline_paths())
    )

    def offline() -> Iterable[Reading]:
        paths = offline_paths()
        known = dict.fromkeys([*(directory.path for directory in directories), *paths])
        return [((path,), int(path in paths)) for path in known]

    registry.family(
        Kind.GAUGE,
        prefix + "log_directory_offline",
        "1 for a log directory that is offline.",
        ("log_directory",),
        offline,
    )


def register_flushes(registry: Registry, times_ms: Histogram) -> None:
    """How often logs are forced to disk, and how long that takes."""
    registry.family(
        Kind.HISTOGRAM,
        "kafka_log_log_flush_stats_log_flush_rate_and_time_ms",
        "Flushes of logs to disk.",
        (),
        lambda: [((), times_ms)],
    )


def register_metadata(registry: Registry, service: MetadataService) -> None:
    """The cluster as the metadata log has it, and this node's part in the quorum."""
    prefix = "kafka_controller_kafka_controller_"
    quorum, committed = service.quorum, service.committed

    def of_image(value: Callable[[ClusterImage], int]) -> Callable[[], int]:
        return lambda: value(committed.image)

    gauge = registry.gauge
    gauge(prefix + "active_controller_count", "1 on the active controller.", lambda: int(service.controller.is_active))
    for name, help_text, value in (
        ("global_topic_count", "Topics of the cluster.", lambda image: len(image.topics)),
        ("global_partition_count", "Partitions of the cluster.", _partition_count),
        ("offline_partitions_count", "Partitions without a leader.", _offline_partition_count),
        (
            "preferred_replica_imbalance_count",
            "Partitions that are led by another replica than their first.",
            _imbalance_count,
        ),
        (
            "active_broker_count",
            "Brokers that are registered and let in.",
            lambda image: sum(not each.fenced for each in image.brokers.values()),
        ),
        (
            "fenced_broker_count",
            "Brokers that are registered and kept out.",
            lambda image: sum(each.fenced for each in image.brokers.values()),
        ),
        ("last_applied_record_offset", "The last metadata record that this node knows.", lambda image: image.offset),
        (
            "last_applied_record_timestamp",
            "When that was written, in milliseconds since 1970.",
            lambda image: image.timestamp_ms,
        ),
    ):
        gauge(prefix + name, help_text, of_image(value))
    prefix = "kafka_server_raft_metrics_"
    gauge(
        prefix + "current_leader",
        "The leader of the metadata quorum, or -1.",
        lambda: _UNKNOWN if quorum.leader_id is None else quorum.leader_id,
    )
    gauge(prefix + "current_epoch", "The epoch of the metadata quorum.", lambda: quorum.epoch)
    gauge(prefix + "high_watermark", "Up to where the metadata log is committed.", lambda: quorum.high_watermark)
    gauge(prefix + "log_end_offset", "The end of this node's metadata log.", lambda: quorum.next_offset)
    registry.family(
        Kind.GAUGE,
        prefix + "current_state",
        "1 for what this node is to the metadata quorum.",
        ("state",),
        lambda: [((quorum.role_name,), 1)],
    )


def _partition_count(image: ClusterImage) -> int:
    return sum(len(topic.partitions) for topic in image.topics.values())


def _offline_partition_count(image: ClusterImage) -> int:
    return sum(
        partition.leader == NO_LEADER for topic in image.topics.values() for partition in topic.partitions.values()
    )


def _imbalance_count(image: ClusterImage) -> int:
    return sum(
        partition.leader != partition.replicas[0]
        for topic in image.topics.values()
        for partition in topic.partitions.values()
    )
