"""The configuration keys of metrics that clients push (KIP-714).

Apache Kafka takes them where a plugin receives them; here the node does it itself, where it is told to.
"""

from __future__ import annotations

from tidelog.model.config import ConfigKeys, bool_key, int_key

TIDELOG_CLIENT_TELEMETRY_ENABLE = bool_key(
    "tidelog.client.telemetry.enable",
    False,
    doc="Whether clients may push their metrics to this node, which shows them with its own.",
)
TELEMETRY_MAX_BYTES = int_key(
    "telemetry.max.bytes",
    1_048_576,
    at_least=1,
    doc="How large the metrics of a client may be, packed and unpacked.",
)

TELEMETRY_KEYS = ConfigKeys([TIDELOG_CLIENT_TELEMETRY_ENABLE, TELEMETRY_MAX_BYTES])
