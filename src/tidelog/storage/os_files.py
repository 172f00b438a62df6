"""The machine's own file system, as `Files`."""

from __future__ import annotations

import os
import resource
import stat

from tidelog.storage.errors import StorageError, translated
from tidelog.storage.files import DiskSpace, File, Lock, check_limit, replace_file
from tidelog.storage.os_file import OsFile
from tidelog.storage.os_lock import OsLock, is_locked

# Where the system sets no limit of its own.
DESCRIPTORS_MAX = 1_000_000

# What is new is for this user alone: records may be anybody's secrets, and the metadata log holds passwords and keys. What is
# there already stays as it is.
FILE_MODE = 0o600
DIRECTORY_MODE = 0o700


class OsFiles:
    """The machine's own file system."""

    def open(self, path: str, *, create: bool = False, writable: bool = True) -> File:
        flags = (os.O_RDWR if writable else os.O_RDONLY) | os.O_CLOEXEC | (os.O_CREAT if create else 0)
        with translated("open", path):
            return OsFile(path, os.open(path, flags, FILE_MODE), writable=writable)

    def exists(self, path: str) -> bool:
        return self._stat(path) is not None

    def is_dir(self, path: str) -> bool:
        status = self._stat(path)
        return status is not None and stat.S_ISDIR(status.st_mode)

    def size_of(self, path: str) -> int:
        with translated("stat", path):
            return os.stat(path).st_size

    def space_of(self, path: str) -> DiskSpace:
        with translated("measure", path):
            found = os.statvfs(path)
        return DiskSpace(found.f_blocks * found.f_frsize, found.f_bavail * found.f_frsize)

    def modified_ms(self, path: str) -> int:
        with translated("stat", path):
            return os.stat(path).st_mtime_ns // 1_000_000

    def set_modified_ms(self, path: str, modified_ms: int) -> None:
        with translated("date", path):
            os.utime(path, ns=(modified_ms * 1_000_000, modified_ms * 1_000_000))

    def list_directory(self, path: str) -> list[str]:
        with translated("list", path):
            return sorted(os.listdir(path))

    def make_directory(self, path: str) -> None:
        with translated("create", path):
            os.makedirs(path, DIRECTORY_MODE, exist_ok=True)

    def rename(self, old: str, new: str) -> None:
        with translated("rename", old):
            os.replace(old, new)

    def remove(self, path: str) -> bool:
        try:
            with translated("remove", path):
                os.unlink(path)
        except StorageError as error:
            if error.is_missing:
                return False
            raise
        return True

    def remove_directory(self, path: str) -> None:
        with translated("remove", path):
            os.rmdir(path)

    def remove_tree(self, path: str) -> None:
        # It brings every archive format along, for which a node need not wait at its start.
        import shutil  # noqa: PLC0415

        with translated("remove", path):
            try:
                shutil.rmtree(path)
            except FileNotFoundError:
                if os.path.lexists(path):
                    raise

    def sync_directory(self, path: str) -> None:
        with translated("sync", path):
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
        return is_locked(path)

    def _stat(self, path: str) -> os.stat_result | None:
        try:
            with translated("stat", path):
                return os.stat(path)
        except StorageError as error:
            if error.is_missing:
                return None
            raise
