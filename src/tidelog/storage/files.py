# cython: annotation_typing=False, auto_pickle=False, binding=False, boundscheck=True, wraparound=True
"""The one door to the disk: every file and directory of `storage` is reached through `Files`.

`OsFiles` is the real one. A test or the simulator passes another that loses what was not synced, tears writes and fails
on request, so what is durable is stated here precisely:

    content    what `File.pwritev`, `truncate`, `allocate` and a mapping changed is durable after `File.sync`
    names      what `open(create=True)`, `rename`, `remove` and the `*_directory` calls changed is durable after
               `sync_directory` of the directory that holds the name

Every failure is a `StorageError`. Paths are `str`. Nothing here knows what a log is.
"""

from __future__ import annotations

import errno
import fcntl
import mmap
import os
import resource
import stat
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from typing import Any, NamedTuple, Protocol, cast

from tidelog.storage.errors import DamagedFileError, DirectoryInUseError, StorageError

# Byte buffers whose `len` is their size. A memoryview of anything but bytes is cast by its owner.
ReadableBytes = bytes | bytearray | memoryview | mmap.mmap
WritableBytes = bytearray | memoryview | mmap.mmap

# What `write_bytes_atomically` writes to before the rename; Kafka's name for it, so that either program cleans up.
TEMPORARY_SUFFIX = ".tmp"

# The descriptor of a closed file: one that no process has. -1 would not do, since a map of -1 is memory without a file.
_CLOSED = 2**31 - 1

# The system refuses longer vectors. Linux, macOS and the BSDs agree on the number.
IOV_MAX = 1024

# fdatasync leaves out times and modes but never a size that is needed to read the data back, and that is all we rely on.
# Where it does not exist (macOS), fsync does.
_sync_descriptor: Callable[[int], None] = getattr(os, "fdatasync", os.fsync)

# Blocks, but no other size of the file: <linux/falloc.h>.
_FALLOC_FL_KEEP_SIZE = 1

# A mapping keeps a duplicate of its descriptor unless told otherwise; two per active segment add up.
_MMAP_OPTIONS: dict[str, Any] = {"trackfd": False} if sys.version_info >= (3, 13) else {}
# An index is searched and grows by an entry at a time. Without that word the first store into a new one reads all that the disk
# reads ahead, which may be 8 MB of zeros to be made up: 5 ms, a tenth of the CPU of a produced gigabyte.
_MADV_RANDOM: int | None = getattr(mmap, "MADV_RANDOM", None)


# All locks of files that this process can see, each with device and inode (proc(5)).
_LOCKS = "/proc/locks"

# Where the system sets no limit of its own.
DESCRIPTORS_MAX = 1_000_000


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


@contextmanager
def _translated(operation: str, path: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StorageError(path, operation, error.errno) from error


class OsMapping:
    """A mapping of a real file."""

    def __init__(self, memory: mmap.mmap, path: str) -> None:
        self._memory = memory
        self._path = path
        self.view = memoryview(memory)

    def flush(self) -> None:
        with _translated("sync", self._path):
            self._memory.flush()

    def close(self) -> None:
        self.view.release()
        self._memory.close()


class OsFile:
    """A real file. What is done with it all day translates errors by hand: a context manager costs as much as the system call."""

    __slots__ = ("_descriptor", "_writable", "path")

    def __init__(self, path: str, descriptor: int, *, writable: bool) -> None:
        self.path = path
        self._descriptor = descriptor
        self._writable = writable

    def fileno(self) -> int:
        return self._descriptor

    def pread(self, count: int, position: int) -> bytes:
        try:
            data = os.pread(self._descriptor, count, position)
            if len(data) == count or not data:
                return data
            # A short read before the end is rare (a signal, a network file system), so it may be slow but not wrong.
            parts = [data]
            got = len(data)
            while got < count and (data := os.pread(self._descriptor, count - got, position + got)):
                parts.append(data)
                got += len(data)
            return b"".join(parts)
        except OSError as error:
            raise StorageError(self.path, "read", error.errno) from error

    def pwritev(self, buffers: Sequence[ReadableBytes], position: int) -> int:
        wanted = 0
        for buffer in buffers:
            wanted += len(buffer)
        done = 0
        try:
            if len(buffers) == 1:
                done = os.pwrite(self._descriptor, buffers[0], position)
            elif len(buffers) <= IOV_MAX:
                done = os.pwritev(self._descriptor, buffers, position)
            if done < wanted:
                done = self._write_rest(buffers, position, done, wanted)
        except OSError as error:
            raise StorageError(self.path, "write", error.errno) from error
        return done

    def size(self) -> int:
        with _translated("stat", self.path):
            return os.fstat(self._descriptor).st_size

    def preadv(self, buffers: Sequence[WritableBytes], position: int) -> int:
        wanted = sum(map(len, buffers))
        try:
            done = os.preadv(self._descriptor, buffers, position) if len(buffers) <= IOV_MAX else 0
            while done < wanted:
                count = os.preadv(self._descriptor, _remaining(buffers, done), position + done)
                if count == 0:
                    break
                done += count
        except OSError as error:
            raise StorageError(self.path, "read", error.errno) from error
        return done

    def _write_rest(self, buffers: Sequence[ReadableBytes], position: int, done: int, wanted: int) -> int:
        """Go on with what one call did not write."""
        while done < wanted:
            done += os.pwritev(self._descriptor, _remaining(buffers, done), position + done)
        return done

    def truncate(self, size: int) -> None:
        with _translated("truncate", self.path):
            os.ftruncate(self._descriptor, size)

    def allocate(self, size: int, position: int = 0) -> None:
        with _translated("allocate", self.path):
            try:
                os.posix_fallocate(self._descriptor, position, size)
            except (AttributeError, OSError) as error:
                # macOS has no such call and some file systems refuse it. The file still gets its size there.
                if isinstance(error, OSError) and error.errno not in {errno.EOPNOTSUPP, errno.EINVAL}:
                    raise
                if os.fstat(self._descriptor).st_size < position + size:
                    os.ftruncate(self._descriptor, position + size)

    def reserve(self, size: int, position: int) -> None:
        _fallocate()(self._descriptor, _FALLOC_FL_KEEP_SIZE, position, size)

    def sync(self) -> None:
        with _translated("sync", self.path):
            _sync_descriptor(self._descriptor)

    def map(self, size: int) -> Mapping:
        access = mmap.ACCESS_WRITE if self._writable else mmap.ACCESS_READ
        try:
            memory = mmap.mmap(self._descriptor, size, access=access, **_MMAP_OPTIONS)
        except ValueError as error:
            raise DamagedFileError(self.path, f"it is shorter than the {size} bytes to be mapped") from error
        except OSError as error:
            raise StorageError(self.path, "map", error.errno) from error
        if _MADV_RANDOM is not None:
            # A system may be built, or told, to take no advice.
            with suppress(OSError):
                memory.madvise(_MADV_RANDOM)
        return OsMapping(memory, self.path)

    def __del__(self) -> None:
        # A region that is still being sent may be the last to hold the file: until then the descriptor must mean this file. Where
        # its making failed there is no path either, and what C has for a descriptor is 0, which is somebody else's.
        if getattr(self, "path", None) is not None:
            self.close()

    def close(self) -> None:
        descriptor, self._descriptor = self._descriptor, _CLOSED
        if descriptor != _CLOSED:
            with _translated("close", self.path):
                os.close(descriptor)


@cache
def _fallocate() -> Callable[[int, int, int, int], int]:
    """Linux's call of that name, which `os` does not have; elsewhere one that does nothing."""
    import ctypes  # noqa: PLC0415 - most nodes of a test never get to write that much

    try:
        call = ctypes.CDLL(None).fallocate
    except (AttributeError, OSError):
        return lambda *_: -1
    call.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64)
    call.restype = ctypes.c_int
    return cast("Callable[[int, int, int, int], int]", call)


def _remaining(buffers: Sequence[ReadableBytes], done: int) -> list[memoryview]:
    """What is left of `buffers` after `done` bytes, in as many pieces as one system call takes."""
    left: list[memoryview] = []
    for buffer in buffers:
        view = memoryview(buffer)
        if done >= len(view):
            done -= len(view)
            continue
        left.append(view[done:])
        done = 0
        if len(left) == IOV_MAX:
            break
    return left


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
            with _translated("lock", path):
                self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
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
                with _translated("unlock", self.path):
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


class OsFiles:
    """The machine's own file system."""

    def open(self, path: str, *, create: bool = False, writable: bool = True) -> File:
        flags = (os.O_RDWR if writable else os.O_RDONLY) | os.O_CLOEXEC | (os.O_CREAT if create else 0)
        with _translated("open", path):
            return OsFile(path, os.open(path, flags, 0o644), writable=writable)

    def exists(self, path: str) -> bool:
        return self._stat(path) is not None

    def is_dir(self, path: str) -> bool:
        status = self._stat(path)
        return status is not None and stat.S_ISDIR(status.st_mode)

    def size_of(self, path: str) -> int:
        with _translated("stat", path):
            return os.stat(path).st_size

    def space_of(self, path: str) -> DiskSpace:
        with _translated("measure", path):
            found = os.statvfs(path)
        return DiskSpace(found.f_blocks * found.f_frsize, found.f_bavail * found.f_frsize)

    def modified_ms(self, path: str) -> int:
        with _translated("stat", path):
            return os.stat(path).st_mtime_ns // 1_000_000

    def set_modified_ms(self, path: str, modified_ms: int) -> None:
        with _translated("date", path):
            os.utime(path, ns=(modified_ms * 1_000_000, modified_ms * 1_000_000))

    def list_directory(self, path: str) -> list[str]:
        with _translated("list", path):
            return sorted(os.listdir(path))

    def make_directory(self, path: str) -> None:
        with _translated("create", path):
            os.makedirs(path, exist_ok=True)

    def rename(self, old: str, new: str) -> None:
        with _translated("rename", old):
            os.replace(old, new)

    def remove(self, path: str) -> bool:
        try:
            with _translated("remove", path):
                os.unlink(path)
        except StorageError as error:
            if error.is_missing:
                return False
            raise
        return True

    def remove_directory(self, path: str) -> None:
        with _translated("remove", path):
            os.rmdir(path)

    def remove_tree(self, path: str) -> None:
        # It brings every archive format along, for which a node need not wait at its start.
        import shutil  # noqa: PLC0415

        with _translated("remove", path):
            try:
                shutil.rmtree(path)
            except FileNotFoundError:
                if os.path.lexists(path):
                    raise

    def sync_directory(self, path: str) -> None:
        with _translated("sync", path):
            descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)

    def read_bytes(self, path: str, limit: int) -> bytes:
        file = self.open(path, writable=False)
        try:
            data = file.pread(limit + 1, 0)
        finally:
            file.close()
        return check_limit(path, data, limit)

    def write_bytes_atomically(self, path: str, data: bytes) -> None:
        replace_file(self, path, data)

    def descriptors_max(self) -> int:
        allowed, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        return DESCRIPTORS_MAX if allowed == resource.RLIM_INFINITY else min(allowed, DESCRIPTORS_MAX)

    def lock(self, path: str) -> Lock:
        return OsLock(path)

    def is_locked(self, path: str) -> bool:
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

    def _stat(self, path: str) -> os.stat_result | None:
        try:
            with _translated("stat", path):
                return os.stat(path)
        except StorageError as error:
            if error.is_missing:
                return None
            raise


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
