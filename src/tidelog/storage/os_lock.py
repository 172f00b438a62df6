"""The lock of a data directory: no second process, ours or Apache Kafka's, works in it meanwhile."""

from __future__ import annotations

import errno
import fcntl
import os
import threading

from tidelog.storage.errors import DirectoryInUseError, StorageError, translated
from tidelog.storage.files import parent_of

# All locks of files that this process can see, each with device and inode (proc(5)).
_LOCKS = "/proc/locks"

# fcntl locks belong to the process: a second node in it would get the same lock again, and its close would drop both.
_locked_here: dict[tuple[int, int], str] = {}
_locked_here_guard = threading.Lock()


class OsLock:
    """`fcntl.lockf` on the whole file, which is what Java's `FileChannel.tryLock` takes, plus the table above."""

    def __init__(self, path: str) -> None:
        self.path = path
        # The table is asked before the file is opened: closing any descriptor of a file drops the process's locks on it.
        with _locked_here_guard:
            if (holder := _locked_here.get(_identity(path))) is not None:
                raise _in_use(path, f"a node in this process ({holder}) uses", "stop it")
            with translated("lock", path):
                self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
                try:
                    fcntl.lockf(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    self._identity = _identity(path)
                except OSError as error:
                    os.close(self._descriptor)
                    if error.errno in {errno.EACCES, errno.EAGAIN}:
                        raise _in_use(path, "another process uses", "stop it (Apache Kafka included)") from error
                    raise
            _locked_here[self._identity] = path

    def release(self) -> None:
        with _locked_here_guard:
            if _locked_here.pop(self._identity, None) is not None:
                with translated("unlock", self.path):
                    os.close(self._descriptor)


def _identity(path: str) -> tuple[int, int]:
    """Device and inode: two names of one directory are one directory."""
    try:
        status = os.stat(path)
    except FileNotFoundError:
        return (-1, -1)
    except OSError as error:
        raise StorageError(path, "lock", error.errno) from error
    return (status.st_dev, status.st_ino)


def _in_use(path: str, who: str, what_to_do: str) -> DirectoryInUseError:
    return DirectoryInUseError(
        path, f"{who} the directory {parent_of(path)}; {what_to_do}, or choose another directory"
    )


def is_locked(path: str) -> bool:
    """Whether any process that this one can see holds the lock. Nothing is opened."""
    with _locked_here_guard:
        device, inode = _identity(path)
        if (device, inode) in _locked_here:
            return True
    # To open the file and to close it again would drop a lock of this process's own. Linux lists all that it can see.
    try:
        with open(_LOCKS, encoding="ascii") as locks:
            held = locks.read()
    except OSError:
        return False
    return f" {os.major(device):02x}:{os.minor(device):02x}:{inode} " in held if inode >= 0 else False
