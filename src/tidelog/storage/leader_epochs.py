"""Which offsets were written under which leader: the `leader-epoch-checkpoint` of one partition (KIP-101, KIP-279).

An entry is (epoch, offset of the first batch of that epoch). Both rise strictly. A follower that comes back asks its leader
where the follower's last epoch ends, cuts what it has beyond that, and so never keeps what another leader overwrote.

    assign(5, 40)               the log from 40 on is of epoch 5. Entries at or above either number contradict it and go.
    truncate_from_end(30)       the log ends at 30: an epoch that began at or after it holds nothing any more
    truncate_from_start(20)     the log starts at 20: earlier entries go; the epoch that 20 is in now begins at 20

`assign` writes the file before it returns unless told otherwise: the file must know every epoch in the log below the
recovery point; later ones are found in the batches. Truncation only marks it for `flush`, as in Kafka: an entry too many is cut
again whenever the log is opened.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable
from functools import partial
from operator import attrgetter
from typing import NamedTuple

from tidelog.model.ids import NO_LEADER_EPOCH, NO_OFFSET, LeaderEpoch, Offset
from tidelog.storage.checkpoint_file import read_lines, to_int, write_lines
from tidelog.storage.errors import DamagedFileError
from tidelog.storage.files import Files


class EpochEntry(NamedTuple):
    """An epoch and the first offset that was written in it."""

    epoch: LeaderEpoch
    start_offset: Offset


class EpochEndOffset(NamedTuple):
    """An epoch and the offset after the last one that was written in it."""

    leader_epoch: LeaderEpoch
    end_offset: Offset


UNDEFINED_EPOCH_END = EpochEndOffset(NO_LEADER_EPOCH, NO_OFFSET)

_by_epoch = attrgetter("epoch")
_by_start_offset = attrgetter("start_offset")


class LeaderEpochs:
    """The epochs of one partition, in memory and on disk."""

    def __init__(self, files: Files, path: str) -> None:
        self.path = path
        self._files = files
        self._entries: list[EpochEntry] = []
        self._is_dirty = False
        for epoch, start_offset in read_lines(files, path, fields=2):
            entry = EpochEntry(LeaderEpoch(to_int(path, epoch, bits=32)), Offset(to_int(path, start_offset)))
            if min(entry) < 0:
                raise DamagedFileError(
                    path, f"epoch {entry.epoch} at offset {entry.start_offset} cannot be: neither is below 0"
                )
            self._assign(entry)
        self._is_dirty = False

    @property
    def entries(self) -> tuple[EpochEntry, ...]:
        """All entries, oldest first."""
        return tuple(self._entries)

    @property
    def earliest(self) -> EpochEntry | None:
        return self._entries[0] if self._entries else None

    @property
    def latest(self) -> EpochEntry | None:
        return self._entries[-1] if self._entries else None

    @property
    def latest_epoch(self) -> LeaderEpoch | None:
        """The epoch of the last batch in the log."""
        return self._entries[-1].epoch if self._entries else None

    @property
    def is_dirty(self) -> bool:
        """Whether the file lags behind."""
        return self._is_dirty

    def assign(self, epoch: int, start_offset: int, *, flush: bool = True) -> bool:
        """Note that `epoch` begins at `start_offset`. Whether that was news.

        Cheap for every batch after the first of its epoch. With `flush=False` the caller sees to `flush` before the recovery
        point passes `start_offset`.
        """
        latest = self._entries[-1] if self._entries else None
        if latest is not None and epoch == latest.epoch and start_offset >= latest.start_offset:
            return False
        if epoch < 0 or start_offset < 0:
            raise ValueError(f"epoch {epoch} cannot begin at offset {start_offset}: neither may be negative")
        changed = self._assign(EpochEntry(LeaderEpoch(epoch), Offset(start_offset)))
        if flush:
            self.flush()
        return changed

    def assign_all(self, entries: Iterable[EpochEntry]) -> None:
        """Note several epochs, with one write."""
        for epoch, start_offset in entries:
            self.assign(epoch, start_offset, flush=False)
        self.flush()

    def end_offset_for(self, epoch: int, log_end_offset: int) -> EpochEndOffset:
        """Where the largest epoch at or below `epoch` ends, and which that is; `UNDEFINED_EPOCH_END` if nobody can know."""
        if epoch < 0 or not self._entries:
            return UNDEFINED_EPOCH_END
        if epoch == self._entries[-1].epoch:
            return EpochEndOffset(LeaderEpoch(epoch), Offset(log_end_offset))
        higher = bisect_right(self._entries, epoch, key=_by_epoch)
        if higher == len(self._entries):
            # An epoch that this log has not seen: the asker is ahead of it, so another replica has to say where its log
            # diverges.
            return UNDEFINED_EPOCH_END
        end_offset = self._entries[higher].start_offset
        if higher == 0:
            # All of that epoch is gone from the log. What is left begins here, and the asker may take it from here.
            return EpochEndOffset(LeaderEpoch(epoch), end_offset)
        return EpochEndOffset(self._entries[higher - 1].epoch, end_offset)

    def epoch_for_offset(self, offset: int) -> LeaderEpoch | None:
        """The epoch that `offset` was, or would be, written in. None before the first."""
        slot = bisect_right(self._entries, offset, key=_by_start_offset) - 1
        return self._entries[slot].epoch if slot >= 0 else None

    def previous(self, epoch: int) -> EpochEntry | None:
        """The last entry below `epoch`."""
        slot = bisect_left(self._entries, epoch, key=_by_epoch) - 1
        return self._entries[slot] if slot >= 0 else None

    def next(self, epoch: int) -> EpochEntry | None:
        """The first entry above `epoch`."""
        slot = bisect_right(self._entries, epoch, key=_by_epoch)
        return self._entries[slot] if slot < len(self._entries) else None

    def truncate_from_end(self, end_offset: int) -> None:
        """Drop the epochs that begin at or after `end_offset`."""
        keep = bisect_left(self._entries, end_offset, key=_by_start_offset)
        if keep < len(self._entries):
            del self._entries[keep:]
            self._is_dirty = True

    def truncate_from_start(self, start_offset: int) -> None:
        """Drop what lies before `start_offset`, and let the epoch that it is in begin there."""
        covering = bisect_right(self._entries, start_offset, key=_by_start_offset) - 1
        if covering > 0 or (covering == 0 and self._entries[0].start_offset < start_offset):
            self._entries[: covering + 1] = [EpochEntry(self._entries[covering].epoch, Offset(start_offset))]
            self._is_dirty = True

    def clear(self) -> None:
        """Drop all, on the disk too."""
        self._is_dirty = self._is_dirty or bool(self._entries)
        self._entries.clear()
        self.flush()

    def flush(self) -> None:
        """Bring the file up to date, durably."""
        if self._is_dirty:
            write_lines(self._files, self.path, self._entries)
            self._is_dirty = False

    def flush_elsewhere(self) -> Callable[[], None] | None:
        """What brings the file up to date, on any thread; None where it is. For a log to which nothing happens meanwhile."""
        if not self._is_dirty:
            return None
        self._is_dirty = False
        return partial(write_lines, self._files, self.path, tuple(self._entries))

    def relocate(self, path: str) -> None:
        """Take note that the file is at `path` now, since its directory was renamed."""
        self.path = path

    def _assign(self, entry: EpochEntry) -> bool:
        """The only place where an entry is added. Keeps epochs and offsets rising strictly."""
        entries = self._entries
        if entries and entry.epoch == entries[-1].epoch and entry.start_offset >= entries[-1].start_offset:
            return False
        while entries and (entries[-1].epoch >= entry.epoch or entries[-1].start_offset >= entry.start_offset):
            entries.pop()
        entries.append(entry)
        self._is_dirty = True
        return True
