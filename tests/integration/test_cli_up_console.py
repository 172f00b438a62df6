"""`tidelog up --console`: a record followed through three processes, a follower held, a leader killed; the console's end."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.support.command_line import json_lines, tidelog
from tests.support.command_process import CommandProcess
from tests.support.console import Browser
from tests.support.consumer_scenarios import wait_for
from tidelog import Admin, Consumer, Producer


def console_of(up: CommandProcess) -> Browser:
    assert up.process.stdout is not None
    line = up.process.stdout.readline()
    assert line.startswith("console: http://127.0.0.1:"), line
    return Browser(int(line.rstrip().rstrip("/").rpartition(":")[2]), "local").begin()


def single(events: Iterator[tuple[str, Any]]) -> Iterator[Any]:
    """The nodes' events, one by one."""
    for name, value in events:
        assert name != "problem", value
        yield from value["events"] if name == "events" else ()


def until(events: Iterator[Any], kind: str, found: list[Any]) -> Any:
    """The next event of a type; what comes before it goes to `found` too."""
    for each in events:
        found.append(each)
        if each["type"] == kind:
            return each
    raise AssertionError(f"the stream ended before {kind}")


def children_of(pid: int) -> list[int]:
    return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def console_pid(up: CommandProcess) -> int:
    [pid] = [
        each for each in children_of(up.process.pid) if b"\0console\0" in Path(f"/proc/{each}/cmdline").read_bytes()
    ]
    return pid


def test_a_record_is_followed_a_follower_held_and_a_leader_killed(tmp_path: Path) -> None:
    with CommandProcess(
        "up", "--nodes", "3", "--port", "0", "--dir", tmp_path, "--console", "--console-port", "0"
    ) as up:
        bootstrap = up.ready_line().split()[1]
        browser = console_of(up)
        with Admin(bootstrap_servers=bootstrap) as admin:
            admin.create_topic("orders", partitions=1, replication_factor=3, configs={"min.insync.replicas": "2"})
            wait_for(lambda: len(browser.get("/topics?search=orders")["rows"]) == 1, "the console knows the topic")
            follows_a_record(browser, tmp_path)
            follows_a_commit(browser, admin)
            follows_a_transaction(browser, bootstrap)
            holds_a_follower(browser)
            survives_a_leader(browser, admin)
        pid = console_pid(up)
        os.kill(pid, signal.SIGKILL)
        wait_for(lambda: not Path(f"/proc/{pid}").exists(), "`up` sees the end of its console")
        with Consumer(bootstrap_servers=bootstrap) as consumer:
            consumer.assign([("orders", 0)])
            assert consumer.end_offsets([("orders", 0)])[("orders", 0)] >= 2  # type: ignore[index]
        up.send(signal.SIGINT)
        code, errors = up.end()
    assert code == 0, errors
    assert "the console ended" in errors


def follows_a_record(browser: Browser, directory: Path) -> None:
    found: list[Any] = []
    with browser.events("/xray/live?topic=orders&partition=0") as stream:
        events = single(stream)
        for _ in range(3):
            until(events, "hello", found)
        assert {each["node"] for each in found} == {1, 2, 3}
        written = browser.change("POST", "/xray/probe", {"topic": "orders", "partition": 0})
        told: list[Any] = []
        answered = until(events, "produce_answered", told)
    order = [(each["type"], each["node"]) for each in told]
    leader = answered["node"]
    followers = [each for each in (1, 2, 3) if each != leader]
    appended = order.index(("appended", leader))
    high_watermark = order.index(("hw_moved", leader))
    assert (
        order.index(("produce_received", leader))
        < appended
        < high_watermark
        < order.index(("produce_answered", leader))
    )
    # One of the followers at least has it before it counts.
    assert any(
        appended < order.index(("appended", each)) < high_watermark for each in followers if ("appended", each) in order
    )

    place = browser.get(f"/xray/record?topic=orders&partition=0&offset={written['offset']}")
    [log] = (directory / f"node-{leader}" / "data" / "orders-0").glob("*.log")
    lines = json_lines(tidelog("dump-log", "--batches", "--json", log))
    dumped = next(each for each in lines if each["type"] == "batch" and each["base_offset"] == written["offset"])
    batch = place["batch"]
    assert (batch["position"], batch["size"], batch["crc"]) == (dumped["position"], dumped["size_bytes"], dumped["crc"])
    assert batch["is_valid"]
    assert place["segment"]["file"] == log.name
    assert [(each["leo"], each["in_sync"]) for each in place["replicas"]] == [(1, True)] * 3
    assert {each["source"] for each in place["story"]} == {"files", "protocol"}
    shown = browser.get(f"/xray/bytes?topic=orders&partition=0&offset={written['offset']}")
    assert bytes.fromhex(shown["hex"]) == log.read_bytes()[batch["position"] : batch["position"] + batch["size"]]
    assert shown["fields"][-1]["end"] == shown["size"]


def follows_a_commit(browser: Browser, admin: Admin) -> None:
    admin.create_topic("other", partitions=1)
    admin.alter_group_offsets("billing", {("orders", 0): 0, ("other", 0): 0})
    wait_for(
        lambda: browser.get("/xray/record?topic=orders&partition=0&offset=0")["commits"] != [], "the group is sampled"
    )
    found: list[Any] = []
    with browser.events("/xray/live?topic=orders&partition=0") as stream:
        for name, value in stream:
            if name == "source" and value["source"] == "group billing" and value["traced"]:
                break
        # What the group commits elsewhere is no gap here.
        admin.alter_group_offsets("billing", {("other", 0): 0})
        admin.alter_group_offsets("billing", {("orders", 0): 1})
        committed = until(single(stream), "offset_committed", found)
    assert (committed["group"], committed["topic"], committed["offset"]) == ("billing", "orders", 1)
    assert not any(each.get("is_gap") for each in found)


def follows_a_transaction(browser: Browser, bootstrap: str) -> None:
    found: list[Any] = []
    with (
        browser.events("/xray/live?topic=orders&partition=0") as stream,
        Producer(bootstrap_servers=bootstrap, transactional_id="payments-1") as producer,
    ):
        producer.init_transactions()
        producer.begin_transaction()
        producer.send("orders", b"paid", partition=0).result()
        for name, value in stream:
            found += value["events"] if name == "events" else ()
            if name == "source" and value["source"] == "transaction payments-1" and value["traced"]:
                break
        producer.commit_transaction()
        events = single(stream)
        while len({each["type"] for each in found} & {"marker", "transaction_state", "lso_moved"}) < 3:
            found.append(next(events))
    states = [each["state"] for each in found if each["type"] == "transaction_state"]
    assert "PrepareCommit" in states or "CompleteCommit" in states
    assert all(each["commit"] for each in found if each["type"] == "marker")


def holds_a_follower(browser: Browser) -> None:
    leader = browser.get("/topics/orders")["partitions"][0]["leader"]
    held = next(each for each in (1, 2, 3) if each != leader)

    def state() -> str:
        return str({each["id"]: each["state"] for each in browser.get("/play")["nodes"]}[held])

    assert browser.refused("/play/hold", {"node": held, "seconds": 61}) == (400, "BAD_REQUEST")
    assert browser.refused("/play/hold", {"node": 9, "seconds": 5}) == (409, "PLAY_REFUSED")
    with browser.events("/xray/live?topic=orders&partition=0") as events:
        assert next(events)[0] in {"state", "source"}
        browser.change("POST", "/play/hold", {"node": held, "seconds": 60})
        assert state() == "held"
    # The window that held it is gone.
    wait_for(lambda: state() == "running", "the follower is released")


def survives_a_leader(browser: Browser, admin: Admin) -> None:
    leader = browser.get("/topics/orders")["partitions"][0]["leader"]
    with browser.events("/xray/live?topic=orders&partition=0") as events:
        assert next(events)[0] in {"state", "source"}
        browser.change("POST", "/play/kill", {"node": leader})
        for name, value in events:
            if name == "state" and value["partition"]["leader"] not in {leader, None}:
                break
    assert browser.refused("/play/kill", {"node": leader}) == (409, "PLAY_REFUSED")
    browser.change("POST", "/xray/probe", {"topic": "orders", "partition": 0})
    browser.change("POST", "/play/start", {"node": leader})
    wait_for(lambda: len(admin.describe_topic("orders").partitions[0].in_sync) == 3, "the old leader is in sync again")
    assert {each["state"] for each in browser.get("/play")["nodes"]} == {"running"}


def test_a_console_that_up_has_started_ends_with_it(tmp_path: Path) -> None:
    with CommandProcess("up", "--port", "0", "--dir", tmp_path, "--console", "--console-port", "0") as up:
        up.ready_line()
        browser = console_of(up)
        assert browser.refused("/play/kill", {"node": 1}) == (409, "PLAY_REFUSED")
        assert json.loads((tmp_path / "cluster.json").read_text())[0]["http"]
        pid = console_pid(up)
        # Not a clean end: nobody tells the console.
        up.process.kill()
        up.process.wait()
        wait_for(
            lambda: not Path(f"/proc/{pid}").exists() or "State:\tZ" in Path(f"/proc/{pid}/status").read_text(),
            "it ends",
        )
