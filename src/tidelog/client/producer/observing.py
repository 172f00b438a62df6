"""What others may see of a producer at work: interceptors of records, observers of batches, and counters.

Names of metrics follow OpenTelemetry's conventions for messaging, so that an observer can hand them on as they are.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

from tidelog.client.errors import ClientError
from tidelog.client.producer.record_metadata import Headers, OnDelivery, RecordMetadata

log = logging.getLogger(__name__)


class ProducerRecord(NamedTuple):
    """A record as it is given to `send`, before its key and value are serialized."""

    topic: str
    value: Any
    key: Any
    partition: int | None
    timestamp_ms: int | None
    headers: Headers


class ProducerInterceptor(Protocol):
    """Sees every record twice. What it raises is logged, and changes nothing."""

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        """A record before it is sent; what is returned is sent instead."""
        ...

    def on_acknowledgement(self, metadata: RecordMetadata | None, error: ClientError | None) -> None:
        """What became of a record, on the thread of the producer's loop."""
        ...


class BatchReport(NamedTuple):
    """One batch that came to its end."""

    topic: str
    partition: int
    record_count: int
    size_bytes: int
    """As sent: compressed."""
    attempts: int
    duration_ms: float
    """From the first record's `send`."""
    error: ClientError | None


class ProducerObserver(Protocol):
    """Hears of every batch, on the thread of the producer's loop."""

    def on_batch(self, report: BatchReport) -> None: ...


class ProducerMetrics:
    """Counts since the producer was made."""

    def __init__(self, observers: Sequence[ProducerObserver]) -> None:
        self._observers = observers
        self.sent_records = 0
        self.failed_records = 0
        self.sent_batches = 0
        self.sent_bytes = 0
        self.retried_batches = 0
        self.split_batches = 0
        self.requests = 0

    def finished(self, report: BatchReport) -> None:
        if report.error is None:
            self.sent_records += report.record_count
            self.sent_batches += 1
            self.sent_bytes += report.size_bytes
        else:
            self.failed_records += report.record_count
        for observer in self._observers:
            try:
                observer.on_batch(report)
            except Exception:
                log.exception("an observer of the producer failed")

    def read(self, buffered_bytes: int) -> dict[str, int]:
        """The counters by name."""
        return {
            "messaging.client.sent.messages": self.sent_records,
            "messaging.client.failed.messages": self.failed_records,
            "messaging.client.sent.batches": self.sent_batches,
            "messaging.client.sent.bytes": self.sent_bytes,
            "messaging.client.retried.batches": self.retried_batches,
            "messaging.client.split.batches": self.split_batches,
            "messaging.client.requests": self.requests,
            "messaging.client.buffered.bytes": buffered_bytes,
        }


def intercept_send(interceptors: Sequence[ProducerInterceptor], record: ProducerRecord) -> ProducerRecord:
    """What the interceptors make of a record, one after the other."""
    for interceptor in interceptors:
        try:
            record = interceptor.on_send(record)
        except Exception:
            log.exception("an interceptor failed before a record was sent")
    return record


def intercept_delivery(interceptors: Sequence[ProducerInterceptor], on_delivery: OnDelivery | None) -> OnDelivery:
    """A callback that tells the interceptors first, then the caller's own."""

    def delivered(error: ClientError | None, metadata: RecordMetadata | None) -> None:
        for interceptor in interceptors:
            try:
                interceptor.on_acknowledgement(metadata, error)
            except Exception:
                log.exception("an interceptor failed after a record was sent")
        if on_delivery is not None:
            on_delivery(error, metadata)

    return delivered
