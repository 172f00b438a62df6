"""Clients of other languages on listeners of ours that ask who they are: over TLS and without, by each mechanism."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.apache_kafka import REPOSITORY, ApacheKafka, MissingProgramError, require
from tests.support.go_program import BUILD_TIMEOUT_S
from tests.support.security_tables.access_talk import Administrator
from tests.support.security_tables.secured_node import PASSWORDS, SCRAM_PASSWORDS, add_users
from tests.support.security_tables.tls_node import TlsNode, tls_node
from tests.support.tidelog_node import TidelogNode

pytestmark = pytest.mark.compat

COMPAT = REPOSITORY / "tests" / "compat"
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
COUNT = 5
TIMEOUT_S = 120.0
READ, WRITE, DESCRIBE, GROUP, TOPIC = 3, 4, 8, 3, 2

Client = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def node(kafka: ApacheKafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TlsNode]:
    place = tls_node(kafka, tmp_path_factory.mktemp("node"))
    with TidelogNode(place.place).running():
        add_users(place.plain)
        yield place


@pytest.fixture(scope="module")
def go_clients(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Franz-go and sarama in one program."""
    try:
        go = require("go", "golang-go")
    except MissingProgramError as error:
        pytest.exit(str(error), returncode=1)
    place = tmp_path_factory.mktemp("go")
    shutil.copytree(COMPAT / "secured", place / "source")
    program = place / "program"
    built = subprocess.run(
        [go, "build", "-o", str(program), "."],
        cwd=place / "source",
        capture_output=True,
        text=True,
        timeout=BUILD_TIMEOUT_S,
        check=False,
    )
    assert built.returncode == 0, built.stderr
    return program


@pytest.fixture(scope="module")
def kafkajs(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    try:
        npm, interpreter = require("npm", "npm"), require("node", "nodejs")
    except MissingProgramError as error:
        pytest.exit(str(error), returncode=1)
    place = tmp_path_factory.mktemp("kafkajs") / "source"
    shutil.copytree(COMPAT / "kafkajs", place)
    done = subprocess.run(
        [npm, "install", "--no-audit", "--no-fund"], cwd=place, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    return [interpreter, str(place / "secured.js")]


def password_of(user: str, mechanism: str) -> str:
    return PASSWORDS[user] if mechanism == "PLAIN" else SCRAM_PASSWORDS[user]


def open_topic(node: TlsNode, topic: str, user: str = "alice") -> None:
    """A topic that this user may write to and read from, with groups that are named after it."""
    created = {"num_partitions": 1, "replication_factor": 1, "assignments": [], "configs": []}
    rights = [(READ, TOPIC), (WRITE, TOPIC), (READ, GROUP)]
    named = {"resource_name": topic, "resource_pattern_type": 4}
    acl = {**named, "principal": f"User:{user}", "host": "*", "permission_type": 3}
    creations = [{**acl, "operation": operation, "resource_type": kind} for operation, kind in rights]
    with Administrator(node.plain) as administrator:
        administrator.ask(19, 7, {"timeout_ms": 10_000, "topics": [{**created, "name": topic}]})
        told = administrator.ask(30, 3, {"creations": creations})
        assert all(each.error_code == 0 for each in told.results), told


def run(command: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)


def arguments(node: TlsNode, mechanism: str, topic: str, *, with_tls: bool, password: str | None = None) -> list[str]:
    authority = str(node.authority) if with_tls else "-"
    secret = password_of("alice", mechanism) if password is None else password
    return [node.address(with_tls=with_tls), mechanism, "alice", secret, authority, topic, str(COUNT)]


@pytest.mark.parametrize("with_tls", [True, False], ids=["TLS", "in the clear"])
@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("client", ["franz", "sarama"])
def test_clients_in_go_write_and_read(
    node: TlsNode, go_clients: Path, client: str, mechanism: str, with_tls: bool
) -> None:
    topic = f"{client}-{mechanism}-{with_tls}"
    open_topic(node, topic)

    done = run([str(go_clients), client, *arguments(node, mechanism, topic, with_tls=with_tls)])

    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [f"{client}-{number}" for number in range(COUNT)]


@pytest.mark.parametrize("with_tls", [True, False], ids=["TLS", "in the clear"])
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_kafkajs_writes_and_reads(node: TlsNode, kafkajs: list[str], mechanism: str, with_tls: bool) -> None:
    topic = f"kafkajs-{mechanism}-{with_tls}"
    open_topic(node, topic)

    done = run([*kafkajs, *arguments(node, mechanism, topic, with_tls=with_tls)])

    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [f"kafkajs-{number}" for number in range(COUNT)]


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("client", ["franz", "sarama"])
def test_a_wrong_password_is_told_by_clients_in_go(
    node: TlsNode, go_clients: Path, client: str, mechanism: str
) -> None:
    done = run([str(go_clients), client, *arguments(node, mechanism, "none", with_tls=False, password="wrong")])

    assert done.returncode == 1
    assert "SASL" in done.stderr or "auth" in done.stderr.lower(), done.stderr


def kcat(
    node: TlsNode, mechanism: str, *more: str, with_tls: bool, given: str = ""
) -> subprocess.CompletedProcess[str]:
    program = require("kcat", "kcat")
    options = {
        "security.protocol": "SASL_SSL" if with_tls else "SASL_PLAINTEXT",
        "sasl.mechanisms": mechanism,
        "sasl.username": "alice",
        "sasl.password": password_of("alice", mechanism),
        **({"ssl.ca.location": str(node.authority)} if with_tls else {}),
    }
    flags = [word for key, value in options.items() for word in ("-X", f"{key}={value}")]
    return subprocess.run(
        [program, "-b", node.address(with_tls=with_tls), *flags, *more],
        input=given,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )


@pytest.mark.parametrize("with_tls", [True, False], ids=["TLS", "in the clear"])
def test_kcat_writes_and_reads(node: TlsNode, with_tls: bool) -> None:
    """By PLAIN alone: with SCRAM the librdkafka of Debian's kcat repeats its nonce, which Kafka refuses too."""
    mechanism, topic = "PLAIN", f"kcat-{with_tls}"
    open_topic(node, topic)

    written = kcat(node, mechanism, "-P", "-t", topic, with_tls=with_tls, given="one\ntwo\n")
    read = kcat(node, mechanism, "-C", "-t", topic, "-e", "-q", with_tls=with_tls)

    assert (written.returncode, read.returncode) == (0, 0), (written, read)
    assert read.stdout.splitlines() == ["one", "two"]
