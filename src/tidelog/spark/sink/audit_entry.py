"""What is kept of a batch once it is finished: from which input, in which sinks, how much. Pure.

    key      {"pipeline": "orders", "batch": 42}
    value    {"version": 1, "entry": {...}}

An entry is made before the decision, which carries it, so that whoever finishes the batch can write it, `recover` included. It is
written in the same transaction of the decider as "finished". A batch that is replayed with other rows from the same input gets a
second entry under the same key: without sinks, since nothing of it counts, and with `replayed_with`.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from tidelog.spark.outputs.staged import StagedOutput, Target

VERSION = 1
TOPIC_KIND = "topic"


class PartitionRange(msgspec.Struct, frozen=True):
    """Offsets of one partition of a topic."""

    topic: str
    partition: int
    start: int
    end: int
    """The one behind the last."""


class SinkAudit(msgspec.Struct, frozen=True, omit_defaults=True):
    """What one sink has of a batch."""

    sink: str
    kind: str
    """`topic`, or the name of an `OutputKind`."""
    target: str
    """The topic, table or directory."""
    rows: int
    checksum: int
    ranges: tuple[PartitionRange, ...] = ()
    """Of topics: everything of the batch is within; records of others may be in between. Empty where it is not known."""
    cluster: Target | None = None
    """Of topics: where they are; None for the cluster of the audit itself."""
    files: int = 0
    staged: StagedOutput | None = None
    """Of all others: what was decided, by which the sink can be read again."""
    is_skipped: bool = False
    """`recover --skip-sink` has let the query go on without these rows."""
    is_partial: bool = False
    """Of topics: some of these rows may be among the entry's `lost_rows`, which are not known by topic."""


class ReplayedWith(msgspec.Struct, frozen=True):
    """What a replay of the batch had in place of what counts."""

    rows: int
    checksum: int


class AuditEntry(msgspec.Struct, frozen=True, omit_defaults=True):
    """One batch of a pipeline."""

    pipeline: str
    query: str
    run: str
    batch_id: int
    input: tuple[PartitionRange, ...]
    input_hash: str | None
    """Of Spark's own entry for the batch; None where it cannot be read."""
    sinks: tuple[SinkAudit, ...]
    code_version: str
    """Of the pipeline's file."""
    started_ms: int
    decided_ms: int = 0
    finished_ms: int = 0
    replayed_with: ReplayedWith | None = None
    lost_rows: int = 0
    """For topics, aborted before they could be committed: `recover --accept-loss` has let the query go on without them."""

    def decided(self, now_ms: int) -> AuditEntry:
        return msgspec.structs.replace(self, decided_ms=now_ms)

    def without(self, lost: Sequence[tuple[Target | None, int]]) -> AuditEntry:
        """With rows that are lost, by cluster: all topics of one share a transaction."""
        clusters = [cluster for cluster, _ in lost]
        sinks = tuple(
            msgspec.structs.replace(each, is_partial=True)
            if each.kind == TOPIC_KIND and each.rows and each.cluster in clusters
            else each
            for each in self.sinks
        )
        return msgspec.structs.replace(self, sinks=sinks, lost_rows=sum(rows for _, rows in lost))

    def finished(self, now_ms: int, skipped: frozenset[str]) -> AuditEntry:
        sinks = tuple(
            msgspec.structs.replace(each, is_skipped=True) if each.sink in skipped else each for each in self.sinks
        )
        return msgspec.structs.replace(self, finished_ms=now_ms, sinks=sinks)

    def replayed(self, now_ms: int, replayed_with: ReplayedWith) -> AuditEntry:
        """Of a replay whose rows differ; this is the entry that it would have had."""
        return msgspec.structs.replace(self, finished_ms=now_ms, sinks=(), replayed_with=replayed_with)


class _Key(msgspec.Struct, frozen=True):
    pipeline: str
    batch: int


class _Version(msgspec.Struct, frozen=True):
    version: int


class _Value(msgspec.Struct, frozen=True):
    version: int
    entry: AuditEntry


def encode_audit_key(entry: AuditEntry) -> bytes:
    return msgspec.json.encode(_Key(entry.pipeline, entry.batch_id))


def decode_audit_key(data: bytes) -> tuple[str, int] | None:
    """Pipeline and batch; None for a key of somebody else's."""
    try:
        key = msgspec.json.decode(data, type=_Key)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    return key.pipeline, key.batch


def encode_audit(entry: AuditEntry) -> bytes:
    return msgspec.json.encode(_Value(VERSION, entry))


def decode_audit(data: bytes) -> AuditEntry | None:
    """None for what this release cannot read: an account of other batches goes on without it."""
    try:
        if msgspec.json.decode(data, type=_Version).version != VERSION:
            return None
        return msgspec.json.decode(data, type=_Value).entry
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
