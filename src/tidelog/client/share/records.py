"""One record as a member of a share group gets it."""

from __future__ import annotations

from typing import Any, Generic

from tidelog.client.consumer.records import ConsumerRecord, K, V


class SharedRecord(ConsumerRecord[K, V], Generic[K, V], frozen=True, gc=False):
    """A record, where it was read, and how often it was delivered to any member, this time included.

    >>> for record in consumer.poll(timeout_ms=1000):
    ...     print(record.offset, record.value, record.delivery_count)
    """

    delivery_count: int = 1


SharedRow = SharedRecord[Any, Any]
