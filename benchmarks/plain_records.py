"""Record batches in plain Python, as on a machine without a C compiler, against kafka-python, which is plain Python too.

TIDELOG_KERNELS=python python -m benchmarks.plain_records      (`benchmarks.all` sets it)
"""

from __future__ import annotations

import sys

from kafka.record.default_records import DefaultRecordBatchBuilder
from kafka.record.memory_records import MemoryRecords

from benchmarks.compare import compare, finish
from benchmarks.records import BATCH_BYTES, FETCH, RECORDS, ROWS, TOTAL, rows_of_tidelog
from tidelog.kernel_choice import choice
from tidelog.wire.records import build_batch


def rows_of_kafka_python() -> None:
    records = MemoryRecords(FETCH)
    while (batch := records.next_batch()) is not None:
        [(each.offset, each.timestamp, each.key, each.value, each.headers) for each in batch]


def batch_of_kafka_python() -> None:
    builder = DefaultRecordBatchBuilder(2, 0, False, -1, -1, -1, BATCH_BYTES)
    for offset, timestamp, key, value, headers in ROWS:
        builder.append(offset, timestamp, key, value, headers)
    builder.build()


def main() -> None:
    if choice.twin != "python":
        sys.exit("plain_records measures plain Python: run it with TIDELOG_KERNELS=python")
    finish(
        "plain_records",
        [
            compare(
                "decode in plain Python, without the kernels",
                {"tidelog": rows_of_tidelog, "kafka-python": rows_of_kafka_python},
                at_least=1,
                per_call=TOTAL,
                unit="rows",
            ),
            compare(
                "encode in plain Python, without the kernels",
                {"tidelog": lambda: build_batch(ROWS), "kafka-python": batch_of_kafka_python},
                at_least=1,
                per_call=RECORDS,
                unit="rows",
            ),
        ],
    )


if __name__ == "__main__":
    main()
