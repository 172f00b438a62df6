"""What happens to records between the fetcher and the application: deserializers, then interceptors."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from tidelog.client.consumer.fetched_partition import Row
from tidelog.client.consumer.options import ReadingOptions
from tidelog.client.errors import SerializationError

log = logging.getLogger(__name__)


class RowDelivery:
    """Of one consumer. A record that cannot be deserialized is delivered to nobody, and goes back with all behind it."""

    __slots__ = ("_give_back", "_interceptors", "_key_of", "_remedy", "_value_of")

    def __init__(
        self,
        options: ReadingOptions,
        give_back: Callable[[list[Row]], None],
        *,
        interceptors: Sequence[Any] = (),
        remedy: str,
    ) -> None:
        """`give_back` gets what was taken and is not delivered now; `remedy` says how to go on where the first record fails."""
        self._key_of = options.key_deserializer
        self._value_of = options.value_deserializer
        self._give_back = give_back
        self._interceptors = interceptors
        self._remedy = remedy

    def finish(self, rows: list[Row]) -> list[Row]:
        """Deserialized, and seen by the interceptors. SerializationError if not even the first one can be."""
        if self._key_of is not None or self._value_of is not None:
            rows = self._deserialized(rows)
        for interceptor in self._interceptors:
            on_consume = getattr(interceptor, "on_consume", None)
            if on_consume is not None:
                try:
                    rows = on_consume(rows) or []
                except Exception:
                    log.exception("an interceptor failed; the records go on as they are")
        return rows

    def _deserialized(self, rows: list[Row]) -> list[Row]:
        key_of = self._key_of or _same
        value_of = self._value_of or _same
        done: list[Row] = []
        try:
            for row in rows:
                # One by one, since what was done before a failure is delivered.
                done.append(msgspec.structs.replace(row, key=key_of(row.key), value=value_of(row.value)))  # noqa: PERF401
        except Exception as error:
            failed = rows[len(done)]
            self._give_back(rows[len(done) :])
            if not done:
                raise SerializationError(
                    f"the record at offset {failed.offset} of {failed.topic}-{failed.partition} cannot be deserialized: "
                    f"{error}; {self._remedy}"
                ) from error
        return done


def _same(value: bytes | None) -> bytes | None:
    return value
