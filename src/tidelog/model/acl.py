"""The words of authorisation: what is done, to which kind of thing, and who may do it. The numbers are Kafka's, as the protocol
and the metadata log have them.
"""

from __future__ import annotations

from enum import IntEnum

import msgspec


class AclOperation(IntEnum):
    """What a caller wants to do with a resource."""

    UNKNOWN = 0
    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class ResourceType(IntEnum):
    """What it wants to do it with."""

    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType(IntEnum):
    """Which names a resource's name in an ACL, or in a search for ACLs, stands for."""

    UNKNOWN = 0
    ANY = 1
    """In a search: a pattern of this name, of whichever type."""
    MATCH = 2
    """In a search: every pattern that holds for a resource of this name."""
    LITERAL = 3
    """The name itself; `*` stands for every name."""
    PREFIXED = 4
    """Every name that begins so."""


class PermissionType(IntEnum):
    """What an ACL says of those whom it names."""

    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3


class AccessControlEntry(msgspec.Struct, frozen=True, gc=False):
    """An ACL: who may or may not do what with which resource. A log may hold numbers that only a newer release knows."""

    resource_type: int
    resource_name: str
    pattern_type: int
    principal: str
    host: str
    operation: int
    permission_type: int


# The one resource of its type.
CLUSTER_NAME = "kafka-cluster"

# Any name, where a pattern is literal; any host.
WILDCARD = "*"

# Stands for callers of every type, also for those whose type is not User.
EVERYBODY = ("User", WILDCARD)

# What `include_authorized_operations` reports on, for each type of resource.
OPERATIONS_ON = {
    ResourceType.TOPIC: (
        AclOperation.READ,
        AclOperation.WRITE,
        AclOperation.CREATE,
        AclOperation.DELETE,
        AclOperation.ALTER,
        AclOperation.DESCRIBE,
        AclOperation.DESCRIBE_CONFIGS,
        AclOperation.ALTER_CONFIGS,
    ),
    ResourceType.GROUP: (
        AclOperation.READ,
        AclOperation.DELETE,
        AclOperation.DESCRIBE,
        AclOperation.DESCRIBE_CONFIGS,
        AclOperation.ALTER_CONFIGS,
    ),
    ResourceType.CLUSTER: (
        AclOperation.CREATE,
        AclOperation.ALTER,
        AclOperation.DESCRIBE,
        AclOperation.CLUSTER_ACTION,
        AclOperation.DESCRIBE_CONFIGS,
        AclOperation.ALTER_CONFIGS,
        AclOperation.IDEMPOTENT_WRITE,
    ),
    ResourceType.TRANSACTIONAL_ID: (AclOperation.WRITE, AclOperation.DESCRIBE, AclOperation.TWO_PHASE_COMMIT),
    ResourceType.DELEGATION_TOKEN: (AclOperation.DESCRIBE,),
    ResourceType.USER: (AclOperation.CREATE_TOKENS, AclOperation.DESCRIBE_TOKENS),
}

# What a response says where nobody asked which operations are allowed.
OPERATIONS_NOT_ASKED = -(2**31)


def operation_bits(operations: tuple[AclOperation, ...]) -> int:
    """Operations as the protocol's bit field: bit n for operation n."""
    return sum(1 << operation for operation in operations)


def text_of(words: type[IntEnum], number: int) -> str:
    """How Kafka prints one of these words; UNKNOWN for a number that it has no word for."""
    try:
        return words(number).name
    except ValueError:
        return "UNKNOWN"


def principal_parts(text: str) -> tuple[str, str] | None:
    """The type and the name of a principal that is written `Type:name`; None where there is no colon."""
    kind, colon, name = text.partition(":")
    return (kind, name) if colon else None
