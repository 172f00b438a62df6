"""Upkeep of an Iceberg table between batches: snapshots that are old enough are expired, and files that only they had deleted.

    if is_due(batch_id):
        report = upkeep(target, named)

Every commit writes the table's metadata once more with all its snapshots: a table that is written to all day gets slower with
each batch. How long they are kept is for the table to say (`history.expire.max-snapshot-age-ms` and
`history.expire.min-snapshots-to-keep`); where it does not, five days, and no more than a thousand.

The catalog takes the snapshots out, and refuses to where the main branch has moved meanwhile: then nothing is done this time.
Files are deleted after that, by what the table has then. PyIceberg's own expiry deletes no file. Small files are not made larger
here: engines that have a shuffle do that better (`CALL system.rewrite_data_files` of Spark).
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence

import msgspec
from pyiceberg.manifest import ManifestFile
from pyiceberg.table import Table
from pyiceberg.table.refs import MAIN_BRANCH
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.table.update import RemoveSnapshotsUpdate

from tidelog.spark.outputs.iceberg_catalog import ConflictError, commit_on_head, loaded, opened
from tidelog.spark.outputs.kind import Swept
from tidelog.spark.outputs.staged import Target

# A look at the table costs a read of its metadata: not after every batch.
BATCHES_BETWEEN = 16
# A commit writes them all; with so many it is half a megabyte.
SNAPSHOTS_MAX = 1000
# So many are worth a commit of their own.
EXPIRED_MIN = 16

_AGE_MS = "history.expire.max-snapshot-age-ms"
_KEPT = "history.expire.min-snapshots-to-keep"
_AGE_MS_DEFAULT = 5 * 24 * 60 * 60 * 1000


class Upkeep(msgspec.Struct, frozen=True):
    """What was found and done."""

    snapshots: int = 0
    """Of the table, before."""
    expired: int = 0
    gave_way: bool = False
    """Somebody else changed the table meanwhile: next time."""
    deleted: Swept = Swept()
    """Files that no snapshot has any more."""


def is_due(batch_id: int) -> bool:
    """Whether a look is worth it after this batch."""
    return batch_id % BATCHES_BETWEEN == BATCHES_BETWEEN - 1


def upkeep(target: Target, named: frozenset[str]) -> Upkeep:
    """Between two batches; `named` are attempts that an open decision names. OutputUnreachableError where the catalog does not
    answer, which costs nothing but another time."""
    with opened(target) as catalog:
        table = loaded(catalog, target)
        count = len(table.metadata.snapshots)
        expired = expirable(table, now_ms=time.time_ns() // 1_000_000)
        if len(expired) < EXPIRED_MIN:
            return Upkeep(count)
        update = RemoveSnapshotsUpdate.model_validate({"snapshot-ids": [each.snapshot_id for each in expired]})
        try:
            commit_on_head(table, update)
        except ConflictError:
            return Upkeep(count, gave_way=True)
        return Upkeep(count, len(expired), deleted=_delete_unreachable(table, loaded(catalog, target), expired, named))


def expirable(table: Table, *, now_ms: int) -> list[Snapshot]:
    """Snapshots that nobody is promised any more: none that a tag or a branch names, and none at all where there is a branch
    beside main, whose history is not ours to judge."""
    refs = table.metadata.refs.values()
    if sum(each.snapshot_ref_type == "branch" for each in refs) != 1 or MAIN_BRANCH not in table.metadata.refs:
        return []
    properties = table.properties
    age_ms = _number(properties.get(_AGE_MS), _AGE_MS_DEFAULT)
    kept = max(1, _number(properties.get(_KEPT), 1))
    kept_max = max(kept, SNAPSHOTS_MAX) if _AGE_MS not in properties else len(table.metadata.snapshots)
    named = {each.snapshot_id for each in refs}
    newest_first = sorted(table.metadata.snapshots, key=lambda each: each.sequence_number or 0, reverse=True)
    return [
        each
        for position, each in enumerate(newest_first)
        if position >= kept
        and each.snapshot_id not in named
        and (position >= kept_max or now_ms - each.timestamp_ms > age_ms)
    ]


def _number(text: str | None, default: int) -> int:
    return int(text) if text is not None and text.isdecimal() else default


def _delete_unreachable(before: Table, now: Table, expired: Sequence[Snapshot], named: frozenset[str]) -> Swept:
    """Files of expired snapshots that no other one has."""
    kept_manifests = {
        each.manifest_path: each for snapshot in now.metadata.snapshots for each in snapshot.manifests(now.io)
    }
    kept_lists = {snapshot.manifest_list for snapshot in now.metadata.snapshots}
    gone_ids = {each.snapshot_id for each in expired} - {each.snapshot_id for each in now.metadata.snapshots}
    gone = [each for each in expired if each.snapshot_id in gone_ids]
    manifests = {
        each.manifest_path: each
        for snapshot in gone
        for each in snapshot.manifests(before.io)
        if each.manifest_path not in kept_manifests
    }
    data = _live_files(before, manifests.values())
    if data:
        for path in _live_files(now, kept_manifests.values()):
            data.pop(path, None)
    files = size = 0
    lists = [each.manifest_list for each in gone if each.manifest_list not in kept_lists]
    sizes = {**data, **{path: each.manifest_length for path, each in manifests.items()}, **dict.fromkeys(lists, 0)}
    for path, length in sizes.items():
        if any(f"-{attempt}." in path for attempt in named):
            continue
        try:
            now.io.delete(path)
        except OSError:
            continue
        files, size = files + 1, size + length
    return Swept(files, size)


def _live_files(table: Table, manifests: Iterable[ManifestFile]) -> dict[str, int]:
    return {
        entry.data_file.file_path: entry.data_file.file_size_in_bytes
        for manifest in manifests
        for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=True)
    }
