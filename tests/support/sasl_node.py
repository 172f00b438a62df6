"""A node with a SASL listener for clients, a plain one, and users of every mechanism."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import cast

from tests.support.running_node import RunningNode
from tidelog.security.sasl.scram_credential import ScramCredential, ScramMechanism, derive_credential
from tidelog.security.sasl.unsecured_jws import unsecured_token

PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
OAUTH_MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"

USER = "alice"
PASSWORD = "alice's secret"
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")


def sasl_settings(mechanisms: tuple[str, ...] = MECHANISMS, **more: str) -> dict[str, str]:
    """The listener CLIENTS wants SASL, PLAINTEXT does not."""
    return {
        "listeners": "PLAINTEXT://127.0.0.1:0,CLIENTS://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CLIENTS:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
        "listener.name.clients.sasl.enabled.mechanisms": ",".join(mechanisms),
        "listener.name.clients.plain.sasl.jaas.config": (
            f'{PLAIN_MODULE} required user_{USER}="{PASSWORD}" user_bob="b";'
        ),
        "offsets.topic.replication.factor": "1",
        "group.initial.rebalance.delay.ms": "0",
        **more,
    }


def sasl_bootstrap(node: RunningNode) -> str:
    endpoint = node.node.endpoint("CLIENTS")
    return f"{endpoint.host}:{endpoint.port}"


def add_scram_user(node: RunningNode, user: str = USER, password: str = PASSWORD) -> None:
    """As the metadata log would have it."""

    async def add() -> None:
        held = cast("dict[tuple[str, int], ScramCredential]", node.node.image.scram_credentials)
        for mechanism in ScramMechanism:
            held[user, mechanism.value] = derive_credential(mechanism, password, b"some salt", 4096)

    node.run(add())


def remove_scram_user(node: RunningNode, user: str = USER) -> None:
    async def remove() -> None:
        held = cast("dict[tuple[str, int], ScramCredential]", node.node.image.scram_credentials)
        for mechanism in ScramMechanism:
            del held[user, mechanism.value]

    node.run(remove())


def token_of(user: str = USER, lifetime_s: float = 3600, **claims: object) -> str:
    """For the validator that checks no signature."""
    return unsecured_token({"sub": user, "iat": time.time() - 1, "exp": time.time() + lifetime_s, **claims})


def counted(node: RunningNode, name: str, mechanism: str) -> int:
    """What the node has counted of its clients' logins."""
    held: Mapping[tuple[str, str], object] = node.node.metrics.authentication
    counts = held.get(("CLIENTS", mechanism))
    return 0 if counts is None else int(getattr(counts, name))
