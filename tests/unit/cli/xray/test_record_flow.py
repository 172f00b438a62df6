"""Which events are about a record, and what is drawn and told of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any
from xml.etree import ElementTree as ET

import msgspec
import pytest

from tests.support.traced_cluster import TracedCluster
from tidelog.cli.xray.drawing import as_html, as_svg
from tidelog.cli.xray.record_flow import events_of, is_through
from tidelog.cli.xray.xray_story import as_lines, heard_story, told_story
from tidelog.console.trace_merge import TraceMerge
from tidelog.console.trace_story import story
from tidelog.model import trace_events

SCRIPT = "<script>alert(1)</script>"


def heard(batches: int = 5) -> list[dict[str, Any]]:
    merge = TraceMerge()
    for each in TracedCluster(Random(11)).run(batches):
        line = {
            "producer_id": -1,
            "producer_epoch": -1,
            "base_sequence": -1,
            "position": 0,
            "size": 70,
            "file": "00000000000000000000.log",
            "leader_epoch": 0,
            "correlation_id": 1,
            "isolation": "read_committed",
            **each.line,
        }
        merge.feed(f"node {line['node']}", [line], each.arrives_s)
    return [
        {**each.line, "at_us": each.at_us, "uncertainty_us": each.uncertainty_us, "sentence": each.sentence}
        for each in merge.flush()
    ]


def test_each_step_of_a_record_is_there_once() -> None:
    merge = TraceMerge(hold_s=float("inf"))
    for each in TracedCluster(Random(11)).run(5):
        merge.feed(
            f"node {each.line['node']}", [{"producer_id": -1, "producer_epoch": -1, "base_sequence": -1} | each.line], 0
        )
    events = [dict(each.line) for each in merge.flush()]

    found = events_of(events, 2)

    assert sorted((each["type"], each["node"]) for each in found) == [
        ("appended", 1),
        ("appended", 2),
        ("appended", 3),
        ("fetch_answered", 1),
        ("follower_fetch", 1),
        ("follower_fetch", 1),
        ("follower_fetch_answered", 1),
        ("follower_fetch_answered", 1),
        ("hw_moved", 1),
        ("hw_moved", 2),
        ("hw_moved", 3),
        ("offset_committed", 2),
        ("produce_answered", 1),
        ("produce_received", 1),
    ]
    assert is_through(found, 2, (1, 2, 3))
    assert not is_through([each for each in found if each["node"] != 3], 2, (1, 2, 3))
    assert not is_through([each for each in found if each["type"] != "hw_moved"], 2, (1, 2, 3))
    assert events_of(events, 99) == []


def xray(events: Sequence[Mapping[str, Any]], **others: Any) -> dict[str, Any]:
    facts = {
        "topic": "orders",
        "partition": 0,
        "offset": 2,
        "leader": 1,
        "leader_epoch": 0,
        "in_sync": [1, 2],
        "hw": 3,
        "lso": 3,
        "log_start": 0,
        "record": None,
        "batch": {
            "base_offset": 2,
            "last_offset": 2,
            "record_count": 1,
            "size": 70,
            "position": 140,
            "is_valid": True,
            "partition_leader_epoch": 0,
            "crc": 0xABC,
            "max_timestamp": 1_700_000_000_000,
            "producer_id": 7,
            "producer_epoch": 0,
            "base_sequence": 4,
            "is_control": False,
        },
        "index": {"offset_entry": {"entry_number": 0, "offset": 1, "position": 70}, "batch_entry": None},
        "replicas": [
            {"node": node, "is_leader": node == 1, "in_sync": node < 3, "traced": node < 3, "leo": 3, "position": 140}
            | (
                {"file": "00000000000000000000.log", "problem": None}
                if node < 3
                else {"file": None, "problem": "not traced"}
            )
            for node in (1, 2, 3)
        ],
        "commits": [{"group": SCRIPT, "committed": 3, "passed": True}],
        **others,
    }
    return {
        **facts,
        "listened": bool(events),
        "events": list(events),
        "story": [*heard_story(events), *told_story(facts)],
        "not_traced": ["node 3: not traced"],
    }


def texts_of(svg: str) -> list[str]:
    return [each.text or "" for each in ET.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")]


def test_a_drawing_has_a_lane_for_everybody_and_a_row_for_every_step() -> None:
    svg = as_svg(xray(events_of(heard(), 2)))
    texts = texts_of(svg)

    assert {"producer", "leader 1", "follower 2", "follower 3", "consumers"} <= set(texts)
    assert any("high watermark 3 by node" in text for text in texts)
    assert "prefers-color-scheme: dark" in svg


def test_what_a_cluster_says_stays_text() -> None:
    events = [{**each, "client_id": SCRIPT} if "client_id" in each else each for each in events_of(heard(), 2)]
    for page in (as_svg(xray(events)), as_html(xray(events)), as_svg(xray([]))):
        assert "<script>" not in page
        assert "&lt;script&gt;" in page


def test_of_an_older_record_it_says_where_that_is_from() -> None:
    lines = as_lines(xray([]))

    assert "nobody listened" in lines[1]
    assert any("begins at entry 0 of the offset index" in line for line in lines)
    assert any(line.startswith("  files") for line in lines)
    assert lines[-1] == "not traced: node 3: not traced"


@pytest.mark.parametrize(
    "kind",
    [each for each in vars(trace_events).values() if isinstance(each, type) and each is not trace_events.TraceEvent],
)
def test_every_event_has_a_sentence(kind: type[Any]) -> None:
    if not issubclass(kind, trace_events.TraceEvent):
        pytest.skip("no event")
    example: dict[str, Any] = {"role": "leader", "by": "leader", "acks": -1, "index": "offset", "error": "NONE"}
    numbers = {
        each.name: example.get(each.name, () if each.name in {"isr", "replicas"} else 1)
        for each in msgspec.structs.fields(kind)
    }
    type_name = msgspec.json.decode(msgspec.json.encode(kind(**numbers)))["type"]

    sentence = story({"node": 1, "type": type_name, **numbers})

    assert sentence.startswith("node 1: ")
    assert sentence != f"node 1: {type_name.replace('_', ' ')}", "it falls back to its name"


def test_what_another_release_tells_is_told_by_its_name() -> None:
    assert story({"node": 1, "type": "something_new"}) == "node 1: something new"
    assert story({"node": 1, "type": "hw_moved"}) == "node 1: hw moved"
