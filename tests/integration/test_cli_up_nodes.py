"""`tidelog up --nodes 3` and `tidelog cluster status`: one cluster of three processes, through a death and a second start."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path
from typing import Any

from tests.support.command_line import json_lines, tidelog
from tests.support.command_process import DEADLINE_S, CommandProcess, run
from tidelog.storage.properties import parse_properties


def status(bootstrap: str) -> dict[str, Any]:
    (told,) = json_lines(tidelog("cluster", "status", "--json", "--bootstrap", bootstrap))
    return told


def status_once(bootstrap: str, *, serving: int, under_replicated: int) -> dict[str, Any]:
    """The status once so many nodes serve and so many partitions are under-replicated."""
    deadline_s = time.monotonic() + DEADLINE_S
    while True:
        told = status(bootstrap)
        serves = sum(each["state"] == "serves" for each in told["nodes"])
        if (serves, told["under_replicated"]) == (serving, under_replicated):
            return told
        assert time.monotonic() < deadline_s, told


def of_up(errors: str) -> list[str]:
    """What `up` has said itself, beside the log of the nodes."""
    return [line for line in errors.splitlines() if line.startswith("tidelog up:")]


def test_three_nodes_are_one_cluster_that_survives_a_death_and_is_found_again(tmp_path: Path) -> None:
    with CommandProcess("up", "--nodes", "3", "--port", "0", "--dir", tmp_path) as up:
        bootstrap = up.ready_line().split()[1]
        rows = json.loads((tmp_path / "cluster.json").read_text())
        created = tidelog(
            *("topics", "create", "orders", "--partitions", "3", "--replication-factor", "3"), "--bootstrap", bootstrap
        )
        whole = status_once(bootstrap, serving=3, under_replicated=0)
        os.kill(rows[1]["pid"], signal.SIGKILL)
        reduced = status_once(bootstrap, serving=2, under_replicated=3)
        text = tidelog("cluster", "status", "--bootstrap", bootstrap).stdout
        left = json.loads((tmp_path / "cluster.json").read_text())
        up.send(signal.SIGINT)
        code, errors = up.end()

    assert [row["node"] for row in rows] == [1, 2, 3]
    assert bootstrap == ",".join(f"127.0.0.1:{row['port']}" for row in rows)
    assert created.exit_code == 0, created.stderr
    assert [each["roles"] for each in whole["nodes"]] == [["broker", "controller"]] * 3
    assert whole["quorum"]["voters"] == [1, 2, 3]
    assert (whole["partitions"], whole["offline"], whole["troubled"]) == (3, 0, [])
    assert [each["state"] for each in reduced["nodes"]] == ["serves", "fenced", "serves"]
    assert {tuple(each["in_sync"]) for each in reduced["troubled"]} <= {(1, 3), (3, 1)}
    assert "1 topics with 3 partitions: 0 offline, 0 under min ISR, 3 under-replicated\n" in text
    assert [row["node"] for row in left] == [1, 3]
    assert code == 0
    (said,) = of_up(errors)
    assert said.startswith(
        "tidelog up: node 2 ended: it was killed by signal 9; the others go on, and `tidelog broker "
    )

    fewer = run("up", "--nodes", "2", "--port", "0", "--dir", tmp_path)
    assert fewer.returncode == 2
    assert "holds a cluster of 3 nodes, not of 2: leave --nodes out" in fewer.stderr

    properties = [tmp_path / f"node-{number}" / "server.properties" for number in (1, 2, 3)]
    quorum = [parse_properties(path.read_bytes())["controller.quorum.bootstrap.servers"] for path in properties]
    with CommandProcess("up", "--port", "0", "--dir", tmp_path) as up:
        bootstrap = up.ready_line().split()[1]
        again = status_once(bootstrap, serving=3, under_replicated=0)
        up.send(signal.SIGTERM)
        code, errors = up.end()

    assert (code, of_up(errors)) == (0, [])
    assert (again["cluster"], again["partitions"]) == (whole["cluster"], 3)
    assert [parse_properties(path.read_bytes())["controller.quorum.bootstrap.servers"] for path in properties] == quorum
    assert not (tmp_path / "cluster.json").exists()
    assert all((tmp_path / f"node-{number}" / "data" / ".kafka_cleanshutdown").exists() for number in (1, 2, 3))
