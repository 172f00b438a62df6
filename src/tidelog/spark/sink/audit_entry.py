"""What is kept of a batch once it is finished: from which input, in which sinks, how much. Pure.

    key      {"pipeline": "orders", "batch": 42}
    value    {"version": 1, "entry": {...}}                 a batch
             {"version": 2, "replacement": {...}}           rows of batches made anew; its key has the first of them

An entry is made before the decision, which carries it, so that whoever finishes the batch can write it, `recover` included. It is
written in the same transaction of the decider as "finished". A batch that is replayed with other rows from the same input gets a
second entry under the same key: without sinks, since nothing of it counts, and with `replayed_with`.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from tidelog.spark.outputs.staged import StagedOutput, Target, app_id

VERSION = 1
# Releases that know no replacements pass over them.
REPLACEMENT_VERSION = 2
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


class Replacement(msgspec.Struct, frozen=True, omit_defaults=True):
    """Rows of batches in one table that `backfill` has made anew, and put in place of those that were there."""

    pipeline: str
    query: str
    sink: str
    number: int
    """The first of a query and sink is 1. The table has the last one under `backfill_app_id`."""
    run: str
    """In the names of its files."""
    batches: tuple[int, ...]
    input: tuple[PartitionRange, ...]
    """All that these batches have read, which was read again."""
    code_version: str
    staged: StagedOutput
    files: int
    started_ms: int
    finished_ms: int = 0

    @property
    def account(self) -> SinkAudit:
        """What the table has of all these batches together."""
        output, target = self.staged, self.staged.target
        place = f"{target.place} {target.table}".strip()
        return SinkAudit(self.sink, target.kind, place, output.rows, output.checksum, files=self.files, staged=output)


def backfill_app_id(pipeline: str, sink: str, query: str) -> str:
    """The name under which a table remembers its last replacement. The query's own is left as it is."""
    return app_id(pipeline, sink, f"{query}/backfill")


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


class _ReplacementValue(msgspec.Struct, frozen=True):
    version: int
    replacement: Replacement


def encode_replacement_key(replacement: Replacement) -> bytes:
    return msgspec.json.encode(_Key(replacement.pipeline, replacement.batches[0]))


def encode_replacement(replacement: Replacement) -> bytes:
    return msgspec.json.encode(_ReplacementValue(REPLACEMENT_VERSION, replacement))


def decode_replacement(data: bytes) -> Replacement | None:
    """None for what is none, or cannot be read."""
    try:
        if msgspec.json.decode(data, type=_Version).version != REPLACEMENT_VERSION:
            return None
        return msgspec.json.decode(data, type=_ReplacementValue).replacement
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
