"""Values for any message in any version, from a seed; and Kafka's JSON form of them.

    all_pairs()                          every (message, version) that is declared
    values_for(message, version, seed)   a message with every field of that version filled, many with values on an edge
    to_json(message, version)            the form that Kafka's generated `...JsonConverter` classes read and write

The same seed gives the same message on any machine, so that a run can be compared with another program's.
"""

from __future__ import annotations

import string
from base64 import b64encode
from random import Random
from typing import TypeAlias, TypeVar

from tidelog.model.errors import ErrorCode
from tidelog.model.ids import UUID_BYTES, ZERO_UUID, uuid_to_text
from tidelog.wire.messages import all_messages
from tidelog.wire.schema import (
    BOOL,
    BYTES,
    FLOAT64,
    RECORDS,
    STRING,
    UUID,
    ArrayOf,
    Field,
    Fixed,
    Message,
    Sized,
    Struct,
    StructOf,
    WireType,
    fields_of,
)

_M = TypeVar("_M", bound=Message)
_S = TypeVar("_S", bound=Struct)

Json: TypeAlias = bool | int | float | str | list["Json"] | dict[str, "Json"] | None

# Field names whose words Kafka capitalises in a way of its own.
CAMEL_NAMES = {
    "kraft_version": "kRaftVersion",
    "kraft_version_feature": "kRaftVersionFeature",
    "enable_2pc": "enable2Pc",
}

_ALPHABET = string.ascii_letters + string.digits + "._-  äßéλ→語🦑\0"

# One-byte lengths end at 126, two-byte ones at 16,382: what lies around these is where a codec goes wrong.
_LENGTHS = (0, 0, 1, 2, 5, 5, 9, 20, 126, 127, 128)

# Later than any date that a program is likely to be asked to print.
_PLAIN_TIME_MAX = 4_000_000_000_000


def all_pairs() -> list[tuple[type[Message], int]]:
    """Every declared message in every version."""
    return [(message, version) for message in all_messages() for version in message.versions.each()]


def values_for(message: type[_M], version: int, seed: int, *, plain: bool = False) -> _M:
    """A message that this version can carry. Fields that it lacks hold their default.

    `plain` values stay within what a library with dates, durations and an enumeration of errors can hold.
    """
    random = Random(f"{message.__name__} {version} {seed} {plain}")
    return _Values(random, version, plain).struct(message)


class _Values:
    def __init__(self, random: Random, version: int, plain: bool) -> None:
        self._random = random
        self._version = version
        self._plain = plain

    def struct(self, struct: type[_S]) -> _S:
        made = struct()
        for each in fields_of(struct):
            if self._version in each.versions:
                setattr(made, each.name, self._field(each))
        return made

    def _field(self, each: Field) -> object:
        roll = self._random.random()
        nullable = self._version in each.nullable
        if nullable and roll < 0.25:
            return None
        # A tagged field at its default is not sent, which deserves to be common.
        if (
            roll > 0.85
            and (each.default is not None or nullable)
            and not isinstance(each.wire_type, StructOf | ArrayOf)
        ):
            return each.default
        return self._value(each.wire_type, each.name)

    def _value(self, wire_type: WireType, name: str) -> object:
        match wire_type:
            case StructOf(struct):
                return self.struct(struct)
            case ArrayOf(element):
                count = self._random.choice((0, 1, 2, 3) if isinstance(element, StructOf) else (0, 1, 2, 3, 40, 130))
                return [self._value(element, name) for _ in range(count)]
            case Fixed():
                return self._fixed(wire_type, name)
            case Sized():
                length = self._random.choice(_LENGTHS)
                if wire_type is STRING:
                    return "".join(self._random.choices(_ALPHABET, k=length))
                return self._random.randbytes(length if self._random.random() < 0.9 else 300)

    def _fixed(self, wire_type: Fixed, name: str) -> object:
        if wire_type is BOOL:
            return self._random.random() < 0.5
        if wire_type is UUID:
            return ZERO_UUID if self._random.random() < 0.2 else self._random.randbytes(UUID_BYTES)
        if wire_type is FLOAT64:
            return self._random.choice((0.0, -1.5, 1e300, self._random.uniform(-1e9, 1e9)))
        if self._plain and "error_code" in name:
            return int(self._random.choice([code for code in ErrorCode if code <= 120]))
        if self._plain and (name.endswith(("_ms", "timestamp")) or "timeout" in name or "timestamp" in name):
            return self._random.randrange(_PLAIN_TIME_MAX if wire_type.size_bytes == 8 else 2**31)
        bits = wire_type.size_bytes * 8
        lowest, highest = (0, 2**bits - 1) if wire_type.code.isupper() else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
        edges = [value for value in (lowest, -2, -1, 0, 1, 127, 128, 255, 256, highest) if lowest <= value <= highest]
        if self._random.random() < 0.5:
            return self._random.choice(edges)
        return self._random.randint(lowest, highest)


def camel_name(name: str) -> str:
    """Kafka's name of a field."""
    first, *others = name.split("_")
    return CAMEL_NAMES.get(name) or first + "".join(word[:1].upper() + word[1:] for word in others)


def to_json(message: Struct, version: int) -> dict[str, Json]:
    """The message as Kafka's converters write it: only this version's fields, and tagged ones only if they are not default."""
    members: dict[str, Json] = {}
    for each in fields_of(type(message)):
        value = getattr(message, each.name)
        if version in each.versions and not (each.tag is not None and value == each.default):
            members[camel_name(each.name)] = _json_value(each.wire_type, value, version)
    return members


def _json_value(wire_type: WireType, value: object, version: int) -> Json:
    match value:
        case Struct():
            return to_json(value, version)
        case list() if isinstance(wire_type, ArrayOf):
            return [_json_value(wire_type.element, item, version) for item in value]
        case bytes() | memoryview() if wire_type is UUID:
            return uuid_to_text(bytes(value))
        case bytes() | memoryview() if wire_type in {BYTES, RECORDS}:
            return b64encode(value).decode("ascii")
        case None | bool() | int() | float() | str():
            return value
        case _:
            raise TypeError(f"{value!r} has no JSON form")
