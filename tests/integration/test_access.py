"""Every API with and without the right that it takes, on a node with an authoriser; and that a refusal tells nothing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.access_table import (
    ADMIN,
    ALICE,
    BROKER,
    TABLE,
    TOPIC,
    Row,
    World,
    build,
    prepare,
    set_acls,
)
from tests.support.principals import GuardedNode, name_peers
from tidelog.broker.node.node import load_handlers
from tidelog.broker.requests.handling import HANDLERS
from tidelog.wire.apis import ApiKey, api
from tidelog.wire.codec import encode

# None of these takes a right: whoever may connect may ask. Envelope has tests of its own.
WITHOUT_A_ROW = {
    ApiKey.API_VERSIONS,
    ApiKey.ENVELOPE,
    ApiKey.CONTROLLER_REGISTRATION,
    ApiKey.SASL_HANDSHAKE,
    ApiKey.SASL_AUTHENTICATE,
    ApiKey.GET_TELEMETRY_SUBSCRIPTIONS,
    ApiKey.PUSH_TELEMETRY,
    # Not for who has not authenticated itself, whatever it may do.
    ApiKey.CREATE_DELEGATION_TOKEN,
    ApiKey.RENEW_DELEGATION_TOKEN,
    ApiKey.EXPIRE_DELEGATION_TOKEN,
    ApiKey.DESCRIBE_DELEGATION_TOKEN,
}
load_handlers()


@pytest.fixture(scope="module")
def world() -> World:
    return World()


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory, world: World) -> Iterator[GuardedNode]:
    with pytest.MonkeyPatch.context() as patch:
        name_peers(patch)
        with GuardedNode(tmp_path_factory.mktemp("node")) as guarded:
            prepare(guarded.ask, world)
            yield guarded


@pytest.mark.parametrize("row", [row for row in TABLE if row.api in HANDLERS], ids=lambda row: row.name)
def test_an_api_takes_exactly_its_right(row: Row, node: GuardedNode, world: World) -> None:
    assert row.judge(node.ask, world) == row.expected


def test_the_table_has_every_api_that_is_served() -> None:
    assert {row.api for row in TABLE} | WITHOUT_A_ROW >= {ApiKey(key) for key in HANDLERS}


# Names that exist and names that do not, in the same place of the same request, as long as each other.
SAME_LENGTH = "0rders"
DISCLOSURES: tuple[tuple[ApiKey, int, Any], ...] = (
    (ApiKey.METADATA, 12, lambda name: {"topics": [{"name": name}], "allow_auto_topic_creation": True}),
    (ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, lambda name: {"topics": [{"name": name}]}),
    (ApiKey.DELETE_TOPICS, 6, lambda name: {"topics": [{"name": name}], "timeout_ms": 1000}),
    (ApiKey.DELETE_TOPICS, 5, lambda name: {"topic_names": [name], "timeout_ms": 1000}),
    (
        ApiKey.LIST_OFFSETS,
        7,
        lambda name: {"topics": [{"name": name, "partitions": [{"partition_index": 0, "timestamp": -1}]}]},
    ),
    (
        ApiKey.DESCRIBE_CONFIGS,
        4,
        lambda name: {"resources": [{"resource_type": 2, "resource_name": name, "configuration_keys": None}]},
    ),
    (ApiKey.DESCRIBE_PRODUCERS, 0, lambda name: {"topics": [{"name": name, "partition_indexes": [0]}]}),
    (
        ApiKey.PRODUCE,
        9,
        lambda name: {
            "acks": -1,
            "timeout_ms": 1000,
            "topic_data": [{"name": name, "partition_data": [{"index": 0, "records": b""}]}],
        },
    ),
    (
        ApiKey.FETCH,
        12,
        lambda name: {
            "topics": [{"topic": name, "partitions": [{"partition": 0, "fetch_offset": 0, "partition_max_bytes": 100}]}]
        },
    ),
    (
        ApiKey.DELETE_RECORDS,
        2,
        lambda name: {
            "topics": [{"name": name, "partitions": [{"partition_index": 0, "offset": 0}]}],
            "timeout_ms": 1000,
        },
    ),
    (
        ApiKey.CREATE_PARTITIONS,
        3,
        lambda name: {"topics": [{"name": name, "count": 3, "assignments": None}], "timeout_ms": 1000},
    ),
    (
        ApiKey.OFFSET_FOR_LEADER_EPOCH,
        4,
        lambda name: {"topics": [{"topic": name, "partitions": [{"partition": 0, "leader_epoch": 0}]}]},
    ),
    (ApiKey.DESCRIBE_GROUPS, 5, lambda name: {"groups": [name]}),
    (ApiKey.FIND_COORDINATOR, 4, lambda name: {"key_type": 0, "coordinator_keys": [name]}),
    (ApiKey.DESCRIBE_TRANSACTIONS, 0, lambda name: {"transactional_ids": [name]}),
)
# What of that kind exists.
EXISTING = {
    ApiKey.DESCRIBE_GROUPS: "readers",
    ApiKey.FIND_COORDINATOR: "readers",
    ApiKey.DESCRIBE_TRANSACTIONS: "payments",
}


@pytest.mark.parametrize(("key", "version", "fields"), DISCLOSURES, ids=lambda value: getattr(value, "name", None))
def test_who_may_not_describe_learns_nothing_of_what_exists(
    key: ApiKey, version: int, fields: Any, node: GuardedNode, world: World
) -> None:
    set_acls(node.ask, world, [])
    exists = EXISTING.get(key, TOPIC)
    absent = "0" + exists[1:]

    answers = [
        encode(node.ask(ALICE, BROKER, build(api(key).request, fields(name)), version), version).replace(
            name.encode(), b"?"
        )
        for name in (exists, absent)
    ]

    assert answers[0] == answers[1]


def test_an_administrator_is_asked_for_nothing(node: GuardedNode, world: World) -> None:
    set_acls(node.ask, world, [])
    request = build(api(ApiKey.METADATA).request, {"topics": [{"name": TOPIC}]})
    answer: Any = node.ask(ADMIN, BROKER, request, 12)
    assert [(each.name, each.error_code) for each in answer.topics] == [(TOPIC, 0)]
