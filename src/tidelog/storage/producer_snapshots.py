"""The snapshots of its producers that a partition has in its directory, by their offsets."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Collection, Iterable

from tidelog.model.ids import Offset
from tidelog.storage.files import Files
from tidelog.storage.producer_snapshot import (
    ProducerSnapshotEntry,
    offset_of_snapshot,
    read_snapshot,
    snapshot_name,
    write_snapshot,
)

DELETED_SUFFIX = ".deleted"


class ProducerSnapshots:
    """The files, smallest offset first. None is read before somebody asks for it."""

    def __init__(self, files: Files, directory: str) -> None:
        self._files = files
        self._directory = directory
        self._offsets: list[Offset] = []
        self.reload()

    @property
    def offsets(self) -> tuple[Offset, ...]:
        return tuple(self._offsets)

    @property
    def latest(self) -> Offset | None:
        return self._offsets[-1] if self._offsets else None

    @property
    def oldest(self) -> Offset | None:
        return self._offsets[0] if self._offsets else None

    def path(self, offset: int) -> str:
        return f"{self._directory}/{snapshot_name(offset)}"

    def reload(self) -> None:
        """Look for snapshots in the directory again."""
        self._offsets = []
        if self._files.is_dir(self._directory):
            offsets = map(offset_of_snapshot, self._files.list_directory(self._directory))
            self._offsets = sorted(offset for offset in offsets if offset is not None)

    def write(self, offset: Offset, entries: Iterable[ProducerSnapshotEntry], *, sync: bool) -> str:
        """Write the state at `offset`; the path of its file."""
        path = self.path(offset)
        write_snapshot(self._files, path, entries, sync=sync)
        if offset not in self._offsets:
            insort(self._offsets, offset)
        return path

    def read(self, offset: int) -> list[ProducerSnapshotEntry]:
        """The producers of a snapshot. `DamagedFileError` unless every byte is as it was written."""
        return read_snapshot(self._files, self.path(offset))

    def delete(self, offset: Offset) -> None:
        self._offsets.remove(offset)
        self._files.remove(self.path(offset))

    def delete_before(self, offset: int) -> None:
        """Delete the snapshots below `offset`."""
        for each in self._offsets[: bisect_left(self._offsets, offset)]:
            self.delete(each)

    def delete_all_but(self, after: int, up_to: int) -> None:
        """Delete the snapshots that are not above `after` and at most `up_to`."""
        for offset in self.offsets:
            if offset > up_to or offset <= after:
                self.delete(offset)

    def delete_all(self) -> None:
        for offset in self.offsets:
            self.delete(offset)

    def remove_stray(self, segment_base_offsets: Collection[int]) -> None:
        """Delete the snapshots that belong to no segment, except the newest one if it is beyond all: a clean stop left it."""
        self.reload()
        last_base_offset = max(segment_base_offsets, default=None)
        stray = [offset for offset in self._offsets if offset not in segment_base_offsets]
        if stray and (last_base_offset is None or stray[-1] >= last_base_offset):
            stray.pop()
        for offset in stray:
            self.delete(offset)

    def mark_for_deletion(self, offset: int) -> str | None:
        """Forget the snapshot at `offset` and rename it to `.deleted`, for a later removal: its new path, or None."""
        if offset not in self._offsets:
            return None
        self._offsets.remove(Offset(offset))
        path = self.path(offset)
        if not self._files.exists(path):
            return None
        self._files.rename(path, path + DELETED_SUFFIX)
        return path + DELETED_SUFFIX

    def relocate(self, directory: str) -> None:
        """Take note that the partition's directory was renamed."""
        self._directory = directory
