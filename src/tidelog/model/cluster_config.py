"""The configuration keys of a node among others: how it finds the controllers, and how it follows the leaders of partitions.

Names, defaults and ranges are those of Apache Kafka 4.3. Only keys that some code acts on are declared.
"""

from __future__ import annotations

from tidelog.model.config import ConfigKeys, int_key, list_key, long_key, string_key

CONTROLLER_QUORUM_BOOTSTRAP_SERVERS = list_key(
    "controller.quorum.bootstrap.servers",
    (),
    doc="Where to ask for the leader of the metadata quorum, each as host:port, when its voters are in the log.",
)
INTER_BROKER_LISTENER_NAME = string_key(
    "inter.broker.listener.name", "", doc="By which listener brokers reach each other; the first one by default."
)
SECURITY_INTER_BROKER_PROTOCOL = string_key(
    "security.inter.broker.protocol",
    "PLAINTEXT",
    choices=("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"),
    doc="By which listener brokers reach each other, by the name of its protocol; not together with its own name.",
)
REPLICA_LAG_TIME_MAX_MS = long_key(
    "replica.lag.time.max.ms",
    30_000,
    at_least=1,
    doc="A follower that has not caught up for this long is not in sync any more.",
)
REPLICA_FETCH_MAX_BYTES = int_key(
    "replica.fetch.max.bytes",
    1_048_576,
    at_least=0,
    doc="How many bytes of a partition a follower asks for at once. A larger batch is sent whole.",
)
REPLICA_FETCH_RESPONSE_MAX_BYTES = int_key(
    "replica.fetch.response.max.bytes",
    10_485_760,
    at_least=0,
    doc="How many bytes of all partitions together a follower asks for at once.",
)
REPLICA_FETCH_MIN_BYTES = int_key(
    "replica.fetch.min.bytes",
    1,
    at_least=0,
    doc="How many bytes a leader waits for before it answers a follower, for as long as `replica.fetch.wait.max.ms` says.",
)
REPLICA_FETCH_WAIT_MAX_MS = int_key(
    "replica.fetch.wait.max.ms", 500, at_least=0, doc="How long a leader may keep a follower waiting for new records."
)
REPLICA_FETCH_BACKOFF_MS = int_key(
    "replica.fetch.backoff.ms", 1000, at_least=0, doc="How long a follower waits after an error before it asks again."
)
REPLICA_SOCKET_TIMEOUT_MS = int_key(
    "replica.socket.timeout.ms",
    30_000,
    at_least=1,
    doc="How long a follower waits for an answer. Longer than `replica.fetch.wait.max.ms`.",
)

CLUSTER_KEYS = ConfigKeys(
    [
        CONTROLLER_QUORUM_BOOTSTRAP_SERVERS,
        INTER_BROKER_LISTENER_NAME,
        SECURITY_INTER_BROKER_PROTOCOL,
        REPLICA_LAG_TIME_MAX_MS,
        REPLICA_FETCH_MAX_BYTES,
        REPLICA_FETCH_RESPONSE_MAX_BYTES,
        REPLICA_FETCH_MIN_BYTES,
        REPLICA_FETCH_WAIT_MAX_MS,
        REPLICA_FETCH_BACKOFF_MS,
        REPLICA_SOCKET_TIMEOUT_MS,
    ]
)
