"""A dead letter: a record that a pipeline has set apart, with headers that say where it was and why it is here. Pure.

letter = letter_of(record, "revenue")     None for what no dead letter of the pipeline's is
letter.headers                            those that the record had, and how often it was sent again
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence

import msgspec

from tidelog.client.consumer.fetched_partition import Row

PREFIX = "tidelog.dead-letter."
# What stays on a record that was sent again, so that one which comes back as a dead letter each time is known.
REPLAYS = "tidelog.replays"
_DIGITS_MAX = 10

Headers = Sequence[tuple[str, bytes | None]]


class DeadLetter(msgspec.Struct, frozen=True):
    """What is sent again: the record as it was, at the place that it came from."""

    topic: str
    partition: int
    offset: int
    """Of the record, not of the letter."""
    timestamp_ms: int | None
    """The record's own; None where it had none."""
    reason: str
    replays: int
    """How often it was sent again before."""
    written_ms: int
    """When it became a dead letter."""
    key: bytes | None
    value: bytes | None
    record_headers: tuple[tuple[str, bytes | None], ...]
    """Those that the record had when it was set apart."""

    @property
    def headers(self) -> list[tuple[str, bytes | None]]:
        """Of the record that is sent again."""
        kept = [each for each in self.record_headers if each[0] != REPLAYS]
        return [*kept, (REPLAYS, b"%d" % (self.replays + 1))]


def letter_of(record: Row, pipeline: str) -> DeadLetter | None:
    """None where another pipeline, or somebody else, has written it: topics for dead letters may be shared."""
    # The pipeline's own are behind those of the record, which may have been somebody's dead letter before.
    said = {name.removeprefix(PREFIX): value for name, value in record.headers if name.startswith(PREFIX)}
    topic, partition, offset = (_text(said.get(name)) for name in ("topic", "partition", "offset"))
    if _text(said.get("pipeline")) != pipeline or not topic or not _is_number(partition) or not _is_number(offset):
        return None
    kept = tuple((name, value) for name, value in record.headers if not name.startswith(PREFIX))
    return DeadLetter(
        topic=topic,
        partition=int(partition),
        offset=int(offset),
        timestamp_ms=_instant_ms(_text(said.get("timestamp"))),
        reason=_text(said.get("reason")),
        replays=_replays(kept),
        written_ms=record.timestamp_ms,
        key=record.key,
        value=record.value,
        record_headers=kept,
    )


def _replays(headers: Headers) -> int:
    texts = [_text(value) for name, value in headers if name == REPLAYS]
    return int(texts[-1]) if texts and _is_number(texts[-1]) and len(texts[-1]) <= _DIGITS_MAX else 0


def _text(value: bytes | None) -> str:
    return (value or b"").decode(errors="replace")


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal()


def _instant_ms(text: str) -> int | None:
    try:
        found = dt.datetime.fromisoformat(text)
    except ValueError:
        return None
    return max(0, round(found.timestamp() * 1000)) if found.tzinfo is not None else None
