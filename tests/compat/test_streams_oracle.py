"""Our streams groups beside Apache Kafka's own classes: the same tasks from the assignor, the same records byte for byte from the
coordinator, and the same answers, through random histories of the same requests.

Kafka goes through hash tables where ours goes by ids. The ids here are single characters that stand in Java's tables in their
order.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.support.apache_kafka import REPOSITORY, ApacheKafka
from tests.support.java_process import JavaProcess
from tests.support.share_states import SomeTopics
from tests.support.streams_groups import (
    CALLER,
    GROUP,
    Claims,
    StreamsGroupDriver,
    info,
    join,
    part,
    some_topics,
    task_ids,
    tasks_in,
    topology,
)
from tidelog.coordination.group_settings import StreamsGroupLimits
from tidelog.coordination.streams.sticky_assignor import AssignedMember, SubtopologyTasks, assign_stickily
from tidelog.coordination.streams.tasks import NO_TASKS, TaskSets
from tidelog.model.ids import uuid_to_text
from tidelog.wire.codec import decode, encode
from tidelog.wire.messages import streams_groups as wire

pytestmark = pytest.mark.compat

SOURCE: Path = REPOSITORY / "tests" / "compat" / "StreamsOracle.java"
ASSIGNMENTS = 400
HISTORIES = 40
TOPOLOGIES_ASKED = 1_500
STEPS = 120
# Java's tables hold these in this order if they begin with the first one.
NAMES = [chr(64 + number) for number in range(12)]
# And any of these, also in a table for two.
PROCESS_OF = {name: "@AC"[index // 2] for index, name in enumerate(NAMES[:6])}
CONFIG = {
    "group.streams.session.timeout.ms": "45000",
    "group.streams.initial.rebalance.delay.ms": "3000",
    "group.streams.assignment.interval.ms": "1000",
}
SOURCES = part("0", ["words"], changelogs=[info("counts-log")], sinks=["again"])
COUNTS = part("1", [], repartitioned=[info("again", replicas=1, cleanup_policy="delete")])
TOPOLOGIES = [
    topology(part("0", ["words"])),
    topology(SOURCES, COUNTS),
    topology(SOURCES, COUNTS, epoch=1),
    topology(part("0", ["words", "others"], changelogs=[info("counts-log")], together=[([0, 1], [])])),
    topology(part("0", ["words", "others"])),
]
EVERYTHING = some_topics(words=3, others=3, counts_log=3, again=3)
WORLDS = [
    some_topics(words=3),
    some_topics(words=3, counts_log=3, again=3),
    some_topics(words=3, counts_log=2, again=3),
    EVERYTHING,
    some_topics(words=3, others=2, counts_log=3),
    some_topics(others=2),
]


class StreamsOracle(JavaProcess):
    """Kafka's classes."""

    def __init__(self, kafka: ApacheKafka) -> None:
        super().__init__(kafka, SOURCE)


@pytest.fixture(scope="module")
def oracle(kafka: ApacheKafka) -> Iterator[StreamsOracle]:
    with StreamsOracle(kafka) as running:
        yield running


# The assignor


def _said(tasks: TaskSets) -> dict[str, Any]:
    return {"active": dict(tasks.active), "standby": dict(tasks.standby)}


def test_the_assignor_gives_every_member_the_tasks_that_kafka_gives_it(oracle: StreamsOracle) -> None:
    random = Random(1071)
    for _ in range(ASSIGNMENTS):
        before: dict[str, TaskSets] = {}
        parts = {
            str(number): SubtopologyTasks(random.randint(1, 8), random.random() < 0.6)
            for number in range(random.randint(1, 4))
        }
        processes = random.randint(1, 6)
        for _ in range(4):
            names = sorted(random.sample(NAMES, random.randint(1, len(NAMES))))
            chosen = [random.randrange(processes) for _ in names]
            used = sorted(set(chosen))
            members = {
                name: AssignedMember(NAMES[used.index(process)], before.get(name, NO_TASKS))
                for name, process in zip(names, chosen, strict=True)
            }
            standbys = random.randint(0, 3)
            question = {
                "do": "assign",
                "members": {name: {"process": each.process_id, **_said(each.had)} for name, each in members.items()},
                "parts": {
                    name: {"tasks": each.task_count, "stateful": each.is_stateful} for name, each in parts.items()
                },
                "standbys": standbys,
            }
            theirs = {
                name: TaskSets(
                    {part: tuple(each) for part, each in has["active"].items()},
                    {part: tuple(each) for part, each in has["standby"].items()},
                )
                for name, has in oracle.ask(question).items()
            }
            ours = assign_stickily(members, parts, standbys)
            assert ours == theirs, question
            before = ours


# The coordinator


class Histories:
    """The same requests to both coordinators. Members do what they are told, or not."""

    def __init__(self, oracle: StreamsOracle, seed: int) -> None:
        self.random = Random(seed)
        self.oracle = oracle
        # Kafka fails at endpoints of an application whose topics are not all there.
        self.has_endpoints = self.random.random() < 0.3
        self.topics = EVERYTHING if self.has_endpoints else self.random.choice(WORLDS)
        self.ours = StreamsGroupDriver(topics=self.topics)
        self.of = self.random.choice(TOPOLOGIES)
        self.epochs: dict[str, int] = {}
        self.told: dict[str, Claims] = {}
        self.endpoint_epochs: dict[str, int] = {}
        self._ask("new", config=CONFIG, topics=_named(self.topics))
        self.standbys = 0

    def run(self) -> None:
        steps = {
            self.join: 5,
            self.beat: 20,
            self.leave: 1,
            self.wait: 6,
            self.change_topics: 3,
            self.change_standbys: 1,
            self.restart: 1,
        }
        for _ in range(STEPS):
            self.random.choices(list(steps), list(steps.values()))[0]()
            self._compare_descriptions()

    # What happens

    def join(self) -> None:
        name = self.random.choice(NAMES[:6])
        of = self.random.choice(TOPOLOGIES) if self.random.random() < 0.1 else self.of
        endpoint = (f"host-{name}", 9) if self.has_endpoints and self.random.random() < 0.5 else None
        request = join(name, of, process=PROCESS_OF[name], endpoint=endpoint)
        request.endpoint_information_epoch = self.endpoint_epochs.get(name, -1)
        self._send(request)

    def beat(self) -> None:
        if not self.epochs:
            return
        name = self.random.choice(sorted(self.epochs))
        claims = self.told.get(name, ({}, {}))
        if self.random.random() < 0.1:
            claims = ({"0": [self.random.randint(-1, 4)]}, {})
        says = self.random.random() < 0.7
        self._send(
            wire.StreamsGroupHeartbeatRequest(
                group_id=GROUP,
                member_id=name,
                member_epoch=max(1, self.epochs[name] + self.random.choice((0, 0, 0, 0, 0, 0, -1, 1))),
                endpoint_information_epoch=self.endpoint_epochs.get(name, -1),
                active_tasks=task_ids(claims[0]) if says else None,
                standby_tasks=task_ids(claims[1]) if says else None,
                warmup_tasks=[] if says else None,
                process_id=self.random.choice((None, None, None, PROCESS_OF[name])),
                shutdown_application=self.random.random() < 0.02,
            )
        )

    def leave(self) -> None:
        name = self.random.choice(NAMES[:6])
        self._send(
            wire.StreamsGroupHeartbeatRequest(
                group_id=GROUP, member_id=name, member_epoch=-1, endpoint_information_epoch=0
            )
        )

    def wait(self) -> None:
        self.ours.now_ms += self.random.choice((500, 1_000, 3_000, 20_000, 31_000))
        start = len(self.ours.log)
        self.ours.advance(0)
        theirs: list[Any] = []
        while some := self._ask("advance"):
            theirs += some
        # Of what is due at the same time, either may come first.
        assert sorted(_rows(self.ours.log[start:])) == sorted(theirs)

    def change_topics(self) -> None:
        self.topics = EVERYTHING if self.has_endpoints else self.random.choice(WORLDS)
        self.ours.change_topics(self.topics)
        self._ask("topics", topics=_named(self.topics))

    def change_standbys(self) -> None:
        self.standbys = self.random.randint(0, 2)
        self.ours.limits = StreamsGroupLimits(num_standby_replicas=self.standbys)
        self._ask("standbys", group=GROUP, standbys=self.standbys)

    def restart(self) -> None:
        limits, now_ms = self.ours.limits, self.ours.now_ms
        self.ours = self.ours.restarted()
        # Deadlines begin anew at the time of the restart.
        self.ours.limits, self.ours.now_ms = limits, now_ms
        self.ours.streams.loaded(self.topics, now_ms)
        self._ask("restart")

    # Both sides

    def _ask(self, what: str, **more: Any) -> Any:
        return self.oracle.ask({"do": what, "now": self.ours.now_ms, **more})

    def _send(self, request: wire.StreamsGroupHeartbeatRequest) -> None:
        bytes_sent = encode(request, 0)
        theirs = self._ask("heartbeat", request=bytes_sent.hex())
        start = len(self.ours.log)
        answer = self.ours.send(decode(wire.StreamsGroupHeartbeatRequest, 0, bytes_sent), CALLER)
        written = _rows(self.ours.log[start:])
        if "code" in theirs:
            assert (answer.error_code, answer.error_message) == (theirs["code"], theirs["message"])
            assert written == []
            self.epochs.pop(request.member_id, None)
            self.told.pop(request.member_id, None)
            return
        expected = decode(wire.StreamsGroupHeartbeatResponse, 0, bytes.fromhex(theirs["response"]))
        if expected.active_tasks is None:
            # A member that may have missed an answer is told its tasks again, which Kafka does not do.
            answer.active_tasks = answer.standby_tasks = answer.warmup_tasks = None
        assert _plain(answer) == _plain(expected)
        assert sorted(written) == sorted(theirs["records"])
        assert [_kind(key) for key, _ in written] == [_kind(key) for key, _ in theirs["records"]]
        assert list(map(list, zip(self.ours.missing, self.ours.missing_counts, strict=True))) == theirs["missing"]
        self._remember(request, expected)

    def _remember(self, request: wire.StreamsGroupHeartbeatRequest, answer: wire.StreamsGroupHeartbeatResponse) -> None:
        name = request.member_id
        if request.member_epoch < 0:
            self.epochs.pop(name, None)
            self.told.pop(name, None)
            return
        self.epochs[name] = answer.member_epoch
        self.endpoint_epochs[name] = answer.endpoint_information_epoch
        if answer.active_tasks is not None:
            self.told[name] = (tasks_in(answer.active_tasks), tasks_in(answer.standby_tasks))

    def _compare_descriptions(self) -> None:
        theirs = decode(wire.StreamsGroupDescribeResponse, 0, bytes.fromhex(self._ask("describe", group=GROUP))).groups
        ours = self.ours.streams.describe(GROUP, self.ours.groups.get(GROUP))
        ours.members.sort(key=lambda member: member.member_id)
        theirs[0].members.sort(key=lambda member: member.member_id)
        for group in (ours, theirs[0]):
            for member in group.members:
                for tasks in (member.assignment, member.target_assignment):
                    for each in (tasks.active_tasks, tasks.standby_tasks):
                        each.sort(key=lambda named: named.subtopology_id)
                        for named in each:
                            named.partitions.sort()
        assert ours == theirs[0]


def _named(topics: SomeTopics) -> dict[str, Any]:
    return {
        topic.name: {"id": uuid_to_text(topic.topic_id), "partitions": len(topic.partitions)}
        for topic in topics.topics.values()
    }


def _rows(rows: list[tuple[bytes, bytes | None]]) -> list[Any]:
    return [[key.hex(), None if value is None else value.hex()] for key, value in rows]


def _kind(key: str) -> str:
    """The type of a record: the first two bytes of its key."""
    return key[:4]


def _plain(answer: wire.StreamsGroupHeartbeatResponse) -> Mapping[str, Any]:
    """What an answer says, without the order that Java's tables happen to have."""
    endpoints = answer.partitions_by_user_endpoint
    return {
        "error": (answer.error_code, answer.error_message),
        "member": (answer.member_id, answer.member_epoch, answer.heartbeat_interval_ms),
        "status": [(each.status_code, _in_order(each.status_detail)) for each in answer.status or ()],
        "tasks": None
        if answer.active_tasks is None
        else [tasks_in(each) for each in (answer.active_tasks, answer.standby_tasks, answer.warmup_tasks)],
        "endpoint epoch": answer.endpoint_information_epoch,
        "endpoints": None
        if endpoints is None
        else sorted(
            (
                each.user_endpoint.host,
                sorted((topic.topic, sorted(topic.partitions)) for topic in each.active_partitions),
                sorted((topic.topic, sorted(topic.partitions)) for topic in each.standby_partitions),
            )
            for each in endpoints
        ),
    }


def _in_order(detail: str) -> str:
    head, colon, names = detail.partition("missing: ")
    return head + colon + ", ".join(sorted(names.split(", "))) if colon else detail


@pytest.mark.parametrize("seed", range(HISTORIES))
def test_the_same_requests_make_the_same_records_and_answers(oracle: StreamsOracle, seed: int) -> None:
    Histories(oracle, seed).run()


# Topologies


def _some_topology(random: Random) -> wire.Topology:
    """Subtopologies that read what is there, and what others of them write, with and without a count of its own."""
    inner = [f"inner-{number}" for number in range(5)]
    counts = {name: random.choice((0, 0, 0, 2, 3)) for name in inner}
    parts = []
    for number in range(random.randint(1, 5)):
        sources = random.sample(["words", "others", "single"], random.randint(0, 2))
        read = random.sample(inner, random.randint(0 if sources else 1, 2))
        together = []
        if random.random() < 0.4:
            places = random.sample(range(len(sources)), random.randint(0, len(sources)))
            others = random.sample(range(len(read)), random.randint(0, len(read)))
            together.append((places, others))
        parts.append(
            part(
                str(number),
                sources,
                changelogs=[info(f"log-{number}")] if random.random() < 0.5 else [],
                repartitioned=[info(name, counts[name]) for name in read],
                sinks=random.sample(inner, random.randint(0, 3)),
                together=together,
            )
        )
    return topology(*parts)


def test_topologies_need_the_same_topics_and_are_refused_alike(oracle: StreamsOracle) -> None:
    random = Random(4)
    topics = some_topics(words=3, others=3, single=1)
    outcomes: set[str] = set()
    for _ in range(TOPOLOGIES_ASKED):
        oracle.ask({"do": "new", "now": 1_000_000, "config": CONFIG, "topics": _named(topics)})
        driver = StreamsGroupDriver(topics=topics)
        request = join("@", _some_topology(random), process="@")
        answer = driver.send(request)
        theirs = oracle.ask({"do": "heartbeat", "now": 1_000_000, "request": encode(request, 0).hex()})
        if "code" in theirs:
            outcomes.add(f"refused with {theirs['code']}")
            assert (answer.error_code, answer.error_message) == (theirs["code"], theirs["message"])
            continue
        expected = decode(wire.StreamsGroupHeartbeatResponse, 0, bytes.fromhex(theirs["response"]))
        outcomes |= {f"status {each.status_code}" for each in expected.status or ()}
        assert list(map(list, zip(driver.missing, driver.missing_counts, strict=True))) == theirs["missing"]
        # Of several topics that do not fit, or are missing, Kafka names some in the order of its tables.
        assert [each.status_code for each in answer.status or ()] == [
            each.status_code for each in expected.status or ()
        ]
    assert {"refused with 130", "status 2", "status 3"} <= outcomes
