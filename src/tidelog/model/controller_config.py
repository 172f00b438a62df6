"""The configuration keys of the controller and of its quorum: the metadata log, elections, brokers' sessions, new topics.

Names, defaults and ranges are those of Apache Kafka 4.3. Only keys that some code acts on are declared.
"""

from __future__ import annotations

from tidelog.model.config import ConfigKeys, bool_key, int_key, long_key

_DAY_MS = 24 * 60 * 60 * 1000
_MEBIBYTE = 1024 * 1024

# The metadata log

METADATA_LOG_SEGMENT_BYTES = int_key(
    "metadata.log.segment.bytes",
    1024 * _MEBIBYTE,
    at_least=8 * _MEBIBYTE,
    doc="How large one file of the metadata log may grow.",
)
METADATA_LOG_SEGMENT_MS = long_key(
    "metadata.log.segment.ms",
    7 * _DAY_MS,
    at_least=0,
    doc="After how long the metadata log rolls to a new file even if the present one is not full.",
)
METADATA_MAX_RETENTION_BYTES = long_key(
    "metadata.max.retention.bytes",
    100 * _MEBIBYTE,
    doc="How large the metadata log and its snapshots may grow together before the oldest go; a negative number for no limit.",
)
METADATA_MAX_RETENTION_MS = long_key(
    "metadata.max.retention.ms",
    7 * _DAY_MS,
    doc="How old a snapshot of the metadata may become, once there is a newer one; a negative number for no limit.",
)
METADATA_LOG_MAX_RECORD_BYTES_BETWEEN_SNAPSHOTS = long_key(
    "metadata.log.max.record.bytes.between.snapshots",
    20 * _MEBIBYTE,
    at_least=1,
    doc="After how many bytes of new records the metadata gets a new snapshot.",
)
METADATA_LOG_MAX_SNAPSHOT_INTERVAL_MS = long_key(
    "metadata.log.max.snapshot.interval.ms",
    60 * 60 * 1000,
    at_least=0,
    doc="After how long the metadata gets a new snapshot if anything was written to its log; 0 for never because of the time.",
)
METADATA_MAX_IDLE_INTERVAL_MS = int_key(
    "metadata.max.idle.interval.ms",
    500,
    at_least=0,
    doc="How often the active controller writes a record that says nothing, so that brokers see it alive; 0 for never.",
)

# The quorum

CONTROLLER_QUORUM_ELECTION_TIMEOUT_MS = int_key(
    "controller.quorum.election.timeout.ms",
    1000,
    at_least=0,
    doc="How long a voter waits for an election to end before it calls another one.",
)
CONTROLLER_QUORUM_FETCH_TIMEOUT_MS = int_key(
    "controller.quorum.fetch.timeout.ms",
    2000,
    at_least=0,
    doc="How long a voter goes without an answer of the leader, and a leader without fetches of a majority, before it acts.",
)
CONTROLLER_QUORUM_ELECTION_BACKOFF_MAX_MS = int_key(
    "controller.quorum.election.backoff.max.ms",
    1000,
    at_least=0,
    doc="How long a voter that was not chosen as successor waits at most before it stands for election.",
)
CONTROLLER_QUORUM_REQUEST_TIMEOUT_MS = int_key(
    "controller.quorum.request.timeout.ms",
    2000,
    at_least=0,
    doc="How long a request to another controller may take.",
)
CONTROLLER_QUORUM_RETRY_BACKOFF_MS = int_key(
    "controller.quorum.retry.backoff.ms",
    20,
    at_least=0,
    doc="How long to wait before a failed request to another controller is sent again.",
)
CONTROLLER_QUORUM_AUTO_JOIN_ENABLE = bool_key(
    "controller.quorum.auto.join.enable",
    False,
    doc="Whether a controller that is not among the voters asks to become one.",
)

# The controller

BROKER_SESSION_TIMEOUT_MS = int_key(
    "broker.session.timeout.ms",
    9000,
    at_least=1,
    doc="How long a broker may be silent before it is fenced.",
)
NUM_PARTITIONS = int_key(
    "num.partitions",
    1,
    at_least=1,
    doc="How many partitions a new topic gets if nobody says.",
)
DEFAULT_REPLICATION_FACTOR = int_key(
    "default.replication.factor",
    1,
    at_least=1,
    at_most=2**15 - 1,
    doc="How many replicas the partitions of a new topic get if nobody says.",
)
DELETE_TOPIC_ENABLE = bool_key(
    "delete.topic.enable",
    True,
    doc="Whether topics may be deleted.",
)
AUTO_LEADER_REBALANCE_ENABLE = bool_key(
    "auto.leader.rebalance.enable",
    True,
    doc="Whether leadership goes back to the first replica of a partition, in the background, once that replica is in sync.",
)
LEADER_IMBALANCE_CHECK_INTERVAL_SECONDS = long_key(
    "leader.imbalance.check.interval.seconds",
    300,
    at_least=1,
    doc="How often the controller looks for partitions whose first replica does not lead.",
)

CONTROLLER_CONFIG_KEYS = ConfigKeys(
    [
        AUTO_LEADER_REBALANCE_ENABLE,
        BROKER_SESSION_TIMEOUT_MS,
        CONTROLLER_QUORUM_AUTO_JOIN_ENABLE,
        CONTROLLER_QUORUM_ELECTION_BACKOFF_MAX_MS,
        CONTROLLER_QUORUM_ELECTION_TIMEOUT_MS,
        CONTROLLER_QUORUM_FETCH_TIMEOUT_MS,
        CONTROLLER_QUORUM_REQUEST_TIMEOUT_MS,
        CONTROLLER_QUORUM_RETRY_BACKOFF_MS,
        DEFAULT_REPLICATION_FACTOR,
        DELETE_TOPIC_ENABLE,
        LEADER_IMBALANCE_CHECK_INTERVAL_SECONDS,
        METADATA_LOG_MAX_RECORD_BYTES_BETWEEN_SNAPSHOTS,
        METADATA_LOG_MAX_SNAPSHOT_INTERVAL_MS,
        METADATA_LOG_SEGMENT_BYTES,
        METADATA_LOG_SEGMENT_MS,
        METADATA_MAX_IDLE_INTERVAL_MS,
        METADATA_MAX_RETENTION_BYTES,
        METADATA_MAX_RETENTION_MS,
        NUM_PARTITIONS,
    ]
)
