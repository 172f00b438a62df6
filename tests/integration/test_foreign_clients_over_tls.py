"""librdkafka, kafka-python and aiokafka over SASL_SSL, by every mechanism that they have, and with a wrong password."""

from __future__ import annotations

import asyncio
import ssl
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator
from typing import Any

import aiokafka
import aiokafka.abc
import pytest
from confluent_kafka import Consumer, KafkaError, Producer

from tests.support.running_node import DEADLINE_S
from tests.support.sasl_conversations import WRONG, authenticate, handshake, refused
from tests.support.sasl_node import MECHANISMS, PASSWORD, USER, token_of
from tests.support.sasl_peer import TlsPeer
from tests.support.secure_node import SASL_SSL, SecureNode
from tidelog import Admin

with warnings.catch_warnings():
    # It reads its schemas with a function of importlib that Python 3.11 and 3.12 call deprecated.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka import KafkaProducer
    from kafka.net.sasl.oauth import AbstractTokenProvider

pytestmark = pytest.mark.filterwarnings("ignore:read_text is deprecated:DeprecationWarning")

TOPIC = "events"
PASSWORDS = [each for each in MECHANISMS if each != "OAUTHBEARER"]

# In processes of their own, since clients that are refused leave sockets to the garbage collector.
KAFKA_PYTHON_REFUSED = """
import logging, os, sys, warnings
warnings.simplefilter("ignore")
import kafka

class UntilItIsClosed(logging.Handler):
    def emit(self, record):
        print(record.getMessage(), flush=True)
        if "Connection lost" in record.getMessage():
            os._exit(0)

logging.getLogger().addHandler(UntilItIsClosed())
bootstrap, truststore, mechanism, user = sys.argv[1:]
kafka.KafkaProducer(
    bootstrap_servers=bootstrap,
    bootstrap_timeout_ms=60000,
    security_protocol="SASL_SSL",
    ssl_cafile=truststore,
    sasl_mechanism=mechanism,
    sasl_plain_username=user,
    sasl_plain_password="wrong",
)
"""
AIOKAFKA_REFUSED = """
import asyncio, logging, ssl, sys, warnings
warnings.simplefilter("ignore")
logging.basicConfig(stream=sys.stdout)
import aiokafka
bootstrap, truststore, mechanism, user = sys.argv[1:]

async def start():
    producer = aiokafka.AIOKafkaProducer(
        bootstrap_servers=bootstrap,
        security_protocol="SASL_SSL",
        ssl_context=ssl.create_default_context(cafile=truststore),
        sasl_mechanism=mechanism,
        sasl_plain_username=user,
        sasl_plain_password="wrong",
    )
    try:
        await producer.start()
    finally:
        await producer.stop()

try:
    asyncio.run(start())
except aiokafka.errors.KafkaError as error:
    print(error)
"""


def said_by(program: str, node: SecureNode, mechanism: str) -> str:
    """What a refused client logs and raises."""
    arguments = [node.bootstrap(SASL_SSL), str(node.truststore), mechanism, USER]
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments], capture_output=True, text=True, timeout=DEADLINE_S, check=True
    )
    return done.stdout


def told(mechanism: str) -> str:
    """What a client with a wrong password is answered."""
    if mechanism == "PLAIN":
        return "Authentication failed: Invalid username or password"
    return f"Authentication failed during authentication due to invalid credentials with SASL mechanism {mechanism}"


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureNode]:
    with SecureNode(tmp_path_factory.mktemp("node")) as running:
        with Admin(bootstrap_servers=running.bootstrap()) as admin:
            admin.create_topic(TOPIC)
        yield running


def confluent_config(node: SecureNode, mechanism: str, password: str = PASSWORD) -> dict[str, Any]:
    config: dict[str, Any] = {
        "bootstrap.servers": node.bootstrap(SASL_SSL),
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": str(node.truststore),
        "sasl.mechanism": mechanism,
        "log_level": 0,
    }
    if mechanism == "OAUTHBEARER":
        config["oauth_cb"] = lambda _config: (token_of(lifetime_s=3600), time.time() + 3600)
    else:
        config |= {"sasl.username": USER, "sasl.password": password}
    return config


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_librdkafka_writes_and_reads(node: SecureNode, mechanism: str) -> None:
    config = confluent_config(node, mechanism)
    said = f"by {mechanism}".encode()
    failed: list[object] = []
    producer = Producer(config)
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


@pytest.mark.parametrize("mechanism", PASSWORDS)
def test_librdkafka_is_told_of_a_wrong_password(node: SecureNode, mechanism: str) -> None:
    errors: list[KafkaError] = []
    producer = Producer({**confluent_config(node, mechanism, "wrong"), "error_cb": errors.append})
    deadline = time.monotonic() + DEADLINE_S
    while not any(error.code() == KafkaError._AUTHENTICATION for error in errors):
        assert time.monotonic() < deadline
        producer.poll(0.1)

    assert "Authentication failed" in " ".join(error.str() for error in errors)


class Token(AbstractTokenProvider):  # type: ignore[misc]
    def token(self) -> str:
        return token_of()


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_kafka_python_writes(node: SecureNode, mechanism: str) -> None:
    producer = KafkaProducer(
        bootstrap_servers=node.bootstrap(SASL_SSL),
        security_protocol="SASL_SSL",
        ssl_cafile=str(node.truststore),
        sasl_mechanism=mechanism,
        sasl_plain_username=USER,
        sasl_plain_password=PASSWORD,
        sasl_oauth_token_provider=Token() if mechanism == "OAUTHBEARER" else None,
    )

    sent = producer.send(TOPIC, b"by kafka-python").get(timeout=DEADLINE_S)
    producer.close()

    assert sent.offset >= 0


@pytest.mark.parametrize("mechanism", PASSWORDS)
def test_kafka_python_is_told_of_a_wrong_password(node: SecureNode, mechanism: str) -> None:
    said = said_by(KAFKA_PYTHON_REFUSED, node, mechanism)

    # It drops what it reads in one go with the end of a connection, so the answer has to come before that.
    assert f"SaslAuthenticationFailedError: {told(mechanism)}" in said
    assert "socket disconnected" not in said


def test_the_answer_to_a_wrong_password_is_whole_before_the_end_of_tls(node: SecureNode) -> None:
    with TlsPeer(node.bootstrap(SASL_SSL), node.truststore) as peer:
        peer.send(handshake("PLAIN"))
        assert peer.answer() is not None
        begun = time.monotonic()
        peer.send(authenticate(WRONG))

        assert peer.answer() == refused(told("PLAIN"))
        assert peer.answer() is None
        # The default of connection.failed.authentication.delay.ms: Kafka, too, answers when it is over.
        assert time.monotonic() - begun >= 0.1


class AsyncToken(aiokafka.abc.AbstractTokenProvider):  # type: ignore[misc]
    async def token(self) -> str:
        return token_of()


async def written_by_aiokafka(node: SecureNode, mechanism: str) -> int:
    producer = aiokafka.AIOKafkaProducer(
        bootstrap_servers=node.bootstrap(SASL_SSL),
        security_protocol="SASL_SSL",
        ssl_context=ssl.create_default_context(cafile=str(node.truststore)),
        sasl_mechanism=mechanism,
        sasl_plain_username=USER,
        sasl_plain_password=PASSWORD,
        sasl_oauth_token_provider=AsyncToken() if mechanism == "OAUTHBEARER" else None,
    )
    try:
        await producer.start()
        return int((await producer.send_and_wait(TOPIC, b"by aiokafka")).offset)
    finally:
        await producer.stop()


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_aiokafka_writes(node: SecureNode, mechanism: str) -> None:
    assert asyncio.run(asyncio.wait_for(written_by_aiokafka(node, mechanism), DEADLINE_S)) >= 0


@pytest.mark.parametrize("mechanism", PASSWORDS)
def test_aiokafka_is_told_of_a_wrong_password(node: SecureNode, mechanism: str) -> None:
    said = said_by(AIOKAFKA_REFUSED, node, mechanism)

    assert told(mechanism) in said
    assert "Unable to bootstrap" in said
