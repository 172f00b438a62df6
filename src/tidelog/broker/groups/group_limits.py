"""What a consumer group's own configuration comes to: the broker sets bounds for it, and gives what it does not say."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from tidelog.coordination.group_settings import ConsumerGroupLimits
from tidelog.model import group_config, group_coordinator_config as keys
from tidelog.model.config import ConfigKey, ConfigValues


class _Bounded(NamedTuple):
    """A key of groups, with the broker's keys for its bounds and its default."""

    own: ConfigKey[int]
    lowest: ConfigKey[int]
    highest: ConfigKey[int]
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


def group_limits(config: ConfigValues, own: Mapping[str, str]) -> ConsumerGroupLimits:
    """What a group goes by. The bounds may have moved since its values were set: they hold all the same."""
    return ConsumerGroupLimits(
        session_timeout_ms=_effective(_SESSION_TIMEOUT, config, own),
        heartbeat_interval_ms=_effective(_HEARTBEAT_INTERVAL, config, own),
        assignment_interval_ms=_effective(_ASSIGNMENT_INTERVAL, config, own),
    )


def _effective(key: _Bounded, config: ConfigValues, own: Mapping[str, str]) -> int:
    text = own.get(key.own.name)
    if text is None:
        return config[key.default]
    return min(max(key.own.parse(text), config[key.lowest]), config[key.highest])


def group_config_problem(config: ConfigValues, own: Mapping[str, str]) -> str | None:
    """Why a group cannot be configured like this, in Kafka's words."""
    for key in (_HEARTBEAT_INTERVAL, _SESSION_TIMEOUT, _ASSIGNMENT_INTERVAL):
        text = own.get(key.own.name)
        if text is None:
            continue
        value = key.own.parse(text)
        if value < config[key.lowest]:
            return f"{key.own.name} must be greater than or equal to {key.lowest.name}"
        if value > config[key.highest]:
            return f"{key.own.name} must be less than or equal to {key.highest.name}"
    limits = group_limits(config, own)
    if limits.session_timeout_ms <= limits.heartbeat_interval_ms:
        return f"{_SESSION_TIMEOUT.own.name} must be greater than {_HEARTBEAT_INTERVAL.own.name}"
    return None
