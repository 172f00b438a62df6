"""Users' passwords and delegation tokens, with Apache Kafka's tools and in directories that change hands."""

from __future__ import annotations

import base64
import re
from pathlib import Path

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from tests.support.apache_kafka import CLUSTER_ID, ApacheKafka, Node, Output, free_ports, wait_until
from tests.support.command_line import json_lines, tidelog
from tests.support.tidelog_node import TidelogNode
from tidelog import Admin
from tidelog.client.admin import ScramCredentialInfo, ScramMechanism, UserScramDeletion, UserScramUpsertion
from tidelog.controller.snapshot_file import read_snapshot
from tidelog.security.delegation_tokens import TokenSecret, token_password
from tidelog.security.sasl.scram_credential import derive_credential
from tidelog.storage.os_files import OsFiles
from tidelog.wire.messages.internal.cluster_security import UserScramCredentialRecord

pytestmark = pytest.mark.compat

CONFIGS = "kafka.admin.ConfigCommand"
STORAGE = "kafka.tools.StorageTool"
TOKENS = "org.apache.kafka.tools.DelegationTokenCommand"
TOPICS = "org.apache.kafka.tools.TopicCommand"
TIMEOUT_S = 30.0
SHA_256, SHA_512 = ScramMechanism
USERS = (
    "SCRAM-SHA-256=[name=alice,password=alice-secret]",
    'SCRAM-SHA-512=[name=bob,iterations=8192,salt="MWV3azMyMnY0dDV6",password="bob=secret"]',
)
SECRET = "the secret of the cluster"


def users(node: Node | TidelogNode) -> dict[str, object]:
    with Admin(bootstrap_servers=node.bootstrap) as admin:
        return dict(admin.describe_user_scram_credentials())


BOTH = {"alice": (ScramCredentialInfo(SHA_256, 4096),), "bob": (ScramCredentialInfo(SHA_512, 8192),)}


def add_scram() -> list[str]:
    return [word for user in USERS for word in ("--add-scram", user)]


def formatted_by_kafka(node: Node) -> None:
    arguments = ("format", "--standalone", "-t", CLUSTER_ID, "-c", str(node.properties()), *add_scram())
    done = node.kafka.tool(STORAGE, *arguments)
    assert done.code == 0, done


def formatted_by_us(node: Node) -> None:
    done = tidelog("format", "--standalone", "--cluster-id", CLUSTER_ID, "--config", node.properties(), *add_scram())
    assert done.exit_code == 0, done.output


def test_kafka_configs_gives_and_takes_passwords(kafka: ApacheKafka, tmp_path: Path) -> None:
    node = TidelogNode.at(tmp_path)
    with node.running():

        def configs(*arguments: str) -> str:
            entity = ("--entity-type", "users", "--entity-name", "alice")
            done = kafka.tool(CONFIGS, "--bootstrap-server", node.bootstrap, *entity, *arguments)
            assert done.code == 0, done
            return done.stdout

        added = configs("--alter", "--add-config", "SCRAM-SHA-256=[iterations=8192,password=alice-secret]")
        found = users(node)
        configs("--alter", "--delete-config", "SCRAM-SHA-256")
        refused = kafka.tool(
            *(CONFIGS, "--bootstrap-server", node.bootstrap, "--entity-type", "users", "--entity-name", "alice"),
            *("--alter", "--delete-config", "SCRAM-SHA-256"),
        )

        assert "Completed updating config for user alice." in added
        assert found == {"alice": (ScramCredentialInfo(SHA_256, 8192),)}
        assert users(node) == {}
        assert refused.code != 0
        assert "Attempt to delete a user credential that does not exist" in refused.stdout + refused.stderr


@pytest.mark.parametrize("prepare", [formatted_by_kafka, formatted_by_us])
def test_a_directory_carries_its_users_through_both_programs(
    kafka: ApacheKafka, tmp_path: Path, prepare: object
) -> None:
    theirs = Node(kafka, tmp_path)
    ours = TidelogNode(theirs)
    assert callable(prepare)
    prepare(theirs)

    with ours.running(), Admin(bootstrap_servers=ours.bootstrap) as admin:
        first = users(ours)
        admin.alter_user_scram_credentials(
            [UserScramUpsertion("carol", "carol-secret"), UserScramDeletion("bob", SHA_512)]
        )
    with theirs.running(), Admin(bootstrap_servers=theirs.bootstrap) as admin:
        second = users(theirs)
        admin.alter_user_scram_credentials([UserScramUpsertion("dave", "dave-secret", SHA_512, 16384)])
        wait_until(lambda: "dave" in users(theirs), "the broker has seen it", TIMEOUT_S)
    with ours.running():
        third = users(ours)

    assert first == BOTH
    assert second == {"alice": BOTH["alice"], "carol": (ScramCredentialInfo(SHA_256, 4096),)}
    assert third == {**second, "dave": (ScramCredentialInfo(SHA_512, 16384),)}


def test_both_programs_derive_the_same_keys(kafka: ApacheKafka, tmp_path: Path) -> None:
    theirs = Node(kafka, tmp_path / "theirs")
    formatted_by_kafka(theirs)
    ours = Node(kafka, tmp_path / "ours")
    formatted_by_us(ours)

    for node in (theirs, ours):
        framed = read_snapshot(OsFiles(), str(node.data / "bootstrap.checkpoint")).records
        records = [each.message for each in framed if isinstance(each.message, UserScramCredentialRecord)]
        passwords = {"alice": "alice-secret", "bob": "bob=secret"}
        assert [each.name for each in records] == ["alice", "bob"]
        for record in records:
            mechanism = ScramMechanism(record.mechanism)
            derived = derive_credential(mechanism, passwords[record.name], record.salt, record.iterations)
            assert (record.stored_key, record.server_key) == (derived.stored_key, derived.server_key)


class SaslNode(Node):
    """A node of Apache Kafka with a listener on which users log in by SCRAM."""

    def __post_init__(self) -> None:
        super().__post_init__()
        (self.sasl_port,) = free_ports(1)
        listeners = (
            f"PLAINTEXT://127.0.0.1:{self.port},CONTROLLER://127.0.0.1:{self.controller_port},"
            f"SASL://127.0.0.1:{self.sasl_port}"
        )
        module = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
        self.settings = {
            "listeners": listeners,
            "advertised.listeners": listeners,
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SASL:SASL_PLAINTEXT",
            "listener.name.sasl.sasl.enabled.mechanisms": "SCRAM-SHA-256",
            "listener.name.sasl.scram-sha-256.sasl.jaas.config": module,
            "inter.broker.listener.name": "PLAINTEXT",
            "delegation.token.secret.key": SECRET,
        }


def test_kafka_lets_in_those_whom_we_gave_passwords(kafka: ApacheKafka, tmp_path: Path) -> None:
    plain = Node(kafka, tmp_path)
    formatted_by_us(plain)
    ours = TidelogNode(plain)
    with ours.running(), Admin(bootstrap_servers=ours.bootstrap) as admin:
        assert admin.alter_user_scram_credentials([UserScramUpsertion("carol", "carol-secret")]) == {"carol": None}
    theirs = SaslNode(kafka, tmp_path, ports=(plain.port, plain.controller_port))

    def logs_in(user: str, password: str) -> bool:
        client = AdminClient(
            {
                "bootstrap.servers": f"127.0.0.1:{theirs.sasl_port}",
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "SCRAM-SHA-256",
                "sasl.username": user,
                "sasl.password": password,
                "log_level": 0,
            }
        )
        try:
            return bool(client.list_topics(timeout=5).brokers)
        except KafkaException:
            return False

    with theirs.running():
        assert logs_in("alice", "alice-secret")
        assert logs_in("carol", "carol-secret")
        assert not logs_in("carol", "alice-secret")


def test_kafkas_tokens_have_the_hmac_that_we_compute(kafka: ApacheKafka, tmp_path: Path) -> None:
    theirs = SaslNode(kafka, tmp_path)
    formatted_by_kafka(theirs)
    client = tmp_path / "client.properties"
    module = "org.apache.kafka.common.security.scram.ScramLoginModule"
    client.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=SCRAM-SHA-256\n"
        f'sasl.jaas.config={module} required username="alice" password="alice-secret";\n'
    )

    with theirs.running():
        created = kafka.tool(
            *(TOKENS, "--bootstrap-server", f"127.0.0.1:{theirs.sasl_port}", "--command-config", str(client)),
            *("--create", "--max-life-time-period", "-1", "--renewer-principal", "User:bob"),
        )
        assert created.code == 0, created
    log = theirs.data / "__cluster_metadata-0" / "00000000000000000000.log"
    decoded = [row["decoded"]["value"] for row in json_lines(tidelog("dump-log", log, "--json")) if "decoded" in row]
    (record,) = [each["fields"] for each in decoded if each["message"] == "DelegationTokenRecord"]

    printed = re.search(r"^(\S+)\s+(\S{40,})\s+User:alice\s", created.stdout, re.MULTILINE)
    assert printed is not None, created.stdout
    assert printed[1] == record["token_id"]
    assert (record["owner"], record["renewers"]) == ("User:alice", ["User:bob"])
    hmac = TokenSecret(SECRET).hmac_of(record["token_id"])
    assert printed[2] == token_password(hmac)
    assert base64.b64decode(printed[2]) == hmac


def test_javas_clients_log_in_with_our_tokens(kafka: ApacheKafka, tmp_path: Path) -> None:
    hosted = SaslNode(kafka, tmp_path)
    formatted_by_us(hosted)
    module = "org.apache.kafka.common.security.scram.ScramLoginModule"

    def ran(command: str, login: str, *arguments: str) -> Output:
        client = tmp_path / "client.properties"
        client.write_text(
            "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=SCRAM-SHA-256\n"
            f"sasl.jaas.config={module} required {login};\n"
        )
        bootstrap = f"127.0.0.1:{hosted.sasl_port}"
        return kafka.tool(command, "--bootstrap-server", bootstrap, "--command-config", str(client), *arguments)

    alice = 'username="alice" password="alice-secret"'
    with TidelogNode(hosted).running():
        created = ran(TOKENS, alice, "--create", "--max-life-time-period", "-1", "--renewer-principal", "User:bob")
        assert created.code == 0, created
        printed = re.search(r"^(\S+)\s+(\S{40,})\s+User:alice\s", created.stdout, re.MULTILINE)
        assert printed is not None, created.stdout
        token = f'username="{printed[1]}" password="{printed[2]}" tokenauth="true"'
        made = ran(TOPICS, token, "--create", "--topic", "orders")
        listed = ran(TOPICS, token, "--list")
        another = ran(TOKENS, token, "--create", "--max-life-time-period", "-1")
        described = ran(TOKENS, alice, "--describe", "--owner-principal", "User:alice")
        renewed = ran(TOKENS, alice, "--renew", "--renew-time-period", "3600000", "--hmac", printed[2])
        expired = ran(TOKENS, alice, "--expire", "--expiry-time-period", "-1", "--hmac", printed[2])
        refused = ran(TOPICS, token, "--list")

    assert (made.code, listed.code, listed.stdout.split()) == (0, 0, ["orders"])
    assert another.code != 0
    assert "Delegation Token requests are not allowed" in another.stdout + another.stderr
    assert printed[1] in described.stdout
    assert "Completed renew operation." in renewed.stdout
    assert "Completed expire operation." in expired.stdout
    assert refused.code != 0
    assert "Authentication failed during authentication due to invalid credentials" in refused.stdout + refused.stderr
