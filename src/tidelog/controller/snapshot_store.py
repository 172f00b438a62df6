"""The snapshots that lie beside the metadata log: which there are, the one that is being fetched, and their content.

Names and bytes are those of `snapshot_file`. What was being written or fetched when a process died is removed by the next.
"""

from __future__ import annotations

from collections.abc import Iterable

from tidelog.controller.snapshot_file import (
    PART_SUFFIX,
    SNAPSHOT_SUFFIX,
    Snapshot,
    SnapshotHead,
    parse_snapshot_name,
    read_snapshot,
    read_snapshot_head,
    snapshot_name,
    write_snapshot,
)
from tidelog.raft.log_view import OffsetAndEpoch
from tidelog.storage.files import File, Files

_DELETED_SUFFIX = ".deleted"


class SnapshotStore:
    """The snapshots of one directory, by id."""

    def __init__(self, files: Files, directory: str) -> None:
        self._files = files
        self._directory = directory
        self._sizes: dict[OffsetAndEpoch, int] = {}
        self._part: tuple[OffsetAndEpoch, File] | None = None
        for name in files.list_directory(directory):
            snapshot_id = parse_snapshot_name(name)
            if snapshot_id is not None:
                self._sizes[snapshot_id] = files.size_of(f"{directory}/{name}")
            elif name.endswith((SNAPSHOT_SUFFIX + PART_SUFFIX, SNAPSHOT_SUFFIX + _DELETED_SUFFIX)):
                files.remove(f"{directory}/{name}")

    def __len__(self) -> int:
        return len(self._sizes)

    def __contains__(self, snapshot_id: OffsetAndEpoch) -> bool:
        return snapshot_id in self._sizes

    @property
    def ids(self) -> list[OffsetAndEpoch]:
        """All of them, the oldest first."""
        return sorted(self._sizes)

    @property
    def size_bytes(self) -> int:
        return sum(self._sizes.values())

    def size_of(self, snapshot_id: OffsetAndEpoch) -> int | None:
        return self._sizes.get(snapshot_id)

    def path(self, snapshot_id: OffsetAndEpoch) -> str:
        return f"{self._directory}/{snapshot_name(snapshot_id)}"

    # --- content -----------------------------------------------------------------------------------------------------------

    def read(self, snapshot_id: OffsetAndEpoch) -> Snapshot:
        """`DamagedFileError` where it is not whole."""
        return read_snapshot(self._files, self.path(snapshot_id))

    def head(self, snapshot_id: OffsetAndEpoch) -> SnapshotHead:
        return read_snapshot_head(self._files, self.path(snapshot_id))

    def read_bytes(self, snapshot_id: OffsetAndEpoch, position: int, bytes_max: int) -> bytes:
        """A piece, for a follower."""
        file = self._files.open(self.path(snapshot_id), writable=False)
        try:
            return file.pread(bytes_max, position)
        finally:
            file.close()

    # --- one made here -----------------------------------------------------------------------------------------------------

    def write(self, snapshot_id: OffsetAndEpoch, batches: Iterable[bytes]) -> int:
        """Write a whole snapshot, durably. May run on another thread: it is not among the others before `add`."""
        return write_snapshot(self._files, self.path(snapshot_id), batches)

    def add(self, snapshot_id: OffsetAndEpoch, size_bytes: int) -> None:
        self._sizes[snapshot_id] = size_bytes

    def remove(self, snapshot_id: OffsetAndEpoch) -> None:
        del self._sizes[snapshot_id]
        self._files.remove(self.path(snapshot_id))

    # --- one from another node ---------------------------------------------------------------------------------------------

    def write_part(self, snapshot_id: OffsetAndEpoch, position: int, data: bytes) -> None:
        """Write a piece of a snapshot that is being fetched; position 0 begins it anew."""
        if self._part is None or self._part[0] != snapshot_id:
            self.abandon_part()
            self._part = (snapshot_id, self._files.open(self.path(snapshot_id) + PART_SUFFIX, create=True))
        file = self._part[1]
        if position == 0:
            file.truncate(0)
        file.pwritev([data], position)

    def abandon_part(self) -> None:
        """Remove what was fetched of a snapshot that is no longer wanted."""
        if self._part is not None:
            snapshot_id, file = self._part
            self._part = None
            file.close()
            self._files.remove(self.path(snapshot_id) + PART_SUFFIX)

    def finish_part(self, snapshot_id: OffsetAndEpoch) -> SnapshotHead:
        """A snapshot was fetched to its end: check it, and give it its name, durably. What its head says."""
        if self._part is None or self._part[0] != snapshot_id:
            raise RuntimeError(f"snapshot {snapshot_id} is to be installed, but was not fetched")
        file = self._part[1]
        self._part = None
        path = self.path(snapshot_id)
        try:
            file.sync()
            size = file.size()
        finally:
            file.close()
        head = read_snapshot(self._files, path + PART_SUFFIX).head
        self._files.rename(path + PART_SUFFIX, path)
        self._files.sync_directory(self._directory)
        self._sizes[snapshot_id] = size
        return head

    def release(self) -> None:
        """Close what is open, and leave the files as they are."""
        if self._part is not None:
            self._part[1].close()
            self._part = None
