"""Schemas by the ids of frames, kept by each process that decodes: a schema never changes under its id."""

from __future__ import annotations

from collections import OrderedDict

from tidelog.spark.formats.schema_registry import (
    RegistryAddress,
    RegistryError,
    Schema,
    SchemaRegistry,
    UnknownSchemaError,
)

# One topic has a few; what reads many topics of one registry has hundreds.
SCHEMAS_MAX = 1000
# Each costs a request. So many in one task are another registry's, or no frames at all.
UNKNOWN_MAX = 100

_known: OrderedDict[tuple[RegistryAddress, int], Schema] = OrderedDict()


class SchemasById:
    """Those of one registry, for one task. Nothing is asked twice, what is not there either."""

    def __init__(self, address: RegistryAddress) -> None:
        self._address = address
        self._registry: SchemaRegistry | None = None
        self._unknown: dict[int, str] = {}

    def schema(self, schema_id: int) -> Schema:
        """UnknownSchemaError where the registry has none; RegistryError where it does not answer, or knows too few of them."""
        key = (self._address, schema_id)
        found = _known.get(key)
        if found is not None:
            _known.move_to_end(key)
            return found
        if schema_id in self._unknown:
            raise UnknownSchemaError(self._unknown[schema_id])
        if len(self._unknown) >= UNKNOWN_MAX:
            raise RegistryError(
                f"{self._address.url} knows none of {UNKNOWN_MAX} schema ids that values name: is it another registry's topic?"
            )
        if self._registry is None:
            self._registry = SchemaRegistry(self._address)
        try:
            found = self._registry.schema(schema_id)
        except UnknownSchemaError as error:
            self._unknown[schema_id] = str(error)
            raise
        _known[key] = found
        while len(_known) > SCHEMAS_MAX:
            _known.popitem(last=False)
        return found
