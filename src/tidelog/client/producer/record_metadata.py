"""What a producer says about the records that it was given."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

from tidelog.client.errors import ClientError

Headers: TypeAlias = Sequence[tuple[str, bytes | None]]


class RecordMetadata(NamedTuple):
    """Where a record was written. The offset is -1 where nobody said: with acks=0, and for some duplicates."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int


OnDelivery: TypeAlias = Callable[[ClientError | None, RecordMetadata | None], object]
"""Called once with either an error or where the record was written. Of a blocking producer, on the thread of its loop."""
