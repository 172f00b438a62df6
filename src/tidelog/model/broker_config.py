"""The configuration of a node: who it is, where it listens, where it keeps its logs; and the table of every key that acts.

Names, defaults and ranges are those of Apache Kafka 4.3. `BROKER_KEYS` is all that a `server.properties` may hold and that acts;
`model.unused_config` has the other keys of Kafka, so that the file of an ordinary Kafka works as it is.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

from tidelog.model.authorizer_config import AUTHORIZER_KEYS
from tidelog.model.cleaner_config import CLEANER_KEYS
from tidelog.model.cluster_config import CLUSTER_KEYS
from tidelog.model.config import ConfigKey, ConfigKeys, UpdateMode, int_key, list_key, long_key, string_key
from tidelog.model.controller_config import CONTROLLER_CONFIG_KEYS
from tidelog.model.data_plane_config import DATA_PLANE_KEYS
from tidelog.model.group_coordinator_config import GROUP_COORDINATOR_KEYS
from tidelog.model.listener_config import LISTENER_CONFIG_KEYS, MAX_CONNECTIONS
from tidelog.model.metadata_config import METADATA_KEYS
from tidelog.model.provider_config import PROVIDER_KEYS
from tidelog.model.quota_config import MAX_CONNECTION_CREATION_RATE, QUOTA_KEYS
from tidelog.model.sasl_config import LISTENER_SASL_KEYS, MECHANISM_KEYS, SASL_KEYS
from tidelog.model.share_coordinator_config import SHARE_COORDINATOR_KEYS
from tidelog.model.share_group_config import SHARE_GROUP_KEYS
from tidelog.model.streams_group_config import STREAMS_GROUP_KEYS
from tidelog.model.telemetry_config import TELEMETRY_KEYS
from tidelog.model.throttle_config import THROTTLE_KEYS
from tidelog.model.tls_config import TLS_KEYS
from tidelog.model.token_config import TOKEN_KEYS
from tidelog.model.topic_config import TOPIC_KEYS
from tidelog.model.transaction_config import TRANSACTION_KEYS

NODE_ID = int_key(
    "node.id", -1, at_least=-1, doc="The number of this node in its cluster. Brokers and controllers share the numbers."
)
BROKER_ID = int_key("broker.id", -1, doc="The older name of `node.id`.")
PROCESS_ROLES = list_key(
    "process.roles",
    ("broker", "controller"),
    choices=("broker", "controller"),
    doc="What this node is. A node of a small cluster is both.",
)
LISTENERS = list_key(
    "listeners",
    ("PLAINTEXT://:9092",),
    doc="Where the node listens, each as NAME://host:port. No host means every address, port 0 any free port.",
)
ADVERTISED_LISTENERS = list_key(
    "advertised.listeners",
    (),
    doc="What clients are told instead of `listeners`, where the address that they reach the node by is another one.",
)
CONTROLLER_LISTENER_NAMES = list_key(
    "controller.listener.names",
    (),
    doc="Which of the listeners are for controllers. The first one is used to reach others.",
)
LISTENER_SECURITY_PROTOCOL_MAP = string_key(
    "listener.security.protocol.map",
    "SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT",
    update_mode=UpdateMode.PER_BROKER,
    doc="Which security protocol each listener name stands for.",
)
CONTROLLER_QUORUM_VOTERS = list_key(
    "controller.quorum.voters",
    (),
    doc="The voters of a static quorum, each as id@host:port. Without it they are those that the directory was formatted with.",
)
BROKER_RACK = string_key(
    "broker.rack", "", doc="The rack, zone or room of this broker. Replicas are spread over racks."
)
LOG_DIRS = list_key(
    "log.dirs", (), doc="The directories that hold partitions. A directory that fails takes only its own offline."
)
LOG_DIR = list_key("log.dir", ("/tmp/kafka-logs",), doc="The same, where `log.dirs` is not set.")  # noqa: S108 - Kafka's default
METADATA_LOG_DIR = string_key(
    "metadata.log.dir", "", doc="Which directory holds the metadata log; the first one by default."
)
LOG_RETENTION_CHECK_INTERVAL_MS = long_key(
    "log.retention.check.interval.ms",
    300_000,
    at_least=1,
    doc="How often the node looks for segments that have expired.",
)
LOG_FLUSH_SCHEDULER_INTERVAL_MS = long_key(
    "log.flush.scheduler.interval.ms", 2**63 - 1, doc="How often the node looks for logs whose `flush.ms` has passed."
)
LOG_FLUSH_OFFSET_CHECKPOINT_INTERVAL_MS = int_key(
    "log.flush.offset.checkpoint.interval.ms",
    60_000,
    at_least=0,
    doc="How often the recovery points are written down: how much of a log a recovery has to read.",
)
LOG_FLUSH_START_OFFSET_CHECKPOINT_INTERVAL_MS = int_key(
    "log.flush.start.offset.checkpoint.interval.ms",
    60_000,
    at_least=0,
    doc="How often the start offsets of the logs are written down.",
)
REPLICA_HIGH_WATERMARK_CHECKPOINT_INTERVAL_MS = long_key(
    "replica.high.watermark.checkpoint.interval.ms",
    5_000,
    at_least=1,
    doc="How often the high watermarks are written down.",
)
PRODUCER_ID_EXPIRATION_MS = int_key(
    "producer.id.expiration.ms",
    86_400_000,
    at_least=1,
    doc="How long a producer that is silent is remembered, for the recognition of duplicates.",
)
PRODUCER_ID_EXPIRATION_CHECK_INTERVAL_MS = int_key(
    "producer.id.expiration.check.interval.ms",
    600_000,
    at_least=1,
    is_internal=True,
    doc="How often the node looks for such producers.",
)
BROKER_HEARTBEAT_INTERVAL_MS = int_key(
    "broker.heartbeat.interval.ms", 2000, at_least=1, doc="How often a broker reports to the controller."
)

NODE_KEYS = ConfigKeys(
    [
        NODE_ID,
        BROKER_ID,
        PROCESS_ROLES,
        LISTENERS,
        ADVERTISED_LISTENERS,
        CONTROLLER_LISTENER_NAMES,
        LISTENER_SECURITY_PROTOCOL_MAP,
        CONTROLLER_QUORUM_VOTERS,
        BROKER_RACK,
        LOG_DIRS,
        LOG_DIR,
        METADATA_LOG_DIR,
        LOG_RETENTION_CHECK_INTERVAL_MS,
        LOG_FLUSH_SCHEDULER_INTERVAL_MS,
        LOG_FLUSH_OFFSET_CHECKPOINT_INTERVAL_MS,
        LOG_FLUSH_START_OFFSET_CHECKPOINT_INTERVAL_MS,
        REPLICA_HIGH_WATERMARK_CHECKPOINT_INTERVAL_MS,
        PRODUCER_ID_EXPIRATION_MS,
        PRODUCER_ID_EXPIRATION_CHECK_INTERVAL_MS,
        BROKER_HEARTBEAT_INTERVAL_MS,
    ]
)


def _topic_defaults(given: Mapping[str, ConfigKey[Any]]) -> Iterable[ConfigKey[Any]]:
    """The broker's keys that give topics their defaults: the topic's key under its synonym's name."""
    for key in TOPIC_KEYS.values():
        if key.synonym is not None and key.synonym not in given:
            yield dataclasses.replace(key, name=key.synonym, synonym=None)


_UNITS_OF_TIME = ConfigKeys(
    [
        int_key(
            "log.retention.hours", 168, doc="`log.retention.ms` in hours, where neither that nor the minutes are set."
        ),
        int_key("log.retention.minutes", -2, doc="`log.retention.ms` in minutes, where that is not set."),
        int_key("log.roll.hours", 168, at_least=1, doc="`log.roll.ms` in hours, where that is not set."),
        int_key("log.roll.jitter.hours", 0, at_least=0, doc="`log.roll.jitter.ms` in hours, where that is not set."),
    ]
)
# What `listener.name.<listener>.<key>` sets for a single listener, some of it for a single mechanism on it.
PER_LISTENER_KEYS = ConfigKeys(
    [
        *TLS_KEYS.values(),
        *LISTENER_SASL_KEYS.values(),
        *MECHANISM_KEYS.values(),
        MAX_CONNECTIONS,
        MAX_CONNECTION_CREATION_RATE,
    ]
)
_TABLES = (
    NODE_KEYS,
    LISTENER_CONFIG_KEYS,
    CLUSTER_KEYS,
    AUTHORIZER_KEYS,
    CONTROLLER_CONFIG_KEYS,
    DATA_PLANE_KEYS,
    THROTTLE_KEYS,
    QUOTA_KEYS,
    CLEANER_KEYS,
    GROUP_COORDINATOR_KEYS,
    METADATA_KEYS,
    TLS_KEYS,
    SASL_KEYS,
    TRANSACTION_KEYS,
    SHARE_COORDINATOR_KEYS,
    SHARE_GROUP_KEYS,
    TELEMETRY_KEYS,
    STREAMS_GROUP_KEYS,
    TOKEN_KEYS,
    PROVIDER_KEYS,
    _UNITS_OF_TIME,
)
_OWN = {key.name: key for table in _TABLES for key in table.values()}

BROKER_KEYS = ConfigKeys([*_OWN.values(), *_topic_defaults(_OWN)])
