"""The configuration keys of a subscription to client metrics (KIP-714): which clients push which metrics how often.

Names, defaults and ranges are those of Apache Kafka 4.3.
"""

from __future__ import annotations

import re

from tidelog.model.config import ConfigKeys, UpdateMode, int_key, list_key

_CHANGES = UpdateMode.CLUSTER_WIDE
# What a client can be told by.
_SELECTORS = frozenset(
    {
        "client_instance_id",
        "client_id",
        "client_software_name",
        "client_software_version",
        "client_source_address",
        "client_source_port",
    }
)


def _match_problem(patterns: tuple[str, ...]) -> str | None:
    for pattern in patterns:
        selector, equals, expression = pattern.partition("=")
        illegal = f"Illegal client matching pattern: {pattern}"
        if not equals or "=" in expression or selector.strip() not in _SELECTORS:
            return illegal
        try:
            re.compile(expression.strip())
        except re.error:
            return illegal
    return None


INTERVAL_MS = int_key(
    "interval.ms",
    5 * 60 * 1000,
    at_least=100,
    at_most=60 * 60 * 1000,
    update_mode=_CHANGES,
    doc="How often clients push the metrics of this subscription.",
)
MATCH = list_key(
    "match",
    (),
    valid=_match_problem,
    update_mode=_CHANGES,
    doc="Which clients the subscription is for, as in `client_software_name=.*rdkafka.*`; all of them where nothing is said.",
)
METRICS = list_key(
    "metrics",
    (),
    update_mode=_CHANGES,
    doc="The prefixes of the metrics that clients push; `*` for all of them.",
)

CLIENT_METRICS_KEYS = ConfigKeys([INTERVAL_MS, MATCH, METRICS])
