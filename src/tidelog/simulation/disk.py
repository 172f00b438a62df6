"""A disk in memory that forgets, tears and fails on request: the double of `tidelog.storage.files`.

    disk = SimulatedDisk()
    disk.fail("pwritev", "*/00*.log", errno.ENOSPC, after=3)      the fourth write to a log finds the disk full
    disk.crash_at(17)                                             the 17th change is the last: SimulatedCrash
    disk.crash(Random(4))                                         the power went: unsynced changes survive by chance
    disk.kill()                                                   only the process died: what it wrote is all there

Deterministic: the same calls and the same `Random` leave the same bytes. What may be lost is told in `disk_state`. After a
crash all handles, mappings and locks are dead; whatever the dead process still tries raises `SimulatedCrash`, also between
the crash and the call of `crash` or `kill`, so that clean-up code cannot touch the disk of a machine that is off.
"""

from __future__ import annotations

import errno as errno_names
import io
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from fnmatch import fnmatchcase
from random import Random

from tidelog.model.clock import Clock
from tidelog.simulation.disk_state import DirectoryNode, FileNode, MappedMemory, Namespace, Node, Resize, Write
from tidelog.storage.errors import DamagedFileError, DirectoryInUseError, StorageError
from tidelog.storage.files import (
    DiskSpace,
    File,
    Lock,
    Mapping,
    ReadableBytes,
    WritableBytes,
    check_limit,
    replace_file,
)

# What systems allow without asking.
DESCRIPTORS_MAX = 1024

# What each call is called in a StorageError, as the real files call it.
OPERATIONS = {
    "open": "open",
    "create": "open",
    "size": "stat",
    "pread": "read",
    "preadv": "read",
    "pwritev": "write",
    "truncate": "truncate",
    "allocate": "allocate",
    "sync": "sync",
    "map": "map",
    "exists": "stat",
    "is_dir": "stat",
    "size_of": "stat",
    "space_of": "measure",
    "modified_ms": "stat",
    "set_modified_ms": "date",
    "list_directory": "list",
    "make_directory": "create",
    "rename": "rename",
    "remove": "remove",
    "remove_directory": "remove",
    "sync_directory": "sync",
    "lock": "lock",
}

# The calls that a read-only file system refuses. `create` is an `open` that makes a file.
CHANGES = (
    "create",
    "pwritev",
    "truncate",
    "allocate",
    "make_directory",
    "rename",
    "remove",
    "remove_directory",
    "set_modified_ms",
    "sync",
    "lock",
)


class SimulatedCrash(BaseException):
    """The machine, or the process, stops here. No `except Exception` may swallow that."""


class _Fault:
    def __init__(self, operations: frozenset[str], pattern: str, errno: int, after: int, times: int | None) -> None:
        self.operations = operations
        self.pattern = pattern
        self.errno = errno
        self.after = after
        self.times = times

    def strikes(self, operation: str, path: str) -> bool:
        if self.times == 0 or operation not in self.operations or not fnmatchcase(path, self.pattern):
            return False
        if self.after > 0:
            self.after -= 1
            return False
        if self.times is not None:
            self.times -= 1
        return True


class SimulatedMapping:
    """A mapping of a simulated file."""

    def __init__(self, file: SimulatedFile, node: FileNode, memory: MappedMemory, *, writable: bool) -> None:
        self._file = file
        self._node = node
        self._memory = memory
        self.view = memoryview(memory.memory)
        if not writable:
            self.view = self.view.toreadonly()

    def flush(self) -> None:
        self._file.sync()

    def close(self) -> None:
        self.view.release()
        self._node.unmap(self._memory)


class SimulatedFile:
    """An open simulated file."""

    def __init__(self, disk: SimulatedDisk, path: str, node: FileNode, *, writable: bool) -> None:
        self.path = path
        self._disk = disk
        self._node = node
        self._writable = writable
        self._boot = disk.boot
        self._is_closed = False

    def fileno(self) -> int:
        raise io.UnsupportedOperation(f"{self.path} is simulated and has no descriptor: read it with pread")

    def size(self) -> int:
        self._begin("size")
        return len(self._node.content)

    def pread(self, count: int, position: int) -> bytes:
        self._begin("pread")
        return bytes(self._node.content[position : position + count])

    def preadv(self, buffers: Sequence[WritableBytes], position: int) -> int:
        self._begin("preadv")
        done = 0
        for buffer in buffers:
            data = self._node.content[position + done : position + done + len(buffer)]
            memoryview(buffer)[: len(data)] = data
            done += len(data)
        return done

    def pwritev(self, buffers: Sequence[ReadableBytes], position: int) -> int:
        data = b"".join(bytes(buffer) for buffer in buffers)
        try:
            self._begin("pwritev", changes=True)
        except StorageError as error:
            if error.is_disk_full and data:
                # What fitted was written, as a real disk does it.
                self._node.change(Write(position, data[: len(data) // 2]))
            raise
        if data:
            self._node.change(Write(position, data))
        self._touch()
        return len(data)

    def truncate(self, size: int) -> None:
        self._begin("truncate", changes=True)
        if size != len(self._node.content):
            self._node.change(Resize(size))
        self._touch()

    def allocate(self, size: int, position: int = 0) -> None:
        self._begin("allocate", changes=True)
        self._node.allocate(size, position)
        self._touch()

    def reserve(self, size: int, position: int) -> None:
        """A hint that a simulated disk has no use for."""

    def sync(self) -> None:
        try:
            self._begin("sync")
        except StorageError:
            self._node.fail_sync()
            raise
        # Counted before it is done: a crash at this point has synced nothing.
        self._disk.count_change(self.path)
        self._node.sync()

    def map(self, size: int) -> Mapping:
        self._begin("map")
        if not 0 < size <= len(self._node.content):
            raise DamagedFileError(self.path, f"it is shorter than the {size} bytes to be mapped")
        return SimulatedMapping(self, self._node, self._node.map(size), writable=self._writable)

    def close(self) -> None:
        self._is_closed = True

    def _begin(self, operation: str, *, changes: bool = False) -> None:
        self._disk.begin(operation, self.path, self._boot)
        # A mapping may outlive its file: only a flush of it gets here then.
        if (self._is_closed and operation != "sync") or (changes and not self._writable):
            raise StorageError(self.path, OPERATIONS[operation], errno_names.EBADF)

    def _touch(self) -> None:
        self._node.modified_ms = self._disk.now_ms()
        self._disk.count_change(self.path)


class SimulatedLock:
    """A lock that is held on a simulated file."""

    def __init__(self, disk: SimulatedDisk, path: str) -> None:
        self.path = path
        self._disk = disk
        self._boot = disk.boot

    def release(self) -> None:
        if self._boot == self._disk.boot:
            self._disk.unlock(self.path)


class SimulatedDisk:
    """A file system in memory. Directories that a test starts from are made with `make_directory`."""

    def __init__(self, clock: Clock | None = None) -> None:
        self.space = DiskSpace(total_bytes=1 << 40, usable_bytes=1 << 39)
        """What `space_of` tells. Full is what writes say, where a test makes them fail."""
        self._clock = clock
        self._names = Namespace()
        self._faults: list[_Fault] = []
        self._locks: set[str] = set()
        self._crash_at: int | None = None
        self._is_off = False
        # Counts restarts: a handle from before the last one is invalid.
        self.boot = 0
        # How many calls have changed something, synced something or tried to.
        self.changes = 0

    # --- what a test asks for ----------------------------------------------------------------------------------------------

    def fail(
        self, operation: str | Iterable[str], pattern: str, errno: int, *, after: int = 0, times: int | None = None
    ) -> None:
        """Let calls on paths like `pattern` fail, after `after` good ones, `times` times or for good.

        Operations are the keys of `OPERATIONS`, named after methods. `CHANGES` are all that a read-only file system refuses.
        """
        operations = frozenset([operation] if isinstance(operation, str) else operation)
        if unknown := operations - OPERATIONS.keys():
            raise ValueError(f"no such operation: {', '.join(sorted(unknown))}")
        self._faults.append(_Fault(operations, pattern, errno, after, times))

    def heal(self) -> None:
        """Take back every `fail`."""
        self._faults.clear()

    def crash_at(self, change: int) -> None:
        """Let the change with this number, counted from the first of all, raise `SimulatedCrash`. It may get through."""
        if change <= self.changes:
            raise ValueError(f"change {change} is past: there were {self.changes}")
        self._crash_at = change

    def crash(self, random: Random) -> None:
        """Lose the power and come up again: what no sync has covered is lost or kept by chance."""
        self._reboot()
        self._names.crash(random)

    def kill(self) -> None:
        """End the process only: all that it wrote is there, all that it held is gone."""
        self._reboot()
        for node in _files_below(self._names.root):
            node.absorb()
            node.mappings.clear()

    def unsynced(self, path: str) -> int:
        """How many changes of a file's content a crash could lose."""
        return self._file_node(path, "size_of").unsynced

    # --- Files -------------------------------------------------------------------------------------------------------------

    def open(self, path: str, *, create: bool = False, writable: bool = True) -> File:
        self.begin("open", path)
        node = self._find(path)
        if node is None and create:
            self.begin("create", path)
            node = FileNode()
            directory, name = self._parent(path, "open")
            self._names.change((directory, name, node))
            self.count_change(path)
        if node is None:
            raise StorageError(path, "open", errno_names.ENOENT)
        if isinstance(node, DirectoryNode):
            raise StorageError(path, "open", errno_names.EISDIR)
        return SimulatedFile(self, path, node, writable=writable)

    def exists(self, path: str) -> bool:
        self.begin("exists", path)
        return self._find(path) is not None

    def is_dir(self, path: str) -> bool:
        self.begin("is_dir", path)
        return isinstance(self._find(path), DirectoryNode)

    def size_of(self, path: str) -> int:
        self.begin("size_of", path)
        return len(self._file_node(path, "size_of").content)

    def space_of(self, path: str) -> DiskSpace:
        self.begin("space_of", path)
        self._directory_node(path, "space_of")
        return self.space

    def modified_ms(self, path: str) -> int:
        self.begin("modified_ms", path)
        return self._file_node(path, "modified_ms").modified_ms

    def set_modified_ms(self, path: str, modified_ms: int) -> None:
        self.begin("set_modified_ms", path)
        self._file_node(path, "set_modified_ms").modified_ms = modified_ms

    def list_directory(self, path: str) -> list[str]:
        self.begin("list_directory", path)
        return sorted(self._directory_node(path, "list_directory").entries)

    def make_directory(self, path: str) -> None:
        self.begin("make_directory", path)
        directory = self._names.root
        for name in _parts(path):
            node = directory.entries.get(name)
            if node is None:
                node = DirectoryNode()
                self._names.change((directory, name, node))
            if isinstance(node, FileNode):
                raise StorageError(path, "create", errno_names.ENOTDIR)
            directory = node
        self.count_change(path)

    def rename(self, old: str, new: str) -> None:
        self.begin("rename", old)
        self.begin("rename", new)
        node = self._find(old)
        if node is None:
            raise StorageError(old, "rename", errno_names.ENOENT)
        old_directory, old_name = self._parent(old, "rename")
        new_directory, new_name = self._parent(new, "rename")
        replaced = new_directory.entries.get(new_name)
        if replaced is node:
            return
        if isinstance(replaced, DirectoryNode) and (isinstance(node, FileNode) or replaced.entries):
            raise StorageError(old, "rename", errno_names.ENOTEMPTY if replaced.entries else errno_names.EISDIR)
        if isinstance(replaced, FileNode) and isinstance(node, DirectoryNode):
            raise StorageError(old, "rename", errno_names.ENOTDIR)
        self._names.change((old_directory, old_name, None), (new_directory, new_name, node))
        self.count_change(new)

    def remove(self, path: str) -> bool:
        self.begin("remove", path)
        node = self._find(path)
        if node is None:
            return False
        if isinstance(node, DirectoryNode):
            raise StorageError(path, "remove", errno_names.EISDIR)
        self._unlink(path, "remove")
        return True

    def remove_directory(self, path: str) -> None:
        self.begin("remove_directory", path)
        if self._directory_node(path, "remove_directory").entries:
            raise StorageError(path, "remove", errno_names.ENOTEMPTY)
        self._unlink(path, "remove_directory")

    def remove_tree(self, path: str) -> None:
        node = self._find(path)
        if node is None:
            return
        for name in sorted(self._directory_node(path, "remove_directory").entries):
            below = f"{path}/{name}"
            if self.is_dir(below):
                self.remove_tree(below)
            else:
                self.remove(below)
        self.remove_directory(path)

    def sync_directory(self, path: str) -> None:
        self.begin("sync_directory", path)
        directory = self._directory_node(path, "sync_directory")
        self.count_change(path)
        self._names.sync(directory)

    def read_bytes(self, path: str, limit: int) -> bytes:
        file = self.open(path, writable=False)
        try:
            return check_limit(path, file.pread(limit + 1, 0), limit)
        finally:
            file.close()

    def write_bytes_atomically(self, path: str, data: bytes) -> None:
        replace_file(self, path, data)

    def descriptors_max(self) -> int:
        """The same on every machine, so that a run is."""
        return DESCRIPTORS_MAX

    def lock(self, path: str) -> Lock:
        self.begin("lock", path)
        key = "/".join(_parts(path))
        if key in self._locks:
            raise DirectoryInUseError(path, "another node uses the directory; stop it, or choose another directory")
        self.open(path, create=True).close()
        self._locks.add(key)
        return SimulatedLock(self, path)

    def is_locked(self, path: str) -> bool:
        self.begin("exists", path)
        return "/".join(_parts(path)) in self._locks

    def unlock(self, path: str) -> None:
        self._locks.discard("/".join(_parts(path)))

    # --- for the handles ---------------------------------------------------------------------------------------------------

    def begin(self, operation: str, path: str, boot: int | None = None) -> None:
        """Before every call: is there still a machine, and does the call fail?"""
        if self._is_off or (boot is not None and boot != self.boot):
            raise SimulatedCrash(f"{operation} of {path} by a process that is dead")
        for fault in self._faults:
            if fault.strikes(operation, path):
                raise StorageError(path, OPERATIONS[operation], fault.errno)

    def count_change(self, path: str) -> None:
        """After a change is in the cache, and before a sync: the places where a crash may come."""
        self.changes += 1
        if self.changes == self._crash_at:
            self._is_off = True
            raise SimulatedCrash(f"at change {self.changes}, of {path}")

    def now_ms(self) -> int:
        return self._clock.now_ms() if self._clock is not None else 0

    def _reboot(self) -> None:
        self.boot += 1
        self._is_off = False
        self._crash_at = None
        self._locks.clear()

    def _unlink(self, path: str, operation: str) -> None:
        directory, name = self._parent(path, operation)
        self._names.change((directory, name, None))
        self.count_change(path)

    def _find(self, path: str) -> Node | None:
        node: Node = self._names.root
        for name in _parts(path):
            if isinstance(node, FileNode) or name not in node.entries:
                return None
            node = node.entries[name]
        return node

    def _parent(self, path: str, operation: str) -> tuple[DirectoryNode, str]:
        *above, name = _parts(path)
        node = self._find("/".join(above))
        if not isinstance(node, DirectoryNode):
            raise StorageError(path, OPERATIONS[operation], errno_names.ENOENT)
        return node, name

    def _file_node(self, path: str, operation: str) -> FileNode:
        node = self._find(path)
        if not isinstance(node, FileNode):
            raise StorageError(path, OPERATIONS[operation], errno_names.ENOENT if node is None else errno_names.EISDIR)
        return node

    def _directory_node(self, path: str, operation: str) -> DirectoryNode:
        node = self._find(path)
        if not isinstance(node, DirectoryNode):
            raise StorageError(path, OPERATIONS[operation], errno_names.ENOENT if node is None else errno_names.ENOTDIR)
        return node


def _parts(path: str) -> list[str]:
    return [part for part in path.split("/") if part not in {"", "."}]


def _files_below(directory: DirectoryNode) -> Iterator[FileNode]:
    for node in directory.entries.values():
        if isinstance(node, DirectoryNode):
            yield from _files_below(node)
        else:
            yield node


@contextmanager
def crashing() -> Iterator[None]:
    """Run a workload that may end in a `SimulatedCrash`, and go on behind it."""
    try:
        yield
    except SimulatedCrash:
        return
