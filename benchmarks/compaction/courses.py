"""What is measured of a compaction: the CPU that it takes, and what it does to those who write meanwhile.

A compacted topic is filled while its records are still too young to be cleaned (`min.compaction.lag.ms`). Then that is taken
back, which starts the cleaner on both programs, and the checkpoint of the cleaner says when it is done. What the idle process
uses is measured before and taken off.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import NamedTuple, TypeAlias

from confluent_kafka import Producer
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # exported, but not by a list
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)
from confluent_kafka.cimpl import NewTopic

from benchmarks.broker.contestants import Contestant
from benchmarks.broker.topics import delete_topic

Sample: TypeAlias = dict[str, float]

# The cleaner looks often, so that its pause is no part of the figures.
SETTINGS = {"log.cleaner.backoff.ms": "200"}
YOUNG_MS = 24 * 60 * 60 * 1000
TIMEOUT_S = 300.0
POLL_S = 0.02
IDLE_S = 2.0
# After the disk has everything, for what the programs do behind a load.
SETTLE_S = 2.0


class Course(NamedTuple):
    records: int
    keys: int
    value_bytes: int
    segment_bytes: int
    latency_samples_min: int


FULL = Course(1_000_000, 1_000_000, 1000, 128 * 1024 * 1024, 10_000)
QUICK = Course(30_000, 20_000, 1000, 4 * 1024 * 1024, 100)

_topics = 0


def clean(contestant: Contestant, course: Course) -> Sample:
    """One compaction of a topic, with nothing beside it."""
    topic = _filled(contestant, course)
    idle_s = _cpu_of(contestant, lambda: time.sleep(IDLE_S)) / IDLE_S
    begun_s = time.monotonic()
    cpu_s = _cpu_of(contestant, lambda: _compact(contestant, topic))
    seconds = time.monotonic() - begun_s
    _remove(contestant, topic)
    return {"cpu_s": cpu_s - idle_s * seconds, "compaction_s": seconds, "resident_mb": contestant.resident_mb()}


def latency(contestant: Contestant, course: Course) -> Sample:
    """How long one record after the other takes to be acknowledged, beside a compaction and without."""
    topic = _filled(contestant, course)
    other = _new_topic(contestant, {})
    # As long as the disk is busy with what was just written, nobody is alone.
    alone = _latencies_ms(contestant, other, course.latency_samples_min, lambda: True)
    _start_cleaning(contestant, topic)
    target = _active_base(contestant, topic)
    beside = _latencies_ms(contestant, other, 50, lambda: _cleaned_until(contestant, topic) >= target)
    _remove(contestant, topic)
    _remove(contestant, other)
    return {
        "p50_alone_ms": _quantile(alone, 0.5),
        "p50_beside_ms": _quantile(beside, 0.5),
        "p99_alone_ms": _quantile(alone, 0.99),
        "p99_beside_ms": _quantile(beside, 0.99),
        "samples_beside": float(len(beside)),
    }


def _cpu_of(contestant: Contestant, work: Callable[[], object]) -> float:
    before_s = contestant.cpu_s()
    work()
    return contestant.cpu_s() - before_s


def _new_topic(contestant: Contestant, config: dict[str, str]) -> str:
    global _topics  # noqa: PLW0603 - a name that no run has used
    _topics += 1
    name = f"compaction-{_topics}"
    admin = AdminClient({"bootstrap.servers": contestant.bootstrap, "log_level": 0})
    admin.create_topics([NewTopic(name, num_partitions=1, replication_factor=1, config=config)])[name].result(60)
    return name


def _filled(contestant: Contestant, course: Course) -> str:
    """A topic full of records that may not be cleaned yet."""
    topic = _new_topic(
        contestant,
        {
            "cleanup.policy": "compact",
            "segment.bytes": str(course.segment_bytes),
            "min.compaction.lag.ms": str(YOUNG_MS),
            "min.cleanable.dirty.ratio": "0.01",
        },
    )
    producer = Producer({"bootstrap.servers": contestant.bootstrap, "linger.ms": 20, "batch.size": 131072})
    random = Random(17)
    value = random.randbytes(course.value_bytes)
    for _ in range(course.records):
        key = b"%016d" % random.randrange(course.keys)
        while True:
            try:
                producer.produce(topic, value, key)
                break
            except BufferError:
                producer.poll(0.05)
    if producer.flush(TIMEOUT_S):
        raise TimeoutError(f"{contestant.name} did not take all records within {TIMEOUT_S:.0f} s")
    os.sync()
    time.sleep(SETTLE_S)
    return topic


def _start_cleaning(contestant: Contestant, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": contestant.bootstrap, "log_level": 0})
    entry = ConfigEntry("min.compaction.lag.ms", "0", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    for answer in admin.incremental_alter_configs([resource]).values():
        answer.result(60)


def _compact(contestant: Contestant, topic: str) -> None:
    target = _active_base(contestant, topic)
    _start_cleaning(contestant, topic)
    deadline_s = time.monotonic() + TIMEOUT_S
    while _cleaned_until(contestant, topic) < target:
        if time.monotonic() > deadline_s:
            raise TimeoutError(f"{contestant.name} did not compact within {TIMEOUT_S:.0f} s")
        time.sleep(POLL_S)


def _active_base(contestant: Contestant, topic: str) -> int:
    """Where the segment begins that is still written to: up to there a cleaner gets."""
    directory = contestant.root / "data" / f"{topic}-0"
    base = max(int(path.stem) for path in directory.glob("*.log"))
    if base == 0:
        raise TimeoutError(f"{topic} has one segment only, and nothing to compact")
    return base


def _cleaned_until(contestant: Contestant, topic: str) -> int:
    path: Path = contestant.root / "data" / "cleaner-offset-checkpoint"
    lines = path.read_text().splitlines() if path.exists() else []
    return next((int(line.split()[2]) for line in lines if line.startswith(f"{topic} 0 ")), 0)


def _latencies_ms(contestant: Contestant, topic: str, count_min: int, is_over: Callable[[], bool]) -> list[float]:
    producer = Producer({"bootstrap.servers": contestant.bootstrap, "linger.ms": 0, "acks": "all"})
    taken: list[float] = []
    value = bytes(100)
    for _ in range(50):
        producer.produce(topic, value)
        producer.flush(10)
    while True:
        begun_s = time.perf_counter()
        producer.produce(topic, value)
        if producer.flush(10):
            raise TimeoutError(f"{contestant.name} did not acknowledge a record within 10 s")
        taken.append(1000 * (time.perf_counter() - begun_s))
        # The checkpoint is looked at now and then only: reading it takes as long as a request.
        if len(taken) >= count_min and len(taken) % 20 == 0 and is_over():
            return taken


def _quantile(values: list[float], share: float) -> float:
    return sorted(values)[min(int(share * len(values)), len(values) - 1)]


def _remove(contestant: Contestant, topic: str) -> None:
    delete_topic(contestant.bootstrap, topic)
