"""What a pipeline makes of a batch, without Spark: the last row of a key, records of topics, what Spark's checkpoint says."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pytest
from hypothesis import given, strategies as st

from tidelog.spark.errors import UnwritableError
from tidelog.spark.outputs.staged import Changes
from tidelog.spark.pipelines.checkpoint_offsets import UNKNOWN, entry_hash, input_ranges, read_entry
from tidelog.spark.pipelines.last_changes import LastChanges
from tidelog.spark.pipelines.sink_writing import TopicPlan, as_records, own_rows, record_checksum
from tidelog.spark.sink.audit_entry import PartitionRange

TYPES: dict[str, pa.DataType] = {"id": pa.string(), "part": pa.int32(), "at": pa.int64(), "n": pa.int64()}
SCHEMA = pa.schema(TYPES)
BY_ID = Changes(("id", "part"), "at")


def reduced(changes: LastChanges, rows: list[dict[str, Any]], sizes: list[int]) -> list[dict[str, Any]]:
    """What is left of rows that come in batches of these sizes, and the rest in one."""
    found: list[dict[str, Any]] = []
    for size in [*sizes, len(rows)]:
        batch, rows = rows[:size], rows[size:]
        found += changes.push(pa.RecordBatch.from_pylist(batch, schema=SCHEMA)).to_pylist()
    last = changes.finish()
    return found + ([] if last is None else last.to_pylist())


@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 1), st.integers(0, 5)), max_size=30),
    st.lists(st.integers(0, 7), max_size=6),
)
def test_the_last_row_of_each_key_is_left_however_they_come(keys: list[tuple[str, int, int]], sizes: list[int]) -> None:
    rows = [{"id": id_, "part": part, "at": at, "n": n} for n, (id_, part, at) in enumerate(sorted(keys))]

    found = reduced(LastChanges("t", BY_ID), rows, sizes)

    assert found == list({(row["id"], row["part"]): row for row in rows}.values())


def test_a_history_keeps_every_row() -> None:
    rows = [{"id": "a", "part": 0, "at": at, "n": at} for at in range(3)]

    assert reduced(LastChanges("t", Changes(("id", "part"), "at", history=True)), rows, [2]) == rows


@pytest.mark.parametrize(
    ("changes", "rows", "sentence"),
    [
        (Changes(("id",)), [("a", 1), ("b", 2), ("b", 3)], r"two rows of the key \{'id': 'b'\} in one batch"),
        (BY_ID, [(None, 1)], "a row without id, which is its merge_on"),
        (Changes(("id",), "at"), [("a", None)], "a row without at, which is its sequence_by"),
    ],
)
def test_rows_that_no_table_could_take_are_refused_before_anything_is_decided(
    changes: Changes, rows: list[tuple[str, int]], sentence: str
) -> None:
    given_rows = [{"id": id_, "part": 0, "at": at, "n": 0} for id_, at in rows]

    with pytest.raises(UnwritableError, match=f"the sink t gets {sentence}"):
        reduced(LastChanges("t", changes), given_rows, [1])


def test_a_sink_gets_the_rows_that_are_for_it_and_a_topic_says_its_name() -> None:
    texts = [pa.field(name, pa.string()) for name in ("key", "value", "topic")]
    kind = pa.struct([*texts, pa.field("timestamp", pa.timestamp("us"))])
    structs = pa.array([None, {"key": "k", "value": "v", "topic": "x", "timestamp": None}, None], kind)
    batch = pa.RecordBatch.from_arrays([pa.nulls(3, kind), structs], ["s0", "s1"])

    assert own_rows(batch, 0) is None
    rows = own_rows(batch, 1)
    assert rows is not None
    records = as_records(rows, TopicPlan("sink", 1, "orders", includes_timestamp=False))

    assert records.to_pylist() == [{"key": "k", "value": "v", "topic": "orders"}]
    # As whoever reads the topic again has it: bytes, and whatever else a record has.
    again = pa.RecordBatch.from_pylist([{"offset": 5, "topic": "orders", "key": b"k", "value": b"v"}])
    assert record_checksum(records) == record_checksum(again)
    assert record_checksum(records) != record_checksum(again.set_column(3, "value", pa.array([b"w"])))


def test_the_input_of_a_batch_is_what_lies_between_two_entries(tmp_path: Path) -> None:
    (tmp_path / "offsets").mkdir()
    head = 'v1\n{"batchWatermarkMs":0}\n'
    entries = [
        head + '{"orders":{"0":5,"1":7}}',
        head + '{"orders":{"0":9,"1":7,"2":3},"topicIds":{"orders":"id"}}\n{"payments":{"0":4}}',
        head + "-",
    ]
    for number, text in enumerate(entries):
        (tmp_path / "offsets" / str(number)).write_text(text)
    no_spark = cast("Any", None)

    first, second, third = (read_entry(no_spark, str(tmp_path), number) for number in range(3))

    assert first is not None
    assert second is not None
    assert third is not None
    assert (read_entry(no_spark, str(tmp_path), 3), read_entry(no_spark, str(tmp_path), -1)) == (None, None)
    assert entry_hash(first) != entry_hash(second)
    assert input_ranges(first, None) == (
        PartitionRange("orders", 0, UNKNOWN, 5),
        PartitionRange("orders", 1, UNKNOWN, 7),
    )
    assert input_ranges(second, first) == (
        PartitionRange("orders", 0, 5, 9),
        PartitionRange("orders", 2, 0, 3),
        PartitionRange("payments", 0, UNKNOWN, 4),
    )
    assert input_ranges(third, second) == ()


def test_a_topic_that_was_created_again_is_read_from_its_beginning() -> None:
    def entry(end: int, topic_id: str | None) -> bytes:
        ids = "" if topic_id is None else f',"orders#{topic_id}":{{}}'
        return f'v1\n{{}}\n{{"orders":{{"0":{end}}}{ids}}}'.encode()

    # It may have as many records as were read of the first one.
    for end in (3, 5, 9):
        assert input_ranges(entry(end, "b"), entry(5, "a")) == (PartitionRange("orders", 0, 0, end),)
        # Who does not know the id, or did not then, knows of one topic.
        ranges = () if end == 5 else (PartitionRange("orders", 0, 5, end),)
        for now, then in (("a", "a"), (None, "a"), ("a", None)):
            assert input_ranges(entry(end, now), entry(5, then)) == ranges
