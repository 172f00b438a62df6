from __future__ import annotations

from random import Random

import pytest
from msgspec.structs import replace

from tests.support.acls import acl
from tidelog.controller import acls as decisions
from tidelog.controller.acls import decide_create_acls, decide_delete_acls
from tidelog.controller.decision import RefusedError
from tidelog.controller.image import ClusterImage
from tidelog.controller.image_delta import ImageDelta
from tidelog.model.acl import AccessControlEntry, AclOperation, PatternType, PermissionType, ResourceType
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import LeaderEpoch, Offset
from tidelog.wire.internal_records import FramedRecord
from tidelog.wire.messages.acls import AclCreation, CreateAclsRequest, DeleteAclsFilter, DeleteAclsRequest

READ_ORDERS = AclCreation(
    resource_type=ResourceType.TOPIC,
    resource_name="orders",
    resource_pattern_type=PatternType.LITERAL,
    principal="User:alice",
    host="*",
    operation=AclOperation.READ,
    permission_type=PermissionType.ALLOW,
)
NO_COLON = (
    "Could not parse principal from `alice` (no colon is present separating the principal type from the principal name)"
)
EVERYTHING = DeleteAclsFilter(
    resource_type_filter=ResourceType.ANY,
    resource_name_filter=None,
    pattern_type_filter=PatternType.ANY,
    principal_filter=None,
    host_filter=None,
    operation=AclOperation.ANY,
    permission_type=PermissionType.ANY,
)


def image_of(*acls: AccessControlEntry) -> ClusterImage:
    return ClusterImage(access_control={bytes([number]) * 16: each for number, each in enumerate(acls)})


def following(image: ClusterImage, records: tuple[FramedRecord, ...]) -> ClusterImage:
    delta = ImageDelta(image)
    for record in records:
        delta.apply(record.message, Offset(1))
    return delta.image(Offset(1), LeaderEpoch(1), 0)


def test_an_acl_exists_once_however_often_it_is_created() -> None:
    image = image_of(acl("User:alice", AclOperation.READ, "orders"))
    other = replace(READ_ORDERS, principal="User:bob")

    decision = decide_create_acls(image, CreateAclsRequest(creations=[READ_ORDERS, other, other]), Random(1))

    assert [(each.error_code, each.error_message) for each in decision.answer.results] == [(0, None)] * 3
    made = following(image, decision.records)
    assert list(made.access_control.values()) == [
        acl("User:alice", AclOperation.READ, "orders"),
        acl("User:bob", AclOperation.READ, "orders"),
    ]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (replace(READ_ORDERS, resource_type=1), "Invalid resourceType ANY"),
        (replace(READ_ORDERS, resource_type=99), "Invalid resourceType UNKNOWN"),
        (replace(READ_ORDERS, resource_pattern_type=2), "Invalid patternType MATCH"),
        (replace(READ_ORDERS, resource_pattern_type=99), "Invalid patternType UNKNOWN"),
        (replace(READ_ORDERS, operation=1), "Invalid operation ANY"),
        (replace(READ_ORDERS, permission_type=1), "Invalid permissionType ANY"),
        (replace(READ_ORDERS, resource_name=""), "Invalid empty resource name"),
        (
            replace(READ_ORDERS, principal="alice"),
            NO_COLON,
        ),
        (
            replace(READ_ORDERS, resource_type=ResourceType.CLUSTER),
            "The only valid name for the CLUSTER resource is kafka-cluster",
        ),
    ],
)
def test_what_is_wrong_with_one_acl_is_said_and_the_others_are_created(wrong: AclCreation, message: str) -> None:
    decision = decide_create_acls(ClusterImage(), CreateAclsRequest(creations=[wrong, READ_ORDERS]), Random(1))

    told = [(each.error_code, each.error_message) for each in decision.answer.results]
    assert told == [(ErrorCode.INVALID_REQUEST, message), (0, None)]
    assert len(decision.records) == 1


def test_each_filter_lists_what_it_removes_and_nothing_is_removed_twice() -> None:
    image = image_of(
        acl("User:alice", AclOperation.READ, "orders"),
        acl("User:alice", AclOperation.READ, "ord", pattern=PatternType.PREFIXED),
        acl("User:bob", AclOperation.READ, "other"),
    )
    matching = replace(
        EVERYTHING, resource_type_filter=ResourceType.TOPIC, resource_name_filter="orders", pattern_type_filter=2
    )
    alices = replace(EVERYTHING, principal_filter="User:alice")
    unknown = replace(EVERYTHING, operation=99)

    decision = decide_delete_acls(image, DeleteAclsRequest(filters=[matching, alices, unknown]))

    answer = decision.answer.filter_results
    assert [[each.resource_name for each in result.matching_acls] for result in answer] == [["orders", "ord"]] * 2 + [
        []
    ]
    assert [(result.error_code, result.error_message) for result in answer] == [
        (0, None),
        (0, None),
        (ErrorCode.INVALID_REQUEST, "Unknown entryFilter."),
    ]
    assert [each.principal for each in following(image, decision.records).access_control.values()] == ["User:bob"]
    assert len(decision.records) == 2


def test_too_much_at_once_is_refused_as_a_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decisions, "RECORDS_PER_REQUEST_MAX", 2)
    image = image_of(*(acl("User:alice", AclOperation.READ, f"t{number}") for number in range(3)))
    with pytest.raises(RefusedError, match="Cannot remove more than 2 acls") as refused:
        decide_delete_acls(image, DeleteAclsRequest(filters=[EVERYTHING]))
    assert refused.value.refusal.error is ErrorCode.INVALID_REQUEST
    creations = [replace(READ_ORDERS, resource_name=f"t{number}") for number in range(3)]
    with pytest.raises(RefusedError, match="excessively large"):
        decide_create_acls(ClusterImage(), CreateAclsRequest(creations=creations), Random(1))
