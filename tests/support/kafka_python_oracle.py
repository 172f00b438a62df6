"""kafka-python's own codec: our messages to and from its classes.

Its classes come from Kafka's schemas too and hold every version; fields are matched by position. It writes bit fields of
authorized operations as sets, a UUID as `uuid.UUID`, and takes a tagged struct that is not set for None.
"""

from __future__ import annotations

import importlib
import pkgutil
import uuid
import warnings
from functools import cache
from typing import Any, TypeVar

from tidelog.model.ids import ZERO_UUID
from tidelog.wire.schema import UUID, ArrayOf, Field, Message, Struct, StructOf, WireType, fields_of

_M = TypeVar("_M", bound=Message)
_S = TypeVar("_S", bound=Struct)

_NO_OPERATIONS = -(2**31)


def kafka_python_class(message: type[Message]) -> Any:
    """kafka-python's class of a message, which has all its versions."""
    return _classes()[message.__name__]


def kafka_python_versions(message: type[Message]) -> list[int]:
    """The versions of a message that kafka-python knows as well."""
    theirs = _classes().get(message.__name__)
    return [] if theirs is None else [version for version in message.versions.each() if version <= theirs.max_version]


@cache
def _classes() -> dict[str, Any]:
    found: dict[str, Any] = {}
    with warnings.catch_warnings():
        # It reads its schemas in a way that Python 3.11 deprecated and 3.13 takes back.
        warnings.simplefilter("ignore", DeprecationWarning)
        protocol = importlib.import_module("kafka.protocol")
        for module in pkgutil.walk_packages(protocol.__path__, "kafka.protocol."):
            if ".old" not in module.name and not module.name.endswith("generate_stubs"):
                importlib.import_module(module.name)
        for base in (protocol.api_message.ApiMessage, protocol.api_data.ApiData):
            found.update((cls.__name__, cls) for cls in base.__subclasses__())
    return found


def to_kafka_python(message: Message, version: int, theirs: Any) -> Any:
    """An object of kafka-python's class with the same values."""
    return _to_theirs(message, version, theirs._struct)


def kafka_python_encode(message: Message, version: int, theirs: Any) -> bytes:
    """The bytes that kafka-python makes of a message."""
    encoded: bytes = to_kafka_python(message, version, theirs).encode(version=version, header=False)
    return bytes(encoded)


def kafka_python_decode(message: type[_M], version: int, theirs: Any, data: bytes) -> _M:
    """The message that kafka-python sees in bytes."""
    # The base's method: ApiVersionsResponse overrides it to read v0 wherever there is an error code.
    base = theirs.__bases__[0]
    return _from_theirs(message, version, base.decode.__func__(theirs, data, version=version, header=False))


def _pairs(struct: type[Struct], version: int, their_struct: Any) -> list[tuple[Field, Any]]:
    ours = [each for each in fields_of(struct) if version in each.versions]
    theirs = [each for each in their_struct.fields.values() if each.for_version_q(version)]
    return list(zip(ours, theirs, strict=True))


def _to_theirs(struct: Struct, version: int, their_struct: Any) -> Any:
    values = {}
    for our_field, their_field in _pairs(type(struct), version, their_struct):
        value = getattr(struct, our_field.name)
        # What is at its default must not be named: it would be sent.
        if our_field.tag is None or value != our_field.default:
            values[their_field.name] = _value_to_theirs(our_field.wire_type, value, version, their_field)
    return their_struct.data_class(version=version, **values)


def _value_to_theirs(wire_type: WireType, value: Any, version: int, their_field: Any) -> Any:
    match wire_type:
        case _ if value is None:
            return None
        case StructOf():
            return _to_theirs(value, version, their_field)
        case ArrayOf(StructOf()):
            return [_to_theirs(item, version, their_field) for item in value]
        case ArrayOf(element):
            return [_value_to_theirs(element, item, version, their_field) for item in value]
        case _ if wire_type is UUID:
            return uuid.UUID(bytes=value)
        case _ if their_field.type_str == "bitfield":
            return None if value == _NO_OPERATIONS else {bit for bit in range(32) if value >> bit & 1}
        case _:
            return value


def _from_theirs(struct: type[_S], version: int, theirs: Any) -> _S:
    made = struct()
    for our_field, their_field in _pairs(struct, version, theirs._struct):
        value = getattr(theirs, their_field.name)
        if value is None and our_field.tag is not None and version not in our_field.nullable:
            continue
        setattr(made, our_field.name, _value_from_theirs(our_field.wire_type, value, version, their_field))
    return made


def _value_from_theirs(wire_type: WireType, value: Any, version: int, their_field: Any) -> Any:
    match wire_type:
        case _ if their_field.type_str == "bitfield":
            return _NO_OPERATIONS if value is None else _signed(sum(1 << bit for bit in value))
        case _ if wire_type is UUID:
            return ZERO_UUID if value is None else value.bytes
        case _ if value is None:
            return None
        case StructOf(struct):
            return _from_theirs(struct, version, value)
        case ArrayOf(element):
            return [_value_from_theirs(element, item, version, their_field) for item in value]
        case _:
            return bytes(value) if isinstance(value, memoryview) else value


def _signed(bits: int) -> int:
    return bits - 2**32 if bits >= 2**31 else bits
