"""What Spark's own checkpoint says of a batch: the entry `offsets/N`, written before it runs, and the same when it runs again.

    v1
    {"batchWatermarkMs":0,"batchTimestampMs":...,"conf":{...}}
    {"orders":{"0":120,"1":118}}                                     a line for each source: where the batch ends

Where the checkpoint is a URL, Spark's own file systems read it, in this process.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING

from tidelog.spark.pipelines.pipeline_file import is_local
from tidelog.spark.sink.audit_entry import PartitionRange

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Some hundred thousand partitions.
ENTRY_BYTES_MAX = 64 * 1024 * 1024
UNKNOWN = -1
"""The start of a range of the first batch: Spark does not write down where a pipeline begins."""
_HEAD_LINES = 2


def read_entry(spark: SparkSession, checkpoint: str, batch_id: int) -> bytes | None:
    """The entry of a batch; None where there is none, or it cannot be read."""
    if batch_id < 0:
        return None
    place = f"{checkpoint}/offsets/{batch_id}"
    if is_local(place):
        try:
            with Path(place).open("rb") as file:
                content = file.read(ENTRY_BYTES_MAX + 1)
        except OSError:
            return None
    else:
        found = _read_by_spark(spark, place)
        if found is None:
            return None
        content = found
    return content if len(content) <= ENTRY_BYTES_MAX else None


def entry_hash(entry: bytes) -> str:
    """The identity of a batch's input. Spark runs a batch again by the same file, byte for byte."""
    return hashlib.sha256(entry).hexdigest()


def input_ranges(entry: bytes, before: bytes | None) -> tuple[PartitionRange, ...]:
    """What a batch has read, by its entry and that of the batch before. Sources that are no topics are left out."""
    ends, starts = _offsets(entry), [] if before is None else _offsets(before)
    found = []
    for index, offsets in enumerate(ends):
        known = starts[index] if index < len(starts) else None
        for (topic, partition), end in sorted(offsets.items()):
            # A partition that is new begins at its beginning.
            start = UNKNOWN if known is None else known.get((topic, partition), 0)
            if start != end:
                found.append(PartitionRange(topic, partition, start, end))
    return tuple(found)


def _offsets(entry: bytes) -> list[dict[tuple[str, int], int]]:
    return [_of_source(line) for line in entry.decode("utf-8", "replace").splitlines()[_HEAD_LINES:]]


def _of_source(line: str) -> dict[tuple[str, int], int]:
    """Offsets by topic and partition. What else a source has in its document is passed over."""
    try:
        document = json.loads(line)
    except ValueError:
        return {}
    if not isinstance(document, dict):
        return {}
    return {
        (topic, int(partition)): offset
        for topic, partitions in document.items()
        if isinstance(partitions, dict)
        for partition, offset in partitions.items()
        if partition.isascii() and partition.isdigit() and isinstance(offset, int)
    }


def _read_by_spark(spark: SparkSession, place: str) -> bytes | None:
    jvm = spark._jvm  # noqa: SLF001 - Spark has no other way to its file systems
    if jvm is None:
        return None
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]  # noqa: PLC0415 - only for a URL

    try:
        path = jvm.org.apache.hadoop.fs.Path(place)
        system = path.getFileSystem(spark._jsparkSession.sessionState().newHadoopConf())  # noqa: SLF001
        if system.getFileStatus(path).getLen() > ENTRY_BYTES_MAX:
            return None
        stream = system.open(path)
        try:
            return bytes(jvm.org.apache.commons.io.IOUtils.toByteArray(stream))
        finally:
            stream.close()
    except Py4JError:
        return None
