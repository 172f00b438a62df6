"""The image as far as the log is committed: transactions, snapshots, and what subscribers are told."""

from __future__ import annotations

import pytest

from tidelog.controller.committed_image import CommittedImage
from tidelog.controller.errors import InconsistentMetadataError
from tidelog.controller.image import ClusterImage, ConfigResource
from tidelog.controller.image_delta import ImageDelta
from tidelog.controller.image_records import image_records
from tidelog.controller.metadata_log import LoggedBatch
from tidelog.controller.snapshot_file import Snapshot, SnapshotHead
from tidelog.model.ids import LeaderEpoch, Offset, TopicId
from tidelog.raft.log_view import BOOTSTRAP_SNAPSHOT_ID, OffsetAndEpoch
from tidelog.wire.internal_records import FramedRecord
from tidelog.wire.messages.internal import cluster_metadata as records
from tidelog.wire.schema import MetadataRecord

BEGIN = records.BeginTransactionRecord(name="several")
END = records.EndTransactionRecord()
ABORT = records.AbortTransactionRecord(reason="changed our mind")
LEVEL = records.FeatureLevelRecord(name="metadata.version", feature_level=30)


def config(name: str, value: str | None = "v") -> records.ConfigRecord:
    return records.ConfigRecord(resource_type=2, resource_name="t", name=name, value=value)


def topic(name: str) -> records.TopicRecord:
    return records.TopicRecord(name=name, topic_id=name.encode().ljust(16, b"."))


class Told:
    """An image with a subscriber."""

    def __init__(self) -> None:
        self.committed = CommittedImage()
        self.heard: list[tuple[ClusterImage, ImageDelta]] = []
        self.committed.subscribe(lambda image, delta: self.heard.append((image, delta)))
        self._next = 0

    def batch(self, *messages: MetadataRecord, epoch: int = 1) -> LoggedBatch:
        base = self._next
        self._next += max(1, len(messages))
        framed = tuple(FramedRecord(message, 0) for message in messages)
        return LoggedBatch(Offset(base), Offset(self._next), LeaderEpoch(epoch), 1000 + base, 100, framed)

    def commit(self, *messages: MetadataRecord) -> None:
        self.committed.commit([self.batch(*messages)])

    @property
    def configs(self) -> dict[str, str]:
        return dict(self.committed.image.config_of(ConfigResource(2, "t")))


@pytest.fixture
def told() -> Told:
    return Told()


def test_it_starts_with_nothing(told: Told) -> None:
    assert told.committed.is_empty
    assert told.committed.image == ClusterImage()


def test_each_commit_is_published_with_its_delta(told: Told) -> None:
    told.commit(topic("a"))
    told.commit(config("x"), config("y"))

    images = [image for image, _ in told.heard]
    deltas = [delta for _, delta in told.heard]
    assert [image.offset for image in images] == [0, 2]
    assert [image.timestamp_ms for image in images] == [1000, 1001]
    assert list(deltas[0].topics_changed) == [TopicId(b"a" + b"." * 15)]
    assert list(deltas[1].configs_changed) == [ConfigResource(2, "t")]
    assert told.committed.image is images[-1]


def test_batches_that_come_together_are_published_together(told: Told) -> None:
    told.committed.commit([told.batch(topic("a")), told.batch(), told.batch(topic("b"), topic("c"), epoch=2)])

    [(image, delta)] = told.heard
    assert len(delta.topics_changed) == 3
    assert (image.offset, image.epoch) == (3, 2)


def test_a_control_batch_moves_the_offset_alone(told: Told) -> None:
    told.commit(LEVEL)
    told.commit()

    image, delta = told.heard[-1]
    assert image.offset == 1
    assert not delta.topics_changed
    assert not delta.configs_changed


class TestTransactions:
    def test_nothing_counts_before_the_end(self, told: Told) -> None:
        told.commit(config("before"))
        told.commit(BEGIN, config("x"))
        told.commit(config("y"))

        assert told.configs == {"before": "v"}
        assert told.committed.image.offset == 0
        assert told.committed.open_transaction_offset == 1
        assert len(told.heard) == 1

        told.commit(END)

        assert set(told.configs) == {"before", "x", "y"}
        assert told.committed.image.offset == 4
        assert told.committed.open_transaction_offset is None

    def test_one_in_a_single_batch_is_as_if_there_was_none(self, told: Told) -> None:
        told.commit(BEGIN, LEVEL, config("x"), END)

        assert told.configs == {"x": "v"}
        assert not told.committed.is_empty
        assert len(told.heard) == 1

    def test_an_aborted_one_never_was(self, told: Told) -> None:
        told.commit(BEGIN, config("x"), topic("a"))
        told.commit(ABORT)

        assert told.configs == {}
        assert told.committed.image.topics == {}
        assert told.committed.image.offset == 3

    def test_the_bootstrap_of_a_cluster_that_died_is_begun_again(self, told: Told) -> None:
        told.commit(BEGIN, LEVEL)
        assert told.committed.is_empty

        told.commit(ABORT, BEGIN, LEVEL, END)

        assert told.committed.image.metadata_version.level == 30
        assert not told.committed.is_empty

    def test_the_image_moves_as_far_as_is_settled(self, told: Told) -> None:
        told.committed.commit([told.batch(config("x")), told.batch(BEGIN, config("y")), told.batch(config("z"))])

        assert told.configs == {"x": "v"}
        assert told.committed.image.offset == 0

    def test_brokers_are_registered_where_they_stand_in_the_log(self, told: Told) -> None:
        told.commit(BEGIN)
        told.commit(_broker(epoch=-1))
        told.commit(END)

        [broker] = told.committed.image.brokers.values()
        assert broker.epoch == 1

    @pytest.mark.parametrize(
        ("messages", "sentence"),
        [
            ([BEGIN, BEGIN], "begins at offset 1 inside another"),
            ([END], "ends at offset 0 that never began"),
            ([ABORT], "ends at offset 0 that never began"),
        ],
    )
    def test_what_does_not_fit_stops_the_node(self, told: Told, messages: list[MetadataRecord], sentence: str) -> None:
        with pytest.raises(InconsistentMetadataError, match=sentence):
            told.commit(*messages)


class TestSnapshots:
    def test_one_gives_the_same_image_again(self, told: Told) -> None:
        told.commit(LEVEL, topic("a"), config("x"), _broker(epoch=7))
        image = told.committed.image
        other = Told()

        other.committed.load_snapshot(_id(4, 1), Snapshot(SnapshotHead(1003), tuple(image_records(image))))

        assert other.committed.image.says_the_same(image)
        assert (other.committed.image.offset, other.committed.image.timestamp_ms) == (3, 1003)
        assert not other.committed.is_empty

    def test_the_first_voters_are_no_image(self, told: Told) -> None:
        told.committed.load_snapshot(BOOTSTRAP_SNAPSHOT_ID, Snapshot(SnapshotHead(99), ()))

        assert told.committed.is_empty
        assert told.heard == []

    def test_one_in_the_middle_takes_away_what_it_does_not_have(self, told: Told) -> None:
        told.commit(LEVEL, topic("a"), config("x"))
        told.commit(BEGIN)
        snapshot = Snapshot(SnapshotHead(5), (FramedRecord(LEVEL, 0), FramedRecord(topic("b"), 0)))

        told.committed.load_snapshot(_id(50, 3), snapshot)

        image, delta = told.heard[-1]
        assert set(image.topic_ids) == {"b"}
        assert list(delta.topics_removed.values()) == ["a"]
        assert list(delta.topics_changed) == [TopicId(b"b" + b"." * 15)]
        assert ConfigResource(2, "t") in delta.configs_changed
        assert told.committed.open_transaction_offset is None

    def test_the_log_is_measured_from_the_last_one(self, told: Told) -> None:
        told.commit(LEVEL)
        told.commit(config("x"))
        assert told.committed.bytes_since_snapshot == 200

        told.committed.snapshot_begun()
        assert told.committed.bytes_since_snapshot == 0
        told.commit(config("y"))
        told.committed.load_snapshot(_id(50, 3), Snapshot(SnapshotHead(5), ()))
        assert told.committed.bytes_since_snapshot == 0


def _id(offset: int, epoch: int) -> OffsetAndEpoch:
    return OffsetAndEpoch(offset=Offset(offset), epoch=LeaderEpoch(epoch))


def _broker(epoch: int) -> records.RegisterBrokerRecord:
    return records.RegisterBrokerRecord(
        broker_id=1, incarnation_id=bytes(16), broker_epoch=epoch, end_points=[], features=[], rack=None
    )
