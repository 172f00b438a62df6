"""What can be configured through the protocol, and who may look at it or change it."""

from __future__ import annotations

import re
from enum import IntEnum

from tidelog.broker.requests.caller import Caller
from tidelog.model.acl import CLUSTER_NAME, AclOperation, ResourceType
from tidelog.model.errors import ErrorCode

# What Java takes for an int: "+1" and "01" are the broker 1 too.
_NODE_ID = re.compile(r"[+-]?[0-9]{1,10}\Z", re.ASCII)


class ConfigResourceType(IntEnum):
    """Kafka's numbers."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


def resource_type_of(number: int) -> ConfigResourceType | None:
    """The type that a request names; None for a number that means nothing here."""
    try:
        return ConfigResourceType(number)
    except ValueError:
        return None


def authorize(caller: Caller, operation: AclOperation, kind: ConfigResourceType, name: str) -> ErrorCode:
    """NONE where the caller may do this with a resource's configuration, otherwise the error to answer."""
    match kind:
        case ConfigResourceType.TOPIC:
            allowed, error = caller.may(operation, ResourceType.TOPIC, name), ErrorCode.TOPIC_AUTHORIZATION_FAILED
        case ConfigResourceType.GROUP:
            allowed, error = caller.may(operation, ResourceType.GROUP, name), ErrorCode.GROUP_AUTHORIZATION_FAILED
        case _:
            # Brokers, their loggers and subscriptions to metrics are the cluster's.
            allowed = caller.may(operation, ResourceType.CLUSTER, CLUSTER_NAME)
            error = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    return ErrorCode.NONE if allowed else error


def node_id_of(name: str) -> int | None:
    """The node that a resource's name stands for; None where it is not a number."""
    return int(name) if _NODE_ID.match(name) else None
