"""A directory on a real disk and one on a simulated disk: what is told of the one holds for the other."""

from __future__ import annotations

from typing import NamedTuple

from tidelog.simulation.disk import SimulatedDisk
from tidelog.storage.files import Files


class Place(NamedTuple):
    """A file system, and an empty directory in it."""

    files: Files
    directory: str

    def path(self, name: str) -> str:
        return f"{self.directory}/{name}"

    def write(self, name: str, content: bytes) -> str:
        path = self.path(name)
        file = self.files.open(path, create=True)
        file.truncate(0)
        file.pwritev([content], 0)
        file.close()
        return path

    def read(self, name: str) -> bytes:
        return self.files.read_bytes(self.path(name), 1 << 24)


def simulated_place() -> Place:
    disk = SimulatedDisk()
    disk.make_directory("/logs")
    disk.sync_directory("/")
    return Place(disk, "/logs")
