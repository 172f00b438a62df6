"""Messages from plain dictionaries, and what of an answer two brokers must have in common."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from tests.support.recorded_answers import names_of
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import ZERO_UUID
from tidelog.wire.apis import api
from tidelog.wire.schema import ArrayOf, Request, StructOf, WireType, fields_of

# Refusals, whose words clients show to people.
REFUSALS = {29, 30, 31, 53, 54, 63, 64, 65, 67}
# What tells one entry of a list from the others.
_IDENTITIES = {
    "name", "topic", "topic_name", "group_id", "key", "resource_name", "resource_type", "partition_index", "index", "partition",
    "transactional_id", "user", "entity_type", "entity_name", "principal", "owner_principal_name", "feature", "principal_name",
}  # fmt: skip
# Whether there are any matters; which there are does not concern access.
_OF_NO_INTEREST = {"configs", "config_resources"}
# Some of Kafka's sentences print the request as an object of Java's.
_JAVA_REQUEST = re.compile(r"Request Request\(.*\) needs", re.DOTALL)


def request(api_key: int, values: Mapping[str, Any]) -> Request:
    """A request whose structures are dictionaries; what is not named has Kafka's default."""
    kind = api(api_key).request
    built: Request = _struct(kind, values)
    return built


def _struct(kind: type[Any], values: Mapping[str, Any]) -> Any:
    types = {field.name: field.wire_type for field in fields_of(kind)}
    return kind(**{name: _value(types[name], value) for name, value in values.items()})


def _value(kind: WireType, value: Any) -> Any:
    if isinstance(kind, ArrayOf) and value is not None:
        return [_value(kind.element, each) for each in value]
    if isinstance(kind, StructOf) and isinstance(value, Mapping):
        return _struct(kind.struct, value)
    return value


def shown(value: Any) -> str:
    """Error codes, the words of refusals, operations that are allowed, and what is there at all; in an order of its own."""
    parts = []
    error = getattr(value, "error_code", 0)
    for name in names_of(value):
        inner = getattr(value, name)
        if name.endswith("error_code"):
            parts.append(f"{name}={ErrorCode.of(inner).name}" if name != "error_code" else ErrorCode.of(inner).name)
        elif name == "error_message" and error in REFUSALS:
            parts.append(repr(_JAVA_REQUEST.sub("Request ... needs", inner or "")))
        elif name.endswith("authorized_operations"):
            parts.append(f"{name}={inner}")
        elif name == "topic_id":
            parts.append("no id" if bytes(inner) == ZERO_UUID else "id")
        elif name in _IDENTITIES and inner != "":
            parts.append(str(inner))
        elif name == "node_endpoints":
            continue
        elif name in _OF_NO_INTEREST:
            parts.append(name if inner else f"no {name}")
        elif isinstance(inner, list):
            if any(names_of(each) for each in inner):
                parts.append(f"{name}[{', '.join(sorted(shown(each) for each in inner))}]")
        elif names_of(inner) and (within := shown(inner)):
            parts.append(f"{name}({within})")
    return " ".join(parts)
