"""When snapshots are made, what is in them, and that a start from one is a start from the whole log."""

from __future__ import annotations

import pytest

from tests.support.metadata_node import MetadataNode

MINUTE_MS = 60 * 1000
EVERY_BYTES = "metadata.log.max.record.bytes.between.snapshots"
EVERY_MS = "metadata.log.max.snapshot.interval.ms"
IDLE_MS = "metadata.max.idle.interval.ms"


def snapshots(node: MetadataNode) -> list[str]:
    """Those that were made, without the one that `format` wrote."""
    return [name for name in node.file_names() if name.endswith(".checkpoint") and not name.startswith("0" * 20)]


def test_after_so_many_bytes() -> None:
    node = MetadataNode(config={EVERY_BYTES: "3000", IDLE_MS: "0"})
    node.start()
    node.serve(1)
    before = snapshots(node)

    for number in range(20):
        node.create_topic(f"topic-{number}")

    assert before == []
    assert len(snapshots(node)) >= 1


def test_after_so_much_time_if_anything_was_written() -> None:
    node = MetadataNode(config={EVERY_MS: str(MINUTE_MS), IDLE_MS: "1000"})
    node.start()
    node.advance(MINUTE_MS - 1000)
    before = snapshots(node)

    node.advance(2000)

    assert before == []
    assert len(snapshots(node)) == 1
    node.advance(MINUTE_MS - 3000)
    assert len(snapshots(node)) == 1
    node.advance(3000)
    assert len(snapshots(node)) == 2


def test_never_because_of_the_time_where_the_interval_is_zero() -> None:
    node = MetadataNode(config={EVERY_MS: "0", IDLE_MS: "10000"})
    node.start()

    node.advance(120 * MINUTE_MS)

    assert snapshots(node) == []


@pytest.mark.parametrize("is_clean", [True, False])
def test_a_start_from_a_snapshot_is_a_start_from_the_log(is_clean: bool) -> None:
    node = MetadataNode(config={EVERY_BYTES: "1500", IDLE_MS: "0"})
    node.start()
    epochs = node.serve(1, 2)
    for number in range(10):
        node.create_topic(f"topic-{number}", partitions=2, replicas=2, configs={"retention.ms": str(number)})
    node.heartbeat(1, epochs[1], want_fence=True)
    image = node.image
    assert snapshots(node)
    if is_clean:
        node.stop()
    else:
        node.forget()
    for name in snapshots(node)[:-1]:
        node.disk.remove(f"{node.directory}/__cluster_metadata-0/{name}")

    node.start()

    # Only this node's own registration as a controller is new.
    assert node.image.topics == image.topics
    assert node.image.brokers == image.brokers
    assert node.image.configs == image.configs
    assert node.image.features == image.features


def test_old_ones_go_with_the_log_before_them() -> None:
    node = MetadataNode(config={EVERY_BYTES: "500", IDLE_MS: "0", "metadata.max.retention.bytes": "3000"})
    node.start()
    node.serve(1)

    for number in range(50):
        node.create_topic(f"topic-{number}")

    assert node.log.start_offset() > 0
    assert len(snapshots(node)) < 10
    image = node.image
    node.forget()
    node.start()
    assert node.image.topics == image.topics
