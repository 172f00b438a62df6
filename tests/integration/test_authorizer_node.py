"""A node with an authoriser from its start to its next one: what is kept, what is counted, what waits; and without one."""

from __future__ import annotations

import logging
from pathlib import Path
from urllib.request import urlopen

import pytest

from tests.support.access_table import (
    ADMIN,
    ALICE,
    BROKER,
    CONTROLLER,
    TOPIC,
    World,
    build,
    creation,
    prepare,
    set_acls,
    told,
    topic,
)
from tests.support.principals import GuardedNode, guarded_settings, name_peers
from tests.support.running_node import RunningNode
from tidelog.model.acl import AclOperation
from tidelog.model.config import ConfigError
from tidelog.net.address import Address
from tidelog.wire.apis import ApiKey, api

METADATA = build(api(ApiKey.METADATA).request, {"topics": [{"name": TOPIC}], "allow_auto_topic_creation": False})


@pytest.fixture(autouse=True)
def named_peers(monkeypatch: pytest.MonkeyPatch) -> None:
    name_peers(monkeypatch)


def told_of_topic(node: GuardedNode, user: str) -> object:
    return told(node.ask(user, BROKER, METADATA, 12), "topics.0.error_code")


def test_acls_hold_after_a_restart(tmp_path: Path) -> None:
    with GuardedNode(tmp_path) as node:
        prepare(node.ask, World())
        set_acls(node.ask, World(), [creation(topic(AclOperation.DESCRIBE))])
    with GuardedNode(tmp_path) as node:
        assert told_of_topic(node, ALICE) == 0
        set_acls(node.ask, World(), [])
        assert told_of_topic(node, ALICE) == 29


def test_acls_of_a_cluster_are_told_of_by_a_node_that_does_not_look_at_them(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with GuardedNode(tmp_path) as node:
        prepare(node.ask, World())
        set_acls(node.ask, World(), [creation(topic(AclOperation.DESCRIBE))])
    with caplog.at_level(logging.WARNING), GuardedNode(tmp_path, {"authorizer.class.name": ""}) as node:
        assert told_of_topic(node, ALICE) == 0
    assert "the cluster has 1 ACLs, and this node has no authoriser" in caplog.text


def test_listeners_that_are_not_early_serve_once_the_acls_are_there(tmp_path: Path) -> None:
    with GuardedNode(tmp_path, {"early.start.listeners": ""}) as node:
        prepare(node.ask, World())
        set_acls(node.ask, World(), [])
        assert told_of_topic(node, ADMIN) == 0
        quorum = build(api(ApiKey.DESCRIBE_QUORUM).request, {"topics": []})
        assert told(node.ask(ALICE, CONTROLLER, quorum, 1), "error_code") == 31


def test_a_node_refuses_an_authoriser_that_it_does_not_have(tmp_path: Path) -> None:
    settings = {**guarded_settings(), "authorizer.class.name": "com.example.Mine"}
    with (
        pytest.raises(ConfigError, match=r"com\.example\.Mine, which is not supported"),
        RunningNode(tmp_path, settings=settings),
    ):
        pass


def test_questions_and_acls_are_counted(tmp_path: Path) -> None:
    node = GuardedNode(tmp_path)
    node.running = RunningNode(tmp_path, settings=guarded_settings(), metrics_address=Address("127.0.0.1", 0))
    with node:
        prepare(node.ask, World())
        set_acls(node.ask, World(), [creation(topic(AclOperation.READ))])
        before = _metrics(node)
        assert told_of_topic(node, ALICE) == 0
        unknown = build(api(ApiKey.METADATA).request, {"topics": [{"name": "other"}]})
        assert told(node.ask(ALICE, BROKER, unknown, 12), "topics.0.error_code") == 29
        after = _metrics(node)
    assert after["acls_total_count"] == 1
    assert {name: after[name] - before[name] for name in before if name.endswith("_total")} == {
        "authorization_allowed_total": 1,
        "authorization_denied_total": 1,
        "authorization_request_total": 2,
    }


def _metrics(node: GuardedNode) -> dict[str, float]:
    url = node.running.node.metrics_url
    assert url is not None
    prefix = "kafka_server_plugins_"
    lines = urlopen(url, timeout=30).read().decode().splitlines()
    found = [line.removeprefix(prefix).split() for line in lines if line.startswith(prefix)]
    return {name: float(value) for name, value in found}
