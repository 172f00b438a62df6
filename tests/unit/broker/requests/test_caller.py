"""What a caller may do, and the lines of the audit log, which are Kafka's."""

from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import cast

import pytest

from tests.support.acls import DENY, acl
from tidelog.broker.requests.caller import AllowAll, Authorizer, Caller
from tidelog.model.acl import AclOperation, PatternType, ResourceType
from tidelog.model.principal import Principal
from tidelog.net.connection import Connection
from tidelog.security.audit import AUDIT_LOGGER, TRACE
from tidelog.security.authorizer import StandardAuthorizer
from tidelog.wire.apis import ApiKey

TOPIC, CLUSTER = ResourceType.TOPIC, ResourceType.CLUSTER
READ, WRITE = AclOperation.READ, AclOperation.WRITE


def authorizer() -> StandardAuthorizer:
    made = StandardAuthorizer(frozenset({"User:root"}))
    made.follow(
        {
            b"1": acl("User:alice", READ, "ord", pattern=PatternType.PREFIXED),
            b"2": acl("User:*", WRITE, "*", host="10.0.0.1", permission=DENY),
        }
    )
    made.is_ready = True
    return made


def caller_of(decides: Authorizer, user: str = "alice", key: ApiKey = ApiKey.PRODUCE) -> Caller:
    connection = SimpleNamespace(principal=Principal("User", user), host="10.0.0.1", listener_name="PLAINTEXT")
    return Caller(cast("Connection", connection), "test", key, 9, decides)


def lines_at(level: int, caplog: pytest.LogCaptureFixture) -> list[tuple[int, str]]:
    return [
        (record.levelno, record.getMessage())
        for record in caplog.records
        if record.name == AUDIT_LOGGER and record.levelno >= level
    ]


def test_a_denial_is_told_at_info_and_a_permission_at_debug(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, AUDIT_LOGGER)
    caller = caller_of(authorizer())

    assert caller.may(READ, TOPIC, "orders", count=2)
    assert not caller.may(WRITE, TOPIC, "orders", count=3)
    assert not caller.may(AclOperation.ALTER, CLUSTER, "kafka-cluster")
    assert caller_of(authorizer(), "root", ApiKey.DESCRIBE_TRANSACTIONS).may(
        AclOperation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, "payments"
    )

    assert lines_at(TRACE, caplog) == [
        (
            logging.DEBUG,
            (
                "Principal = User:alice is Allowed operation = READ from host = 10.0.0.1 on resource = Topic:LITERAL:orders "
                "for request = Produce with resourceRefCount = 2 based on rule MatchingAcl(acl=StandardAcl[resourceType=TOPIC, "
                "resourceName=ord, patternType=PREFIXED, principal=User:alice, host=*, operation=READ, permissionType=ALLOW])"
            ),
        ),
        (
            logging.INFO,
            (
                "Principal = User:alice is Denied operation = WRITE from host = 10.0.0.1 on resource = Topic:LITERAL:orders "
                "for request = Produce with resourceRefCount = 3 based on rule MatchingAcl(acl=StandardAcl[resourceType=TOPIC, "
                "resourceName=*, patternType=LITERAL, principal=User:*, host=10.0.0.1, operation=WRITE, permissionType=DENY])"
            ),
        ),
        (
            logging.INFO,
            (
                "Principal = User:alice is Denied operation = ALTER from host = 10.0.0.1 on resource = "
                "Cluster:LITERAL:kafka-cluster for request = Produce with resourceRefCount = 1 based on rule DefaultDeny"
            ),
        ),
        (
            logging.DEBUG,
            (
                "Principal = User:root is Allowed operation = DESCRIBE from host = 10.0.0.1 on resource = "
                "TransactionalId:LITERAL:payments for request = DescribeTransactions with resourceRefCount = 1 "
                "based on rule SuperUser"
            ),
        ),
    ]


def test_what_is_only_looked_up_is_told_at_trace(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(TRACE, AUDIT_LOGGER)
    caller = caller_of(authorizer())

    caller.may(WRITE, TOPIC, "orders", logs_denied=False)
    caller.authorized_operations(TOPIC, "orders")
    caller.might(WRITE, TOPIC, "orders")

    assert {level for level, _ in lines_at(TRACE, caplog)} == {TRACE}
    assert len(lines_at(TRACE, caplog)) == 1 + 8


def test_a_bit_field_tells_what_is_allowed() -> None:
    assert caller_of(authorizer()).authorized_operations(TOPIC, "orders") == 1 << READ | 1 << AclOperation.DESCRIBE
    assert caller_of(AllowAll()).authorized_operations(TOPIC, "orders") == 0b1101_1111_1000


def test_every_question_is_counted_once() -> None:
    decides = authorizer()
    caller = caller_of(decides)
    caller.may(READ, TOPIC, "orders")
    caller.may(WRITE, TOPIC, "orders")
    caller.might(WRITE, TOPIC, "orders")
    assert not caller.may_by_resource_type(WRITE, TOPIC)
    assert (decides.allowed_count, decides.denied_count) == (1, 2)


def test_without_an_authoriser_nothing_is_asked(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(TRACE, AUDIT_LOGGER)
    caller = caller_of(AllowAll())
    assert caller.may(WRITE, TOPIC, "orders")
    assert caller.might(WRITE, TOPIC, "orders")
    assert caller.may_by_resource_type(WRITE, TOPIC)
    assert lines_at(TRACE, caplog) == []


def test_what_was_decided_for_the_last_question_holds_only_for_that_one() -> None:
    decides = authorizer()
    caller = caller_of(decides)
    assert caller.might(READ, TOPIC, "orders")

    assert not caller.might(READ, TOPIC, "other")
    assert not caller.might(WRITE, TOPIC, "orders")
    assert not caller.might(READ, ResourceType.GROUP, "orders")
    assert caller.might(READ, TOPIC, "orders")
    # Somebody else authenticates, and then the rules change.
    caller.connection.principal = Principal("User", "bob")
    assert not caller.might(READ, TOPIC, "orders")
    decides.follow({b"3": acl("User:bob", READ, "orders")})
    assert caller.might(READ, TOPIC, "orders")
    decides.follow({})
    assert not caller.may(READ, TOPIC, "orders")


def test_a_level_that_is_changed_while_requests_come_counts_at_once(caplog: pytest.LogCaptureFixture) -> None:
    caller = caller_of(authorizer())
    with caplog.at_level(logging.INFO, AUDIT_LOGGER):
        assert caller.may(READ, TOPIC, "orders")
        assert not caller.is_audited(True)
        assert caller.is_audited(False)
    with caplog.at_level(logging.DEBUG, AUDIT_LOGGER):
        assert caller.may(READ, TOPIC, "orders")
        assert caller.is_audited(True)
    with caplog.at_level(logging.ERROR, AUDIT_LOGGER):
        assert not caller.is_audited(False)

    assert len(lines_at(TRACE, caplog)) == 1
