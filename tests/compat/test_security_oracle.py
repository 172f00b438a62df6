"""Our authoriser and the small languages of security beside Apache Kafka's own classes: many more questions than are recorded."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.apache_kafka import ApacheKafka
from tests.support.java_process import JavaProcess
from tests.support.security_tables import compare, recorder
from tests.support.security_tables.authorizer_cases import QUESTIONS

pytestmark = pytest.mark.compat

DECISIONS = 100_000
TEXTS = 6_000


@pytest.fixture(scope="module")
def texts(kafka: ApacheKafka) -> Iterator[JavaProcess]:
    with recorder.text_oracle(kafka) as oracle:
        yield oracle


def test_a_hundred_thousand_decisions(kafka: ApacheKafka) -> None:
    with recorder.authorizer_oracle(kafka) as oracle:
        rows = recorder.authorizer(oracle, range(1000, 1000 + DECISIONS // QUESTIONS))

        assert list(compare.authorizer(rows)) == []


def test_random_texts_of_jaas(texts: JavaProcess) -> None:
    assert list(compare.jaas(recorder.jaas(texts, TEXTS, seed=11))) == []
