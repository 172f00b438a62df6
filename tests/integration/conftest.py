"""Fixtures that several modules of this directory share."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.kafka_fixtures import NAMES, KafkaFixture


@pytest.fixture(scope="session", params=NAMES)
def kafka_fixture(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> KafkaFixture:
    """Each directory that Apache Kafka wrote."""
    return KafkaFixture.unpack(str(request.param), tmp_path_factory.mktemp("kafka"))


@pytest.fixture(scope="session")
def clean_kafka(tmp_path_factory: pytest.TempPathFactory) -> KafkaFixture:
    """The one that was stopped cleanly."""
    return KafkaFixture.unpack("clean", tmp_path_factory.mktemp("kafka"))


@pytest.fixture(scope="session")
def killed_kafka(tmp_path_factory: pytest.TempPathFactory) -> KafkaFixture:
    """The one that was killed."""
    return KafkaFixture.unpack("killed", tmp_path_factory.mktemp("kafka"))


@pytest.fixture
def killed_copy(killed_kafka: KafkaFixture, tmp_path: Path) -> Path:
    return killed_kafka.copy(tmp_path)
