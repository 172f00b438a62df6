"""What a group may be configured to do, and what that comes to."""

from __future__ import annotations

import pytest

from tidelog.broker.groups.group_limits import group_config_problem, group_limits
from tidelog.coordination.group_settings import ConsumerGroupLimits
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
    ],
)
def test_is_refused_in_the_words_of_kafka(own: dict[str, str], problem: str | None) -> None:
    assert group_config_problem(DEFAULTS, own) == problem


def test_a_session_outlasts_a_heartbeat() -> None:
    config = BROKER_KEYS.parse({"group.consumer.min.session.timeout.ms": "1"})
    own = {"consumer.session.timeout.ms": "5000"}
    assert (
        group_config_problem(config, own)
        == "consumer.session.timeout.ms must be greater than consumer.heartbeat.interval.ms"
    )
