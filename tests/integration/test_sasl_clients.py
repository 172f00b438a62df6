"""librdkafka, kafka-python and aiokafka log in to a SASL listener by every mechanism that they have."""

from __future__ import annotations

import asyncio
import time
import warnings
from collections.abc import Iterator
from typing import Any

import aiokafka
import aiokafka.abc
import aiokafka.errors
import pytest
from confluent_kafka import Consumer, KafkaError, Producer
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
)

from tests.support.running_node import DEADLINE_S, RunningNode
from tests.support.sasl_node import (
    MECHANISMS,
    PASSWORD,
    PLAIN_MODULE,
    USER,
    add_scram_user,
    counted,
    remove_scram_user,
    sasl_bootstrap,
    sasl_settings,
    token_of,
)

with warnings.catch_warnings():
    # It reads its schemas with a function of importlib that Python 3.11 and 3.12 call deprecated.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka import KafkaProducer
    from kafka.net.sasl.oauth import AbstractTokenProvider

pytestmark = pytest.mark.filterwarnings("ignore:read_text is deprecated:DeprecationWarning")

TOPIC = "events"


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningNode]:
    with RunningNode(tmp_path_factory.mktemp("node"), settings=sasl_settings()) as running:
        add_scram_user(running)
        admin = AdminClient({"bootstrap.servers": running.bootstrap})
        admin.create_topics([NewTopic(TOPIC, 1, 1)])[TOPIC].result(DEADLINE_S)
        yield running


def confluent_config(node: RunningNode, mechanism: str, password: str = PASSWORD) -> dict[str, Any]:
    config: dict[str, Any] = {
        "bootstrap.servers": sasl_bootstrap(node),
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "log_level": 0,
    }
    if mechanism == "OAUTHBEARER":
        config["oauth_cb"] = lambda _config: (token_of(lifetime_s=3600), time.time() + 3600)
    else:
        config |= {"sasl.username": USER, "sasl.password": password}
    return config


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_librdkafka_writes_and_reads(node: RunningNode, mechanism: str) -> None:
    config = confluent_config(node, mechanism)
    producer = Producer(config)
    failed: list[object] = []
    said = f"by {mechanism}".encode()
    producer.produce(TOPIC, said, on_delivery=lambda error, _message: failed.append(error))
    assert producer.flush(DEADLINE_S) == 0
    assert failed == [None]

    consumer = Consumer({**config, "group.id": f"g-{mechanism}", "auto.offset.reset": "earliest"})
    consumer.subscribe([TOPIC])
    deadline = time.monotonic() + DEADLINE_S
    values = set()
    while said not in values:
        assert time.monotonic() < deadline
        message = consumer.poll(0.2)
        if message is not None:
            assert message.error() is None
            values.add(message.value())
    consumer.close()

    assert counted(node, "successful_authentication", mechanism) > 0


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_librdkafka_is_told_of_a_wrong_password(node: RunningNode, mechanism: str) -> None:
    errors: list[KafkaError] = []
    before = counted(node, "failed_authentication", mechanism)
    config = {**confluent_config(node, mechanism, "wrong"), "error_cb": errors.append}
    producer = Producer(config)
    deadline = time.monotonic() + DEADLINE_S
    while not any(error.code() == KafkaError._AUTHENTICATION for error in errors):
        assert time.monotonic() < deadline
        producer.poll(0.1)

    assert counted(node, "failed_authentication", mechanism) > before
    told = " ".join(error.str() for error in errors)
    assert "Authentication failed" in told


class Token(AbstractTokenProvider):  # type: ignore[misc]
    def token(self) -> str:
        return token_of()


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_kafka_python_writes(node: RunningNode, mechanism: str) -> None:
    producer = KafkaProducer(
        bootstrap_servers=sasl_bootstrap(node),
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism=mechanism,
        sasl_plain_username=USER,
        sasl_plain_password=PASSWORD,
        sasl_oauth_token_provider=Token() if mechanism == "OAUTHBEARER" else None,
    )

    sent = producer.send(TOPIC, b"by kafka-python").get(timeout=DEADLINE_S)
    producer.close()

    assert sent.offset >= 0


class AsyncToken(aiokafka.abc.AbstractTokenProvider):  # type: ignore[misc]
    async def token(self) -> str:
        return token_of()


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_aiokafka_writes(node: RunningNode, mechanism: str) -> None:
    async def write() -> int:
        producer = aiokafka.AIOKafkaProducer(
            bootstrap_servers=sasl_bootstrap(node),
            security_protocol="SASL_PLAINTEXT",
            sasl_mechanism=mechanism,
            sasl_plain_username=USER,
            sasl_plain_password=PASSWORD,
            sasl_oauth_token_provider=AsyncToken() if mechanism == "OAUTHBEARER" else None,
        )
        await producer.start()
        try:
            return int((await producer.send_and_wait(TOPIC, b"by aiokafka")).offset)
        finally:
            await producer.stop()

    assert asyncio.run(asyncio.wait_for(write(), DEADLINE_S)) >= 0


def test_a_user_of_plain_can_be_added_while_the_node_runs(node: RunningNode) -> None:
    admin = AdminClient({"bootstrap.servers": node.bootstrap})
    name = "listener.name.clients.plain.sasl.jaas.config"
    login = f'{PLAIN_MODULE} required user_{USER}="{PASSWORD}" user_dora="d";'
    entry = ConfigEntry(name, login, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ConfigResource.Type.BROKER, "1", incremental_configs=[entry])
    for done in admin.incremental_alter_configs([resource]).values():
        done.result(DEADLINE_S)

    config = {**confluent_config(node, "PLAIN", "d"), "sasl.username": "dora"}
    assert TOPIC in AdminClient(config).list_topics(timeout=DEADLINE_S).topics
    (described,) = admin.describe_configs([ConfigResource(ConfigResource.Type.BROKER, "1")]).values()
    assert described.result(DEADLINE_S)[name].value is None


@pytest.mark.parametrize(
    ("user", "password", "told"),
    [
        (USER, "wrong", "due to invalid credentials with SASL mechanism SCRAM-SHA-256"),
        ("nobody", PASSWORD, "due to invalid credentials with SASL mechanism SCRAM-SHA-256"),
        ("carol", "c", "due to invalid credentials with SASL mechanism SCRAM-SHA-256"),
    ],
)
def test_whoever_is_not_let_in_does_not_learn_whether_the_user_exists(
    node: RunningNode, user: str, password: str, told: str, caplog: pytest.LogCaptureFixture
) -> None:
    add_scram_user(node, "carol", "c")
    remove_scram_user(node, "carol")

    async def start() -> None:
        producer = aiokafka.AIOKafkaProducer(
            bootstrap_servers=sasl_bootstrap(node),
            security_protocol="SASL_PLAINTEXT",
            sasl_mechanism="SCRAM-SHA-256",
            sasl_plain_username=user,
            sasl_plain_password=password,
            request_timeout_ms=2000,
        )
        try:
            await producer.start()
        finally:
            await producer.stop()

    with pytest.raises(aiokafka.errors.KafkaError):
        asyncio.run(asyncio.wait_for(start(), DEADLINE_S))

    assert told in caplog.text
