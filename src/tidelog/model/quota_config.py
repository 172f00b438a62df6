"""The configuration keys of quotas: over which time rates are computed, and how fast connections may come.

Names, defaults and ranges are those of Apache Kafka 4.3. Who may take how much is no configuration: AlterClientQuotas sets it.
"""

from __future__ import annotations

from tidelog.model.config import INT_MAX, ConfigKeys, UpdateMode, int_key

QUOTA_WINDOW_NUM = int_key(
    "quota.window.num", 11, at_least=1, doc="Over how many windows the rates of clients are averaged."
)
QUOTA_WINDOW_SIZE_SECONDS = int_key(
    "quota.window.size.seconds", 1, at_least=1, doc="How long each of these windows is."
)
CONTROLLER_QUOTA_WINDOW_NUM = int_key(
    "controller.quota.window.num",
    11,
    at_least=1,
    doc="For how many windows a client may save up changes of topics and partitions.",
)
CONTROLLER_QUOTA_WINDOW_SIZE_SECONDS = int_key(
    "controller.quota.window.size.seconds", 1, at_least=1, doc="How long each of these windows is."
)

# Also with a listener's prefix: then it is that listener's alone, beside the node's.
MAX_CONNECTION_CREATION_RATE = int_key(
    "max.connection.creation.rate",
    INT_MAX,
    at_least=0,
    update_mode=UpdateMode.CLUSTER_WIDE,
    doc="How many connections a second the node accepts; with a listener's prefix, how many that listener does. Further ones "
    "wait to be accepted.",
)

QUOTA_KEYS = ConfigKeys(
    [
        MAX_CONNECTION_CREATION_RATE,
        QUOTA_WINDOW_NUM,
        QUOTA_WINDOW_SIZE_SECONDS,
        CONTROLLER_QUOTA_WINDOW_NUM,
        CONTROLLER_QUOTA_WINDOW_SIZE_SECONDS,
    ]
)
