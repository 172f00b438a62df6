"""The metadata log of one node, with the power cut at every write of its life.

What was answered is there afterwards; what was not is there as a whole or not at all; and the node goes on. What a restart finds
is compared with a second reading of the same log from its first snapshot on: no snapshot says anything else than the log.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest
from hypothesis import given, settings, strategies as st

from tests.support.metadata_node import SOMEBODY, MetadataNode, creatable
from tidelog.controller.image import ClusterImage
from tidelog.controller.image_delta import ImageDelta
from tidelog.model.ids import Offset
from tidelog.simulation.disk import SimulatedCrash, SimulatedDisk
from tidelog.wire.messages.producers import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from tidelog.wire.messages.topics import CreateTopicsRequest, CreateTopicsResponse, DeleteTopicsRequest

CONFIG = {
    "metadata.max.idle.interval.ms": "0",
    "metadata.log.max.record.bytes.between.snapshots": "700",
    "metadata.max.retention.bytes": "2500",
}


class Story:
    """What a client does with a node, and what it was told."""

    def __init__(self, disk: SimulatedDisk, seed: int) -> None:
        self.node = MetadataNode(disk=disk, config=CONFIG, seed=seed)
        self.created: set[str] = set()
        self.asked: set[str] = set()
        self.deleted: set[str] = set()
        self.producer_ids: list[int] = []
        self._epoch = -1

    def life(self, topics: range) -> None:
        """One life of the node: a broker comes up, topics come and go, the node stops cleanly."""
        self.node.start()
        self._epoch = self.node.serve(1)[1]
        for number in topics:
            self._create(f"topic-{number}", partitions=number % 3 + 1)
            if number % 3 == 2:
                self._delete(f"topic-{number - 1}")
            if number % 4 == 1:
                self._allocate()
        for _ in range(2):
            self.node.heartbeat(1, self._epoch, want_shut_down=True)
        self.node.stop()

    def _create(self, name: str, partitions: int) -> None:
        self.asked.add(name)
        request = CreateTopicsRequest(topics=[creatable(name, partitions, configs={"retention.ms": "5"})])
        response = self.node.ask(request, CreateTopicsResponse)
        assert response.topics[0].error_code == 0
        self.created.add(name)

    def _delete(self, name: str) -> None:
        self.deleted.add(name)
        self.node.controller.handle(DeleteTopicsRequest(topics=[], topic_names=[name], timeout_ms=1), SOMEBODY)

    def _allocate(self) -> None:
        request = AllocateProducerIdsRequest(broker_id=1, broker_epoch=self._epoch)
        self.producer_ids.append(self.node.ask(request, AllocateProducerIdsResponse).producer_id_start)

    def check(self) -> None:
        """After a restart: nothing that was answered is gone, nothing half done is there."""
        self.node.start()
        image = self.node.image
        names = set(image.topic_ids)
        assert self.created - self.deleted <= names <= self.asked
        for topic in image.topics.values():
            assert len(topic.partitions) == int(topic.name.removeprefix("topic-")) % 3 + 1
            assert [resource.name for resource in image.configs if resource.name == topic.name] == [topic.name]
        assert image.next_producer_id >= max(self.producer_ids, default=-1000) + 1000
        assert image.says_the_same(self._replayed())
        # The loop's own state is gone with the process, and so are the timers of the dead.
        self.node.forget()

    def _replayed(self) -> ClusterImage:
        """What the oldest snapshot and the log after it say, read once more and record by record."""
        log = self.node.log
        start, delta = log.start_offset(), ImageDelta(ClusterImage())
        snapshots = log._snapshots
        oldest = next((each for each in snapshots.ids if each.offset >= start), None)
        if oldest is not None:
            start = oldest.offset
            for framed in snapshots.read(oldest).records:
                delta.apply(framed.message, Offset(start - 1))
        for batch in log.batches(start, log.end().offset):
            for number, framed in enumerate(batch.records):
                delta.apply(framed.message, Offset(batch.base_offset + number))
        image = self.node.image
        return delta.image(image.offset, image.epoch, image.timestamp_ms)


def changes_of(work: Callable[[Story], None], seed: int = 1) -> int:
    """How many writes a story comes to when nothing happens to it."""
    disk = SimulatedDisk()
    work(Story(disk, seed))
    return disk.changes


def one_life(story: Story) -> None:
    story.life(range(8))


@pytest.mark.parametrize("offset", range(8))
def test_a_crash_at_every_write(offset: int) -> None:
    for crash_at in range(1 + offset, changes_of(one_life) + 1, 8):
        disk = SimulatedDisk()
        story = Story(disk, 1)
        disk.crash_at(crash_at)
        with pytest.raises(SimulatedCrash):
            one_life(story)
        disk.crash(Random(crash_at))
        story.node.service = None

        story.check()


@given(st.data())
@settings(max_examples=60)
def test_several_crashes_in_a_row(data: st.DataObject) -> None:
    disk = SimulatedDisk()
    story = Story(disk, data.draw(st.integers(0, 1000)))
    for life in range(data.draw(st.integers(1, 4), label="lives")):
        disk.crash_at(disk.changes + data.draw(st.integers(1, 900), label="crash after"))
        try:
            story.life(range(life * 6, life * 6 + 6))
        except SimulatedCrash:
            pass
        else:
            story.node.forget()
        disk.crash(Random(data.draw(st.integers(0, 1000), label="what is lost")))
        story.node.service = None

        # Restarts may crash as well.
        disk.crash_at(disk.changes + data.draw(st.integers(1, 300), label="crash at the restart after"))
        try:
            story.check()
        except SimulatedCrash:
            disk.crash(Random(data.draw(st.integers(0, 1000), label="what is lost then")))
            story.node.service = None
            story.check()
        else:
            disk.kill()


def test_the_story_is_worth_telling() -> None:
    disk = SimulatedDisk()
    story = Story(disk, 1)
    one_life(story)

    assert story.created
    assert story.deleted
    assert story.producer_ids
    # Snapshots were made, and the one that `format` wrote has gone with the log before them.
    assert "00000000000000000000-0000000000.checkpoint" not in story.node.file_names()
    assert changes_of(one_life) > 150
    story.check()
