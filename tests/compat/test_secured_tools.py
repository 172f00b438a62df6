"""Apache Kafka's tools on a listener of ours with TLS and SASL: ACLs, users, quotas, tokens, and records by those who may."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.apache_kafka import ApacheKafka, Output
from tests.support.security_tables.secured_node import MODULES, add_users
from tests.support.security_tables.tls_node import TlsNode, tls_node
from tests.support.tidelog_node import TidelogNode

pytestmark = pytest.mark.compat

TOOLS = "org.apache.kafka.tools"
CONFIGS = "kafka.admin.ConfigCommand"

Tool = Callable[..., Output]


@pytest.fixture(scope="module")
def node(kafka: ApacheKafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TlsNode]:
    place = tls_node(kafka, tmp_path_factory.mktemp("node"))
    with TidelogNode(place.place).running():
        add_users(place.plain)
        yield place


@pytest.fixture
def tool(kafka: ApacheKafka, node: TlsNode) -> Tool:
    """Runs a tool over TLS as somebody, by default as the administrator, and holds it to success unless told otherwise."""
    files = {
        "admin": node.properties_file("admin", node.client("admin", "PLAIN")),
        "alice": node.properties_file("alice", node.client("alice", "SCRAM-SHA-512")),
        "bob": node.properties_file("bob", node.client("bob", "SCRAM-SHA-256")),
    }

    def run(
        name: str, *arguments: str, user: str = "admin", file: Path | None = None, given: str = "", fails: bool = False
    ) -> Output:
        main_class = name if name == CONFIGS else f"{TOOLS}.{name}"
        where = ("--bootstrap-server", node.secure, "--command-config", str(file or files[user]))
        done = kafka.tool(main_class, *arguments, *where, given=given)
        assert (done.code != 0) is fails, f"{name} {arguments}: {done}"
        return done

    return run


def configs(tool: Tool, kind: str, name: str, *arguments: str) -> Output:
    return tool(CONFIGS, "--entity-type", kind, "--entity-name", name, *arguments)


def produce(tool: Tool, topic: str, text: str, **options: object) -> Output:
    return tool("ConsoleProducer", "--topic", topic, given=text, **options)


def consume(tool: Tool, topic: str, group: str, count: int, **options: object) -> Output:
    wanted = ("--from-beginning", "--max-messages", str(count), "--timeout-ms", "20000", "--group", group)
    return tool("consumer.ConsoleConsumer", "--topic", topic, *wanted, **options)


def test_kafka_acls_lets_in_and_keeps_out(tool: Tool) -> None:
    tool("TopicCommand", "--create", "--topic", "ledger", "--partitions", "1")

    refused = produce(tool, "ledger", "early\n", user="alice")
    added = tool(
        "AclCommand",
        "--add",
        "--allow-principal",
        "User:alice",
        "--producer",
        "--consumer",
        "--topic",
        "ledger",
        "--group",
        "ledger-group",
    )
    produce(tool, "ledger", "one\ntwo\n", user="alice")
    read = consume(tool, "ledger", "ledger-group", 2, user="alice")
    listed = tool("AclCommand", "--list", "--topic", "ledger")
    nobody = consume(tool, "ledger", "ledger-group", 1, user="bob")
    removed = tool("AclCommand", "--remove", "--force", "--topic", "ledger")
    after = tool("AclCommand", "--list", "--topic", "ledger")

    assert "TopicAuthorizationException" in refused.stderr + refused.stdout
    assert "Adding ACLs for resource" in added.stdout
    assert read.stdout.splitlines() == ["one", "two"]
    assert "(principal=User:alice, host=*, operation=WRITE, permissionType=ALLOW)" in listed.stdout
    assert "AuthorizationException" in nobody.stderr + nobody.stdout
    assert removed.code == 0
    assert "principal=User:alice" not in after.stdout


def test_those_without_a_right_may_not_see_acls(tool: Tool) -> None:
    refused = tool("AclCommand", "--list", user="bob", fails=True)

    assert "ClusterAuthorizationException" in refused.stderr + refused.stdout


def test_kafka_configs_keeps_users_and_quotas(tool: Tool, node: TlsNode) -> None:
    configs(tool, "users", "carol", "--alter", "--add-config", "SCRAM-SHA-256=[iterations=8192,password=carol-secret]")
    configs(tool, "users", "carol", "--alter", "--add-config", "producer_byte_rate=1024,consumer_byte_rate=2048")
    configs(tool, "clients", "reports", "--alter", "--add-config", "request_percentage=50")
    configs(tool, "ips", "10.0.0.1", "--alter", "--add-config", "connection_creation_rate=10")
    login = f'{MODULES}.scram.ScramLoginModule required username="carol" password="carol-secret";'
    carol = node.properties_file("carol", node.client_with(login, "SCRAM-SHA-256"))

    described = configs(tool, "users", "carol", "--describe").stdout
    clients = configs(tool, "clients", "reports", "--describe").stdout
    ips = configs(tool, "ips", "10.0.0.1", "--describe").stdout
    listed = tool("TopicCommand", "--list", file=carol)
    configs(tool, "users", "carol", "--alter", "--delete-config", "SCRAM-SHA-256")
    configs(tool, "users", "carol", "--alter", "--delete-config", "producer_byte_rate,consumer_byte_rate")
    gone = configs(tool, "users", "carol", "--describe").stdout

    assert "producer_byte_rate=1024.0" in described
    assert "SCRAM-SHA-256=iterations=8192" in described
    assert "request_percentage=50.0" in clients
    assert "connection_creation_rate=10.0" in ips
    assert listed.code == 0
    assert "iterations" not in gone
    assert "byte_rate" not in gone


def test_kafka_delegation_tokens_makes_tokens_that_open_doors(tool: Tool, node: TlsNode) -> None:
    tool("TopicCommand", "--create", "--topic", "tokens", "--partitions", "1")
    tool("AclCommand", "--add", "--allow-principal", "User:bob", "--operation", "All", "--topic", "tokens")

    made = tool(
        "DelegationTokenCommand",
        "--create",
        "--max-life-time-period",
        "-1",
        "--renewer-principal",
        "User:alice",
        user="bob",
    )
    row = next(line for line in made.stdout.splitlines() if "User:bob" in line)
    token, hmac = re.split(r"\s+", row.strip())[:2]
    login = f'{MODULES}.scram.ScramLoginModule required username="{token}" password="{hmac}" tokenauth="true";'
    holder = node.properties_file("token", node.client_with(login, "SCRAM-SHA-256"))
    produce(tool, "tokens", "by token\n", file=holder)
    renewed = tool("DelegationTokenCommand", "--renew", "--renew-time-period", "-1", "--hmac", hmac, user="alice")
    described = tool("DelegationTokenCommand", "--describe", "--owner-principal", "User:bob", user="bob")
    refused = tool("DelegationTokenCommand", "--create", "--max-life-time-period", "-1", file=holder, fails=True)
    tool("DelegationTokenCommand", "--expire", "--expiry-time-period", "-1", "--hmac", hmac, user="bob")
    after = tool("DelegationTokenCommand", "--describe", "--owner-principal", "User:bob", user="bob")

    assert "Completed renew" in renewed.stdout or "expiry" in renewed.stdout.lower()
    assert token in described.stdout
    assert "DelegationTokenDisabled" not in refused.stderr
    assert token not in after.stdout


def test_a_wrong_password_is_told(tool: Tool, node: TlsNode) -> None:
    login = f'{MODULES}.plain.PlainLoginModule required username="alice" password="wrong";'
    wrong = node.properties_file("wrong", node.client_with(login, "PLAIN"))

    refused = tool("TopicCommand", "--list", file=wrong, fails=True)

    assert "Authentication failed: Invalid username or password" in refused.stderr + refused.stdout
