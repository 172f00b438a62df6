"""What a group may be configured to do, and what that comes to."""

from __future__ import annotations

import pytest

from tidelog.broker.groups.group_limits import (
    group_config_problem,
    group_limits,
    share_delivery_limits,
    share_limits,
    streams_limits,
)
from tidelog.coordination.group_settings import ConsumerGroupLimits, ShareGroupLimits, StreamsGroupLimits
from tidelog.model.broker_config import BROKER_KEYS

DEFAULTS = BROKER_KEYS.parse({})


def test_a_group_that_says_nothing_goes_by_the_broker() -> None:
    assert group_limits(DEFAULTS, {}) == ConsumerGroupLimits(45_000, 5_000, 1_000)
    config = BROKER_KEYS.parse({"group.consumer.heartbeat.interval.ms": "7000"})
    assert group_limits(config, {}).heartbeat_interval_ms == 7_000


def test_its_own_values_are_kept_within_the_bounds() -> None:
    own = {"consumer.session.timeout.ms": "50000", "consumer.heartbeat.interval.ms": "100"}
    assert group_limits(DEFAULTS, own) == ConsumerGroupLimits(50_000, 5_000, 1_000)


@pytest.mark.parametrize(
    ("own", "problem"),
    [
        ({"consumer.session.timeout.ms": "50000"}, None),
        ({"share.isolation.level": "read_committed"}, None),
        (
            {"consumer.heartbeat.interval.ms": "4999"},
            "consumer.heartbeat.interval.ms must be greater than or equal to group.consumer.min.heartbeat.interval.ms",
        ),
        (
            {"consumer.session.timeout.ms": "60001"},
            "consumer.session.timeout.ms must be less than or equal to group.consumer.max.session.timeout.ms",
        ),
        (
            {"consumer.assignment.interval.ms": "15001"},
            "consumer.assignment.interval.ms must be less than or equal to group.consumer.max.assignment.interval.ms",
        ),
        (
            {"share.record.lock.duration.ms": "14999"},
            "share.record.lock.duration.ms must be greater than or equal to group.share.min.record.lock.duration.ms",
        ),
        (
            {"share.partition.max.record.locks": "4001"},
            "share.partition.max.record.locks must be less than or equal to group.share.max.partition.max.record.locks",
        ),
        ({"streams.initial.rebalance.delay.ms": "600000"}, None),
        (
            {"streams.heartbeat.interval.ms": "15001"},
            "streams.heartbeat.interval.ms must be less than or equal to group.streams.max.heartbeat.interval.ms",
        ),
        (
            {"streams.session.timeout.ms": "44999"},
            "streams.session.timeout.ms must be greater than or equal to group.streams.min.session.timeout.ms",
        ),
        (
            {"streams.num.standby.replicas": "3"},
            "streams.num.standby.replicas must be less than or equal to group.streams.max.standby.replicas",
        ),
    ],
)
def test_is_refused_in_the_words_of_kafka(own: dict[str, str], problem: str | None) -> None:
    assert group_config_problem(DEFAULTS, own) == problem


def test_a_streams_group_goes_by_its_own_values_within_the_bounds() -> None:
    own = {
        "streams.session.timeout.ms": "90000",
        "streams.heartbeat.interval.ms": "1",
        "streams.num.standby.replicas": "7",
        "streams.initial.rebalance.delay.ms": "90000",
    }

    assert streams_limits(DEFAULTS, {}) == StreamsGroupLimits(45_000, 5_000, 1_000, 3_000, 0)
    assert streams_limits(DEFAULTS, own) == StreamsGroupLimits(60_000, 5_000, 1_000, 90_000, 2)


def test_a_share_group_goes_by_its_own_values_within_the_bounds() -> None:
    own = {
        "share.session.timeout.ms": "70000",
        "share.heartbeat.interval.ms": "6000",
        "share.record.lock.duration.ms": "1000",
        "share.delivery.count.limit": "7",
        "share.partition.max.record.locks": "99999",
        "share.auto.offset.reset": "earliest",
        "share.isolation.level": "read_committed",
        "share.renew.acknowledge.enable": "false",
    }

    assert share_limits(DEFAULTS, {}) == ShareGroupLimits(45_000, 5_000, 1_000)
    assert share_limits(DEFAULTS, own) == ShareGroupLimits(60_000, 6_000, 1_000)
    assert share_delivery_limits(DEFAULTS, {}) == (30_000, 5, 2_000, "latest", False, True)
    assert share_delivery_limits(DEFAULTS, own) == (15_000, 7, 4_000, "earliest", True, False)


def test_a_session_outlasts_a_heartbeat() -> None:
    config = BROKER_KEYS.parse({"group.consumer.min.session.timeout.ms": "1"})
    own = {"consumer.session.timeout.ms": "5000"}
    assert (
        group_config_problem(config, own)
        == "consumer.session.timeout.ms must be greater than consumer.heartbeat.interval.ms"
    )
