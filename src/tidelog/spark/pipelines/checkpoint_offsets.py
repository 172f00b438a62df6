"""What Spark's own checkpoint says of a batch: the entry `offsets/N`, written before it runs, and the same when it runs again.

    v1
    {"batchWatermarkMs":0,"batchTimestampMs":...,"conf":{...}}
    {"orders":{"0":120,"1":118},"orders#PYkO...":{}}                 a line for each source: where the batch ends, in which topics

Where the checkpoint is a URL, Spark's own file systems read it, in this process.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from tidelog.spark.connect_session import is_connect
from tidelog.spark.pipelines.pipeline_file import is_local
from tidelog.spark.sink.audit_entry import PartitionRange
from tidelog.spark.source.partition_offsets import ID_MARK, created_again

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
    return _read(spark, f"{checkpoint}/offsets/{batch_id}")


def query_id(spark: SparkSession, checkpoint: str) -> str | None:
    """The id that Spark has given a query when its checkpoint was begun; None where it cannot be read."""
    found = _read(spark, f"{checkpoint}/metadata")
    try:
        document = json.loads(found or b"")
    except ValueError:
        return None
    known = document.get("id") if isinstance(document, dict) else None
    return known if isinstance(known, str) else None


def topics_read(spark: SparkSession, checkpoint: str) -> list[frozenset[str]] | None:
    """The topics of each source that the last batch of a query had, in the order of Spark's; None where there is none, or the
    checkpoint cannot be read."""
    entry = read_entry(spark, checkpoint, _last_batch(spark, checkpoint))
    return None if entry is None else [frozenset(topic for topic, _ in each.offsets) for each in _sources(entry)]


def is_in_step(spark: SparkSession, checkpoint: str) -> bool:
    """Whether sources of one topic are equally far in it, in the last batch and before it: then one of them may stand for all."""
    last = _last_batch(spark, checkpoint)
    entries = [read_entry(spark, checkpoint, each) for each in (last, last - 1)]
    return all(entry is None or _is_in_step(_sources(entry)) for entry in entries)


def _is_in_step(sources: Sequence[_Source]) -> bool:
    return all(
        one.offsets == other.offsets
        for one, other in combinations(sources, 2)
        if not {topic for topic, _ in one.offsets}.isdisjoint(topic for topic, _ in other.offsets)
    )


def _last_batch(spark: SparkSession, checkpoint: str) -> int:
    """-1 where there is none, or the checkpoint cannot be read."""
    jvm = spark._jvm  # noqa: SLF001 - Spark has no other way to its file systems
    if jvm is None:
        return -1
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]  # noqa: PLC0415 - with Spark

    try:
        path = jvm.org.apache.hadoop.fs.Path(f"{checkpoint}/offsets")
        listed = path.getFileSystem(spark._jsparkSession.sessionState().newHadoopConf()).listStatus(path)  # noqa: SLF001
        names = [str(each.getPath().getName()) for each in listed]
    except Py4JError:
        return -1
    return max((int(each) for each in names if each.isascii() and each.isdigit()), default=-1)


def goes_on(read: Sequence[frozenset[str]], planned: Sequence[frozenset[str]]) -> bool:
    """Whether a plan that names these topics goes on where a checkpoint is, source by source. A pattern names none."""
    return len(read) == len(planned) and all(
        not before or not now or before <= now or now <= before for before, now in zip(read, planned, strict=True)
    )


def _read(spark: SparkSession, place: str) -> bytes | None:
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
    sources, earlier = _sources(entry), [] if before is None else _sources(before)
    # A plan may name a source several times.
    found: dict[PartitionRange, None] = {}
    for index, source in enumerate(sources):
        known = earlier[index] if index < len(earlier) else None
        for (topic, partition), end in sorted(source.offsets.items()):
            if known is None:
                start = UNKNOWN
            elif topic in created_again(known.topic_ids, source.topic_ids):
                # Another topic by the same name, of which nothing was read before.
                start = 0
            else:
                # A partition that is new begins at its beginning.
                start = known.offsets.get((topic, partition), 0)
            if start != end:
                found.setdefault(PartitionRange(topic, partition, start, end))
    return tuple(found)


class _Source(NamedTuple):
    """Where a batch ends in one source."""

    offsets: dict[tuple[str, int], int]
    topic_ids: dict[str, str]
    """Of topics that the source has said them of."""


def _sources(entry: bytes) -> list[_Source]:
    return [_of_source(line) for line in entry.decode("utf-8", "replace").splitlines()[_HEAD_LINES:]]


def _of_source(line: str) -> _Source:
    """What else a source has in its document is passed over."""
    try:
        document = json.loads(line)
    except ValueError:
        return _Source({}, {})
    if not isinstance(document, dict):
        return _Source({}, {})
    offsets = {
        (topic, int(partition)): offset
        for topic, partitions in document.items()
        if isinstance(partitions, dict)
        for partition, offset in partitions.items()
        if partition.isascii() and partition.isdigit() and isinstance(offset, int)
    }
    marked = [key.partition(ID_MARK) for key in document]
    return _Source(offsets, {topic: topic_id for topic, mark, topic_id in marked if mark})


def _read_over_connect(spark: SparkSession, place: str) -> bytes | None:
    from pyspark.errors import PySparkException  # noqa: PLC0415 - only for a URL

    try:
        found = spark.read.format("binaryFile").load(place)
        rows = found.where(found["length"] <= ENTRY_BYTES_MAX).select("content").collect()
    except PySparkException:
        return None
    return bytes(rows[0][0]) if rows else None


def _read_by_spark(spark: SparkSession, place: str) -> bytes | None:
    if is_connect(spark):
        return _read_over_connect(spark, place)
    jvm = spark._jvm  # noqa: SLF001 - Spark has no other way to its file systems
    if jvm is None:
        return None
    from py4j.protocol import Py4JError  # noqa: PLC0415 - only for a URL

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
