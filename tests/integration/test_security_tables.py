"""What Apache Kafka answers about security, a node of ours answers: the recorded conversations and checks, over real sockets."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.security_tables import compare, tables
from tests.support.security_tables.access_talk import answers
from tests.support.security_tables.sasl_conversations import conversations
from tests.support.security_tables.secured_node import AUDIT, Addresses, audit_note, secured_tidelog


class OurAudit(logging.Handler):
    """The lines of the audit log, as `KafkaAudit` gives those of Apache Kafka."""

    def __init__(self) -> None:
        super().__init__()
        self._lines: list[tuple[str, str]] = []

    def emit(self, record: logging.LogRecord) -> None:
        self._lines.append((record.levelname, record.getMessage()))

    def __call__(self, user: str) -> list[str]:
        lines, self._lines = self._lines, []
        wanted = f"Principal = User:{user} is "
        return sorted(audit_note(level, text) for level, text in lines if text.startswith(wanted))


@pytest.fixture
def audit() -> Iterator[OurAudit]:
    audit, logger = OurAudit(), logging.getLogger(AUDIT)
    before = logger.level
    logger.addHandler(audit)
    logger.setLevel(logging.DEBUG)
    yield audit
    logger.setLevel(before)
    logger.removeHandler(audit)


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Addresses]:
    with secured_tidelog(tmp_path) as (addresses, _):
        yield addresses


def test_every_conversation_is_held_as_with_kafka(node: Addresses) -> None:
    assert dict(compare.sasl(conversations(node), tables.read("sasl"))) == {}


def test_every_request_is_checked_as_by_kafka(node: Addresses, audit: OurAudit) -> None:
    assert dict(compare.access(answers(node, audit), tables.read("access"))) == {}
