"""The console's main screens in a real browser, in front of a node. All of them: tests/compat/test_console_screens.py."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator

import pytest
from playwright.sync_api import expect

from tests.support.command_process import CommandProcess
from tests.support.console import running_console
from tests.support.console_pages import MISSING, NARROW, Chrome, Pages, browser, chromium
from tidelog import Admin, Consumer, Producer
from tidelog.client.admin import NewTopic
from tidelog.client.consumer.topic_partition import TopicPartition
from tidelog.console.options import ClusterOptions

CHROMIUM = chromium()
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason=MISSING)

SCRIPT = "<img src=x onerror=\"document.title='owned'\"><script>document.title='owned'</script>"


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with CommandProcess("up", "--port", "0", "--dir", tmp_path_factory.mktemp("node")) as up:
        address = up.ready_line().split()[1]
        with Admin(bootstrap_servers=address) as admin:
            admin.create_topics([NewTopic("orders", partitions=1)])
        with Producer(bootstrap_servers=address) as producer:
            for number in range(40):
                value = json.dumps({"id": number, "item": "pears" if number == 17 else "apples"}).encode()
                producer.send("orders", value, key=b"customer-%d" % number)
            producer.send("orders", SCRIPT.encode(), key=SCRIPT.encode(), headers=[(SCRIPT, SCRIPT.encode())])
            producer.flush()
        with Admin(bootstrap_servers=address) as admin:
            admin.alter_group_offsets("billing", {("orders", 0): 10})
        yield address
        up.send(signal.SIGINT)
        up.end()


@pytest.fixture(scope="module")
def port(bootstrap: str) -> Iterator[int]:
    with running_console(ClusterOptions("cluster", bootstrap, {})) as console:
        yield console.port


@pytest.fixture(scope="module")
def chrome() -> Iterator[Chrome]:
    assert CHROMIUM is not None
    with browser(CHROMIUM) as started:
        yield started


@pytest.fixture
def pages(chrome: Chrome, port: int) -> Iterator[Pages]:
    with chrome.pages(port) as found:
        yield found
        assert found.errors == []
        assert found.foreign == []


def test_a_person_goes_from_the_overview_to_a_topic_and_its_records_by_keys(pages: Pages) -> None:
    pages.open()
    pages.sees("Overview")
    pages.sees("controller")
    pages.page.keyboard.press("g")
    pages.page.keyboard.press("t")
    pages.sees("orders").click()
    pages.sees("High watermark")
    pages.page.get_by_role("link", name="Records", exact=True).click()
    pages.press("Oldest")
    pages.sees("customer-0")
    pages.page.keyboard.press("/")
    pages.page.keyboard.type("orders:0@17")
    pages.sees("record", within=pages.page.locator("#hits"))
    pages.page.keyboard.press("Enter")
    expect(pages.page).to_have_url(f"{pages.address}#/c/cluster/xray/orders/0?offset=17")


def test_a_value_with_a_script_in_it_stays_text(pages: Pages) -> None:
    pages.open("topics/orders/records?open=0@40")
    shown = pages.page.get_by_label("Value", exact=True)
    expect(shown).to_have_text(SCRIPT)
    pages.sees(SCRIPT, within=pages.page.get_by_role("table", name="Records"))
    assert pages.page.locator("main img").count() == 0
    assert "owned" not in pages.page.title()


def test_a_search_finds_one_of_many_and_says_how_many_it_read(pages: Pages) -> None:
    pages.open("topics/orders/records?mode=search&q=pears")
    pages.sees("1 found in 41 records, which is all.")
    pages.sees("customer-17")


def test_a_record_is_edited_and_resent_after_a_dry_run(pages: Pages, bootstrap: str) -> None:
    pages.open("topics/orders/records?open=0@17")
    pages.press("Edit and resend")
    dialog = pages.page.get_by_role("dialog")
    dialog.get_by_label("Value", exact=True).fill('{"id": 17, "item": "plums"}')
    dialog.get_by_role("button", name="Dry run").click()
    pages.sees("It would be written to partition 0.", within=dialog)
    dialog.get_by_role("button", name="Produce").click()
    pages.sees("Written: orders:0@41", within=pages.page.get_by_role("status"))
    with Consumer(bootstrap_servers=bootstrap) as consumer:
        consumer.assign([("orders", 0)])
        consumer.seek(("orders", 0), 41)
        (record,) = consumer.poll(timeout_ms=5000)
    assert (record.key, record.value) == (b"customer-17", b'{"id": 17, "item": "plums"}')


def test_offsets_of_a_group_change_only_after_their_plan_was_seen(pages: Pages, bootstrap: str) -> None:
    pages.open("groups/billing")
    pages.press("Set offsets")
    dialog = pages.page.get_by_role("dialog")
    assert dialog.get_by_role("button", name="Set these offsets").count() == 0
    dialog.get_by_role("button", name="Show the plan").click()
    expect(dialog.get_by_role("row", name="orders:0")).to_contain_text("10")
    dialog.get_by_role("button", name="Set these offsets").click()
    pages.sees("The offsets of billing are set.", within=pages.page.get_by_role("status"))
    with Admin(bootstrap_servers=bootstrap) as admin:
        assert admin.list_group_offsets("billing")[TopicPartition("orders", 0)].offset == 0


def test_a_probe_is_followed_through_flow_and_bytes(pages: Pages) -> None:
    pages.open("xray/orders/0")
    pages.sees("Listening.")
    pages.press("Send a probe")
    expect(pages.page.get_by_role("region", name="Story")).to_contain_text("high watermark is")
    expect(pages.page.get_by_role("region", name="Story")).to_contain_text("Appended offset")
    pages.page.get_by_role("link", name="Bytes", exact=True).click()
    pages.sees("partitionLeaderEpoch")


def test_a_telephone_shows_every_main_screen_without_sideways_scrolling(chrome: Chrome, port: int) -> None:
    with chrome.pages(port, size=NARROW, scheme="light", is_still=True) as pages:
        for path, text in (
            ("", "Nodes"),
            ("topics", "orders"),
            ("groups/billing", "Lag in time"),
            ("xray/orders/0", "Node 1"),
        ):
            pages.open(path)
            pages.sees(text)
            assert pages.overflow() <= 0, path
        assert pages.errors == []
