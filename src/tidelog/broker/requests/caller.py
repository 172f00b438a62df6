"""Who asks: what a handler knows of a request beside its body."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import msgspec

from tidelog.kernel_choice import load
from tidelog.model.acl import OPERATIONS_ON, AclOperation, ResourceType, operation_bits
from tidelog.model.ids import TopicName
from tidelog.net.connection import Connection, Principal

if TYPE_CHECKING:
    from tidelog.broker.data.kernels.dispatch_kernel import AllowAll
else:
    AllowAll = load("tidelog.broker.data.kernels", "dispatch_kernel").AllowAll

__all__ = ["AllowAll", "Authorizer", "Caller"]


class Authorizer(Protocol):
    """Decides what a principal may do. Handlers ask before they act; they never look at who it is."""

    def allows(
        self, principal: Principal, host: str, operation: AclOperation, resource_type: ResourceType, name: str
    ) -> bool: ...


class Caller(msgspec.Struct, frozen=True, gc=False):
    """One request's sender and envelope."""

    connection: Connection
    client_id: str | None
    api_key: int
    api_version: int
    authorizer: Authorizer

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
        return self.authorizer.allows(self.principal, self.host, operation, resource_type, name)

    def may_describe(self, topic: TopicName) -> bool:
        return self.may(AclOperation.DESCRIBE, ResourceType.TOPIC, topic)

    def authorized_operations(self, resource_type: ResourceType, name: str) -> int:
        """What `include_authorized_operations` reports."""
        possible = OPERATIONS_ON[resource_type]
        return operation_bits(tuple(each for each in possible if self.may(each, resource_type, name)))
