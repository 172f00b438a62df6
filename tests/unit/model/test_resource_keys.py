"""The keys of groups and client metrics: rules that no range expresses."""

from __future__ import annotations

import pytest

from tidelog.model.client_metrics_config import CLIENT_METRICS_KEYS, MATCH
from tidelog.model.config import ConfigError
from tidelog.model.group_config import GROUP_KEYS, SHARE_AUTO_OFFSET_RESET


@pytest.mark.parametrize(
    "text", ["latest", "earliest", "by_duration:PT1H", "by_duration:P1DT2H3M4.5S", "by_duration:P2D"]
)
def test_where_a_share_group_may_begin(text: str) -> None:
    assert SHARE_AUTO_OFFSET_RESET.parse(text) == text


@pytest.mark.parametrize(
    "text", ["", "none", "by_duration", "by_duration:", "by_duration:P", "by_duration:PT", "by_duration:-PT1H", "P1D"]
)
def test_where_a_share_group_may_not_begin(text: str) -> None:
    with pytest.raises(ConfigError, match="by_duration:PnDTnHnMn"):
        SHARE_AUTO_OFFSET_RESET.parse(text)


@pytest.mark.parametrize(
    "text", ["", "client_id=.*", "client_software_name=.*rdkafka.*,client_source_port=9[0-9]+", " client_id = a "]
)
def test_patterns_of_clients(text: str) -> None:
    assert MATCH.parse(text) == tuple(part.strip() for part in text.split(",") if part)


@pytest.mark.parametrize("text", ["client_id", "name=x", "client_id=a=b", "client_id=(", "client_id=.*,x"])
def test_patterns_that_select_nobody(text: str) -> None:
    with pytest.raises(ConfigError, match="Illegal client matching pattern"):
        MATCH.parse(text)


def test_the_keys_are_those_of_kafka() -> None:
    assert (len(GROUP_KEYS), len(CLIENT_METRICS_KEYS)) == (17, 3)
    assert all(key.default is not None for key in (*GROUP_KEYS.values(), *CLIENT_METRICS_KEYS.values()))
    # What the broker calls it is what a group falls back to; some settings are the group's alone.
    own = [key.name for key in GROUP_KEYS.values() if key.synonym != f"group.{key.name}"]
    assert own == ["share.auto.offset.reset", "share.isolation.level", "share.renew.acknowledge.enable"]


@pytest.mark.parametrize("text", ["99", "3600001"])
def test_metrics_are_pushed_neither_all_the_time_nor_hardly_ever(text: str) -> None:
    with pytest.raises(ConfigError, match=r"interval\.ms"):
        CLIENT_METRICS_KEYS.parse({"interval.ms": text})
