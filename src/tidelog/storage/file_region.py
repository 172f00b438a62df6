"""A stretch of a file that answers a read: what `os.sendfile` sends without copying.

A region holds its file open. Retention, truncation and the bound on open files may let go of the segment at any time; the
descriptor closes when the last region is gone, so its number can never come to mean another file while bytes are being sent.
"""

from __future__ import annotations

import msgspec

from tidelog.storage.files import File


class FileRegion(msgspec.Struct, frozen=True, gc=False):
    """`count` bytes of `file` from `position`."""

    file: File
    position: int
    count: int

    def read(self) -> bytes:
        """The bytes themselves, for where sendfile is no use: TLS, and answers too small to be worth it."""
        return self.file.pread(self.count, self.position)


class FreshRegion(FileRegion, frozen=True, gc=False):
    """The region of a run of batches that has just been written, with its bytes: who waits for them needs no look at the file."""

    records: bytes

    def read(self) -> bytes:
        return self.records
