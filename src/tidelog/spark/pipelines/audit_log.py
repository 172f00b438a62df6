"""The account of a pipeline's batches, as the deciders have written it, and which batch a row is of.

    log = read_audit(settings, "revenue")
    entries = log.of_query()                                 of the query that has written last
    found = batches_of_row(log.entries, "revenue:0:1042")    a record of a topic: its batch, by the offsets of each
    found = batches_of_row(log.entries, "other:9092/revenue:0:1042")        of a topic on another cluster
    found = batches_of_row(log.entries, "part-0000000042-00003-0-17-<run>-0.parquet")
    found = batches_of_row(log.entries, "0000000042-6c1d0f2ab94e")  what the column of a database holds that tells the batch

A pipeline whose checkpoint was deleted goes on as another query, and counts its batches from 0 on again. Rows tell of themselves
which query's they are; whoever asks for a batch by its number gets that of the newest.

No lineage below a batch is claimed: all input ranges of the batch are what the row may come from.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from tidelog.client.consumer.consumer import Consumer
from tidelog.client.consumer.topic_partition import TopicPartition
from tidelog.spark.errors import SinkError
from tidelog.spark.outputs.database_statements import batch_mark
from tidelog.spark.outputs.staged import app_id
from tidelog.spark.sink.audit_entry import (
    AuditEntry,
    Replacement,
    decode_audit,
    decode_audit_key,
    decode_replacement,
)
from tidelog.spark.sink.sink_decisions import AUDIT_TOPIC
from tidelog.spark.source.partition_offsets import EARLIEST

# Of one pipeline; a batch a second for a day. Those that were written before are left out.
ENTRIES_MAX = 100_000
_PARTITION = TopicPartition(AUDIT_TOPIC, 0)
_READ_TIMEOUT_MS = 60_000
_RECORD = re.compile(
    r"(?:(?P<cluster>[^/\s]+)/)?(?P<topic>[A-Za-z0-9._-]{1,249})[:](?P<partition>\d{1,10})[:](?P<offset>\d{1,19})"
)
# As `AttemptName` writes them into the names of files.
_FILE = re.compile(r"(?P<batch>\d{10})-\d{5,}-\d+-\d+-")
_MARK = re.compile(r"(?P<batch>\d{10})-(?P<name>[0-9a-f]{12})")


class PipelineAudit(msgspec.Struct, frozen=True):
    """What is known of a pipeline's batches that are finished."""

    entries: tuple[AuditEntry, ...]
    """In the order in which they were finished, those of all queries that have had the pipeline's name."""
    replacements: tuple[Replacement, ...] = ()
    """In the order in which they were made."""

    @property
    def queries(self) -> tuple[str, ...]:
        """Their ids, the one that has finished a batch last at the end."""
        return tuple(reversed(dict.fromkeys(each.query for each in reversed(self.entries))))

    def of_query(self, query: str | None = None) -> list[AuditEntry]:
        """By batch; of the newest query where none is named."""
        if query is None and self.entries:
            query = self.queries[-1]
        return sorted((each for each in self.entries if each.query == query), key=lambda each: each.batch_id)

    def replacement_of(self, entry: AuditEntry, sink: str) -> Replacement | None:
        """What has taken the place of a batch's rows in a table, the last one of several."""
        found = [
            each
            for each in self.replacements
            if (each.query, each.sink) == (entry.query, sink) and entry.batch_id in each.batches
        ]
        return max(found, key=lambda each: each.number, default=None)

    def of_file(self, name: str) -> list[AuditEntry]:
        """The batches whose rows a file of a replacement has."""
        made = next((each for each in self.replacements if each.run in name), None)
        if made is None:
            return []
        return [each for each in self.entries if each.query == made.query and each.batch_id in made.batches]


def read_audit(settings: Mapping[str, Any], pipeline: str) -> PipelineAudit:
    """The account of a pipeline. `settings` are those of a client. ClientError; SinkError where it cannot be read to its end."""
    found: dict[tuple[str, int], AuditEntry] = {}
    replacements: dict[tuple[str, str, int], Replacement] = {}
    options = {**settings, "isolation_level": "read_committed", "auto_offset_reset": "earliest"}
    with Consumer(**options, enable_auto_commit=False, allow_auto_create_topics=False) as consumer:
        consumer.assign([_PARTITION])
        end = consumer.end_offsets([_PARTITION])[_PARTITION]
        consumer.seek_to_beginning(_PARTITION)
        while consumer.position(_PARTITION) < end:
            before = consumer.position(_PARTITION)
            rows = consumer.poll(_READ_TIMEOUT_MS)
            if not rows and consumer.position(_PARTITION) == before:
                raise SinkError(f"the topic {AUDIT_TOPIC} cannot be read beyond offset {before}, and has {end}")
            for row in rows:
                key = decode_audit_key(row.key or b"")
                if key is None or key[0] != pipeline:
                    continue
                value = row.value or b""
                if (entry := decode_audit(value)) is not None:
                    take(found, entry)
                elif (made := decode_replacement(value)) is not None:
                    # One that was cut off before it was known to be recorded is recorded once more.
                    replacements[made.query, made.sink, made.number] = made
    return PipelineAudit(tuple(found.values()), tuple(replacements.values()))


def take(found: dict[tuple[str, int], AuditEntry], entry: AuditEntry, entries_max: int = ENTRIES_MAX) -> None:
    """The newest of each batch of a query; a replay that came out otherwise only adds a note to what counts. What was written
    first goes first where there are too many."""
    key = (entry.query, entry.batch_id)
    before = found.get(key)
    if entry.replayed_with is not None and before is not None:
        entry = msgspec.structs.replace(before, replayed_with=entry.replayed_with)
    found[key] = entry
    if len(found) > entries_max:
        del found[next(iter(found))]


def starting_offsets(
    entries: Sequence[AuditEntry], partitions: Sequence[TopicPartition], batch_id: int | None = None
) -> dict[TopicPartition, int]:
    """Where a pipeline begins that goes on behind these batches, or at the beginning of one of them. `entries` are those of one
    query, by batch; -2, earliest, is for partitions of which they have read nothing. SinkError where nobody knows."""
    if batch_id is not None and all(each.batch_id != batch_id for each in entries):
        raise SinkError(f"the audit has no batch {batch_id}")
    if unknown := [each.batch_id for each in entries if each.input_hash is None]:
        raise SinkError(f"what batch {unknown[0]} has read is not known: Spark's checkpoint could not be read then")
    found: dict[TopicPartition, int] = {}
    for entry in entries:
        for each in entry.input:
            place = TopicPartition(each.topic, each.partition)
            if batch_id is None or entry.batch_id < batch_id:
                found[place] = each.end
            else:
                # The first that is read of it later begins where all before have ended.
                found.setdefault(place, each.start)
    gone = [each for each in found if each not in partitions]
    if gone:
        raise SinkError(f"{gone[0]} was read, and is not there any more")
    if any(place not in found for place in partitions) and (not entries or entries[0].batch_id != 0):
        place = next(each for each in partitions if each not in found)
        raise SinkError(f"the audit does not go back to the first batch, and has nothing of {place}")
    return {place: _start(found.get(place, EARLIEST)) for place in partitions}


def _start(offset: int) -> int:
    """The first batch begins where the pipeline did, which nobody has written down."""
    return EARLIEST if offset < 0 else offset


def batches_of_row(entries: Sequence[AuditEntry], row: str) -> list[AuditEntry]:
    """Those that have written it. SinkError for what is none of these forms."""
    if record := _RECORD.fullmatch(row):
        place = TopicPartition(record["topic"], int(record["partition"]))
        return [each for each in entries if _has(each, record["cluster"], place, int(record["offset"]))]
    if mark := _MARK.fullmatch(row):
        return [each for each in entries if each.batch_id == int(mark["batch"]) and row in _marks(each)]
    if file := _FILE.search(row):
        batch_id = int(file["batch"])
        # The name ends with the run; another pipeline's files may lie in the same directory.
        return [each for each in entries if each.batch_id == batch_id and each.run in row]
    raise SinkError(
        f"{row} names no row: give TOPIC:PARTITION:OFFSET, the name of a file of rows, or what a column for the batch holds"
    )


def _marks(entry: AuditEntry) -> set[str]:
    return {batch_mark(app_id(entry.pipeline, each.sink, entry.query), entry.batch_id) for each in entry.sinks}


def _has(entry: AuditEntry, cluster: str | None, place: TopicPartition, offset: int) -> bool:
    """Whether it has written a record of a topic of the audit's own cluster, or of one that is named. Where none is, a topic of
    another cluster is meant only if the entry has none of that name on its own."""
    of_topic = [sink for sink in entry.sinks if sink.kind == "topic" and sink.target == place.topic]
    on_own = [sink for sink in of_topic if sink.cluster is None]
    if cluster is not None:
        chosen = [sink for sink in of_topic if sink.cluster is not None and sink.cluster.place == cluster]
    else:
        chosen = on_own or of_topic
    return any(
        each.partition == place.partition and each.start <= offset < each.end for sink in chosen for each in sink.ranges
    )
