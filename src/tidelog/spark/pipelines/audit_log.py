"""The account of a pipeline's batches, as the deciders have written it, and which batch a row is of.

    entries = read_audit(settings, "revenue")
    found = batches_of_row(entries, "revenue:0:1042")        a record of a topic: its batch, by the offsets of each
    found = batches_of_row(entries, "part-0000000042-00003-0-17-<run>-0.parquet")
    found = batches_of_row(entries, "0000000042-6c1d0f2ab94e")      what the column of a database holds that tells the batch
    found = batches_of_row(entries, "42")                    a number

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
from tidelog.spark.sink.audit_entry import AuditEntry, decode_audit, decode_audit_key
from tidelog.spark.sink.sink_decisions import AUDIT_TOPIC

# Of one pipeline; a batch a second for a day. Older ones are left out.
ENTRIES_MAX = 100_000
_PARTITION = TopicPartition(AUDIT_TOPIC, 0)
_READ_TIMEOUT_MS = 60_000
_RECORD = re.compile(r"(?P<topic>[A-Za-z0-9._-]{1,249})[:](?P<partition>\d{1,10})[:](?P<offset>\d{1,19})")
# As `AttemptName` writes them into the names of files.
_FILE = re.compile(r"(?P<batch>\d{10})-\d{5,}-\d+-\d+-")
_MARK = re.compile(r"(?P<batch>\d{10})-(?P<name>[0-9a-f]{12})")
_NUMBER = re.compile(r"\d{1,18}")


def read_audit(settings: Mapping[str, Any], pipeline: str) -> list[AuditEntry]:
    """Of a pipeline's batches that are finished, oldest first. `settings` are those of a client. ClientError."""
    found: dict[int, AuditEntry] = {}
    options = {**settings, "isolation_level": "read_committed", "auto_offset_reset": "earliest"}
    with Consumer(**options, enable_auto_commit=False, allow_auto_create_topics=False) as consumer:
        consumer.assign([_PARTITION])
        end = consumer.end_offsets([_PARTITION])[_PARTITION]
        consumer.seek_to_beginning(_PARTITION)
        while consumer.position(_PARTITION) < end:
            rows = consumer.poll(_READ_TIMEOUT_MS)
            if not rows:
                break
            for row in rows:
                key = decode_audit_key(row.key or b"")
                entry = decode_audit(row.value or b"") if key is not None and key[0] == pipeline else None
                if entry is not None:
                    _take(found, entry)
    return [found[each] for each in sorted(found)]


def _take(found: dict[int, AuditEntry], entry: AuditEntry) -> None:
    """The newest of each batch; a replay that came out otherwise only adds a note to what counts."""
    before = found.get(entry.batch_id)
    if entry.replayed_with is not None and before is not None and before.query == entry.query:
        entry = msgspec.structs.replace(before, replayed_with=entry.replayed_with)
    found[entry.batch_id] = entry
    if len(found) > ENTRIES_MAX:
        del found[min(found)]


def batches_of_row(entries: Sequence[AuditEntry], row: str) -> list[AuditEntry]:
    """Those that have written it. SinkError for what is none of these forms."""
    if record := _RECORD.fullmatch(row):
        topic, partition, offset = record["topic"], int(record["partition"]), int(record["offset"])
        return [each for each in entries if _has(each, topic, partition, offset)]
    if mark := _MARK.fullmatch(row):
        return [each for each in entries if each.batch_id == int(mark["batch"]) and row in _marks(each)]
    if file := _FILE.search(row):
        batch_id = int(file["batch"])
        # The name ends with the run; another pipeline's files may lie in the same directory.
        return [each for each in entries if each.batch_id == batch_id and each.run in row]
    if _NUMBER.fullmatch(row):
        return [each for each in entries if each.batch_id == int(row)]
    raise SinkError(
        f"{row} names no row: give TOPIC:PARTITION:OFFSET, the name of a file of rows, or what a column for the batch holds"
    )


def _marks(entry: AuditEntry) -> set[str]:
    return {batch_mark(app_id(entry.pipeline, each.sink, entry.query), entry.batch_id) for each in entry.sinks}


def _has(entry: AuditEntry, topic: str, partition: int, offset: int) -> bool:
    return any(
        (each.topic, each.partition) == (topic, partition) and each.start <= offset < each.end
        for sink in entry.sinks
        if sink.kind == "topic"
        for each in sink.ranges
    )
