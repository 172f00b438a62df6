"""Decisions about ACLs: CreateAcls and DeleteAcls.

Equal ACLs exist once: one that is there already, or comes twice in a request, is a success without a record. Everything that a
request removes goes in one batch, all or none.
"""

from __future__ import annotations

from random import Random

from tidelog.controller.decision import RECORDS_PER_REQUEST_MAX, Decision, Refusal, RefusedError
from tidelog.controller.image import ClusterImage
from tidelog.model.acl import (
    CLUSTER_NAME,
    AccessControlEntry,
    AclOperation,
    PatternType,
    PermissionType,
    ResourceType,
    principal_parts,
    text_of,
)
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import random_uuid
from tidelog.security.acl_filter import AclFilter
from tidelog.wire.internal_records import FramedRecord
from tidelog.wire.messages.acls import (
    AclCreation,
    AclCreationResult,
    CreateAclsRequest,
    CreateAclsResponse,
    DeleteAclsFilter,
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from tidelog.wire.messages.internal.cluster_security import AccessControlEntryRecord, RemoveAccessControlEntryRecord

_RECORD_VERSION = 0


def decide_create_acls(image: ClusterImage, request: CreateAclsRequest, random: Random) -> Decision[CreateAclsResponse]:
    known = set(image.access_control.values())
    ids = set(image.access_control)
    results: list[AclCreationResult] = []
    records: list[FramedRecord] = []
    for creation in request.creations:
        problem = _problem(creation)
        error = ErrorCode.NONE if problem is None else ErrorCode.INVALID_REQUEST
        results.append(AclCreationResult(error_code=error, error_message=problem))
        acl = _entry(creation)
        if problem is not None or acl in known:
            continue
        known.add(acl)
        if len(records) >= RECORDS_PER_REQUEST_MAX:
            raise RefusedError(ErrorCode.POLICY_VIOLATION, "Unable to perform excessively large batch operation.")
        acl_id = random_uuid(random)
        while acl_id in ids:
            acl_id = random_uuid(random)
        ids.add(acl_id)
        records.append(FramedRecord(_record(acl_id, acl), _RECORD_VERSION))
    return Decision(CreateAclsResponse(throttle_time_ms=0, results=results), tuple(records))


def refuse_create_acls(request: CreateAclsRequest, refusal: Refusal) -> CreateAclsResponse:
    refused = [AclCreationResult(error_code=refusal.error, error_message=refusal.message) for _ in request.creations]
    return CreateAclsResponse(throttle_time_ms=0, results=refused)


def decide_delete_acls(image: ClusterImage, request: DeleteAclsRequest) -> Decision[DeleteAclsResponse]:
    removed: dict[bytes, None] = {}
    results: list[DeleteAclsFilterResult] = []
    for asked in request.filters:
        wanted = filter_of(asked)
        problem = _filter_problem(wanted)
        if problem is not None:
            results.append(_filter_result(ErrorCode.INVALID_REQUEST, problem))
            continue
        found = {acl_id: acl for acl_id, acl in image.access_control.items() if wanted.matches(acl)}
        removed.update(dict.fromkeys(found))
        if len(removed) > RECORDS_PER_REQUEST_MAX:
            # Not a part of them: that some are left would be easily missed.
            raise RefusedError(
                ErrorCode.INVALID_REQUEST,
                f"Cannot remove more than {RECORDS_PER_REQUEST_MAX} acls in a single delete operation.",
            )
        results.append(_filter_result(ErrorCode.NONE, None, [_removed(acl) for acl in found.values()]))
    records = tuple(FramedRecord(RemoveAccessControlEntryRecord(id=acl_id), _RECORD_VERSION) for acl_id in removed)
    return Decision(DeleteAclsResponse(throttle_time_ms=0, filter_results=results), records)


def refuse_delete_acls(request: DeleteAclsRequest, refusal: Refusal) -> DeleteAclsResponse:
    refused = [_filter_result(refusal.error, refusal.message) for _ in request.filters]
    return DeleteAclsResponse(throttle_time_ms=0, filter_results=refused)


def filter_of(asked: DeleteAclsFilter) -> AclFilter:
    return AclFilter(
        asked.resource_type_filter,
        asked.resource_name_filter,
        asked.pattern_type_filter,
        asked.principal_filter,
        asked.host_filter,
        asked.operation,
        asked.permission_type,
    )


def _problem(creation: AclCreation) -> str | None:
    """What is wrong with an ACL, in Kafka's words. Host and operation need not suit the resource."""
    if creation.resource_type == ResourceType.CLUSTER and creation.resource_name != CLUSTER_NAME:
        return f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}"
    if not creation.resource_name:
        return "Invalid empty resource name"
    resource_type = text_of(ResourceType, creation.resource_type)
    if resource_type in ("UNKNOWN", "ANY"):
        return f"Invalid resourceType {resource_type}"
    if creation.resource_pattern_type not in (PatternType.LITERAL, PatternType.PREFIXED):
        return f"Invalid patternType {text_of(PatternType, creation.resource_pattern_type)}"
    operation = text_of(AclOperation, creation.operation)
    if operation in ("UNKNOWN", "ANY"):
        return f"Invalid operation {operation}"
    if creation.permission_type not in (PermissionType.DENY, PermissionType.ALLOW):
        return f"Invalid permissionType {text_of(PermissionType, creation.permission_type)}"
    if principal_parts(creation.principal) is None:
        return (
            f"Could not parse principal from `{creation.principal}` (no colon is present separating the principal type "
            "from the principal name)"
        )
    return None


def _filter_problem(wanted: AclFilter) -> str | None:
    if wanted.has_unknown_pattern:
        return "Unknown patternFilter."
    return "Unknown entryFilter." if wanted.has_unknown_entry else None


def _entry(creation: AclCreation) -> AccessControlEntry:
    return AccessControlEntry(
        creation.resource_type,
        creation.resource_name,
        creation.resource_pattern_type,
        creation.principal,
        creation.host,
        creation.operation,
        creation.permission_type,
    )


def _record(acl_id: bytes, acl: AccessControlEntry) -> AccessControlEntryRecord:
    return AccessControlEntryRecord(
        id=acl_id,
        resource_type=acl.resource_type,
        resource_name=acl.resource_name,
        pattern_type=acl.pattern_type,
        principal=acl.principal,
        host=acl.host,
        operation=acl.operation,
        permission_type=acl.permission_type,
    )


def _removed(acl: AccessControlEntry) -> DeleteAclsMatchingAcl:
    return DeleteAclsMatchingAcl(
        error_code=ErrorCode.NONE,
        error_message=None,
        resource_type=acl.resource_type,
        resource_name=acl.resource_name,
        pattern_type=acl.pattern_type,
        principal=acl.principal,
        host=acl.host,
        operation=acl.operation,
        permission_type=acl.permission_type,
    )


def _filter_result(
    error: ErrorCode, message: str | None, removed: list[DeleteAclsMatchingAcl] | None = None
) -> DeleteAclsFilterResult:
    return DeleteAclsFilterResult(error_code=error, error_message=message, matching_acls=removed or [])
