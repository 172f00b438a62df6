"""Fixtures that need Apache Kafka: installed once, one node at a time."""

from __future__ import annotations

import pytest

from tests.support.apache_kafka import ApacheKafka, MissingProgramError


@pytest.fixture(scope="session")
def kafka() -> ApacheKafka:
    """The installation. Without the programs that it needs nothing here can run: one line says which to install."""
    try:
        return ApacheKafka.installed()
    except MissingProgramError as error:
        pytest.exit(str(error), returncode=1)
