"""The recorded tables of security are still what Apache Kafka's own classes answer."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.apache_kafka import ApacheKafka
from tests.support.java_process import JavaProcess
from tests.support.security_tables import recorder, tables

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
