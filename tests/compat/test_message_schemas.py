"""Our declarations say what the schemas in Apache Kafka's jars say, field by field."""

from __future__ import annotations

import pytest

from tests.support.apache_kafka import ApacheKafka
from tools.read_schemas import check, read_jars

pytestmark = pytest.mark.compat


def test_declarations_equal_kafkas_schemas(kafka: ApacheKafka) -> None:
    assert check(kafka.home) == []


def test_the_jars_hold_all_schemas(kafka: ApacheKafka) -> None:
    assert len(read_jars(kafka.home)) == 271
