"""The vocabulary in which messages are declared.

    class ListOffsetsPartition(Struct):
        partition_index: Int32
        current_leader_epoch: Int32 = since(4, default=-1)
        timestamp: Int64

    class ListOffsetsRequest(Request, api_key=2, versions="1-11", flexible="6+", listeners="broker"):
        ...

A declaration is data: fields in wire order, each with its type and the versions that carry it. `X | None` may be null in
all versions that carry the field, or in those of `nullable=`. A tagged field travels in the tagged section of flexible
versions, and only when it differs from its default. `ignorable` fields are left out silently of a version that does not
have them; any other field must then hold its default.

To a type checker a declaration is a keyword-only dataclass whose fields are required unless a default is written. At run
time it is a `msgspec.Struct` outside the garbage collector (messages are trees) where every field has a default, Kafka's
zero of its type, and positional arguments work; generated decoders use both. `fields_of` gives the declaration back, and
`tidelog.wire.codec` compiles it on first use.

The declarations of the data path stand for classes that were written from them beforehand, in `tidelog.wire.typed`: there the
statement `class FetchRequest(...)` gives that class its name and adds nothing to it.
"""

from __future__ import annotations

import importlib
from functools import cache
from types import NoneType
from typing import (
    Annotated,
    Any,
    ClassVar,
    Protocol,
    TypeVar,
    cast,
    dataclass_transform,
    get_args,
    get_origin,
    overload,
)

import msgspec

from tidelog.model.ids import UUID_BYTES, ZERO_UUID
from tidelog.wire import typed
from tidelog.wire.versions import ALL_VERSIONS, NO_VERSIONS, VERSION_MAX, VersionRange

_T = TypeVar("_T")


# Wire types


class Fixed(msgspec.Struct, frozen=True):
    """A type of fixed size: `code` is its letter in the `struct` module's formats."""

    name: str
    code: str
    size_bytes: int
    zero: int | float | bool | bytes


class Sized(msgspec.Struct, frozen=True):
    """Bytes behind their length: a string, a byte string or record batches."""

    name: str
    length_code: str
    zero: str | bytes


class ArrayOf(msgspec.Struct, frozen=True):
    """A count and that many elements."""

    element: WireType


class StructOf(msgspec.Struct, frozen=True):
    """The fields of another struct, in place."""

    struct: type[Struct]


WireType = Fixed | Sized | ArrayOf | StructOf


class Region(Protocol):
    """Records that are still in a file: sent from there, never read. Anything that knows how many bytes it stands for."""

    @property
    def count(self) -> int: ...


INT32_MAX = 2**31 - 1
INT64_MAX = 2**63 - 1

BOOL = Fixed("bool", "?", 1, zero=False)
INT8 = Fixed("int8", "b", 1, 0)
INT16 = Fixed("int16", "h", 2, 0)
UINT16 = Fixed("uint16", "H", 2, 0)
INT32 = Fixed("int32", "i", 4, 0)
UINT32 = Fixed("uint32", "I", 4, 0)
INT64 = Fixed("int64", "q", 8, 0)
FLOAT64 = Fixed("float64", "d", 8, 0.0)
UUID = Fixed("uuid", f"{UUID_BYTES}s", UUID_BYTES, ZERO_UUID)
STRING = Sized("string", "h", "")
BYTES = Sized("bytes", "i", b"")
RECORDS = Sized("records", "i", b"")

Bool = Annotated[bool, BOOL]
Int8 = Annotated[int, INT8]
Int16 = Annotated[int, INT16]
UInt16 = Annotated[int, UINT16]
Int32 = Annotated[int, INT32]
UInt32 = Annotated[int, UINT32]
Int64 = Annotated[int, INT64]
Float64 = Annotated[float, FLOAT64]
Uuid = Annotated[bytes, UUID]
String = Annotated[str, STRING]
Bytes = Annotated[bytes, BYTES]
Records = Annotated[bytes | memoryview | Region, RECORDS]
Array = list[_T]


# Fields


class Field(msgspec.Struct, frozen=True):
    """One field as declared. `default` is what an absent field stands for; lists and structs in it are never handed out."""

    name: str
    wire_type: WireType
    versions: VersionRange
    nullable: VersionRange
    default: object
    tag: int | None
    ignorable: bool
    compact: bool


_UNSET: Any = object()


class _Specifier(msgspec.Struct, frozen=True):
    """What stands right of the equals sign in a declaration."""

    versions: VersionRange
    default: Any
    nullable: str | None
    tag: int | None
    ignorable: bool
    compact: bool


@overload
def field(*, default: _T, nullable: str | None = None, ignorable: bool = False, compact: bool = True) -> _T: ...
@overload
def field(*, nullable: str | None = None, ignorable: bool = False, compact: bool = True) -> Any: ...
def field(*, default: Any = _UNSET, nullable: str | None = None, ignorable: bool = False, compact: bool = True) -> Any:
    """A field of every version. `compact=False` keeps a string's old two-byte length in flexible versions."""
    return _Specifier(ALL_VERSIONS, default, nullable, None, ignorable, compact)


@overload
def since(lowest: int, *, default: _T, nullable: str | None = None, ignorable: bool = False) -> _T: ...
@overload
def since(lowest: int, *, nullable: str | None = None, ignorable: bool = False) -> Any: ...
def since(lowest: int, *, default: Any = _UNSET, nullable: str | None = None, ignorable: bool = False) -> Any:
    """A field of version `lowest` and all that follow."""
    return _Specifier(VersionRange(lowest, VERSION_MAX), default, nullable, None, ignorable, compact=True)


def until(highest: int, *, default: _T, nullable: str | None = None, ignorable: bool = False) -> _T:
    """A field of all versions up to `highest`."""
    return cast("_T", _Specifier(VersionRange(0, highest), default, nullable, None, ignorable, compact=True))


def between(lowest: int, highest: int, *, default: _T, nullable: str | None = None, ignorable: bool = False) -> _T:
    """A field that came with version `lowest` and left after `highest`."""
    return cast("_T", _Specifier(VersionRange(lowest, highest), default, nullable, None, ignorable, compact=True))


@overload
def tagged(tag: int, lowest: int, *, default: _T, nullable: str | None = None, ignorable: bool = False) -> _T: ...
@overload
def tagged(
    tag: int, lowest: int, *, default_factory: type[_T], nullable: str | None = None, ignorable: bool = False
) -> _T: ...
def tagged(
    tag: int,
    lowest: int,
    *,
    default: Any = _UNSET,
    default_factory: Any = _UNSET,
    nullable: str | None = None,
    ignorable: bool = False,
) -> Any:
    """An optional field with a number of its own, in version `lowest` and all that follow.

    `default_factory` is the struct itself, for a field that stands for that struct's defaults when absent.
    """
    if default is _UNSET:
        default = default_factory()
    return _Specifier(VersionRange(lowest, VERSION_MAX), default, nullable, tag, ignorable, compact=True)


# Structs and messages


class _StructMeta(msgspec.StructMeta):
    """Turns the annotations and specifiers of a declaration into a `msgspec.Struct` and keeps the declaration."""

    def __new__(  # noqa: PYI034 - mypy does not allow Self in a metaclass
        mcls,
        name: str,
        bases: tuple[type, ...],
        namespace: dict[str, Any],
        *,
        api_key: int | None = None,
        versions: str | None = None,
        flexible: str | None = None,
        listeners: str = "",
        latest_version_unstable: bool = False,
    ) -> _StructMeta:
        declared: dict[str, Field] = {}
        for field_name, annotation in namespace.get("__annotations__", {}).items():
            if isinstance(annotation, str):
                if annotation.startswith("ClassVar"):
                    continue
                raise TypeError(f"{name}.{field_name}: declare messages without `from __future__ import annotations`")
            if versions is not None and field_name in Message.__annotations__:
                raise TypeError(f"{name}.{field_name}: the name is taken by a fact of the message")
            declared[field_name] = _field(field_name, annotation, namespace.pop(field_name, _UNSET))
            namespace[field_name] = _runtime_default(declared[field_name].default)
        written = _typed_class(namespace["__module__"], name)
        if written is not None:
            if written.__struct_fields__ != tuple(declared):
                raise TypeError(f"{name} was declared anew: run tools/typed_messages.py write")
            _DECLARED[written] = tuple(declared.values())
            _BASES[written] = bases
            return cast("_StructMeta", written)
        struct = super().__new__(mcls, name, bases, namespace, gc=False)
        _DECLARED[struct] = tuple(declared.values())
        if versions is not None:
            facts = cast("type[Message]", struct)
            facts.api_key = api_key if api_key is not None else -1
            facts.versions = VersionRange.parse(versions)
            facts.flexible = VersionRange.parse(flexible or "none")
            facts.listener_kinds = tuple(listeners.split())
            facts.latest_version_unstable = latest_version_unstable
        return struct

    # A typed class is what its declaration says that it is, though it inherits nothing of that.

    def __instancecheck__(self, instance: object) -> bool:
        return super().__instancecheck__(instance) or _is_declared_as(type(instance), self)

    def __subclasscheck__(self, subclass: type) -> bool:
        return super().__subclasscheck__(subclass) or _is_declared_as(subclass, self)


_DECLARED: dict[type, tuple[Field, ...]] = {}

# Of typed classes, the bases that their declarations name.
_BASES: dict[type, tuple[type, ...]] = {}

_MESSAGES_PACKAGE = "tidelog.wire.messages."


def _typed_class(module: str, name: str) -> Any:
    """The class that was written from a declaration, if there is one."""
    family = module.removeprefix(_MESSAGES_PACKAGE)
    if family not in typed.FAMILIES or family == module:
        return None
    return vars(importlib.import_module(f"{typed.__name__}.{family}")).get(name)


def _is_declared_as(struct: type, base: type) -> bool:
    return any(issubclass(each, base) for each in _BASES.get(struct, ()))


@dataclass_transform(kw_only_default=True, field_specifiers=(field, since, until, between, tagged))
class Struct(msgspec.Struct, metaclass=_StructMeta):
    """Part of a message: a group of fields."""


class Message(Struct):
    """A struct that stands on its own and has versions."""

    api_key: ClassVar[int]
    versions: ClassVar[VersionRange]
    flexible: ClassVar[VersionRange]
    listener_kinds: ClassVar[tuple[str, ...]]
    latest_version_unstable: ClassVar[bool]


class Request(Message):
    """What a client asks; `api_key` says which API, `listener_kinds` the kinds of node that answer it."""


class Response(Message):
    """What the server of an API answers."""


class MetadataRecord(Message):
    """A record of the cluster metadata log; `api_key` is its type."""


class CoordinatorKey(Message):
    """The key of a record in a coordinator's log; `api_key` is the type that key and value share."""


class CoordinatorValue(Message):
    """The value of a record in a coordinator's log."""


def fields_of(struct: type[Struct]) -> tuple[Field, ...]:
    """The declaration of a struct, in wire order."""
    return _DECLARED[struct]


def is_typed(struct: type[Struct]) -> bool:
    """Whether a declaration stands for a class of `tidelog.wire.typed`."""
    return struct in _BASES


def _field(name: str, annotation: object, specifier: object) -> Field:
    if not isinstance(specifier, _Specifier):
        specifier = _Specifier(ALL_VERSIONS, specifier, None, None, ignorable=False, compact=True)
    wire_type, optional = _wire_type(annotation)
    nullable = NO_VERSIONS
    if optional:
        nullable = VersionRange.parse(specifier.nullable) if specifier.nullable else specifier.versions
    elif specifier.nullable:
        raise TypeError(f"{name}: a field that may be null is declared as `... | None`")
    default = specifier.default
    if default is _UNSET:
        default = None if nullable == specifier.versions and wire_type is RECORDS else _zero(wire_type)
    return Field(
        name, wire_type, specifier.versions, nullable, default, specifier.tag, specifier.ignorable, specifier.compact
    )


def _wire_type(annotation: object) -> tuple[WireType, bool]:
    """The wire type of an annotation, and whether it ends in `| None`."""
    # Most are plain names of types; asking `typing` about each would be a third of what importing all messages costs.
    if (metadata := getattr(annotation, "__metadata__", None)) is not None:
        return cast("WireType", metadata[0]), False
    arguments = get_args(annotation)
    if get_origin(annotation) is list:
        element, _ = _wire_type(arguments[0])
        return ArrayOf(element), False
    if NoneType in arguments:
        (inner,) = (argument for argument in arguments if argument is not NoneType)
        return _wire_type(inner)[0], True
    if isinstance(annotation, type) and issubclass(annotation, Struct):
        return StructOf(annotation), False
    raise TypeError(f"{annotation!r} is not a type of the wire")


def _zero(wire_type: WireType) -> object:
    match wire_type:
        case Fixed(zero=zero) | Sized(zero=zero):
            return zero
        case ArrayOf():
            return []
        case StructOf(struct):
            return struct()


def _runtime_default(default: object) -> Any:
    if isinstance(default, list):
        return msgspec.field(default_factory=list)
    if isinstance(default, Struct):
        return msgspec.field(default_factory=type(default))
    return default


@cache
def has_records(struct: type[Struct]) -> bool:
    """Whether a struct, or one inside it, has a field of record batches."""
    return any(_type_has_records(each.wire_type) for each in fields_of(struct))


def _type_has_records(wire_type: WireType) -> bool:
    match wire_type:
        case ArrayOf(element):
            return _type_has_records(element)
        case StructOf(struct):
            return has_records(struct)
        case _:
            return wire_type is RECORDS
