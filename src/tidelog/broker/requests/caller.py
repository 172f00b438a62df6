# cython: annotation_typing=False, auto_pickle=False, binding=False, nonecheck=True
"""Who asks: what a handler knows of a request beside its body."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from tidelog.model.acl import OPERATIONS_ON, AclOperation, ResourceType, operation_bits

if TYPE_CHECKING:
    from tidelog.broker.data.produce_gather import ProduceGather
    from tidelog.model.ids import TopicName
    from tidelog.model.principal import Principal
    from tidelog.net.connection import Connection


class Authorizer(Protocol):
    """Decides what a principal may do. Handlers ask before they act; they never look at who it is."""

    @property
    def revision(self) -> int:
        """Another number whenever the rules have changed: what was allowed before may not be any more."""
        ...

    def allows(
        self, principal: Principal, host: str, operation: AclOperation, resource_type: ResourceType, name: str
    ) -> bool: ...


class AllowAll:
    """A cluster without an authoriser, as Kafka's default is."""

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


class Caller:
    """One request's sender and envelope."""

    __slots__ = ("api_key", "api_version", "authorizer", "client_id", "connection", "gather", "member")

    def __init__(
        self,
        connection: Connection,
        client_id: str | None,
        api_key: int,
        api_version: int,
        authorizer: Authorizer,
        gather: ProduceGather | None = None,
    ) -> None:
        self.connection = connection
        self.client_id = client_id
        self.api_key = api_key
        self.api_version = api_version
        self.authorizer = authorizer
        # Of the read that the request came in, where it came in one.
        self.gather = gather
        self.member: object = None
        """The same sender as a coordinator of groups sees it, once one was asked (`group_coordinator.member_of`)."""

    @property
    def principal(self) -> Principal:
        return self.connection.principal

    @property
    def listener_name(self) -> str:
        return self.connection.listener_name

    @property
    def host(self) -> str:
        return self.connection.peer_address.host

    def may(self, operation: AclOperation, resource_type: ResourceType, name: str) -> bool:
        """Whether the caller may do this. Each handler asks before it acts."""
        if type(self.authorizer) is AllowAll:
            return True
        return self.authorizer.allows(self.principal, self.host, operation, resource_type, name)

    def may_describe(self, topic: TopicName) -> bool:
        return self.may(AclOperation.DESCRIBE, ResourceType.TOPIC, topic)

    def authorized_operations(self, resource_type: ResourceType, name: str) -> int:
        """What `include_authorized_operations` reports."""
        possible = OPERATIONS_ON[resource_type]
        return operation_bits(tuple(each for each in possible if self.may(each, resource_type, name)))
