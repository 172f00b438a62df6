"""`tidelog acls` and the admin's calls, on a node with an authoriser and on one without; and with another client."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import confluent_kafka.admin
import pytest
from typer.testing import Result

from tests.support.access_table import ADMIN, ALICE, BROKER
from tests.support.command_line import json_lines, tidelog
from tests.support.principals import LISTENERS, GuardedNode, name_peers
from tidelog import Admin
from tidelog.client.admin import AclBinding, AclBindingFilter, AclOperation, ResourceType as On, value_of
from tidelog.client.errors import ConfigError, RefusedError
from tidelog.model.errors import ErrorCode
from tidelog.testing import EmbeddedCluster

Command = Callable[..., Result]


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GuardedNode]:
    with pytest.MonkeyPatch.context() as patch:
        name_peers(patch)
        with GuardedNode(tmp_path_factory.mktemp("node")) as guarded:
            yield guarded


def bootstrap_of(node: GuardedNode, user: str) -> str:
    name = next(name for name, known in LISTENERS.items() if known == (user, BROKER))
    return f"127.0.0.1:{node.running.node.endpoint(name).port}"


@pytest.fixture
def command(node: GuardedNode) -> Iterator[Command]:
    """Run a command as the administrator. Whatever it adds is removed afterwards."""
    bootstrap = bootstrap_of(node, ADMIN)
    yield lambda *arguments: tidelog(*arguments, "--bootstrap", bootstrap)
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.delete_acls([AclBindingFilter()])


def test_acls_are_added_listed_and_removed(command: Command) -> None:
    added = command("acls", "add", "--allow-principal", "User:alice", "--producer", "--topic", "orders")
    assert added.exit_code == 0, added.output
    listed = json_lines(command("acls", "list", "--topic", "orders", "--json"))
    assert {(row["principal"], row["operation"], row["permission"]) for row in listed} == {
        ("User:alice", "write", "allow"),
        ("User:alice", "describe", "allow"),
        ("User:alice", "create", "allow"),
    }

    removed = command("acls", "remove", "--topic", "orders", "--allow-principal", "User:alice", "--operation", "create")

    assert "create" in removed.stdout
    assert len(json_lines(command("acls", "list", "--json"))) == 2
    command("acls", "remove", "--topic", "orders")
    assert command("acls", "list").stdout == "there are no ACLs\n"
    assert command("acls", "remove", "--topic", "orders").stdout == "no ACL fits: nothing was removed\n"


def test_a_prefix_matches_and_a_table_shows_it(command: Command) -> None:
    command(
        "acls",
        "add",
        "--deny-principal",
        "User:*",
        "--deny-host",
        "10.0.0.1",
        "--group",
        "g",
        "--resource-pattern-type",
        "prefixed",
    )

    shown = command("acls", "list", "--group", "garage", "--resource-pattern-type", "match").stdout.splitlines()

    assert [line.split() for line in shown] == [
        ["RESOURCE", "NAME", "PATTERN", "PRINCIPAL", "HOST", "OPERATION", "PERMISSION"],
        ["group", "g", "prefixed", "User:*", "10.0.0.1", "all", "deny"],
    ]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("add", "--topic", "t"), "nobody is named: give --allow-principal or --deny-principal, as in User:alice"),
        (("remove",), "nothing is named that could be removed: give resources, --allow-principal or --deny-principal"),
    ],
)
def test_a_mistake_is_one_sentence(command: Command, arguments: tuple[str, ...], sentence: str) -> None:
    result = command("acls", *arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == f"tidelog acls: {sentence}\n"


def test_who_may_not_is_told_so(node: GuardedNode) -> None:
    arguments = ("acls", "list", "--bootstrap", bootstrap_of(node, ALICE))
    result = tidelog(*arguments)
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == "tidelog acls: Cluster authorization failed. (CLUSTER_AUTHORIZATION_FAILED)\n"


def test_a_cluster_without_an_authoriser_says_so() -> None:
    with EmbeddedCluster() as cluster, Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
        with pytest.raises(RefusedError, match="No Authorizer is configured on the broker"):
            admin.describe_acls()
        acl = AclBinding(On.TOPIC, "t", "User:a", AclOperation.READ)
        (outcome,) = admin.create_acls([acl]).values()
        assert isinstance(outcome, RefusedError)
        assert outcome.code is ErrorCode.SECURITY_DISABLED


def test_the_admin_tells_what_became_of_each(node: GuardedNode, command: Command) -> None:
    good = AclBinding(On.TOPIC, "orders", "User:alice", AclOperation.READ)
    bad = AclBinding(On.CLUSTER, "not the cluster", "User:alice", AclOperation.ALTER)
    with Admin(bootstrap_servers=bootstrap_of(node, ADMIN)) as admin:
        outcomes = admin.create_acls([good, good, bad])
        assert outcomes[good] is None
        assert str(outcomes[bad]).startswith("The only valid name for the CLUSTER resource is kafka-cluster")
        assert admin.describe_acls(AclBindingFilter(principal="User:alice")) == [good]
        everything = AclBindingFilter()
        assert value_of(admin.delete_acls([everything])[everything]) == [good]
        assert admin.describe_acls() == []
        with pytest.raises(ConfigError, match="alice is no principal"):
            admin.create_acls([AclBinding(On.TOPIC, "t", "alice", AclOperation.READ)])
    assert command("acls", "list").stdout == "there are no ACLs\n"


def test_librdkafka_reads_what_was_added(node: GuardedNode, command: Command) -> None:
    command("acls", "add", "--allow-principal", "User:alice", "--operation", "read", "--topic", "orders")
    words: Any = confluent_kafka.admin
    client = words.AdminClient({"bootstrap.servers": bootstrap_of(node, ADMIN)})
    everything = words.AclBindingFilter(
        words.ResourceType.ANY,
        None,
        words.ResourcePatternType.ANY,
        None,
        None,
        words.AclOperation.ANY,
        words.AclPermissionType.ANY,
    )
    (found,) = client.describe_acls(everything).result(30)
    assert (found.name, found.principal, found.operation) == ("orders", "User:alice", words.AclOperation.READ)
