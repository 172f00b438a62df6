from __future__ import annotations

import pytest

from tidelog.broker.share.share_limits import offset_reset, share_limits
from tidelog.broker.share.start_offset import FROM_EARLIEST, FROM_LATEST, OffsetReset
from tidelog.model.share_group_config import SHARE_GROUP_KEYS
from tidelog.storage.fetched import FetchIsolation

DEFAULTS = SHARE_GROUP_KEYS.parse({})


def test_what_a_group_does_not_say_the_broker_says() -> None:
    config = SHARE_GROUP_KEYS.parse({"group.share.delivery.count.limit": "7"})

    settings = share_limits(config, {}).settings

    assert settings == (30_000, 7, 2000, True)


@pytest.mark.parametrize(
    ("text", "reset"),
    [
        ("earliest", FROM_EARLIEST),
        ("latest", FROM_LATEST),
        ("by_duration:P1DT2H3M4.5S", OffsetReset(None, 93_784_500)),
        ("by_duration:PT0S", OffsetReset(None, 0)),
    ],
)
def test_a_group_may_begin_at_either_end_or_some_time_ago(text: str, reset: OffsetReset) -> None:
    assert offset_reset(text) == reset


def test_a_group_may_read_committed_records_alone_and_forbid_renewals() -> None:
    limits = share_limits(
        DEFAULTS, {"share.isolation.level": "read_committed", "share.renew.acknowledge.enable": "false"}
    )

    assert limits.isolation is FetchIsolation.LAST_STABLE_OFFSET
    assert not limits.settings.may_renew
