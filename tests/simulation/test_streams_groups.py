"""Streams groups through histories from seeds: members that come, beat, do what they are told late or never, are silent and go;
answers that are lost; topics that come and go; other numbers of standbys; coordinators that die. What must hold is named in
`StreamsHistory.check`; mutants that break it have to be caught."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from random import Random

import pytest

from tests.support.streams_groups import GROUP, Clients, StreamsGroupDriver, info, part, some_topics, topology
from tidelog.coordination.group_settings import StreamsGroupLimits
from tidelog.coordination.streams import reconciliation
from tidelog.coordination.streams.group import StreamsGroup

SEEDS = range(24)
# Some mistakes need more luck to be seen.
SEEDS_OF_MUTANTS = range(200)
STEPS = 100
PROCESS_OF = {"a": "p", "b": "p", "c": "q", "d": "r", "e": "r"}
OF = topology(
    part("0", ["words"], changelogs=[info("counts-log")], sinks=["again"]),
    part("1", [], repartitioned=[info("again")], changelogs=[info("more-log")]),
)
WORKS_ON = some_topics(words=4, again=4, counts_log=4, more_log=4)
LACKS_ONE = some_topics(words=4, again=4, counts_log=4)


class StreamsHistory:
    """One group, and what becomes of it."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.driver = StreamsGroupDriver(topics=WORKS_ON)
        self.driver.limits = StreamsGroupLimits(initial_rebalance_delay_ms=0, assignment_interval_ms=0)
        self.clients = Clients(self.driver, OF)
        self.clients.is_prompt = False
        self.epoch = 0
        self.member_epochs: dict[str, int] = {}
        self.steps: Mapping[Callable[[], None], int] = {
            self.join: 4,
            self.beat: 20,
            self.obey: 12,
            self.beat_and_hear_nothing_of_it: 3,
            self.say_nothing_of_tasks: 3,
            self.all_obey_and_beat: 4,
            self.leave: 2,
            self.wait: 4,
            self.want_standbys: 2,
            self.change_topics: 1,
            self.coordinator_dies: 2,
        }

    def run(self) -> None:
        for _ in range(STEPS):
            (step,) = self.random.choices(list(self.steps), list(self.steps.values()))
            step()
            self.check()
        self.come_to_rest()

    # What happens

    def join(self) -> None:
        member = self.random.choice(list(PROCESS_OF))
        # Whoever joins has given up what it had.
        self._forget(member)
        self.clients.join(member, PROCESS_OF[member])

    def beat(self) -> None:
        for member in self._somebody():
            self.clients.beat(member)

    def obey(self) -> None:
        for member in self._somebody():
            self.clients.obey(member)

    def all_obey_and_beat(self) -> None:
        for member in list(self.clients.epochs):
            self.clients.obey(member)
            self.clients.beat(member)

    def beat_and_hear_nothing_of_it(self) -> None:
        for member in self._somebody():
            self.driver.heartbeat(member, self.clients.epochs[member], self.clients.has[member])

    def say_nothing_of_tasks(self) -> None:
        for member in self._somebody():
            self.clients.take_in(member, self.driver.heartbeat(member, self.clients.epochs[member]))

    def leave(self) -> None:
        for member in self._somebody():
            self.driver.leave(member)
            self._forget(member)

    def wait(self) -> None:
        self.driver.advance(self.random.choice((1_000, 5_000, 20_000, 50_000)))
        known = self.driver.group.members if GROUP in self.driver.groups else {}
        for member in [member for member in self.clients.epochs if member not in known]:
            # It was taken out. A client that hears nothing for so long stops before that.
            self._forget(member)

    def want_standbys(self) -> None:
        self.driver.limits = StreamsGroupLimits(
            initial_rebalance_delay_ms=0, assignment_interval_ms=0, num_standby_replicas=self.random.randint(0, 2)
        )

    def change_topics(self) -> None:
        self.driver.change_topics(self.random.choice((WORKS_ON, WORKS_ON, LACKS_ONE)))

    def coordinator_dies(self) -> None:
        self.driver = self.clients.driver = self.driver.restarted()

    def _somebody(self) -> list[str]:
        members = sorted(self.clients.epochs)
        return [self.random.choice(members)] if members else []

    def _forget(self, member: str) -> None:
        for known in (self.clients.epochs, self.clients.has, self.clients.told, self.member_epochs):
            known.pop(member, None)

    # What must hold

    def check(self) -> None:
        has = {member: (*each[0].items(), *each[1].items()) for member, each in self.clients.has.items()}
        active = Counter(
            (name, number)
            for each in self.clients.has.values()
            for name, numbers in each[0].items()
            for number in numbers
        )
        assert set(active.values()) <= {1}, f"a task is active at two members: {self.clients.has}"
        at = Counter(
            (PROCESS_OF[member], name, number)
            for member, each in has.items()
            for name, numbers in each
            for number in numbers
        )
        assert set(at.values()) <= {1}, f"a process has a task twice: {self.clients.has}"
        if GROUP not in self.driver.groups:
            return
        group = self.driver.group
        assert group.assignment_epoch <= group.epoch
        assert group.epoch >= self.epoch, "the group's epoch has gone back"
        self.epoch = group.epoch
        for member, epoch in self.clients.epochs.items():
            assert epoch >= self.member_epochs.get(member, 0), "a member's epoch has gone back"
            self.member_epochs[member] = epoch
        if self.random.random() < 0.1:
            self._check_the_log(group)

    def _check_the_log(self, group: StreamsGroup) -> None:
        again = self.driver.restarted().group
        assert (again.members, again.targets, again.topology) == (group.members, group.targets, group.topology)
        assert (again.epoch, again.assignment_epoch) == (group.epoch, group.assignment_epoch)

    def come_to_rest(self) -> None:
        """In the end every task is with somebody, once."""
        self.driver.change_topics(WORKS_ON)
        for member in list(self.clients.epochs):
            self._forget(member)
        for member in "ac":
            self.clients.join(member, PROCESS_OF[member])
        # The others are taken out after a while, since nobody hears of them.
        for _ in range(20):
            self.driver.advance(3_000)
            for member in "ac":
                self.clients.obey(member)
                self.clients.beat(member)
        self.clients.settle()
        active = sorted(
            (name, number)
            for has in self.clients.has.values()
            for name, numbers in has[0].items()
            for number in numbers
        )
        assert active == [(name, number) for name in "01" for number in range(4)], "a task is with nobody"


@pytest.mark.parametrize("seed", SEEDS)
def test_a_history_keeps_what_is_promised(seed: int) -> None:
    StreamsHistory(seed).run()


def _caught() -> str:
    """What the first history that breaks a promise says of it."""
    for seed in SEEDS_OF_MUTANTS:
        try:
            StreamsHistory(seed).run()
        except AssertionError as broken:
            return str(broken)
    return "nothing is wrong"


def test_a_coordinator_that_does_not_wait_for_what_is_to_be_revoked_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reconciliation, "shares_any", lambda _claimed, _owned: False)

    assert "a task is active at two members" in _caught()


def test_a_coordinator_that_forgets_who_has_a_task_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(StreamsGroup, "active_process", lambda _group, _name, _number: None)

    assert "a task is active at two members" in _caught()


def test_a_coordinator_that_forgets_where_standbys_are_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(StreamsGroup, "is_standby_at", lambda _group, _process, _name, _number: False)

    assert "a process has a task twice" in _caught()
