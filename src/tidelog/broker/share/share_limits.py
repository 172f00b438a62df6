"""What a share group's configuration comes to for the leaders of its partitions, in the words of the machine and the log."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from tidelog.broker.groups.group_limits import share_delivery_limits
from tidelog.broker.share.share_partition import ShareSettings
from tidelog.broker.share.start_offset import FROM_EARLIEST, FROM_LATEST, OffsetReset
from tidelog.model.config import ConfigValues
from tidelog.storage.fetched import FetchIsolation

_DURATION = re.compile(
    r"P(?:(?P<days>\d+)D)?(?:T(?:(?P<hours>\d+)H)?(?:(?P<minutes>\d+)M)?(?:(?P<seconds>\d+(?:\.\d+)?)S)?)?",
    re.IGNORECASE,
)
_MS_PER = {"days": 86_400_000, "hours": 3_600_000, "minutes": 60_000, "seconds": 1000}


class ShareLimits(NamedTuple):
    """See the module."""

    settings: ShareSettings
    reset: OffsetReset
    isolation: FetchIsolation


def share_limits(config: ConfigValues, own: Mapping[str, str]) -> ShareLimits:
    """What a group goes by, of a broker's configuration and its own."""
    limits = share_delivery_limits(config, own)
    settings = ShareSettings(
        lock_duration_ms=limits.record_lock_duration_ms,
        deliveries_max=limits.delivery_count_limit,
        record_locks_max=limits.record_locks_max,
        may_renew=limits.may_renew,
    )
    isolation = FetchIsolation.LAST_STABLE_OFFSET if limits.is_read_committed else FetchIsolation.HIGH_WATERMARK
    return ShareLimits(settings, offset_reset(limits.auto_offset_reset), isolation)


def offset_reset(text: str) -> OffsetReset:
    """Of a value of `share.auto.offset.reset`, which was checked when it was set."""
    if text == "earliest":
        return FROM_EARLIEST
    kind, _, duration = text.partition(":")
    matched = _DURATION.fullmatch(duration) if kind == "by_duration" else None
    if matched is None:
        return FROM_LATEST
    age_ms = sum(float(count) * _MS_PER[unit] for unit, count in matched.groupdict().items() if count)
    return OffsetReset(None, int(age_ms))
