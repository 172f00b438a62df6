"""One node with users: the settings by which Apache Kafka and Tidelog alike ask who a client is and what it may do.

Listener PLAINTEXT is for the node itself and for the test: whoever comes there is a super user. SASL asks for a user; so does
REAUTH, whose sessions end.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from tests.support.apache_kafka import SMALL_NODE, ApacheKafka, Node, free_ports, wait_until
from tests.support.raw_client import RawClient
from tests.support.running_node import RunningNode
from tidelog.wire.messages.scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    ScramCredentialUpsertion,
)

PASSWORDS = {"admin": "admin-secret", "alice": "alice-secret", "bob": "bob-secret", "denied": "denied-secret"}
SCRAM_PASSWORDS = {"alice": "alice-scram", "bob": "bob-scram", "we,ird=name": "weird-scram"}
SCRAM_MECHANISMS = {"SCRAM-SHA-256": (1, "sha256"), "SCRAM-SHA-512": (2, "sha512")}
ITERATIONS = 4096
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
REAUTH_MS = 600_000
# As small as is said to be enough for every token.
RECEIVED_BYTES_MAX = 100_000
MODULES = "org.apache.kafka.common.security"
AUDIT = "kafka.authorizer.logger"
_TOKEN = re.compile(r"DelegationToken:LITERAL:\S+")


class Addresses(NamedTuple):
    """Where a node listens."""

    plain: str
    sasl: str
    reauth: str


def _jaas() -> dict[str, str]:
    users = " ".join(f'user_{name}="{password}"' for name, password in PASSWORDS.items())
    return {
        "plain": f'{MODULES}.plain.PlainLoginModule required username="admin" password="{PASSWORDS["admin"]}" {users};',
        "scram-sha-256": f"{MODULES}.scram.ScramLoginModule required;",
        "scram-sha-512": f"{MODULES}.scram.ScramLoginModule required;",
        "oauthbearer": f'{MODULES}.oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="admin";',
    }


def settings(plain: int = 0, controller: int = 0, sasl: int = 0, reauth: int = 0) -> dict[str, str]:
    """With these ports."""
    listeners = ",".join(
        f"{name}://127.0.0.1:{port}"
        for name, port in {"PLAINTEXT": plain, "CONTROLLER": controller, "SASL": sasl, "REAUTH": reauth}.items()
    )
    found = {
        "listeners": listeners,
        "listener.security.protocol.map": (
            "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SASL:SASL_PLAINTEXT,REAUTH:SASL_PLAINTEXT"
        ),
        "sasl.enabled.mechanisms": ",".join(MECHANISMS),
        "sasl.server.max.receive.size": str(RECEIVED_BYTES_MAX),
        "connection.failed.authentication.delay.ms": "50",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS;User:admin",
        "delegation.token.secret.key": "a key of tests",
        "auto.create.topics.enable": "true",
        "group.initial.rebalance.delay.ms": "0",
    }
    if plain:
        found["advertised.listeners"] = listeners
    for listener in ("sasl", "reauth"):
        for mechanism, text in _jaas().items():
            found[f"listener.name.{listener}.{mechanism}.sasl.jaas.config"] = text
    for mechanism in MECHANISMS:
        found[f"listener.name.reauth.{mechanism.lower()}.connections.max.reauth.ms"] = str(REAUTH_MS)
    return found


@contextmanager
def secured_kafka(kafka: ApacheKafka, root: Path) -> Iterator[tuple[Addresses, Node]]:
    """Apache Kafka; its log has what the authoriser says from DEBUG on."""
    plain, controller, sasl, reauth = free_ports(4)
    node = Node(
        kafka, root, settings(plain, controller, sasl, reauth), ports=(plain, controller), loggers={AUDIT: "debug"}
    )
    with node:
        addresses = Addresses(*(f"127.0.0.1:{port}" for port in (plain, sasl, reauth)))
        add_users(addresses.plain)
        yield addresses, node


@contextmanager
def secured_tidelog(root: Path) -> Iterator[tuple[Addresses, RunningNode]]:
    """A node of ours in this process."""
    with RunningNode(root, settings={**SMALL_NODE, **settings()}) as node:
        listeners = node.node._server.listeners
        addresses = Addresses(
            *(f"127.0.0.1:{listeners[name].address.port}" for name in ("PLAINTEXT", "SASL", "REAUTH"))
        )
        add_users(addresses.plain)
        yield addresses, node


def add_users(bootstrap: str) -> None:
    """Those of SCRAM, by both mechanisms. Returns when the broker knows them."""
    upsertions = [
        ScramCredentialUpsertion(
            name=name,
            mechanism=number,
            iterations=ITERATIONS,
            salt=b"some salt",
            salted_password=hashlib.pbkdf2_hmac(digest, password.encode(), b"some salt", ITERATIONS),
        )
        for name, password in SCRAM_PASSWORDS.items()
        for number, digest in SCRAM_MECHANISMS.values()
    ]
    with RawClient(bootstrap) as client:
        # A user occurs once in a request.
        for number in (1, 2):
            asked = [each for each in upsertions if each.mechanism == number]
            answer = client.call(
                AlterUserScramCredentialsRequest(deletions=[], upsertions=asked), AlterUserScramCredentialsResponse, 0
            )
            assert [each.error_code for each in answer.results] == [0] * len(asked), answer
        describe = DescribeUserScramCredentialsRequest(users=None)

        def is_known() -> bool:
            found = client.call(describe, DescribeUserScramCredentialsResponse, 0)
            return sum(len(each.credential_infos) for each in found.results) == len(upsertions)

        wait_until(is_known, "the broker knows the users")


class KafkaAudit:
    """The lines that the authoriser of Apache Kafka has logged, with their levels and without the host; sorted."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._read = 0

    def __call__(self, user: str) -> list[str]:
        with self._node.log_file.open("rb") as log:
            log.seek(self._read)
            text = log.read()
        # Only whole lines.
        end = text.rfind(b"\n") + 1
        self._read += end
        lines = text[:end].decode(errors="replace").splitlines()
        wanted = f" logger: Principal = User:{user} is "
        return sorted(audit_note(*line.split(" logger: ", 1)) for line in lines if wanted in line)


def audit_note(level: str, text: str) -> str:
    return _TOKEN.sub("DelegationToken:LITERAL:<id>", f"{level} {text}".replace(" from host = 127.0.0.1", ""))
