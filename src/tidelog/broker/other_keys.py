"""Keys of Apache Kafka that no code here acts on, each with the reason, so that the file of an ordinary Kafka is understood.

A name that is neither here nor in `model.broker_config` is nobody's: most likely it is misspelt.
"""

from __future__ import annotations

from collections.abc import Mapping

from tidelog.model import broker_config

_GROUPS = "share and streams groups are not there yet"
_REPLICATION = "replication between nodes does not go by it"
_METRICS = "it configures the metrics of Apache Kafka"
_OTHER_PROGRAM = "it tunes Apache Kafka's own threads and buffers"
_BETWEEN_NODES = "what nodes say to each other does not go by it"


def _family(prefix: str, reason: str, names: str) -> dict[str, str]:
    return {f"{prefix}.{name}": reason for name in names.split()}


WITHOUT_EFFECT: Mapping[str, str] = {
    **broker_config.WITHOUT_EFFECT,
    **_family(
        "group.coordinator",
        _OTHER_PROGRAM,
        "append.linger.ms background.threads cached.buffer.max.bytes threads",
    ),
    **_family(
        "group.share",
        _GROUPS,
        "assignment.interval.ms assignors delivery.count.limit heartbeat.interval.ms initialize.retry.interval.ms "
        "max.assignment.interval.ms max.delivery.count.limit max.heartbeat.interval.ms max.partition.max.record.locks "
        "max.record.lock.duration.ms max.session.timeout.ms max.share.sessions max.size min.assignment.interval.ms "
        "min.delivery.count.limit min.heartbeat.interval.ms min.partition.max.record.locks min.record.lock.duration.ms "
        "min.session.timeout.ms partition.max.record.locks persister.class.name record.lock.duration.ms session.timeout.ms",
    ),
    **_family(
        "group.streams",
        _GROUPS,
        "assignment.interval.ms heartbeat.interval.ms initial.rebalance.delay.ms max.assignment.interval.ms "
        "max.heartbeat.interval.ms max.session.timeout.ms max.size max.standby.replicas min.assignment.interval.ms "
        "min.heartbeat.interval.ms min.session.timeout.ms num.standby.replicas session.timeout.ms",
    ),
    **_family(
        "share.coordinator",
        _GROUPS,
        "append.linger.ms cached.buffer.max.bytes cold.partition.snapshot.interval.ms load.buffer.size "
        "snapshot.update.records.per.snapshot state.topic.compression.codec state.topic.prune.interval.ms "
        "state.topic.segment.bytes threads write.timeout.ms",
    ),
    **_family(
        "replica",
        _REPLICATION,
        "socket.receive.buffer.bytes",
    ),
    "unclean.leader.election.interval.ms": _REPLICATION,
    **_family("metrics", _METRICS, "num.samples recording.level sample.window.ms"),
    **_family("kafka.metrics", _METRICS, "polling.interval.secs reporters"),
    "metric.reporters": _METRICS,
    "telemetry.max.bytes": _METRICS,
    **_family("controller.performance", _METRICS, "always.log.threshold.ms sample.period.ms"),
    **_family("controller", _BETWEEN_NODES, "quorum.fetch.max.bytes quorum.fetch.snapshot.max.bytes socket.timeout.ms"),
    **_family("socket.connection.setup", _BETWEEN_NODES, "timeout.max.ms timeout.ms"),
    "controlled.shutdown.enable": "a node always stops in a controlled way",
    "initial.broker.registration.timeout.ms": _BETWEEN_NODES,
    "server.max.startup.time.ms": _OTHER_PROGRAM,
    "share.fetch.purgatory.purge.interval.requests": _OTHER_PROGRAM,
    "log.initial.task.delay.ms": _OTHER_PROGRAM,
    "log.dir.failure.timeout.ms": _BETWEEN_NODES,
}

_POLICY = "policies are Java classes, which do not run here"

NOT_SUPPORTED: Mapping[str, str] = {
    **broker_config.NOT_SUPPORTED,
    "alter.config.policy.class.name": _POLICY,
    "create.topic.policy.class.name": _POLICY,
    "client.quota.callback.class": "quotas are not supported yet",
    "controller.quota.": "quotas are not supported yet",
    "max.connection.creation.rate": "limits on the rate of connections are quotas, which are not supported yet",
    "queued.max.request.bytes": "requests are limited by their number alone, with queued.max.requests",
    "config.providers": "configuration providers are Java classes, which do not run here",
    "group.coordinator.rebalance.protocols": "the cluster's feature group.version decides which protocols groups may use",
    "principal.builder.class": "it names a Java class, which does not run here",
    "security.": "only PLAINTEXT listeners are supported yet",
    "connections.max.reauth.ms": "SASL is not supported yet",
    "connection.failed.authentication.delay.ms": "SASL is not supported yet",
    "remote.": "tiered storage is not supported",
    "log.local.retention.": "tiered storage is not supported",
    "follower.fetch.last.tiered.offset.enable": "tiered storage is not supported",
    "early.start.listeners": "it is not supported yet",
    "cordoned.log.dirs": "it is not supported yet",
    "unstable.": "only what is stable in Kafka 4.3 is supported",
    "listener.name.": "settings of a single listener are not supported yet",
    "zookeeper.": "there is no ZooKeeper any more, and the controllers hold the metadata",
}
"""By how the keys begin. Refused with the reason, unless set to what is done anyway."""

DONE_ANYWAY: Mapping[str, frozenset[str]] = {
    "security.inter.broker.protocol": frozenset({"PLAINTEXT"}),
    "queued.max.request.bytes": frozenset({"-1"}),
    "log.local.retention.ms": frozenset({"-2"}),
    "log.local.retention.bytes": frozenset({"-2"}),
    "max.connection.creation.rate": frozenset({"2147483647"}),
    "ssl.client.auth": frozenset({"none"}),
    "group.coordinator.rebalance.protocols": frozenset({"classic,consumer", "classic,consumer,streams"}),
}
"""The values that ask for nothing, beside the empty one and `false`, which always do."""


def reason_against(name: str) -> str | None:
    """Why a key cannot be taken; None where nothing speaks against its name."""
    return next((reason for prefix, reason in NOT_SUPPORTED.items() if name.startswith(prefix)), None)
