"""Every screen of the console in a real browser, against a live cluster of three that `tidelog up --console` has started.

Without a Chromium these fail: `make compat` is the whole.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from confluent_kafka import Producer as ForeignProducer
from playwright.sync_api import expect

from tests.repo.test_links import ROOT
from tests.support.apache_kafka import require
from tests.support.command_process import CommandProcess
from tests.support.console import running_console
from tests.support.console_pages import MISSING, NARROW, WIDE, Chrome, Pages, browser, chromium
from tidelog import Admin, Producer
from tidelog.client.admin import NewTopic
from tidelog.console.options import ClusterOptions
from tidelog.testing import EmbeddedCluster

pytestmark = pytest.mark.compat

CLUSTER = "local"
WIRE_BYTES_MAX = 200_000
SCRIPT = "<img src=x onerror=\"document.title='owned'\">"
# Path, and what is seen there once it is drawn.
SCREENS = {
    "": "Groups furthest behind",
    "topics": "orders",
    "topics/orders": "High watermark",
    "topics/orders/configs": "cleanup.policy",
    "topics/orders/groups": "billing",
    "topics/orders/producers": "Producer id",
    "topics/orders/records": "customer-",
    "topics/orders/records?from=earliest&open=0@0": "Edit and resend",
    "topics/orders/records?mode=search&q=id": "found in",
    "topics/orders/records?mode=tail": "Waiting for the next record",
    "groups": "billing",
    "groups/billing": "Lag in records",
    "groups/billing/partitions": "Committed",
    "groups/billing/members": "No member",
    "transactions": "shop-1",
    "quorum": "the active controller",
    "logdirs": "node-1",
    "reassignments": "Nothing moves",
    "acls": "No Authorizer",
    "users": "No SCRAM user",
    "quotas": "No quota",
    "pipelines": "No pipeline is known",
    "audit": "Did",
    "xray": "Follow one record through the cluster",
    "xray/orders/0": "Node 3",
    "xray/orders/0?offset=0&view=bytes": "partitionLeaderEpoch",
    "xray/orders/0?offset=0&view=story": "Who has passed it",
    "nowhere": "There is no such screen",
}


class Live(NamedTuple):
    bootstrap: str
    port: int
    directory: Path
    up_pid: int

    def pid(self, node: int) -> int:
        rows = json.loads((self.directory / "cluster.json").read_text())
        return int(next(row["pid"] for row in rows if row["node"] == node))


@contextmanager
def running(directory: Path) -> Iterator[Live]:
    given = ("--nodes", "3", "--port", "0", "--dir", directory, "--set", "replica.lag.time.max.ms=4000")
    with CommandProcess("up", *given, "--console", "--console-port", "0") as up:
        bootstrap = up.ready_line().split()[1]
        assert up.process.stdout is not None
        line = up.process.stdout.readline()
        assert line.startswith("console: "), line
        yield Live(bootstrap, int(line.rstrip().rstrip("/").rpartition(":")[2]), directory, up.process.pid)
        up.send(signal.SIGINT)
        up.end()


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    with running(tmp_path_factory.mktemp("console")) as started:
        with Admin(bootstrap_servers=started.bootstrap) as admin:
            admin.create_topics(
                [NewTopic("orders", partitions=3, replication_factor=3, configs={"min.insync.replicas": "1"})]
            )
            admin.create_topics([NewTopic("probes", partitions=1, replication_factor=3)])
            admin.alter_group_offsets("billing", {("orders", 0): 1})
        with (
            Producer(bootstrap_servers=started.bootstrap, transactional_id="shop-1") as producer,
            producer.transaction(),
        ):
            for number in range(60):
                value = json.dumps({"id": number, "note": SCRIPT}).encode()
                producer.send(
                    "orders", value, key=b"customer-%d" % number, partition=number % 3, headers=[(SCRIPT, b"1")]
                )
        yield started


@pytest.fixture(scope="module")
def chrome() -> Iterator[Chrome]:
    program = chromium()
    assert program is not None, MISSING
    with browser(program) as started:
        yield started


@pytest.fixture(scope="module")
def axe(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The source of axe-core, which looks for what people with a screen reader stumble over."""
    place = tmp_path_factory.mktemp("axe")
    for name in ("package.json", "package-lock.json"):
        shutil.copy(ROOT / "console" / name, place)
    ran = subprocess.run(
        [require("npm", "npm"), "ci", "--no-audit", "--no-fund"],
        cwd=place,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    return (place / "node_modules" / "axe-core" / "axe.min.js").read_text()


def serious(pages: Pages, axe: str) -> list[Any]:
    pages.page.evaluate(axe)
    found = pages.page.evaluate("axe.run(document, { resultTypes: ['violations'] })")
    return [
        (each["id"], [node["target"] for node in each["nodes"]][:3])
        for each in found["violations"]
        if each["impact"] in {"serious", "critical"}
    ]


@pytest.mark.parametrize("scheme", ["dark", "light"])
def test_every_screen_is_drawn_without_an_error_and_axe_finds_nothing_serious(
    live: Live, chrome: Chrome, axe: str, scheme: Any
) -> None:
    with chrome.pages(live.port, CLUSTER, WIDE, scheme) as pages:
        found = {}
        for path, text in SCREENS.items():
            pages.open(path)
            pages.sees(text)
            found[path] = serious(pages, axe)
            assert pages.overflow() <= 0, path
        assert {path: said for path, said in found.items() if said} == {}
        assert (pages.errors, pages.foreign) == ([], [])
        assert "owned" not in pages.page.title()


def test_every_screen_is_readable_on_a_telephone(live: Live, chrome: Chrome, axe: str) -> None:
    with chrome.pages(live.port, CLUSTER, NARROW, is_still=True) as pages:
        for path in SCREENS:
            pages.open(path)
            expect(pages.main).not_to_be_empty()
            pages.page.wait_for_load_state("load")
            assert pages.overflow() <= 0, path
        assert serious(pages, axe) == []
        pages.page.get_by_role("button", name="Menu").click()
        pages.page.get_by_role("link", name="Quorum").click()
        pages.sees("the active controller")
        assert pages.errors == []


def test_all_that_is_loaded_is_under_the_budget(live: Live, chrome: Chrome) -> None:
    with chrome.pages(live.port, CLUSTER) as pages:
        session = pages.page.context.new_cdp_session(pages.page)
        session.send("Network.enable")
        loaded: dict[str, float] = {}
        addresses: dict[str, str] = {}
        session.on(
            "Network.responseReceived", lambda event: addresses.update({event["requestId"]: event["response"]["url"]})
        )
        session.on(
            "Network.loadingFinished", lambda event: loaded.update({event["requestId"]: event["encodedDataLength"]})
        )
        pages.open()
        pages.sees("Groups furthest behind")
        static = [size for number, size in loaded.items() if "/api/" not in addresses.get(number, "/api/")]
        assert len(static) >= 3
        assert sum(static) < WIRE_BYTES_MAX


def high_watermark(pages: Pages) -> int:
    said = pages.page.locator("svg[aria-label^='Partition with leader']").get_attribute("aria-label") or ""
    found = re.search(r"high watermark (\d+)", said)
    assert found is not None, said
    return int(found.group(1))


def drawn(pages: Pages, pattern: str, deadline_s: float = 30) -> None:
    """Waits until the drawing says so."""
    picture = pages.page.locator("svg[aria-label^='Partition with leader']")
    expect(picture).to_have_attribute("aria-label", re.compile(pattern), timeout=deadline_s * 1000)


def write_by_another_client(bootstrap: str, topic: str, partition: int, acks: str = "all") -> int:
    """A record by librdkafka. Its offset."""
    offsets: list[int | None] = []
    producer = ForeignProducer({"bootstrap.servers": bootstrap, "acks": acks})
    producer.produce(
        topic, b"seen", partition=partition, on_delivery=lambda _error, message: offsets.append(message.offset())
    )
    assert producer.flush(30) == 0
    assert offsets[0] is not None
    return offsets[0]


def test_a_record_of_another_client_is_seen_at_the_high_watermark_within_a_second(live: Live, chrome: Chrome) -> None:
    with chrome.pages(live.port, CLUSTER, is_still=True) as pages:
        pages.open("xray/probes/0")
        pages.sees("Node 3")
        write_by_another_client(live.bootstrap, "probes", 0)
        drawn(pages, r"high watermark [1-9]")
        offset = write_by_another_client(live.bootstrap, "probes", 0)
        written_s = time.monotonic()
        drawn(pages, rf"high watermark {offset + 1}$")
        # The bound of the page is a second; the machine that tests may be busy.
        assert time.monotonic() - written_s < 5
        assert pages.errors == []


def test_a_stopped_follower_holds_the_high_watermark_until_the_in_sync_set_shrinks(live: Live, chrome: Chrome) -> None:
    with chrome.pages(live.port, CLUSTER, is_still=True) as pages:
        pages.open("xray/orders/0")
        drawn(pages, r"in-sync set \d, \d, \d,")
        with Admin(bootstrap_servers=live.bootstrap) as admin:
            partition = admin.describe_topic("orders").partitions[0]
        follower = next(each for each in partition.replicas if each != partition.leader)
        before = high_watermark(pages)
        os.kill(live.pid(follower), signal.SIGSTOP)
        try:
            write_by_another_client(live.bootstrap, "orders", 0, acks="1")
            pages.sees(f"LEO {before + 1}")
            held_at = high_watermark(pages)
            drawn(pages, r"in-sync set \d, \d,", deadline_s=60)
            drawn(pages, rf"high watermark {before + 1}$")
            pages.sees("not in sync")
        finally:
            os.kill(live.pid(follower), signal.SIGCONT)
        assert held_at == before
        drawn(pages, r"in-sync set \d, \d, \d,", deadline_s=60)
        assert pages.errors == []


def test_a_leader_is_held_and_killed_from_the_picture_and_another_takes_over(live: Live, chrome: Chrome) -> None:
    with chrome.pages(live.port, CLUSTER, is_still=True) as pages:
        pages.open("xray/orders/1")
        drawn(pages, r"in-sync set \d, \d, \d,")
        hold = pages.page.get_by_role("button", name=re.compile(r"Hold follower \d"))
        held = (hold.text_content() or "").split()[-1]
        hold.click()
        release = pages.page.get_by_role("button", name=f"Release node {held}")
        expect(release).to_be_visible()
        pages.sees("held")
        release.click()
        with Admin(bootstrap_servers=live.bootstrap) as admin:
            leader = admin.describe_topic("orders").partitions[1].leader
        pages.press("Kill the leader")
        drawn(pages, rf"leader (?!{leader},)\d", deadline_s=60)
        pages.sees("down")
        start = pages.page.get_by_role("button", name=f"Start node {leader}")
        start.click()
        drawn(pages, r"in-sync set \d, \d, \d,", deadline_s=90)
        assert pages.errors == []


def test_the_tour_makes_its_topic_and_sees_what_it_did(live: Live, chrome: Chrome) -> None:
    with chrome.pages(live.port, CLUSTER) as pages:
        pages.open()
        pages.press("Guided tour")
        tour = pages.page.get_by_role("complementary", name="Guided tour")
        tour.get_by_role("button", name="Make the topic, write three records").click()
        pages.sees("The log of tour has 3 records.", within=tour)
        tour.get_by_role("link", name="See the records").click()
        pages.sees("two pears")
        for step in range(2, 11):
            tour.get_by_role("button", name=re.compile(rf"^Step {step}:")).click()
            pages.sees(f"{step} of 10", within=tour)
        assert pages.errors == []


def test_a_person_logs_in_as_a_user_of_the_cluster_sees_what_that_one_may_and_logs_out(chrome: Chrome) -> None:
    login = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "SCRAM-SHA-256"}
    with EmbeddedCluster(security="scram") as cluster:
        cluster.create_topic("orders")
        password = str(cluster.librdkafka_properties("alice")["sasl.password"])
        given = ClusterOptions("cluster", cluster.bootstrap_servers, login)
        with running_console(given) as console, chrome.pages(console.port) as pages:
            pages.open("topics")
            pages.sees("Log in to cluster")
            pages.main.get_by_label("User").fill("alice")
            pages.main.get_by_label("Password").fill("a guess")
            pages.press("Log in")
            expect(pages.page.get_by_role("alert")).to_be_visible()
            pages.main.get_by_label("Password").fill(password)
            pages.press("Log in")
            pages.sees("orders")
            assert password not in pages.page.content()
            pages.press("Log out")
            pages.sees("Log in to cluster")
            assert pages.errors == []


def test_a_table_of_15000_groups_has_few_of_them_in_the_document(chrome: Chrome) -> None:
    environment = {**os.environ, "MOCK_GROUPS": "15000"}
    arguments = [require("node", "nodejs"), "mock/server.mjs", "0"]
    with subprocess.Popen(arguments, cwd=ROOT / "console", env=environment, stdout=subprocess.PIPE, text=True) as mock:
        try:
            assert mock.stdout is not None
            port = int(mock.stdout.readline().rpartition(":")[2])
            with chrome.pages(port, "dev") as pages:
                pages.open("groups")
                pages.sees("15,000")
                table = pages.page.get_by_role("table", name="Groups")
                table.evaluate("table => { table.scrollTop = table.scrollHeight }")
                # The last by name.
                pages.sees("team-9-reader-9969")
                assert table.get_by_role("row").count() < 80
                pages.page.get_by_label("Filter by name").fill("reader-12345")
                pages.sees("team-25-reader-12345")
                assert pages.errors == []
        finally:
            mock.terminate()


def test_the_page_says_that_its_server_is_gone_and_the_cluster_does_not_notice(tmp_path: Path, chrome: Chrome) -> None:
    with running(tmp_path) as alone, chrome.pages(alone.port, CLUSTER) as pages:
        pages.open("quorum")
        pages.sees("the active controller")
        kill_the_console(alone.up_pid)
        pages.sees("connection lost", within=pages.page.locator("header"))
        pages.sees("The console's server does not answer.")
        with Admin(bootstrap_servers=alone.bootstrap) as admin:
            assert len(admin.describe_cluster().brokers) == 3


def kill_the_console(up: int) -> None:
    """Of this `up`."""
    for file in Path(f"/proc/{up}/task").glob("*/children"):
        for pid in file.read_text().split():
            if b"\0console\0" in Path(f"/proc/{pid}/cmdline").read_bytes():
                os.kill(int(pid), signal.SIGKILL)
