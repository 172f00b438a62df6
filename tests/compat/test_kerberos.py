"""GSSAPI with a realm of its own, by Debian's KDC: our nodes and clients, Java's, kcat's by Cyrus SASL, and another in Python."""

from __future__ import annotations

import logging
import subprocess
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

with warnings.catch_warnings():
    # Of a function of Python's that it still uses.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka import KafkaProducer

from tests.support.apache_kafka import ApacheKafka, Node, Output, free_ports, require
from tests.support.cluster_processes import ClusterProcesses
from tests.support.kdc import REALM, Kdc, kdc, keytab_login, login
from tests.support.running_node import DEADLINE_S, RunningNode
from tidelog import Admin, Consumer, Producer
from tidelog.client.errors import AuthenticationError, ConfigError
from tidelog.model.config import ConfigError as NodeConfigError

pytest.importorskip("gssapi", reason="the extra kerberos is not installed", exc_type=ImportError)
pytestmark = [
    pytest.mark.compat,
    pytest.mark.filterwarnings("ignore:read_text is deprecated:DeprecationWarning"),
]

SERVICE = "kafka/localhost"
LOGIN = "listener.name.clients.gssapi.sasl.jaas.config"
AUTHENTICATOR = "tidelog.broker.security.sasl_authenticator"
TOOLS = "org.apache.kafka.tools"
RULES = "sasl.kerberos.principal.to.local.rules"


@pytest.fixture(scope="module")
def realm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kdc]:
    patch = pytest.MonkeyPatch()
    with kdc(tmp_path_factory.mktemp("kdc")) as made:
        for name, value in made.variables.items():
            patch.setenv(name, value)
        yield made
        patch.undo()


@pytest.fixture(scope="module")
def service(realm: Kdc) -> Path:
    return realm.keytab(SERVICE)


@pytest.fixture(scope="module")
def alice(realm: Kdc) -> str:
    return keytab_login(realm.keytab("alice"), "alice")


def settings(service: Path, **more: str) -> dict[str, str]:
    return {
        "listeners": "CLIENTS://localhost:0,CONTROLLER://127.0.0.1:0",
        "listener.security.protocol.map": "CLIENTS:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
        "inter.broker.listener.name": "CLIENTS",
        "sasl.enabled.mechanisms": "GSSAPI",
        "sasl.kerberos.service.name": "kafka",
        LOGIN: keytab_login(service, SERVICE),
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        # Who a client is, is seen by what it may do.
        "super.users": "User:ANONYMOUS;User:kafka;User:alice;User:judy",
        "auto.create.topics.enable": "true",
        "offsets.topic.num.partitions": "1",
        "offsets.topic.replication.factor": "1",
        "group.initial.rebalance.delay.ms": "0",
        **more,
    }


@pytest.fixture(scope="module")
def node(realm: Kdc, service: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningNode]:
    rules = "RULE:[2:$1-$2](robot-.*)s/robot-(.*)/$1/L,DEFAULT"
    directory = tmp_path_factory.mktemp("node")
    with RunningNode(directory / "data", settings=settings(service, **{RULES: rules})) as running:
        yield running


def place(node: RunningNode) -> str:
    """By the name that the service's principal has."""
    return f"localhost:{node.bootstrap.rpartition(':')[2]}"


def ours(node: RunningNode, jaas: str | None, service_name: str | None = "kafka") -> dict[str, Any]:
    given: dict[str, Any] = {
        "bootstrap_servers": place(node),
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "GSSAPI",
        "sasl_kerberos_service_name": service_name,
        "sasl_jaas_config": jaas,
    }
    return {name: value for name, value in given.items() if value is not None}


def who(config: dict[str, Any], caplog: pytest.LogCaptureFixture) -> set[str]:
    """Whom the node takes the client for."""
    with caplog.at_level(logging.DEBUG, AUTHENTICATOR), Admin(**config) as admin:
        admin.connect()
    said = [record.getMessage() for record in caplog.records if record.name == AUTHENTICATOR]
    return {line.partition(" as ")[2] for line in said if "Successfully authenticated" in line}


def refusal(config: dict[str, Any]) -> str:
    with pytest.raises(AuthenticationError) as refused, Admin(**config) as admin:
        admin.connect()
    return str(refused.value)


def write_and_read(config: dict[str, Any], topic: str) -> list[bytes | None]:
    with Producer(**config) as producer:
        producer.send(topic, b"hello").result(DEADLINE_S)
    with Consumer(topic, **config, group_id=f"g-{topic}", auto_offset_reset="earliest") as consumer:
        deadline_s = time.monotonic() + DEADLINE_S
        while time.monotonic() < deadline_s:
            rows = consumer.poll(timeout_ms=1000)
            if rows:
                return [each.value for each in rows]
    return []


# Our client.


def test_our_client_writes_and_reads_by_its_keytab(node: RunningNode, alice: str) -> None:
    assert write_and_read(ours(node, alice), "by-keytab") == [b"hello"]


def test_our_client_goes_by_the_tickets_of_its_user(
    node: RunningNode, realm: Kdc, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    cache = realm.tickets("bob", realm.keytab("bob"))
    named = login(useTicketCache="true", ticketCache=str(cache), serviceName="kafka")

    assert who(ours(node, named, None), caplog) == {"User:bob by GSSAPI"}

    monkeypatch.setenv("KRB5CCNAME", f"FILE:{cache}")
    caplog.clear()
    assert who(ours(node, None), caplog) == {"User:bob by GSSAPI"}


def test_tickets_are_fetched_again_before_they_end(
    node: RunningNode, realm: Kdc, caplog: pytest.LogCaptureFixture
) -> None:
    jaas = keytab_login(realm.keytab("brief", max_life="2seconds"), "brief")
    with caplog.at_level(logging.DEBUG, AUTHENTICATOR):
        began_s = time.monotonic()
        logins = 0
        # One login after another until the first ticket is long over.
        while time.monotonic() < began_s + 4:
            with Admin(**ours(node, jaas)) as admin:
                admin.connect()
            logins += 1

    assert logins > 1
    assert "Failed authentication" not in caplog.text


@pytest.mark.parametrize(
    ("principal", "name"),
    [("alice", "alice"), ("carol/admin", "carol"), ("robot/Mow", "mow")],
)
def test_a_principal_is_called_as_the_rules_say(
    node: RunningNode, realm: Kdc, alice: str, principal: str, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    jaas = alice if principal == "alice" else keytab_login(realm.keytab(principal), principal)

    assert who(ours(node, jaas), caplog) == {f"User:{name} by GSSAPI"}


def test_a_principal_without_a_rule_is_told_so(realm: Kdc, service: Path, alice: str, tmp_path: Path) -> None:
    given = settings(service, **{RULES: "RULE:[2:$1]"})
    with RunningNode(tmp_path / "data", settings=given) as node:
        told = refusal(ours(node, alice))

    assert f"Failed to set name for 'alice@{REALM}' based on Kerberos authentication rules" in told
    assert "No rules apply to" in told


# What does not work says why.


def test_an_unknown_service_is_told(node: RunningNode, alice: str) -> None:
    told = refusal(ours(node, alice, "nobody"))

    assert f"Server nobody/localhost@{REALM} not found in Kerberos database" in told


def test_a_principal_that_is_not_in_the_keytab_is_told(node: RunningNode, realm: Kdc) -> None:
    jaas = keytab_login(realm.keytab("dave"), "eve")

    with pytest.raises(ConfigError, match=f"is of no use for eve@{REALM}: No key table entry found for eve@{REALM}"):
        Admin(**ours(node, jaas)).connect()


def test_a_keytab_that_is_not_there_is_told(node: RunningNode) -> None:
    jaas = keytab_login(Path("/nowhere.keytab"), "alice")

    with pytest.raises(ConfigError, match=r"Key table file '/nowhere\.keytab' not found"):
        Admin(**ours(node, jaas)).connect()


def test_a_keytab_of_an_old_key_is_told(node: RunningNode, realm: Kdc) -> None:
    jaas = keytab_login(realm.keytab("frank"), "frank")
    realm.new_key("frank")

    assert "GSS initiate failed: Decrypt integrity check failed" in refusal(ours(node, jaas))


def test_a_principal_that_has_left_the_realm_is_told(node: RunningNode, realm: Kdc) -> None:
    jaas = keytab_login(realm.keytab("grace"), "grace")
    realm.remove("grace")

    assert f"Client 'grace@{REALM}' not found in Kerberos database" in refusal(ours(node, jaas))


def test_a_ticket_that_has_ended_is_told(node: RunningNode, realm: Kdc) -> None:
    cache = realm.tickets("heidi", realm.keytab("heidi"), "-l", "1s")
    jaas = login(useTicketCache="true", ticketCache=str(cache))
    deadline_s = time.monotonic() + DEADLINE_S
    told = ""
    while not told and time.monotonic() < deadline_s:
        try:
            with Admin(**ours(node, jaas)) as admin:
                admin.connect()
        except AuthenticationError as error:
            told = str(error)

    assert "expired" in told.lower()


def test_a_ticket_for_another_service_lets_nobody_in(realm: Kdc, service: Path, alice: str, tmp_path: Path) -> None:
    other = keytab_login(realm.keytab("other/localhost"), "other/localhost")
    given = settings(service) | {LOGIN: other}
    with RunningNode(tmp_path / "data", settings=given) as node:
        told = refusal(ours(node, alice))

    assert "Authentication failed during authentication due to invalid credentials with SASL mechanism GSSAPI" in told


def test_a_keytab_that_is_replaced_is_used_at_once(realm: Kdc, alice: str, tmp_path: Path) -> None:
    principal = "changing/localhost"
    keytab = realm.keytab(principal)
    given = settings(keytab) | {LOGIN: keytab_login(keytab, principal), "sasl.kerberos.service.name": "changing"}
    with RunningNode(tmp_path / "data", settings=given) as node:
        realm.new_keytab(principal, keytab)

        with Admin(**ours(node, alice, "changing")) as admin:
            admin.connect()


def test_a_node_without_the_key_of_its_service_does_not_start(realm: Kdc, service: Path, tmp_path: Path) -> None:
    given = settings(service) | {LOGIN: keytab_login(service, "kafka/elsewhere")}

    with (
        pytest.raises(NodeConfigError, match=f"No key table entry found for kafka/elsewhere@{REALM}"),
        RunningNode(tmp_path / "data", settings=given),
    ):
        pass


# Others' clients.


def with_service(jaas: str, name: str) -> str:
    return jaas.replace(" required ", f' required serviceName="{name}" ')


def java(
    kafka: ApacheKafka, node: RunningNode, tool: str, jaas: str, file: Path, *more: str, given: str = ""
) -> Output:
    file.write_text(f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism=GSSAPI\nsasl.jaas.config={jaas}\n")
    where = ("--bootstrap-server", place(node), "--command-config", str(file))
    return kafka.tool(f"{TOOLS}.{tool}", *where, *more, given=given)


def test_javas_clients_write_and_read_by_their_keytab(
    kafka: ApacheKafka, node: RunningNode, alice: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "client.properties"
    alice = with_service(alice, "kafka")

    with caplog.at_level(logging.DEBUG, AUTHENTICATOR):
        written = java(kafka, node, "ConsoleProducer", alice, file, "--topic", "java", given="one\ntwo\n")
    many = ("--topic", "java", "--from-beginning", "--max-messages", "2", "--timeout-ms", "20000")
    read = java(kafka, node, "consumer.ConsoleConsumer", alice, file, *many)

    assert written.code == 0, written
    assert read.code == 0, read
    assert read.stdout.splitlines() == ["one", "two"]
    assert "as User:alice by GSSAPI" in caplog.text


def test_javas_client_is_told_that_its_ticket_is_of_no_use(
    kafka: ApacheKafka, realm: Kdc, service: Path, alice: str, tmp_path: Path
) -> None:
    other = keytab_login(realm.keytab("third/localhost"), "third/localhost")
    with RunningNode(tmp_path / "data", settings=settings(service) | {LOGIN: other}) as node:
        file = tmp_path / "client.properties"
        refused = java(kafka, node, "TopicCommand", with_service(alice, "kafka"), file, "--list")

    assert refused.code != 0
    assert "due to invalid credentials with SASL mechanism GSSAPI" in refused.stderr + refused.stdout


@pytest.mark.parametrize("bare", [False, True], ids=["in requests", "bare"])
def test_kcat_logs_in_by_its_keytab(
    node: RunningNode,
    realm: Kdc,
    monkeypatch: pytest.MonkeyPatch,
    bare: bool,
    caplog: pytest.LogCaptureFixture,
    tmp_path: Path,
) -> None:
    kcat = require("kcat", "kcat")
    version = subprocess.run([kcat, "-V"], capture_output=True, text=True, check=True).stdout
    if "sasl_gssapi" not in version:
        pytest.skip("this kcat is built without GSSAPI")
    user = "ivan" if bare else "ivy"
    # It runs kinit by itself.
    monkeypatch.setenv("KRB5CCNAME", f"FILE:{tmp_path}/ccache")
    options = ["security.protocol=sasl_plaintext", "sasl.mechanism=GSSAPI", f"sasl.kerberos.principal={user}"]
    options.append(f"sasl.kerberos.keytab={realm.keytab(user)}")
    if bare:
        options += ["api.version.request=false", "broker.version.fallback=0.10.0.0"]
    with caplog.at_level(logging.DEBUG, AUTHENTICATOR):
        done = subprocess.run(
            [kcat, "-b", place(node), "-L", *(word for option in options for word in ("-X", option))],
            capture_output=True,
            text=True,
            check=False,
            timeout=DEADLINE_S,
        )

    assert done.returncode == 0, done
    assert "1 brokers" in done.stdout
    assert f"as User:{user} by GSSAPI" in caplog.text


def test_kafka_python_writes_by_its_tickets(
    node: RunningNode, realm: Kdc, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    cache = realm.tickets("judy", realm.keytab("judy"))
    monkeypatch.setenv("KRB5CCNAME", f"FILE:{cache}")
    with caplog.at_level(logging.DEBUG, AUTHENTICATOR):
        producer = KafkaProducer(
            bootstrap_servers=place(node),
            security_protocol="SASL_PLAINTEXT",
            sasl_mechanism="GSSAPI",
            sasl_kerberos_service_name="kafka",
            sasl_kerberos_domain_name="localhost",
        )
        sent = producer.send("kafka-python", b"hello").get(DEADLINE_S)
        producer.close()

    assert sent.offset == 0
    # It asks to act as the service, which counts for nothing.
    assert "as User:judy by GSSAPI" in caplog.text


# Apache Kafka's broker.


def test_our_client_writes_to_apache_kafka_and_reads_from_it(
    kafka: ApacheKafka, realm: Kdc, service: Path, alice: str, tmp_path: Path
) -> None:
    plain, controller, clients = free_ports(3)
    listeners = f"PLAINTEXT://127.0.0.1:{plain},CONTROLLER://127.0.0.1:{controller},CLIENTS://localhost:{clients}"
    given = {
        "listeners": listeners,
        "advertised.listeners": listeners,
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,CLIENTS:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "GSSAPI",
        "sasl.kerberos.service.name": "kafka",
        LOGIN: keytab_login(service, SERVICE),
    }
    config = {
        "bootstrap_servers": f"localhost:{clients}",
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "GSSAPI",
        "sasl_kerberos_service_name": "kafka",
        "sasl_jaas_config": alice,
    }
    with Node(kafka, tmp_path, given, ports=(plain, controller)):
        assert write_and_read(config, "theirs") == [b"hello"]


# Between nodes.


def test_nodes_log_in_to_each_other_and_to_controllers(realm: Kdc, alice: str, tmp_path: Path) -> None:
    principal = "kafka/127.0.0.1"
    jaas = keytab_login(realm.keytab(principal), principal)
    given = {
        "listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "GSSAPI",
        "sasl.kerberos.service.name": "kafka",
        "sasl.mechanism.controller.protocol": "GSSAPI",
        "sasl.mechanism.inter.broker.protocol": "GSSAPI",
        # Every connection has to log in again a few times within the test.
        "connections.max.reauth.ms": "2000",
        "listener.name.plaintext.gssapi.sasl.jaas.config": jaas,
        "listener.name.controller.gssapi.sasl.jaas.config": jaas,
        "default.replication.factor": "3",
        "num.partitions": "3",
    }
    cluster = ClusterProcesses(tmp_path, 3, settings=given)
    with cluster.running():
        config: dict[str, Any] = {
            "bootstrap_servers": cluster.bootstrap,
            "security_protocol": "SASL_PLAINTEXT",
            "sasl_mechanism": "GSSAPI",
            "sasl_kerberos_service_name": "kafka",
            "sasl_jaas_config": alice,
        }
        before = write_and_read(config, "replicated")
        cluster.nodes[2].kill()
        with Producer(**config, acks="all") as producer:
            producer.send("replicated", b"after").result(DEADLINE_S)

        assert before == [b"hello"]
        assert "the login with" not in cluster.nodes[1].log
