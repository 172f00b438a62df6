from __future__ import annotations

import msgspec
import pytest

from tests.unit.broker.admin_node import AdminNode, config, topic
from tidelog.broker.config.config_view import (
    BrokerConfigView,
    effective_config,
    static_topic_defaults,
    topic_values,
)
from tidelog.model import topic_config as keys
from tidelog.model.broker_config import BROKER_KEYS
from tidelog.model.config import ConfigSource
from tidelog.model.ids import TopicName
from tidelog.model.throttle_config import SHOWN_WHEN_SET

ORDERS = TopicName("orders")
HOUR_MS = 60 * 60 * 1000


def view_of(node: AdminNode) -> BrokerConfigView:
    return BrokerConfigView.of(node.static_config, node.image, node.node_id)


def synonyms(node: AdminNode, name: str) -> list[tuple[str, str | None, int]]:
    return [(each.name, each.value, each.source) for each in view_of(node).synonyms(name)]


def test_layers_are_told_in_the_order_in_which_they_count() -> None:
    node = AdminNode(
        config(4, "1", "num.io.threads", "4"), config(4, "", "num.io.threads", "5"), static={"num.io.threads": "3"}
    )

    assert view_of(node).value("num.io.threads") == "4"
    assert synonyms(node, "num.io.threads") == [
        ("num.io.threads", "4", ConfigSource.DYNAMIC_BROKER),
        ("num.io.threads", "5", ConfigSource.DYNAMIC_DEFAULT_BROKER),
        ("num.io.threads", "3", ConfigSource.STATIC_BROKER),
        ("num.io.threads", "8", ConfigSource.DEFAULT),
    ]


def test_what_is_set_for_another_broker_does_not_count() -> None:
    assert view_of(AdminNode(config(4, "2", "num.io.threads", "4"))).value("num.io.threads") == "8"


def test_other_units_of_a_setting_follow_its_own_name() -> None:
    dynamic = AdminNode(config(4, "", "log.retention.ms", "7200000"), static={"log.retention.hours": "24"})

    assert synonyms(dynamic, "log.retention.ms") == [
        ("log.retention.ms", "7200000", 3),
        ("log.retention.hours", "24", 4),
        ("log.retention.hours", "168", 5),
    ]
    # Kafka drops all that stands before the name that is asked for, and here that is everything.
    assert synonyms(AdminNode(static={"log.retention.hours": "24"}), "log.retention.ms") == []


def test_a_key_without_a_value_has_none() -> None:
    assert view_of(AdminNode()).value("log.retention.ms") is None
    assert synonyms(AdminNode(), "log.retention.ms") == []


def test_a_secret_is_never_a_synonyms_value() -> None:
    assert synonyms(AdminNode(config(4, "1", "ssl.key.password", "hush")), "ssl.key.password") == [
        ("ssl.key.password", None, ConfigSource.DYNAMIC_BROKER)
    ]


def test_what_is_set_for_one_listener_is_told_unless_it_is_a_secret() -> None:
    prefix = "listener.name.clients."
    node = AdminNode(
        config(4, "1", f"{prefix}ssl.keystore.location", "/keys"), config(4, "1", f"{prefix}ssl.key.password", "hush")
    )

    assert synonyms(node, f"{prefix}ssl.keystore.location")[0][1] == "/keys"
    assert synonyms(node, f"{prefix}ssl.key.password")[0][1] is None
    assert effective_config(node.static_config, view_of(node)).given == {
        f"{prefix}ssl.keystore.location": "/keys",
        f"{prefix}ssl.key.password": "hush",
    }


@pytest.mark.parametrize(
    ("static", "retention_ms"),
    [
        ({}, 7 * 24 * HOUR_MS),
        ({"log.retention.hours": "24"}, 24 * HOUR_MS),
        ({"log.retention.hours": "24", "log.retention.minutes": "30"}, 30 * 60_000),
        ({"log.retention.hours": "24", "log.retention.minutes": "30", "log.retention.ms": "5"}, 5),
        ({"log.retention.hours": "-1"}, -1),
        ({"log.retention.ms": "-1", "log.retention.hours": "1"}, -1),
    ],
)
def test_the_finest_unit_that_is_set_decides(static: dict[str, str], retention_ms: int) -> None:
    node = AdminNode(static=static)

    assert topic_values(view_of(node), node.image, ORDERS)[keys.RETENTION_MS] == retention_ms


def test_a_topics_own_value_counts_more_than_any_of_the_brokers() -> None:
    node = AdminNode(
        *topic("orders"),
        config(2, "orders", "cleanup.policy", "compact,delete"),
        config(4, "1", "log.cleanup.policy", "compact"),
        static={"log.roll.hours": "2"},
    )

    values = topic_values(view_of(node), node.image, ORDERS)

    assert values[keys.CLEANUP_POLICY] == ("compact", "delete")
    assert values[keys.SEGMENT_MS] == 2 * HOUR_MS
    assert topic_values(view_of(node), node.image, TopicName("other"))[keys.CLEANUP_POLICY] == ("compact",)


def test_values_that_another_release_has_allowed_count_as_not_set() -> None:
    node = AdminNode(
        *topic("orders"),
        config(2, "orders", "retention.ms", "for ever"),
        config(4, "1", "log.retention.ms", "-7"),
        config(4, "", "log.retention.ms", "60000"),
    )

    assert topic_values(view_of(node), node.image, ORDERS)[keys.RETENTION_MS] == 60_000


def test_a_node_goes_by_what_may_change_and_has_changed() -> None:
    node = AdminNode(
        config(4, "", "num.io.threads", "5"),
        config(4, "1", "num.io.threads", "6"),
        config(4, "", "min.insync.replicas", "none"),
        config(4, "", "listener.security.protocol.map", "A:PLAINTEXT"),
        config(4, "1", "num.partitions", "9"),
        config(4, "1", "someones.plug.in", "x"),
        static={"num.partitions": "3"},
    )

    values = effective_config(node.static_config, view_of(node))

    assert values.given == {"num.io.threads": 6, "num.partitions": 3}
    assert values["min.insync.replicas"] == 1


def test_some_keys_hold_nothing_until_they_are_set() -> None:
    assert view_of(AdminNode()).value("broker.rack") is None
    assert synonyms(AdminNode(static={"log.dirs": "/a"}), "log.dirs") == [
        ("log.dirs", "/a", ConfigSource.STATIC_BROKER)
    ]


@pytest.mark.parametrize("name", sorted(SHOWN_WHEN_SET))
def test_a_throttle_has_no_default_that_anybody_is_told_of(name: str) -> None:
    unset = BrokerConfigView(table=BROKER_KEYS, dynamic_broker={}, dynamic_default={}, static={})
    assert unset.value(name) is None

    told = msgspec.structs.replace(unset, dynamic_broker={name: "21000000"}).synonyms(name)
    assert [(each.name, each.value, each.source) for each in told] == [(name, "21000000", ConfigSource.DYNAMIC_BROKER)]


def test_a_controller_goes_by_what_its_node_was_started_with() -> None:
    node = AdminNode(
        config(4, "1", "min.insync.replicas", "3"), static={"min.insync.replicas": "2", "log.retention.hours": "1"}
    )

    assert static_topic_defaults(node.static_config) == {
        "min.insync.replicas": "2",
        "retention.ms": str(HOUR_MS),
    }
