"""The configuration keys of a broker's data plane: fetches, and what is written down about replicas.

Names, defaults and ranges are those of Apache Kafka 4.3. Only keys that some code acts on are declared.
"""

from __future__ import annotations

from tidelog.model.config import ConfigKeys, int_key

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

DATA_PLANE_KEYS = ConfigKeys([FETCH_MAX_BYTES, MAX_INCREMENTAL_FETCH_SESSION_CACHE_SLOTS])
