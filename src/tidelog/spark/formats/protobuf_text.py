"""A `.proto` file as its descriptor: what a registry has of Protobuf schemas is text, and nobody has compiled it here. Pure.

    file_of('syntax = "proto3"; message Order { int64 id = 1; }', "order.proto")

What values are read and written by is taken: packages, imports, messages, enums, fields, maps, oneofs, and of the options those
that change what is on the wire. Services, extensions and all other options are passed over. Files of editions, which are newer
than proto3, and groups are refused. Whether types are there and names are taken once is left to Protobuf's own pool.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    EnumDescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
)

# A file that is nested deeper is a mistake or an attack.
DEPTH_MAX = 64
_TOKEN = re.compile(
    r"""(?P<blank>\s+|//[^\n]*|/\*.*?\*/)
    |(?P<text>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')
    |(?P<word>[A-Za-z_.][A-Za-z0-9_.]*)
    |(?P<number>-?(?:0[xX][0-9a-fA-F]+|[0-9][0-9A-Za-z_.+]*))
    |(?P<sign>[{}()\[\]<>;:,=/+-])""",
    re.DOTALL | re.VERBOSE,
)
_SCALARS = {
    name: getattr(FieldDescriptorProto, f"TYPE_{name.upper()}")
    for name in (
        "double",
        "float",
        "int32",
        "int64",
        "uint32",
        "uint64",
        "sint32",
        "sint64",
        "fixed32",
        "fixed64",
        "sfixed32",
        "sfixed64",
        "bool",
        "string",
        "bytes",
    )
}
_LABELS = {
    "optional": FieldDescriptorProto.LABEL_OPTIONAL,
    "required": FieldDescriptorProto.LABEL_REQUIRED,
    "repeated": FieldDescriptorProto.LABEL_REPEATED,
}
_CLOSING = {"{": "}", "[": "]", "(": ")", "<": ">"}


class ProtoTextError(ValueError):
    """Text that is no Protobuf file; one sentence says where."""


def file_of(text: str, name: str) -> FileDescriptorProto:
    """The descriptor of a file, with names of types as they are written. ProtoTextError."""
    found = FileDescriptorProto(name=name)
    _File(text, found).read()
    return found


class _File:
    def __init__(self, text: str, found: FileDescriptorProto) -> None:
        self._found = found
        self._tokens = _tokens(text)
        self._line = 1
        self._next = ""
        self._is_proto3 = False
        self._take()

    def read(self) -> None:
        while self._next:
            match self._take():
                case "syntax":
                    self._expect("=")
                    self._found.syntax = self._text()
                    self._expect(";")
                    if self._found.syntax not in {"proto2", "proto3"}:
                        raise self._wrong(f"the syntax is {self._found.syntax[:20]!r}")
                    self._is_proto3 = self._found.syntax == "proto3"
                case "package":
                    self._found.package = self._take()
                    self._expect(";")
                case "import":
                    if self._next in {"public", "weak"}:
                        kind = self._take()
                        own = self._found.public_dependency if kind == "public" else self._found.weak_dependency
                        own.append(len(self._found.dependency))
                    self._found.dependency.append(self._text())
                    self._expect(";")
                case "message":
                    self._message(self._found.message_type.add(), 0)
                case "enum":
                    self._enum(self._found.enum_type.add())
                case "option" | "service" | "extend":
                    self._pass_over()
                case ";":
                    continue
                case "edition":
                    raise self._wrong("files of editions are not read here")
                case other:
                    raise self._wrong(f"there is {other[:40]!r}, where a message or the like should begin")

    def _message(self, message: DescriptorProto, depth: int) -> None:
        if depth > DEPTH_MAX:
            raise self._wrong(f"messages are nested deeper than {DEPTH_MAX} levels")
        message.name = self._take()
        self._expect("{")
        optional: list[FieldDescriptorProto] = []
        while self._next != "}":
            match self._next:
                case "message":
                    self._take()
                    self._message(message.nested_type.add(), depth + 1)
                case "enum":
                    self._take()
                    self._enum(message.enum_type.add())
                case "oneof":
                    self._take()
                    self._oneof(message)
                case "option" | "reserved" | "extensions" | "extend":
                    self._take()
                    self._pass_over()
                case ";":
                    self._take()
                case "":
                    raise self._wrong(f"the message {message.name} has no end")
                case _:
                    field = self._field(message)
                    if field.proto3_optional:
                        optional.append(field)
        self._take()
        # What is optional in proto3 is alone in a oneof, and these come last.
        for field in optional:
            field.oneof_index = len(message.oneof_decl)
            message.oneof_decl.add(name=f"_{field.name}")

    def _oneof(self, message: DescriptorProto) -> None:
        index = len(message.oneof_decl)
        message.oneof_decl.add(name=self._take())
        self._expect("{")
        while self._next != "}":
            match self._next:
                case "option":
                    self._take()
                    self._pass_over()
                case ";":
                    self._take()
                case "":
                    raise self._wrong("a oneof has no end")
                case _:
                    self._field(message).oneof_index = index
        self._take()

    def _field(self, message: DescriptorProto) -> FieldDescriptorProto:
        field = message.field.add(label=FieldDescriptorProto.LABEL_OPTIONAL)
        kind = self._take()
        # A type may be called as a label is, but then a name does not follow.
        if kind in _LABELS:
            field.label = _LABELS[kind]
            field.proto3_optional = self._is_proto3 and kind == "optional"
            kind = self._take()
        if kind == "group":
            raise self._wrong("groups are not read here")
        if kind == "map" and self._next == "<":
            self._map(message, field)
        else:
            self._typed(field, kind)
            field.name = self._take()
        self._expect("=")
        field.number = self._number()
        if self._next == "[":
            self._field_options(field)
        self._expect(";")
        return field

    def _map(self, message: DescriptorProto, field: FieldDescriptorProto) -> None:
        self._expect("<")
        key = self._take()
        self._expect(",")
        value = self._take()
        self._expect(">")
        field.name = self._take()
        entry = message.nested_type.add(name=f"{''.join(_words(field.name))}Entry")
        entry.options.map_entry = True
        for number, (name, kind) in enumerate((("key", key), ("value", value)), 1):
            part = entry.field.add(name=name, number=number, label=FieldDescriptorProto.LABEL_OPTIONAL)
            self._typed(part, kind)
        field.label = FieldDescriptorProto.LABEL_REPEATED
        field.type = FieldDescriptorProto.TYPE_MESSAGE
        field.type_name = entry.name

    def _typed(self, field: FieldDescriptorProto, kind: str) -> None:
        if kind in _SCALARS:
            field.type = _SCALARS[kind]
        else:
            # Whether it is a message or an enum is found out by who looks it up.
            field.type_name = kind

    def _field_options(self, field: FieldDescriptorProto) -> None:
        opened = self._take()
        assert opened == "[", "it was looked at"
        while True:
            name = self._take()
            if name == "packed" and self._next == "=":
                self._take()
                field.options.packed = self._take() == "true"
            while self._next not in {",", "]", ""}:
                self._pass_one()
            if self._take() != ",":
                return

    def _enum(self, enum: EnumDescriptorProto) -> None:
        enum.name = self._take()
        self._expect("{")
        while self._next != "}":
            match self._take():
                case "option":
                    if self._next == "allow_alias":
                        self._take()
                        self._expect("=")
                        enum.options.allow_alias = self._take() == "true"
                    self._pass_over()
                case "reserved":
                    self._pass_over()
                case ";":
                    continue
                case "":
                    raise self._wrong(f"the enum {enum.name} has no end")
                case name:
                    self._expect("=")
                    enum.value.add(name=name, number=self._number())
                    while self._next not in {";", ""}:
                        self._pass_one()
                    self._expect(";")
        self._take()

    # What is passed over, and tokens.

    def _pass_over(self) -> None:
        """The rest of a statement: to its semicolon, or to the end of what it has in braces."""
        while self._next not in {";", ""}:
            if self._pass_one() == "{" and self._next != ";":
                return
        self._take()

    def _pass_one(self) -> str:
        """A token, or all that is between a bracket and its other one."""
        first = self._take()
        open_brackets = [_CLOSING[first]] if first in _CLOSING else []
        while open_brackets:
            token = self._take()
            if not token:
                raise self._wrong(f"a {first} has no end")
            if token == open_brackets[-1]:
                open_brackets.pop()
            elif token in _CLOSING:
                open_brackets.append(_CLOSING[token])
        return first

    def _text(self) -> str:
        token = self._take()
        if token[:1] not in {'"', "'"}:
            raise self._wrong(f"there is {token[:40]!r}, where a text in quotes should be")
        try:
            return str(ast.literal_eval(token))
        except (SyntaxError, ValueError):
            raise self._wrong(f"{token[:40]} is no text") from None

    def _number(self) -> int:
        digits = self._take()
        # With a leading zero it is in octal, which Python writes otherwise.
        for base in (0, 8):
            try:
                return int(digits, base)
            except ValueError:
                continue
        raise self._wrong(f"there is {digits[:40]!r}, where a number should be")

    def _expect(self, sign: str) -> None:
        token = self._take()
        if token != sign:
            raise self._wrong(f"there is {token[:40]!r}, where {sign!r} should be")

    def _take(self) -> str:
        """The token that is next; empty at the end."""
        token = self._next
        self._line, self._next = next(self._tokens, (self._line, ""))
        return token

    def _wrong(self, why: str) -> ProtoTextError:
        return ProtoTextError(f"the Protobuf schema is wrong near line {self._line}: {why}")


def _tokens(text: str) -> Iterator[tuple[int, str]]:
    position, line = 0, 1
    while position < len(text):
        found = _TOKEN.match(text, position)
        if found is None:
            raise ProtoTextError(f"the Protobuf schema is wrong in line {line}: there is {text[position]!r}")
        if found.lastgroup != "blank":
            yield line, found[0]
        line += found[0].count("\n")
        position = found.end()


def _words(name: str) -> list[str]:
    # As the compiler has it: a letter behind an underscore is large, and all others stay as they are.
    return [each[:1].upper() + each[1:] for each in name.split("_")]
