"""Classic groups of each client library, and of all of them together."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.support.group_members import CLIENTS, MemberProcess, are_shared, wait_for_all
from tests.support.group_topics import GROUP_SETTINGS, Topics, new_name, numbers
from tests.support.running_node import RunningNode

# Longer than any test: a member that is replaced must not be replaced because its time was up.
LONG_SESSION_MS = 60_000


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningNode]:
    with RunningNode(tmp_path_factory.mktemp("node"), settings=GROUP_SETTINGS) as running:
        yield running


@pytest.fixture(scope="module")
def topics(node: RunningNode) -> Topics:
    return Topics(node.bootstrap)


@pytest.fixture
def group() -> str:
    return new_name("group")


@pytest.mark.parametrize("client", CLIENTS)
def test_a_member_reads_commits_and_its_successor_goes_on_there(
    node: RunningNode, topics: Topics, group: str, client: str
) -> None:
    topic = topics.make(2)
    topics.send(topic, 2, numbers(0, 10))
    with MemberProcess(client, node.bootstrap, group, [topic]) as first:
        first.wait_until(lambda: len(first.records) == 10, "all records are read")
        first.wait_until(lambda: list(first.committed.values()) == [5, 5], "both partitions are committed")
    assert sorted(first.values, key=int) == numbers(0, 10)
    assert topics.committed(group, topic, 2) == [5, 5]

    topics.send(topic, 2, numbers(10, 16))
    with MemberProcess(client, node.bootstrap, group, [topic]) as second:
        second.wait_until(lambda: len(second.records) == 6, "the rest is read")
        second.wait_until(lambda: list(second.committed.values()) == [8, 8], "both partitions are committed")
    assert sorted(second.values, key=int) == numbers(10, 16)
    assert topics.committed(group, topic, 2) == [8, 8]


@pytest.mark.parametrize("client", CLIENTS)
def test_members_share_the_partitions_as_they_come_and_go(
    node: RunningNode, topics: Topics, group: str, client: str
) -> None:
    topic = topics.make(4)
    every = [(topic, index) for index in range(4)]
    with MemberProcess(client, node.bootstrap, group, [topic]) as first:
        first.wait_until(lambda: first.assigned == set(every), "it has all partitions")
        with MemberProcess(client, node.bootstrap, group, [topic]) as second:
            wait_for_all([first, second], lambda: are_shared([first, second], every), "two share the partitions")
            assert {len(first.assigned), len(second.assigned)} == {2}
            topics.send(topic, 4, numbers(0, 40))
            wait_for_all(
                [first, second], lambda: len(first.records) + len(second.records) == 40, "all records are read"
            )
        assert sorted(first.values + second.values, key=int) == numbers(0, 40)
        first.wait_until(lambda: first.assigned == set(every), "it has all partitions again")


@pytest.mark.parametrize("client", CLIENTS)
def test_what_a_dead_member_had_goes_to_another_when_its_session_ends(
    node: RunningNode, topics: Topics, group: str, client: str
) -> None:
    topic = topics.make(2)
    every = [(topic, index) for index in range(2)]
    with ExitStack() as stack:
        first, second = (stack.enter_context(MemberProcess(client, node.bootstrap, group, [topic])) for _ in range(2))
        wait_for_all([first, second], lambda: are_shared([first, second], every), "two share the partitions")
        first.kill()
        topics.send(topic, 2, numbers(0, 10))
        second.wait_until(lambda: second.assigned == set(every), "the other has it all")
        second.wait_until(lambda: len(set(second.values)) == 10, "all records are read")


@pytest.mark.parametrize("client", CLIENTS)
def test_a_static_member_that_starts_again_disturbs_nobody(
    node: RunningNode, topics: Topics, group: str, client: str
) -> None:
    topic = topics.make(2)
    every = [(topic, index) for index in range(2)]

    def member(instance: str) -> MemberProcess:
        return MemberProcess(client, node.bootstrap, group, [topic], instance=instance, session_ms=LONG_SESSION_MS)

    with ExitStack() as stack:
        first, second = (stack.enter_context(member(instance)) for instance in ("one", "two"))
        wait_for_all([first, second], lambda: are_shared([first, second], every), "two share the partitions")
        had = second.assigned.copy()
        changes = len(first.assignments)
        second.kill()
        again = stack.enter_context(member("two"))
        again.wait_until(lambda: again.assigned == had, "it has what it had")
        topics.send(topic, 2, numbers(0, 10))
        wait_for_all([first, again], lambda: len(first.records) + len(again.records) == 10, "all is read")
        assert len(first.assignments) == changes


@pytest.mark.parametrize("client", CLIENTS)
def test_a_group_without_offsets_starts_where_it_is_told_to(
    node: RunningNode, topics: Topics, group: str, client: str
) -> None:
    topic = topics.make(1)
    topics.send(topic, 1, numbers(0, 5))
    with MemberProcess(client, node.bootstrap, group, [topic], reset="latest") as late:
        late.wait_until(lambda: bool(late.assigned), "the partition is assigned")
        sent = itertools.count(5)

        def has_read() -> bool:
            # Where the end is looked up is after the assignment, at a time that only the client knows.
            topics.send(topic, 1, [str(next(sent))])
            return bool(late.records)

        wait_for_all([late], has_read, "it reads what came after it")
        assert "4" not in late.values


def test_clients_of_all_libraries_share_one_group(node: RunningNode, topics: Topics, group: str) -> None:
    topic = topics.make(8)
    every = [(topic, index) for index in range(8)]
    with ExitStack() as stack:
        members = [stack.enter_context(MemberProcess(client, node.bootstrap, group, [topic])) for client in CLIENTS]
        wait_for_all(members, lambda: are_shared(members, every), "all share the partitions")
        assert [len(member.assigned) for member in members] == [2, 2, 2, 2]
        topics.send(topic, 8, numbers(0, 80))
        wait_for_all(members, lambda: sum(len(member.records) for member in members) == 80, "all records are read")
        wait_for_all(members, lambda: topics.committed(group, topic, 8) == [10] * 8, "all is committed")

        # One after another dies or leaves; in the end one has everything.
        members[0].kill()
        wait_for_all(members, lambda: are_shared(members[1:], every), "the others share the partitions")
        members[1].leave()
        members[2].kill()
        last = members[3]
        last.wait_until(lambda: last.assigned == set(every), "the last has it all")
        topics.send(topic, 8, numbers(80, 160))
        last.wait_until(lambda: set(numbers(80, 160)) <= set(last.values), "the rest is read")


def test_two_groups_each_see_everything(node: RunningNode, topics: Topics, group: str) -> None:
    topic = topics.make(2)
    with ExitStack() as stack:
        readers = [
            stack.enter_context(MemberProcess(client, node.bootstrap, f"{group}-{client}", [topic]))
            for client in CLIENTS
        ]
        topics.send(topic, 2, numbers(0, 20))
        wait_for_all(readers, lambda: all(len(reader.records) == 20 for reader in readers), "each has read all")
    for reader in readers:
        assert sorted(reader.values, key=int) == numbers(0, 20)
        assert topics.committed(f"{group}-{reader.client}", topic, 2) == [10, 10]
