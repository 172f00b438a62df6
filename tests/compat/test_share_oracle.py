"""Our share coordinator and our assignor of share groups beside Apache Kafka's own classes.

The share coordinator is determined by what it is asked: the same records byte for byte, the same answers, and the same part of
the log that is not needed any more. The assignor is free among equals: ours may choose other partitions than Kafka's, but is
not to be less even, nor to move more.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.support.apache_kafka import REPOSITORY, ApacheKafka
from tests.support.java_process import JavaProcess
from tests.support.share_states import AUDIT, ORDERS, START_MS, ShareStateDriver, SomeTopics
from tidelog.coordination.consumer.assignors.subscription import Assignment
from tidelog.coordination.decision import Decision
from tidelog.coordination.share.simple_assignor import ShareSubscription, assign_simply
from tidelog.coordination.share_state.share_partition_key import SharePartitionKey
from tidelog.coordination.share_state.share_state_settings import ShareStateSettings
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import PartitionIndex, TopicId, uuid_from_text, uuid_to_text
from tidelog.wire.messages import share_group_state as wire

pytestmark = pytest.mark.compat

SOURCE: Path = REPOSITORY / "tests" / "compat" / "ShareOracle.java"
HISTORIES = 40
STEPS = 150
ASSIGNMENTS = 300
COLD_MS = ShareStateSettings().cold_snapshot_interval_ms
TOPICS = {ORDERS: 3, AUDIT: 1}


class ShareOracle(JavaProcess):
    """Kafka's classes."""

    def __init__(self, kafka: ApacheKafka) -> None:
        super().__init__(kafka, SOURCE)

    def assign(self, members: Mapping[str, ShareSubscription], counts: Mapping[TopicId, int]) -> dict[str, Assignment]:
        said = {
            member: {"topics": [uuid_to_text(each) for each in sorted(had.topics)], "had": _by_text(had.assignment)}
            for member, had in members.items()
        }
        topics = {uuid_to_text(topic): list(range(count)) for topic, count in counts.items()}
        answer = self.ask({"do": "assign", "members": said, "topics": topics})
        return {
            member: {TopicId(uuid_from_text(topic)): tuple(parts) for topic, parts in given.items() if parts}
            for member, given in answer.items()
        }


def _by_text(assignment: Assignment) -> dict[str, list[int]]:
    return {uuid_to_text(topic): list(parts) for topic, parts in assignment.items()}


@pytest.fixture(scope="module")
def oracle(kafka: ApacheKafka) -> Iterator[ShareOracle]:
    with ShareOracle(kafka) as oracle:
        yield oracle


class _Both:
    """Both share coordinators, asked the same."""

    def __init__(self, oracle: ShareOracle, random: Random) -> None:
        self._oracle = oracle
        self._random = random
        self._has_same_offsets = True
        settings = ShareStateSettings(updates_per_snapshot=random.choice([0, 1, 3, 20]))
        self.ours = ShareStateDriver(settings)
        self.ours.topics = SomeTopics(TOPICS)
        topics = {uuid_to_text(topic): count for topic, count in TOPICS.items()}
        oracle.ask({"do": "new", "updates": settings.updates_per_snapshot, "topics": topics, "now": START_MS})

    def step(self) -> None:
        kind = self._random.choice(["initialize", "read", *["write"] * 6, "delete", "summary", "time", "gone"])
        written = len(self.ours.log)
        if kind == "time":
            # Ours looks for cold states by its own clock; Kafka's service has a timer for it.
            self.ours.advance(COLD_MS)
            theirs = self._oracle.ask({"do": "cold", "now": self.ours.now_ms})
            answer = None
        elif kind == "gone":
            topic = self._random.choice(list(TOPICS))
            if self._random.random() < 0.9:
                return
            self.ours.carry_out(self.ours.shard.topics_removed({topic}, self.ours.now_ms))
            theirs = self._oracle.ask({"do": "gone", "topic": uuid_to_text(topic)})
            answer = None
        else:
            question = self._question(kind)
            answer = self._answer(question)
            theirs = self._oracle.ask(question)
        rows = [[key.hex(), None if value is None else value.hex()] for key, value in self.ours.log[written:]]
        # Several at once come in the order of a hash table. From then on the same record may have another offset.
        assert sorted(rows, key=str) == sorted(theirs["records"], key=str), (kind, answer)
        assert answer == theirs["answer"], kind
        self._has_same_offsets = self._has_same_offsets and rows == theirs["records"]
        if self._has_same_offsets:
            assert (self.ours.shard.needed_from or -1) == theirs["redundant"]

    def _question(self, kind: str) -> dict[str, Any]:
        random = self._random
        first = [random.randrange(20) for _ in range(random.randrange(5))]
        return {
            "do": kind,
            "group": random.choice(["workers", "others"]),
            "topic": uuid_to_text(random.choice([ORDERS, ORDERS, AUDIT])),
            "partition": random.choice([0, 0, 0, 1, 2, 3, -1]),
            "state_epoch": random.choice([-1, 0, 1, 1, 2]),
            "leader_epoch": random.choice([-1, 0, 0, 1, 2]),
            "start_offset": random.choice([-1, random.randrange(20)]),
            "complete": random.randrange(-1, 5),
            "batches": [
                [each, each + random.randrange(6), random.randrange(1, 4), random.choice([0, 2, 4])] for each in first
            ],
        }

    def _answer(self, question: dict[str, Any]) -> Any:
        ours, now_ms = self.ours, self.ours.now_ms
        where = SharePartitionKey(
            question["group"], TopicId(uuid_from_text(question["topic"])), PartitionIndex(question["partition"])
        )
        match question["do"]:
            case "initialize":
                begun = wire.PartitionData(
                    partition=where.partition,
                    state_epoch=question["state_epoch"],
                    start_offset=question["start_offset"],
                )
                return ours.carry_out(ours.shard.initialise(where, begun, now_ms)).error_code
            case "read":
                asked = wire.ReadShareGroupStatePartitionData(
                    partition=where.partition, leader_epoch=question["leader_epoch"]
                )
                return _as_answered(ours.carry_out(ours.shard.read(where, asked, now_ms)))
            case "write":
                changed = wire.WriteShareGroupStatePartitionData(
                    partition=where.partition,
                    state_epoch=question["state_epoch"],
                    leader_epoch=question["leader_epoch"],
                    start_offset=question["start_offset"],
                    delivery_complete_count=question["complete"],
                    state_batches=[
                        wire.StateBatch(
                            first_offset=first, last_offset=last, delivery_count=count, delivery_state=state
                        )
                        for first, last, count, state in question["batches"]
                    ],
                )
                return ours.carry_out(ours.shard.write(where, changed, now_ms)).error_code
            case "delete":
                return ours.carry_out(ours.shard.delete(where)).error_code
            case _:
                found = ours.carry_out(Decision(ours.shard.summary(where)))
                if found.error_code:
                    return [found.error_code]
                epochs = found.state_epoch, found.leader_epoch
                return [0, *epochs, found.start_offset, found.delivery_complete_count]


def _as_answered(found: wire.ReadShareGroupStatePartitionResult) -> dict[str, Any]:
    if found.error_code != ErrorCode.NONE:
        return {"error": found.error_code}
    return {
        "error": 0,
        "state_epoch": found.state_epoch,
        "start_offset": found.start_offset,
        "batches": [
            [each.first_offset, each.last_offset, each.delivery_count, each.delivery_state]
            for each in found.state_batches
        ],
    }


def test_both_share_coordinators_write_the_same_records_and_answer_the_same(oracle: ShareOracle) -> None:
    for seed in range(HISTORIES):
        both = _Both(oracle, Random(seed))
        for _ in range(STEPS):
            both.step()


def _sizes(assigned: Mapping[str, Assignment]) -> list[int]:
    return sorted(sum(map(len, each.values())) for each in assigned.values())


def _kept(members: Mapping[str, ShareSubscription], assigned: Mapping[str, Assignment]) -> int:
    """How many of the partitions that members had they have still."""
    return sum(
        len(set(parts) & set(assigned[member].get(topic, ())))
        for member, had in members.items()
        for topic, parts in had.assignment.items()
    )


@pytest.mark.parametrize("is_mixed", [False, True])
def test_our_assignments_are_as_even_as_kafkas_and_move_no_more(oracle: ShareOracle, is_mixed: bool) -> None:
    random = Random(7)
    kept = {"ours": 0, "theirs": 0}
    counts = {ORDERS: 5, AUDIT: 3}
    before: dict[str, Assignment] = {}
    for number in range(ASSIGNMENTS):
        names = random.sample([f"m{each}" for each in range(12)], random.randrange(1, 11))
        topics = [frozenset({ORDERS, AUDIT}), frozenset({ORDERS}), frozenset({AUDIT})]
        members = {
            name: ShareSubscription(random.choice(topics) if is_mixed else topics[0], before.get(name, {}))
            for name in names
        }
        read = {topic for member in members.values() for topic in member.topics}
        there = {topic: count for topic, count in counts.items() if topic in read}

        ours = assign_simply(members, {topic: range(count) for topic, count in there.items()})
        theirs = oracle.assign(members, there)

        for topic in there:
            spread = [[len(made[member].get(topic, ())) for member in names] for made in (ours, theirs)]
            if is_mixed:
                readers = [position for position, name in enumerate(names) if topic in members[name].topics]
                mine = [spread[0][position] for position in readers]
                assert max(mine) - min(mine) <= 1
                assert sum(spread[0]) >= sum(spread[1])
        if not is_mixed:
            assert _sizes(ours)[-1] - _sizes(ours)[0] <= 1
            assert sum(_sizes(ours)) >= sum(_sizes(theirs))
        kept["ours"] += _kept(members, ours)
        kept["theirs"] += _kept(members, theirs)
        # Each goes on from what the other made, by turns.
        before = {**before, **(ours if number % 2 else theirs)}
    assert kept["ours"] >= kept["theirs"]
