"""The parts of the orders demo that need no Spark: what is generated, who is notified, and whether a mistake would be noticed."""

from __future__ import annotations

import json
import time
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from examples.orders_demo.__main__ import members, prepare
from examples.orders_demo.cluster import running_cluster
from examples.orders_demo.generator import Sent, plan, read_file, write
from examples.orders_demo.monitor import GROUPS, Monitor
from examples.orders_demo.picture import Course, picture
from examples.orders_demo.processes import DemoError, Part
from examples.orders_demo.shop import (
    ALLOWED_LATENESS_MS,
    NOTIFICATIONS,
    NOTIFICATIONS_GROUP,
    ORDERS,
    PARTITIONS,
    STATES,
    WATERMARK_DELAY_MS,
)
from examples.orders_demo.verification import (
    CheckError,
    Expected,
    Read,
    check_dead_letters,
    check_notifications,
    check_orders,
    check_revenue,
    check_table,
    expected_of,
    read_committed,
)
from tidelog import OffsetAndMetadata, TopicPartition
from tidelog.client.admin import ListedOffset, OffsetSpec
from tidelog.client.errors import ClientError

DEADLINE_S = 60.0


@pytest.fixture(scope="module")
def stream() -> list[Sent]:
    return plan(seed=3, orders=500, minutes=20)


@pytest.fixture(scope="module")
def expected(stream: list[Sent]) -> Expected:
    return expected_of(stream)


def test_the_same_seed_gives_the_same_stream(stream: list[Sent]) -> None:
    assert plan(seed=3, orders=500, minutes=20) == stream
    assert plan(seed=4, orders=500, minutes=20) != stream


def test_the_stream_has_something_of_everything(stream: list[Sent]) -> None:
    kinds = Counter(sent.kind for sent in stream)

    assert kinds["event"] == 500 * len(STATES)
    assert kinds["duplicate"] > 0
    assert kinds["broken"] > 0
    assert any(sent.is_late for sent in stream)
    assert any(0 < sent.sent_ms - sent.at_ms - 30_000 <= ALLOWED_LATENESS_MS - 30_000 for sent in stream)


def test_events_of_an_order_are_sent_in_order_and_the_clock_never_goes_back(stream: list[Sent]) -> None:
    assert [sent.sent_ms for sent in stream] == sorted(sent.sent_ms for sent in stream)
    for order in {sent.order for sent in stream if sent.kind == "event"}:
        assert tuple(sent.state for sent in stream if sent.order == order and sent.kind == "event") == STATES


def test_the_closing_events_pass_every_window_in_every_partition(stream: list[Sent]) -> None:
    closing = [sent for sent in stream if sent.kind == "closing"]
    last_ms = max(sent.at_ms for sent in stream if sent.kind != "closing")

    assert {sent.partition for sent in closing} == set(range(PARTITIONS))
    assert {sent.state for sent in closing} == {"placed", "paid"}
    assert all(sent.at_ms - 2 * WATERMARK_DELAY_MS > last_ms for sent in closing)


def test_every_event_is_counted_or_set_apart(stream: list[Sent], expected: Expected) -> None:
    counted = sum(orders for orders, _cents in expected.revenue.values())
    set_apart = {key for key, _value, reason in expected.dead_letters if reason == "late"}

    assert counted == len(expected.paid_orders) - PARTITIONS
    assert {sent.order for sent in stream if sent.kind == "event"} - expected.paid_orders.keys() <= set_apart


def _orders(expected: Expected) -> list[Read]:
    return [Read(0, 0, key, value.encode("latin-1")) for key, values in expected.records.items() for value in values]


def _revenue(expected: Expected) -> list[Read]:
    return [
        Read(0, 0, "", json.dumps({"minute_ms": at, "product": product, "orders": orders, "cents": cents}).encode())
        for (at, product), (orders, cents) in expected.revenue.items()
    ]


def _dead_letters(expected: Expected) -> list[Read]:
    return [
        Read(0, 0, key, value.encode("latin-1"), {"reason": reason.encode()})
        for key, value, reason in expected.dead_letters.elements()
    ]


def _notifications(expected: Expected) -> list[Read]:
    return [
        Read(0, 0, order, json.dumps({"state": state}).encode())
        for order, states in expected.notifications.items()
        for state in states
    ]


@pytest.mark.parametrize(
    ("check", "records"),
    [
        (check_orders, _orders),
        (check_revenue, _revenue),
        (check_dead_letters, _dead_letters),
        (check_notifications, _notifications),
    ],
)
@pytest.mark.parametrize("mistake", ["none", "lost", "doubled", "changed"])
def test_the_account_notices_what_is_wrong(
    expected: Expected,
    check: Callable[[Expected, list[Read]], str],
    records: Callable[[Expected], list[Read]],
    mistake: str,
) -> None:
    found = records(expected)
    middle = len(found) // 2
    if mistake == "none":
        assert check(expected, found)
        return
    if mistake == "lost":
        del found[middle]
    elif mistake == "doubled":
        found.insert(middle, found[middle])
    else:
        found[middle] = replace(found[middle], key=found[middle].key + "?", value=b'{"state": "", "minute_ms": 1, ')
        with pytest.raises((CheckError, json.JSONDecodeError)):
            check(expected, found)
        return
    with pytest.raises(CheckError):
        check(expected, found)


def test_notifications_out_of_order_are_noticed(expected: Expected) -> None:
    found = _notifications(expected)
    found[0], found[1] = found[1], found[0]

    with pytest.raises(CheckError, match=r"the notifications of order-\d+ should be"):
        check_notifications(expected, found)


def test_the_table_has_each_order_once(expected: Expected) -> None:
    rows = [(order, product, cents) for order, (product, cents) in expected.paid_orders.items()]
    assert check_table("table", expected, rows)

    with pytest.raises(CheckError, match="stands twice in the table"):
        check_table("table", expected, [*rows, rows[0]])
    with pytest.raises(CheckError, match="should be"):
        check_table("table", expected, rows[1:])


class Ledger:
    """A topic and its groups as an admin sees them: so much is written to each partition, and committed by each group."""

    def __init__(self) -> None:
        self.written = 0
        self.committed = dict.fromkeys(GROUPS, 0)
        self.leaderless: set[int] = set()

    def list_offsets(
        self, wanted: Mapping[tuple[str, int], OffsetSpec | int]
    ) -> dict[TopicPartition, ListedOffset | ClientError]:
        return {
            TopicPartition(topic, partition): ClientError("no leader")
            if partition in self.leaderless
            else ListedOffset(self.written, None, None)
            for topic, partition in wanted
        }

    def list_group_offsets(self, group_id: str) -> dict[TopicPartition, OffsetAndMetadata]:
        committed = self.committed[group_id]
        return {TopicPartition(ORDERS, partition): OffsetAndMetadata(committed) for partition in range(PARTITIONS)}


def test_a_group_that_is_not_behind_has_not_read_what_the_shop_writes_next() -> None:
    ledger = Ledger()
    monitor = Monitor(ledger, records=10 * PARTITIONS, say=lambda _text: None)
    assert not monitor.has_read_all(NOTIFICATIONS_GROUP)

    ledger.written = ledger.committed[NOTIFICATIONS_GROUP] = 8
    monitor.look()
    # The shop's last records come after the look.
    ledger.written = 10
    assert not monitor.has_read_all(NOTIFICATIONS_GROUP)

    monitor.look()
    assert monitor.share_written == 1.0
    assert not monitor.has_read_all(NOTIFICATIONS_GROUP)

    ledger.committed[NOTIFICATIONS_GROUP] = 10
    monitor.look()
    assert monitor.has_read_all(NOTIFICATIONS_GROUP)


def test_a_look_that_misses_a_partition_tells_nothing() -> None:
    ledger = Ledger()
    monitor = Monitor(ledger, records=4 * PARTITIONS, say=lambda _text: None)
    ledger.written = ledger.committed[NOTIFICATIONS_GROUP] = 4
    ledger.leaderless = {1}

    monitor.look()

    assert monitor.share_written == 0.0
    assert not monitor.has_read_all(NOTIFICATIONS_GROUP)


def test_the_picture_shows_every_product_and_every_mark() -> None:
    course = Course({"revenue": [(0.0, 0), (2.0, 500), (4.0, 0)], "notifications": []}, [(1.0, "a < b")])

    drawn = ET.fromstring(picture({(60_000, "tea"): 900, (120_000, "honey"): 450}, course))

    texts = [text.text for text in drawn.iter("{http://www.w3.org/2000/svg}text")]
    assert {"tea", "honey", "revenue", "a < b"} <= set(texts)
    assert len(list(drawn.iter("{http://www.w3.org/2000/svg}polyline"))) == 2


def test_a_picture_of_nothing_can_be_drawn() -> None:
    ET.fromstring(picture({}, Course()))


def test_a_directory_with_something_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("...")

    with pytest.raises(SystemExit, match="holds something else"):
        prepare(tmp_path)

    assert (tmp_path / "thesis.txt").exists()


def test_customers_are_told_in_order_though_a_consumer_leaves_and_a_node_dies(tmp_path: Path) -> None:
    stream = plan(seed=5, orders=300, minutes=10)
    file = tmp_path / "orders.jsonl"

    with running_cluster(tmp_path / "cluster", nodes=3) as cluster:
        cluster.create_topics()
        bootstrap = cluster.bootstrap
        log = tmp_path / "members.log"
        with (
            Part("anna", "notifications", bootstrap, "anna", log=log) as anna,
            Part("ben", "notifications", bootstrap, "ben", log=log) as ben,
        ):
            _until(lambda: members(bootstrap) == 2, anna, ben)

            def deaths() -> None:
                anna.leave()
                cluster.kill_leader_of(ORDERS, 0)

            write(bootstrap, file, stream, speed=float("inf"), midday=deaths)
            assert not anna.is_running
            told = expected_of(stream)
            wanted = sum(map(len, told.notifications.values()))
            _until(lambda: len(read_committed(bootstrap, NOTIFICATIONS)) >= wanted, ben)
            ben.leave()
        check_orders(told, read_committed(bootstrap, ORDERS))
        check_notifications(told, read_committed(bootstrap, NOTIFICATIONS))
    assert read_file(file) == stream


def test_a_part_that_fails_is_named(tmp_path: Path) -> None:
    with (
        Part("anna", "notifications", log=tmp_path / "anna.log") as anna,
        pytest.raises(DemoError, match=r"anna has failed; .*anna\.log says why"),
    ):
        anna.wait()

    assert "usage" in (tmp_path / "anna.log").read_text()


def _until(condition: Callable[[], bool], *parts: Part) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        for part in parts:
            part.check()
        assert time.monotonic() < deadline
        time.sleep(0.05)
