"""What the offset index and the time index share: a file of fixed-size entries that rise, read and written as memory.

    not looked at     an inactive segment's index until somebody asks: no file is opened, nothing is mapped
    known             the number of entries and the last one are known; the file is as long as its entries
    mapped            a lookup wanted the middle: the entries are mapped
    growing           an append wanted room: the file is preallocated to `bytes_max` and mapped whole

The tail of a growing file is zeros. They are the preallocation, never data: entries rise and none is all zeros behind the
first, so the end of the data is found by binary search when a killed process, ours or Apache Kafka's, left the tail behind.
`trim_to_valid` cuts it off, on a roll and on a clean stop. Nothing is checksummed: after a crash an index is rebuilt from
its log.

An index belongs to one thread, except `sync`, which may run on another as long as the file is not renamed meanwhile.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import ClassVar

from tidelog.model.ids import Offset
from tidelog.storage.files import File, Files, Mapping
from tidelog.storage.index_file import IndexFile

INT32_MAX = 2**31 - 1

# Space is reserved ahead of the entries in steps of this size. A store into a mapping with no space behind it does not fail,
# it kills the process; and to reserve all of `bytes_max` at once would cost an idle partition 20 MB.
RESERVE_BYTES = 64 * 1024


class MappedIndex(IndexFile):
    """The parts of an index that do not depend on what an entry means."""

    ENTRY_BYTES: ClassVar[int]
    # Whether the first entry may be all zeros. If so, a file of just one entry is taken at its word.
    FIRST_MAY_BE_ZEROS: ClassVar[bool] = False

    def __init__(
        self,
        files: Files,
        path: str,
        base_offset: Offset,
        *,
        bytes_max: int = 0,
        active: bool = False,
        writable: bool = True,
    ) -> None:
        """Open the index of a segment, making the file if `active` and there is none.

        `bytes_max` is how far it may grow; a file that is longer already keeps its entries and is full. An index that is not
        `writable` never changes the file, whatever it finds.
        """
        super().__init__(files, path, base_offset)
        self._capacity_bytes = bytes_max // self.ENTRY_BYTES * self.ENTRY_BYTES
        self._writable = writable
        self._loaded = False
        self._file_bytes = 0
        self._used_bytes = 0
        # How far an append may store without asking for room: mapped, and reserved on the disk.
        self._writable_bytes = 0
        self._mapping: Mapping | None = None
        if active:
            self._load(create=writable)

    # What an entry means, for the subclasses to say. `view` holds `used_bytes` of entries from its start.

    def _remember_last(self, entry: bytes) -> None:
        """Take note of the last entry; of there being none, when `entry` is empty."""
        raise NotImplementedError

    def _slot_of_offset(self, view: memoryview, offset: int) -> int:
        """The first slot whose offset is at or above `offset`."""
        raise NotImplementedError

    @property
    def entries(self) -> int:
        """How many entries there are."""
        return self._used() // self.ENTRY_BYTES

    @property
    def entries_max(self) -> int:
        """How many entries fit."""
        return max(self._capacity_bytes, self._used()) // self.ENTRY_BYTES

    @property
    def size_bytes(self) -> int:
        """The bytes that entries take, without the preallocated tail."""
        return self._used()

    @property
    def is_full(self) -> bool:
        return self.entries >= self.entries_max

    @property
    def is_mapped(self) -> bool:
        return self._mapping is not None

    def can_append_offset(self, offset: int) -> bool:
        """Whether the distance of `offset` from the base fits an entry. Where not, the segment must roll."""
        return 0 <= offset - self.base_offset <= INT32_MAX

    def truncate_to(self, offset: int) -> None:
        """Remove all entries whose offset is at or above `offset`."""
        if self._used():
            self._set_used(self._slot_of_offset(self._view(), offset) * self.ENTRY_BYTES)

    def truncate_all(self) -> None:
        """Remove all entries."""
        self._used()
        self._set_used(0)

    def trim_to_valid(self) -> None:
        """Cut the file to its entries, as it must be once the segment is no longer appended to."""
        self.resize(self._used())

    def resize(self, bytes_max: int) -> None:
        """Make the file `bytes_max` long, rounded down to whole entries, and never so short that an entry is lost."""
        size = max(bytes_max // self.ENTRY_BYTES * self.ENTRY_BYTES, self._used())
        if size != self._file_bytes:
            self._unmap()
            self._cut_file(size)

    def close(self) -> None:
        """Trim, and release the memory. The index may be used again: it opens by itself."""
        if self._loaded and self._writable and self._file_bytes > self._used_bytes:
            self.trim_to_valid()
        self.release()

    def release(self) -> None:
        """Release the memory without touching the file: for a directory that failed, or one that is going away."""
        self._unmap()
        self._loaded = False

    def remove(self) -> bool:
        """Delete the file. False if there was none."""
        self.release()
        return self._files.remove(self.path)

    def _damage(self) -> str | None:
        """What is plainly wrong with the file as a file, in one sentence."""
        if not self._files.exists(self.path):
            return f"{self.path} is missing"
        self._used()
        if self._file_bytes % self.ENTRY_BYTES:
            return f"{self.path} is {self._file_bytes} bytes long, which is no multiple of {self.ENTRY_BYTES}"
        return None

    def _used(self) -> int:
        if not self._loaded:
            self._load(create=False)
        return self._used_bytes

    def _load(self, *, create: bool) -> None:
        """Find out how many entries there are, reading no more than the last one unless the file has a tail of zeros."""
        self._file_bytes = self._used_bytes = self._writable_bytes = 0
        last = b""
        if create or self._files.exists(self.path):
            file = self._files.open(self.path, create=create, writable=self._writable)
            try:
                self._file_bytes = file.size()
                self._used_bytes = self._file_bytes // self.ENTRY_BYTES * self.ENTRY_BYTES
                if self._used_bytes:
                    last = file.pread(self.ENTRY_BYTES, self._used_bytes - self.ENTRY_BYTES)
                    is_alone = self._used_bytes == self.ENTRY_BYTES
                    if not any(last) and not (is_alone and self.FIRST_MAY_BE_ZEROS):
                        last = self._find_end(file)
            finally:
                file.close()
        self._loaded = True
        self._remember_last(last)

    def _find_end(self, file: File) -> bytes:
        """Set `used_bytes` to where the zeros begin, and return the last entry before.

        Reads instead of mapping: the tail of a killed process is a hole, and where a file system (tmpfs) finds a page for a
        hole that is looked at through a mapping, a full disk would kill this process with SIGBUS.
        """
        size = self.ENTRY_BYTES
        slots = range(self._used_bytes // size)
        end = bisect_left(slots, True, key=lambda slot: not any(file.pread(size, slot * size))) * size
        self._used_bytes = end
        return file.pread(size, end - size) if end else b""

    def _view(self) -> memoryview:
        """The entries as memory. There must be one at least."""
        if self._mapping is None:
            file = self._files.open(self.path, writable=self._writable)
            try:
                self._mapping = file.map(self._used_bytes)
            finally:
                file.close()
        return self._mapping.view

    def _room(self) -> memoryview:
        """Where to store the next entry: mapped and with space on the disk behind it. ValueError if the index is full."""
        self._check_room()
        if self._mapping is None or self._used_bytes + self.ENTRY_BYTES > self._writable_bytes:
            file = self._files.open(self.path, create=True)
            try:
                if self._writable_bytes == 0:
                    self._unmap()
                    if self._file_bytes != self._capacity_bytes:
                        # What lies behind the entries is cut first: the tail must be zeros.
                        file.truncate(self._used_bytes)
                        file.truncate(self._capacity_bytes)
                        self._file_bytes = self._capacity_bytes
                wanted = min(self._used_bytes + RESERVE_BYTES, self._capacity_bytes)
                file.allocate(wanted - self._used_bytes, self._used_bytes)
                if self._mapping is None:
                    self._mapping = file.map(self._capacity_bytes)
                self._writable_bytes = wanted
            finally:
                file.close()
        return self._mapping.view

    def _write_last(self, entry: bytes) -> None:
        """Store the last entry of all with a write, in an index that is not mapped for appends: to reserve space, map it and cut
        it off again would take the disk some milliseconds, for every log of a node that stops. ValueError if it is full."""
        self._check_room()
        self._unmap()
        file = self._files.open(self.path, create=True)
        try:
            if self._file_bytes != self._used_bytes:
                file.truncate(self._used_bytes)
            file.pwritev([entry], self._used_bytes)
            self._file_bytes = self._used_bytes + len(entry)
        finally:
            file.close()

    def _check_room(self) -> None:
        if not self._writable:
            raise ValueError(f"{self.path} was opened for reading only")
        if self._used() + self.ENTRY_BYTES > self._capacity_bytes:
            raise ValueError(f"{self.path} is full: it has {self.entries} entries")

    def _set_used(self, used_bytes: int) -> None:
        """Keep the first `used_bytes` of entries."""
        if used_bytes == self._used_bytes:
            return
        last = bytes(self._view()[used_bytes - self.ENTRY_BYTES : used_bytes]) if used_bytes else b""
        if self._mapping is not None and self._writable_bytes:
            # Left in place, a removed entry would look like data to whoever opens the file after a kill.
            self._mapping.view[used_bytes : self._used_bytes] = bytes(self._used_bytes - used_bytes)
        else:
            self._unmap()
            self._cut_file(used_bytes)
        self._used_bytes = used_bytes
        self._remember_last(last)

    def _cut_file(self, size: int) -> None:
        file = self._files.open(self.path, create=True)
        try:
            file.truncate(size)
            self._file_bytes = size
        finally:
            file.close()

    def _unmap(self) -> None:
        self._writable_bytes = 0
        if self._mapping is not None:
            self._mapping.close()
            self._mapping = None
