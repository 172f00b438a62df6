"""Record batches: records of 100 bytes in batches of 16 KB, read and written, against aiokafka's compiled code.

What is read is a fetch of 64 batches, 1 MB. Each side walks over it batch by batch and ends with the same five fields of every
record: as tuples, or as Arrow columns, which aiokafka does not have and which are compared with its tuples.
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
from aiokafka.record import _crecords as aiokafka_records

from benchmarks.compare import Comparison, compare, finish
from tidelog.kernel_choice import choice
from tidelog.wire.columns import build_batches, read_columns
from tidelog.wire.record_batch import each_batch
from tidelog.wire.records import Record, build_batch, decode_batch, decode_tuples

BATCH_BYTES = 16 * 1024
BATCHES = 64
VALUE = b"v" * 100
FIRST_TIMESTAMP = 1_700_000_000_000
# As many as fit into 16 KB.
RECORDS = 148
TOTAL = BATCHES * RECORDS

TIMESTAMPS = [FIRST_TIMESTAMP + index for index in range(TOTAL)]
ROWS = [Record(index, TIMESTAMPS[index], None, VALUE) for index in range(RECORDS)]
FETCH = build_batch(ROWS) * BATCHES


def rows_of_tidelog() -> None:
    for position, header in each_batch(FETCH):
        decode_tuples(FETCH, header, position)


def named_rows_of_tidelog() -> None:
    for position, header in each_batch(FETCH):
        decode_batch(FETCH, header, position)


def rows_of_aiokafka() -> None:
    records = aiokafka_records.MemoryRecords(FETCH)
    while (batch := records.next_batch()) is not None:
        [(each.offset, each.timestamp, each.key, each.value, each.headers) for each in batch]


def records_of_aiokafka() -> None:
    records = aiokafka_records.MemoryRecords(FETCH)
    while (batch := records.next_batch()) is not None:
        list(batch)


TABLE = pa.table({"value": pa.array([VALUE] * TOTAL, pa.binary()), "timestamp": pa.array(TIMESTAMPS, pa.int64())})


def batches_of_tidelog() -> None:
    for _ in build_batches(TABLE, timestamp_ms=0, batch_bytes_max=BATCH_BYTES):
        pass


def batches_of_tidelog_from_rows() -> None:
    for _ in range(BATCHES):
        build_batch(ROWS)


def batches_of_aiokafka() -> None:
    row = 0
    while row < TOTAL:
        builder = aiokafka_records.DefaultRecordBatchBuilder(2, 0, 0, -1, -1, -1, BATCH_BYTES)
        offset = 0
        while row < TOTAL and builder.append(offset, TIMESTAMPS[row], None, VALUE, []) is not None:
            offset += 1
            row += 1
        builder.build()


def main() -> None:
    print(f"kernels: {choice.twin} {choice.reason}".rstrip())
    aiokafka: dict[str, Callable[[], object]] = {"aiokafka": rows_of_aiokafka}
    comparisons: list[Comparison] = [
        compare(
            "decode to row tuples", {"tidelog": rows_of_tidelog, **aiokafka}, at_least=2.5, per_call=TOTAL, unit="rows"
        ),
        compare(
            "decode to Arrow columns, plain binary",
            {"tidelog": lambda: read_columns(FETCH), **aiokafka},
            at_least=4,
            per_call=TOTAL,
            unit="rows",
        ),
        compare(
            "decode to Arrow columns, views of the fetch buffer",
            {"tidelog": lambda: read_columns(FETCH, views=True), **aiokafka},
            at_least=4,
            per_call=TOTAL,
            unit="rows",
        ),
        compare(
            "encode from Arrow columns",
            {"tidelog": batches_of_tidelog, "aiokafka": batches_of_aiokafka},
            at_least=5,
            per_call=TOTAL,
            unit="rows",
        ),
        # For scale, without a goal.
        compare("decode to named rows", {"tidelog": named_rows_of_tidelog, **aiokafka}, per_call=TOTAL, unit="rows"),
        compare(
            "decode to row tuples, against record objects whose fields nobody reads",
            {"tidelog": rows_of_tidelog, "aiokafka": records_of_aiokafka},
            per_call=TOTAL,
            unit="rows",
        ),
        compare(
            "encode from rows",
            {"tidelog": batches_of_tidelog_from_rows, "aiokafka": batches_of_aiokafka},
            per_call=TOTAL,
            unit="rows",
        ),
    ]
    finish("records", comparisons)


if __name__ == "__main__":
    main()
