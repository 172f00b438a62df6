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

# Conversations that end otherwise than with Kafka, each with its reason. What is mended is taken out here.
_NO_OWN_RESPONSE = "Kafka answers ILLEGAL_SASL_STATE in that API's own response before it closes"
OTHER_CONVERSATIONS = {
    "after a handshake: Metadata v12": _NO_OWN_RESPONSE,
    "after a handshake: FindCoordinator v4": _NO_OWN_RESPONSE,
    "within SCRAM: Metadata v12": _NO_OWN_RESPONSE,
    "within SCRAM: FindCoordinator v4": _NO_OWN_RESPONSE,
    "again: Metadata instead of a token": _NO_OWN_RESPONSE,
}
# Requests that are answered or audited otherwise than by Kafka, each with its reason.
_TWICE = "an allowed write is audited twice"
OTHER_CHECKS = {
    "audit of produce as bob": _TWICE,
    "audit of produce by id as bob": _TWICE,
    "audit of produce transactional as bob": _TWICE,
    "audit of produce transactional without id as bob": "Kafka refuses before it looks at the topics",
}


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
    different = dict(compare.sasl(conversations(node), tables.read("sasl")))

    assert set(different) == set(OTHER_CONVERSATIONS), different


def test_every_request_is_checked_as_by_kafka(node: Addresses, audit: OurAudit) -> None:
    different = dict(compare.access(answers(node, audit), tables.read("access")))

    assert set(different) == set(OTHER_CHECKS), different
