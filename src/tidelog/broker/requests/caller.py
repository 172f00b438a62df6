# cython: annotation_typing=False, auto_pickle=False, binding=False, nonecheck=True
"""Who asks: what a handler knows of a request beside its body, and what the one who asks may do.

    caller.may(AclOperation.READ, ResourceType.TOPIC, name)         asked by each handler before it acts

Every question goes to the audit log, `kafka.authorizer.logger`: denials at INFO, permissions at DEBUG, and at TRACE what is only
looked up to leave something out or to report it. Without an authoriser nothing is asked and nothing is logged.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Protocol

from tidelog.broker.requests.forwarded import Forwarded
from tidelog.model.acl import OPERATIONS_ON, AclOperation, ResourceType, operation_bits
from tidelog.security.acl_set import DEFAULT_ALLOW
from tidelog.security.audit import AUDIT_LOGGER, TRACE, audit_line
from tidelog.security.authorizer import ANY_NAME, StandardAuthorizer
from tidelog.wire.apis import api

if TYPE_CHECKING:
    from tidelog.broker.data.produce_gather import ProduceGather
    from tidelog.broker.quotas.meter import Meter
    from tidelog.model.ids import TopicName
    from tidelog.model.principal import Principal
    from tidelog.net.connection import Connection
    from tidelog.security.acl_set import Rule

audit_log = logging.getLogger(AUDIT_LOGGER)

# Members that are reached through a module cost more, and these are asked for with each decision.
_TRACE, _DEBUG, _INFO = TRACE, logging.DEBUG, logging.INFO
# What `isEnabledFor` looks into first: to call it takes longer than the whole decision.
_known_levels: dict[int, bool] = getattr(audit_log, "_cache", {})


class Authorizer(Protocol):
    """Decides what a principal may do. Handlers ask before they act; they never look at who it is."""

    @property
    def revision(self) -> int:
        """Another number whenever the rules have changed: what was allowed before may not be any more."""
        ...

    def allows(
        self, principal: Principal, host: str, operation: AclOperation, resource_type: ResourceType, name: str
    ) -> bool: ...

    def rule(
        self, principal: Principal, host: str, operation: AclOperation, resource_type: ResourceType, name: str
    ) -> Rule:
        """What a decision rests on."""
        ...

    def allows_any(self, principal: Principal, host: str, operation: AclOperation, resource_type: ResourceType) -> bool:
        """Whether it may do this to some resource of the type, whichever."""
        ...


class AllowAll:
    """A cluster without an authoriser, as Kafka's default is. It is never asked."""

    __slots__ = ()

    @property
    def revision(self) -> int:
        return 0

    def allows(
        self,
        principal: Principal,  # noqa: ARG002
        host: str,  # noqa: ARG002
        operation: AclOperation,  # noqa: ARG002
        resource_type: ResourceType,  # noqa: ARG002
        name: str,  # noqa: ARG002
    ) -> bool:
        return True

    def rule(
        self,
        principal: Principal,  # noqa: ARG002
        host: str,  # noqa: ARG002
        operation: AclOperation,  # noqa: ARG002
        resource_type: ResourceType,  # noqa: ARG002
        name: str,  # noqa: ARG002
    ) -> Rule:
        return DEFAULT_ALLOW

    def allows_any(
        self,
        principal: Principal,  # noqa: ARG002
        host: str,  # noqa: ARG002
        operation: AclOperation,  # noqa: ARG002
        resource_type: ResourceType,  # noqa: ARG002
    ) -> bool:
        return True


def _is_logged(level: int) -> bool:
    known = _known_levels.get(level)
    if known is None:
        return audit_log.isEnabledFor(level)
    return known and not audit_log.disabled


class Caller:
    """One request's sender and envelope."""

    __slots__ = (
        "_name",
        "_operation",
        "_principal",
        "_resource_type",
        "_revision",
        "_rule",
        "_standard",
        "api_key",
        "api_version",
        "authorizer",
        "client_id",
        "connection",
        "correlation_id",
        "gather",
        "is_free",
        "member",
        "meter",
    )

    def __init__(
        self,
        connection: Connection | Forwarded,
        client_id: str | None,
        api_key: int,
        api_version: int,
        authorizer: Authorizer,
        gather: ProduceGather | None = None,
    ) -> None:
        """`connection` is where the request came from, or what an envelope tells of that."""
        self.connection: Connection = connection  # type: ignore[assignment] # handlers of forwarded APIs use what both have
        self.client_id = client_id
        self.correlation_id = 0
        """Of the request at hand."""
        self.api_key = api_key
        self.api_version = api_version
        self.authorizer = authorizer
        self.is_free = type(authorizer) is AllowAll
        """Whether it may do everything, and is asked for nothing."""
        self._standard = authorizer if type(authorizer) is StandardAuthorizer else None
        # The last decision of all: a request asks for the same more than once, and the next one does again.
        self._rule: Rule | None = None
        self._operation: AclOperation | None = None
        self._resource_type: ResourceType | None = None
        self._name: str | None = None
        self._principal: Principal | None = None
        self._revision = -1
        # Of the read that the request came in, where it came in one.
        self.gather = gather
        self.member: object = None
        """The same sender as a coordinator of groups sees it, once one was asked (`group_coordinator.member_of`)."""
        self.meter: Meter | None = None
        """What the request at hand takes of its sender's quotas, while its handler is called and there are any."""

    def apart(self) -> Caller:
        """The same for a request whose answer is not to be gathered with others. What was gathered before it is done first."""
        gather = self.gather
        if gather is not None and gather.is_open:
            gather.close()
        caller = Caller(self.connection, self.client_id, self.api_key, self.api_version, self.authorizer)
        caller.correlation_id = self.correlation_id
        caller.meter = self.meter
        return caller

    @property
    def principal(self) -> Principal:
        return self.connection.principal

    @property
    def forwarded(self) -> Forwarded | None:
        """Where the request came from if another node has passed it on."""
        origin: object = self.connection
        return origin if isinstance(origin, Forwarded) else None

    @property
    def listener_name(self) -> str:
        return self.connection.listener_name

    @property
    def host(self) -> str:
        """The address that it asks from, in Java's form."""
        return self.connection.host

    def revision(self) -> int:
        """That of the rules; see `Authorizer`."""
        standard = self._standard
        if standard is not None:
            return standard.revision
        return 0 if self.is_free else self.authorizer.revision

    def may(
        self,
        operation: AclOperation,
        resource_type: ResourceType,
        name: str,
        count: int = 1,
        logs_denied: bool = True,
        logs_allowed: bool = True,
    ) -> bool:
        """Whether the caller may do this. Each handler asks before it acts.

        `count` is how often the request names the resource. What is only looked up to leave something out, or before another
        question that decides, is not to be logged as denied; what grants nothing is not to be logged as allowed.
        """
        if self.is_free:
            return True
        is_allowed = self.decide(operation, resource_type, name)
        level = _DEBUG if is_allowed else _INFO
        if not (logs_allowed if is_allowed else logs_denied):
            level = _TRACE
        if _is_logged(level):
            self._audit(level, operation, resource_type, name, count)
        return is_allowed

    def decide(self, operation: AclOperation, resource_type: ResourceType, name: str) -> bool:
        """`may`, for whoever logs it by `audit`: to count how often a request names a resource takes longer than to decide."""
        standard = self._standard
        if standard is None:
            connection = self.connection
            return self.authorizer.allows(connection.principal, connection.host, operation, resource_type, name)
        rule = self._rule_of(standard, operation, resource_type, name)
        if rule.is_allowed:
            standard.allowed_count += 1
            return True
        standard.denied_count += 1
        return False

    def is_audited(self, is_allowed: bool) -> bool:
        """Whether anybody reads of what was decided so."""
        return _is_logged(_DEBUG if is_allowed else _INFO)

    def audit(
        self, is_allowed: bool, operation: AclOperation, resource_type: ResourceType, name: str, count: int
    ) -> None:
        self._audit(_DEBUG if is_allowed else _INFO, operation, resource_type, name, count)

    def _rule_of(
        self, standard: StandardAuthorizer, operation: AclOperation, resource_type: ResourceType, name: str
    ) -> Rule:
        rule = self._rule
        connection = self.connection
        principal = connection.principal
        if (
            rule is not None
            and self._operation is operation
            and self._resource_type is resource_type
            and self._principal is principal
            and self._revision == standard.revision
            and self._name == name
        ):
            return rule
        rule = standard.rule(principal, connection.host, operation, resource_type, name)
        self._operation, self._resource_type, self._principal, self._name = operation, resource_type, principal, name
        self._revision = standard.revision
        self._rule = rule
        return rule

    def might(self, operation: AclOperation, resource_type: ResourceType, name: str) -> bool:
        """`may`, for whoever asks that too before anything comes of it: neither counted nor logged."""
        if self.is_free:
            return True
        standard = self._standard
        if standard is None:
            connection = self.connection
            return self.authorizer.rule(
                connection.principal, connection.host, operation, resource_type, name
            ).is_allowed
        return self._rule_of(standard, operation, resource_type, name).is_allowed

    def may_by_resource_type(self, operation: AclOperation, resource_type: ResourceType) -> bool:
        """Whether the caller may do this to some resource of the type, whichever."""
        if self.is_free:
            return True
        # As in Kafka, which looks a name up like any other first, and logs nothing of what it does then.
        if self.may(operation, resource_type, ANY_NAME, 0, False):
            return True
        return self.authorizer.allows_any(self.principal, self.host, operation, resource_type)

    def may_describe(self, topic: TopicName) -> bool:
        """Whether the caller may know of a topic that is one of many: nothing is refused to it by this, only left out."""
        return self.may(AclOperation.DESCRIBE, ResourceType.TOPIC, topic, 1, False)

    def authorized_operations(self, resource_type: ResourceType, name: str) -> int:
        """What `include_authorized_operations` reports."""
        possible = OPERATIONS_ON[resource_type]
        return operation_bits(
            tuple([each for each in possible if self.may(each, resource_type, name, 1, False, False)])
        )

    def _audit(self, level: int, operation: AclOperation, resource_type: ResourceType, name: str, count: int) -> None:
        principal, host = self.principal, self.host
        rule = self.authorizer.rule(principal, host, operation, resource_type, name)
        line = audit_line(
            principal, host, operation, resource_type, name, api_name=api(self.api_key).name, count=count, rule=rule
        )
        audit_log.log(level, "%s", line)
