"""The examples of pipelines that people copy: each gives what its page in docs/examples promises.

Those of change events and of windows, like the kills, are in tests/compat.
"""

from __future__ import annotations

import datetime as dt
import re
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from pyspark.sql import SparkSession

from examples.pipelines.replay_archive import replay
from tests.support.command_line import tidelog
from tidelog.spark.pipelines.errors import QueryFailedError
from tidelog.spark.testing_kit.given_records import Record
from tidelog.spark.testing_kit.pipeline_test import PipelineTest
from tidelog.testing import EmbeddedCluster

Make: TypeAlias = Callable[..., PipelineTest]

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples" / "pipelines"
PAGES = ROOT / "docs" / "examples"

# The file that a page is about, and draws.
PAGE_OF = {
    "customers.py": "change-events",
    "visits.sql": "sessions",
    "paid_orders.py": "joins",
    "revenue.py": "windowed-revenue",
    "enriched_orders.py": "enrichment",
    "archive.py": "archive-and-replay",
    "till_orders.py": "dead-letters",
    "quality_gate.py": "quality-gate",
}


def at(time: str) -> dt.datetime:
    return dt.datetime.fromisoformat(f"2026-11-18T{time}Z")


def click(visitor: str, page: str, time: str) -> dict[str, str]:
    return {"visitor": visitor, "page": page, "at": f"2026-11-18T{time}Z"}


CLICKS = [
    click("ann", "/", "08:00:00"),
    click("bob", "/tea", "08:05:00"),
    click("ann", "/tea", "08:20:00"),
    # More than half an hour after her last click: another visit.
    click("ann", "/", "08:56:00"),
]


def visit(visitor: str, began: str, last: str, clicks: int, came_to: str, left_from: str) -> dict[str, Any]:
    found = {"visitor": visitor, "began": at(began), "last_click": at(last), "clicks": clicks}
    return {**found, "came_to": came_to, "left_from": left_from}


VISITS = [
    visit("ann", "08:00:00", "08:20:00", 2, "/", "/tea"),
    visit("bob", "08:05:00", "08:05:00", 1, "/tea", "/tea"),
]


def test_a_visit_ends_half_an_hour_after_its_last_click(tidelog_pipeline: Make) -> None:
    pipeline = tidelog_pipeline(EXAMPLES / "visits.sql")
    pipeline.given("clicks", [*CLICKS, '{"page": "/"}'])

    pipeline.run()

    # The last visit may go on: what comes within five minutes still counts.
    pipeline.expect("visits", VISITS)
    assert [each.reason for each in pipeline.dead_letters()] == ["somebody has clicked"]


ORDERS: list[dict[str, Any]] = [
    {"id": "o1", "product": "tea", "price": 4.0, "at": "2026-11-18T08:00:00Z"},
    {"id": "o2", "product": "rice", "price": 2.5, "at": "2026-11-18T08:01:00Z"},
    {"id": "o3", "product": "tea", "price": 4.0, "at": "2026-11-18T08:02:00Z"},
]
PAYMENTS: list[dict[str, Any]] = [
    {"order_id": "o1", "amount": 4.0, "paid_at": "2026-11-18T08:30:00Z"},
    # An hour and eight minutes after its order.
    {"order_id": "o3", "amount": 4.0, "paid_at": "2026-11-18T09:10:00Z"},
]


def test_an_order_meets_its_payment_or_is_told_of_as_unpaid(tidelog_pipeline: Make) -> None:
    pipeline = tidelog_pipeline(EXAMPLES / "paid_orders.py")
    pipeline.given("orders", ORDERS)
    pipeline.given("payments", PAYMENTS)
    pipeline.advance_time("2 hours")

    pipeline.run()

    pipeline.expect("paid", [{"id": "o1", "amount": 4.0, "paid_at": at("08:30:00")}])
    pipeline.expect("orders.unpaid", [{"id": "o2", "amount": None}, {"id": "o3", "amount": None}])


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Executes a statement in the database that the example asks."""
    path = tmp_path / "shop.db"
    monkeypatch.setenv("SHOP_DB", str(path))

    def execute(statement: str) -> None:
        with closing(sqlite3.connect(path)) as connection, connection:
            connection.execute(statement)

    execute("CREATE TABLE products (sku TEXT PRIMARY KEY, name TEXT, category TEXT)")
    execute("INSERT INTO products VALUES ('t1', 'green tea', 'drinks'), ('r1', 'rice', 'food')")
    return execute


def test_orders_are_enriched_by_what_the_database_says_at_the_time(
    tidelog_pipeline: Make, shop: Callable[[str], None]
) -> None:
    pipeline = tidelog_pipeline(EXAMPLES / "enriched_orders.py")
    pipeline.given("orders", [{"id": "o1", "sku": "t1", "price": 4.0}, {"id": "o2", "sku": "x9", "price": 1.0}])
    pipeline.run()
    shop("UPDATE products SET name = 'jasmine tea' WHERE sku = 't1'")
    shop("INSERT INTO products VALUES ('x9', 'soap', 'household')")
    pipeline.given("orders", [{"id": "o3", "sku": "t1", "price": 4.0}, {"id": "o4", "sku": "x9", "price": 1.0}])

    pipeline.run()

    pipeline.expect(
        "enriched_orders",
        [
            {"id": "o1", "sku": "t1", "name": "green tea", "category": "drinks", "price": 4.0},
            {"id": "o3", "sku": "t1", "name": "jasmine tea", "category": "drinks", "price": 4.0},
            {"id": "o4", "sku": "x9", "name": "soap", "category": "household", "price": 1.0},
        ],
    )
    assert [each.reason for each in pipeline.dead_letters()] == ["the product is known"]


def till_orders() -> list[dict[str, Any]]:
    """One that is right, a gift and a return."""
    return [{"id": f"o{number}", "product": "tea", "price": price} for number, price in enumerate((4.0, 0.0, -4.0), 1)]


def mended_till_orders(directory: Path) -> Path:
    """The example's file as its page mends it."""
    page = (ROOT / "docs" / "examples" / "dead-letters.md").read_text()
    _, old, new, _ = page.split("$ sed -i '", 1)[1].split("'", 1)[0].split("/")
    mended = directory / "till_orders.py"
    text = (EXAMPLES / "till_orders.py").read_text()
    assert old in text
    mended.write_text(text.replace(old, new))
    return mended


def test_letters_go_back_once_the_rule_that_made_them_is_mended(tidelog_pipeline: Make, tmp_path: Path) -> None:
    pipeline = tidelog_pipeline(EXAMPLES / "till_orders.py")
    pipeline.given("till.orders", [*till_orders(), "PAPER JAM"])
    pipeline.run()
    set_apart = [each.reason for each in pipeline.dead_letters()]

    pipeline.upgrade(mended_till_orders(tmp_path))
    sent = [pipeline.replay_dead_letters(reason="an order costs") for _ in range(2)]
    pipeline.run()

    assert set_apart == ["an order costs something", "an order costs something", "the value cannot be decoded"]
    assert sent == [2, 0]
    pipeline.expect("till_orders", till_orders()[:2])
    assert [(each.reason, each.offset) for each in pipeline.dead_letters()[3:]] == [("the price is not negative", 5)]


def gate_order(number: int, **other: object) -> dict[str, Any]:
    usual = {"id": f"o{number}", "product": "tea", "price": 4.0, "currency": "EUR", "at": "2026-11-18T08:00:00Z"}
    return {**usual, **other}


def gate_orders() -> list[dict[str, Any] | str]:
    """One for each thing that is expected, and one that is as it should be."""
    return [
        gate_order(1),
        gate_order(2, id=None),
        gate_order(3, price=-4.0),
        gate_order(4, at="2999-01-01T00:00:00Z"),
        gate_order(5, product="test"),
        gate_order(6, price=2000.0),
        "no order",
    ]


def test_the_gate_lets_through_what_is_as_expected(tidelog_pipeline: Make) -> None:
    pipeline = tidelog_pipeline(EXAMPLES / "quality_gate.py")
    pipeline.given("orders.raw", gate_orders())

    (progress,) = pipeline.run()

    pipeline.expect("orders.clean", [{"id": "o1", "price": 4.0}, {"id": "o6", "price": 2000.0}])
    assert [each.reason for each in pipeline.dead_letters()] == [
        "an order has an id",
        "the price is not negative",
        "it is not from the future",
        "the value cannot be decoded",
    ]
    (query,) = progress.queries
    assert {each.name: each.violated for each in query.expectations} == {
        "an order has an id": 1,
        "the price is not negative": 1,
        "it is not from the future": 1,
        "it is no trial of a till's": 1,
        "it is a usual price": 1,
        "it is paid in euros": 0,
    }
    pipeline.given("orders.raw", [gate_order(7), gate_order(8, currency="USD")])
    with pytest.raises(QueryFailedError, match="it is paid in euros"):
        pipeline.run()
    pipeline.expect("orders.clean", [{"id": "o1"}, {"id": "o6"}])


def test_a_day_of_the_archive_becomes_a_topic_again(
    tidelog_pipeline: Make, spark: SparkSession, cluster: EmbeddedCluster, topic: str
) -> None:
    pipeline = tidelog_pipeline(EXAMPLES / "archive.py", partitions=2)
    headers = [("by", b"till 7")]
    of_day = [Record(f"order {n}", f"k{n}", at(f"08:0{n}:00"), headers, partition=n % 2) for n in range(4)]
    later = Record("order 9", "k9", at("08:00:00") + dt.timedelta(days=1), partition=0)
    pipeline.given("orders", [*of_day, later, Record(None, "k9", at("09:00:00"), partition=1)])
    pipeline.run()
    records = spark.read.parquet(pipeline.world.file.beside("files/archive")).where("day = '2026-11-18'")

    for _ in range(2):
        replay(records, topic, f"replay {topic}", cluster.bootstrap_servers)

    again = spark.read.format("tidelog").options(
        **{"kafka.bootstrap.servers": cluster.bootstrap_servers, "subscribe": topic, "includeHeaders": "true"},
        **{"kafka.isolation.level": "read_committed"},
    )
    found = again.load().orderBy("partition", "offset").select("key", "value", "timestamp", "partition", "headers")
    assert [
        (
            bytes(row.key),
            row.value and bytes(row.value),
            row.timestamp.minute,
            row.partition,
            row.headers and len(row.headers),
        )
        for row in found.collect()
    ] == [
        (b"k0", b"order 0", 0, 0, 1),
        (b"k2", b"order 2", 2, 0, 1),
        (b"k1", b"order 1", 1, 1, 1),
        (b"k3", b"order 3", 3, 1, 1),
        (b"k9", None, 0, 1, None),
    ]
    assert len(pipeline.result()) == 6


@pytest.mark.parametrize("name", PAGE_OF)
def test_a_page_shows_its_file_and_the_picture_of_it(name: str, tmp_path: Path) -> None:
    """Draw it again: tidelog pipeline show examples/pipelines/FILE --svg docs/images/example-PAGE.svg."""
    page, picture = (PAGES / f"{PAGE_OF[name]}.md").read_text(), f"example-{PAGE_OF[name]}.svg"
    # It is not repeated on the page what the file is for, and how it is run from a clone.
    shown = re.sub(r'\A(""".*?"""|--.*?(?=/\* pipeline))\s*', "", (EXAMPLES / name).read_text(), flags=re.DOTALL)
    copied = tmp_path / name
    copied.write_text(shown)

    assert tidelog("pipeline", "show", copied, "--svg", tmp_path / picture).exit_code == 0

    assert f"<!-- test: file {name} -->" in page
    assert shown in page
    assert f"](../images/{picture})" in page
    assert (tmp_path / picture).read_text() == (ROOT / "docs" / "images" / picture).read_text()


def test_every_page_is_listed_and_has_its_example() -> None:
    index = (PAGES / "README.md").read_text()
    assert {each.stem for each in PAGES.glob("*.md")} - {"README"} == set(PAGE_OF.values())
    assert all(f"]({page}.md)" in index and f"/{name})" in index for name, page in PAGE_OF.items())
    replays = (EXAMPLES / "replay_archive.py").read_text().split('"""\n\n', 1)[1]
    assert replays in (PAGES / "archive-and-replay.md").read_text()
