"""Two hundred records written while somebody watches: each X-ray says what the files say, events are in causal order."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.command_line import json_lines, tidelog
from tests.support.command_process import CommandProcess
from tests.support.console import Browser
from tests.support.consumer_scenarios import wait_for
from tidelog import Admin

pytestmark = pytest.mark.compat

RECORDS = 200
# Every second batch or so has an index entry, and an index that is full begins a new segment.
CONFIGS = {"index.interval.bytes": "200", "segment.index.bytes": "240", "min.insync.replicas": "3"}


def single(stream: Iterator[tuple[str, Any]]) -> Iterator[Any]:
    for name, value in stream:
        assert name not in {"problem", "gap"}, value
        yield from value["events"] if name == "events" else ()


@pytest.mark.timeout(900)
def test_two_hundred_x_rays_say_what_the_files_say(tmp_path: Path) -> None:
    with CommandProcess(
        "up", "--nodes", "3", "--port", "0", "--dir", tmp_path, "--console", "--console-port", "0"
    ) as up:
        bootstrap = up.ready_line().split()[1]
        assert up.process.stdout is not None
        port = int(up.process.stdout.readline().rstrip().rstrip("/").rpartition(":")[2])
        browser = Browser(port, "local").begin()
        with Admin(bootstrap_servers=bootstrap) as admin:
            admin.create_topic("orders", partitions=1, replication_factor=3, configs=CONFIGS)
        wait_for(lambda: browser.get("/topics?search=orders")["total"] == 1, "the console knows the topic")
        leader, events = watched(browser)
        told = {offset: [each for each in events if concerns(each, offset)] for offset in range(RECORDS)}
        folder = tmp_path / f"node-{leader}" / "data" / "orders-0"
        batches, entries = dumped(folder)
        for offset in range(RECORDS):
            in_causal_order(told[offset], leader)
            found = browser.get(f"/xray/record?topic=orders&partition=0&offset={offset}")
            place = found["segment"]["file"], found["batch"]["position"], found["batch"]["size"], found["batch"]["crc"]
            assert place == batches[offset]
            entry = found["index"]["batch_entry"]
            assert (None if entry is None else (entry["offset"], entry["position"])) == entries.get(
                (place[0], place[1])
            )
            [appended] = [each for each in told[offset] if each["type"] == "appended" and each["node"] == leader]
            assert (appended["file"], appended["position"], appended["size"]) == place[:3]
        assert len({file for file, *_ in batches.values()}) > 2
        assert len(entries) > 20
        up.send(signal.SIGINT)
        assert up.end()[0] == 0


def watched(browser: Browser) -> tuple[int, list[Any]]:
    """The leader, and all events of two hundred records."""
    events: list[Any] = []
    with browser.events("/xray/live?topic=orders&partition=0") as stream:
        flow = single(stream)
        while len({each["node"] for each in events if each["type"] == "hello"}) < 3:
            events.append(next(flow))
        for offset in range(RECORDS):
            assert browser.change("POST", "/xray/probe", {"topic": "orders", "partition": 0})["offset"] == offset
        while not any(each["type"] == "produce_answered" and each["base_offset"] == RECORDS - 1 for each in events):
            events.append(next(flow))
    [leader] = {each["node"] for each in events if each["type"] == "produce_answered"}
    return leader, events


def concerns(event: Any, offset: int) -> bool:
    match event["type"]:
        case "appended" | "produce_answered":
            return bool(event["base_offset"] == offset)
        case "follower_fetch_answered":
            return bool(event["from_offset"] == offset and event["bytes"])
        case "follower_fetch":
            return bool(event["fetch_offset"] == offset + 1)
        case "hw_moved":
            return bool(event["hw"] == offset + 1)
    return False


def in_causal_order(events: list[Any], leader: int) -> None:
    """Leader's append, answer to each follower, its append, its next fetch, high watermark, answer."""
    at = {(each["type"], each["node"], each.get("replica")): index for index, each in reversed(list(enumerate(events)))}
    appended, answered = at["appended", leader, None], at["produce_answered", leader, None]
    high_watermark = at["hw_moved", leader, None]
    for follower in {1, 2, 3} - {leader}:
        given, copied = at["follower_fetch_answered", leader, follower], at["appended", follower, None]
        assert appended < given < copied < high_watermark < answered, events
        asked = at.get(("follower_fetch", leader, follower))
        assert asked is None or copied < asked <= high_watermark, events
    times = [each["at_us"] for each in events if each["node"] == leader]
    assert times == sorted(times)


def dumped(folder: Path) -> tuple[dict[int, tuple[str, int, int, int]], dict[tuple[str, int], tuple[int, int]]]:
    """By offset where `dump-log` finds each batch; by place the index entries that lead to one."""
    batches: dict[int, tuple[str, int, int, int]] = {}
    entries: dict[tuple[str, int], tuple[int, int]] = {}
    for log in sorted(folder.glob("*.log")):
        for line in json_lines(tidelog("dump-log", "--batches", "--json", log)):
            if line["type"] == "batch":
                batches[line["base_offset"]] = (log.name, line["position"], line["size_bytes"], line["crc"])
        for line in json_lines(tidelog("dump-log", "--json", log.with_suffix(".index"))):
            if line["type"] == "entry":
                entries[log.name, line["position"]] = (line["offset"], line["position"])
    return batches, entries
