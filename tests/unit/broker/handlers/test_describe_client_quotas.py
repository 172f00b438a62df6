"""DescribeClientQuotas: what a filter matches, and which are none."""

from __future__ import annotations

import pytest

from tests.unit.broker.admin_node import AdminNode, Denies, ask
from tidelog.broker.handlers.describe_client_quotas import ANY, DEFAULT, EXACT
from tidelog.model.acl import AclOperation, ResourceType
from tidelog.model.errors import ErrorCode
from tidelog.wire.messages.client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)
from tidelog.wire.messages.internal.cluster_security import ClientQuotaRecord, EntityData

NOT_TOGETHER = (
    "Invalid entity filter component combination. IP filter component should not be used with user or clientId filter "
    "component."
)
Component = tuple[str, int, str | None]


def quota(value: float, **entity: str | None) -> ClientQuotaRecord:
    parts = [EntityData(entity_type=kind.replace("_", "-"), entity_name=name) for kind, name in entity.items()]
    return ClientQuotaRecord(entity=parts, key="producer_byte_rate", value=value, remove=False)


NODE = AdminNode(
    quota(1, user="u"),
    quota(2, user=None),
    quota(3, user="u", client_id="c"),
    quota(4, client_id="c"),
    quota(5, client_id=None, user="u"),
)


def described(
    *components: Component, strict: bool = False, denies: Denies | None = None
) -> DescribeClientQuotasResponse:
    request = DescribeClientQuotasRequest(
        components=[ComponentData(entity_type=kind, match_type=how, match=name) for kind, how, name in components],
        strict=strict,
    )
    return ask(NODE, request, DescribeClientQuotasResponse, 1, authorizer=denies)


@pytest.mark.parametrize(
    ("components", "strict", "expected"),
    [
        ([], False, [1, 2, 3, 4, 5]),
        ([], True, []),
        ([("user", EXACT, "u")], False, [1, 3, 5]),
        ([("user", EXACT, "u")], True, [1]),
        ([("user", DEFAULT, None)], False, [2]),
        ([("user", ANY, None)], False, [1, 2, 3, 5]),
        ([("user", ANY, None)], True, [1, 2]),
        ([("user", ANY, None), ("client-id", ANY, None)], True, [3, 5]),
        ([("client-id", DEFAULT, None), ("user", EXACT, "u")], True, [5]),
        ([("ip", ANY, None)], False, []),
    ],
)
def test_what_a_filter_matches(components: list[Component], strict: bool, expected: list[int]) -> None:
    answer = described(*components, strict=strict)

    assert answer.error_code == ErrorCode.NONE
    assert sorted(entry.values[0].value for entry in answer.entries or []) == expected


@pytest.mark.parametrize(
    ("components", "error", "message"),
    [
        ([("", EXACT, "u")], 42, "Invalid empty entity type."),
        (
            [("user", EXACT, "u"), ("user", ANY, None)],
            42,
            "Entity type user cannot appear more than once in the filter.",
        ),
        ([("group", EXACT, "u")], 35, "Unsupported entity type group"),
        ([("user", EXACT, None)], 42, "Request specified MATCH_TYPE_EXACT, but set match string to null."),
        ([("user", DEFAULT, "u")], 42, "Request specified MATCH_TYPE_DEFAULT, but also specified a match string."),
        ([("user", ANY, "u")], 42, "Request specified MATCH_TYPE_SPECIFIED, but also specified a match string."),
        ([("user", 7, None)], 42, "Unknown match type 7"),
        (
            [("ip", ANY, None), ("user", ANY, None)],
            42,
            NOT_TOGETHER,
        ),
    ],
)
def test_filters_that_are_none(components: list[Component], error: int, message: str) -> None:
    answer = described(*components)

    assert (answer.error_code, answer.error_message, answer.entries) == (error, message, None)


def test_whoever_may_not_see_the_configuration_sees_no_limits() -> None:
    answer = described(denies=Denies((AclOperation.DESCRIBE_CONFIGS, ResourceType.CLUSTER, None)))

    assert (answer.error_code, answer.entries) == (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, None)
