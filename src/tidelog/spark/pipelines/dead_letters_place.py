"""Whether the dead letters of a checkpoint are a query of their own there, or are written with the pipeline's rows.

    NAME.dead-letters/metadata     Spark's, of a query of their own
    NAME.dead-letters/within       an empty file of ours: they are written with the rows, and no query may begin here

Spark's own file systems read and write them, since a checkpoint may be wherever they reach.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession


class DeadLettersPlace:
    """The directory that a query for dead letters has in the checkpoint of a pipeline, or would have."""

    def __init__(self, spark: SparkSession, place: str) -> None:
        self._jvm: Any = spark._jvm  # noqa: SLF001 - Spark has no other way to its file systems
        self._place = place
        self._conf: Any = spark._jsparkSession.sessionState().newHadoopConf()  # noqa: SLF001

    @property
    def are_apart(self) -> bool:
        """Whether a query of their own was started here."""
        return self._is_there("metadata")

    @property
    def are_within(self) -> bool:
        return self._is_there("within")

    def keep_within(self) -> None:
        """Have it known, from before the first batch on, that they are written with the rows."""
        if not self.are_within:
            path = self._path("within")
            path.getFileSystem(self._conf).create(path, False).close()

    def _is_there(self, name: str) -> bool:
        path = self._path(name)
        return bool(path.getFileSystem(self._conf).exists(path))

    def _path(self, name: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(f"{self._place}/{name}")
