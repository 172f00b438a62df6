"""Our consumer's assignors beside the Java client's: the same answers, or as good ones; each goes on where the other left off.

Range and round robin are determined by what the members say. The sticky ones are free among equals: theirs may differ from ours,
but neither may be less balanced, and a leader of one kind must find what a leader of the other kind assigned to be right.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from random import Random

import pytest

from tests.support.apache_kafka import REPOSITORY, ApacheKafka
from tests.support.java_process import JavaProcess
from tidelog.client.consumer.assignors import ASSIGNORS, Assignor
from tidelog.client.consumer.assignors.assignor import Assignment, LastAssignment, MemberSubscription, PartitionRacks
from tidelog.client.consumer.topic_partition import TopicPartition

pytestmark = pytest.mark.compat

SOURCE: Path = REPOSITORY / "tests" / "compat" / "AssignorOracle.java"
CASES = 300
RACKS = ("a", "b", "c")
STICKY = ["sticky", "cooperative-sticky"]
Members = dict[str, MemberSubscription]


class AssignorOracle(JavaProcess):
    """The Java client's assignors."""

    def __init__(self, kafka: ApacheKafka) -> None:
        super().__init__(kafka, SOURCE)

    def assign(self, name: str, partitions: PartitionRacks, members: Members) -> Assignment:
        said = {
            member: {
                "topics": list(each.topics),
                "user_data": None if each.user_data is None else each.user_data.hex(),
                "owned": list(each.owned),
                "generation": each.generation_id,
                "rack": each.rack_id,
                "instance": each.group_instance_id,
            }
            for member, each in members.items()
        }
        topics = {topic: [sorted(racks) for racks in of] for topic, of in partitions.items()}
        answer = self.ask({"do": "assign", "assignor": name, "topics": topics, "members": said})
        return {member: [TopicPartition(*each) for each in made] for member, made in answer.items()}

    def user_data(self, name: str, topics: tuple[str, ...], last: LastAssignment) -> bytes | None:
        """What a Java member adds to its subscription after it was assigned this."""
        asked = {"do": "user_data", "assignor": name, "topics": list(topics)}
        answer = self.ask({**asked, "partitions": list(last.partitions), "generation": last.generation_id})
        return None if answer is None else bytes.fromhex(answer)


@pytest.fixture(scope="module")
def oracle(kafka: ApacheKafka) -> Iterator[AssignorOracle]:
    with AssignorOracle(kafka) as running:
        yield running


def cluster(random: Random, *, racks: bool) -> PartitionRacks:
    return {
        f"t{topic}": [
            frozenset(random.sample(RACKS, random.randint(1, 3))) if racks else frozenset()
            for _ in range(random.randint(1, 9))
        ]
        for topic in range(random.randint(1, 4))
    }


def group(random: Random, partitions: PartitionRacks, *, racks: bool, is_uniform: bool) -> Members:
    """Some members; some of their topics do not exist, some of the members are static."""
    known = [*partitions, "absent"]

    def topics() -> tuple[str, ...]:
        return tuple(random.sample(known, random.randint(1, len(known))))

    shared = topics()
    return {
        f"m{number}": MemberSubscription(
            shared if is_uniform else topics(),
            rack_id=random.choice(RACKS) if racks else None,
            group_instance_id=f"i{9 - number}" if random.random() < 0.2 else None,
        )
        for number in random.sample(range(10), random.randint(1, 7))
    }


def cases(*, racks: bool = False) -> Iterator[tuple[PartitionRacks, Members, Random]]:
    for seed in range(CASES):
        random = Random(seed)
        partitions = cluster(random, racks=racks)
        yield partitions, group(random, partitions, racks=racks, is_uniform=seed % 2 == 0), random


def sets_of(made: Mapping[str, list[TopicPartition]]) -> dict[str, list[TopicPartition]]:
    return {member: sorted(each) for member, each in made.items()}


@pytest.mark.parametrize("racks", [False, True], ids=["without racks", "with racks"])
@pytest.mark.parametrize("name", ["range", "roundrobin"])
def test_the_same_assignment(oracle: AssignorOracle, name: str, racks: bool) -> None:
    for partitions, members, _ in cases(racks=racks):
        ours = ASSIGNORS[name].assign(partitions, members)

        assert sets_of(ours) == sets_of(oracle.assign(name, partitions, members)), (partitions, members)


def imbalance(made: Mapping[str, list[TopicPartition]]) -> int:
    """The sum of the differences between any two members' numbers of partitions, which is what the Java client minimises."""
    sizes = [len(each) for each in made.values()]
    return sum(abs(one - other) for one in sizes for other in sizes)


def rejoining(
    assignor: Assignor, members: Members, made: Assignment, generation_id: int, java: AssignorOracle | None
) -> Members:
    """The members as they come to the next rebalance; with the Java client's words if `java` is given."""
    again = {}
    for member, said in members.items():
        last = LastAssignment(tuple(made.get(member, ())), generation_id)
        data = assignor.user_data(last) if java is None else java.user_data(assignor.name, said.topics, last)
        again[member] = said._replace(
            owned=last.partitions if assignor.is_cooperative else (), generation_id=generation_id, user_data=data
        )
    return again


@pytest.mark.parametrize("name", STICKY)
def test_an_assignment_that_is_no_less_balanced(oracle: AssignorOracle, name: str) -> None:
    for partitions, members, _ in cases():
        ours, theirs = ASSIGNORS[name].assign(partitions, members), oracle.assign(name, partitions, members)

        assert sorted(ours) == sorted(theirs)
        assert imbalance(ours) <= imbalance(theirs), (partitions, members, ours, theirs)


@pytest.mark.parametrize("name", STICKY)
def test_what_a_java_leader_assigned_is_kept_by_one_of_ours_and_the_other_way_round(
    oracle: AssignorOracle, name: str
) -> None:
    assignor = ASSIGNORS[name]
    for partitions, members, _ in cases():
        theirs = oracle.assign(name, partitions, members)
        kept = assignor.assign(partitions, rejoining(assignor, members, theirs, 1, oracle))
        assert sets_of(kept) == sets_of(theirs), (partitions, members)

        ours = assignor.assign(partitions, members)
        kept = oracle.assign(name, partitions, rejoining(assignor, members, ours, 1, None))
        assert sets_of(kept) == sets_of(ours), (partitions, members)


@pytest.mark.parametrize("name", STICKY)
def test_after_members_came_and_went_no_more_moves_than_with_a_java_leader(oracle: AssignorOracle, name: str) -> None:
    """Over all cases together: which of two equally good moves is made decides what the next one costs."""
    assignor = ASSIGNORS[name]
    moved = {"ours": 0, "theirs": 0}
    for partitions, before, random in cases():
        first = oracle.assign(name, partitions, before)
        topics = next(iter(before.values())).topics
        after = {member: said for member, said in before.items() if random.random() < 0.7}
        after |= {f"n{number}": MemberSubscription(topics) for number in range(random.randint(0 if after else 1, 3))}
        joined = rejoining(assignor, after, first, 1, oracle)
        results = {"ours": assignor.assign(partitions, joined), "theirs": oracle.assign(name, partitions, joined)}
        for side, made in results.items():
            owner = {each: member for member, had in first.items() for each in had}
            moved[side] += sum(
                owner[each] in after and owner[each] != member for member in made for each in made[member]
            )
        if not assignor.is_cooperative:
            assert imbalance(results["ours"]) <= imbalance(results["theirs"]), (partitions, joined)

    assert moved["ours"] <= moved["theirs"] * 1.05, moved


def test_what_members_remember_is_written_as_the_java_client_writes_it(oracle: AssignorOracle) -> None:
    for partitions, members, random in cases():
        for name in STICKY:
            assignor = ASSIGNORS[name]
            for member, made in oracle.assign(name, partitions, members).items():
                last = LastAssignment(tuple(sorted(made)), random.randint(0, 1000))
                theirs = oracle.user_data(name, members[member].topics, last)
                said = MemberSubscription(members[member].topics, user_data=theirs, owned=last.partitions)
                if name == "cooperative-sticky":
                    # The other one writes topics in the order of a hash map.
                    assert assignor.user_data(last) == theirs
                claim = assignor.claim_of(said)  # type: ignore[attr-defined]
                assert (sorted(claim.partitions), claim.generation_id) == (list(last.partitions), last.generation_id)
