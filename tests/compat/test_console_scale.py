"""A console in front of 5,000 topics and 15,000 groups: every screen answers, and its memory is bounded."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

import pytest

from tests.support.command_process import CommandProcess
from tests.support.console import Browser
from tests.support.consumer_scenarios import wait_for
from tidelog import AsyncAdmin
from tidelog.client.admin import NewTopic, value_of

pytestmark = pytest.mark.compat

TOPICS, GROUPS = 5_000, 15_000
MEMORY_MAX_MB = 300


async def fill(bootstrap: str) -> None:
    # The machine may have other things to do.
    async with AsyncAdmin(
        bootstrap_servers=bootstrap, default_api_timeout_ms=600_000, request_timeout_ms=600_000
    ) as admin:
        for start in range(0, TOPICS, 250):
            created = await admin.create_topics([NewTopic(f"t{each:05d}", 1) for each in range(start, start + 250)])
            for outcome in created.values():
                value_of(outcome)
        slots = asyncio.Semaphore(50)

        async def commit(number: int) -> None:
            async with slots:
                await admin.alter_group_offsets(f"g{number:05d}", {(f"t{number % TOPICS:05d}", 0): 0})

        for start in range(0, GROUPS, 1_000):
            await asyncio.gather(*(commit(each) for each in range(start, start + 1_000)))


def memory_mb(pid: int) -> int:
    [line] = [each for each in Path(f"/proc/{pid}/status").read_text().splitlines() if each.startswith("VmRSS")]
    return int(line.split()[1]) // 1024


@pytest.mark.timeout(1800)
def test_every_screen_answers_with_thousands_of_topics_and_groups(tmp_path: Path) -> None:
    with CommandProcess("up", "--port", "0", "--dir", tmp_path) as up:
        bootstrap = up.ready_line().split()[1]
        asyncio.run(fill(bootstrap))
        with CommandProcess("console", "--bootstrap", bootstrap, "--port", "0") as console:
            browser = Browser(int(console.ready_line().split()[1].rstrip("/").rpartition(":")[2])).begin()
            wait_for(lambda: browser.get("/overview")["counts"]["groups"] == GROUPS, "all groups are known")
            assert browser.get("/overview")["counts"]["topics"] >= TOPICS
            page = browser.get("/groups?sort=lag&desc=1&offset=14950&limit=100")
            assert (page["total"], len(page["rows"])) == (GROUPS, 50)
            page = browser.get("/topics?sort=rate&desc=1&limit=1000")
            assert (page["total"], len(page["rows"])) == (TOPICS, 1000)
            for path in ("/topics/t04999", "/groups/g14999", "/groups?search=g149", "/logdirs", "/transactions"):
                browser.get(path)
            metrics = browser.ask("GET", "/metrics").body
            assert metrics.count(b"kafka_consumergroup_lag{") == GROUPS
            assert memory_mb(console.process.pid) < MEMORY_MAX_MB
            console.send(signal.SIGINT)
            assert console.end()[0] == 0
        up.send(signal.SIGINT)
        assert up.end()[0] == 0
