"""What a node tells of while somebody listens: one struct for each kind of event, which is a line of JSON on its way out.

Each holds numbers and short strings alone, never a key or a value of a record. `docs/internals/trace.md` has the table of them.
Imported when somebody listens for the first time.
"""

from __future__ import annotations

import msgspec

# A client may call itself anything, in up to 32 KB: a ring of events is to stay small.
NAME_CHARS_MAX = 200


def short(name: str | None) -> str:
    """A name that a client chose, as far as an event tells it."""
    return "" if name is None else name[:NAME_CHARS_MAX]


class TraceEvent(msgspec.Struct, frozen=True, gc=False, tag_field="type"):
    """Any of them."""


class Hello(TraceEvent, frozen=True, gc=False, tag="hello"):
    """The first line of a partition's listener: how things are."""

    topic: str
    partition: int
    role: str
    """leader, follower or none"""
    leader: int
    leader_epoch: int
    partition_epoch: int
    log_start: int
    leo: int
    hw: int
    lso: int
    isr: tuple[int, ...]
    replicas: tuple[int, ...]
    version: str


class GroupHello(TraceEvent, frozen=True, gc=False, tag="hello"):
    """The first line of a group's listener."""

    group: str
    state: str
    generation: int
    members: int
    version: str


class TransactionHello(TraceEvent, frozen=True, gc=False, tag="hello"):
    """The first line of a transactional id's listener."""

    transactional_id: str
    state: str
    version: str


class Heartbeat(TraceEvent, frozen=True, gc=False, tag="heartbeat"):
    """Nothing may have happened: the node is there, and its clock says this."""

    leo: int = -1
    hw: int = -1
    lso: int = -1


class Dropped(TraceEvent, frozen=True, gc=False, tag="dropped"):
    """The listener reads too slowly: so many events before the next line are missing."""

    count: int


class Ended(TraceEvent, frozen=True, gc=False, tag="ended"):
    """The last line: there is nothing to listen to any more."""

    reason: str


class ProduceReceived(TraceEvent, frozen=True, gc=False, tag="produce_received"):
    client_id: str
    correlation_id: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    acks: int
    bytes: int
    records: int


class ProduceRefused(TraceEvent, frozen=True, gc=False, tag="produce_refused"):
    error: str


class ProduceDuplicate(TraceEvent, frozen=True, gc=False, tag="produce_duplicate"):
    """A batch of an idempotent producer that is in the log already: nothing was appended."""

    base_offset: int
    last_offset: int


class Appended(TraceEvent, frozen=True, gc=False, tag="appended"):
    by: str
    """leader, follower, coordinator or marker"""
    base_offset: int
    last_offset: int
    leo: int
    leader_epoch: int
    file: str
    position: int
    size: int
    records: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    is_transactional: bool
    max_timestamp_ms: int


class IndexEntry(TraceEvent, frozen=True, gc=False, tag="index_entry"):
    index: str
    """offset or time"""
    entry_number: int
    """Its place in the index, counted from 0."""
    offset: int
    position: int
    """In the log file; -1 for the time index, which has none."""
    timestamp_ms: int
    """-1 for the offset index, which has none."""
    file: str


class FollowerFetch(TraceEvent, frozen=True, gc=False, tag="follower_fetch"):
    """On the leader: a follower asks from this offset on, and so has everything before it."""

    replica: int
    fetch_offset: int


class FollowerFetchAnswered(TraceEvent, frozen=True, gc=False, tag="follower_fetch_answered"):
    replica: int
    from_offset: int
    to_offset: int
    """Where the next fetch will go on; -1 where the answer may hold more than was looked at."""
    bytes: int


class HighWatermarkMoved(TraceEvent, frozen=True, gc=False, tag="hw_moved"):
    hw: int
    by: int | str
    """The follower whose fetch moved it; `leader` (its own append, or on a follower what the leader said) or `isr`."""


class LastStableOffsetMoved(TraceEvent, frozen=True, gc=False, tag="lso_moved"):
    lso: int


class ProduceAnswered(TraceEvent, frozen=True, gc=False, tag="produce_answered"):
    client_id: str
    correlation_id: int
    base_offset: int
    error: str


class FetchAnswered(TraceEvent, frozen=True, gc=False, tag="fetch_answered"):
    client_id: str
    correlation_id: int
    from_offset: int
    to_offset: int
    """As far as the reader may see; the answer may end before it where it is full."""
    bytes: int
    isolation: str


class Marker(TraceEvent, frozen=True, gc=False, tag="marker"):
    producer_id: int
    producer_epoch: int
    commit: bool
    offset: int


class Truncated(TraceEvent, frozen=True, gc=False, tag="truncated"):
    to_offset: int


class RoleChanged(TraceEvent, frozen=True, gc=False, tag="role_changed"):
    role: str
    leader: int
    leader_epoch: int


class InSyncSetChanged(TraceEvent, frozen=True, gc=False, tag="isr_changed"):
    isr: tuple[int, ...]
    leader_epoch: int
    partition_epoch: int


class OffsetCommitted(TraceEvent, frozen=True, gc=False, tag="offset_committed"):
    group: str
    topic: str
    partition: int
    offset: int
    member: str
    client_id: str


class Rebalanced(TraceEvent, frozen=True, gc=False, tag="rebalanced"):
    group: str
    generation: int
    """Of the consumer protocol: the group's epoch."""
    members: int
    state: str


class TransactionStateChanged(TraceEvent, frozen=True, gc=False, tag="transaction_state"):
    transactional_id: str
    state: str
    producer_id: int
    producer_epoch: int
    partitions: int
