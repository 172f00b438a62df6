"""The offset index and the time index against a plain list."""

from __future__ import annotations

from bisect import bisect_right
from random import Random

from hypothesis import settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tidelog.model.ids import Offset
from tidelog.simulation.disk import SimulatedDisk
from tidelog.storage.offset_index import OffsetIndex
from tidelog.storage.time_index import TimeIndex

BASE = Offset(1000)
PATH = "/logs/i"


class OffsetIndexMachine(RuleBasedStateMachine):
    """Appends, truncations, rolls, kills and lookups in any order; the model is a list of entries."""

    def __init__(self) -> None:
        super().__init__()
        self.disk = SimulatedDisk()
        self.disk.make_directory("/logs")
        self.entries: list[tuple[int, int]] = []
        self.index = self.reopened(active=True)

    def reopened(self, *, active: bool) -> OffsetIndex:
        return OffsetIndex(self.disk, PATH, BASE, bytes_max=100, active=active)

    @precondition(lambda self: not self.index.is_full)
    @rule(step=st.integers(1, 50), size=st.integers(1, 5000))
    def append(self, step: int, size: int) -> None:
        offset, position = self.entries[-1] if self.entries else (BASE, 0)
        self.index.append(offset + step, position + size)
        self.entries.append((offset + step, position + size))

    @rule(offset=st.integers(BASE, BASE + 300))
    def truncate_to(self, offset: int) -> None:
        self.index.truncate_to(offset)
        self.entries = [entry for entry in self.entries if entry[0] < offset]

    @rule()
    def truncate_all(self) -> None:
        self.index.truncate_all()
        self.entries = []

    @rule()
    def trim(self) -> None:
        self.index.trim_to_valid()
        assert self.disk.size_of(PATH) == 8 * len(self.entries)

    @rule(bytes_max=st.integers(0, 200))
    def resize(self, bytes_max: int) -> None:
        self.index.resize(bytes_max)

    @rule(active=st.booleans())
    def close_and_reopen(self, active: bool) -> None:
        self.index.close()
        assert self.disk.size_of(PATH) == 8 * len(self.entries)
        self.index = self.reopened(active=active)

    @rule(active=st.booleans())
    def kill_and_reopen(self, active: bool) -> None:
        self.disk.kill()
        self.index = self.reopened(active=active)

    @rule(offset=st.integers(BASE - 5, BASE + 400))
    def lookup(self, offset: int) -> None:
        below = [entry for entry in self.entries if entry[0] <= offset]
        assert self.index.lookup(offset) == (below[-1] if below else (BASE, 0))

    @rule(position=st.integers(0, 20000))
    def upper_bound(self, position: int) -> None:
        beyond = [entry for entry in self.entries if entry[1] >= position]
        assert self.index.upper_bound(position) == (beyond[0] if beyond else None)

    @invariant()
    def agrees_with_the_model(self) -> None:
        assert self.index.entries == len(self.entries)
        assert self.index.last_offset == (self.entries[-1][0] if self.entries else BASE)
        assert list(self.index.each_entry()) == self.entries
        assert self.index.sanity_check() is None


class TimeIndexMachine(RuleBasedStateMachine):
    """The same for the time index, which skips timestamps that do not rise."""

    @initialize()
    def open(self) -> None:
        self.disk = SimulatedDisk()
        self.disk.make_directory("/logs")
        self.entries: list[tuple[int, int]] = []
        self.index = TimeIndex(self.disk, PATH, BASE, bytes_max=150, active=True)

    @precondition(lambda self: not self.index.is_full)
    @rule(later=st.integers(0, 20), step=st.integers(0, 50))
    def append(self, later: int, step: int) -> None:
        timestamp, offset = self.entries[-1] if self.entries else (-1, BASE)
        is_news = self.index.maybe_append(timestamp + later, offset + step)
        assert is_news == (later > 0)
        if is_news:
            self.entries.append((timestamp + later, offset + step))

    @rule(offset=st.integers(BASE, BASE + 300))
    def truncate_to(self, offset: int) -> None:
        self.index.truncate_to(offset)
        self.entries = [entry for entry in self.entries if entry[1] < offset]

    @rule(killed=st.booleans())
    def reopen(self, killed: bool) -> None:
        if killed:
            self.disk.kill()
            # The one entry that looks like the preallocation: time 0 at the first offset, killed before any other.
            self.entries = [] if self.entries == [(0, BASE)] else self.entries
        else:
            self.index.close()
        self.index = TimeIndex(self.disk, PATH, BASE, bytes_max=150, active=True)

    @rule(timestamp=st.integers(-5, 300))
    def lookup(self, timestamp: int) -> None:
        slot = bisect_right(self.entries, timestamp, key=lambda entry: entry[0]) - 1
        assert self.index.lookup(timestamp) == (self.entries[slot] if slot >= 0 else (-1, BASE))

    @invariant()
    def agrees_with_the_model(self) -> None:
        if hasattr(self, "index"):
            assert list(self.index.each_entry()) == self.entries
            assert self.index.last_entry == (self.entries[-1] if self.entries else (-1, BASE))


class CrashingIndexMachine(RuleBasedStateMachine):
    """The power goes at any time: what was synced is there, and nothing is there that never was."""

    def __init__(self) -> None:
        super().__init__()
        self.disk = SimulatedDisk()
        self.disk.make_directory("/logs")
        self.index = OffsetIndex(self.disk, PATH, BASE, bytes_max=4096, active=True)
        self.disk.sync_directory("/")
        self.disk.sync_directory("/logs")
        self.count = 0
        self.synced = 0

    @rule(count=st.integers(1, 40))
    def append(self, count: int) -> None:
        for _ in range(count):
            self.count += 1
            self.index.append(BASE + self.count, 10 * self.count)

    @rule()
    def sync(self) -> None:
        self.index.sync()
        self.synced = self.count

    @rule(seed=st.integers(0, 2**32))
    def crash(self, seed: int) -> None:
        self.disk.crash(Random(seed))
        self.index = OffsetIndex(self.disk, PATH, BASE, bytes_max=4096)

        # What a crash leaves behind the synced part may be holed; recovery rebuilds it. The synced part may not.
        assert self.index.entries >= self.synced
        for slot in range(self.synced):
            assert self.index.entry(slot) == (BASE + slot + 1, 10 * (slot + 1))
        self.index.truncate_to(BASE + self.synced + 1)
        if self.index.entries != self.synced:
            # Holes made the order a different one: rebuild, as recovery does.
            self.index.truncate_all()
            self.count = self.synced = 0
        self.count = self.index.entries
        self.synced = 0
        self.index.sync()
        self.synced = self.count


TestOffsetIndex = OffsetIndexMachine.TestCase
TestOffsetIndex.settings = settings(stateful_step_count=30)
TestTimeIndex = TimeIndexMachine.TestCase
TestTimeIndex.settings = settings(stateful_step_count=30)
TestCrashingIndex = CrashingIndexMachine.TestCase
TestCrashingIndex.settings = settings(stateful_step_count=15)
