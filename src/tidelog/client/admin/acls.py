"""Who may do what: ACLs of a cluster that has an authoriser."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum
from typing import TypeVar

from tidelog.client.admin.outcomes import error_of, value_of
from tidelog.client.admin.requests import ANYONE, CONTROLLER, Requests
from tidelog.client.errors import ClientError, ConfigError
from tidelog.model.acl import AclOperation, PatternType, PermissionType, ResourceType, principal_parts
from tidelog.wire.messages.acls import (
    AclCreation,
    CreateAclsRequest,
    CreateAclsResponse,
    DeleteAclsFilter,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
    DescribeAclsRequest,
    DescribeAclsResponse,
)

W = TypeVar("W", bound=IntEnum)


@dataclass(frozen=True, slots=True)
class AclBinding:
    """One ACL. UNKNOWN stands for a word that only a newer release has."""

    resource_type: ResourceType
    resource_name: str
    principal: str
    """`Type:name`; `User:*` is everybody."""
    operation: AclOperation
    permission: PermissionType = PermissionType.ALLOW
    host: str = "*"
    pattern_type: PatternType = PatternType.LITERAL


@dataclass(frozen=True, slots=True)
class AclBindingFilter:
    """Which ACLs are meant: None and ANY stand for all. MATCH: every pattern that holds for a resource of this name."""

    resource_type: ResourceType = ResourceType.ANY
    resource_name: str | None = None
    principal: str | None = None
    operation: AclOperation = AclOperation.ANY
    permission: PermissionType = PermissionType.ANY
    host: str | None = None
    pattern_type: PatternType = PatternType.ANY


EVERY_ACL = AclBindingFilter()


class AclCalls:
    """What an admin does with ACLs. A cluster without an authoriser refuses all of it."""

    _requests: Requests

    async def create_acls(self, acls: Iterable[AclBinding]) -> dict[AclBinding, ClientError | None]:
        """Have these ACLs. One that is there already is no error.

        >>> await admin.create_acls([AclBinding(ResourceType.TOPIC, "orders", "User:alice", AclOperation.READ)])
        """
        wanted = list(dict.fromkeys(acls))
        for each in wanted:
            if principal_parts(each.principal) is None:
                raise ConfigError(f"{each.principal} is no principal: expected Type:name, as in User:alice")
        answer = await self._requests.ask(
            CONTROLLER,
            CreateAclsRequest(creations=[_creation(each) for each in wanted]),
            CreateAclsResponse,
            codes=lambda each: [result.error_code for result in each.results],
        )
        return {
            acl: error_of(result.error_code, result.error_message)
            for acl, result in zip(wanted, answer.results, strict=True)
        }

    async def delete_acls(
        self, filters: Iterable[AclBindingFilter]
    ) -> dict[AclBindingFilter, list[AclBinding] | ClientError]:
        """Remove what each of these filters finds, all of it at once; the outcome is what was removed.

        >>> await admin.delete_acls([AclBindingFilter(principal="User:alice")])
        """
        wanted = list(dict.fromkeys(filters))
        answer = await self._requests.ask(
            CONTROLLER,
            DeleteAclsRequest(filters=[_filter(each) for each in wanted]),
            DeleteAclsResponse,
            codes=lambda each: [result.error_code for result in each.filter_results],
            # Asked again it would tell of nothing that was removed.
            is_repeatable=False,
        )
        outcomes: dict[AclBindingFilter, list[AclBinding] | ClientError] = {}
        for each, result in zip(wanted, answer.filter_results, strict=True):
            error = error_of(result.error_code, result.error_message)
            outcomes[each] = [_removed(acl) for acl in result.matching_acls] if error is None else error
        return outcomes

    async def describe_acls(self, wanted: AclBindingFilter = EVERY_ACL) -> list[AclBinding]:
        """The ACLs that a filter finds, as far as the broker that is asked has heard of them.

        >>> await admin.describe_acls(AclBindingFilter(ResourceType.TOPIC, "orders", pattern_type=PatternType.MATCH))
        """
        asked = _filter(wanted)
        request = DescribeAclsRequest(
            resource_type_filter=asked.resource_type_filter,
            resource_name_filter=asked.resource_name_filter,
            pattern_type_filter=asked.pattern_type_filter,
            principal_filter=asked.principal_filter,
            host_filter=asked.host_filter,
            operation=asked.operation,
            permission_type=asked.permission_type,
        )
        answer = await self._requests.ask(ANYONE, request, DescribeAclsResponse, codes=lambda each: [each.error_code])
        value_of(error_of(answer.error_code, answer.error_message))
        return [
            AclBinding(
                _word(ResourceType, resource.resource_type),
                resource.resource_name,
                acl.principal,
                _word(AclOperation, acl.operation),
                _word(PermissionType, acl.permission_type),
                acl.host,
                _word(PatternType, resource.pattern_type),
            )
            for resource in answer.resources
            for acl in resource.acls
        ]


def _creation(acl: AclBinding) -> AclCreation:
    return AclCreation(
        resource_type=acl.resource_type,
        resource_name=acl.resource_name,
        resource_pattern_type=acl.pattern_type,
        principal=acl.principal,
        host=acl.host,
        operation=acl.operation,
        permission_type=acl.permission,
    )


def _filter(wanted: AclBindingFilter) -> DeleteAclsFilter:
    return DeleteAclsFilter(
        resource_type_filter=wanted.resource_type,
        resource_name_filter=wanted.resource_name,
        pattern_type_filter=wanted.pattern_type,
        principal_filter=wanted.principal,
        host_filter=wanted.host,
        operation=wanted.operation,
        permission_type=wanted.permission,
    )


def _removed(acl: DeleteAclsMatchingAcl) -> AclBinding:
    value_of(error_of(acl.error_code, acl.error_message))
    return AclBinding(
        _word(ResourceType, acl.resource_type),
        acl.resource_name,
        acl.principal,
        _word(AclOperation, acl.operation),
        _word(PermissionType, acl.permission_type),
        acl.host,
        _word(PatternType, acl.pattern_type),
    )


def _word(words: type[W], number: int) -> W:
    try:
        return words(number)
    except ValueError:
        return words(0)
