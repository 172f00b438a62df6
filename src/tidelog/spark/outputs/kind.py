"""What a kind of sink has to do: stage in tasks, refuse before the decision, end after it as often as asked.

    in a task                    attempt = kind.open_attempt(name, schema); attempt.write(batch)...; part = attempt.hand_over()
    the driver, before           kind.check(batch)       everything that can be refused is refused here
    whoever finds the decision   kind.end(batch)         again and again, with one outcome
    a batch that does not count  kind.discard(batch)     as far as it goes

An end must not be able to fail for good: what it does is made of what is staged and durable, never of a result that was computed
against one version of a table. A kind does it in one step that names `app_id` and batch in the table itself: Delta's `txn`, a
row of `tidelog_batches`, a table property. Then it can tell whether the step was made, whatever answer was lost.
"""

from __future__ import annotations

import abc
import importlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

import msgspec

from tidelog.spark.errors import SinkError
from tidelog.spark.outputs.staged import AttemptName, StagedBatch, StagedPart, Target
from tidelog.spark.outputs.storage import Storage, is_denied

if TYPE_CHECKING:
    import pyarrow as pa

    from tidelog.spark.outputs.replacement import ReplacedRows

_KINDS = {
    "delta": ("tidelog.spark.outputs.delta_table", "DeltaTableKind"),
    "files": ("tidelog.spark.outputs.file_output", "FileKind"),
    "iceberg": ("tidelog.spark.outputs.iceberg_table", "IcebergTableKind"),
    "mariadb": ("tidelog.spark.outputs.mariadb_table", "MariaDbKind"),
    "postgresql": ("tidelog.spark.outputs.postgresql_table", "PostgresqlKind"),
    "sqlite": ("tidelog.spark.outputs.sqlite_table", "SqliteKind"),
}


class OutputRefusedError(SinkError):
    """A table or database refuses the rows, and will again: a column that is missing, a right, a table that is gone."""


class OutputUnreachableError(SinkError):
    """A table or database does not answer, or somebody else is always faster: it may be tried again."""


class RowsGoneError(SinkError):
    """Rows of a batch that was ended are not there any more, or not as they were: somebody has removed or changed them."""


class Swept(msgspec.Struct, frozen=True):
    """What upkeep has removed of what no batch counts."""

    files: int = 0
    bytes: int = 0
    rows: int = 0


class StagingAttempt(Protocol):
    """One attempt of one task at one sink, from its first row on. `hand_over` or `abort` ends it."""

    def write(self, batch: pa.RecordBatch) -> None: ...

    def hand_over(self) -> StagedPart:
        """Once everything is durable."""

    def abort(self) -> None:
        """Take back what can be taken back; what stays is swept later."""


class OutputKind(abc.ABC):
    """One sink of a kind. Made from its target alone, in tasks, in the driver and in `recover`; connections are made when
    needed."""

    def __init__(self, target: Target, staging: str, staging_storage: dict[str, str]) -> None:
        """`staging` is the pipeline's staging directory for this sink, for what does not lie beside the table."""
        self.target = target
        self.staging = staging
        self.staging_storage = staging_storage

    @abc.abstractmethod
    def validate(self, schema: pa.Schema) -> Sequence[str]:
        """What is wrong with the target for rows of this schema, as far as it shows before any row: sentences. Makes nothing."""

    @abc.abstractmethod
    def prepare(self, schema: pa.Schema) -> None:
        """On the driver, when a query starts, before any task: make what is missing (a table, a staging table). DDL belongs here.
        OutputRefusedError where it cannot be."""

    def table_id(self) -> str:
        """What tells the table from another one that is made in its place later; empty where nothing does."""
        return ""

    @abc.abstractmethod
    def open_attempt(self, name: AttemptName, schema: pa.Schema) -> StagingAttempt: ...

    @abc.abstractmethod
    def check(self, batch: StagedBatch) -> None:
        """Before the decision. OutputRefusedError for whatever `end` would be refused for, as things are now."""

    @abc.abstractmethod
    def end(self, batch: StagedBatch) -> None:
        """Make the batch's rows count, once. On return they do, now or from an earlier call. OutputRefusedError: refused for
        good. OutputUnreachableError, OSError: nobody knows; it is asked again."""

    # Only tables whose files tell their batches have these.

    def replaceable(self, replaced: Sequence[ReplacedRows]) -> Sequence[str]:  # noqa: ARG002
        """The files that `replace` would take out, as the target is now. OutputRefusedError where it would not."""
        raise self._not_replaced()

    def replace(self, batch: StagedBatch, replaced: Sequence[ReplacedRows]) -> None:  # noqa: ARG002
        """Have the batch's rows in place of those, in one commit, once; as `end` otherwise."""
        raise self._not_replaced()

    def has_files(self, batch: StagedBatch) -> bool:  # noqa: ARG002
        """Whether the target names all files of a batch."""
        raise self._not_replaced()

    def _not_replaced(self) -> OutputRefusedError:
        return OutputRefusedError(f"rows of a batch are not replaced in {self.target.kind}")

    @abc.abstractmethod
    def discard(self, parts: Sequence[StagedPart]) -> None:
        """Remove what was staged and does not count. Nothing depends on it."""

    @abc.abstractmethod
    def last_batch(self, app_id: str) -> int | None:
        """The last batch that the target has under this name; None for none."""

    @abc.abstractmethod
    def sweep(self, named: frozenset[str], *, older_than_s: float) -> Swept:
        """Remove what attempts have staged that neither `named` (attempts of an open decision) nor the table has, once it is so
        old."""

    @abc.abstractmethod
    def gone(self) -> str:
        """Why the target has no rows of any batch: it was removed, or another one is in its place. Empty where it is there.
        OutputUnreachableError, OutputRefusedError where that cannot be told."""

    @abc.abstractmethod
    def read_back(self, batch: StagedBatch) -> tuple[int, int]:
        """Rows and checksum of what the target has of this batch. RowsGoneError where some are known to be gone,
        OutputRefusedError where they cannot be told apart any more."""


def try_place(storage: Storage, path: str, place: str) -> None:
    """Whether files may be written there, by writing one. OutputRefusedError, OutputUnreachableError."""
    try:
        storage.try_writing(path)
    except OSError as error:
        sentence = str(error).partition("\n")[0]
        if is_denied(error):
            raise OutputRefusedError(f"{place} may not be written to: {sentence}") from error
        raise OutputUnreachableError(f"{place} cannot be written to: {sentence}") from error


def kind_of(target: Target, staging: str, staging_storage: dict[str, str]) -> OutputKind:
    """The kind of a target, loaded when it is first needed. OutputRefusedError where its library is not installed."""
    try:
        module, name = _KINDS[target.kind]
    except KeyError:
        raise OutputRefusedError(
            f"there is no kind of sink {target.kind}; this release knows {', '.join(_KINDS)}"
        ) from None
    try:
        made: OutputKind = getattr(importlib.import_module(module), name)(target, staging, staging_storage)
    except ModuleNotFoundError as error:
        extra = "mysql" if target.kind == "mariadb" else target.kind
        raise OutputRefusedError(f"{target.kind} needs {error.name}: pip install tidelog[{extra}]") from None
    return made
