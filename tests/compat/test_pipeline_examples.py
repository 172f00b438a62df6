"""The examples that people copy, with their driver killed behind every step of a batch: minutes of drivers that die."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.spark.test_pipeline_examples import (
    CLICKS,
    EXAMPLES,
    ORDERS,
    PAYMENTS,
    VISITS,
    Make,
    at,
    click,
    gate_orders,
    mended_till_orders,
    shop,
    till_orders,
    visit,
)
from tidelog.spark.testing_kit.given_records import Record

__all__ = ["shop"]

pytestmark = [pytest.mark.compat, pytest.mark.timeout(1800)]


def debezium_events() -> list[Record]:
    """What Debezium has written of a table: see the example."""
    lines = (EXAMPLES / "customers.events.jsonl").read_text().splitlines()
    return [Record(each["value"], key=each["key"]) for each in map(json.loads, lines)]


CUSTOMERS = [
    {"id": 1, "name": "name 1", "email": "back@example.com", "phone": None},
    {"id": 2, "name": "name 2", "email": "last@example.com", "phone": None},
    {"id": 3, "name": "name 3", "email": "second@example.com", "phone": None},
    {"id": 4, "name": "name 4", "email": "third@example.com", "phone": None},
    {"id": 5, "name": "name 5", "email": "fourth@example.com", "phone": None},
    *({"id": each, "name": f"name {each}", "email": None, "phone": f"0{each}"} for each in (6, 7, 8)),
]


def test_change_events_keep_both_tables_of_the_customers_and_survive_kills(tidelog_pipeline: Make) -> None:
    pipeline = tidelog_pipeline(EXAMPLES / "customers.py")
    events = debezium_events()
    pipeline.given("shop.public.customers", events[:8])
    pipeline.run()
    pipeline.given("shop.public.customers", events[8:])
    pipeline.run()
    report = pipeline.survives_kills()

    pipeline.expect("lake", CUSTOMERS)
    pipeline.expect("customers", CUSTOMERS)
    assert pipeline.dead_letters() == []

    assert {"decision", "end of lake", "end of customers"} <= {kill.step for kill in report.kills}


def test_a_visit_goes_on_in_the_next_run_and_survives_kills(tidelog_pipeline: Make) -> None:
    pipeline = tidelog_pipeline(EXAMPLES / "visits.sql")
    pipeline.given("clicks", [*CLICKS, "no click"])
    pipeline.run()
    pipeline.given("clicks", [click("ann", "/pay", "08:58:00")])
    pipeline.advance_time("2 hours")
    pipeline.run()
    report = pipeline.survives_kills()

    pipeline.expect("visits", [*VISITS, visit("ann", "08:56:00", "08:58:00", 2, "/", "/pay")])
    assert {kill.query for kill in report.kills} == {"visits"}


def test_orders_that_wait_for_their_payments_survive_kills(tidelog_pipeline: Make) -> None:
    pipeline = tidelog_pipeline(EXAMPLES / "paid_orders.py")
    pipeline.given("orders", ORDERS)
    pipeline.run()
    pipeline.given("payments", PAYMENTS)
    pipeline.advance_time("2 hours")

    report = pipeline.survives_kills()

    # The batch with the most rows is that of the unpaid ones.
    assert {"decision", "end of topics"} <= {kill.step for kill in report.kills}


def test_a_window_goes_on_where_the_run_before_has_left_it_and_survives_kills(tidelog_pipeline: Make) -> None:
    pipeline = tidelog_pipeline(EXAMPLES / "revenue.py")
    pipeline.given("orders", ORDERS)
    pipeline.run()
    pipeline.given("orders", [{"id": "o4", "product": "tea", "price": 6.0, "at": "2026-11-18T08:02:59Z"}])
    pipeline.advance_time("10 minutes")
    pipeline.run()

    pipeline.expect(
        "revenue",
        [
            {"product": "tea", "minute": at("08:00:00"), "orders": 1, "revenue": 4.0},
            {"product": "rice", "minute": at("08:01:00"), "orders": 1, "revenue": 2.5},
            {"product": "tea", "minute": at("08:02:00"), "orders": 2, "revenue": 10.0},
        ],
    )
    assert pipeline.survives_kills().kills


def test_enriched_orders_and_unknown_products_survive_kills(
    tidelog_pipeline: Make, shop: Callable[[str], None]
) -> None:
    pipeline = tidelog_pipeline(EXAMPLES / "enriched_orders.py")
    pipeline.given("orders", [{"id": "o1", "sku": "t1", "price": 4.0}, {"id": "o2", "sku": "x9", "price": 1.0}])

    assert pipeline.survives_kills().kills


def test_the_archive_survives_kills(tidelog_pipeline: Make) -> None:
    pipeline = tidelog_pipeline(EXAMPLES / "archive.py", partitions=2)
    pipeline.given("orders", ["tea", "rice", None])

    assert pipeline.survives_kills().kills


def test_letters_that_went_back_to_a_mended_pipeline_survive_kills(tidelog_pipeline: Make, tmp_path: Path) -> None:
    pipeline = tidelog_pipeline(EXAMPLES / "till_orders.py")
    pipeline.given("till.orders", [*till_orders(), "PAPER JAM"])
    pipeline.run()
    pipeline.upgrade(mended_till_orders(tmp_path))
    pipeline.replay_dead_letters()

    assert pipeline.survives_kills().kills


def test_what_the_gate_lets_through_and_what_it_keeps_survive_kills(tidelog_pipeline: Make) -> None:
    pipeline = tidelog_pipeline(EXAMPLES / "quality_gate.py")
    pipeline.given("orders.raw", gate_orders())

    assert pipeline.survives_kills().kills
