"""What happens to records between the fetcher and the application: deserializers, then interceptors."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import msgspec

from tidelog.client.consumer.fetched_partition import Row
from tidelog.client.consumer.options import ConsumerOptions
from tidelog.client.consumer.subscription import Subscription
from tidelog.client.consumer.topic_partition import TopicPartition
from tidelog.client.errors import SerializationError

log = logging.getLogger(__name__)


class RowDelivery:
    """Of one consumer. A record that cannot be deserialized is delivered to nobody, and the position stays before it."""

    __slots__ = ("_options", "_subscription")

    def __init__(self, options: ConsumerOptions, subscription: Subscription) -> None:
        self._options = options
        self._subscription = subscription

    def finish(self, rows: list[Row]) -> list[Row]:
        """Deserialized, and seen by the interceptors. SerializationError if not even the first one can be."""
        options = self._options
        if options.key_deserializer is not None or options.value_deserializer is not None:
            rows = self._deserialized(rows)
        for interceptor in options.interceptors:
            on_consume = getattr(interceptor, "on_consume", None)
            if on_consume is not None:
                try:
                    rows = on_consume(rows) or []
                except Exception:
                    log.exception("an interceptor failed; the records go on as they are")
        return rows

    def _deserialized(self, rows: list[Row]) -> list[Row]:
        key_of = self._options.key_deserializer or _same
        value_of = self._options.value_deserializer or _same
        done: list[Row] = []
        try:
            for row in rows:
                # One by one, since what was done before a failure is delivered.
                done.append(msgspec.structs.replace(row, key=key_of(row.key), value=value_of(row.value)))  # noqa: PERF401
        except Exception as error:
            failed = rows[len(done)]
            self._go_back(rows[len(done) :])
            if not done:
                raise SerializationError(
                    f"the record at offset {failed.offset} of {failed.topic}-{failed.partition} cannot be deserialized: "
                    f"{error}; seek behind it to go on"
                ) from error
        return done

    def _go_back(self, rows: Sequence[Row]) -> None:
        """These were taken, and the application will not get them now."""
        first: dict[TopicPartition, int] = {}
        for row in rows:
            first.setdefault(TopicPartition(row.topic, row.partition), row.offset)
        for partition, offset in first.items():
            assigned = self._subscription.get(partition)
            if assigned is not None:
                assigned.seek(offset)


def _same(value: bytes | None) -> bytes | None:
    return value
