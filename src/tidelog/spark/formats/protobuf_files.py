"""A registry's Protobuf schema as a descriptor set, and back; and which message of it a frame means.

Registries have such schemas as text, as most programs register them, or as a descriptor in base64, as confluent-kafka for Python
does. What they refer to comes with them; Google's own files are those of the library.
"""

from __future__ import annotations

import base64
import binascii
import importlib
from collections.abc import Iterable, Sequence

from google.protobuf.descriptor import Descriptor
from google.protobuf.descriptor_pb2 import DescriptorProto, FileDescriptorProto, FileDescriptorSet
from google.protobuf.descriptor_pool import Default
from google.protobuf.message import DecodeError

from tidelog.spark.formats.protobuf_columns import ProtobufError, message_descriptor
from tidelog.spark.formats.protobuf_text import ProtoTextError, file_of
from tidelog.spark.formats.schema_registry import PROTOBUF, Schema

# The name of the file that a schema is, where it does not say one.
_ROOT = "tidelog-root.proto"
_OWN = "google/protobuf/"
_OWN_FILES = (
    "any",
    "api",
    "descriptor",
    "duration",
    "empty",
    "field_mask",
    "source_context",
    "struct",
    "timestamp",
    "type",
    "wrappers",
)


def descriptor_set_of(schema: Schema) -> bytes:
    """With all that it needs, and its own file last. ProtobufError."""
    files: dict[str, FileDescriptorProto] = {}
    try:
        for each in schema.references:
            files[each.name] = _file_of(each.text, each.name)
        root = _file_of(schema.text, _ROOT)
    except ProtoTextError as error:
        raise ProtobufError(str(error)) from None
    found = FileDescriptorSet()
    for file in (*files.values(), root):
        for name in file.dependency:
            if name not in files:
                _add_own(name, found)
    found.file.extend([*files.values(), root])
    serialised: bytes = found.SerializeToString()
    return serialised


def _file_of(text: str, name: str) -> FileDescriptorProto:
    """By the name that others refer to it by, whatever it calls itself."""
    try:
        found = FileDescriptorProto.FromString(base64.b64decode(text, validate=True))
    except (binascii.Error, ValueError, DecodeError):
        return file_of(text, name)
    found.name = name
    return found


def _add_own(name: str, found: FileDescriptorSet) -> None:
    short = name.removeprefix(_OWN).removesuffix(".proto")
    if name != f"{_OWN}{short}.proto" or short not in _OWN_FILES:
        raise ProtobufError(f"the Protobuf schema imports {name}, which it does not refer to")
    importlib.import_module(f"google.protobuf.{short}_pb2")
    _copy(name, found)


def _copy(name: str, found: FileDescriptorSet) -> None:
    if any(each.name == name for each in found.file):
        return
    file = Default().FindFileByName(name)
    for each in file.dependencies:
        _copy(each.name, found)
    file.CopyToProto(found.file.add())


def schema_of(descriptors: bytes, message: str) -> Schema:
    """Of the file that has a message, to be registered. ProtobufError where it needs others, which would have to come first."""
    try:
        files = FileDescriptorSet.FromString(descriptors).file
    except DecodeError as error:
        raise ProtobufError(f"the descriptor set is wrong: {error}") from None
    name = message_descriptor(descriptors, message).file.name
    (file,) = (each for each in files if each.name == name)
    others = [each for each in file.dependency if not each.startswith(_OWN)]
    if others:
        raise ProtobufError(
            f"the file of {message} imports {others[0]}: register both by a tool that knows your files, and leave"
            " descriptor_set= and register= out"
        )
    return Schema(PROTOBUF, base64.b64encode(file.SerializeToString()).decode())


def message_indexes(descriptor: Descriptor) -> tuple[int, ...]:
    """Where in its file a message is."""
    above = descriptor.containing_type
    if above is None:
        return (_place(descriptor, descriptor.file.message_types_by_name.values()),)
    return (*message_indexes(above), _place(descriptor, above.nested_types))


def _place(descriptor: Descriptor, siblings: Iterable[Descriptor]) -> int:
    return next(index for index, each in enumerate(siblings) if each.full_name == descriptor.full_name)


def message_name(descriptors: bytes, indexes: Sequence[int]) -> str:
    """Of the message that a frame leads to, in the last file of a set. ProtobufError where it leads nowhere."""
    file = FileDescriptorSet.FromString(descriptors).file[-1]
    names = [file.package] if file.package else []
    messages: Sequence[DescriptorProto] = file.message_type
    for index in indexes:
        if not 0 <= index < len(messages):
            raise ProtobufError(f"a frame names a message {list(indexes)}, and the schema has none there")
        names.append(messages[index].name)
        messages = messages[index].nested_type
    return ".".join(names)
