"""Writes the encoder of one version of a message: one straight-line function for the whole tree of structs.

An encoder is `encode(m, add)`, where `add` takes one part of the bytes after another. Neighbouring fields of fixed size,
the length or count that follows them and the zero of an empty tagged section become one part, packed by one
`struct.Struct`. Records are a part of their own, as they were given: a file region is passed on, not read.

A field that the version does not have must hold its default, unless it is ignorable: what cannot be sent is an error here
and never a silent loss at the other end.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import cache

from tidelog.model.ids import UUID_BYTES
from tidelog.wire.decoders import STRING_BYTES_MAX
from tidelog.wire.errors import EncodeError, UnsupportedVersionError
from tidelog.wire.generated import Function, Run, Source
from tidelog.wire.schema import (
    RECORDS,
    STRING,
    UUID,
    ArrayOf,
    Field,
    Fixed,
    Message,
    Region,
    Sized,
    Struct,
    StructOf,
    WireType,
    fields_of,
)
from tidelog.wire.varint import ONE_BYTE, write_uvarint

# Arrays of numbers are mostly lists of replicas; longer ones pay for a call and the look-up of their format.
_ARRAY_PACKERS_MAX = 16


def write_encoder(message: type[Message], version: int) -> Function:
    """The encoder of a version that the message has."""
    return _Encoder(message, version).write()


class _Encoder:
    def __init__(self, message: type[Message], version: int) -> None:
        self._message = message
        self._version = version
        self._flexible = version in message.flexible
        self._source = Source(f"encode_{message.__name__}_v{version}", "m, add")
        # Where parts go: `add`, or the list of a tagged field whose size must be known first.
        self._add = "add"
        # Fields of fixed size, met but not yet packed; "x" is a zero byte.
        self._run = Run()

    def write(self) -> Function:
        self._struct(self._message, "m")
        self._flush()
        # A message without a field in this version still needs a body.
        self._source.add("return None")
        return self._source.compile()

    def _struct(self, declared: type[Struct], owner: str) -> None:
        tagged: list[Field] = []
        for each in fields_of(declared):
            with self._source.field(each.name):
                if self._version not in each.versions:
                    self._absent(each, f"{owner}.{each.name}")
                elif each.tag is not None:
                    tagged.append(each)
                else:
                    nullable = self._version in each.nullable
                    self._value(each.wire_type, f"{owner}.{each.name}", self._compact(each), nullable)
        if self._flexible:
            self._tags(tagged, owner)

    def _compact(self, each: Field) -> bool:
        return self._flexible and each.compact

    def _absent(self, each: Field, value: str) -> None:
        if each.ignorable:
            return
        with self._source.block(f"if {self._differs(each, value)}:"):
            self._source.add(f"raise {self._source.use('unsupported', _unsupported)}({value})")

    def _differs(self, each: Field, value: str) -> str:
        """The condition that a value is not the default."""
        match each.default:
            case None:
                return f"{value} is not None"
            case list():
                return f"{value} != []"
            case Struct() as default:
                return f"{value} != {self._source.use(f'default_{type(default).__name__}', default)}"
            case default:
                return f"{value} != {default!r}"

    def _value(self, wire_type: WireType, value: str, compact: bool, nullable: bool) -> None:
        match wire_type:
            case Fixed() if wire_type is UUID:
                self._uuid(value)
            case Fixed(code=code):
                self._fixed(code, value)
            case StructOf(declared):
                if nullable:
                    self._nullable_struct(declared, value)
                else:
                    self._struct(declared, self._local(value))
            case Sized():
                self._sized(wire_type, value, compact, nullable)
            case ArrayOf(element):
                self._array(element, value, compact, nullable)

    def _uuid(self, value: str) -> None:
        # struct pads and cuts byte strings to fit, without a word.
        local = self._local(value)
        with self._source.block(f"if len({local}) != {UUID_BYTES}:"):
            self._source.add(f"raise {self._source.use('wrong_uuid', _wrong_uuid)}({local})")
        self._fixed(UUID.code, local)

    def _local(self, expression: str) -> str:
        variable = self._source.variable()
        self._source.add(f"{variable} = {expression}")
        return variable

    def _fixed(self, code: str, value: str) -> None:
        self._run.append((code, value, self._source.path))

    def _flush(self) -> None:
        """Packs the run into one part."""
        self._pack(self._run)
        self._run = Run()

    def _pack(self, run: Run) -> None:
        if not run:
            return
        if not run.expressions:
            packed = repr(bytes(len(run)))
        elif run.codes == "B":
            packed = f"{self._source.use('ONE_BYTE', ONE_BYTE)}[{run.expressions[0]}]"
        else:
            packed = f"{self._source.layout(run.codes, 'pack')}({', '.join(run.expressions)})"
        self._source.add(f"{self._add}({packed})", run.serves)

    def _length(
        self, length: str, compact: bool, code: str, write_long: Callable[[int], bytes] = write_uvarint
    ) -> None:
        """Packs a length or count along with the run."""
        if not compact:
            self._fixed(code, length)
            self._flush()
            return
        source = self._source
        with source.block(f"if {length} < 128:"):
            self._pack(Run([*self._run, ("B", length, source.path)]))
        with source.block("else:"):
            self._pack(self._run)
            source.add(f"{self._add}({source.use(write_long.__name__.strip('_'), write_long)}({length}))")
        self._run = Run()

    def _null(self, compact: bool, code: str) -> None:
        """Packs the length that stands for null along with the run, which stays as it is for the other branch."""
        path = self._source.path
        self._pack(Run([*self._run, ("x", "", path) if compact else (code, "-1", path)]))

    def _sized(self, wire_type: Sized, value: str, compact: bool, nullable: bool) -> None:
        source = self._source
        data, length = self._local(value), source.variable()

        def write() -> None:
            if wire_type is STRING:
                source.add(f"{data} = {data}.encode()")
            size = f"{source.use('records_bytes', records_bytes)}({data})" if wire_type is RECORDS else f"len({data})"
            source.add(f"{length} = {size}{' + 1' if compact else ''}")
            long = _write_string_length if wire_type is STRING else write_uvarint
            self._length(length, compact, wire_type.length_code, long)
            source.add(f"{self._add}({data})")

        self._or_null(data, wire_type.length_code, compact, nullable, write)

    def _or_null(self, value: str, code: str, compact: bool, nullable: bool, write: Callable[[], None]) -> None:
        if not nullable:
            write()
            return
        with self._source.block(f"if {value} is None:"):
            self._null(compact, code)
        with self._source.block("else:"):
            write()

    def _array(self, element: WireType, value: str, compact: bool, nullable: bool) -> None:
        source = self._source
        array, length = self._local(value), source.variable()

        def write() -> None:
            source.add(f"{length} = len({array}){' + 1' if compact else ''}")
            if isinstance(element, Fixed) and element is not UUID:
                self._numbers(element, array, length, compact)
                return
            self._length(length, compact, "i")
            if element is UUID:
                source.add(f"{self._add}({source.use('pack_uuids', _pack_uuids)}({array}))")
                return
            item = source.variable()
            with source.block(f"for {item} in {array}:"):
                if isinstance(element, StructOf):
                    self._struct(element.struct, item)
                else:
                    self._value(element, item, compact, nullable=False)
                self._flush()

        self._or_null(array, "i", compact, nullable, write)

    def _numbers(self, element: Fixed, array: str, length: str, compact: bool) -> None:
        """Packs an array of numbers together with its count, in one part if it is short."""
        source = self._source
        self._flush()
        short = source.use(
            f"pack_{'compact_' if compact else ''}array_{element.name}", _array_packers(element.code, compact)
        )
        with source.block(f"if {length} < {_ARRAY_PACKERS_MAX}:"):
            source.add(f"{self._add}({short}[{length}]({length}, *{array}))")
        with source.block("else:"):
            self._length(length, compact, "i")
            source.add(f"{self._add}({source.use('pack_numbers', _pack_numbers)}({element.code!r}, {array}))")

    def _nullable_struct(self, declared: type[Struct], value: str) -> None:
        source = self._source
        self._flush()
        inner = self._local(value)
        with source.block(f"if {inner} is None:"):
            source.add(f"{self._add}({bytes((255,))!r})")
        with source.block("else:"):
            self._fixed("b", "1")
            self._struct(declared, inner)
            self._flush()

    def _tags(self, tagged: list[Field], owner: str) -> None:
        """Writes the tagged section that ends every struct of a flexible version."""
        source = self._source
        if not tagged:
            self._fixed("x", "")
            return
        self._flush()
        values = [
            (each, self._local(f"{owner}.{each.name}")) for each in sorted(tagged, key=lambda each: each.tag or 0)
        ]
        count = source.variable()
        source.add(f"{count} = {' + '.join(f'({self._differs(each, value)})' for each, value in values)}")
        source.add(f"{self._add}({source.use('ONE_BYTE', ONE_BYTE)}[{count}])")
        with source.block(f"if {count}:"):
            for each, value in values:
                with source.block(f"if {self._differs(each, value)}:"), source.field(each.name):
                    self._tagged_value(each, value)

    def _tagged_value(self, each: Field, value: str) -> None:
        source = self._source
        parts, data = source.variable(), source.variable()
        outer, self._add = self._add, f"{parts}.append"
        source.add(f"{parts} = []")
        nullable = self._version in each.nullable
        if isinstance(each.wire_type, StructOf) and nullable:
            # Unlike elsewhere, the byte that says whether a tagged struct is there is a varint: 0 is null.
            with source.block(f"if {value} is None:"):
                source.add(f"{self._add}({ONE_BYTE[0]!r})")
            with source.block("else:"):
                self._fixed("B", "1")
                self._struct(each.wire_type.struct, value)
                self._flush()
        else:
            self._value(each.wire_type, value, self._compact(each), nullable)
            self._flush()
        self._add = outer
        source.add(f"{data} = b''.join({parts})")
        source.add(f"{self._add}({write_uvarint(each.tag or 0)!r})")
        source.add(f"{self._add}({source.use('write_uvarint', write_uvarint)}(len({data})))")
        source.add(f"{self._add}({data})")


def records_bytes(records: bytes | memoryview | Region) -> int:
    """How many bytes record batches take, wherever they are."""
    if isinstance(records, bytes | bytearray):
        return len(records)
    if isinstance(records, memoryview):
        return records.nbytes
    return records.count


@cache
def _array_packers(code: str, compact: bool) -> tuple[Callable[..., bytes], ...]:
    """For each count as it is written, what packs it and the numbers behind it."""
    layouts = (
        struct.Struct(f">{'B' if compact else 'i'}{max(0, written - 1 if compact else written)}{code}")
        for written in range(_ARRAY_PACKERS_MAX)
    )
    return tuple(layout.pack for layout in layouts)


def _pack_numbers(code: str, values: list[int]) -> bytes:
    return struct.pack(f">{len(values)}{code}", *values)


def _pack_uuids(values: list[bytes]) -> bytes:
    for value in values:
        if len(value) != UUID_BYTES:
            raise _wrong_uuid(value)
    return b"".join(values)


def _wrong_uuid(value: bytes) -> EncodeError:
    return EncodeError(f"a UUID takes {UUID_BYTES} bytes, not {len(value)}")


def _write_string_length(length: int) -> bytes:
    if length - 1 > STRING_BYTES_MAX:
        raise EncodeError(f"a string of {length - 1} bytes is longer than the {STRING_BYTES_MAX} that Kafka allows")
    return write_uvarint(length)


def _unsupported(value: object) -> UnsupportedVersionError:
    return UnsupportedVersionError(f"this version cannot carry the value {value!r:.100}")
