"""Random histories of a share partition against a model that knows each offset by itself.

Members fetch in both modes, say anything of anything, leave, and fall silent; writes fail, the log start moves, leaders change.
Whatever happens: nobody is given what another member has in hand, counts rise by one with each delivery, the start never passes
what is not settled, and a new leader knows what was written. In the end each record was accepted, or given up for a reason.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from hypothesis import given, strategies as st

from tests.support.examples import examples
from tests.support.share_world import LOCK_MS, SETTINGS, ShareWorld
from tidelog.broker.share.acknowledgement import Acknowledged, Refusal, acknowledge, release
from tidelog.broker.share.acquisition import Acquired
from tidelog.broker.share.delivery import ACKNOWLEDGED, ACQUIRED, ARCHIVED, AVAILABLE, RecordState
from tidelog.broker.share.log_batches import LogBatch
from tidelog.broker.share.persister import ShareState, StateBatch
from tidelog.broker.share.share_partition import Change

MEMBERS = ("a", "b", "c")
ACTIONS = ("fetch", "fetch", "fetch", "say", "say", "say", "settle", "settle", "leave", "time", "gone", "leader")
TYPES = (1, 1, 1, 1, 2, 3, 0, 4)
BECOMES = {0: ARCHIVED, 1: ACKNOWLEDGED, 2: AVAILABLE, 3: ARCHIVED}


@dataclass
class Fate:
    """One offset as the model knows it."""

    state: RecordState = AVAILABLE
    count: int = 0
    member: str = ""
    until_ms: int = 0
    before: str = ""
    """Who has it, while it is being written that it is something else."""


class History:
    def __init__(self, seed: int, *, has_holes: bool, limit: int) -> None:
        self.random = Random(seed)
        self.limit = limit
        self.settings = SETTINGS._replace(deliveries_max=limit, record_locks_max=self.random.choice((20, 60, 2000)))
        self.log = self.make_log(has_holes)
        self.records = {each for batch in self.log for each in range(batch.base_offset, batch.last_offset + 1)}
        self.world = ShareWorld(self.log, self.settings)
        self.fates: dict[int, Fate] = {}
        self.begun: list[tuple[Change, dict[int, int]]] = []
        self.durable: dict[int, tuple[int, int]] = {}
        """What the coordinator has of each offset."""
        self.durable_start = 0
        self.log_start = 0

    def make_log(self, has_holes: bool) -> list[LogBatch]:
        log, start = [], 0
        for _ in range(20):
            if has_holes and self.random.random() < 0.3:
                start += self.random.randint(1, 5)
            size = self.random.randint(1, 12)
            log.append(LogBatch(start, start + size - 1))
            start += size
        return log

    @property
    def partition_start(self) -> int:
        return self.world.partition.start_offset

    def fate(self, offset: int) -> Fate:
        return self.fates.setdefault(offset, Fate())

    def step(self) -> None:
        getattr(self, self.random.choice(ACTIONS))()
        self.check()

    # --- what happens ------------------------------------------------------------------------------------------------------

    def fetch(self) -> None:
        member = self.random.choice(MEMBERS)
        records, is_exact = self.random.randint(1, 30), self.random.random() < 0.4
        batch_size = self.random.choice((1, 5, records))
        has_room = self.world.partition.has_room()
        self.find_nothing(self.world.partition.next_fetch_offset())
        acquired = self.world.fetch(member, records, is_exact=is_exact, batch_size=batch_size)
        assert has_room or not acquired
        self.take(member, acquired)
        if is_exact:
            assert sum(each.last_offset - each.first_offset + 1 for each in acquired) <= records

    def find_nothing(self, first: int) -> None:
        """What a fetch does not find between where it begins and the first batch is given up."""
        found = self.world.readable(first)
        for offset in range(first, found[0].base_offset if found else first):
            if self.fate(offset).state is AVAILABLE:
                self.fate(offset).state = ARCHIVED

    def take(self, member: str, acquired: list[Acquired]) -> None:
        last = -1
        alone = sum(each.last_offset - each.first_offset + 1 for each in acquired)
        for each in acquired:
            assert each.first_offset > last
            last = each.last_offset
            for offset in range(each.first_offset, each.last_offset + 1):
                fate = self.fate(offset)
                if offset not in self.records and fate.state is ARCHIVED:
                    # A hole of the log may be given to a member as part of a range, which has nothing to do for it.
                    fate.state = AVAILABLE
                assert fate.state is AVAILABLE, f"{offset} is {fate}"
                assert not fate.before
                assert offset >= self.partition_start
                assert each.delivery_count == fate.count + 1 <= self.limit
                assert self.limit <= 2 or each.delivery_count < self.limit or alone == 1
                fate.state, fate.member, fate.count = ACQUIRED, member, fate.count + 1
                fate.until_ms = self.world.now_ms + LOCK_MS

    def say(self) -> None:
        member = self.random.choice(MEMBERS)
        ranges = self.random.sample(sorted(self.held(member)), k=1) if self.held(member) else []
        if not ranges or self.random.random() < 0.15:
            first = self.random.randint(0, self.log[-1].last_offset)
            ranges = [(first, first + self.random.randint(0, 8))]
        first, last = ranges[0]
        if self.random.random() < 0.5:
            first += self.random.randint(0, last - first)
            last -= self.random.randint(0, last - first)
        count = 1 if self.random.random() < 0.5 else last - first + 1
        types = [self.random.choice(TYPES) for _ in range(count)]
        change = acknowledge(self.world.partition, member, [Acknowledged(first, last, types)], self.world.now_ms)
        wanted = {offset: types[offset - first] if count > 1 else types[0] for offset in range(first, last + 1)}
        wanted = {offset: kind for offset, kind in wanted.items() if offset >= self.partition_start}
        are_held = all(self.fate(each).state is ACQUIRED and self.fate(each).member == member for each in wanted)
        if isinstance(change, Refusal):
            assert wanted
            in_flight = self.world.states()
            assert not are_held or any(offset not in in_flight for offset in wanted)
            # A lock that was renewed before the refusal stays renewed.
            for offset, kind in wanted.items():
                if kind == 4 and self.fate(offset).state is ACQUIRED and self.fate(offset).member == member:
                    delivery = self.delivery(offset)
                    if delivery is not None:
                        self.fate(offset).until_ms = delivery
            return
        assert are_held or any(offset not in self.world.states() for offset in wanted)
        self.begin(change, wanted)

    def delivery(self, offset: int) -> int | None:
        for batch in self.world.partition.batches:
            if batch.first <= offset <= batch.last:
                return batch.delivery_of(offset).locked_until_ms
        return None

    def held(self, member: str) -> set[tuple[int, int]]:
        """Ranges that a member has in hand, as it was given them or joined."""
        found: set[tuple[int, int]] = set()
        first = last = -2
        for offset in sorted(self.fates):
            fate = self.fates[offset]
            if fate.state is not ACQUIRED or fate.member != member or offset < self.partition_start:
                continue
            if offset != last + 1:
                first = offset
            last = offset
            found = {each for each in found if each[0] != first} | {(first, last)}
        return found

    def begin(self, change: Change, wanted: dict[int, int]) -> None:
        for offset, kind in wanted.items():
            fate = self.fate(offset)
            if fate.state is not ACQUIRED:
                continue
            if kind == 4:
                fate.until_ms = self.world.now_ms + LOCK_MS
                continue
            fate.before, fate.member = fate.member, ""
            fate.state = self.limited(BECOMES[kind], fate.count)
        if change.parts:
            self.begun.append((change, wanted))

    def limited(self, state: RecordState, count: int) -> RecordState:
        return ARCHIVED if state is AVAILABLE and count >= self.limit else state

    def settle(self) -> None:
        if not self.begun:
            return
        # In the order in which they have begun, as they are written.
        change, _ = self.begun.pop(0)
        is_written = self.random.random() < 0.8
        if is_written:
            self.write(change.batches)
        self.world.commit(change, is_written)
        for batch, first, last in change.parts:
            for offset in range(first, last + 1):
                self.settled(offset, is_written, batch.delivery_of(offset).state)

    def settled(self, offset: int, is_written: bool, state: RecordState) -> None:
        fate = self.fate(offset)
        if not fate.before:
            return
        if (not is_written and fate.state is not ARCHIVED) or (not is_written and state is not ARCHIVED):
            if fate.until_ms <= self.world.now_ms:
                fate.state = self.limited(AVAILABLE if offset >= self.partition_start else ARCHIVED, fate.count)
            else:
                fate.state, fate.member = ACQUIRED, fate.before
        elif not is_written and fate.until_ms <= self.world.now_ms:
            fate.state = ARCHIVED
        fate.before = ""

    def write(self, batches: list[StateBatch]) -> None:
        self.durable_start = max(self.durable_start, self.partition_start)
        for first, last, state, count in batches:
            for offset in range(first, last + 1):
                self.durable[offset] = (state, count)

    def leave(self) -> None:
        member = self.random.choice(MEMBERS)
        held = {offset: 2 for offset, fate in self.fates.items() if fate.state is ACQUIRED and fate.member == member}
        change = release(self.world.partition, member)
        in_flight = self.world.states()
        for offset in held:
            if offset in in_flight and offset < self.partition_start:
                self.fate(offset).count = max(self.fate(offset).count, self.limit)
        self.begin(change, {offset: 2 for offset in held if offset in in_flight})

    def time(self) -> None:
        self.world.now_ms += self.random.choice((1, LOCK_MS // 3, LOCK_MS))
        written = self.world.partition.time_out(self.world.now_ms)
        timed_out = {offset for first, last, _, _ in written for offset in range(first, last + 1)}
        for offset, fate in self.fates.items():
            is_due = fate.state is ACQUIRED and fate.until_ms <= self.world.now_ms
            assert is_due == (offset in timed_out) or offset < self.partition_start, f"{offset} {fate}"
            if is_due:
                fate.state = self.limited(AVAILABLE if offset >= self.partition_start else ARCHIVED, fate.count)
                fate.member = ""
        self.write(written)
        self.world.partition.move_start()

    def gone(self) -> None:
        """Retention: rarely, and never all of the log."""
        if self.random.random() < 0.7:
            return
        starts = [batch.base_offset for batch in self.log if batch.base_offset > self.log_start]
        if len(starts) < 4:
            return
        self.log_start = starts[0]
        self.log = [batch for batch in self.log if batch.base_offset >= self.log_start]
        self.world.log = self.log
        # As a fetch below it would find out, which comes sooner or later.
        before = self.partition_start
        self.world.partition.log_start_moved(self.log_start)
        for offset in range(before, self.log_start):
            fate = self.fate(offset)
            if fate.state is AVAILABLE:
                fate.state = ARCHIVED

    def leader(self) -> None:
        """Another node leads: what was not written is as if it had never been."""
        if self.random.random() < 0.8:
            return
        for offset, fate in self.fates.items():
            state, count = self.durable.get(offset, (AVAILABLE, 0))
            if offset < self.durable_start:
                continue
            self.fates[offset] = Fate(RecordState(state), count)
            del fate
        batches = tuple(
            StateBatch(offset, offset, state, count)
            for offset, (state, count) in sorted(self.durable.items())
            if offset >= self.durable_start
        )
        now_ms = self.world.now_ms
        self.world = ShareWorld(self.log, self.settings, ShareState(0, self.durable_start, batches))
        self.world.now_ms = now_ms
        self.begun.clear()
        self.world.partition.log_start_moved(self.log_start)
        for offset in range(self.log_start):
            if self.fate(offset).state is AVAILABLE:
                self.fate(offset).state = ARCHIVED

    # --- what always holds -------------------------------------------------------------------------------------------------

    def check(self) -> None:
        partition = self.world.partition
        states = self.world.states()
        for offset, (state, count, member) in states.items():
            fate = self.fate(offset)
            if offset < self.partition_start:
                continue
            assert (state, member) == (fate.state, fate.member), f"{offset}: {state.name} {member}, {fate}"
            assert count == fate.count, f"{offset}: {count}, {fate}"
        settled = [s for o, (s, _, _) in states.items() if o >= self.partition_start and s in {ACKNOWLEDGED, ARCHIVED}]
        assert partition.completed_count == len(settled)
        for batch in self.log:
            for offset in range(batch.base_offset, min(batch.last_offset + 1, self.partition_start)):
                fate = self.fate(offset)
                assert fate.state in {ACKNOWLEDGED, ARCHIVED} or offset < self.log_start, f"{offset} {fate}"
        limit = self.settings.record_locks_max
        largest = max(batch.last_offset - batch.base_offset + 1 for batch in self.log)
        assert partition.in_flight_count() <= limit + largest + 6
        held = [fate for offset, fate in self.fates.items() if fate.state is ACQUIRED and offset in states]
        if held:
            assert partition.next_lock_ms is not None
            assert partition.next_lock_ms <= min(fate.until_ms for fate in held)

    def finish(self) -> None:
        """A member that does all it is given, and nothing fails any more."""
        while self.begun:
            change, _ = self.begun.pop(0)
            self.world.commit(change)
        self.world.pass_time(2 * LOCK_MS)
        end = self.log[-1].last_offset + 1
        for _ in range(2000):
            offset = self.world.partition.next_fetch_offset()
            acquired = self.world.fetch("z", 50)
            # One that finds a hole has nothing, and the next begins behind it.
            if not acquired and self.world.partition.next_fetch_offset() == offset:
                break
            for first, last, _ in acquired:
                assert self.world.say("z", first, last, 1) is None
        assert self.partition_start == end, self.world.states()
        assert self.world.partition.next_fetch_offset() == end
        assert self.world.partition.completed_count == 0


@given(st.integers(0, 2**32), st.booleans(), st.sampled_from((2, 3, 5)))
@examples(150)
def test_whatever_members_do_every_record_is_settled_and_nobody_takes_anothers(
    seed: int, has_holes: bool, limit: int
) -> None:
    history = History(seed, has_holes=has_holes, limit=limit)

    for _ in range(60):
        history.step()

    history.finish()
