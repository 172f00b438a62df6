"""What is wrong with a watermark, of a source or of a view. Pure."""

from __future__ import annotations

import re

from tidelog.spark.pipelines.definition import RECORD, Watermark
from tidelog.spark.pipelines.field_types import with_right_types

INTERVAL = re.compile(r"(\d+ (nano|micro|milli)?(second|minute|hour|day|week|month|year)s?( |$))+", re.IGNORECASE)
_COLUMN = re.compile(r"[A-Za-z_]\w*", re.ASCII)


def check_watermark(declared: Watermark | None) -> tuple[Watermark | None, list[str]]:
    """None where it is wrong, with what is."""
    if declared is None:
        return None, []
    watermark, found = with_right_types(declared)
    found += _problems(watermark)
    return None if found else watermark, found


def _problems(watermark: Watermark) -> list[str]:
    found = []
    if not _COLUMN.fullmatch(watermark.column):
        found.append(
            f"the watermark's column is {watermark.column!r}; it is the name of a column. "
            "An expression can make one: Watermark('at', '1 minute', 'record.timestamp')"
        )
    elif watermark.column == RECORD:
        found.append("the watermark cannot be record: its time is record.timestamp, as the expression")
    if not INTERVAL.fullmatch(watermark.delay):
        found.append(f"the watermark's delay is {watermark.delay!r}; it is a time such as '10 minutes'")
    return found
