"""The sink with a driver that dies while it commits: `format("mortal")`, with a death for some of the batches.

Spark commits in a process of Python's that it starts for that. It dies there by a signal, or is told of a failure; and Spark's
`abort`, which then comes, may find the same end. Each death comes once: the run after it gets through.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Mapping
from enum import Enum
from pathlib import Path
from unittest import mock

import msgspec
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.streaming.readwriter import DataStreamWriter
from pyspark.sql.types import StructType

from tests.spark.sink_tasks import Died, Moment, MortalCommitter
from tests.spark.topics import options, stream
from tidelog.client.errors import NotReachedError
from tidelog.spark.sink import sink_committer
from tidelog.spark.sink.sink import StreamSink
from tidelog.spark.sink.sink_options import SinkOptions, parse_sink_options
from tidelog.spark.sink.sink_participant import SinkIdentity
from tidelog.spark.source.source import TidelogSource

# What a commit asks for that is not the first one of its run.
DECISION, END = 2, 3
RETURNED = 99

_DEATHS, _DIRECTORY = "deaths", "deathdirectory"


class Manner(Enum):
    KILLED = "killed"
    FAILED = "failed"
    """The cluster could not be reached, and the commit says so."""
    HANGS = "hangs"


class Death(msgspec.Struct, frozen=True):
    effect_number: int
    moment: Moment = Moment.BEFORE
    manner: Manner = Manner.KILLED
    has_abort: bool = False
    """Whether Spark's `abort` gets through."""


class MortalSource(TidelogSource):
    """The tests' own: the product has no such option."""

    @classmethod
    def name(cls) -> str:
        return "mortal"

    def __init__(self, options: dict[str, str]) -> None:
        given = {name: text for name, text in options.items() if name.lower() not in {_DEATHS, _DIRECTORY}}
        super().__init__(given)
        self._deaths = options[_DEATHS]
        self._directory = options[_DIRECTORY]

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:  # noqa: N802
        deaths = msgspec.json.decode(self._deaths, type=dict[int, Death])
        return MortalSink(parse_sink_options(self.options, is_stream=True), schema, deaths, Path(self._directory))


class MortalSink(StreamSink):
    def __init__(self, options: SinkOptions, schema: StructType, deaths: Mapping[int, Death], directory: Path) -> None:
        super().__init__(options, schema)
        self._deaths = deaths
        self._directory = directory

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        death = self._deaths.get(batchId)
        if death is None or not self._is_first(f"commit-{batchId}"):
            super().commit(messages, batchId)
            return

        def mortal(identity: SinkIdentity, run: str, settings: Mapping[str, object]) -> MortalCommitter:
            return MortalCommitter(identity, run, settings).dying(death.effect_number, death.moment)

        with mock.patch.object(sink_committer, "SinkCommitter", mortal), contextlib.suppress(Died):
            super().commit(messages, batchId)
        match death.manner:
            case Manner.KILLED:
                os.kill(os.getpid(), signal.SIGKILL)
            case Manner.FAILED:
                raise NotReachedError("no broker answers")
            case Manner.HANGS:
                (self._directory / "hangs").touch()
                signal.pause()

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        death = self._deaths.get(batchId)
        if death is not None and not death.has_abort and self._is_first(f"abort-{batchId}"):
            os.kill(os.getpid(), signal.SIGKILL)
        super().abort(messages, batchId)

    def _is_first(self, name: str) -> bool:
        """Whether it has not come to this before, in whichever process."""
        try:
            (self._directory / name).touch(exist_ok=False)
        except FileExistsError:
            return False
        return True


def mortal_writer(
    rows: DataFrame, bootstrap: str, target: str, directory: Path, deaths: Mapping[int, Death]
) -> DataStreamWriter:
    """A stream that writes through this sink, with its checkpoint in the directory."""
    directory.mkdir(exist_ok=True)
    rows.sparkSession.dataSource.register(MortalSource)
    given = {
        "kafka.bootstrap.servers": bootstrap,
        "topic": target,
        "checkpointLocation": str(directory / "checkpoint"),
        _DEATHS: msgspec.json.encode(deaths).decode(),
        _DIRECTORY: str(directory),
    }
    return rows.writeStream.format("mortal").options(**given).trigger(availableNow=True)


def rows_of(spark: SparkSession, bootstrap: str, topic: str, *, batch_rows: int) -> DataFrame:
    given = options(bootstrap, topic, startingOffsets="earliest", maxOffsetsPerTrigger=str(batch_rows))
    return stream(spark, given).select("value")
