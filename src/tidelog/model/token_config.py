"""The configuration keys of delegation tokens: whether there are any, and how long they last.

Names, defaults and ranges are those of Apache Kafka 4.3.
"""

from __future__ import annotations

from tidelog.model.config import ConfigKey, ConfigKeys, ConfigType, long_key

DELEGATION_TOKEN_SECRET_KEY: ConfigKey[str | None] = ConfigKey(
    "delegation.token.secret.key",
    ConfigType.PASSWORD,
    None,
    "The secret that delegation tokens are made with, the same on every node of a cluster. Without it there are none.",
)
DELEGATION_TOKEN_MAX_LIFETIME_MS = long_key(
    "delegation.token.max.lifetime.ms",
    7 * 24 * 60 * 60 * 1000,
    at_least=1,
    doc="How long a delegation token is valid at most, however often it is renewed.",
)
DELEGATION_TOKEN_EXPIRY_TIME_MS = long_key(
    "delegation.token.expiry.time.ms",
    24 * 60 * 60 * 1000,
    at_least=1,
    doc="How long a delegation token is valid before it must be renewed.",
)
DELEGATION_TOKEN_EXPIRY_CHECK_INTERVAL_MS = long_key(
    "delegation.token.expiry.check.interval.ms",
    60 * 60 * 1000,
    at_least=1,
    doc="How often the active controller removes delegation tokens that have expired.",
)

TOKEN_KEYS = ConfigKeys(
    [
        DELEGATION_TOKEN_SECRET_KEY,
        DELEGATION_TOKEN_MAX_LIFETIME_MS,
        DELEGATION_TOKEN_EXPIRY_TIME_MS,
        DELEGATION_TOKEN_EXPIRY_CHECK_INTERVAL_MS,
    ]
)
