"""Which batches a range of time touches, what they have read, and which rows of the table are theirs: pure.

    audit entries + offsets of the times  ->  whole batches  ->  exact ranges, and the files to replace

Batches that a backfill has replaced together have no rows of their own any more: who touches one of them touches all. What cannot
be replaced exactly is refused, each with a sentence.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

import msgspec

from tidelog.client.consumer.topic_partition import TopicPartition
from tidelog.spark.outputs.parquet_staging import owner_of
from tidelog.spark.outputs.replacement import ReplacedRows
from tidelog.spark.sink.audit_entry import AuditEntry, PartitionRange, Replacement, SinkAudit
from tidelog.spark.source.offset_ranges import OffsetRange

# One table has them in one commit, whose manifest is read in one piece.
BATCHES_MAX = 10_000
_REPLACED_IN = ("delta", "iceberg")
_Span = tuple[int, int]


class BackfillFacts(msgspec.Struct, frozen=True, kw_only=True):
    sink: str
    entries: Sequence[AuditEntry]
    """Of one query, by batch."""
    replacements: Sequence[Replacement]
    """Of that query and sink, in order."""
    wanted: Sequence[OffsetRange]
    """What the times come to, as far as the topics have it."""
    starts: Mapping[TopicPartition, int]
    """The first offset that each partition still has."""
    begins_at_earliest: bool
    """Whether the pipeline says nothing else of where it starts."""


class BackfillPlan(msgspec.Struct, frozen=True):
    query: str
    number: int
    """Of the replacement that this would be."""
    batches: tuple[AuditEntry, ...]
    ranges: tuple[OffsetRange, ...]
    """All that these batches have read; several of a partition where batches between them are not touched."""
    replaced: tuple[ReplacedRows, ...]
    table_ids: frozenset[str]
    """Of the tables that these rows were written to."""
    is_ahead: bool
    """Whether the times reach beyond what the pipeline has finished: that part is left to it."""

    @property
    def input(self) -> tuple[PartitionRange, ...]:
        return tuple(
            PartitionRange(each.partition.topic, each.partition.partition, each.start, each.end) for each in self.ranges
        )


class Refusal(msgspec.Struct, frozen=True):
    reasons: tuple[str, ...]


def plan_backfill(facts: BackfillFacts) -> BackfillPlan | Refusal:
    if not facts.entries:
        return Refusal(("the audit knows no batch of it",))
    read = {entry.batch_id: _read_by(entry, facts) for entry in facts.entries}
    if unknown := [entry.batch_id for entry in facts.entries if entry.input_hash is None]:
        return Refusal((f"what batch {unknown[0]} has read is not known: Spark's checkpoint could not be read then",))
    if reasons := [*_made_again(read), *_missing(facts, read)]:
        return Refusal(tuple(reasons))
    touched = _touched(facts, read)
    if not touched:
        return Refusal(("no batch that is finished has read records of this time",))
    if len(touched) > BATCHES_MAX:
        return Refusal((f"{len(touched):,} batches have read records of this time, and {BATCHES_MAX:,} are the most",))
    reasons = [sentence for entry in touched for sentence in _faults(entry, facts, read[entry.batch_id])]
    if reasons:
        return Refusal(tuple(dict.fromkeys(reasons)))
    ends = _ends(read.values())
    return BackfillPlan(
        query=touched[0].query,
        number=max((each.number for each in facts.replacements), default=0) + 1,
        batches=tuple(touched),
        ranges=_joined(read[entry.batch_id] for entry in touched),
        replaced=_replaced(touched, facts),
        table_ids=frozenset(
            sink.staged.target.table_id for entry in touched for sink in _accounts(entry, facts) if sink.staged
        ),
        is_ahead=any(each.end > ends.get(each.partition, 0) for each in facts.wanted),
    )


def _read_by(entry: AuditEntry, facts: BackfillFacts) -> list[OffsetRange]:
    """With -1 left where nobody knows where the first batch began."""
    found = []
    for each in entry.input:
        place = TopicPartition(each.topic, each.partition)
        is_whole = facts.begins_at_earliest and facts.starts.get(place) == 0
        found.append(OffsetRange(place, 0 if each.start < 0 and is_whole else each.start, each.end))
    return found


def _touched(facts: BackfillFacts, read: Mapping[int, Sequence[OffsetRange]]) -> list[AuditEntry]:
    """Those that overlap, and those that were replaced together with them."""
    wanted = {each.partition: each for each in facts.wanted}
    chosen = {
        batch_id
        for batch_id, ranges in read.items()
        for each in ranges
        if (asked := wanted.get(each.partition)) is not None and each.start < asked.end and asked.start < each.end
    }
    last = _last_replacements(facts)
    while more := {
        batch_id for each in chosen if each in last for batch_id in last[each].batches if batch_id not in chosen
    }:
        chosen |= more
    return [entry for entry in facts.entries if entry.batch_id in chosen]


def _last_replacements(facts: BackfillFacts) -> dict[int, Replacement]:
    return {
        batch_id: made for made in sorted(facts.replacements, key=lambda each: each.number) for batch_id in made.batches
    }


def _accounts(entry: AuditEntry, facts: BackfillFacts) -> list[SinkAudit]:
    return [each for each in entry.sinks if each.sink == facts.sink]


def _faults(entry: AuditEntry, facts: BackfillFacts, read: Sequence[OffsetRange]) -> list[str]:
    """What keeps one batch from being replaced."""
    batch = f"batch {entry.batch_id}"
    found = []
    for each in read:
        start = facts.starts.get(each.partition)
        if start is None:
            found.append(f"{batch} has read {each.partition}, which is not there any more")
        elif each.start < 0:
            found.append(
                f"{batch} is the first one, and nobody knows where it began in {each.partition}: only where a pipeline starts at "
                "earliest, and the topic still has its first record"
            )
        elif each.start < start:
            found.append(
                f"{batch} has read offsets from {each.start} on of {each.partition}, which begins at {start} by now"
            )
    accounts = _accounts(entry, facts)
    if not accounts:
        found.append(f"{batch} has written nothing to a sink {facts.sink}: it had other sinks then")
    for account in accounts:
        if account.is_skipped:
            found.append(f"{batch} counts without the sink {facts.sink}, which `recover --skip-sink` has left out")
        if account.kind not in _REPLACED_IN or (
            account.staged is not None and account.staged.target.changes is not None
        ):
            found.append(f"{batch} has not only added its rows to {account.target}")
    if entry.lost_rows:
        found.append(
            f"{batch} is not whole: {entry.lost_rows:,} rows were lost, which `recover --accept-loss` accepted"
        )
    return found


def _made_again(read: Mapping[int, Sequence[OffsetRange]]) -> list[str]:
    """Topics that were made again: their offsets are those of other records."""
    found = []
    for place, spans in _spans(read.values()).items():
        if any(later[0] < earlier[1] for earlier, later in pairwise(spans)):
            found.append(f"{place} was deleted and made again since the first batches")
    return found


def _missing(facts: BackfillFacts, read: Mapping[int, Sequence[OffsetRange]]) -> list[str]:
    """Offsets that were read by some batch which the audit does not know any more."""
    found = []
    by_place = _spans(read.values())
    for asked in facts.wanted:
        at = asked.start
        for start, end in by_place.get(asked.partition, []):
            if start > at and start < asked.end:
                found.append(
                    f"the audit has no batch that has read offsets {at} to {start - 1} of {asked.partition}: it is kept for as "
                    "long as the topic __tidelog_pipeline_audit says"
                )
            at = max(at, end)
            if at >= asked.end:
                break
    return found


def _spans(ranges: Iterable[Sequence[OffsetRange]]) -> dict[TopicPartition, list[_Span]]:
    """In the order of batches."""
    found: dict[TopicPartition, list[_Span]] = {}
    for of_batch in ranges:
        for each in of_batch:
            found.setdefault(each.partition, []).append((each.start, each.end))
    return found


def _ends(ranges: Iterable[Sequence[OffsetRange]]) -> dict[TopicPartition, int]:
    return {place: spans[-1][1] for place, spans in _spans(ranges).items()}


def _joined(ranges: Iterable[Sequence[OffsetRange]]) -> tuple[OffsetRange, ...]:
    found: list[OffsetRange] = []
    for place, spans in sorted(_spans(ranges).items()):
        for start, end in spans:
            if found and found[-1].partition == place and found[-1].end == start:
                found[-1] = OffsetRange(place, found[-1].start, end)
            else:
                found.append(OffsetRange(place, start, end))
    return tuple(found)


def _replaced(touched: Sequence[AuditEntry], facts: BackfillFacts) -> tuple[ReplacedRows, ...]:
    last = _last_replacements(facts)
    found: dict[tuple[str, int], ReplacedRows] = {}
    for entry in touched:
        made = last.get(entry.batch_id)
        if made is not None:
            owner = owner_of(made.staged.manifest_path.rpartition("/")[0])
            found["backfill", made.number] = ReplacedRows(made.number, made.run, owner, made.files)
            continue
        for account in _accounts(entry, facts):
            if account.staged is not None and account.files:
                owner = owner_of(account.staged.manifest_path.rpartition("/")[0])
                found["batch", entry.batch_id] = ReplacedRows(entry.batch_id, entry.run, owner, account.files)
    return tuple(found.values())
