"""Whatever members of a classic group do and when, their group stays one.

A history is a list of steps by a few clients that behave well, badly or not at all, and of time that passes, with commits that
come late or fail. After every step:
- the generation never falls, and rises when a join is answered;
- at most one member leads, and it is one of the members;
- a stable group has exactly the members that joined its generation;
- every member has a session, or waits for an answer that the group's own deadline brings;
- those who wait are counted right.
In the end time passes for longer than all time-outs: every request is answered. What was written gives the same group.
"""

from __future__ import annotations

from typing import Any

from hypothesis import given, strategies as st

from tests.support.classic_groups import GROUP, ClassicDriver, is_parked, value_of
from tidelog.coordination.classic.group import ClassicGroup, GroupState
from tidelog.coordination.group_settings import GroupSettings
from tidelog.model.errors import ErrorCode
from tidelog.model.pending import Pending

CLIENTS = 4
SESSION_MS = 6_000
REBALANCE_MS = 9_000
# New members wait the longest: five minutes.
ALL_TIMEOUTS_MS = 700_000

steps = st.one_of(
    st.tuples(st.just("all join and sync"), st.just(0), st.just(0)),
    st.tuples(st.just("join"), st.integers(0, CLIENTS - 1), st.sampled_from([b"s1", b"s2"])),
    st.tuples(st.just("start again"), st.integers(0, CLIENTS - 1), st.sampled_from([0, 3, 4, 8, 9])),
    st.tuples(st.just("sync"), st.integers(0, CLIENTS - 1), st.integers(0, 1)),
    st.tuples(st.just("heartbeat"), st.integers(0, CLIENTS - 1), st.just(0)),
    st.tuples(st.just("leave"), st.integers(0, CLIENTS - 1), st.just(0)),
    st.tuples(st.just("wait"), st.sampled_from([0, 1, 1_000, 3_000, 6_000, 10_000]), st.just(0)),
    st.tuples(st.just("commit"), st.sampled_from([ErrorCode.NONE, ErrorCode.NOT_ENOUGH_REPLICAS]), st.just(0)),
)


class Client:
    """What a client remembers: its id, and the generation it was told last. Even ones are static members."""

    def __init__(self, number: int) -> None:
        self.instance = f"i{number}" if number % 2 == 0 else None
        self.member_id = ""
        self.version = 9
        self.joined: Any = None


class History:
    """A group and its clients; `do` takes a step."""

    def __init__(self, max_size: int, delay_ms: int) -> None:
        settings = GroupSettings(max_size=max_size, initial_rebalance_delay_ms=delay_ms)
        self.driver = ClassicDriver(settings)
        self.driver.holds_commits = True
        self.clients = [Client(number) for number in range(CLIENTS)]
        self.answers: list[Any] = []
        self.generation_id = 0
        self.joined_ids: dict[int, set[str]] = {}

    def do(self, step: tuple[str, Any, Any]) -> None:
        what, who, how = step
        match what:
            case "all join and sync":
                self.all_join_and_sync()
            case "join":
                self.join(self.clients[who], how)
            case "start again":
                client = self.clients[who]
                client.member_id = ""
                client.version = how if client.instance is None or how >= 5 else 9
                self.join(client, b"s1")
            case "sync":
                self.sync(self.clients[who], bool(how))
            case "heartbeat":
                client = self.clients[who]
                self.driver.heartbeat(client.member_id, self.generation_of(client), client.instance)
            case "leave":
                client = self.clients[who]
                self.driver.leave((client.member_id, client.instance))
            case "wait":
                self.driver.advance(who)
            case "commit":
                self.driver.commit(who)
        self.check()

    def all_join_and_sync(self) -> None:
        """What a group of clients that behave does; the first to be given an id joins with it, as the others do."""
        for _ in range(2):
            for client in self.clients:
                if not is_parked(client.joined):
                    self.join(client, b"s1")
                    self.check()
        self.driver.advance(6_000)
        for client in self.clients:
            self.sync(client, assigns=True)
        self.driver.commit()

    def join(self, client: Client, subscription: bytes) -> None:
        if client.member_id == "" and client.joined is not None and not is_parked(client.joined):
            client.member_id = value_of(client.joined).member_id
        answer = self.driver.join(
            client.member_id,
            version=client.version,
            instance=client.instance,
            protocols={"range": subscription},
            session_ms=SESSION_MS,
            rebalance_ms=REBALANCE_MS,
        )
        client.joined = answer
        self.answers.append(answer)
        if isinstance(answer, Pending):
            answer.then(self.note_joined)
        else:
            client.member_id = answer.member_id

    def note_joined(self, answer: Any) -> None:
        if answer.error_code == ErrorCode.NONE:
            self.joined_ids.setdefault(answer.generation_id, set()).add(answer.member_id)

    def generation_of(self, client: Client) -> int:
        answer = client.joined
        if answer is None or is_parked(answer):
            return self.generation_id
        client.member_id = value_of(answer).member_id or client.member_id
        generation_id: int = value_of(answer).generation_id
        return generation_id

    def sync(self, client: Client, assigns: bool) -> None:
        generation_id = self.generation_of(client)
        group = self.driver.groups.get(GROUP)
        members = list(group.members) if isinstance(group, ClassicGroup) else []
        given = {member_id: f"{generation_id}:{member_id}".encode() for member_id in members} if assigns else {}
        self.answers.append(self.driver.sync(client.member_id, generation_id, given, instance=client.instance))

    # What always holds

    def check(self) -> None:
        group = self.driver.groups.get(GROUP)
        if group is None:
            # A group that could not be written down is none.
            self.generation_id = 0
            return
        assert isinstance(group, ClassicGroup)
        assert group.generation_id >= self.generation_id
        self.generation_id = group.generation_id
        assert group.leader_id in group.members if group.members else group.leader_id is None
        assert group.awaiting_joins_count == sum(member.awaits_join for member in group.members.values())
        assert set(group.pending_syncs) <= set(group.members)
        assert not set(group.pending_joins) & set(group.members)
        if group.state is GroupState.STABLE:
            joined = self.joined_ids[group.generation_id]
            assert {member.member_id for member in group.members.values() if not member.is_static} <= joined
        if group.is_empty:
            assert not group.members
        deadlines = self.driver.deadlines
        for member_id, member in group.members.items():
            group_key = "classic-join" if member.awaits_join else "classic-sync"
            waits = member.is_alive and ((group_key, GROUP) in deadlines or self.driver.has_uncommitted)
            assert ("classic-session", GROUP, member_id) in deadlines or waits
        for member_id in group.pending_joins:
            assert ("classic-session", GROUP, member_id) in deadlines


@given(st.lists(steps, max_size=40), st.sampled_from([2, 100]), st.sampled_from([0, 3_000]))
def test_a_group_stays_one(history: list[tuple[str, Any, Any]], max_size: int, delay_ms: int) -> None:
    group = History(max_size, delay_ms)
    for step in history:
        group.do(step)

    driver = group.driver
    driver.commit()
    group.check()
    driver.holds_commits = False
    known = driver.groups.get(GROUP)
    if isinstance(known, ClassicGroup) and known.state is GroupState.STABLE and not driver.has_failed:
        loaded = driver.restarted().group
        assert {member.member_id: member.assignment for member in loaded.members.values()} == {
            member.member_id: member.assignment for member in known.members.values()
        } or len(loaded.members) > max_size
        assert (loaded.generation_id, loaded.leader_id) == (known.generation_id, known.leader_id)

    driver.advance(ALL_TIMEOUTS_MS)

    assert not any(is_parked(answer) for answer in group.answers)
    if GROUP in driver.groups:
        assert driver.group.is_empty
        assert len(driver.deadlines) == 0
