"""Reading a sink again to see whether it has what a batch was accounted for: so many rows, with this checksum.

What is known to be gone is different: a file, a table, a topic that is not there any more, and rows that somebody has removed or
changed. Unknown is only what cannot be told: a sink that is not reached, or rows that nothing tells from those of other batches.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Any

import msgspec

from tidelog.client.consumer.consumer import Consumer
from tidelog.client.consumer.options import ConsumerOptions
from tidelog.client.consumer.topic_partition import TopicPartition
from tidelog.client.errors import ClientError, RefusedError
from tidelog.model.errors import ErrorCode
from tidelog.spark.client_settings import PREFIX, client_settings, common_settings
from tidelog.spark.errors import OptionError, SinkError
from tidelog.spark.outputs.kind import RowsGoneError
from tidelog.spark.outputs.manifest_store import kind_of_output, read_manifest
from tidelog.spark.outputs.staged import Target, sum_checksums
from tidelog.spark.pipelines.sink_writing import record_checksum
from tidelog.spark.sink.audit_entry import PartitionRange, SinkAudit

if TYPE_CHECKING:
    import pyarrow as pa

# For one partition of a topic.
READ_TIMEOUT_S = 60.0
_POLL_MS = 1000.0


class Outcome(Enum):
    SAME = "same"
    DIFFERENT = "different"
    UNKNOWN = "unknown"
    """It cannot be told any more, or not now; the reason says why."""


class Verified(msgspec.Struct, frozen=True):
    sink: str
    outcome: Outcome
    rows: int | None = None
    """Found there; None where they were not counted."""
    reason: str = ""
    """Why it is unknown; or what is gone, where that is known."""


def verify_sink(account: SinkAudit, settings: Mapping[str, Any]) -> Verified:
    """What a sink has of a batch now. `settings` are those of clients of the cluster that the audit is on."""
    if account.is_skipped:
        return Verified(account.sink, Outcome.UNKNOWN, reason="it was left out by `recover --skip-sink`")
    if account.is_partial:
        return Verified(
            account.sink, Outcome.UNKNOWN, reason="some of it was lost, which `recover --accept-loss` accepted"
        )
    if not account.rows:
        return Verified(account.sink, Outcome.SAME, 0)
    try:
        if account.kind == "topic":
            return _topic(account, _settings_of(account.cluster, settings))
        return _staged(account)
    except RowsGoneError as error:
        return Verified(account.sink, Outcome.DIFFERENT, reason=str(error))
    except (SinkError, OptionError, ClientError, OSError) as error:
        return Verified(account.sink, Outcome.UNKNOWN, reason=str(error))


def _staged(account: SinkAudit) -> Verified:
    if account.staged is None:
        return Verified(account.sink, Outcome.UNKNOWN, reason="the audit does not say where it was staged")
    kind = kind_of_output(account.staged)
    # Also where the manifest, by which rows are found, is there no more.
    if gone := kind.gone():
        raise RowsGoneError(gone)
    rows, checksum = kind.read_back(read_manifest(account.staged))
    is_same = (rows, checksum) == (account.rows, account.checksum)
    return Verified(account.sink, Outcome.SAME if is_same else Outcome.DIFFERENT, rows)


def _topic(account: SinkAudit, settings: Mapping[str, Any]) -> Verified:
    """Everything of the batch lies within the ranges; what others have written there cannot be told apart."""
    if not account.ranges:
        return Verified(account.sink, Outcome.UNKNOWN, reason="its offsets were not known when it was written")
    rows = checksum = 0
    # Where to begin is said for each range. The consumer asks itself before it is said, and must not take that for an error.
    begins = {"auto_offset_reset": "earliest", "enable_auto_commit": False, "allow_auto_create_topics": False}
    options = {**settings, **begins}
    starts = _starts(account.ranges, options)
    with Consumer(**options, isolation_level="read_committed") as consumer:
        for each in account.ranges:
            start = min(each.end, max(each.start, starts[each.topic, each.partition]))
            for records in _records(consumer, msgspec.structs.replace(each, start=start)):
                rows += records.num_rows
                checksum = sum_checksums((checksum, record_checksum(records)))
    if (rows, checksum) == (account.rows, account.checksum):
        return Verified(account.sink, Outcome.SAME, rows)
    if rows > account.rows:
        reason = "others have written to the topic in between, and their records cannot be told apart"
        return Verified(account.sink, Outcome.UNKNOWN, rows, reason)
    aged = [each for each in account.ranges if starts[each.topic, each.partition] > each.start]
    if aged and rows < account.rows:
        start = starts[aged[0].topic, aged[0].partition]
        reason = (
            f"{aged[0].topic}-{aged[0].partition} begins at offset {start} by now: older records were deleted there"
        )
        return Verified(account.sink, Outcome.UNKNOWN, rows, reason)
    return Verified(account.sink, Outcome.DIFFERENT, rows)


def _starts(ranges: Sequence[PartitionRange], options: Mapping[str, Any]) -> dict[tuple[str, int], int]:
    """Where each partition begins now. RowsGoneError where it is not there, or ends before the range does."""
    wanted = [TopicPartition(each.topic, each.partition) for each in ranges]
    with Consumer(**options, isolation_level="read_uncommitted") as consumer:
        try:
            starts, ends = consumer.beginning_offsets(wanted), consumer.end_offsets(wanted)
        except RefusedError as error:
            if error.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise
            raise RowsGoneError(str(error)) from error
    for each, partition in zip(ranges, wanted, strict=True):
        if ends[partition] < each.end:
            raise RowsGoneError(
                f"{partition} ends at offset {ends[partition]}, and ended at {each.end}: it was deleted and made again"
            )
    return {(each.topic, each.partition): starts[each] for each in wanted}


def _records(consumer: Consumer, wanted: PartitionRange) -> list[pa.RecordBatch]:
    """Those of a range, with the topic as a column. SinkError where they cannot be read to the end."""
    import pyarrow as pa  # noqa: PLC0415 - with the first records
    import pyarrow.compute as pc  # noqa: PLC0415

    partition = TopicPartition(wanted.topic, wanted.partition)
    consumer.assign([partition])
    consumer.seek(partition, wanted.start)
    found = []
    until_s = time.monotonic() + READ_TIMEOUT_S
    while consumer.position(partition) < wanted.end:
        if time.monotonic() > until_s:
            raise SinkError(
                f"{wanted.topic}-{wanted.partition} cannot be read up to offset {wanted.end}: is a transaction open?"
            )
        batch = consumer.poll_arrow(_POLL_MS)
        if batch is None or not batch.num_rows:
            continue
        kept = batch.filter(pc.less(batch.column("offset"), pa.scalar(wanted.end))).select(["key", "value"])
        found.append(kept.append_column("topic", pa.repeat(pa.scalar(wanted.topic), kept.num_rows)))
    return found


def _settings_of(cluster: Target | None, settings: Mapping[str, Any]) -> Mapping[str, Any]:
    if cluster is None:
        return settings
    options = {f"{PREFIX}{name}": text for name, text in cluster.options.items()}
    known = {f"{PREFIX}{each.replace('_', '.')}" for each in ConsumerOptions.__dataclass_fields__}
    kept = {name: text for name, text in options.items() if name in known}
    return common_settings(client_settings(ConsumerOptions, {**kept, f"{PREFIX}bootstrap.servers": cluster.place}))
