"""The configuration keys of a group: what its coordinator asks of its members.

Names, defaults and ranges are those of Apache Kafka 4.3. Every key changes at run time, for one group. What a group does not say
comes from the key of the broker that is its synonym.
"""

from __future__ import annotations

import re

from tidelog.model.config import ConfigKeys, UpdateMode, bool_key, int_key, string_key

_CHANGES = UpdateMode.CLUSTER_WIDE
_DURATION = re.compile(r"P(?=.)(\d+D)?(T(?=.)(\d+H)?(\d+M)?(\d+(\.\d{1,9})?S)?)?", re.IGNORECASE)


def _offset_reset_problem(text: str) -> str | None:
    if text in {"latest", "earliest"}:
        return None
    kind, _, duration = text.partition(":")
    if kind == "by_duration" and _DURATION.fullmatch(duration):
        return None
    return "value must be latest, earliest or by_duration:PnDTnHnMn.nS"


# Consumer groups (KIP-848)

CONSUMER_ASSIGNMENT_INTERVAL_MS = int_key(
    "consumer.assignment.interval.ms",
    1000,
    at_least=0,
    synonym="group.consumer.assignment.interval.ms",
    update_mode=_CHANGES,
    doc="How much time lies at least between two assignments of a consumer group.",
)
CONSUMER_HEARTBEAT_INTERVAL_MS = int_key(
    "consumer.heartbeat.interval.ms",
    5000,
    at_least=1,
    synonym="group.consumer.heartbeat.interval.ms",
    update_mode=_CHANGES,
    doc="How often a member of a consumer group sends a heartbeat.",
)
CONSUMER_SESSION_TIMEOUT_MS = int_key(
    "consumer.session.timeout.ms",
    45_000,
    at_least=1,
    synonym="group.consumer.session.timeout.ms",
    update_mode=_CHANGES,
    doc="How long a member of a consumer group may be silent before it is removed.",
)

# Share groups (KIP-932)

SHARE_ASSIGNMENT_INTERVAL_MS = int_key(
    "share.assignment.interval.ms",
    1000,
    at_least=0,
    synonym="group.share.assignment.interval.ms",
    update_mode=_CHANGES,
    doc="How much time lies at least between two assignments of a share group.",
)
SHARE_AUTO_OFFSET_RESET = string_key(
    "share.auto.offset.reset",
    "latest",
    valid=_offset_reset_problem,
    update_mode=_CHANGES,
    doc="Where a share group begins on a partition: at its latest or earliest record, or as long ago as by_duration says.",
)
SHARE_DELIVERY_COUNT_LIMIT = int_key(
    "share.delivery.count.limit",
    5,
    at_least=2,
    synonym="group.share.delivery.count.limit",
    update_mode=_CHANGES,
    doc="How often a share group is given the same record before it is given up.",
)
SHARE_HEARTBEAT_INTERVAL_MS = int_key(
    "share.heartbeat.interval.ms",
    5000,
    at_least=1,
    synonym="group.share.heartbeat.interval.ms",
    update_mode=_CHANGES,
    doc="How often a member of a share group sends a heartbeat.",
)
SHARE_ISOLATION_LEVEL = string_key(
    "share.isolation.level",
    "read_uncommitted",
    choices=("read_committed", "read_uncommitted"),
    update_mode=_CHANGES,
    doc="Whether a share group reads the records of open and aborted transactions.",
)
SHARE_PARTITION_MAX_RECORD_LOCKS = int_key(
    "share.partition.max.record.locks",
    2000,
    at_least=100,
    synonym="group.share.partition.max.record.locks",
    update_mode=_CHANGES,
    doc="How many records of one partition a share group may have in hand.",
)
SHARE_RECORD_LOCK_DURATION_MS = int_key(
    "share.record.lock.duration.ms",
    30_000,
    at_least=1000,
    synonym="group.share.record.lock.duration.ms",
    update_mode=_CHANGES,
    doc="How long a member of a share group may keep a record before it is given to another.",
)
SHARE_RENEW_ACKNOWLEDGE_ENABLE = bool_key(
    "share.renew.acknowledge.enable",
    True,
    update_mode=_CHANGES,
    doc="Whether a member of a share group may ask for more time for a record.",
)
SHARE_SESSION_TIMEOUT_MS = int_key(
    "share.session.timeout.ms",
    45_000,
    at_least=1,
    synonym="group.share.session.timeout.ms",
    update_mode=_CHANGES,
    doc="How long a member of a share group may be silent before it is removed.",
)

# Streams groups (KIP-1071)

STREAMS_ASSIGNMENT_INTERVAL_MS = int_key(
    "streams.assignment.interval.ms",
    1000,
    at_least=0,
    synonym="group.streams.assignment.interval.ms",
    update_mode=_CHANGES,
    doc="How much time lies at least between two assignments of a streams group.",
)
STREAMS_HEARTBEAT_INTERVAL_MS = int_key(
    "streams.heartbeat.interval.ms",
    5000,
    at_least=1,
    synonym="group.streams.heartbeat.interval.ms",
    update_mode=_CHANGES,
    doc="How often a member of a streams group sends a heartbeat.",
)
STREAMS_INITIAL_REBALANCE_DELAY_MS = int_key(
    "streams.initial.rebalance.delay.ms",
    3000,
    at_least=0,
    synonym="group.streams.initial.rebalance.delay.ms",
    update_mode=_CHANGES,
    doc="How long a new streams group waits for more members before its first assignment.",
)
STREAMS_NUM_STANDBY_REPLICAS = int_key(
    "streams.num.standby.replicas",
    0,
    at_least=0,
    synonym="group.streams.num.standby.replicas",
    update_mode=_CHANGES,
    doc="How many copies of a task's state a streams group keeps ready elsewhere.",
)
STREAMS_SESSION_TIMEOUT_MS = int_key(
    "streams.session.timeout.ms",
    45_000,
    at_least=1,
    synonym="group.streams.session.timeout.ms",
    update_mode=_CHANGES,
    doc="How long a member of a streams group may be silent before it is removed.",
)

GROUP_KEYS = ConfigKeys(
    [
        CONSUMER_ASSIGNMENT_INTERVAL_MS,
        CONSUMER_HEARTBEAT_INTERVAL_MS,
        CONSUMER_SESSION_TIMEOUT_MS,
        SHARE_ASSIGNMENT_INTERVAL_MS,
        SHARE_AUTO_OFFSET_RESET,
        SHARE_DELIVERY_COUNT_LIMIT,
        SHARE_HEARTBEAT_INTERVAL_MS,
        SHARE_ISOLATION_LEVEL,
        SHARE_PARTITION_MAX_RECORD_LOCKS,
        SHARE_RECORD_LOCK_DURATION_MS,
        SHARE_RENEW_ACKNOWLEDGE_ENABLE,
        SHARE_SESSION_TIMEOUT_MS,
        STREAMS_ASSIGNMENT_INTERVAL_MS,
        STREAMS_HEARTBEAT_INTERVAL_MS,
        STREAMS_INITIAL_REBALANCE_DELAY_MS,
        STREAMS_NUM_STANDBY_REPLICAS,
        STREAMS_SESSION_TIMEOUT_MS,
    ]
)
