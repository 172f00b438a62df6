"""Records find their partition, and the batch that is open for it."""

from __future__ import annotations

import pytest

from tidelog.client.producer import batch_builder, topic_buffer
from tidelog.client.producer.murmur2 import partition_of
from tidelog.wire.record_batch import HEADER_BYTES


@pytest.mark.parametrize(
    ("bad", "kind"), [(-1, ValueError), (2**63, ValueError), (2**70, ValueError), (1.5, TypeError)]
)
def test_a_time_that_no_record_has_is_a_sentence(bad: object, kind: type[Exception]) -> None:
    buffer = topic_buffer.TopicBuffer(1, True, lambda: 5, topic_buffer.Turn(100))
    builder = batch_builder.BatchBuilder(1000, HEADER_BYTES)
    buffer.open(0, builder)

    with pytest.raises(kind, match="timestamp_ms is"):
        buffer.append(0, bad, None, b"", (), None)

    assert builder.record_count == 0
    assert buffer.append(0, 2**63 - 1, None, b"", (), None) is not None


def test_records_go_to_their_key_or_to_where_the_others_stick() -> None:
    topic = topic_buffer.TopicBuffer(3, True, lambda: 0, topic_buffer.Turn(10))
    builders = [batch_builder.BatchBuilder(1000, HEADER_BYTES) for _ in range(3)]
    for index, builder in enumerate(builders):
        topic.open(index, builder)

    assert topic.append(-1, 0, None, b"v", (), None) is None
    topic.stick_to(2)
    topic.append(-1, 0, None, b"v", (), None)
    topic.append(-1, 0, b"key", b"v", (), None)
    topic.append(1, 0, b"key", b"v", (), None)
    with pytest.raises(ValueError, match="there is no partition 3: the topic has 3"):
        topic.append(3, 0, None, b"v", (), None)

    counts = [0, 1, 1]
    counts[partition_of(b"key", 3)] += 1
    assert [builder.record_count for builder in builders] == counts


def test_a_record_without_a_time_gets_that_of_the_clock() -> None:
    times = iter([50, 40])
    topic = topic_buffer.TopicBuffer(1, True, lambda: next(times), topic_buffer.Turn(10))
    builder = batch_builder.BatchBuilder(1000, HEADER_BYTES)
    topic.open(0, builder)
    topic.stick_to(0)

    topic.append(-1, None, None, b"a", (), None)
    topic.append(-1, 45, None, b"b", (), None)
    topic.send(None, None, b"c", (), None)

    _, base_timestamp, max_timestamp = builder.finish()
    assert (base_timestamp, max_timestamp, builder.record_count) == (50, 50, 3)
    assert list(times) == []


def test_the_topics_of_a_producer_share_its_turn() -> None:
    turn = topic_buffer.Turn(4)
    topics = [topic_buffer.TopicBuffer(1, True, lambda: 0, turn) for _ in range(2)]
    for topic in topics:
        topic.open(0, batch_builder.BatchBuilder(1000, HEADER_BYTES))
        topic.stick_to(0)

    taken = [topics[number % 2].send(0, None, b"v", (), None) is not None for number in range(8)]

    # What is not taken in turn is put there by `append`, which asks for none.
    assert taken == [True, True, True, False] * 2
    assert topics[1].append(-1, 0, None, b"v", (), None) is not None
    batch = topics[1].open_batch(0)
    assert batch is not None
    assert batch.record_count == 3
