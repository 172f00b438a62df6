"""The log of one Delta table, by Delta's own library: every effect that a kind has on a table is a method here.

    log.end_once(app_id, batch_id, step)       load, compare, and let `step` commit from that very version

The library writes an application's `txn` action and never compares it, and left to itself it commits again on top of whoever
was faster. Then a driver that slept between its look and its commit would write a batch a second time. So it is told not to try
again: a commit from a version that is not the last one any more fails, and the loop here loads and compares anew. Of two that
end one batch, one commits; the other sees its `txn`.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from tidelog.spark.outputs.delta_merge import MergePlan
from tidelog.spark.outputs.delta_removals import Commit, commit_of
from tidelog.spark.outputs.delta_schema import DeltaFacts
from tidelog.spark.outputs.kind import OutputRefusedError, OutputUnreachableError
from tidelog.spark.outputs.staged import Target
from tidelog.spark.outputs.storage import CONNECT_TIMEOUT_S, REQUEST_TIMEOUT_S, REQUEST_TRIES_MAX, Storage, is_denied
from tidelog.spark.secret_references import resolved

if TYPE_CHECKING:
    import pyarrow as pa
    from deltalake import DeltaTable
    from deltalake.transaction import AddAction, CommitProperties

# ruff: noqa: PLC0415 - Delta's library is loaded by whoever looks at a table, which tasks do not

# Other writers that were faster, one after another. Each has made progress of its own; so many in a row, and the pipeline tells.
COMMITS_MAX = 50
# `part-`, an attempt's name, whose it is, and which file of the attempt.
_STAGED_NAME = re.compile(r"part-(\d{10}-\d{5,}-\d+-\d+-.+)-([0-9a-f]{12})-\d+\.parquet")
_ENDPOINT = "AWS_ENDPOINT_URL"
_LOG = "_delta_log"
# Of a batch that somebody else has ended: others may have written since.
_SYNCED_VERSIONS = 20
# What is asked for is what became of one of the last batches. A version is a file, and each of a store a request.
COMMITS_READ_MAX = 2000
# A hundred thousand files, each with its statistics.
_LOGGED_BYTES_MAX = 256 * 1024 * 1024
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_SENTENCE_CHARACTERS_MAX = 400
# What would let two commits of one version both succeed.
_UNSAFE = {"AWS_S3_ALLOW_UNSAFE_RENAME": "true", "AWS_CONDITIONAL_PUT": "disabled"}


class DeltaLog:
    """One table by its place. Nothing is kept between calls."""

    def __init__(self, target: Target) -> None:
        self._target = target

    @property
    def place(self) -> str:
        """As the library takes it: Java writes a file's URI with one slash."""
        found = self._target.place
        return urlsplit(found).path if found.startswith("file:/") else found

    def load(self) -> DeltaTable | None:
        """The table as it is now; None where there is none. OutputUnreachableError."""
        from deltalake import DeltaTable
        from deltalake.exceptions import TableNotFoundError

        with told_of(self.place):
            try:
                return DeltaTable(self.place, storage_options=self.settings())
            except TableNotFoundError:
                return None

    def loaded(self) -> DeltaTable:
        """OutputRefusedError where the table is gone."""
        table = self.load()
        if table is None:
            raise OutputRefusedError(f"there is no Delta table at {self.place}: it was removed, or never made")
        return table

    def create(self, fields: Sequence[Mapping[str, Any]], partition_by: Sequence[str]) -> None:
        """The table, unless somebody else was faster."""
        from deltalake import DeltaTable, Schema

        schema = Schema.from_json(json.dumps({"type": "struct", "fields": list(fields)}))
        with told_of(self.place):
            DeltaTable.create(
                self.place, schema, mode="ignore", partition_by=list(partition_by), storage_options=self.settings()
            )

    def widen(self, table: DeltaTable, fields: Sequence[Mapping[str, Any]]) -> bool:
        """Add columns that may be null. False where somebody else was faster: the caller looks again."""
        from deltalake import CommitProperties, Field
        from deltalake.exceptions import CommitFailedError

        added = [Field.from_json(json.dumps(each)) for each in fields]
        with told_of(self.place):
            try:
                table.alter.add_columns(added, commit_properties=CommitProperties(max_commit_retries=0))
            except CommitFailedError:
                return False
        return True

    def add(self, table: DeltaTable, actions: Sequence[AddAction], properties: CommitProperties) -> None:
        """Files to the table; none is allowed, and leaves only what the properties say. CommitFailedError where it has moved
        on."""
        partition_by = table.metadata().partition_columns
        table.create_write_transaction(
            list(actions), "append", table.schema(), partition_by=partition_by, commit_properties=properties
        )

    def replace(
        self, table: DeltaTable, removed: Sequence[str], actions: Sequence[AddAction], properties: CommitProperties
    ) -> None:
        """Files in place of others, in one version. CommitFailedError where the table has moved on."""
        from deltalake.transaction import RemoveAction

        now_ms, sizes = int(time.time() * 1000), files_of(table)
        gone = [RemoveAction(each, data_change=True, deletion_timestamp=now_ms, size=sizes[each]) for each in removed]
        partition_by = table.metadata().partition_columns
        table.create_write_transaction(
            [*gone, *actions], "append", table.schema(), partition_by=partition_by, commit_properties=properties
        )

    def merge(
        self, table: DeltaTable, source: pa.RecordBatchReader, plan: MergePlan, properties: CommitProperties
    ) -> None:
        """Rows by key; also where none has changed, the properties are left in the table. CommitFailedError where it has moved
        on."""
        before = table.version()
        merger = table.merge(
            source, plan.on, source_alias="source", target_alias="target", commit_properties=properties
        )
        if plan.delete_when is not None:
            merger = merger.when_matched_delete(plan.delete_when or None)
        merger = merger.when_matched_update(plan.updates, plan.update_when or None)
        merger.when_not_matched_insert(plan.inserts, plan.insert_when or None).execute()
        if table.version() == before:
            # The library makes no version of a merge that changes nothing.
            self.add(table, [], properties)

    def end_once(self, app_id: str, batch_id: int, step: Callable[[DeltaTable, CommitProperties], None]) -> None:
        """On return the table has the batch, by this call or an earlier one, and keeps it over a loss of power. `step` commits
        with the properties from the table that it gets; OutputRefusedError from it, and where the table is gone."""
        from deltalake import CommitProperties, Transaction
        from deltalake.exceptions import CommitFailedError

        table = self.loaded()
        for _ in range(COMMITS_MAX):
            last = table.transaction_version(app_id)
            if last is not None and last >= batch_id:
                # By somebody who may have died before this.
                self._sync(range(max(0, table.version() - _SYNCED_VERSIONS), table.version() + 1))
                return
            before = table.version()
            properties = CommitProperties(
                max_commit_retries=0,
                app_transactions=[Transaction(app_id, batch_id)],
                custom_metadata={"tidelog.app": app_id, "tidelog.batch": str(batch_id)},
            )
            with told_of(self.place):
                try:
                    step(table, properties)
                except CommitFailedError as error:
                    newer = self.loaded()
                    if newer.version() == table.version():
                        # Nobody was faster: it is something else, which will not pass by itself.
                        reason = sentence_of(error)
                        raise OutputUnreachableError(f"{self.place} does not take the batch: {reason}") from error
                    table = newer
                else:
                    self._sync(range(before + 1, before + 2))
                    return
        raise OutputUnreachableError(f"others wrote to {self.place} first, {COMMITS_MAX} times in a row")

    def _sync(self, versions: range) -> None:
        """The library leaves to the system when its files come to the disk. Those of these versions are there on return, with
        the checkpoints that came with them. A store keeps what it has answered for."""
        storage = Storage.at(self._target.place, self._target.storage)
        if not storage.is_local:
            return
        names = {f"{version:020d}" for version in versions}
        found = [each.name for each in Path(storage.root, _LOG).iterdir()]
        logged = [f"{_LOG}/{name}" for name in found if name[:20] in names]
        added = [path for each in logged if each.endswith(".json") for path in _added(storage, each)]
        with told_of(self.place):
            storage.sync_all([*added, *logged, f"{_LOG}/_last_checkpoint"])

    def commits(self, table: DeltaTable) -> Iterator[Commit]:
        """What the versions up to this one have done, the newest first, as far back as the log has them; `COMMITS_READ_MAX` at
        most."""
        storage = Storage.at(self._target.place, self._target.storage)
        newest = int(table.version())
        for version in range(newest, max(-1, newest - COMMITS_READ_MAX), -1):
            try:
                lines = storage.read(f"{_LOG}/{version:020d}.json", bytes_max=_LOGGED_BYTES_MAX).splitlines()
            except FileNotFoundError:
                return
            yield commit_of(version, [json.loads(line) for line in lines if line])

    def with_deletions(self, table: DeltaTable) -> frozenset[str]:
        """Names of files of this version of which some rows do not count."""
        import pyarrow as pa

        with told_of(self.place):
            vectors = pa.table(table.deletion_vectors())
        return frozenset(unquote(str(each)).rpartition("/")[2] for each in vectors.column("filepath").to_pylist())

    def compact(self, table: DeltaTable, *, target_bytes: int) -> tuple[int, int] | None:
        """Small files made into fewer: how many, into how many. None where somebody else has changed some of them meanwhile;
        files that were only added do not matter, and the library commits on top of them."""
        from deltalake.exceptions import CommitFailedError

        with told_of(self.place):
            try:
                found = table.optimize.compact(target_size=target_bytes)
            except CommitFailedError:
                return None
        return int(found["numFilesRemoved"]), int(found["numFilesAdded"])

    def unread(self, table: DeltaTable) -> list[str]:
        """Files in the table's directory that no version has which may still be read, as the table itself says how long. What
        attempts have staged is not among them, unless it was in the table: somebody's decision may name it."""
        with told_of(self.place):
            both = table.vacuum(dry_run=True, full=True)
            removed = set(table.vacuum(dry_run=True, full=False))
        return sorted(path for path in both if path in removed or staged_by(path) is None)

    def never_named(self, table: DeltaTable) -> list[str]:
        """Files in the table's directory that no version names which may still be read. Those that were taken out of the table
        are not among them: they belong to versions of before, until a vacuum comes."""
        with told_of(self.place):
            # Without a time limit both lists have what was removed since; the longer one has what was never there as well.
            both = table.vacuum(0, dry_run=True, enforce_retention_duration=False, full=True)
            removed = table.vacuum(0, dry_run=True, enforce_retention_duration=False, full=False)
        return sorted(set(both) - set(removed))

    def settings(self) -> dict[str, str] | None:
        """For the library, with secrets in place of references."""
        found = {name: str(value) for name, value in resolved(self._target.storage).items()}
        if found.get(_ENDPOINT, "").startswith("http://"):
            # The library asks for it to be said twice.
            found.setdefault("AWS_ALLOW_HTTP", "true")
        if _ENDPOINT in found and "AWS_DEFAULT_REGION" not in os.environ:
            # Without one it asks Amazon, which is no help with a store of one's own.
            found.setdefault("AWS_REGION", os.environ.get("AWS_REGION", "us-east-1"))
        if "://" in self.place:
            # By the library's own names; as `storage` asks.
            found |= {
                "connect_timeout": f"{CONNECT_TIMEOUT_S}s",
                "timeout": f"{REQUEST_TIMEOUT_S}s",
                "retry_timeout": f"{REQUEST_TIMEOUT_S}s",
                "max_retries": str(REQUEST_TRIES_MAX - 1),
            }
        return found or None


def _added(storage: Storage, logged: str) -> list[str]:
    """The files that a version adds."""
    lines = storage.read(logged, bytes_max=_LOGGED_BYTES_MAX).splitlines()
    return [unquote(action["add"]["path"]) for line in lines if "add" in (action := json.loads(line))]


def facts_of(table: DeltaTable) -> DeltaFacts:
    protocol, metadata = table.protocol(), table.metadata()
    return DeltaFacts(
        writer_version=protocol.min_writer_version,
        writer_features=tuple(protocol.writer_features or ()),
        configuration=dict(metadata.configuration),
        partition_by=tuple(metadata.partition_columns),
        table_id=str(metadata.id),
        fields=tuple(json.loads(table.schema().to_json())["fields"]),
    )


def files_of(table: DeltaTable) -> dict[str, int]:
    """Files of this version, by their path below the table's place, with their bytes."""
    import pyarrow as pa

    actions: pa.Table = pa.table(table.get_add_actions(flatten=True))
    paths, sizes = actions.column("path").to_pylist(), actions.column("size_bytes").to_pylist()
    return {unquote(str(path)): int(size or 0) for path, size in zip(paths, sizes, strict=True)}


def staged_name(attempt: str, owner: str, n: int) -> str:
    """Of a file in the table's directory, where several sinks and pipelines may stage."""
    return f"part-{attempt}-{owner}-{n}.parquet"


def staged_by(path: str) -> tuple[str, str] | None:
    """The attempt and the owner (`parquet_staging.owner_of`) of a staged file; None for files of others."""
    found = _STAGED_NAME.fullmatch(path.rpartition("/")[2])
    return None if found is None else (found[1], found[2])


def storage_faults(target: Target) -> list[str]:
    """Settings of the object store with which no commit is sure to be the only one of its version."""
    return [
        f"{name}={value} lets two writers commit the same version of {target.place}, so that one of them is lost"
        for name, value in target.storage.items()
        if name in _UNSAFE and value.lower() == _UNSAFE[name]
    ]


@contextlib.contextmanager
def told_of(place: str) -> Iterator[None]:
    """What the library raises in one sentence: OutputRefusedError for a right that is missing, else OutputUnreachableError.
    CommitFailedError is left to the caller inside."""
    from deltalake.exceptions import DeltaError

    try:
        yield
    except (DeltaError, OSError) as error:
        if is_denied(error):
            raise OutputRefusedError(f"{place} may not be read or written: {sentence_of(error)}") from error
        raise OutputUnreachableError(f"{place} cannot be read or written: {sentence_of(error)}") from error


def sentence_of(error: BaseException) -> str:
    """The library draws a tree of causes in colours, with the reason at its leaves."""
    lines = [line.strip(" \u21b3") for line in _COLOUR.sub("", str(error)).splitlines()]
    return " ".join(line for line in lines if line)[:_SENTENCE_CHARACTERS_MAX]
