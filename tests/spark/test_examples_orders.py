"""The pipeline of the orders demo, stopped in the middle and started again, beside what the generator says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from examples.orders_demo.generator import plan, write
from examples.orders_demo.pipeline import Pipeline
from examples.orders_demo.shop import DEAD_LETTERS, ORDERS, PAID, PARTITIONS, REVENUE
from examples.orders_demo.verification import (
    CheckError,
    check_audited,
    check_dead_letters,
    check_orders,
    check_revenue,
    check_table,
    database_rows,
    expected_of,
    read_audited,
    read_committed,
    table_rows,
    topic_rows,
)
from tidelog.spark.pipelines.audit_verification import Outcome
from tidelog.testing import EmbeddedCluster

AT_ONCE = float("inf")


def test_the_pipeline_counts_every_order_once(spark: SparkSession, cluster: EmbeddedCluster, tmp_path: Path) -> None:
    for topic, partitions in ((ORDERS, PARTITIONS), (REVENUE, 2), (PAID, 2), (DEAD_LETTERS, 1)):
        cluster.create_topic(topic, partitions=partitions)
    bootstrap = cluster.bootstrap_servers
    stream = plan(seed=11, orders=300, minutes=20)
    middle = len(stream) // 2

    for part in (stream[:middle], stream[middle:]):
        write(bootstrap, tmp_path / "orders.jsonl", part, speed=AT_ONCE)
        for query in Pipeline(spark, bootstrap, tmp_path).start():
            query.processAllAvailable()
            query.stop()

    expected = expected_of(stream)
    check_orders(expected, read_committed(bootstrap, ORDERS))
    check_revenue(expected, read_committed(bootstrap, REVENUE))
    check_dead_letters(expected, read_committed(bootstrap, DEAD_LETTERS))
    check_table("table", expected, table_rows(tmp_path / "paid_orders"))
    check_table("database", expected, database_rows(tmp_path / "shop.db"))
    check_table("topic", expected, topic_rows(read_committed(bootstrap, PAID)))
    batches = read_audited(bootstrap, "paid_orders")
    assert {name: each.outcome for _, sinks in batches for name, each in sinks.items()} == {
        "table": Outcome.SAME,
        "database": Outcome.SAME,
        PAID: Outcome.SAME,
    }
    told = check_audited("paid_orders", batches)
    assert len(told) == 1 + len(batches) + 3
    assert re.fullmatch(rf"batch 0, {ORDERS}-0 from its beginning to \d+, .*: [\d,]+ rows", told[1])

    # What is gone is no success.
    DeltaTable(tmp_path / "paid_orders").delete()
    with pytest.raises(CheckError, match=r"the sink table is different in batch \d+ of paid_orders: rows of .* DELETE"):
        check_audited("paid_orders", read_audited(bootstrap, "paid_orders"))
