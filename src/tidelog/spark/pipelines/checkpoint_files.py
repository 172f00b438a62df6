"""Small files that a run leaves in its checkpoint for those who look: in a directory, or in an object store.

    files = CheckpointFiles.at("s3://bucket/checkpoints/revenue", {"AWS_ENDPOINT_URL": ...})
    files.write("progress.json", content)         # soon, and no batch waits for it

They are for looking, and nothing goes on by them: one that cannot be written is told once. An object store is written to by a
thread, which takes the newest content of a name where it cannot keep up.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping

from tidelog.spark.errors import OptionError
from tidelog.spark.outputs.storage import Storage
from tidelog.spark.pipelines.pipeline_file import is_local

log = logging.getLogger(__name__)

# A pipeline of some thousand queries has less.
FILE_BYTES_MAX = 16 * 1024 * 1024
_END_TIMEOUT_S = 10.0

# Hadoop's names for what an object store is told, of a checkpoint that Spark writes to, by those of `storage=`.
_HADOOP_NAMES = {
    "spark.hadoop.fs.s3a.endpoint": "AWS_ENDPOINT_URL",
    "spark.hadoop.fs.s3a.access.key": "AWS_ACCESS_KEY_ID",
    "spark.hadoop.fs.s3a.secret.key": "AWS_SECRET_ACCESS_KEY",
    "spark.hadoop.fs.s3a.session.token": "AWS_SESSION_TOKEN",
    "spark.hadoop.fs.s3a.endpoint.region": "AWS_REGION",
}


class CheckpointFiles:
    """Of one checkpoint."""

    def __init__(self, place: str, storage: Storage) -> None:
        self._place = place
        self._storage = storage
        self._is_told = False
        self._pending: dict[str, bytes] = {}
        self._is_closed = False
        self._changed = threading.Condition()
        self._writer: threading.Thread | None = None

    @classmethod
    def at(cls, checkpoint: str, settings: Mapping[str, str]) -> CheckpointFiles:
        """OptionError for a store that is neither a directory nor S3, and for settings that nobody knows."""
        return cls(checkpoint, Storage.at(checkpoint, {} if is_local(checkpoint) else settings))

    def write(self, name: str, content: bytes) -> None:
        """A reader sees the old or the new one."""
        if self._storage.is_local:
            self._write(name, content)
            return
        with self._changed:
            self._pending[name] = content
            if self._writer is None:
                self._writer = threading.Thread(target=self._run, name="tidelog-progress", daemon=True)
                self._writer.start()
            self._changed.notify()

    def read(self, name: str) -> bytes | None:
        """None where there is none. OSError where the place cannot be reached."""
        try:
            return self._storage.read(name, bytes_max=FILE_BYTES_MAX)
        except FileNotFoundError:
            return None

    def close(self) -> None:
        """What was written last is there on return, unless the store is too slow for that."""
        with self._changed:
            self._is_closed = True
            self._changed.notify()
        if self._writer is not None:
            self._writer.join(_END_TIMEOUT_S)

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: bool(self._pending) or self._is_closed)
                taken, self._pending = self._pending, {}
            if not taken:
                return
            for name, content in taken.items():
                self._write(name, content)

    def _write(self, name: str, content: bytes) -> None:
        try:
            self._storage.write(name, content, is_durable=False)
        except OSError as error:
            if not self._is_told:
                self._is_told = True
                log.warning(
                    "%s cannot be written in %s, so that status is not up to date: %s", name, self._place, error
                )


def checkpoint_settings(storage: Mapping[str, str], spark: Mapping[str, object]) -> dict[str, str]:
    """What the store of a checkpoint is told: `storage=` of the pipeline; without it what Spark is told of the same store. What
    neither says is in the environment."""
    if storage:
        return dict(storage)
    return {ours: str(spark[name]) for name, ours in _HADOOP_NAMES.items() if name in spark}


def files_at(checkpoint: str, settings: Mapping[str, str]) -> CheckpointFiles | None:
    """None where only Spark itself can read and write, such as HDFS; it is told."""
    try:
        return CheckpointFiles.at(checkpoint, settings)
    except OptionError as error:
        log.warning("how far queries are is not kept: %s", error)
        return None
