"""The recorded tables of security are still what Apache Kafka answers, its classes and its broker."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.apache_kafka import ApacheKafka, Node
from tests.support.java_process import JavaProcess
from tests.support.security_tables import recorder, tables
from tests.support.security_tables.access_talk import answers
from tests.support.security_tables.sasl_conversations import conversations
from tests.support.security_tables.secured_node import Addresses, KafkaAudit, secured_kafka

pytestmark = pytest.mark.compat


@pytest.fixture(scope="module")
def authorizer(kafka: ApacheKafka) -> Iterator[JavaProcess]:
    with recorder.authorizer_oracle(kafka) as oracle:
        yield oracle


@pytest.fixture(scope="module")
def texts(kafka: ApacheKafka) -> Iterator[JavaProcess]:
    with recorder.text_oracle(kafka) as oracle:
        yield oracle


def test_the_recorded_decisions_are_those_of_kafkas_authoriser(authorizer: JavaProcess) -> None:
    assert list(recorder.authorizer(authorizer)) == tables.read("authorizer")


@pytest.mark.parametrize("table", ["subjects", "principal_rules", "jaas", "kerberos", "addresses"])
def test_the_recorded_texts_are_read_so_by_kafkas_classes(texts: JavaProcess, table: str) -> None:
    assert list(getattr(recorder, table)(texts)) == tables.read(table)


@pytest.fixture(scope="module")
def broker(kafka: ApacheKafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Addresses, Node]]:
    with secured_kafka(kafka, tmp_path_factory.mktemp("kafka")) as running:
        yield running


def test_the_recorded_conversations_are_those_of_a_broker(broker: tuple[Addresses, Node]) -> None:
    addresses, _ = broker

    assert [list(each) for each in conversations(addresses)] == tables.read("sasl")


def test_the_recorded_checks_are_those_of_a_broker(broker: tuple[Addresses, Node]) -> None:
    addresses, node = broker

    assert list(answers(addresses, KafkaAudit(node))) == tables.read("access")
