"""The configuration keys of a broker's data plane: fetches, and what is written down about replicas.

Names, defaults and ranges are those of Apache Kafka 4.3. Only keys that some code acts on are declared.
"""

from __future__ import annotations

from tidelog.model.config import ConfigKeys, int_key, string_key

RACK_AWARE_SELECTOR = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
LEADER_SELECTOR = "org.apache.kafka.common.replica.LeaderSelector"

FETCH_MAX_BYTES = int_key(
    "fetch.max.bytes",
    55 * 1024 * 1024,
    at_least=1024,
    doc="How many bytes of records one answer to a fetch holds at most, whatever the client asks for.",
)
MAX_INCREMENTAL_FETCH_SESSION_CACHE_SLOTS = int_key(
    "max.incremental.fetch.session.cache.slots",
    1000,
    at_least=0,
    doc="How many fetch sessions the broker keeps, so that their clients name only what has changed.",
)
REPLICA_SELECTOR_CLASS = string_key(
    "replica.selector.class",
    "",
    choices=("", LEADER_SELECTOR, RACK_AWARE_SELECTOR),
    doc="Which replica a consumer reads from: the leader, or with Kafka's RackAwareReplicaSelector one in the consumer's rack.",
)

DATA_PLANE_KEYS = ConfigKeys([FETCH_MAX_BYTES, MAX_INCREMENTAL_FETCH_SESSION_CACHE_SLOTS, REPLICA_SELECTOR_CLASS])
