"""The lines of a file of record batches: a segment's `.log`, or a `.checkpoint` of the cluster metadata."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from tidelog.cli.files.dump_lines import BatchLine, DamageLine, Line, NoteLine, RecordLine
from tidelog.cli.files.internal_topics import RecordDecoder, decode_control, hides_secrets
from tidelog.storage.verification.log_scan import Damage, LogScan, ScannedBatch
from tidelog.wire.batch_errors import CorruptBatchError
from tidelog.wire.errors import WireError
from tidelog.wire.record_batch import HEADER_BYTES
from tidelog.wire.records import Record, decode_batch


def each_batch_line(scan: LogScan, *, start_offset: int, limit: int | None) -> Iterator[Line]:
    """The headers of the batches that reach `start_offset`, `limit` of them at most."""
    batches = (batch for batch in scan if batch.header.last_offset >= start_offset)
    shown = 0
    for batch in islice(batches, limit):
        shown += 1
        yield BatchLine(batch.position, batch.header)
    if shown != limit:
        yield from _end_of(scan)


def each_record_line(
    scan: LogScan, decoder: RecordDecoder | None, *, start_offset: int, limit: int | None
) -> Iterator[Line]:
    """The records from `start_offset` on, `limit` of them at most, each batch's header before its records."""
    left = limit
    for batch in scan:
        header = batch.header
        if header.last_offset < start_offset:
            continue
        if left == 0:
            return
        try:
            records = decode_batch(batch.data, header)
        except CorruptBatchError as error:
            yield BatchLine(batch.position, header)
            yield DamageLine(
                batch.position + HEADER_BYTES,
                f"the checksum of the batch at offset {header.base_offset} is right, but its records do not decode: {error}",
            )
            return
        yield BatchLine(batch.position, header)
        for record in records:
            if record.offset < start_offset:
                continue
            if left == 0:
                return
            yield _record_line(batch, record, decoder)
            if left is not None:
                left -= 1
    if left != 0:
        yield from _end_of(scan)


def damage_sentence(damage: Damage) -> str:
    """What is wrong, where whole batches end, and whether there are more behind the damage."""
    sentence = f"{damage.sentence}. Everything before byte {damage.batch_position} is whole"
    if damage.resumes_at is None:
        return f"{sentence}; no whole batch follows"
    return f"{sentence}; the next whole batch begins at byte {damage.resumes_at}, at offset {damage.resumes_offset}"


def _record_line(batch: ScannedBatch, record: Record, decoder: RecordDecoder | None) -> RecordLine:
    try:
        if batch.header.is_control:
            return RecordLine(record, control=decode_control(record))
        if decoder is not None:
            return RecordLine(record, decoded=decoder(record))
    except (WireError, CorruptBatchError) as error:
        return RecordLine(record, not_decoded=str(error), is_hidden=hides_secrets(decoder))
    return RecordLine(record)


def _end_of(scan: LogScan) -> Iterator[Line]:
    if scan.damage is not None:
        yield DamageLine(scan.damage.position, damage_sentence(scan.damage))
    elif scan.zeros:
        yield NoteLine(
            scan.position, f"{scan.zeros} zero bytes to the end of the file: space that was preallocated, no damage"
        )
