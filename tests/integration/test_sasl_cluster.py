"""Three nodes that log in to each other and to the controllers, and clients that log in to them."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from tests.support.cluster_processes import ClusterProcesses
from tests.support.running_node import DEADLINE_S
from tests.support.sasl_node import OAUTH_MODULE, PLAIN_MODULE
from tests.support.token_issuer import Issuer, TokenServer
from tidelog.model.token_login_config import LOGIN_CLASS

LOGIN = f'{PLAIN_MODULE} required username="node" password="n" user_node="n" user_alice="a";'
TOKEN_LOGIN = f'{OAUTH_MODULE} required unsecuredLoginStringClaim_sub="node";'
SECURED = {
    "listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:SASL_PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN,OAUTHBEARER",
    "sasl.mechanism.controller.protocol": "PLAIN",
    "sasl.mechanism.inter.broker.protocol": "OAUTHBEARER",
    # Every connection has to log in again a few times within the test.
    "connections.max.reauth.ms": "2000",
    "listener.name.plaintext.plain.sasl.jaas.config": LOGIN,
    "listener.name.plaintext.oauthbearer.sasl.jaas.config": TOKEN_LOGIN,
    "listener.name.controller.plain.sasl.jaas.config": LOGIN,
    "listener.name.controller.oauthbearer.sasl.jaas.config": TOKEN_LOGIN,
}


def client(cluster: ClusterProcesses) -> dict[str, Any]:
    return {
        "bootstrap.servers": cluster.bootstrap,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "alice",
        "sasl.password": "a",
        "log_level": 0,
    }


def make_topic(config: dict[str, Any], partitions: int, replicas: int) -> None:
    admin = AdminClient(config)
    admin.create_topics([NewTopic("events", partitions, replicas)])["events"].result(DEADLINE_S)


def write(config: dict[str, Any], count: int) -> None:
    failed: list[object] = []
    producer = Producer({**config, "acks": "all", "message.timeout.ms": int(DEADLINE_S * 1000)})
    for number in range(count):
        producer.produce("events", str(number).encode(), on_delivery=lambda error, _: failed.append(error))
        producer.poll(0)
    assert producer.flush(DEADLINE_S) == 0
    assert set(failed) == {None}


def read(config: dict[str, Any], group: str, count: int) -> int:
    consumer = Consumer({**config, "group.id": group, "auto.offset.reset": "earliest"})
    consumer.subscribe(["events"])
    deadline = time.monotonic() + DEADLINE_S
    seen = 0
    while seen < count:
        assert time.monotonic() < deadline
        message = consumer.poll(0.2)
        if message is not None and message.error() is None:
            seen += 1
    consumer.close()
    return seen


def test_a_cluster_that_logs_in_everywhere_replicates_and_survives_a_death(tmp_path: Path) -> None:
    cluster = ClusterProcesses(tmp_path, 3, settings=SECURED)
    with cluster.running():
        config = client(cluster)
        make_topic(config, 3, 3)
        write(config, 100)
        cluster.nodes[2].kill()
        write(config, 100)
        cluster.start(2)
        cluster.nodes[3].kill()
        write(config, 100)

        assert read(config, "after", 300) == 300
        assert "the login with" not in cluster.nodes[1].log


def test_nodes_log_in_to_each_other_with_tokens_of_an_endpoint_again_and_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("no_proxy", "*")
    issuer = Issuer(tmp_path)
    with TokenServer() as endpoint:
        # Of a life so short that each is replaced within the test.
        endpoint.answer = lambda: {"access_token": issuer.token("node", lifetime_s=6)}
        prefix = "listener.name.plaintext.oauthbearer."
        keys = {name.replace(".clients.", ".plaintext."): value for name, value in issuer.settings.items()}
        cluster = ClusterProcesses(
            tmp_path,
            3,
            settings={
                **SECURED,
                **keys,
                "org.apache.kafka.sasl.oauthbearer.allowed.urls": (
                    f"{keys['org.apache.kafka.sasl.oauthbearer.allowed.urls']},{endpoint.url}"
                ),
                f"{prefix}sasl.jaas.config": f"{OAUTH_MODULE} required;",
                f"{prefix}sasl.login.callback.handler.class": LOGIN_CLASS,
                f"{prefix}sasl.oauthbearer.token.endpoint.url": endpoint.url,
                f"{prefix}sasl.oauthbearer.client.credentials.client.id": "node",
                f"{prefix}sasl.oauthbearer.client.credentials.client.secret": "hush",
                f"{prefix}sasl.oauthbearer.scope": "kafka",
            },
        )
        with cluster.running():
            config = client(cluster)
            make_topic(config, 3, 3)
            write(config, 20)
            asked = len(endpoint.asked)
            deadline = time.monotonic() + DEADLINE_S
            # Each node has replaced its token at least once, and followers have got all there is.
            while len(endpoint.asked) < max(3, asked) + 3:
                assert time.monotonic() < deadline
                write(config, 20)

            assert read(config, "tokens", 20) >= 20
            for node in cluster.nodes.values():
                assert "the login with" not in node.log
                assert "hush" not in node.log
        assert endpoint.asked[0][1] == b"grant_type=client_credentials&scope=kafka"


def test_a_node_with_a_wrong_password_never_joins_and_says_why(tmp_path: Path) -> None:
    cluster = ClusterProcesses(tmp_path, 3, settings=SECURED)
    stranger = cluster.nodes[3]
    wrong = f'{PLAIN_MODULE} required username="node" password="x" user_node="n" user_alice="a";'
    stranger.properties["listener.name.controller.plain.sasl.jaas.config"] = wrong
    with cluster.running(1, 2):
        stranger.start()
        deadline = time.monotonic() + DEADLINE_S
        told = "the login with PLAIN failed: Authentication failed: Invalid username or password"
        while told not in stranger.log:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        stranger.kill()

        make_topic(client(cluster), 1, 2)
        assert 'password="x"' not in stranger.log
