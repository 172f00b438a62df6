"""Fixtures that need Apache Kafka: installed once, one node at a time."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.apache_kafka import ApacheKafka, MissingProgramError
from tests.support.group_talk.sides import Sides, both_sides


@pytest.fixture(scope="session")
def kafka() -> ApacheKafka:
    """The installation. Without the programs that it needs nothing here can run: one line says which to install."""
    try:
        return ApacheKafka.installed()
    except MissingProgramError as error:
        pytest.exit(str(error), returncode=1)


@pytest.fixture(scope="session")
def group_sides(kafka: ApacheKafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sides]:
    """Apache Kafka and Tidelog for conversations about groups, where every change of a group is assigned at once."""
    settings = {"group.consumer.assignment.interval.ms": "0"}
    with both_sides(kafka, tmp_path_factory.mktemp("group-sides"), settings) as sides:
        yield sides
