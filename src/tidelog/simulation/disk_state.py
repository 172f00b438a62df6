"""What a simulated disk holds: files and directories, each with what is in memory and what has reached the platter.

A file has its cached content, its durable content, and the changes in between that no sync has covered. So has a directory,
for names. A crash keeps some of those changes and loses others, as a journaling file system (ext4, xfs) may:

    writes          each on its own: kept, lost, cut short, holed by lost sectors, or only the length kept
    sizes           truncations and extensions are journaled: one that is lost takes all later ones of the file with it, and
                    what was written behind its end reaches no further than the block that the end is in
    names           creation, removal and renaming are journaled: in each directory a first part of them is kept. A sync of
                    the file does not make its name durable.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from random import Random
from typing import NamedTuple, TypeAlias

BLOCK_BYTES = 4096
SECTOR_BYTES = 512


class Write(NamedTuple):
    position: int
    data: bytes


class Resize(NamedTuple):
    size: int


Change: TypeAlias = Write | Resize


class StoreIntoHoleError(BaseException):
    """A store into a mapping where no block is behind the page.

    A real disk finds a block for it, or kills the process with SIGBUS where it is full. So it is a bug at any time: space is
    allocated before it is stored to. No `except Exception` may swallow it.
    """


class MappedMemory:
    """A mapping's memory: a copy that is looked through whenever somebody looks at the file.

    Stores into memory cannot be seen as they happen; what they changed is found page by page, against what was there last.
    """

    def __init__(self, content: bytearray) -> None:
        self.memory = content
        self._seen = bytearray(content)

    def stores(self) -> list[Write]:
        """The stores since the last time, as writes: one for each page that they changed."""
        memory, seen = self.memory, self._seen
        if memory == seen:
            return []
        writes = []
        for begin in range(0, len(memory), BLOCK_BYTES):
            new, old = memory[begin : begin + BLOCK_BYTES], seen[begin : begin + BLOCK_BYTES]
            if new != old:
                changed = [index for index in range(len(new)) if new[index] != old[index]]
                writes.append(Write(begin + changed[0], bytes(new[changed[0] : changed[-1] + 1])))
                seen[begin : begin + len(new)] = new
        return writes

    def show(self, write: Write) -> None:
        """Let a write that came another way be seen in the memory."""
        end = min(write.position + len(write.data), len(self.memory))
        if write.position < end:
            data = write.data[: end - write.position]
            self.memory[write.position : end] = data
            self._seen[write.position : end] = data


class FileNode:
    """One file, whatever it is called."""

    def __init__(self) -> None:
        self.cached = bytearray()
        self.modified_ms = 0
        self.mappings: list[MappedMemory] = []
        self._durable = bytearray()
        self._pending: list[Change] = []
        # The numbers of the blocks that have space on the disk; the rest of a file is holes.
        self._blocks: set[int] = set()

    @property
    def content(self) -> bytearray:
        """What a reader sees now."""
        self.absorb()
        return self.cached

    @property
    def unsynced(self) -> int:
        """How many changes a crash could lose."""
        self.absorb()
        return len(self._pending)

    def map(self, size: int) -> MappedMemory:
        mapping = MappedMemory(self.content[:size])
        self.mappings.append(mapping)
        return mapping

    def unmap(self, mapping: MappedMemory) -> None:
        """Drop a mapping; one from before a crash is not known any more, and what the dead store is lost."""
        self.absorb()
        self.mappings = [other for other in self.mappings if other is not mapping]

    def absorb(self) -> None:
        """Take in what was stored into mappings."""
        for mapping in self.mappings:
            for write in mapping.stores():
                # Behind the end of a file that was cut there is nothing to store to.
                data = write.data[: max(0, len(self.cached) - write.position)]
                if data and write.position // BLOCK_BYTES not in self._blocks:
                    raise StoreIntoHoleError(f"at byte {write.position} of a file of {len(self.cached)} bytes")
                if data:
                    self._write(Write(write.position, data))

    def change(self, change: Change) -> None:
        self.absorb()
        if isinstance(change, Write):
            self._write(change)
        else:
            self._pending.append(change)
            _apply(self.cached, change)
            self._blocks.difference_update([block for block in self._blocks if block * BLOCK_BYTES >= change.size])

    def allocate(self, size: int, position: int) -> None:
        """Have space behind these bytes, and the file reach to their end."""
        end = position + size
        if end > len(self.content):
            self.change(Resize(end))
        self._blocks.update(_blocks_of(position, end))

    def _write(self, write: Write) -> None:
        self._pending.append(write)
        _apply(self.cached, write)
        self._blocks.update(_blocks_of(write.position, write.position + len(write.data)))
        for mapping in self.mappings:
            mapping.show(write)

    def sync(self) -> None:
        self.absorb()
        self._durable = bytearray(self.cached)
        self._pending.clear()

    def fail_sync(self) -> None:
        """A sync that reports an error marks the pages as clean all the same: the writes will never be tried again."""
        self.absorb()
        self._pending = [change for change in self._pending if isinstance(change, Resize)]

    def crash(self, random: Random) -> None:
        """Become what a crash may leave."""
        self.absorb()
        self.mappings.clear()
        content = self._durable
        limit: int | None = None
        for change in self._pending:
            if isinstance(change, Resize):
                if limit is None and random.random() < 0.5:
                    _apply(content, change)
                else:
                    block_end = -(-change.size // BLOCK_BYTES) * BLOCK_BYTES
                    limit = block_end if limit is None else min(limit, block_end)
                continue
            for piece in _surviving(change, random):
                end = len(piece.data) if limit is None else max(0, min(len(piece.data), limit - piece.position))
                if end:
                    _apply(content, Write(piece.position, piece.data[:end]))
        self._pending.clear()
        self._durable = content
        self.cached = bytearray(content)
        # Whether zeros have space is not told: nobody may rely on it.
        self._blocks = {
            position // BLOCK_BYTES
            for position in range(0, len(content), BLOCK_BYTES)
            if content.count(0, position, position + BLOCK_BYTES) < min(BLOCK_BYTES, len(content) - position)
        }


def _blocks_of(begin: int, end: int) -> range:
    return range(begin // BLOCK_BYTES, -(-end // BLOCK_BYTES))


def _apply(content: bytearray, change: Change) -> None:
    if isinstance(change, Resize):
        if change.size < len(content):
            del content[change.size :]
        else:
            content.extend(bytes(change.size - len(content)))
        return
    if change.position > len(content):
        content.extend(bytes(change.position - len(content)))
    content[change.position : change.position + len(change.data)] = change.data


def _surviving(write: Write, random: Random) -> list[Write]:
    """The parts of an unsynced write that a crash leaves."""
    fate = random.random()
    if fate < 0.4:
        return [write]
    if fate < 0.7 or not write.data:
        return []
    if fate < 0.85:
        return [Write(write.position, write.data[: random.randrange(len(write.data))])]
    if fate < 0.95:
        pieces = []
        begin = 0
        while begin < len(write.data):
            end = min(len(write.data), begin + SECTOR_BYTES - (write.position + begin) % SECTOR_BYTES)
            if random.random() < 0.5:
                pieces.append(Write(write.position + begin, write.data[begin:end]))
            begin = end
        return pieces
    # The length was journaled before the data was on the disk.
    return [Write(write.position, bytes(len(write.data)))]


class DirectoryNode:
    """One directory."""

    def __init__(self) -> None:
        self.entries: dict[str, Node] = {}
        self.durable: dict[str, Node] = {}


Node: TypeAlias = FileNode | DirectoryNode


class NameChange(NamedTuple):
    """Names that change together: one for a creation or removal, two for a renaming. No node means no such name."""

    names: tuple[tuple[DirectoryNode, str, Node | None], ...]

    def apply_durably(self) -> None:
        for directory, name, node in self.names:
            _set_name(directory.durable, name, node)


class Namespace:
    """The tree of names, and the changes to it that are not durable yet."""

    def __init__(self) -> None:
        self.root = DirectoryNode()
        self._pending: dict[int, NameChange] = {}
        """By number, in the order in which they were made."""
        self._touching: dict[DirectoryNode, dict[int, None]] = {}
        """The numbers of the pending changes in each directory, in order: a sync looks at no others, however many there are."""
        self._next = 0

    def change(self, *names: tuple[DirectoryNode, str, Node | None]) -> None:
        number = self._next
        self._next += 1
        for directory, name, node in names:
            _set_name(directory.entries, name, node)
            self._touching.setdefault(directory, {})[number] = None
        self._pending[number] = NameChange(names)

    def sync(self, directory: DirectoryNode) -> None:
        """Make the names in a directory durable, and what a renaming ties to them."""
        wanted = {directory}
        # The latest first: a change that it ties to another directory takes with it what that directory had before, not after.
        latest = [-number for number in self._touching.get(directory, ())]
        heapify(latest)
        selected: dict[int, NameChange] = {}
        while latest:
            number = -heappop(latest)
            if number in selected:
                continue
            selected[number] = change = self._pending[number]
            for touched, _, _ in change.names:
                if touched not in wanted:
                    wanted.add(touched)
                    for earlier in self._touching[touched]:
                        if earlier >= number:
                            break
                        heappush(latest, -earlier)
        for number, change in reversed(selected.items()):
            change.apply_durably()
            del self._pending[number]
            for touched, _, _ in change.names:
                self._forget(touched, number)

    def _forget(self, directory: DirectoryNode, number: int) -> None:
        numbers = self._touching.get(directory, {})
        numbers.pop(number, None)
        if not numbers:
            self._touching.pop(directory, None)

    def crash(self, random: Random) -> None:
        """Become what a crash may leave, files included."""
        lost: set[DirectoryNode] = set()
        # One more cut than there are changes: all of them may have been kept. The cut of a directory's first change is its own.
        first_lost = {number: random.randrange(len(self._pending) + 1) for number in self._pending}
        for position, change in enumerate(self._pending.values()):
            directories = [directory for directory, _, _ in change.names]
            cut = first_lost[next(iter(self._touching[directories[0]]))]
            if position >= cut or not lost.isdisjoint(directories):
                lost.update(directories)
            else:
                change.apply_durably()
        self._pending.clear()
        self._touching.clear()
        self._restore(self.root, random)

    def _restore(self, directory: DirectoryNode, random: Random) -> None:
        directory.entries = dict(directory.durable)
        for _, node in sorted(directory.entries.items()):
            if isinstance(node, DirectoryNode):
                self._restore(node, random)
            else:
                node.crash(random)


def _set_name(names: dict[str, Node], name: str, node: Node | None) -> None:
    if node is None:
        names.pop(name, None)
    else:
        names[name] = node
