"""Kafka's own `kafka-acls` with a node of ours."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.apache_kafka import ApacheKafka
from tests.support.running_node import RunningNode
from tidelog import Admin
from tidelog.model.authorizer_config import STANDARD_AUTHORIZER

pytestmark = pytest.mark.compat

TOOL = "org.apache.kafka.tools.AclCommand"


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningNode]:
    settings = {"authorizer.class.name": STANDARD_AUTHORIZER, "super.users": "User:ANONYMOUS"}
    with RunningNode(tmp_path_factory.mktemp("node"), settings=settings) as running:
        yield running


def test_acls_are_added_listed_and_removed(kafka: ApacheKafka, node: RunningNode) -> None:
    def run(*arguments: str) -> str:
        done = kafka.tool(TOOL, "--bootstrap-server", node.bootstrap, *arguments)
        assert done.code == 0, done
        return done.stdout

    added = ("--allow-principal", "User:alice", "--producer", "--topic", "ord", "--resource-pattern-type", "prefixed")
    run("--add", *added)
    run("--add", "--deny-principal", "User:bob", "--deny-host", "10.0.0.1", "--operation", "Read", "--group", "readers")

    listed = run("--list", "--topic", "orders", "--resource-pattern-type", "match")
    assert "resourceType=TOPIC, name=ord, patternType=PREFIXED" in listed
    for operation in ("WRITE", "DESCRIBE", "CREATE"):
        assert f"principal=User:alice, host=*, operation={operation}, permissionType=ALLOW" in listed
    assert "readers" not in listed
    assert "principal=User:bob, host=10.0.0.1, operation=READ, permissionType=DENY" in run("--list")

    run("--remove", "--force", *added)
    with Admin(bootstrap_servers=node.bootstrap) as admin:
        assert [each.principal for each in admin.describe_acls()] == ["User:bob"]
