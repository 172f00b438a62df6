from __future__ import annotations

import pytest

from tidelog.cli.admin.acl_plan import AclQuestion, planned_acls, planned_filters, planned_removals
from tidelog.cli.admin_session import QuestionError
from tidelog.client.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    PatternType,
    PermissionType,
    ResourceType,
)

ALICE = "User:alice"
TOPIC, GROUP, CLUSTER = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER


def test_without_an_operation_everything_is_meant_from_everywhere() -> None:
    assert planned_acls(AclQuestion(topics=["orders"], allowed=[ALICE])) == [
        AclBinding(TOPIC, "orders", ALICE, AclOperation.ALL)
    ]


def test_each_operation_is_given_to_each_principal_from_each_host() -> None:
    question = AclQuestion(
        topics=["ord"],
        pattern=PatternType.PREFIXED,
        allowed=[ALICE],
        denied=["User:bob"],
        allowed_hosts=["10.0.0.1", "10.0.0.2"],
        operations=["read", "DescribeConfigs"],
    )
    made = planned_acls(question)
    assert [(each.principal, each.host, each.permission) for each in made[:3]] == [
        (ALICE, "10.0.0.1", PermissionType.ALLOW),
        (ALICE, "10.0.0.2", PermissionType.ALLOW),
        ("User:bob", "*", PermissionType.DENY),
    ]
    assert [each.operation for each in made[::3]] == [AclOperation.READ, AclOperation.DESCRIBE_CONFIGS]
    assert {each.pattern_type for each in made} == {PatternType.PREFIXED}


def test_a_producer_and_a_consumer_get_what_they_need() -> None:
    question = AclQuestion(
        topics=["orders"],
        groups=["readers"],
        transactional_ids=["payments"],
        allowed=[ALICE],
        is_producer=True,
        is_consumer=True,
        is_idempotent=True,
    )
    assert {(each.resource_type.name, each.operation.name) for each in planned_acls(question)} == {
        ("TOPIC", "WRITE"),
        ("TOPIC", "DESCRIBE"),
        ("TOPIC", "CREATE"),
        ("TOPIC", "READ"),
        ("GROUP", "READ"),
        ("TRANSACTIONAL_ID", "WRITE"),
        ("TRANSACTIONAL_ID", "DESCRIBE"),
        ("CLUSTER", "IDEMPOTENT_WRITE"),
    }


def test_a_list_is_of_all_or_of_what_is_named() -> None:
    assert planned_filters(AclQuestion()) == [AclBindingFilter()]
    question = AclQuestion(groups=["readers"], is_cluster=True, principals=[ALICE], pattern=PatternType.MATCH)
    assert planned_filters(question) == [
        AclBindingFilter(GROUP, "readers", ALICE, pattern_type=PatternType.MATCH),
        AclBindingFilter(CLUSTER, "kafka-cluster", ALICE),
    ]


def test_a_removal_without_operations_is_of_all_that_fits_the_rest() -> None:
    question = AclQuestion(topics=["orders"], denied=[ALICE], denied_hosts=["10.0.0.1"])
    assert planned_removals(question) == [
        AclBindingFilter(
            TOPIC,
            "orders",
            ALICE,
            permission=PermissionType.DENY,
            host="10.0.0.1",
            pattern_type=PatternType.LITERAL,
        )
    ]
    assert planned_removals(AclQuestion(allowed=[ALICE])) == [
        AclBindingFilter(principal=ALICE, permission=PermissionType.ALLOW)
    ]


def test_a_removal_with_operations_is_of_exactly_those() -> None:
    (removal,) = planned_removals(AclQuestion(topics=["orders"], allowed=[ALICE], operations=["read"]))
    assert removal == AclBindingFilter(
        TOPIC, "orders", ALICE, AclOperation.READ, PermissionType.ALLOW, "*", PatternType.LITERAL
    )


@pytest.mark.parametrize(
    ("question", "sentence"),
    [
        (AclQuestion(topics=["t"]), "nobody is named"),
        (AclQuestion(allowed=[ALICE]), "no resource is named"),
        (AclQuestion(topics=["t"], allowed=["alice"]), "alice is no principal"),
        (AclQuestion(topics=["t"], allowed=[ALICE], pattern=PatternType.MATCH), "literal name or for a prefix"),
        (AclQuestion(topics=["t"], allowed=[ALICE], operations=["fly"]), "fly is no operation"),
        (AclQuestion(topics=["t"], allowed=[ALICE], operations=["any"]), "any is no operation"),
        (AclQuestion(groups=["g"], allowed=[ALICE], operations=["write"]), "write is nothing that is done to a group"),
        (AclQuestion(topics=["t"], allowed=[ALICE], denied_hosts=["h"]), "--deny-host needs --deny-principal"),
        (AclQuestion(groups=["g"], allowed=[ALICE], is_producer=True), "need --topic"),
        (AclQuestion(topics=["t"], allowed=[ALICE], is_consumer=True), "--consumer needs --group"),
        (AclQuestion(topics=["t"], allowed=[ALICE], is_producer=True, operations=["read"]), "leave --operation out"),
        (AclQuestion(topics=["t"], denied=[ALICE], is_producer=True), "leave --deny-principal out"),
    ],
)
def test_what_makes_no_sense_is_said_in_a_sentence(question: AclQuestion, sentence: str) -> None:
    with pytest.raises(QuestionError, match=sentence):
        planned_acls(question)


def test_nothing_is_removed_unless_something_is_named() -> None:
    with pytest.raises(QuestionError, match="nothing is named"):
        planned_removals(AclQuestion())
