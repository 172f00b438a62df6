"""Our authoriser and the small languages of security beside Apache Kafka's own classes, as they once answered."""

from __future__ import annotations

import pytest

from tests.support.security_tables import compare, tables


@pytest.mark.parametrize("table", ["authorizer", "subjects", "principal_rules", "jaas", "kerberos", "addresses"])
def test_the_answers_are_those_of_kafkas_classes(table: str) -> None:
    assert list(getattr(compare, table)(tables.read(table))) == []
