# cython: annotation_typing=False, auto_pickle=False, binding=False
"""What is done with an open file all day: bytes read from it, bytes written to it, its descriptor asked for.

This is one source for two twins: it runs as plain Python, and `setup.py` compiles it to `_file_kernel`, with the C types of
`_file_kernel.pxd`. `storage.files` has the rest of a file, and the contract.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tidelog.storage.errors import StorageError

if TYPE_CHECKING:
    from tidelog.storage.files import ReadableBytes

# The kernel refuses longer vectors. Linux, macOS and the BSDs agree on the number.
IOV_MAX = 1024


class OsFileCore:
    """A real file. Errors are translated by hand: a context manager costs as much as the system call."""

    __slots__ = ("_descriptor", "path")

    def __init__(self, path: str, descriptor: int) -> None:
        self.path = path
        self._descriptor = descriptor

    # What `OsFile` says.

    def _write_rest(self, buffers: Sequence[ReadableBytes], position: int, done: int, wanted: int) -> int:
        raise NotImplementedError

    # What every request may ask.

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
        return self._pwritev(buffers, position)

    def _pwritev(self, buffers: Sequence[ReadableBytes], position: int) -> int:
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
