"""Which ACLs a command line means: resources, principals, hosts and operations, and what producers and consumers need."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tidelog.cli.admin_session import QuestionError
from tidelog.client.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    PatternType,
    PermissionType,
    ResourceType,
)
from tidelog.model.acl import CLUSTER_NAME, OPERATIONS_ON, principal_parts

# What `--producer` and `--consumer` stand for, as with Kafka's own tool.
_PRODUCER = {
    ResourceType.TOPIC: (AclOperation.WRITE, AclOperation.DESCRIBE, AclOperation.CREATE),
    ResourceType.TRANSACTIONAL_ID: (AclOperation.WRITE, AclOperation.DESCRIBE),
}
_CONSUMER = {
    ResourceType.TOPIC: (AclOperation.READ, AclOperation.DESCRIBE),
    ResourceType.GROUP: (AclOperation.READ,),
}


@dataclass(frozen=True, slots=True)
class AclQuestion:
    """What was typed."""

    topics: Sequence[str] = ()
    groups: Sequence[str] = ()
    transactional_ids: Sequence[str] = ()
    users: Sequence[str] = ()
    delegation_tokens: Sequence[str] = ()
    is_cluster: bool = False
    principals: Sequence[str] = ()
    """Of whom, whatever they may or may not do."""
    pattern: PatternType = PatternType.LITERAL
    allowed: Sequence[str] = ()
    denied: Sequence[str] = ()
    allowed_hosts: Sequence[str] = ()
    denied_hosts: Sequence[str] = ()
    operations: Sequence[str] = ()
    is_producer: bool = False
    is_consumer: bool = False
    is_idempotent: bool = False

    @property
    def resources(self) -> list[tuple[ResourceType, str]]:
        named = (
            (ResourceType.TOPIC, self.topics),
            (ResourceType.GROUP, self.groups),
            (ResourceType.TRANSACTIONAL_ID, self.transactional_ids),
            (ResourceType.DELEGATION_TOKEN, self.delegation_tokens),
            (ResourceType.USER, self.users),
            (ResourceType.CLUSTER, (CLUSTER_NAME,) if self.is_cluster else ()),
        )
        return [(kind, name) for kind, names in named for name in names]


def planned_acls(question: AclQuestion) -> list[AclBinding]:
    """The ACLs to add, or to remove one by one. QuestionError for what makes no sense."""
    if question.pattern not in (PatternType.LITERAL, PatternType.PREFIXED):
        raise QuestionError("an ACL is for a literal name or for a prefix: --resource-pattern-type literal or prefixed")
    holders = _holders(question)
    if not holders:
        raise QuestionError("nobody is named: give --allow-principal or --deny-principal, as in User:alice")
    rights = _rights(question)
    if not rights:
        raise QuestionError(
            "no resource is named: give --topic, --group, --cluster, --transactional-id or --user-principal"
        )
    return [
        AclBinding(
            kind,
            name,
            principal,
            operation,
            permission,
            host,
            PatternType.LITERAL if kind is ResourceType.CLUSTER else question.pattern,
        )
        for kind, name, operation in rights
        for principal, host, permission in holders
    ]


def planned_filters(question: AclQuestion) -> list[AclBindingFilter]:
    """What to list: all that fits the resources and principals that are named."""
    for principal in question.principals:
        _check_principal(principal)
    return _filters(question, [(each, None, PermissionType.ANY) for each in question.principals])


def planned_removals(question: AclQuestion) -> list[AclBindingFilter]:
    """What to remove: exactly what `planned_acls` gives; or, where no operation is named, all that fits the rest."""
    if not question.resources and not question.allowed and not question.denied:
        raise QuestionError(
            "nothing is named that could be removed: give resources, --allow-principal or --deny-principal"
        )
    if not (question.operations or question.is_producer or question.is_consumer):
        hosts_given = {PermissionType.ALLOW: question.allowed_hosts, PermissionType.DENY: question.denied_hosts}
        return _filters(
            question,
            [
                (principal, host if hosts_given[permission] else None, permission)
                for principal, host, permission in _holders(question)
            ],
        )
    return [
        AclBindingFilter(
            acl.resource_type,
            acl.resource_name,
            acl.principal,
            acl.operation,
            acl.permission,
            acl.host,
            acl.pattern_type,
        )
        for acl in planned_acls(question)
    ]


def _filters(
    question: AclQuestion, holders: Sequence[tuple[str | None, str | None, PermissionType]]
) -> list[AclBindingFilter]:
    resources: list[tuple[ResourceType, str | None]] = [*question.resources] or [(ResourceType.ANY, None)]
    return [
        AclBindingFilter(
            kind,
            name,
            principal,
            permission=permission,
            host=host,
            pattern_type=PatternType.ANY if name is None or kind is ResourceType.CLUSTER else question.pattern,
        )
        for kind, name in resources
        for principal, host, permission in holders or [(None, None, PermissionType.ANY)]
    ]


def _holders(question: AclQuestion) -> list[tuple[str, str, PermissionType]]:
    holders: list[tuple[str, str, PermissionType]] = []
    for principals, hosts, permission, word in (
        (question.allowed, question.allowed_hosts, PermissionType.ALLOW, "allow"),
        (question.denied, question.denied_hosts, PermissionType.DENY, "deny"),
    ):
        if hosts and not principals:
            raise QuestionError(f"--{word}-host needs --{word}-principal")
        for principal in principals:
            _check_principal(principal)
            holders += [(principal, host, permission) for host in (hosts or ("*",))]
    return holders


def _rights(question: AclQuestion) -> list[tuple[ResourceType, str, AclOperation]]:
    if question.is_producer or question.is_consumer:
        return _rights_of_clients(question)
    operations = [_operation(text) for text in question.operations] or [AclOperation.ALL]
    for kind, _ in question.resources:
        unfit = [each for each in operations if each is not AclOperation.ALL and each not in OPERATIONS_ON[kind]]
        if unfit:
            fit = ", ".join(_text(each) for each in (*OPERATIONS_ON[kind], AclOperation.ALL))
            raise QuestionError(f"{_text(unfit[0])} is nothing that is done to a {_text(kind)}: expected one of {fit}")
    return [(kind, name, operation) for kind, name in question.resources for operation in operations]


def _rights_of_clients(question: AclQuestion) -> list[tuple[ResourceType, str, AclOperation]]:
    if question.operations:
        raise QuestionError("--producer and --consumer say which operations they need: leave --operation out")
    if not question.topics:
        raise QuestionError("--producer and --consumer need --topic")
    if question.is_consumer and not question.groups:
        raise QuestionError("--consumer needs --group")
    if question.denied:
        raise QuestionError("--producer and --consumer give rights: leave --deny-principal out")
    rights: dict[tuple[ResourceType, str, AclOperation], None] = {}
    for is_meant, needed in ((question.is_producer, _PRODUCER), (question.is_consumer, _CONSUMER)):
        for kind, name in question.resources if is_meant else ():
            rights.update(dict.fromkeys((kind, name, operation) for operation in needed.get(kind, ())))
    if question.is_producer and question.is_idempotent:
        rights[ResourceType.CLUSTER, CLUSTER_NAME, AclOperation.IDEMPOTENT_WRITE] = None
    return list(rights)


def _operation(text: str) -> AclOperation:
    """As Kafka's tool takes them: `Read`, `READ`, `describe-configs`, `DescribeConfigs`."""
    wanted = text.replace("-", "").replace("_", "").upper()
    for operation in AclOperation:
        if operation.name.replace("_", "") == wanted and operation > AclOperation.ANY:
            return operation
    names = ", ".join(_text(each) for each in AclOperation if each > AclOperation.ANY)
    raise QuestionError(f"{text} is no operation: expected one of {names}")


def _check_principal(text: str) -> None:
    if principal_parts(text) is None:
        raise QuestionError(f"{text} is no principal: expected Type:name, as in User:alice")


def _text(word: AclOperation | ResourceType) -> str:
    return word.name.lower().replace("_", "-")


def permission_lines(acls: Iterable[AclBinding]) -> list[tuple[str, str, str, str, str, str, str]]:
    """One row for each ACL, in an order that does not depend on the cluster."""
    ordered = sorted(acls, key=lambda each: (each.resource_type, each.resource_name, each.pattern_type, each.principal))
    return [
        (
            _text(acl.resource_type),
            acl.resource_name,
            acl.pattern_type.name.lower(),
            acl.principal,
            acl.host,
            _text(acl.operation),
            acl.permission.name.lower(),
        )
        for acl in ordered
    ]
