"""A segment as a cleaning reads it: on another thread than its log's, through a handle of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tidelog.storage.transaction_index import AbortedTransaction


class SourceSegment(NamedTuple):
    """What is read of one segment, which nobody appends to any more."""

    path: str
    base_offset: int
    size_bytes: int
    index_bytes: int
    time_index_bytes: int
    next_base_offset: int
    """Where the segment after it begins, or what is cleaned ends."""
    first_position: int = 0
    """Where the dirty part begins, or a little before."""


class Sources(NamedTuple):
    """What a cleaning has to know of a log, as it was when it began."""

    segments: Sequence[SourceSegment]
    """All that lie before what stays as it is."""
    aborted: Sequence[AbortedTransaction]
    last_data_offsets: Sequence[int]
    """Where the last batches of the active producers end: they stay, empty if need be, for their sequence numbers."""
    last_marker_epochs: dict[int, int]
    """By producer of which no batch is known, its epoch: a marker of that epoch stays, for the sake of fencing."""
