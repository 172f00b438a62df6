"""Events of nodes whose clocks are wrong and drift come out in the order in which one has led to another."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from tests.support.traced_cluster import LEADER, ToldLine, TracedCluster
from tidelog.console.trace_clocks import DRIFT_MAX
from tidelog.console.trace_merge import Merged, TraceMerge


def fed(told: list[ToldLine], merge: TraceMerge) -> list[Merged]:
    """Line by line, as they come."""
    merged: list[Merged] = []
    for each in told:
        merged += merge.feed(f"node {each.line['node']}", [each.line], each.arrives_s)
    return merged + merge.flush()


def place_of(merged: list[Merged], **wanted: Any) -> int:
    (place,) = [
        place
        for place, each in enumerate(merged)
        if all(each.line.get(name) == value for name, value in wanted.items())
    ]
    return place


seeds = st.integers(0, 2**32)


@settings(max_examples=25, deadline=None)
@given(seed=seeds, batches=st.integers(1, 12), drift=st.sampled_from([0.0, 1e-5, 4e-4]))
def test_each_events_causes_come_before_it(seed: int, batches: int, drift: float) -> None:
    told = TracedCluster(Random(seed), drift_max=drift).run(batches)
    merged = fed(told, TraceMerge())

    assert {id(each.line) for each in merged} == {id(each.line) for each in told}
    assert len(merged) == len(told)
    assert not any(each.is_late or each.is_gap for each in merged)
    for node in (1, 2, 3):
        own = [int(str(each.line["seq"])) for each in merged if each.node == node]
        assert own == sorted(own)
    for offset in range(batches):
        chain = [
            place_of(merged, type="appended", by="leader", base_offset=offset),
            min(place_of(merged, type="follower_fetch_answered", replica=node, from_offset=offset) for node in (2, 3)),
            min(place_of(merged, type="appended", node=node, base_offset=offset) for node in (2, 3)),
        ]
        assert chain == sorted(chain)
        for node in (2, 3):
            copied = place_of(merged, type="appended", node=node, base_offset=offset)
            assert place_of(merged, type="follower_fetch_answered", replica=node, from_offset=offset) < copied
            assert copied < place_of(merged, type="follower_fetch", replica=node, fetch_offset=offset + 1)
        moved = place_of(merged, type="hw_moved", node=LEADER, hw=offset + 1)
        for node in (2, 3):
            assert place_of(merged, type="appended", node=node, base_offset=offset) < moved
            assert moved < place_of(merged, type="hw_moved", node=node, hw=offset + 1)
        given_at = place_of(merged, type="fetch_answered", from_offset=offset)
        assert moved < place_of(merged, type="produce_answered", base_offset=offset) < given_at
        assert given_at < place_of(merged, type="offset_committed", offset=offset + 1)


@settings(max_examples=25, deadline=None)
@given(seed=seeds, drift=st.sampled_from([0.0, 1e-5, 4e-4]))
def test_the_uncertainty_that_is_told_is_kept_and_no_larger_than_a_fetch_takes(seed: int, drift: float) -> None:
    cluster = TracedCluster(Random(seed), drift_max=drift)
    told = cluster.run(25)
    merged = fed(told, TraceMerge())

    true_ns = {id(each.line): each.true_ns for each in told}
    leader = cluster.clocks[LEADER]
    origin = next(each for each in merged if each.node == LEADER)
    ahead_us = origin.at_us - leader.mono_ns(true_ns[id(origin.line)]) / 1000
    measured = 0
    for each in merged[len(merged) // 2 :]:
        # Where the event would be by the leader's clock.
        true_us = leader.mono_ns(true_ns[id(each.line)]) / 1000 + ahead_us
        slack_us = 1 + 2 * DRIFT_MAX * 500_000
        assert abs(each.at_us - true_us) <= each.uncertainty_us + slack_us
        if each.node != LEADER:
            measured += 1
            assert each.uncertainty_us < 3_000
    assert measured


@settings(max_examples=15, deadline=None)
@given(seed=seeds, lost=st.integers(1, 40))
def test_lines_that_are_missing_are_shown_as_a_gap(seed: int, lost: int) -> None:
    told = TracedCluster(Random(seed)).run(10)
    of_leader = [each for each in told if each.line["node"] == LEADER]
    missing = {id(each) for each in of_leader[5 : 5 + lost]}
    merged = fed([each for each in told if id(each) not in missing], TraceMerge())

    (gap,) = [each for each in merged if each.is_gap]
    assert (gap.node, gap.line["count"]) == (LEADER, lost)
    assert len(merged) == len(told) - lost + 1


def test_what_a_node_has_dropped_is_a_gap_and_no_line_is_missed_behind_it() -> None:
    told = TracedCluster(Random(1)).run(3)
    lines = [dict(each.line) for each in told if each.line["node"] == LEADER]
    dropped = {**lines[4], "type": "dropped", "count": 9}
    after = [{**line, "seq": line["seq"] + 10} for line in lines[4:]]
    merge = TraceMerge()
    merge.feed("leader", [*lines[:4], dropped, *after], 1.0)

    gaps = [each for each in merge.flush() if each.is_gap]

    assert [gap.line["type"] for gap in gaps] == ["dropped"]
    assert "9 events are missing" in gaps[0].sentence


def test_a_stream_that_breaks_off_and_a_node_that_starts_again_are_gaps() -> None:
    told = TracedCluster(Random(1)).run(3)
    lines = [dict(each.line) for each in told if each.line["node"] == 2]
    merge = TraceMerge()
    merged = merge.feed("two", lines[:3], 1.0)
    merged += merge.feed("two", [{**lines[3], "boot": "another", "mono_ns": 5, "seq": 0}], 2.0)
    merged += merge.lost("two", "the connection was closed", 3.0)

    gaps = [each.sentence for each in merged + merge.flush() if each.is_gap]

    assert gaps == [
        "node 2: events are missing here: the node was started again",
        "node 2: events are missing here: the connection was closed",
    ]


def test_events_are_held_until_what_led_to_them_may_have_come() -> None:
    told = TracedCluster(Random(3)).run(1)
    merge = TraceMerge(hold_s=0.25)

    assert merge.feed("leader", [each.line for each in told if each.line["node"] == LEADER], 10.0) == []
    assert merge.advance(10.2) == []
    assert merge.advance(10.26) != []


def test_a_clock_that_jumps_is_measured_anew() -> None:
    """A machine that was asleep: its clock stood still."""
    cluster = TracedCluster(Random(5), drift_max=0.0)
    told = cluster.run(40)
    half = len(told) // 2
    for each in told[half:]:
        if each.line["node"] == 3:
            each.line["mono_ns"] += 60_000_000_000
    merge = TraceMerge()
    fed(told, merge)

    view = merge.clocks()[3]
    true_us = (cluster.clocks[1].begin_ns - cluster.clocks[3].begin_ns) / 1000 - 60_000_000
    assert view.is_measured
    assert view.offset_us == pytest.approx(true_us, abs=5_000)


def test_with_another_leader_the_line_of_time_goes_on() -> None:
    cluster = TracedCluster(Random(8), drift_max=0.0)
    told = cluster.run(20)
    merge = TraceMerge()
    merged = fed(told, merge)
    last = max(told, key=lambda each: each.true_ns)
    clock = cluster.clocks[2]
    elected_ns = last.true_ns + 1_000_000_000
    number = max(each.line["seq"] for each in told if each.line["node"] == 2) + 1
    line = {
        "type": "role_changed",
        "role": "leader",
        "leader": 2,
        "leader_epoch": 1,
        "node": 2,
        "boot": "boot 2",
        "seq": number,
        "mono_ns": clock.mono_ns(elected_ns),
        "wall_ms": clock.wall_ms(elected_ns),
    }
    merge.feed("node 2", [line], 99.0)
    (elected,) = merge.flush()

    latest = next(each for each in merged if each.line is last.line)
    assert merge.leader == 2
    assert elected.at_us - latest.at_us == pytest.approx(1_000_000, abs=5_000)
