"""The plan of an offset reset, and what a person gives for it."""

from __future__ import annotations

import contextlib
import json

import pytest
from hypothesis import given, strategies as st

from tidelog.cli.admin_session import QuestionError, RefusalError
from tidelog.cli.groups.offset_plan import (
    LogRange,
    PlannedOffset,
    parse_offset_file,
    parse_topics,
    plan_offsets,
    shifted,
)
from tidelog.cli.groups.reset_offsets import ResetOptions, check_options
from tidelog.client.consumer.topic_partition import TopicPartition

ORDERS_0 = TopicPartition("orders", 0)
ORDERS_1 = TopicPartition("orders", 1)


@pytest.mark.parametrize(
    ("asked", "new", "note"),
    [
        (7, 7, ""),
        (5, 5, ""),
        (10, 10, ""),
        (4, 5, "4 is before the first offset"),
        (-3, 5, "-3 is before the first offset"),
        (11, 10, "11 is beyond the end"),
        (None, 10, ""),
    ],
)
def test_an_offset_stays_within_the_log(asked: int | None, new: int, note: str) -> None:
    (planned,) = plan_offsets({ORDERS_0: asked}, {ORDERS_0: 6}, {ORDERS_0: LogRange(5, 10)})

    assert planned == PlannedOffset(ORDERS_0, 6, new, note)


@given(st.integers(-(2**63), 2**63 - 1), st.integers(0, 2**40), st.integers(0, 2**40))
def test_no_plan_leads_out_of_the_log(asked: int, start: int, length: int) -> None:
    (planned,) = plan_offsets({ORDERS_0: asked}, {}, {ORDERS_0: LogRange(start, start + length)})

    assert start <= planned.new <= start + length
    assert bool(planned.note) == (planned.new != asked)


def test_a_plan_is_in_order_and_knows_what_is_not_committed() -> None:
    ranges = {ORDERS_0: LogRange(0, 9), ORDERS_1: LogRange(0, 9)}

    plan = plan_offsets({ORDERS_1: 1, ORDERS_0: 2}, {ORDERS_1: 5}, ranges)

    assert plan == [PlannedOffset(ORDERS_0, None, 2), PlannedOffset(ORDERS_1, 5, 1)]


def test_a_shift_begins_where_the_group_is() -> None:
    assert shifted([ORDERS_0, ORDERS_1], {ORDERS_0: 5, ORDERS_1: 0}, -3) == {ORDERS_0: 2, ORDERS_1: -3}
    with pytest.raises(RefusalError, match="nothing is committed for orders-1"):
        shifted([ORDERS_0, ORDERS_1], {ORDERS_0: 5}, 1)


def test_topics_with_and_without_partitions() -> None:
    assert parse_topics(["orders:1,0", "orders:2", "payments"]) == {"orders": [0, 1, 2], "payments": None}
    assert parse_topics(["orders:1", "orders"]) == {"orders": None}
    assert parse_topics(["orders", "orders:1"]) == {"orders": None}


@pytest.mark.parametrize("text", ["", ":0", "orders:", "orders:x", "orders:-1", "orders:0,", "orders:1234567890"])
def test_what_is_no_topic_is_one_sentence(text: str) -> None:
    with pytest.raises(QuestionError, match="is not a topic: expected"):
        parse_topics([text])


@pytest.mark.parametrize(
    "text",
    [
        "orders,0,7\norders,1,8\n",
        "# saved\n\n orders , 0 , 7\nmine,orders,1,8\nother,orders,0,99\n",
        '"orders",0,7\r\n"orders",1,8\r\n',
        '[{"topic": "orders", "partition": 0, "offset": 7}, {"topic": "orders", "partition": 1, "offset": 8}]',
        (
            '{"topic":"orders","partition":0,"new_offset":7}\n\n'
            '{"group":"mine","topic":"orders","partition":1,"new_offset":8}\n'
            '{"group":"other","topic":"orders","partition":0,"new_offset":99}\n'
        ),
    ],
)
def test_a_file_of_offsets_is_csv_or_json(text: str) -> None:
    assert parse_offset_file(text, "mine") == {ORDERS_0: 7, ORDERS_1: 8}


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "holds no offset"),
        ("other,orders,0,1", "holds no offset"),
        ("orders,0", "line 1 of the file is not"),
        ("orders,0,1\n,0,1", "line 2 of the file is not"),
        ("orders,0,-1", "row 1 of the file has '-1'"),
        ("orders,0,9223372036854775808", "row 1 of the file has"),
        ("orders,zero,1", "row 1 of the file has 'zero'"),
        ('"orders,0,1', "is not CSV"),
        ("{", "is not JSON"),
        ("[1]", "row 1 of the file is not an object"),
        ('{"partition":0,"offset":1}', "names no topic"),
        ('{"topic":"orders","partition":0}', "row 1 of the file has None"),
        ('{"topic":"orders","partition":0,"offset":true}', "row 1 of the file has True"),
        ("[" * 100_000, "is not JSON"),
    ],
)
def test_a_bad_file_is_one_sentence(text: str, sentence: str) -> None:
    with pytest.raises(QuestionError, match=sentence):
        parse_offset_file(text, "mine")


@given(st.text(max_size=60))
def test_no_file_is_more_than_one_sentence(text: str) -> None:
    with contextlib.suppress(QuestionError):
        parse_offset_file(text, "mine")


@given(
    st.dictionaries(
        st.tuples(st.text(min_size=1, max_size=8), st.integers(0, 2**31 - 1)), st.integers(0, 2**63 - 1), min_size=1
    )
)
def test_what_json_says_comes_back(offsets: dict[tuple[str, int], int]) -> None:
    rows = [{"topic": topic, "partition": index, "offset": offset} for (topic, index), offset in offsets.items()]

    assert parse_offset_file("\n".join(map(json.dumps, rows)), "mine") == offsets


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (ResetOptions(["orders"]), "say where to: --to-earliest"),
        (
            ResetOptions(["orders"], to_earliest=True, to_offset=0),
            "--to-earliest and --to-offset contradict each other",
        ),
        (ResetOptions(to_latest=True), "name topics"),
        (ResetOptions(["orders"], all_topics=True, to_latest=True), "name topics"),
        (ResetOptions(["orders"], from_file="x"), "the file names the partitions"),
    ],
)
def test_what_contradicts_itself_is_one_sentence(options: ResetOptions, sentence: str) -> None:
    with pytest.raises(QuestionError, match=sentence):
        check_options(options)


def test_one_way_and_some_partitions_will_do() -> None:
    check_options(ResetOptions(["orders"], shift_by=0))
    check_options(ResetOptions(all_topics=True, to_time="0"))
    check_options(ResetOptions(from_file="x"))
