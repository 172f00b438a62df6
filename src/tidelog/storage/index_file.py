"""What all files beside a segment's log share: they are made durable by themselves, and follow the log's name."""

from __future__ import annotations

from tidelog.model.ids import Offset
from tidelog.storage.files import Files


class IndexFile:
    """An index of one segment, as a file."""

    def __init__(self, files: Files, path: str, base_offset: int) -> None:
        self.path = path
        self.base_offset = Offset(base_offset)
        self._files = files

    def sync(self) -> None:
        """Make the entries durable. Through a descriptor of its own, which no close of another thread disturbs."""
        file = self._files.open(self.path)
        try:
            file.sync()
        finally:
            file.close()

    def rename_to(self, path: str) -> None:
        """Give the file another name. One that does not exist only takes note of it."""
        if self._files.exists(self.path):
            self._files.rename(self.path, path)
        self.path = path

    def relocate(self, path: str) -> None:
        """Take note that the file is at `path` now, since its directory was renamed."""
        self.path = path
