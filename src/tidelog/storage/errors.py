"""What can go wrong under a log directory.

    StorageError                 the device or directory failed: its partitions go offline, the node goes on
      DamagedFileError           the bytes are there, but no writer leaves them so
      DirectoryInUseError        another node holds the directory

All carry the path and the operation. An error that a caller forgets to treat therefore takes one directory offline, never
the node, and always says which file it was.
"""

from __future__ import annotations

import errno as errno_names
import os
from collections.abc import Iterator
from contextlib import contextmanager


class StorageError(Exception):
    """An operation on a file or directory failed. `errno` is the system's reason, or None where there is none."""

    def __init__(self, path: str, operation: str, errno: int | None, reason: str | None = None) -> None:
        self.path = path
        self.operation = operation
        self.errno = errno
        self.reason = reason if reason is not None else _reason(errno)
        super().__init__(path, operation, errno, self.reason)

    def __str__(self) -> str:
        return f"cannot {self.operation} {self.path}: {self.reason}"

    @property
    def is_missing(self) -> bool:
        """Whether the file or directory simply is not there."""
        return self.errno in {errno_names.ENOENT, errno_names.ENOTDIR}

    @property
    def is_disk_full(self) -> bool:
        return self.errno in {errno_names.ENOSPC, errno_names.EDQUOT}


class DamagedFileError(StorageError):
    """A file holds something that neither this program nor Apache Kafka writes."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(path, "read", None, reason)

    def __reduce__(self) -> tuple[type[DamagedFileError], tuple[str, str]]:
        return type(self), (self.path, self.reason)


class DirectoryInUseError(StorageError):
    """The lock of a log directory is held by another node, in this process or in another one."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(path, "lock", None, reason)

    def __reduce__(self) -> tuple[type[DirectoryInUseError], tuple[str, str]]:
        return type(self), (self.path, self.reason)


def _reason(errno: int | None) -> str:
    if errno is None:
        return "unknown reason"
    return f"{os.strerror(errno)} ({errno_names.errorcode.get(errno, errno)})"


@contextmanager
def translated(operation: str, path: str) -> Iterator[None]:
    """Around calls of the system: their errors are `StorageError`s."""
    try:
        yield
    except OSError as error:
        raise StorageError(path, operation, error.errno) from error
