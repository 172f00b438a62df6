"""What a subject of a registry says of values: the schema that they are read by, or written by."""

from __future__ import annotations

from typing import NamedTuple

from tidelog.spark.formats.schema_registry import (
    RegisteredSchema,
    RegistryAddress,
    RegistryError,
    Schema,
    SchemaRegistry,
)


class WritingSchema(NamedTuple):
    """What values are written by, and the id that their frames have."""

    schema: Schema
    address: RegistryAddress
    subject: str
    schema_id: int | None
    """None where the schema is not registered yet: the first who writes registers it."""

    def registered_id(self) -> int:
        """In a task. Registering a schema once more gives the id that it has."""
        if self.schema_id is not None:
            return self.schema_id
        key = (self.address, self.subject, self.schema)
        found = _registered.get(key)
        if found is None:
            found = SchemaRegistry(self.address).register(self.subject, self.schema)
            if len(_registered) >= _REGISTERED_MAX:
                _registered.clear()
            _registered[key] = found
        return found


# Of one process: a pipeline has one for each of its topics.
_REGISTERED_MAX = 1000
_registered: dict[tuple[RegistryAddress, str, Schema], int] = {}


def subject_schema(address: RegistryAddress, subject: str, version: int | None, kind: str) -> RegisteredSchema:
    """What a subject has now, or had in a version. RegistryError where it has none, or one of another kind."""
    found = SchemaRegistry(address).version(subject, version)
    check_kind(found.schema, kind, f"the subject {subject}")
    return found


def check_kind(schema: Schema, kind: str, what: str) -> None:
    if schema.kind != kind:
        raise RegistryError(f"{what} has a schema of type {schema.kind}, and not of {kind}")


def writing_schema(address: RegistryAddress, subject: str, schema: Schema, *, register: bool) -> WritingSchema:
    """For values that are written by a given schema. RegistryError where the subject does not have it, or would not take it."""
    registry = SchemaRegistry(address)
    found = registry.find(subject, schema)
    if found is None and not register:
        raise RegistryError(f"the subject {subject} does not have the schema: register=True would add it")
    if found is None:
        registry.check_compatible(subject, schema)
    return WritingSchema(schema, address, subject, found)
