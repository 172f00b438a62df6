"""What is read of share groups when somebody asks."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

from tidelog.broker.share.led_share_partition import LedSharePartition
from tidelog.broker.share.share_leader import ShareLeader
from tidelog.broker.share.share_metrics import REQUEST_COUNTERS, GroupTimes
from tidelog.model.metrics import Histogram, Kind, Reading, Registry

_GROUPS = "kafka_server_share_group_metrics_"
_PARTITIONS = "kafka_server_share_partition_metrics_"
_SESSIONS = "kafka_server_share_session_cache_"
_TOPICS = "kafka_server_broker_topic_metrics_"


def register_share_groups(registry: Registry, shares: ShareLeader) -> None:
    """Acknowledgements, share partitions, sessions and requests."""
    metrics, sessions = shares.metrics, shares.sessions
    registry.family(
        Kind.COUNTER,
        f"{_GROUPS}record_acknowledgements_total",
        "What members of share groups have said of records.",
        ("ack_type",),
        lambda: [((kind.name.lower(),), count) for kind, count in metrics.acknowledged.items()],
    )
    registry.family(
        Kind.HISTOGRAM,
        f"{_GROUPS}partition_load_time_ms",
        "How long reading the state of a share partition took.",
        (),
        lambda: [((), metrics.load_ms)],
    )
    _register_times(
        registry, shares, "request_topic_partitions_fetch_ratio", "Of 100 partitions asked for, how many could be fetched.",
        lambda times: times.fetch_ratio,
    )  # fmt: skip
    _register_times(
        registry, shares, "topic_partitions_acquire_time_ms", "How long a fetch took to have a partition to fetch.",
        lambda times: times.acquire_ms,
    )  # fmt: skip
    _register_partitions(registry, shares)
    registry.gauge(f"{_SESSIONS}share_sessions_count", "Sessions of members of share groups.", lambda: len(sessions))
    registry.gauge(
        f"{_SESSIONS}share_partitions_count", "Partitions in these sessions.", lambda: sessions.partition_count
    )
    registry.counted(
        f"{_SESSIONS}share_session_evictions_total",
        "Sessions that have ended with their connections.",
        lambda: sessions.evictions,
    )
    registry.counted(
        "kafka_server_delayed_share_fetch_metrics_expires_total",
        "Fetches of share groups that have waited for as long as they were to.",
        lambda: metrics.expired_fetches,
    )
    for name, help_text in REQUEST_COUNTERS.items():
        registry.family(
            Kind.COUNTER,
            f"{_TOPICS}{name}_total",
            f"{help_text} Without a topic: of all of them.",
            ("topic",),
            partial(_requests, shares, name),
        )


def _register_times(
    registry: Registry, shares: ShareLeader, name: str, help_text: str, of: Callable[[GroupTimes], Histogram]
) -> None:
    registry.family(
        Kind.HISTOGRAM,
        f"{_GROUPS}{name}",
        help_text,
        ("group",),
        lambda: [((group_id,), of(times)) for group_id, times in shares.metrics.of_groups.items()],
    )


def _register_partitions(registry: Registry, shares: ShareLeader) -> None:
    labels = ("group", "topic", "partition")

    def read(value: Callable[[LedSharePartition], int | Histogram]) -> Callable[[], Iterable[Reading]]:
        return lambda: [(_labels(led), value(led)) for led in shares]

    registry.family(
        Kind.GAUGE,
        f"{_PARTITIONS}in_flight_message_count",
        "Offsets of a share partition from its start to the last one that was given to a member.",
        labels,
        read(lambda led: led.machine.in_flight_count()),
    )
    registry.family(
        Kind.GAUGE,
        f"{_PARTITIONS}in_flight_batch_count",
        "Batches that these are kept in.",
        labels,
        read(lambda led: len(led.machine.batches)),
    )
    registry.family(
        Kind.COUNTER,
        f"{_PARTITIONS}acquisition_lock_timeout_total",
        "Batches and records that a member has had for too long.",
        labels,
        read(lambda led: led.timeouts),
    )


def _labels(led: LedSharePartition) -> tuple[str, str, str]:
    topic, partition = led.partition.topic_partition
    return led.group_id, topic, str(partition)


def _requests(shares: ShareLeader, name: str) -> Iterable[Reading]:
    total, by_topic = shares.metrics.requests(name)
    return [((), total), *(((topic,), count) for topic, count in by_topic.items())]
