"""Named histories, written out: a change of behaviour shows as a change of text in `stories/`, for review.

`WRITE_STORIES=1 pytest tests/simulation/test_raft_stories.py` writes them anew.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.simulation.raft_cluster import Cluster, Weather
from tests.simulation.raft_story import Story

STORIES = Path(__file__).parent / "stories"
# Every delay is the same, so that only the machines decide who comes first.
STILL = Weather(delay_ms_max=1, disk_ms_max=0)


def a_single_voter_starts() -> Story:
    cluster = Cluster(1, 1, weather=STILL)
    story = Story(cluster)
    story.say("Freshly formatted")
    cluster.start_all()
    cluster.run_for(10)
    story.say("A record is appended")
    cluster.append()
    cluster.run_for(10)
    story.say("The node restarts")
    cluster.crash(1)
    cluster.start(1)
    cluster.run_for(10)
    return story


def a_leader_is_killed() -> Story:
    cluster = Cluster(3, 3, weather=STILL)
    story = Story(cluster)
    story.say("Three voters start together")
    cluster.start_all()
    cluster.run_for(3_000, until=cluster.is_settled)
    leader = cluster.leader()
    assert leader is not None
    story.say(f"Node {leader.key.id} is killed")
    cluster.crash(leader.key.id)
    cluster.run_for(2_000, until=cluster.is_settled)
    story.say(f"Node {leader.key.id} comes back")
    cluster.start(leader.key.id)
    cluster.run_for(2_000, until=cluster.is_settled)
    return story


def a_log_diverges() -> Story:
    cluster = Cluster(5, 3, weather=STILL)
    cluster.start_all()
    cluster.run_for(3_000, until=cluster.is_settled)
    leader = cluster.leader()
    assert leader is not None
    story = Story(cluster)
    story.say(f"Node {leader.key.id} leads, is cut off, and appends what nobody else gets")
    cluster.isolate(leader.key.id)
    cluster.append()
    cluster.append()
    cluster.run_for(6_000, until=lambda: len(cluster.invariants.leaders) > 1)
    cluster.run_for(20)
    story.say("The others have elected another; a record is appended there; then the cut is mended")
    cluster.append()
    cluster.run_for(20)
    cluster.heal()
    cluster.run_for(8_000, until=cluster.is_settled)
    return story


@pytest.mark.parametrize("tell", [a_single_voter_starts, a_leader_is_killed, a_log_diverges])
def test_a_story_goes_as_it_is_written(tell: Callable[[], Story]) -> None:
    path = STORIES / f"{tell.__name__}.txt"
    text = tell().text()
    if os.environ.get("WRITE_STORIES"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)

    assert text == path.read_text()
