"""What a group's own configuration comes to: the broker sets bounds for it, and gives what it does not say."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from tidelog.coordination.group_settings import ConsumerGroupLimits, ShareGroupLimits, StreamsGroupLimits
from tidelog.model import (
    group_config,
    group_coordinator_config as keys,
    share_group_config as share_keys,
    streams_group_config as streams_keys,
)
from tidelog.model.config import ConfigKey, ConfigValues

_READ_COMMITTED = "read_committed"


class _Bounded(NamedTuple):
    """A key of groups, with the broker's keys for its bounds and its default."""

    own: ConfigKey[int]
    lowest: ConfigKey[int] | None
    highest: ConfigKey[int] | None
    default: ConfigKey[int]


_SESSION_TIMEOUT = _Bounded(
    group_config.CONSUMER_SESSION_TIMEOUT_MS,
    keys.GROUP_CONSUMER_MIN_SESSION_TIMEOUT_MS,
    keys.GROUP_CONSUMER_MAX_SESSION_TIMEOUT_MS,
    keys.GROUP_CONSUMER_SESSION_TIMEOUT_MS,
)
_HEARTBEAT_INTERVAL = _Bounded(
    group_config.CONSUMER_HEARTBEAT_INTERVAL_MS,
    keys.GROUP_CONSUMER_MIN_HEARTBEAT_INTERVAL_MS,
    keys.GROUP_CONSUMER_MAX_HEARTBEAT_INTERVAL_MS,
    keys.GROUP_CONSUMER_HEARTBEAT_INTERVAL_MS,
)
_ASSIGNMENT_INTERVAL = _Bounded(
    group_config.CONSUMER_ASSIGNMENT_INTERVAL_MS,
    keys.GROUP_CONSUMER_MIN_ASSIGNMENT_INTERVAL_MS,
    keys.GROUP_CONSUMER_MAX_ASSIGNMENT_INTERVAL_MS,
    keys.GROUP_CONSUMER_ASSIGNMENT_INTERVAL_MS,
)
_SHARE_SESSION_TIMEOUT = _Bounded(
    group_config.SHARE_SESSION_TIMEOUT_MS,
    share_keys.GROUP_SHARE_MIN_SESSION_TIMEOUT_MS,
    share_keys.GROUP_SHARE_MAX_SESSION_TIMEOUT_MS,
    share_keys.GROUP_SHARE_SESSION_TIMEOUT_MS,
)
_SHARE_HEARTBEAT_INTERVAL = _Bounded(
    group_config.SHARE_HEARTBEAT_INTERVAL_MS,
    share_keys.GROUP_SHARE_MIN_HEARTBEAT_INTERVAL_MS,
    share_keys.GROUP_SHARE_MAX_HEARTBEAT_INTERVAL_MS,
    share_keys.GROUP_SHARE_HEARTBEAT_INTERVAL_MS,
)
_SHARE_ASSIGNMENT_INTERVAL = _Bounded(
    group_config.SHARE_ASSIGNMENT_INTERVAL_MS,
    share_keys.GROUP_SHARE_MIN_ASSIGNMENT_INTERVAL_MS,
    share_keys.GROUP_SHARE_MAX_ASSIGNMENT_INTERVAL_MS,
    share_keys.GROUP_SHARE_ASSIGNMENT_INTERVAL_MS,
)
_SHARE_RECORD_LOCK_DURATION = _Bounded(
    group_config.SHARE_RECORD_LOCK_DURATION_MS,
    share_keys.GROUP_SHARE_MIN_RECORD_LOCK_DURATION_MS,
    share_keys.GROUP_SHARE_MAX_RECORD_LOCK_DURATION_MS,
    share_keys.GROUP_SHARE_RECORD_LOCK_DURATION_MS,
)
_SHARE_DELIVERY_COUNT_LIMIT = _Bounded(
    group_config.SHARE_DELIVERY_COUNT_LIMIT,
    share_keys.GROUP_SHARE_MIN_DELIVERY_COUNT_LIMIT,
    share_keys.GROUP_SHARE_MAX_DELIVERY_COUNT_LIMIT,
    share_keys.GROUP_SHARE_DELIVERY_COUNT_LIMIT,
)
_SHARE_RECORD_LOCKS = _Bounded(
    group_config.SHARE_PARTITION_MAX_RECORD_LOCKS,
    share_keys.GROUP_SHARE_MIN_PARTITION_MAX_RECORD_LOCKS,
    share_keys.GROUP_SHARE_MAX_PARTITION_MAX_RECORD_LOCKS,
    share_keys.GROUP_SHARE_PARTITION_MAX_RECORD_LOCKS,
)
_STREAMS_SESSION_TIMEOUT = _Bounded(
    group_config.STREAMS_SESSION_TIMEOUT_MS,
    streams_keys.GROUP_STREAMS_MIN_SESSION_TIMEOUT_MS,
    streams_keys.GROUP_STREAMS_MAX_SESSION_TIMEOUT_MS,
    streams_keys.GROUP_STREAMS_SESSION_TIMEOUT_MS,
)
_STREAMS_HEARTBEAT_INTERVAL = _Bounded(
    group_config.STREAMS_HEARTBEAT_INTERVAL_MS,
    streams_keys.GROUP_STREAMS_MIN_HEARTBEAT_INTERVAL_MS,
    streams_keys.GROUP_STREAMS_MAX_HEARTBEAT_INTERVAL_MS,
    streams_keys.GROUP_STREAMS_HEARTBEAT_INTERVAL_MS,
)
_STREAMS_ASSIGNMENT_INTERVAL = _Bounded(
    group_config.STREAMS_ASSIGNMENT_INTERVAL_MS,
    streams_keys.GROUP_STREAMS_MIN_ASSIGNMENT_INTERVAL_MS,
    streams_keys.GROUP_STREAMS_MAX_ASSIGNMENT_INTERVAL_MS,
    streams_keys.GROUP_STREAMS_ASSIGNMENT_INTERVAL_MS,
)
_STREAMS_STANDBY_REPLICAS = _Bounded(
    group_config.STREAMS_NUM_STANDBY_REPLICAS,
    None,
    streams_keys.GROUP_STREAMS_MAX_STANDBY_REPLICAS,
    streams_keys.GROUP_STREAMS_NUM_STANDBY_REPLICAS,
)
_STREAMS_INITIAL_DELAY = _Bounded(
    group_config.STREAMS_INITIAL_REBALANCE_DELAY_MS, None, None, streams_keys.GROUP_STREAMS_INITIAL_REBALANCE_DELAY_MS
)
# In the order in which Kafka looks at them.
_ALL = (
    _HEARTBEAT_INTERVAL,
    _SESSION_TIMEOUT,
    _ASSIGNMENT_INTERVAL,
    _SHARE_HEARTBEAT_INTERVAL,
    _SHARE_SESSION_TIMEOUT,
    _SHARE_RECORD_LOCK_DURATION,
    _SHARE_DELIVERY_COUNT_LIMIT,
    _SHARE_RECORD_LOCKS,
    _SHARE_ASSIGNMENT_INTERVAL,
    _STREAMS_HEARTBEAT_INTERVAL,
    _STREAMS_SESSION_TIMEOUT,
    _STREAMS_STANDBY_REPLICAS,
    _STREAMS_ASSIGNMENT_INTERVAL,
)


class ShareDeliveryLimits(NamedTuple):
    """What the leaders of a share group's partitions go by."""

    record_lock_duration_ms: int
    delivery_count_limit: int
    record_locks_max: int
    auto_offset_reset: str
    """`latest`, `earliest` or `by_duration:` and an ISO 8601 duration."""
    is_read_committed: bool
    may_renew: bool


def group_limits(config: ConfigValues, own: Mapping[str, str]) -> ConsumerGroupLimits:
    """What a group goes by. The bounds may have moved since its values were set: they hold all the same."""
    return ConsumerGroupLimits(
        session_timeout_ms=_effective(_SESSION_TIMEOUT, config, own),
        heartbeat_interval_ms=_effective(_HEARTBEAT_INTERVAL, config, own),
        assignment_interval_ms=_effective(_ASSIGNMENT_INTERVAL, config, own),
    )


def share_limits(config: ConfigValues, own: Mapping[str, str]) -> ShareGroupLimits:
    """What the members of a share group go by."""
    return ShareGroupLimits(
        session_timeout_ms=_effective(_SHARE_SESSION_TIMEOUT, config, own),
        heartbeat_interval_ms=_effective(_SHARE_HEARTBEAT_INTERVAL, config, own),
        assignment_interval_ms=_effective(_SHARE_ASSIGNMENT_INTERVAL, config, own),
    )


def streams_limits(config: ConfigValues, own: Mapping[str, str]) -> StreamsGroupLimits:
    """What the members of a streams group go by."""
    return StreamsGroupLimits(
        session_timeout_ms=_effective(_STREAMS_SESSION_TIMEOUT, config, own),
        heartbeat_interval_ms=_effective(_STREAMS_HEARTBEAT_INTERVAL, config, own),
        assignment_interval_ms=_effective(_STREAMS_ASSIGNMENT_INTERVAL, config, own),
        initial_rebalance_delay_ms=_effective(_STREAMS_INITIAL_DELAY, config, own),
        num_standby_replicas=_effective(_STREAMS_STANDBY_REPLICAS, config, own),
    )


def share_delivery_limits(config: ConfigValues, own: Mapping[str, str]) -> ShareDeliveryLimits:
    """What the leaders of its partitions go by."""
    values = group_config.GROUP_KEYS.parse(own)
    return ShareDeliveryLimits(
        record_lock_duration_ms=_effective(_SHARE_RECORD_LOCK_DURATION, config, own),
        delivery_count_limit=_effective(_SHARE_DELIVERY_COUNT_LIMIT, config, own),
        record_locks_max=_effective(_SHARE_RECORD_LOCKS, config, own),
        auto_offset_reset=values[group_config.SHARE_AUTO_OFFSET_RESET],
        is_read_committed=values[group_config.SHARE_ISOLATION_LEVEL] == _READ_COMMITTED,
        may_renew=values[group_config.SHARE_RENEW_ACKNOWLEDGE_ENABLE],
    )


def _effective(key: _Bounded, config: ConfigValues, own: Mapping[str, str]) -> int:
    text = own.get(key.own.name)
    if text is None:
        return config[key.default]
    value = key.own.parse(text)
    if key.lowest is not None:
        value = max(value, config[key.lowest])
    return value if key.highest is None else min(value, config[key.highest])


def group_config_problem(config: ConfigValues, own: Mapping[str, str]) -> str | None:
    """Why a group cannot be configured like this, in Kafka's words."""
    for key in _ALL:
        text = own.get(key.own.name)
        if text is None:
            continue
        value = key.own.parse(text)
        if key.lowest is not None and value < config[key.lowest]:
            return f"{key.own.name} must be greater than or equal to {key.lowest.name}"
        if key.highest is not None and value > config[key.highest]:
            return f"{key.own.name} must be less than or equal to {key.highest.name}"
    for session, heartbeat in (
        (_SESSION_TIMEOUT, _HEARTBEAT_INTERVAL),
        (_SHARE_SESSION_TIMEOUT, _SHARE_HEARTBEAT_INTERVAL),
        (_STREAMS_SESSION_TIMEOUT, _STREAMS_HEARTBEAT_INTERVAL),
    ):
        if _effective(session, config, own) <= _effective(heartbeat, config, own):
            return f"{session.own.name} must be greater than {heartbeat.own.name}"
    return None
