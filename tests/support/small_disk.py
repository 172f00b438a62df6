"""A file system of a few megabytes that can be filled: a mount of its own, where the machine lets a test mount."""

from __future__ import annotations

import errno
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

_FILLER_BLOCK_BYTES = 1 << 20
_MOUNT_TIMEOUT_S = 30


class SmallDisk:
    """What is mounted at a path, between full and not."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._filler = path.with_name(path.name + ".filler")

    def fill(self) -> None:
        """Leave no free block: what is written next fits into the last block of its file, or nowhere."""
        with self._filler.open("wb", buffering=0) as file:
            size = _FILLER_BLOCK_BYTES
            while size:
                try:
                    file.write(bytes(size))
                except OSError as error:
                    assert error.errno == errno.ENOSPC  # noqa: PT017 - nothing else ends a full disk
                    size //= 2

    def make_room(self) -> None:
        self._filler.unlink()


@contextmanager
def small_disk(path: Path, megabytes: int) -> Iterator[SmallDisk]:
    """A new disk below `path`, with its directory `data` to be used. Skips the test where nothing can be mounted."""
    path.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tidelog-test", str(path)]
    try:
        mounted = subprocess.run(command, capture_output=True, text=True, timeout=_MOUNT_TIMEOUT_S, check=False)
    except FileNotFoundError:
        pytest.skip("there is no mount command")
    if mounted.returncode != 0:
        pytest.skip(f"nothing can be mounted here: {mounted.stderr.strip()}")
    try:
        yield SmallDisk(path / "data")
    finally:
        subprocess.run(["umount", "--lazy", str(path)], timeout=_MOUNT_TIMEOUT_S, check=True)
