"""A console in front of Apache Kafka: all screens, and of the X-ray what the protocol tells."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.support.apache_kafka import SMALL_NODE, ApacheKafka, Node
from tests.support.console import Browser, running_console
from tests.support.consumer_scenarios import wait_for
from tidelog import Admin, Producer
from tidelog.console.options import ClusterOptions

pytestmark = pytest.mark.compat


@pytest.fixture(scope="module")
def bootstrap(kafka: ApacheKafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with Node(kafka, tmp_path_factory.mktemp("kafka"), SMALL_NODE) as node:
        with Admin(bootstrap_servers=node.bootstrap) as admin:
            admin.create_topic("orders", partitions=2)
            with Producer(bootstrap_servers=node.bootstrap) as producer:
                for number in range(100):
                    producer.send("orders", json.dumps({"id": number}).encode(), partition=number % 2)
                producer.flush()
            admin.alter_group_offsets("billing", {("orders", 0): 50, ("orders", 1): 20})
        yield node.bootstrap


@pytest.fixture(scope="module")
def browser(bootstrap: str) -> Iterator[Browser]:
    with running_console(ClusterOptions("cluster", bootstrap, {})) as found:
        yield found.begin()


def test_every_screen_shows_apache_kafka(browser: Browser) -> None:
    overview = browser.get("/overview")
    assert (len(overview["nodes"]), overview["software"], overview["problems"]) == (1, None, {})
    assert overview["nodes"][0]["traced"] is False
    assert browser.get("/topics?search=orders")["rows"][0]["partitions"] == 2
    topic = browser.get("/topics/orders")
    assert [each["hw"] for each in topic["partitions"]] == [50, 50]
    assert any(each["name"] == "retention.ms" and each["doc"] for each in topic["configs"])
    page = browser.get("/topics/orders/records?from=earliest&limit=100")
    assert {json.loads(each["value"]["text"])["id"] for each in page["records"]} == set(range(100))
    with browser.events("/topics/orders/search?q=%22id%22:%2042") as events:
        assert sum(name == "hit" for name, _ in events) == 1
    wait_for(lambda: browser.get("/groups/billing")["lag_seconds"] is not None, "the age of the next record is found")
    group = browser.get("/groups/billing")
    assert (group["lag"], group["why"][0][:7]) == (30, "Stopped")
    for path in (
        "/quorum",
        "/history",
        "/logdirs",
        "/reassignments",
        "/transactions",
        "/users",
        "/quotas",
        "/pipelines",
    ):
        browser.get(path)
    assert browser.refused("/acls") == (409, "SECURITY_DISABLED")


def test_changes_reach_apache_kafka(browser: Browser) -> None:
    assert browser.change("POST", "/topics", {"name": "made", "partitions": 1, "replication": 1})["applied"]
    assert browser.change("PUT", "/topics/made/configs", {"retention.ms": "60000"})["applied"]
    assert browser.change("POST", "/topics/made/records", {"value": "x"})["offset"] == 0
    plan = browser.change("POST", "/groups/billing/offsets", {"to": "earliest", "topic": "orders"})
    assert {each["to"] for each in plan["plan"]} == {0}
    browser.change("DELETE", "/groups/billing")
    browser.change("DELETE", "/topics/made")


def test_the_x_ray_shows_what_the_protocol_tells(browser: Browser) -> None:
    found = browser.get("/xray/record?topic=orders&partition=0&offset=7")
    assert found["batch"]["base_offset"] <= 7 <= found["batch"]["last_offset"]
    assert (found["hw"], found["segment"], found["batch"]["position"]) == (50, None, None)
    assert {each["source"] for each in found["story"]} == {"protocol"}
    shown = browser.get("/xray/bytes?topic=orders&partition=0&offset=7")
    assert len(bytes.fromhex(shown["hex"])) == shown["size"] == shown["fields"][-1]["end"]
    with browser.events("/xray/live?topic=orders&partition=0") as events:
        for name, value in events:
            if name == "state":
                assert value["partition"]["hw"] == 50
                break
        written = browser.change("POST", "/xray/probe", {"topic": "orders", "partition": 0})
        for name, value in events:
            assert name != "problem", value
            if name == "state" and value["partition"]["hw"] == written["offset"] + 1:
                break
    assert browser.refused("/play") == (404, "NO_PLAY")
