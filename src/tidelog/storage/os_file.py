# cython: annotation_typing=False, auto_pickle=False, binding=False, boundscheck=True, wraparound=True
"""A file of the machine's own file system, and its content as memory."""

from __future__ import annotations

import errno
import mmap
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from typing import Any, cast

from tidelog.storage.errors import DamagedFileError, StorageError, translated
from tidelog.storage.files import Mapping, ReadableBytes, WritableBytes

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


class OsMapping:
    """A mapping of a real file."""

    def __init__(self, memory: mmap.mmap, path: str) -> None:
        self._memory = memory
        self._path = path
        self.view = memoryview(memory)

    def flush(self) -> None:
        with translated("sync", self._path):
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
        with translated("stat", self.path):
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
        with translated("truncate", self.path):
            os.ftruncate(self._descriptor, size)

    def allocate(self, size: int, position: int = 0) -> None:
        with translated("allocate", self.path):
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
        with translated("sync", self.path):
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
            with translated("close", self.path):
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
