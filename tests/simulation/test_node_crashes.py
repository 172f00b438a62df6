"""A whole node that is killed, or loses its power, at any write: what was acknowledged is there after the next start.

A killed process loses nothing that it had acknowledged. A machine without power loses, like Apache Kafka's, records that no sync
had covered; what the controller answered (topics made, topics deleted) is synced before, and survives both.
"""

from __future__ import annotations

import logging
from random import Random

import pytest

from tests.support.simulated_node import Asker, World
from tidelog.model.errors import ErrorCode
from tidelog.simulation.disk import SimulatedCrash, SimulatedDisk
from tidelog.simulation.loop import SimulationFailedError
from tidelog.wire.messages.topics import DeleteTopicsRequest, DeleteTopicsResponse

TOPICS = ("orders", "payments", "refunds")
RECORDS = 6

# Of all the writes of the workload, about so many are crashed at, spread evenly.
CRASHES = 30

# The root directory was there before the node.
FIRST_CRASH = 2


class Ledger:
    """What the client was told, and what it asked for without an answer."""

    def __init__(self) -> None:
        self.topics: set[str] = set()
        self.deleted: set[str] = set()
        self.asked: str | None = None
        self.records: dict[str, list[bytes]] = {}
        self.unanswered: dict[str, bytes] = {}

    async def work(self, world: World) -> None:
        """Start, make topics, write, delete one, stop, all of it again; noting every answer as it comes."""
        for turn in range(2):
            node = await world.start()
            asker = Asker(world)
            for topic in TOPICS:
                await self._make_and_fill(asker, f"{topic}-{turn}")
            await self._delete(asker, f"{TOPICS[0]}-{turn}")
            asker.close()
            await node.stop()

    async def _make_and_fill(self, asker: Asker, topic: str) -> None:
        self.asked = topic
        assert await asker.create(topic) == ErrorCode.NONE
        self.asked = None
        self.topics.add(topic)
        self.records[topic] = []
        for number in range(RECORDS):
            value = f"{topic} {number}".encode()
            self.unanswered[topic] = value
            assert await asker.produce(topic, value) == ErrorCode.NONE
            del self.unanswered[topic]
            self.records[topic].append(value)

    async def _delete(self, asker: Asker, topic: str) -> None:
        self.asked = topic
        request = DeleteTopicsRequest(topics=[], topic_names=[topic], timeout_ms=30_000)
        answer = await asker.call(request, DeleteTopicsResponse, 5)
        assert [each.error_code for each in answer.responses] == [ErrorCode.NONE]
        self.asked = None
        self.topics.remove(topic)
        self.deleted.add(topic)

    async def check(self, world: World, *, lost_power: bool) -> None:
        """The next start, compared with what was noted; and a node that works as before."""
        node = await world.start()
        found = {str(topic.name) for topic in node.image.topics.values()}
        assert found - {self.asked} == self.topics - {self.asked}
        asker = Asker(world)
        for topic in sorted(found & self.topics):
            expected = self.records[topic]
            values = await asker.fetch(topic, 0)
            possible = [*expected, self.unanswered[topic]] if topic in self.unanswered else expected
            assert values == possible[: len(values)], "something was invented, or came out of order"
            assert lost_power or len(values) >= len(expected), "something acknowledged is lost"
        assert await asker.create("afterwards") == ErrorCode.NONE
        assert await asker.produce("afterwards", b"x") == ErrorCode.NONE
        assert await asker.fetch("afterwards", 0) == [b"x"]
        asker.close()
        await node.stop()


def _changes() -> int:
    """How many writes the workload has when nothing goes wrong."""
    ledger, world = Ledger(), World(11)
    world.run(ledger.work)
    return world.disk.changes


def _crash_at(change: int, disk: SimulatedDisk, world: World, ledger: Ledger) -> None:
    disk.crash_at(change)
    try:
        world.run(ledger.work)
    except SimulatedCrash:
        return
    except SimulationFailedError as failed:
        if isinstance(failed.__cause__, SimulatedCrash):
            return
        raise
    raise AssertionError(f"there was no change {change}")


@pytest.mark.parametrize("lost_power", [False, True], ids=["killed", "without power"])
def test_what_was_acknowledged_survives_a_crash_at_any_write(
    caplog: pytest.LogCaptureFixture, *, lost_power: bool
) -> None:
    caplog.set_level(logging.CRITICAL)
    changes = _changes()
    for change in range(FIRST_CRASH, changes, changes // CRASHES):
        ledger, world = Ledger(), World(11)
        _crash_at(change, world.disk, world, ledger)
        if lost_power:
            world.disk.crash(Random(change))
        else:
            world.disk.kill()
        again = World(12, disk=world.disk)
        again.run(lambda world, ledger=ledger: ledger.check(world, lost_power=lost_power))  # type: ignore[misc]
