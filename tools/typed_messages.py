"""Writes the typed classes of the messages of the data path, in `src/tidelog/wire/typed/`, from their declarations.

    python tools/typed_messages.py write      after a change to a declaration, or to this tool
    python tools/typed_messages.py check      whether what lies there is what would be written

A family of messages becomes `<family>.py` and `<family>.pxd`: one class for each struct, with its fields as numbers of C where it
is compiled, which reads, measures and writes itself in all versions. `<family>.pyi` says to type checkers that these classes are
the declared ones. The three are committed, since whoever installs from source has not yet what the declarations need.

A class answers -1 for what it cannot read or write, and says no more: the functions that `tidelog.wire.codec` generates at run
time name the field. Before each read stands a check that its bytes are there.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Iterator
from pathlib import Path

from tidelog.model.ids import ZERO_UUID
from tidelog.wire import typed
from tidelog.wire.schema import (
    BOOL,
    FLOAT64,
    INT8,
    INT16,
    INT32,
    INT64,
    RECORDS,
    STRING,
    UUID,
    ArrayOf,
    Field,
    Fixed,
    Message,
    Response,
    Sized,
    Struct,
    StructOf,
    WireType,
    fields_of,
)
from tidelog.wire.versions import VersionRange

ROOT = Path(__file__).resolve().parent.parent
DIRECTORY = ROOT / "src" / "tidelog" / "wire" / "typed"

NUMBERS = {INT8: "8", INT16: "16", INT32: "32", INT64: "64"}

# Objects that are kept for the next ones of their kind, where a message has many.
FREELIST = 64

HELPERS = (
    "all_fit32",
    "all_fit8",
    "array_length",
    "bytes_length",
    "fits8",
    "fits16",
    "fits32",
    "fits64",
    "int8",
    "int16",
    "int32",
    "int32_list",
    "int8_list",
    "int64",
    "is_uuid",
    "length_bytes",
    "put8",
    "put16",
    "put32",
    "put64",
    "put_bytes",
    "put_int32_list",
    "put_int8_list",
    "put_length",
    "put_string",
    "put_uuid",
    "put_uvarint",
    "skip_tags",
    "string_length",
    "string_size",
    "tag_at",
    "tag_count",
    "text",
    "uuid",
    "uvarint_bytes",
)

METHODS = {"read", "read_tags", "size", "write", "is_default", "count_errors"}

RECORDS_HELPERS = ("is_copied", "records_bytes", "view_of")


class Lines(list[str]):
    """Source in the making."""

    def __init__(self, depth: int = 0) -> None:
        super().__init__()
        self.depth = depth

    def add(self, *lines: str) -> None:
        self.extend("    " * self.depth + line if line else "" for line in lines)

    def block(self, opening: str) -> _Block:
        self.add(opening)
        return _Block(self)

    def when(self, condition: str) -> _Block:
        """An indented block, or none where there is no condition."""
        return self.block(f"if {condition}:") if condition else _Block(self, by=0)


class _Block:
    def __init__(self, lines: Lines, by: int = 1) -> None:
        self._lines = lines
        self._by = by

    def __enter__(self) -> None:
        self._lines.depth += self._by

    def __exit__(self, *raised: object) -> None:
        self._lines.depth -= self._by


class TypedStruct:
    """One class to be written: a declared struct, with what the messages that it is a part of have in common."""

    def __init__(self, struct: type[Struct], message: type[Message]) -> None:
        self.struct = struct
        self.name = struct.__name__
        self.fields = fields_of(struct)
        self.is_message = struct is message
        self.message = message
        self.lowest, self.highest = message.versions
        self.flexible_from = message.flexible.lowest if message.flexible.highest >= message.flexible.lowest else 1 << 20
        self.has_default_twin = False
        if taken := METHODS.intersection(field.name for field in self.fields):
            raise TypeError(f"{self.name}: a method of typed classes has the name of the field {taken.pop()!r}")

    def also_in(self, message: type[Message]) -> None:
        other = TypedStruct(self.struct, message)
        if other.flexible_from != self.flexible_from:
            raise TypeError(f"{self.name} is a part of messages that become flexible in different versions")
        self.lowest, self.highest = min(self.lowest, other.lowest), max(self.highest, other.highest)

    # --- versions ------------------------------------------------------------------------------------------------------

    @property
    def flexible(self) -> str:
        """The expression for whether the version is a flexible one."""
        if self.flexible_from <= self.lowest:
            return "True"
        return "flexible" if self.flexible_from <= self.highest else "False"

    def flexible_of(self, field: Field) -> str:
        return self.flexible if field.compact else "False"

    def condition(self, versions: VersionRange) -> str:
        """What says that a version is one of these; empty where all are, "False" where none is."""
        lowest, highest = versions
        if lowest > highest or lowest > self.highest or highest < self.lowest:
            return "False"
        parts = []
        if lowest > self.lowest:
            parts.append(f"version >= {lowest}")
        if highest < self.highest:
            parts.append(f"version <= {highest}")
        return " and ".join(parts)

    @property
    def has_records(self) -> bool:
        return any(field.wire_type is RECORDS for field in self.fields)

    @property
    def carries_records(self) -> bool:
        """Whether it has records, or one of its structs has."""
        return self.has_records or any(_carries_records(field.wire_type) for field in self.fields)

    @property
    def tagged(self) -> list[Field]:
        return sorted((field for field in self.fields if field.tag is not None), key=lambda field: field.tag or 0)


def _carries_records(wire_type: WireType) -> bool:
    match wire_type:
        case ArrayOf(element):
            return _carries_records(element)
        case StructOf(struct):
            return any(_carries_records(field.wire_type) for field in fields_of(struct))
        case _:
            return wire_type is RECORDS


def counts_errors(struct: type[Struct]) -> bool:
    """Whether a struct, or one inside it, has an error code that is counted."""
    inner = (
        field.wire_type.element if isinstance(field.wire_type, ArrayOf) else field.wire_type
        for field in fields_of(struct)
    )
    return any(field.name == "error_code" for field in fields_of(struct)) or any(
        counts_errors(each.struct) for each in inner if isinstance(each, StructOf)
    )


def is_lazy(field: Field) -> bool:
    """A struct that is made when it is first looked at: most messages leave it at its default."""
    return isinstance(field.default, Struct)


def attribute(field: Field) -> str:
    """Where a class keeps it."""
    return f"_{field.name}" if is_lazy(field) or field.wire_type is RECORDS else field.name


def literal(field: Field) -> str:
    match field.default:
        case list():
            return "..."
        case Struct():
            return "None"
        case bytes() if field.wire_type is UUID and field.default == ZERO_UUID:
            return "ZERO_UUID"
        case None | bool() | int() | float() | str() | bytes():
            return repr(field.default)
        case _:
            raise TypeError(f"{field.name}: {field.default!r} cannot be a default")


def differs(field: Field, owner: str = "self") -> str:
    """The condition that a value is not the default."""
    value = f"{owner}.{attribute(field)}"
    match field.default:
        case None:
            return f"{value} is not None"
        case list():
            return f"{value} != []"
        case Struct():
            return f"({value} is not None and not {value}.is_default())"
        case True:
            return f"not {value}"
        case False:
            return value
        case _:
            return f"{value} != {literal(field)}"


def struct_size_min(struct: type[Struct], versions: VersionRange, flexible_from: int) -> int:
    """The bytes that a struct takes at least, in whichever version."""
    return max(
        1,
        min(_size_min(StructOf(struct), version, version >= flexible_from, field=None) for version in versions.each()),
    )


def _size_min(wire_type: WireType, version: int, flexible: bool, field: Field | None) -> int:
    compact = flexible and (field is None or field.compact)
    match wire_type:
        case Fixed(size_bytes=size_bytes):
            return size_bytes
        case Sized(length_code=code):
            return 1 if compact else {"h": 2, "i": 4}[code]
        case ArrayOf():
            return 1 if compact else 4
        case StructOf(struct):
            if field is not None and version in field.nullable:
                return 1
            sizes = (
                _size_min(each.wire_type, version, flexible, each)
                for each in fields_of(struct)
                if version in each.versions and each.tag is None
            )
            return sum(sizes) + flexible


# --- the class -------------------------------------------------------------------------------------------------------------


class Writer:
    """Writes one class, as Python and as the types of it for C."""

    def __init__(self, planned: TypedStruct, structs: dict[type[Struct], TypedStruct]) -> None:
        self.planned = planned
        self._structs = structs
        self.source = Lines()
        self.types = Lines()

    def write(self) -> None:
        self._types()
        source, planned = self.source, self.planned
        base = "(TypedMessage)" if planned.is_message else ""
        source.add("", "", f"class {planned.name}{base}:")
        source.depth += 1
        source.add(f"__slots__ = ({', '.join(repr(name) for name in self._slots())},)")
        source.add(f"__struct_fields__ = ({', '.join(repr(field.name) for field in planned.fields)},)")
        if planned.is_message:
            self._facts()
        self._init()
        self._properties()
        self._special()
        self._read()
        self._size()
        self._write()
        if planned.has_default_twin:
            self._is_default()
        if issubclass(planned.message, Response) and counts_errors(planned.struct):
            self._count_errors()
        source.depth -= 1

    def _slots(self) -> Iterator[str]:
        for field in self.planned.fields:
            yield attribute(field)
            if field.wire_type is RECORDS:
                yield from (f"_{field.name}_in", f"_{field.name}_at", f"_{field.name}_end")

    def _types(self) -> None:
        types, planned = self.types, self.planned
        types.add("", "")
        types.add("@cython.no_gc")
        # Cython takes the methods of a message for overridden ones of a final class where both are said.
        if not planned.is_message:
            types.add("@cython.final", f"@cython.freelist({FREELIST})")
        types.add(f"cdef class {planned.name}{'(TypedMessage)' if planned.is_message else ''}:")
        types.depth += 1
        for field in planned.fields:
            types.add(
                f"cdef {'' if attribute(field) != field.name else 'public '}{self._c_type(field)} {attribute(field)}"
            )
            if field.wire_type is RECORDS:
                types.add(f"cdef object _{field.name}_in")
                types.add(f"cdef Py_ssize_t _{field.name}_at", f"cdef Py_ssize_t _{field.name}_end")

    def _c_type(self, field: Field) -> str:
        match field.wire_type:
            case Fixed() if field.wire_type in NUMBERS:
                return "long long"
            case Fixed() if field.wire_type is BOOL:
                return "bint"
            case Fixed() if field.wire_type is FLOAT64:
                raise TypeError(f"{field.name}: no typed message has had a float yet")
            case ArrayOf():
                return "list"
            case StructOf(struct):
                return struct.__name__
            case _:
                return "object"

    def _facts(self) -> None:
        message = self.planned.message
        self.source.add(
            f"api_key = {message.api_key}",
            f"versions = VersionRange({message.versions.lowest}, {message.versions.highest})",
            f"flexible = VersionRange({message.flexible.lowest}, {message.flexible.highest})",
            f"listener_kinds = {message.listener_kinds!r}",
            f"latest_version_unstable = {message.latest_version_unstable}",
        )

    def _init(self) -> None:
        source, fields = self.source, self.planned.fields
        parameters = ", ".join(f"{field.name}={literal(field)}" for field in fields)
        source.add("", f"def __init__(self, {parameters}):")
        with _Block(source):
            for field in fields:
                value = (
                    f"[] if {field.name} is ... else {field.name}" if isinstance(field.default, list) else field.name
                )
                source.add(f"self.{attribute(field)} = {value}")
                if field.wire_type is RECORDS:
                    self._no_view(field)

    def _no_view(self, field: Field) -> None:
        self.source.add(f"self._{field.name}_in = None", f"self._{field.name}_at = self._{field.name}_end = 0")

    def _properties(self) -> None:
        source = self.source
        for field in self.planned.fields:
            name, kept = field.name, attribute(field)
            if kept == name:
                continue
            source.add("", "@property")
            with source.block(f"def {name}(self):"):
                if field.wire_type is RECORDS:
                    source.add(f"return self.get_{name}()")
                else:
                    assert isinstance(field.wire_type, StructOf)
                    with source.block(f"if self.{kept} is None:"):
                        source.add(f"self.{kept} = {field.wire_type.struct.__name__}()")
                    source.add(f"return self.{kept}")
            source.add("", f"@{name}.setter")
            with source.block(f"def {name}(self, value):"):
                source.add(f"self.{kept} = value")
                if field.wire_type is RECORDS:
                    self._no_view(field)
            if field.wire_type is RECORDS:
                self.types.add(f"cdef object get_{name}(self)")
                source.add("")
                with source.block(f"def get_{name}(self):"):
                    with source.block(f"if self._{name}_in is not None:"):
                        source.add(f"self.{kept} = view_of(self._{name}_in, self._{name}_at, self._{name}_end)")
                        source.add(f"self._{name}_in = None")
                    source.add(f"return self.{kept}")

    def _special(self) -> None:
        self.source.add(
            "",
            "def __eq__(self, other):",
            "    return is_same(self, other)",
            "",
            "def __repr__(self):",
            "    return described(self)",
            "",
            "def __reduce__(self):",
            "    return copied(self)",
        )

    def _is_default(self) -> None:
        self.types.add("cdef bint is_default(self)")
        self.source.add("", "def is_default(self):")
        self.source.add(f"    return not ({' or '.join(differs(field) for field in self.planned.fields)})")

    def _count_errors(self) -> None:
        source = self.source
        self._signature("cdef Py_ssize_t count_errors(self, object errors) except -1", none="Py_ssize_t")
        source.add("", "def count_errors(self, errors):")
        with _Block(source):
            source.add("none = 0")
            for field in self.planned.fields:
                inner = field.wire_type.element if isinstance(field.wire_type, ArrayOf) else field.wire_type
                value = f"self.{attribute(field)}"
                if field.name == "error_code":
                    with source.block(f"if {value} == 0:"):
                        source.add("none += 1")
                    with source.block("else:"):
                        source.add(f"errors[{value}] += 1")
                elif isinstance(inner, StructOf) and counts_errors(inner.struct):
                    with source.block(f"if {value} is not None:"):
                        if isinstance(field.wire_type, ArrayOf):
                            with source.block(f"for {_item(inner.struct)} in {value}:"):
                                source.add(f"none += {_item(inner.struct)}.count_errors(errors)")
                        else:
                            source.add(f"none += {value}.count_errors(errors)")
            source.add("return none")

    def _runs(self) -> Iterator[tuple[str, list[Field]]]:
        """The fields without tags in their order, neighbours of fixed size in the same versions together."""
        together: list[Field] = []
        before = ""
        for field in self.planned.fields:
            if field.tag is not None:
                continue
            condition = self.planned.condition(field.versions)
            if condition == "False":
                yield from self._ended(before, together)
                together = []
                yield condition, [field]
                continue
            if isinstance(field.wire_type, Fixed) and together and condition == before:
                together.append(field)
                continue
            yield from self._ended(before, together)
            together, before = [field], condition
            if not isinstance(field.wire_type, Fixed):
                yield condition, together
                together = []
        yield from self._ended(before, together)

    @staticmethod
    def _ended(condition: str, together: list[Field]) -> Iterator[tuple[str, list[Field]]]:
        if together:
            yield condition, together

    def _version_line(self) -> None:
        if self.planned.is_message:
            with self.source.block(f"if version < {self.planned.lowest} or version > {self.planned.highest}:"):
                self.source.add("return -1")

    def _flexible_line(self) -> None:
        if self.planned.flexible == "flexible":
            self.source.add(f"flexible = version >= {self.planned.flexible_from}")

    # --- reading ---------------------------------------------------------------------------------------------------------

    def _read(self) -> None:
        source, planned = self.source, self.planned
        frame = planned.is_message or planned.carries_records
        source.add("", f"def read(self, data, at, end, version{', frame' if frame else ''}):")
        arguments = "self, const unsigned char *data, Py_ssize_t at, Py_ssize_t end, long version"
        self._signature(
            f"cdef Py_ssize_t read({arguments}{', object frame' if frame else ''}) except -2",
            n="longlong",
            m="longlong",
        )
        with _Block(source):
            self._version_line()
            self._flexible_line()
            for condition, fields in self._runs():
                if condition != "False":
                    with source.when(condition):
                        self._read_fields(fields)
                if condition:
                    with source.when("" if condition == "False" else "not (" + condition + ")"):
                        for field in fields:
                            self._set_default(field)
            for field in planned.tagged:
                self._set_default(field)
            if planned.flexible != "False":
                with source.when("flexible" if planned.flexible == "flexible" else ""):
                    if planned.tagged:
                        with source.block("if at < end and data[at] == 0:"):
                            source.add("at += 1")
                        with source.block("else:"):
                            source.add("at = self.read_tags(data, at, end, version)")
                    else:
                        source.add("at = skip_tags(data, at, end)")
            source.add("return at")
        if planned.tagged:
            self._read_tags()

    def _signature(self, line: str, **locals_: str) -> None:
        typed_locals = {name: f"cython.{kind}" for name, kind in locals_.items()}
        typed_locals |= {"flexible": "bint", "items": "list"}
        for struct in self._inner_structs():
            typed_locals[_item(struct)] = struct.__name__
        names = ", ".join(f"{name}={kind}" for name, kind in typed_locals.items())
        self.types.add("", f"@cython.locals({names})", line)

    def _inner_structs(self) -> list[type[Struct]]:
        found: dict[type[Struct], None] = {}
        for field in self.planned.fields:
            inner = field.wire_type.element if isinstance(field.wire_type, ArrayOf) else field.wire_type
            if isinstance(inner, StructOf):
                found[inner.struct] = None
        return list(found)

    def _set_default(self, field: Field) -> None:
        value = literal(field)
        self.source.add(f"self.{attribute(field)} = {'[]' if value == '...' else value}")
        if field.wire_type is RECORDS:
            self._no_view(field)

    def _read_fields(self, fields: list[Field]) -> None:
        source = self.source
        if not isinstance(fields[0].wire_type, Fixed):
            (field,) = fields
            self._read_value(field, field.wire_type)
            return
        sizes = [field.wire_type.size_bytes for field in fields if isinstance(field.wire_type, Fixed)]
        with source.block(f"if end - at < {sum(sizes)}:"):
            source.add("return -1")
        place = 0
        for field, size in zip(fields, sizes, strict=True):
            at = f"at + {place}" if place else "at"
            source.add(f"self.{field.name} = {self._fixed(field.wire_type, at)}")
            place += size
        source.add(f"at += {place}")

    def _fixed(self, wire_type: WireType, at: str) -> str:
        if wire_type is BOOL:
            return f"data[{at}] != 0"
        if wire_type is UUID:
            return f"uuid(data, {at})"
        assert isinstance(wire_type, Fixed)
        return f"int{NUMBERS[wire_type]}(data, {at})"

    def _read_value(self, field: Field, wire_type: WireType) -> None:
        source = self.source
        nullable = self.planned.condition(field.nullable)
        flexible = self.planned.flexible_of(field)
        match wire_type:
            case Fixed():
                self._read_fields([field])
            case Sized() if wire_type is STRING:
                source.add(f"n, at = string_length(data, at, end, {flexible})")
                self._read_sized(field, nullable, f"self.{field.name} = text(data, at, n)")
            case Sized() if wire_type is RECORDS:
                source.add(f"n, at = bytes_length(data, at, end, {flexible})")
                name = field.name
                self._read_sized(
                    field, nullable, f"self._{name}_in = frame", f"self._{name}_at = at", f"self._{name}_end = at + n"
                )
            case ArrayOf(element):
                self._read_array(field, element, nullable, flexible)
            case StructOf(struct):
                self._read_struct(field, struct, nullable)
            case _:
                raise TypeError(f"{self.planned.name}.{field.name}: no typed message has had such a field yet")

    def _read_sized(self, field: Field, nullable: str, *taking: str) -> None:
        source = self.source
        if nullable == "False":
            with source.block("if n < 0:"):
                source.add("return -1")
            if field.wire_type is RECORDS:
                source.add(f"self.{attribute(field)} = None")
            source.add(*taking, "at += n")
            return
        with source.block("if at < 0:" if nullable == "" else f"if at < 0 or (n < 0 and not ({nullable})):"):
            source.add("return -1")
        if field.wire_type is RECORDS:
            source.add(f"self.{attribute(field)} = None")
        with source.block("if n < 0:"):
            source.add(f"self.{attribute(field)} = None")
            if field.wire_type is RECORDS:
                self._no_view(field)
        with source.block("else:"):
            source.add(*taking, "at += n")

    def _read_array(self, field: Field, element: WireType, nullable: str, flexible: str) -> None:
        source = self.source
        source.add(f"n, at = array_length(data, at, end, {flexible}, {self._element_size_min(element)})")
        if nullable == "False":
            with source.block("if n < 0:"):
                source.add("return -1")
            self._read_items(field, element, flexible)
            return
        with source.block("if at < 0:" if nullable == "" else f"if at < 0 or (n < 0 and not ({nullable})):"):
            source.add("return -1")
        with source.block("if n < 0:"):
            source.add(f"self.{field.name} = None")
        with source.block("else:"):
            self._read_items(field, element, flexible)

    def _element_size_min(self, element: WireType) -> int:
        planned = self.planned
        versions = VersionRange(planned.lowest, planned.highest)
        if isinstance(element, StructOf):
            return struct_size_min(element.struct, versions, planned.flexible_from)
        return max(1, min(_size_min(element, v, v >= planned.flexible_from, None) for v in versions.each()))

    def _read_items(self, field: Field, element: WireType, flexible: str) -> None:
        source = self.source
        if element is INT32:
            source.add(f"self.{field.name} = int32_list(data, at, n)", "at += 4 * n")
            return
        if element is INT8:
            source.add(f"self.{field.name} = int8_list(data, at, n)", "at += n")
            return
        source.add("items = []")
        with source.block("while n > 0:"):
            source.add("n -= 1")
            match element:
                case Sized() if element is STRING:
                    source.add(f"m, at = string_length(data, at, end, {flexible})")
                    with source.block("if m < 0:"):
                        source.add("return -1")
                    source.add("items.append(text(data, at, m))", "at += m")
                case StructOf(struct):
                    source.add(f"{_item(struct)} = {struct.__name__}.__new__({struct.__name__})")
                    source.add(f"at = {_item(struct)}.read({self._reading(struct)})")
                    with source.block("if at < 0:"):
                        source.add("return -1")
                    source.add(f"items.append({_item(struct)})")
                case _:
                    raise TypeError(f"{self.planned.name}.{field.name}: no typed message has had such a list yet")
        source.add(f"self.{field.name} = items")

    def _reading(self, struct: type[Struct]) -> str:
        return f"data, at, end, version{', frame' if self._structs[struct].carries_records else ''}"

    def _read_struct(self, field: Field, struct: type[Struct], nullable: str) -> None:
        source = self.source
        if nullable == "False":
            self._read_one(field, struct)
            return
        if nullable:
            raise TypeError(f"{self.planned.name}.{field.name}: no typed message has had such a struct yet")
        with source.block("if at >= end:"):
            source.add("return -1")
        source.add("at += 1")
        with source.block("if int8(data, at - 1) < 0:"):
            source.add(f"self.{attribute(field)} = None")
        with source.block("else:"):
            self._read_one(field, struct)

    def _read_one(self, field: Field, struct: type[Struct]) -> None:
        source = self.source
        source.add(f"{_item(struct)} = {struct.__name__}.__new__({struct.__name__})")
        source.add(f"at = {_item(struct)}.read({self._reading(struct)})")
        with source.block("if at < 0:"):
            source.add("return -1")
        source.add(f"self.{attribute(field)} = {_item(struct)}")

    def _read_tags(self) -> None:
        source, planned = self.source, self.planned
        source.add("", "def read_tags(self, data, at, end, version):")
        arguments = "self, const unsigned char *data, Py_ssize_t at, Py_ssize_t end, long version"
        self._signature(
            f"cdef Py_ssize_t read_tags({arguments}) except -2",
            n="longlong",
            m="longlong",
            count="longlong",
            tag="longlong",
            last="longlong",
            stop="Py_ssize_t",
        )
        with _Block(source):
            self._flexible_line()
            source.add("count, at = tag_count(data, at, end)")
            with source.block("if at < 0:"):
                source.add("return -1")
            source.add("last = -1")
            with source.block("while count > 0:"):
                source.add("count -= 1", "tag, at, stop = tag_at(data, at, end, last)")
                with source.block("if at < 0:"):
                    source.add("return -1")
                source.add("last = tag")
                for field in planned.tagged:
                    condition = planned.condition(field.versions)
                    if field.wire_type is RECORDS or (
                        isinstance(field.wire_type, StructOf) and planned.condition(field.nullable) != "False"
                    ):
                        raise TypeError(f"{planned.name}.{field.name}: no typed message has had such a tag yet")
                    with source.block(f"if tag == {field.tag}{' and ' + condition if condition else ''}:"):
                        self._read_value(field, field.wire_type)
                        with source.block("if at != stop:"):
                            source.add("return -1")
                source.add("at = stop")
            source.add("return at")

    # --- writing ---------------------------------------------------------------------------------------------------------

    @property
    def _cut_parameters(self) -> tuple[str, str]:
        """What `size` and `write` take where records may be left out of the bytes."""
        if self.planned.is_message or self.planned.carries_records:
            return ", copied_max", ", copied_max, cuts"
        return "", ""

    def _size(self) -> None:
        source = self.source
        parameters, _ = self._cut_parameters
        source.add("", f"def size(self, version{parameters}):")
        self._signature(
            f"cdef Py_ssize_t size(self, long version{', Py_ssize_t copied_max' if parameters else ''}) except -2",
            n="longlong",
            total="Py_ssize_t",
            inner="Py_ssize_t",
        )
        with _Block(source):
            self._version_line()
            self._flexible_line()
            source.add("total = 0")
            for condition, fields in self._runs():
                if condition != "False":
                    with source.when(condition):
                        self._size_fields(fields)
                for field in fields if condition else ():
                    if not field.ignorable:
                        absent = "" if condition == "False" else f"not ({condition}) and "
                        with source.block(f"if {absent}{differs(field)}:"):
                            source.add("return -1")
            self._size_tags()
            source.add("return total")

    def _size_fields(self, fields: list[Field]) -> None:
        source = self.source
        if not isinstance(fields[0].wire_type, Fixed):
            (field,) = fields
            self._size_value(field)
            return
        checks: list[str] = []
        size = 0
        for field in fields:
            assert isinstance(field.wire_type, Fixed)
            size += field.wire_type.size_bytes
            if field.wire_type is UUID:
                checks.append(f"not is_uuid(self.{field.name})")
            elif field.wire_type is not BOOL:
                checks.append(f"not fits{NUMBERS[field.wire_type]}(self.{field.name})")
        if checks:
            with source.block(f"if {' or '.join(checks)}:"):
                source.add("return -1")
        source.add(f"total += {size}")

    def _size_value(self, field: Field) -> None:
        source, planned = self.source, self.planned
        nullable = planned.condition(field.nullable)
        flexible = planned.flexible_of(field)
        match field.wire_type:
            case Sized() if field.wire_type is STRING:
                allowed = {"": "True", "False": "False"}.get(nullable, nullable)
                source.add(f"n = string_size(self.{field.name}, {flexible}, {allowed})")
                with source.block("if n < 0:"):
                    source.add("return -1")
                source.add("total += n")
            case Sized():
                self._or_null(
                    f"self.get_{field.name}()",
                    nullable,
                    [
                        f"n = records_bytes(self._{field.name})",
                        f"total += length_bytes(n, {flexible})",
                        f"if is_copied(self._{field.name}, n, copied_max):",
                        "    total += n",
                    ],
                    [f"total += length_bytes(-1, {flexible})"],
                )
            case ArrayOf(element):
                self._or_null(
                    f"self.{field.name}",
                    nullable,
                    [
                        f"total += length_bytes(len(self.{field.name}), {flexible})",
                        *self._size_items(field, element, flexible),
                    ],
                    [f"total += length_bytes(-1, {flexible})"],
                )
            case StructOf(struct):
                self._size_struct(field, struct, nullable)
            case _:
                raise TypeError(f"{planned.name}.{field.name}: no typed message has had such a field yet")

    def _or_null(self, value: str, nullable: str, there: list[str], null: list[str]) -> None:
        source = self.source
        with source.block(f"if {value} is None:"):
            if nullable == "False":
                source.add("return -1")
            else:
                if nullable:
                    with source.block(f"if not ({nullable}):"):
                        source.add("return -1")
                source.add(*null)
        with source.block("else:"):
            source.add(*there)

    def _size_items(self, field: Field, element: WireType, flexible: str) -> list[str]:
        name = f"self.{field.name}"
        if element is INT32:
            return [f"if not all_fit32({name}):", "    return -1", f"total += 4 * len({name})"]
        if element is INT8:
            return [f"if not all_fit8({name}):", "    return -1", f"total += len({name})"]
        if element is STRING:
            return [
                f"for text_item in {name}:",
                f"    n = string_size(text_item, {flexible}, False)",
                "    if n < 0:",
                "        return -1",
                "    total += n",
            ]
        assert isinstance(element, StructOf)
        item = _item(element.struct)
        return [
            f"for {item} in {name}:",
            f"    if {item} is None:",
            "        return -1",
            f"    inner = {item}.size({self._sizing(element.struct)})",
            "    if inner < 0:",
            "        return -1",
            "    total += inner",
        ]

    def _sizing(self, struct: type[Struct]) -> str:
        return f"version{', copied_max' if self._structs[struct].carries_records else ''}"

    def _size_struct(self, field: Field, struct: type[Struct], nullable: str) -> None:
        value = f"self.{attribute(field)}"
        there = [f"inner = {value}.size({self._sizing(struct)})", "if inner < 0:", "    return -1", "total += inner"]
        if nullable == "False":
            if is_lazy(field):
                with self.source.block(f"if {value} is None:"):
                    self.source.add(f"{value} = {struct.__name__}()")
            self._or_null(value, "False", there, [])
        else:
            self._or_null(value, nullable, ["total += 1", *there], ["total += 1"])

    def _size_tags(self) -> None:
        source, planned = self.source, self.planned
        if planned.flexible == "False":
            return
        with source.when("flexible" if planned.flexible == "flexible" else ""):
            source.add("total += 1")
            for field in planned.tagged:
                condition = planned.condition(field.versions)
                with source.block(f"if {condition + ' and ' if condition else ''}{differs(field)}:"):
                    self._tag_size(field)
                    source.add("if inner < 0:", "    return -1")
                    source.add(f"total += {_uvarint_bytes(field.tag or 0)} + uvarint_bytes(inner) + inner")
        for field in planned.tagged:
            absent = _negated(planned.condition(field.versions))
            if absent and not field.ignorable:
                with source.block(f"if ({absent}) and {differs(field)}:"):
                    source.add("return -1")

    def _tag_size(self, field: Field) -> None:
        """Sets `inner` to the bytes of a tagged field's value, -1 where it has none."""
        source, planned = self.source, self.planned
        value = f"self.{attribute(field)}"
        match field.wire_type:
            case Fixed() if field.wire_type is UUID:
                source.add(f"inner = 16 if is_uuid({value}) else -1")
            case Fixed() if field.wire_type in NUMBERS:
                number = NUMBERS[field.wire_type]
                source.add(f"inner = {field.wire_type.size_bytes} if fits{number}({value}) else -1")
            case Sized() if field.wire_type is STRING:
                nullable = planned.condition(field.nullable)
                source.add(f"inner = string_size({value}, True, {nullable != 'False'})")
            case StructOf(struct):
                source.add(f"inner = {value}.size({self._sizing(struct)})")
            case ArrayOf(element):
                source.add(f"if {value} is None:", "    return -1")
                source.add(f"inner = length_bytes(len({value}), True)")
                source.add(*self._tag_items(field, element))
            case _:
                raise TypeError(f"{planned.name}.{field.name}: no typed message has had such a tag yet")

    def _tag_items(self, field: Field, element: WireType) -> list[str]:
        if not isinstance(element, StructOf):
            raise TypeError(f"{self.planned.name}.{field.name}: no typed message has had such a tag yet")
        item = _item(element.struct)
        return [
            f"for {item} in self.{field.name}:",
            f"    if {item} is None:",
            "        return -1",
            f"    n = {item}.size({self._sizing(element.struct)})",
            "    if n < 0:",
            "        return -1",
            "    inner += n",
        ]

    def _write(self) -> None:
        source, planned = self.source, self.planned
        _, parameters = self._cut_parameters
        source.add("", f"def write(self, out, at, version{parameters}):")
        arguments = "self, unsigned char *out, Py_ssize_t at, long version"
        self._signature(
            f"cdef Py_ssize_t write({arguments}{', Py_ssize_t copied_max, list cuts' if parameters else ''}) except -2",
            n="longlong",
            inner="Py_ssize_t",
        )
        with _Block(source):
            self._flexible_line()
            for condition, fields in self._runs():
                if condition != "False":
                    with source.when(condition):
                        self._write_fields(fields)
            if planned.flexible != "False":
                with source.when("flexible" if planned.flexible == "flexible" else ""):
                    self._write_tags()
            source.add("return at")

    def _write_fields(self, fields: list[Field]) -> None:
        source = self.source
        if not isinstance(fields[0].wire_type, Fixed):
            (field,) = fields
            self._write_value(field)
            return
        place = 0
        for field in fields:
            assert isinstance(field.wire_type, Fixed)
            source.add(self._put(field, f"at + {place}" if place else "at"))
            place += field.wire_type.size_bytes
        source.add(f"at += {place}")

    def _put(self, field: Field, at: str) -> str:
        if field.wire_type is BOOL:
            return f"put8(out, {at}, 1 if self.{field.name} else 0)"
        if field.wire_type is UUID:
            return f"put_uuid(out, {at}, self.{field.name})"
        assert isinstance(field.wire_type, Fixed)
        return f"put{NUMBERS[field.wire_type]}(out, {at}, self.{field.name})"

    def _write_value(self, field: Field) -> None:
        source, planned = self.source, self.planned
        flexible = planned.flexible_of(field)
        nullable = planned.condition(field.nullable)
        match field.wire_type:
            case Sized() if field.wire_type is STRING:
                source.add(f"at = put_string(out, at, self.{field.name}, {flexible})")
            case Sized():
                name = f"self._{field.name}"
                self._put_or_null(
                    name,
                    nullable,
                    [
                        f"n = records_bytes({name})",
                        f"at = put_length(out, at, n, {flexible})",
                        f"if is_copied({name}, n, copied_max):",
                        f"    at = put_bytes(out, at, {name})",
                        "else:",
                        "    cuts.append(at)",
                        f"    cuts.append({name})",
                    ],
                    [f"at = put_length(out, at, -1, {flexible})"],
                )
            case ArrayOf(element):
                self._put_or_null(
                    f"self.{field.name}",
                    nullable,
                    [
                        f"at = put_length(out, at, len(self.{field.name}), {flexible})",
                        *self._write_items(field, element, flexible),
                    ],
                    [f"at = put_length(out, at, -1, {flexible})"],
                )
            case StructOf(struct):
                writing = f"at = self.{attribute(field)}.write({self._writing(struct)})"
                if nullable == "False":
                    source.add(writing)
                else:
                    self._put_or_null(
                        f"self.{attribute(field)}",
                        nullable,
                        ["put8(out, at, 1)", "at += 1", writing],
                        ["put8(out, at, -1)", "at += 1"],
                    )
            case _:
                raise TypeError(f"{planned.name}.{field.name}: no typed message has had such a field yet")

    def _put_or_null(self, value: str, nullable: str, there: list[str], null: list[str]) -> None:
        source = self.source
        if nullable == "False":
            source.add(*there)
            return
        with source.block(f"if {value} is None:"):
            source.add(*null)
        with source.block("else:"):
            source.add(*there)

    def _writing(self, struct: type[Struct]) -> str:
        return f"out, at, version{', copied_max, cuts' if self._structs[struct].carries_records else ''}"

    def _write_items(self, field: Field, element: WireType, flexible: str) -> list[str]:
        if element is INT32:
            return [f"at = put_int32_list(out, at, self.{field.name})"]
        if element is INT8:
            return [f"at = put_int8_list(out, at, self.{field.name})"]
        if element is STRING:
            return [f"for text_item in self.{field.name}:", f"    at = put_string(out, at, text_item, {flexible})"]
        assert isinstance(element, StructOf)
        item = _item(element.struct)
        return [f"for {item} in self.{field.name}:", f"    at = {item}.write({self._writing(element.struct)})"]

    def _write_tags(self) -> None:
        source, planned = self.source, self.planned
        if not planned.tagged:
            source.add("put8(out, at, 0)", "at += 1")
            return
        source.add("n = 0")
        conditions = {}
        for field in planned.tagged:
            condition = planned.condition(field.versions)
            conditions[field.name] = f"{condition + ' and ' if condition else ''}{differs(field)}"
            with source.block(f"if {conditions[field.name]}:"):
                source.add("n += 1")
        source.add("put8(out, at, n)", "at += 1")
        with source.block("if n:"):
            for field in planned.tagged:
                with source.block(f"if {conditions[field.name]}:"):
                    self._tag_size(field)
                    source.add(f"at = put_uvarint(out, at, {field.tag})", "at = put_uvarint(out, at, inner)")
                    if isinstance(field.wire_type, Fixed):
                        self._write_fields([field])
                    else:
                        self._write_value(field)


def _item(struct: type[Struct]) -> str:
    return f"item_{struct.__name__}"


def _negated(condition: str) -> str:
    """Empty where a condition always holds."""
    if condition == "False":
        return "True"
    return f"not ({condition})" if condition else ""


def _uvarint_bytes(value: int) -> int:
    return 1 if value < 0x80 else 2


# --- a family ------------------------------------------------------------------------------------------------------------------

SOURCE_HEAD = '''\
# cython: annotation_typing=False, auto_pickle=False, binding=False, nonecheck=False
# mypy: ignore-errors
"""The typed messages of `tidelog.wire.messages.{family}`. Written by tools/typed_messages.py; not to be edited."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.model.ids import ZERO_UUID
from tidelog.wire.typed.message import TypedMessage, copied, described, is_same
from tidelog.wire.versions import VersionRange

if TYPE_CHECKING:
    import cython
else:
    from tidelog import plain_cython as cython

if cython.compiled:
    from cython.cimports.tidelog.wire.typed.fields_inline import (
{helpers}
    )
{compiled}else:
    from tidelog.wire.typed.fields import (
{helpers}
    )
{plain}'''

TYPES_HEAD = """\
# The types of `{family}`, for compiled modules. Written by tools/typed_messages.py; not to be edited.

cimport cython

from tidelog.wire.typed.message cimport TypedMessage
"""

STUB_HEAD = '''\
"""To a type checker the typed messages are the declared ones. Written by tools/typed_messages.py; not to be edited."""

'''


def structs_of(messages: list[type[Message]]) -> dict[type[Struct], TypedStruct]:
    """All structs of these messages, each after those that are parts of it."""
    found: dict[type[Struct], TypedStruct] = {}

    def visit(struct: type[Struct], message: type[Message]) -> None:
        for field in fields_of(struct):
            inner = field.wire_type.element if isinstance(field.wire_type, ArrayOf) else field.wire_type
            if isinstance(inner, StructOf):
                visit(inner.struct, message)
                if is_lazy(field):
                    found[inner.struct].has_default_twin = True
        if struct in found:
            found[struct].also_in(message)
        else:
            found[struct] = TypedStruct(struct, message)

    for message in messages:
        visit(message, message)
    return found


def written(family: str, names: tuple[str, ...]) -> dict[str, str]:
    """The files of a family, by name."""
    module = importlib.import_module(f"tidelog.wire.messages.{family}")
    structs = structs_of([getattr(module, name) for name in names])
    source, types = Lines(), Lines()
    for planned in structs.values():
        writer = Writer(planned, structs)
        writer.write()
        source.extend(writer.source)
        types.extend(writer.types)
    text = "\n".join(source)
    words = set(text.replace("(", " ").replace(")", " ").replace(",", " ").replace("=", " ").split())
    used = [name for name in HELPERS if name in words]
    records = [name for name in RECORDS_HELPERS if name in words]
    head = SOURCE_HEAD.format(
        family=family,
        helpers="\n".join(f"        {name}," for name in used),
        compiled=f"    from cython.cimports.tidelog.wire.typed.message import {', '.join(records)}\n"
        if records
        else "",
        plain=f"    from tidelog.wire.typed.message import {', '.join(records)}\n" if records else "",
    )
    if "ZERO_UUID" not in words:
        head = head.replace("from tidelog.model.ids import ZERO_UUID\n", "")
    types_head = TYPES_HEAD.format(family=family)
    stub = STUB_HEAD.format(family=family) + f"from tidelog.wire.messages.{family} import (\n"
    stub += "".join(f"    {planned.name} as {planned.name},\n" for planned in structs.values()) + ")\n"
    return {
        f"{family}.py": head + text + "\n",
        f"{family}.pxd": types_head + "\n".join(types) + "\n",
        f"{family}.pyi": stub,
    }


def all_files() -> dict[str, str]:
    files: dict[str, str] = {}
    for family, names in MESSAGES.items():
        files |= written(family, names)
    return files


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("command", choices=("write", "check"))
    command = parser.parse_args().command
    # The declarations themselves are wanted, also where a class that was written of an older one does not fit any more.
    families, typed.FAMILIES = typed.FAMILIES, frozenset()
    stale = [name for name, text in all_files().items() if _text(DIRECTORY / name) != text]
    if set(MESSAGES) != families:
        print(f"tidelog.wire.typed names the families {sorted(families)}, not {sorted(MESSAGES)}")
        return 1
    for name in stale:
        if command == "write":
            (DIRECTORY / name).write_text(all_files()[name])
        print(f"{name} {'is written' if command == 'write' else 'is not what its declaration gives: write it again'}")
    return 1 if stale and command == "check" else 0


def _text(path: Path) -> str:
    return path.read_text() if path.exists() else ""


MESSAGES: dict[str, tuple[str, ...]] = {
    "consumer_groups": ("ConsumerGroupHeartbeatRequest", "ConsumerGroupHeartbeatResponse"),
    "fetch": ("FetchRequest", "FetchResponse"),
    "group_offsets": ("OffsetCommitRequest", "OffsetCommitResponse"),
    "groups_classic": ("HeartbeatRequest", "HeartbeatResponse"),
    "headers": ("RequestHeader", "ResponseHeader"),
    "produce": ("ProduceRequest", "ProduceResponse"),
    "share_fetch": (
        "ShareFetchRequest",
        "ShareFetchResponse",
        "ShareAcknowledgeRequest",
        "ShareAcknowledgeResponse",
    ),
    "transactions": (
        "AddPartitionsToTxnRequest",
        "AddPartitionsToTxnResponse",
        "EndTxnRequest",
        "EndTxnResponse",
        "TxnOffsetCommitRequest",
        "TxnOffsetCommitResponse",
    ),
}


if __name__ == "__main__":
    sys.exit(main())
