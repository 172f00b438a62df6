"""The one door to the disk: every file and directory of `storage` is reached through `Files`.

`os_files.OsFiles` is the real one. A test or the simulator passes another that loses what was not synced, tears writes and fails
on request, so what is durable is stated here precisely:

    content    what `File.pwritev`, `truncate`, `allocate` and a mapping changed is durable after `File.sync`
    names      what `open(create=True)`, `rename`, `remove` and the `*_directory` calls changed is durable after
               `sync_directory` of the directory that holds the name

Every failure is a `StorageError`. Paths are `str`. Nothing here knows what a log is.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Sequence
from typing import NamedTuple, Protocol

from tidelog.storage.errors import DamagedFileError, StorageError

# Byte buffers whose `len` is their size. A memoryview of anything but bytes is cast by its owner.
ReadableBytes = bytes | bytearray | memoryview | mmap.mmap
WritableBytes = bytearray | memoryview | mmap.mmap

# What `write_bytes_atomically` writes to before the rename; Kafka's name for it, so that either program cleans up.
TEMPORARY_SUFFIX = ".tmp"


class Mapping(Protocol):
    """The first bytes of a file as memory. What is stored into `view` is in the file at once, durable after a sync.

    Nobody keeps a slice of `view`: `close` releases it, and a slice would keep the memory mapped.
    """

    @property
    def view(self) -> memoryview: ...

    def flush(self) -> None:
        """Make what was stored durable."""
        ...

    def close(self) -> None:
        """Release the memory. What was stored stays in the file. A second close does nothing."""
        ...


class File(Protocol):
    """An open file. All reads and writes name their position; there is no cursor."""

    @property
    def path(self) -> str:
        """Where it was when it was opened."""
        ...

    def fileno(self) -> int:
        """The descriptor, for `os.sendfile`."""
        ...

    def size(self) -> int: ...

    def pread(self, count: int, position: int) -> bytes:
        """Up to `count` bytes; fewer only where the file ends."""
        ...

    def preadv(self, buffers: Sequence[WritableBytes], position: int) -> int:
        """Fill `buffers` in order; fewer bytes than they hold only where the file ends."""
        ...

    def pwritev(self, buffers: Sequence[ReadableBytes], position: int) -> int:
        """Write all bytes of all `buffers` in order, or raise; then any part of them may have been written."""
        ...

    def truncate(self, size: int) -> None:
        """Cut to `size`, or extend to it with zeros that take no space."""
        ...

    def allocate(self, size: int, position: int = 0) -> None:
        """Reserve space for `size` bytes at `position`, extending the file: what is stored there later cannot fail for want
        of space. A mapping needs it, since a store into memory has no other way to report a full disk than to kill."""
        ...

    def reserve(self, size: int, position: int) -> None:
        """Have the file system find room for `size` bytes at `position` now, without moving the file's end. Only a hint: where it
        is refused, nothing happens. What is not written to is given back by `truncate`."""
        ...

    def sync(self) -> None:
        """Make content and size durable. Not the name: that is `Files.sync_directory`."""
        ...

    def map(self, size: int) -> Mapping:
        """The first `size` > 0 bytes as memory, writable if the file is. The file may be closed meanwhile."""
        ...

    def close(self) -> None:
        """A second close does nothing."""
        ...


class Lock(Protocol):
    """A held lock. Released by `release`, and by the death of the process."""

    @property
    def path(self) -> str: ...

    def release(self) -> None: ...


class DiskSpace(NamedTuple):
    """How large the file system under a path is, and how much of it this process may still fill."""

    total_bytes: int
    usable_bytes: int


class Files(Protocol):
    """A file system."""

    def open(self, path: str, *, create: bool = False, writable: bool = True) -> File:
        """`create` makes an empty file where there is none; otherwise a missing file is an error."""
        ...

    def exists(self, path: str) -> bool: ...

    def is_dir(self, path: str) -> bool: ...

    def size_of(self, path: str) -> int: ...

    def space_of(self, path: str) -> DiskSpace: ...

    def modified_ms(self, path: str) -> int:
        """When the content last changed, in milliseconds since 1970: the age of a file that has no timestamps inside."""
        ...

    def set_modified_ms(self, path: str, modified_ms: int) -> None:
        """Give a file the age of another one, whose content it has taken over."""
        ...

    def list_directory(self, path: str) -> list[str]:
        """The names in a directory, sorted, without `.` and `..`."""
        ...

    def make_directory(self, path: str) -> None:
        """Make it, and its parents. One that exists already is no error."""
        ...

    def rename(self, old: str, new: str) -> None:
        """Atomically; a file at `new` is replaced."""
        ...

    def remove(self, path: str) -> bool:
        """Remove a file. False if there was none."""
        ...

    def remove_directory(self, path: str) -> None:
        """Remove an empty directory."""
        ...

    def remove_tree(self, path: str) -> None:
        """Remove a directory and all that is in it. A missing one is no error."""
        ...

    def sync_directory(self, path: str) -> None: ...

    def read_bytes(self, path: str, limit: int) -> bytes:
        """The whole of a small file. `DamagedFileError` where it is longer than `limit`: nothing small grows like that."""
        ...

    def write_bytes_atomically(self, path: str, data: bytes) -> None:
        """Replace a small file, durably: a crash leaves the old content or the new, never a part."""
        ...

    def descriptors_max(self) -> int:
        """How many files, sockets among them, the process may have open at a time."""
        ...

    def lock(self, path: str) -> Lock:
        """Take an exclusive lock, or raise `DirectoryInUseError` at once. Creates the file."""
        ...

    def is_locked(self, path: str) -> bool:
        """Whether somebody holds the lock, as far as the system tells without the file being opened."""
        ...


def parent_of(path: str) -> str:
    """The directory that holds the name."""
    return os.path.dirname(path) or "."


def check_limit(path: str, data: bytes, limit: int) -> bytes:
    """`data`, unless it is longer than such a file can be."""
    if len(data) > limit:
        raise DamagedFileError(path, f"it is longer than the {limit} bytes that such a file may have")
    return data


def replace_file(files: Files, path: str, data: bytes) -> None:
    """`write_bytes_atomically`, in terms of the rest of `Files`: content first, then the name, each made durable."""
    temporary = path + TEMPORARY_SUFFIX
    file = files.open(temporary, create=True)
    try:
        file.truncate(0)
        file.pwritev([data], 0)
        file.sync()
    finally:
        file.close()
    files.rename(temporary, path)
    files.sync_directory(parent_of(path))


def read_if_present(files: Files, path: str, limit: int) -> bytes | None:
    """`read_bytes`, or None where there is no such file."""
    try:
        return files.read_bytes(path, limit)
    except StorageError as error:
        if error.is_missing:
            return None
        raise
