"""Reads the message schemas that Apache Kafka ships in its jars, and sets them beside our declarations.

    python tools/read_schemas.py print KAFKA_DIR FetchRequest FetchResponse     our form of these messages
    python tools/read_schemas.py check KAFKA_DIR                                where the declarations differ, exit code 1

KAFKA_DIR is any directory with Kafka's jars somewhere below it. `print` is how a new release of Kafka comes in: print the
messages that changed, move them to their family, say in its docstring what the versions brought. Only facts are read:
names, types, versions, defaults; comments are left where they are.
"""

from __future__ import annotations

import json
import re
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from tidelog.model.ids import ZERO_UUID, uuid_from_text
from tidelog.wire import schema
from tidelog.wire.messages import all_messages
from tidelog.wire.schema import ArrayOf, Fixed, Message, Sized, Struct, StructOf, WireType, fields_of
from tidelog.wire.versions import VersionRange

# Names whose words cannot be told from their capitals.
SNAKE_NAMES = {
    "KRaftVersion": "kraft_version",
    "KRaftVersionFeature": "kraft_version_feature",
    "Enable2Pc": "enable_2pc",
}

_SCHEMA_FOLDER = re.compile(r"(^|/)(message|metadata)/[A-Za-z]+\.json$")

# Schemas of other things than messages.
_NOT_MESSAGES = {"ControlRecordTypeSchema"}

PYTHON_TYPES = {
    "bool": "Bool",
    "int8": "Int8",
    "int16": "Int16",
    "uint16": "UInt16",
    "int32": "Int32",
    "uint32": "UInt32",
    "int64": "Int64",
    "float64": "Float64",
    "uuid": "Uuid",
    "string": "String",
    "bytes": "Bytes",
    "records": "Records",
}

_ZEROS = {name: getattr(schema, name.upper()).zero for name in PYTHON_TYPES}

_CONSTANTS = {ZERO_UUID: "ZERO_UUID", schema.INT32_MAX: "INT32_MAX", schema.INT64_MAX: "INT64_MAX"}

_BASES = {
    "request": "Request",
    "response": "Response",
    "metadata": "MetadataRecord",
    "coordinator-key": "CoordinatorKey",
    "coordinator-value": "CoordinatorValue",
}


class FieldFacts(NamedTuple):
    """A field in the versions that its message has.

    Versions are clipped to those in which the struct around the field can occur; `struct_versions` are those of the struct
    inside it, which are more than the field's where a struct is declared apart.
    """

    name: str
    type: str  # a name of PYTHON_TYPES, or "struct", with "[]" before it for an array
    versions: VersionRange
    nullable: VersionRange
    default: object
    default_is_written: bool
    tag: int | None
    ignorable: bool
    compact: bool
    struct_name: str
    struct_versions: VersionRange
    fields: tuple[FieldFacts, ...]


class MessageFacts(NamedTuple):
    name: str
    kind: str
    api_key: int
    versions: VersionRange
    flexible: VersionRange
    listeners: tuple[str, ...]
    latest_version_unstable: bool
    fields: tuple[FieldFacts, ...]


def read_jars(kafka_dir: Path) -> dict[str, MessageFacts]:
    """The facts of every message that Kafka's jars describe and that has versions."""
    messages: dict[str, MessageFacts] = {}
    for jar in sorted(kafka_dir.rglob("kafka-*.jar")):
        if jar.name.startswith("kafka-streams"):
            # What its instances tell each other through a group is nobody else's.
            continue
        with zipfile.ZipFile(jar) as archive:
            for name in archive.namelist():
                if name.endswith(".json") and _SCHEMA_FOLDER.search(name):
                    declared = json.loads(_without_comments(archive.read(name).decode()))
                    if declared["validVersions"] != "none" and declared["name"] not in _NOT_MESSAGES:
                        messages[declared["name"]] = _message(declared)
    return messages


def _without_comments(text: str) -> str:
    return re.sub(r"^\s*//.*$", "", text, flags=re.MULTILINE)


def _message(declared: dict[str, Any]) -> MessageFacts:
    versions = VersionRange.parse(declared["validVersions"])
    common = {struct["name"]: struct["fields"] for struct in declared.get("commonStructs", [])}
    return MessageFacts(
        declared["name"],
        declared["type"],
        declared.get("apiKey", -1),
        versions,
        VersionRange.parse(declared.get("flexibleVersions", "none")) & versions or VersionRange.parse("none"),
        tuple(declared.get("listeners", ())),
        declared.get("latestVersionUnstable", False),
        tuple(_field(each, versions, common, versions) for each in declared["fields"] if _occurs(each, versions)),
    )


def _versions(declared: dict[str, Any], within: VersionRange) -> VersionRange:
    # A tagged field may leave out the versions that its tag has.
    return VersionRange.parse(declared.get("versions") or declared["taggedVersions"]) & within


def _occurs(declared: dict[str, Any], within: VersionRange) -> bool:
    return bool(_versions(declared, within))


def _field(
    declared: dict[str, Any], within: VersionRange, common: dict[str, Any], common_versions: VersionRange
) -> FieldFacts:
    versions = _versions(declared, within)
    kind: str = declared["type"]
    element = kind.removeprefix("[]")
    struct_name = "" if element in PYTHON_TYPES else element
    inner = common.get(struct_name, declared.get("fields", []))
    inner_versions = common_versions if struct_name in common else versions
    nullable = VersionRange.parse(declared.get("nullableVersions", "none")) & versions
    if struct_name:
        kind = kind.replace(struct_name, "struct")
    default, written = _default(declared.get("default"), kind, bool(nullable) and nullable == versions)
    return FieldFacts(
        snake_name(declared["name"]),
        kind,
        versions,
        nullable or VersionRange.parse("none"),
        default,
        written,
        declared.get("tag"),
        declared.get("ignorable", False) in {True, "true"},
        declared.get("flexibleVersions") != "none",
        struct_name,
        inner_versions,
        tuple(_field(each, inner_versions, common, common_versions) for each in inner if _occurs(each, inner_versions)),
    )


def _default(text: Any, kind: str, always_nullable: bool) -> tuple[object, bool]:
    """The default, and whether the schema writes one."""
    if text is not None and str(text) == "null":
        return None, True
    if kind == "records" and always_nullable:
        return None, False
    if kind.startswith("[]"):
        return [], False
    if kind == "struct":
        return "struct", False
    if text in {None, ""} and not (kind == "string" and text == ""):
        return _ZEROS[kind], False
    match kind:
        case "bool":
            return str(text).lower() == "true", True
        case "string":
            return str(text), True
        case "float64":
            return float(text), True
        case "uuid":
            return uuid_from_text(text), True
        case "bytes":
            return b"", True
        case _:
            return int(str(text), 0), True


def snake_name(name: str) -> str:
    return SNAKE_NAMES.get(name) or re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()


# Our side


def declared_facts(message: type[Message]) -> MessageFacts:
    """The same facts, of one of our declarations."""
    kind = next((kind for kind, base in _BASES.items() if issubclass(message, getattr(schema, base))), "data")
    return MessageFacts(
        message.__name__,
        kind,
        message.api_key,
        message.versions,
        message.flexible & message.versions or VersionRange.parse("none"),
        message.listener_kinds,
        message.latest_version_unstable,
        _declared_fields(message, message.versions),
    )


def _declared_fields(struct: type[Struct], within: VersionRange) -> tuple[FieldFacts, ...]:
    facts = []
    for each in fields_of(struct):
        versions = each.versions & within
        kind, inner = _type_of(each.wire_type)
        facts.append(
            FieldFacts(
                each.name,
                kind,
                versions,
                (each.nullable & versions) or VersionRange.parse("none"),
                "struct" if isinstance(each.default, Struct) else each.default,
                False,
                each.tag,
                each.ignorable,
                each.compact,
                inner.__name__ if inner else "",
                versions,
                _declared_fields(inner, versions) if inner else (),
            )
        )
    return tuple(facts)


def _type_of(wire_type: WireType) -> tuple[str, type[Struct] | None]:
    match wire_type:
        case Fixed(name=name) | Sized(name=name):
            return name, None
        case StructOf(struct):
            return "struct", struct
        case ArrayOf(element):
            name, inner = _type_of(element)
            return f"[]{name}", inner


def differences(theirs: MessageFacts, ours: MessageFacts) -> Iterator[str]:
    """A sentence for each fact in which a declaration differs from the schema."""
    for fact in ("api_key", "versions", "flexible", "listeners", "latest_version_unstable"):
        if getattr(theirs, fact) != getattr(ours, fact):
            yield f"{theirs.name}: {fact} is {getattr(theirs, fact)} in Kafka, {getattr(ours, fact)} here"
    expected = theirs.kind if theirs.kind in _BASES else "data"
    if expected != ours.kind and not (expected == "metadata" and ours.kind == "data"):
        yield f"{theirs.name}: a {theirs.kind} in Kafka, a {ours.kind} here"
    yield from _field_differences(
        theirs.name, _clipped(theirs.fields, theirs.versions), _clipped(ours.fields, ours.versions)
    )


def _clipped(fields: tuple[FieldFacts, ...], within: VersionRange) -> tuple[FieldFacts, ...]:
    """The same fields, seen in these versions only."""
    clipped = []
    for each in fields:
        versions = each.versions & within
        if versions:
            clipped.append(
                each._replace(
                    versions=versions,
                    nullable=(each.nullable & versions) or VersionRange.parse("none"),
                    # For a field of all versions the word has no effect.
                    ignorable=each.ignorable and versions != within,
                    fields=_clipped(each.fields, versions),
                )
            )
    return tuple(clipped)


def _field_differences(where: str, theirs: tuple[FieldFacts, ...], ours: tuple[FieldFacts, ...]) -> Iterator[str]:
    names = [each.name for each in theirs]
    if names != [each.name for each in ours]:
        yield f"{where}: the fields are {names} in Kafka, {[each.name for each in ours]} here"
        return
    for their_field, our_field in zip(theirs, ours, strict=True):
        path = f"{where}.{their_field.name}"
        for fact in ("type", "versions", "nullable", "default", "tag", "ignorable", "compact"):
            if getattr(their_field, fact) != getattr(our_field, fact):
                yield f"{path}: {fact} is {getattr(their_field, fact)} in Kafka, {getattr(our_field, fact)} here"
        yield from _field_differences(path, their_field.fields, our_field.fields)


def check(kafka_dir: Path) -> list[str]:
    """Every difference between the schemas in Kafka's jars and our declarations, either way."""
    schemas = read_jars(kafka_dir)
    declarations = {message.__name__: message for message in all_messages()}
    found = [f"{name} is not declared" for name in schemas.keys() - declarations.keys()]
    found += [f"{name} is not in Kafka's jars" for name in declarations.keys() - schemas.keys()]
    for name in sorted(schemas.keys() & declarations.keys()):
        found += differences(schemas[name], declared_facts(declarations[name]))
    return found


# Printing


class Printer:
    """Prints messages of one module, sharing equal structs and telling apart different ones of the same name."""

    def __init__(self) -> None:
        self._printed: dict[str, tuple[str, tuple[FieldFacts, ...]]] = {}
        self.lines: list[str] = []

    def message(self, facts: MessageFacts) -> None:
        body = self._fields(facts.name, facts.fields, facts.versions)
        arguments = [_BASES.get(facts.kind, "Message")]
        if facts.api_key >= 0:
            arguments.append(f"api_key={facts.api_key}")
        arguments.append(f'versions="{facts.versions}"')
        if facts.flexible:
            arguments.append(f'flexible="{facts.flexible.lowest}+"')
        if facts.listeners:
            arguments.append(f'listeners="{" ".join(facts.listeners)}"')
        if facts.latest_version_unstable:
            arguments.append("latest_version_unstable=True")
        self._class(f"class {facts.name}({', '.join(arguments)}):", body)

    def _class(self, head: str, body: list[str]) -> None:
        if self.lines:
            self.lines += ["", ""]
        self.lines += [head, *(f"    {line}" for line in body or ["pass"])]

    def _struct(self, message: str, each: FieldFacts) -> str:
        """The name under which a field's struct is printed, after printing it unless that was done before."""
        plain = each.struct_name[0].upper() + each.struct_name[1:]
        api = re.sub("(Request|Response)$", "", message)
        shared = _has_all_versions(each.fields, each.struct_versions)
        name = plain
        for name in (plain, api + plain, message + plain):
            known = self._printed.get(name)
            if known is None or known == (message, each.fields) or (shared and _same(known[1], each.fields)):
                break
        if name not in self._printed:
            body = self._fields(message, each.fields, each.struct_versions)
            self._printed[name] = (message, each.fields)
            self._class(f"class {name}(Struct):", body)
        return name

    def _fields(self, message: str, fields: tuple[FieldFacts, ...], within: VersionRange) -> list[str]:
        return [self._line(message, each, within) for each in fields]

    def _line(self, message: str, each: FieldFacts, within: VersionRange) -> str:
        element = each.type.removeprefix("[]")
        annotation = self._struct(message, each) if element == "struct" else PYTHON_TYPES[element]
        struct_name = annotation
        if each.type.startswith("[]"):
            annotation = f"Array[{annotation}]"
        if each.nullable:
            annotation += " | None"
        specifier = _specifier(each, within, struct_name)
        return f"{each.name}: {annotation}{f' = {specifier}' if specifier else ''}"


def _has_all_versions(fields: tuple[FieldFacts, ...], within: VersionRange) -> bool:
    return all(each.versions == within and _has_all_versions(each.fields, each.struct_versions) for each in fields)


def _same(left: tuple[FieldFacts, ...], right: tuple[FieldFacts, ...]) -> bool:
    """Whether structs of different messages, present in all versions of each, have the same fields."""
    return len(left) == len(right) and all(
        (a.name, a.type, bool(a.nullable), a.default, a.default_is_written, a.tag, a.struct_name)
        == (b.name, b.type, bool(b.nullable), b.default, b.default_is_written, b.tag, b.struct_name)
        and (a.nullable == a.versions) == (b.nullable == b.versions)
        and _has_all_versions(b.fields, b.struct_versions)
        and _same(a.fields, b.fields)
        for a, b in zip(left, right, strict=True)
    )


def _specifier(each: FieldFacts, within: VersionRange, struct_name: str) -> str:
    options = []
    if each.nullable and each.nullable != each.versions:
        open_ended = each.nullable.highest == within.highest
        options.append(f'nullable="{each.nullable.lowest}+"' if open_ended else f'nullable="{each.nullable}"')
    if each.ignorable and each.versions != within:
        options.append("ignorable=True")
    if not each.compact:
        options.append("compact=False")
    default = _CONSTANTS.get(each.default) if isinstance(each.default, int | bytes) else None
    default = default or repr(each.default).replace("'", '"')
    if each.tag is not None:
        first = f"default_factory={struct_name}" if each.default == "struct" else f"default={default}"
        return f"tagged({', '.join([str(each.tag), str(each.versions.lowest), first, *options])})"
    left, came = each.versions.highest < within.highest, each.versions.lowest > within.lowest
    if each.default_is_written or left:
        options.insert(0, f"default={default}")
    match came, left:
        case True, True:
            return f"between({', '.join([str(each.versions.lowest), str(each.versions.highest), *options])})"
        case True, False:
            return f"since({', '.join([str(each.versions.lowest), *options])})"
        case False, True:
            return f"until({', '.join([str(each.versions.highest), *options])})"
    if options == [f"default={default}"]:
        return default
    return f"field({', '.join(options)})" if options else ""


def main(arguments: list[str]) -> int:
    match arguments:
        case ["check", kafka_dir]:
            found = check(Path(kafka_dir))
            print("\n".join(found) if found else f"{len(list(all_messages()))} declarations equal Kafka's schemas")
            return 1 if found else 0
        case ["print", kafka_dir, *names]:
            schemas = read_jars(Path(kafka_dir))
            printer = Printer()
            for name in names:
                printer.message(schemas[name])
            print("\n".join(printer.lines))
            return 0
        case _:
            print(__doc__, file=sys.stderr)
            return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
