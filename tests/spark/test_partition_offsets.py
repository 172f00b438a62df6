"""Offsets as text: what Spark's own connector writes and reads."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, strategies as st

from tidelog.client.consumer.topic_partition import TopicPartition
from tidelog.spark.errors import OptionError
from tidelog.spark.source.partition_offsets import (
    StreamOffset,
    created_again,
    from_document,
    parse_offsets,
    parse_partitions,
    parse_timestamps,
    to_document,
    to_json,
)

TOPICS = st.text(alphabet="abcXYZ019._-", min_size=1, max_size=12)
OFFSETS = st.dictionaries(
    st.builds(TopicPartition, TOPICS, st.integers(0, 2**31 - 1)), st.integers(0, 2**63 - 1), max_size=8
)


def test_the_text_is_that_of_the_connector() -> None:
    offsets = {TopicPartition("payments", 0): 7, TopicPartition("orders", 10): 1, TopicPartition("orders", 2): 23}

    assert to_json(offsets) == '{"orders":{"2":23,"10":1},"payments":{"0":7}}'


@given(OFFSETS)
def test_offsets_survive_text_whatever_order_they_are_made_in(offsets: dict[TopicPartition, int]) -> None:
    backwards = dict(reversed(offsets.items()))

    assert to_json(offsets) == to_json(backwards)
    assert from_document(json.loads(json.dumps(to_document(offsets)))) == offsets
    assert parse_offsets("startingOffsets", to_json(offsets)) == offsets


def test_either_end_may_be_asked_for_in_an_option_and_never_be_in_a_checkpoint() -> None:
    assert parse_offsets("startingOffsets", '{"a": {"0": -1, "1": -2}}') == {("a", 0): -1, ("a", 1): -2}
    with pytest.raises(OptionError, match="expected an offset of this source"):
        from_document({"a": {"0": -1}})


@pytest.mark.parametrize(
    "text",
    [
        "",
        "latest!",
        "[]",
        "7",
        '{"a": 5}',
        '{"a": [0]}',
        '{"a": {"0": "5"}}',
        '{"a": {"0": 1.5}}',
        '{"a": {"0": true}}',
        '{"a": {"0": -3}}',
        '{"a": {"x": 1}}',
        '{"a": {"-1": 1}}',
        '{"a": {"00": 1}}',
        '{"a": {"²": 1}}',
        '{"a": {"0": 9223372036854775808}}',
        '{"a": {"2147483648": 0}}',
        '{"": {"0": 1}}',
        '{"a": {"0": 1, "0": 2}}',
        '{"a": {"0": 1}, "a": {"0": 2}}',
        "[" * 100_000,
    ],
)
def test_what_is_no_offset_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(OptionError, match=r"^expected startingOffsets as in \{"):
        parse_offsets("startingOffsets", text)


def test_partitions_are_listed_by_topic() -> None:
    assert parse_partitions("assign", '{"b": [1, 0], "a": [3]}') == [("a", 3), ("b", 0), ("b", 1)]


@pytest.mark.parametrize(
    "text", ["{}", '{"a": []}', '{"a": [0, 0]}', '{"a": ["0"]}', '{"a": {"0": 1}}', '{"a": [-1]}', "a"]
)
def test_what_assigns_nothing_is_refused(text: str) -> None:
    with pytest.raises(OptionError, match="assign"):
        parse_partitions("assign", text)


def test_a_time_is_never_negative() -> None:
    assert parse_timestamps("startingOffsetsByTimestamp", '{"a": {"0": 0}}') == {("a", 0): 0}
    with pytest.raises(OptionError, match="expected startingOffsetsByTimestamp as in"):
        parse_timestamps("startingOffsetsByTimestamp", '{"a": {"0": -1}}')


TOPIC_ID = "PYkOVJ8VTKmwPJe2qUfU8Q"


def test_ids_of_topics_are_text_that_others_read_over() -> None:
    offset = StreamOffset({TopicPartition("a", 0): 7}, {"a": TOPIC_ID, "gone": TOPIC_ID})

    assert json.dumps(offset.document) == f'{{"a": {{"0": 7}}, "a#{TOPIC_ID}": {{}}}}'
    assert StreamOffset.of(offset.document) == StreamOffset(offset.offsets, {"a": TOPIC_ID})
    assert from_document(offset.document) == offset.offsets
    assert parse_offsets("startingOffsets", json.dumps(offset.document)) == offset.offsets
    assert StreamOffset.of({"a": {"0": 7}}) == StreamOffset(offset.offsets)


@pytest.mark.parametrize(
    "document",
    [
        {"a#": {}},
        {"a#short": {}},
        {f"#{TOPIC_ID}": {}},
        {f"a#{TOPIC_ID}": {"0": 1}},
        {f"a#{TOPIC_ID}": {}, "a#QYkOVJ8VTKmwPJe2qUfU8Q": {}},
        {f"a#{TOPIC_ID}": 1},
    ],
)
def test_what_is_no_id_is_refused(document: dict[str, object]) -> None:
    with pytest.raises(OptionError, match="expected an offset of this source"):
        StreamOffset.of(document)


def test_a_topic_is_another_one_only_where_both_ids_are_known() -> None:
    assert created_again({"a": "1", "b": "1", "c": "1"}, {"a": "1", "b": "2", "d": "2"}) == ["b"]
