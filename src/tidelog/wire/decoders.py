"""Writes the decoder of one version of a message: one straight-line function for the whole tree of structs.

A decoder is `decode(buffer, p, end) -> (message, p)`. Neighbouring fields of fixed size are read with one
`struct.Struct`, together with the length, count or tag count that follows them; the one byte that a varint nearly always
is counts as fixed, and its rare rest is read apart. What an old version lacks is filled in with its default.

Bytes are trusted in nothing. Reading past the end raises by itself (`struct.error`, `IndexError`), a slice is checked
before it is taken, and a count is checked against the bytes that its elements need at least, so that a lie about
length cannot make the decoder allocate or loop. `tidelog.wire.codec` turns what is raised here into `MalformedError`.
"""

from __future__ import annotations

import struct
from collections.abc import Callable

from tidelog.model.ids import UUID_BYTES
from tidelog.wire.errors import MalformedError
from tidelog.wire.generated import Function, Run, Source
from tidelog.wire.schema import (
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
    has_records,
)
from tidelog.wire.varint import Buffer, read_uvarint, read_uvarint_rest

# Kafka's limit, in the compact form too, where the length could say more.
STRING_BYTES_MAX = 0x7FFF

# Arrays of numbers are mostly lists of replicas; longer ones pay for a call and the look-up of their format.
_ARRAY_UNPACKERS_MAX = 16


def write_decoder(message: type[Message], version: int) -> Function:
    """The decoder of a version that the message has."""
    return _Decoder(message, version).write()


class _Decoder:
    def __init__(self, message: type[Message], version: int) -> None:
        self._message = message
        self._version = version
        self._flexible = version in message.flexible
        self._source = Source(f"decode_{message.__name__}_v{version}", "b, p, end")
        # Fields of fixed size, met but not yet read.
        self._run = Run()

    def write(self) -> Function:
        if has_records(self._message):
            self._source.add("view = memoryview(b)")
        built = self._struct(self._message)
        self._flush()
        self._source.add(f"return {built}, p")
        return self._source.compile()

    def _struct(self, declared: type[Struct]) -> str:
        """Reads a struct's fields; gives the expression that builds it from the variables they are in."""
        values: list[str | None] = []
        tagged: list[tuple[Field, str]] = []
        for each in fields_of(declared):
            if self._version not in each.versions:
                values.append(None)
            elif each.tag is not None:
                variable = self._source.variable()
                tagged.append((each, variable))
                values.append(variable)
            else:
                with self._source.field(each.name):
                    values.append(self._value(each.wire_type, self._compact(each), self._version in each.nullable))
        if self._flexible:
            self._tags(tagged)
        while values and values[-1] is None:
            values.pop()
        defaults = [self._default(each) for each in fields_of(declared)]
        arguments = [value or default for value, default in zip(values, defaults, strict=False)]
        return f"{self._source.use(declared.__name__, declared)}({', '.join(arguments)})"

    def _compact(self, each: Field) -> bool:
        return self._flexible and each.compact

    def _default(self, each: Field) -> str:
        match each.default:
            case list():
                return "[]"
            case Struct() as value:
                return f"{self._source.use(type(value).__name__, type(value))}()"
            case None | bool() | int() | float() | str() | bytes() as value:
                return repr(value)
            case value:
                raise TypeError(f"{self._message.__name__}.{each.name}: {value!r} cannot be a default")

    def _value(self, wire_type: WireType, compact: bool, nullable: bool) -> str:
        """Reads one value of any type; gives the expression, a variable or a struct's construction, that holds it."""
        match wire_type:
            case Fixed(code=code):
                return self._fixed(code)
            case StructOf(declared):
                return self._nullable_struct(declared) if nullable else self._struct(declared)
            case Sized():
                return self._sized(wire_type, compact, nullable)
            case ArrayOf(element):
                return self._array(element, compact, nullable)

    def _fixed(self, code: str) -> str:
        variable = self._source.variable()
        self._run.append((code, variable, self._source.path))
        return variable

    def _flush(self) -> None:
        """Reads the fields of the run."""
        if not self._run:
            return
        source, run = self._source, self._run
        self._run = Run()
        if run.codes == "B":
            source.add(f"{run.expressions[0]} = b[p]", run.serves)
            source.add("p += 1")
            return
        unpack = source.layout(run.codes, "unpack_from")
        source.add(f"{', '.join(run.expressions)}, = {unpack}(b, p)", run.serves)
        source.add(f"p += {struct.calcsize('>' + run.codes)}")

    def _length(self, compact: bool, code: str, rest: str = "read_uvarint_rest") -> str:
        """Reads a length or count along with the run. Compact ones are one more than they mean, and 0 is null."""
        length = self._fixed("B" if compact else code)
        self._flush()
        if compact:
            with self._source.block(f"if {length} > 127:"):
                self._source.add(f"{length}, p = {self._use(rest)}(b, p, {length})")
        return length

    def _use(self, name: str) -> str:
        return self._source.use(name, _HELPERS[name])

    def _sized(self, wire_type: Sized, compact: bool, nullable: bool) -> str:
        source = self._source
        is_string = wire_type is STRING
        length = self._length(
            compact, wire_type.length_code, "read_string_length" if is_string else "read_uvarint_rest"
        )
        value = source.variable()

        def take() -> None:
            source.add(f"q = p + {length}{' - 1' if compact else ''}")
            with source.block("if not p <= q <= end:"):
                source.add(f"raise {self._use('wrong_length')}({length}{' - 1' if compact else ''}, p, end)")
            if is_string:
                source.add(f"{value} = str(b[p:q], 'utf-8')")
            elif wire_type is RECORDS:
                source.add(f"{value} = view[p:q]")
            else:
                source.add(f"{value} = bytes(b[p:q])")
            source.add("p = q")

        self._or_null(value, length, compact, nullable, take)
        return value

    def _or_null(self, value: str, length: str, compact: bool, nullable: bool, take: Callable[[], None]) -> None:
        if not nullable:
            take()
            return
        with self._source.block(f"if {length} == {0 if compact else -1}:"):
            self._source.add(f"{value} = None")
        with self._source.block("else:"):
            take()

    def _array(self, element: WireType, compact: bool, nullable: bool) -> str:
        source = self._source
        length = self._length(compact, "i")
        value = source.variable()

        def take() -> None:
            if compact:
                source.add(f"{length} -= 1")
            size_min = max(1, self._size_min(element, compact))
            with source.block(f"if not 0 <= {length} * {size_min} <= end - p:"):
                source.add(f"raise {self._use('wrong_count')}({length}, p, end)")
            match element:
                case Fixed() if element is UUID:
                    source.add(f"{value}, p = {self._use('read_uuids')}({length}, b, p)")
                case Fixed(code=code, size_bytes=size_bytes):
                    unpack = source.use(f"unpack_array_{code.replace('?', 'o')}", _ARRAY_UNPACKERS[code])
                    with source.block(f"if {length} <= {_ARRAY_UNPACKERS_MAX}:"):
                        source.add(f"{value} = list({unpack}[{length}](b, p))")
                    with source.block("else:"):
                        source.add(f"{value} = {self._use('read_numbers')}({code!r}, {length}, b, p)")
                    source.add(f"p += {length} * {size_bytes}")
                case _:
                    source.add(f"{value} = []")
                    with source.block(f"for _ in range({length}):"):
                        item = self._value(element, compact, nullable=False)
                        self._flush()
                        source.add(f"{value}.append({item})")

        self._or_null(value, length, compact, nullable, take)
        return value

    def _nullable_struct(self, declared: type[Struct]) -> str:
        flag = self._fixed("b")
        self._flush()
        value = self._source.variable()
        with self._source.block(f"if {flag} < 0:"):
            self._source.add(f"{value} = None")
        with self._source.block("else:"):
            built = self._struct(declared)
            self._flush()
            self._source.add(f"{value} = {built}")
        return value

    def _tags(self, tagged: list[tuple[Field, str]]) -> None:
        """Reads the tagged section that ends every struct of a flexible version. Tags that we do not know are skipped."""
        source = self._source
        count = self._fixed("B")
        self._flush()
        for each, variable in tagged:
            source.add(f"{variable} = {self._default(each)}")
        with source.block(f"if {count}:"):
            if not tagged:
                source.add(f"p = {self._use('skip_tags')}(b, p, end, {count})")
                return
            tag, stop, last = source.variable(), source.variable(), source.variable()
            source.add(f"{count}, p = {self._use('read_tag_count')}(b, p, end, {count})")
            source.add(f"{last} = -1")
            with source.block(f"for _ in range({count}):"):
                source.add(f"{tag}, p, {stop} = {self._use('read_tag')}(b, p, end, {last})")
                source.add(f"{last} = {tag}")
                for each, variable in tagged:
                    with source.block(f"if {tag} == {each.tag}:"), source.field(each.name):
                        self._tagged_value(each, variable)
                        self._flush()
                        with source.block(f"if p != {stop}:"):
                            source.add(f"raise {self._use('wrong_tag_size')}()")
                source.add(f"p = {stop}")

    def _tagged_value(self, each: Field, variable: str) -> None:
        source = self._source
        nullable = self._version in each.nullable
        if isinstance(each.wire_type, StructOf) and nullable:
            # Unlike elsewhere, the byte that says whether a tagged struct is there is a varint: 0 is null.
            flag = self._length(compact=True, code="B")
            with source.block(f"if {flag}:"):
                built = self._struct(each.wire_type.struct)
                self._flush()
                source.add(f"{variable} = {built}")
            with source.block("else:"):
                source.add(f"{variable} = None")
            return
        value = self._value(each.wire_type, self._compact(each), nullable)
        self._flush()
        source.add(f"{variable} = {value}")

    def _size_min(self, wire_type: WireType, compact: bool) -> int:
        """The bytes that a value takes at least."""
        match wire_type:
            case Fixed(size_bytes=size_bytes):
                return size_bytes
            case Sized(length_code=code):
                return 1 if compact else struct.calcsize(">" + code)
            case ArrayOf():
                return 1 if compact else 4
            case StructOf(declared):
                present = (each for each in fields_of(declared) if self._version in each.versions and each.tag is None)
                sizes = (
                    1
                    if isinstance(each.wire_type, StructOf) and self._version in each.nullable
                    else self._size_min(each.wire_type, self._compact(each))
                    for each in present
                )
                return sum(sizes) + (1 if self._flexible else 0)


# What generated code calls: never on the way of a short, valid message except for arrays of numbers.


def _read_string_length(buffer: Buffer, position: int, first: int) -> tuple[int, int]:
    length, position = read_uvarint_rest(buffer, position, first)
    if length - 1 > STRING_BYTES_MAX:
        raise MalformedError(f"a string of {length - 1} bytes is longer than Kafka allows")
    return length, position


def _read_numbers(code: str, count: int, buffer: Buffer, position: int) -> list[int]:
    return list(struct.unpack_from(f">{count}{code}", buffer, position))


def _read_uuids(count: int, buffer: Buffer, position: int) -> tuple[list[bytes], int]:
    end = position + count * UUID_BYTES
    return [bytes(buffer[start : start + UUID_BYTES]) for start in range(position, end, UUID_BYTES)], end


def _read_tag_count(buffer: Buffer, position: int, end: int, count: int) -> tuple[int, int]:
    if count > 127:
        count, position = read_uvarint_rest(buffer, position, count)
    # A tag and its size take a byte each at least.
    if count * 2 > end - position:
        raise _wrong_count(count, position, end)
    return count, position


def _read_tag(buffer: Buffer, position: int, end: int, last: int) -> tuple[int, int, int]:
    """A tag, the position of its value and the position after it."""
    tag, position = read_uvarint(buffer, position)
    size, position = read_uvarint(buffer, position)
    if tag <= last:
        raise MalformedError(f"tag {tag} comes after tag {last}: tags must rise")
    if size > end - position:
        raise _wrong_length(size, position, end)
    return tag, position, position + size


def _skip_tags(buffer: Buffer, position: int, end: int, count: int) -> int:
    count, position = _read_tag_count(buffer, position, end, count)
    last = -1
    for _ in range(count):
        last, _value_position, position = _read_tag(buffer, position, end, last)
    return position


def _wrong_length(length: int, position: int, end: int) -> MalformedError:
    if length == -1:
        return MalformedError("null is not allowed here")
    if length < 0:
        return MalformedError(f"a length of {length} is negative")
    return MalformedError(f"a length of {length} bytes goes past the {max(0, end - position)} that are left")


def _wrong_count(count: int, position: int, end: int) -> MalformedError:
    if count == -1:
        return MalformedError("null is not allowed here")
    if count < 0:
        return MalformedError(f"a count of {count} is negative")
    return MalformedError(f"{count} elements do not fit into the {max(0, end - position)} bytes that are left")


def _wrong_tag_size() -> MalformedError:
    return MalformedError("the value of a tag does not fill the size that it was given")


_ARRAY_UNPACKERS = {
    code: tuple(struct.Struct(f">{count}{code}").unpack_from for count in range(_ARRAY_UNPACKERS_MAX + 1))
    for code in "?bhHiIqd"
}

_HELPERS = {
    "read_uvarint_rest": read_uvarint_rest,
    "read_string_length": _read_string_length,
    "read_numbers": _read_numbers,
    "read_uuids": _read_uuids,
    "read_tag_count": _read_tag_count,
    "read_tag": _read_tag,
    "skip_tags": _skip_tags,
    "wrong_length": _wrong_length,
    "wrong_count": _wrong_count,
    "wrong_tag_size": _wrong_tag_size,
}
