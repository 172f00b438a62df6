"""The pipelines: three streaming queries of Spark over the orders, each of which counts every event once.

    python -m examples.orders_demo.pipeline BOOTSTRAP DIRECTORY

    orders -> decoded -+-> dead letters                            -> topic `dead-letters`
                       +-> orders ⋈ payments                       -> Delta table DIRECTORY/paid_orders
                       |                                            + table paid_orders of DIRECTORY/shop.db (SQLite)
                       |                                            + topic `paid-orders`
                       +-> orders ⋈ payments -> a minute's revenue -> topic `revenue`

What is paid is a declared pipeline with three sinks: a batch of it counts in all of them or in none, and is accounted for. Killed
and started again, it goes on from its checkpoints, DIRECTORY/checkpoints. When its standard input ends, it reads to the
end of what is there, and stops. On its standard output it says when it is ready, and of each batch what it did, in lines of
JSON.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from pathlib import Path

from pyspark.sql import Column, DataFrame, SparkSession, functions as F  # noqa: N812 - as everybody calls them
from pyspark.sql.streaming.listener import (
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
    StreamingQueryProgress,
)
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from examples.orders_demo.shop import (
    ALLOWED_LATENESS_MS,
    DEAD_LETTERS,
    ORDERS,
    PAID,
    PAYMENT_WITHIN_MS,
    REVENUE,
    REVENUE_GROUP,
    STATES,
    WATERMARK_DELAY_MS,
)
from tidelog.spark.decoding import from_json
from tidelog.spark.java_home import ensure_java
from tidelog.spark.pipelines import FromTopic, Pipeline as Declared, ToDatabase, ToTable, ToTopic
from tidelog.spark.pipelines.pipeline_file import PipelineFile
from tidelog.spark.pipelines.pipeline_run import PipelineRun
from tidelog.spark.worker_python import worker_python

EVENT = "order string, state string, at_ms bigint, product string, cents bigint"
PAID_ORDERS = "paid_orders"
TRIGGER = "1 second"
START_ATTEMPTS_MAX = 3
START_POLL_S = 0.05
WATCH_S = 0.2


def local_session() -> SparkSession:
    """Spark on this machine alone, set up for small batches that follow each other quickly."""
    ensure_java()
    # Without it workers of another interpreter would be looked for.
    os.environ["PYSPARK_PYTHON"] = worker_python()
    manager = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    session = (
        SparkSession.builder.master("local[2]")
        .appName("orders")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.memory", "1g")
        # It lives for a minute: what a compiler or collector for long runs does would not pay.
        .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
        .config("spark.sql.codegen.wholeStage", "false")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", "1")
        .config("spark.sql.streaming.checkpointFileManagerClass", manager)
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    return session


def read_orders(spark: SparkSession, bootstrap: str, group: str) -> DataFrame:
    """The topic as a stream. How far the query has read shows as the offsets of a group, as with any consumer."""
    return (
        spark.readStream.format("tidelog")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", ORDERS)
        .option("startingOffsets", "earliest")
        .option("kafka.group.id", group)
        .load()
    )


def decoded(records: DataFrame) -> DataFrame:
    """The records with what they say, and with what is wrong with them: null, `broken` or `late`."""
    event = F.col("event")
    needed = [event["order"], event["at_ms"], event["state"]]
    is_placed, is_paid = event["state"] == "placed", event["state"] == "paid"
    is_broken = (
        ~event["state"].isin(*STATES)
        | (is_placed & (event["product"].isNull() | event["cents"].isNull()))
        | (is_paid & event["cents"].isNull())
    )
    for field in needed:
        is_broken = field.isNull() | is_broken
    is_late = F.unix_millis("timestamp") - event["at_ms"] > ALLOWED_LATENESS_MS
    problem = F.when(is_broken, "broken").when(is_late, "late")
    return records.withColumn("event", from_json("value", EVENT)).withColumn("problem", problem)


def dead_letters(records: DataFrame) -> DataFrame:
    """What cannot be counted, as it came, with the reason and the place where it stood."""
    place = F.concat_ws("-", "topic", "partition", "offset")
    headers = F.array(_header("reason", F.col("problem")), _header("place", place))
    return records.where("problem is not null").select("key", "value", headers.alias("headers"))


def _header(name: str, value: Column) -> Column:
    return F.struct(F.lit(name).alias("key"), value.cast("binary").alias("value"))


def paid_orders(records: DataFrame) -> DataFrame:
    """Each order with its payment, once. An order has the product, a payment the time and the amount."""
    events = (
        records.where("problem is null")
        .select("event.*", F.timestamp_millis("event.at_ms").alias("at"))
        .withWatermark("at", f"{WATERMARK_DELAY_MS} milliseconds")
    )
    placed = events.where("state = 'placed'").selectExpr("order", "product", "at as placed_at")
    paid = events.where("state = 'paid'").selectExpr("order as paid_order", "cents", "at as paid_at")
    is_its_payment = F.expr(
        f"order = paid_order and paid_at >= placed_at and paid_at <= placed_at + interval {PAYMENT_WITHIN_MS // 1000} seconds"
    )
    # An event that was sent twice makes several pairs, which are alike.
    return (
        placed.join(paid, is_its_payment)
        .select("order", "product", "cents", "paid_at")
        .dropDuplicates(["order", "paid_at"])
    )


def revenue(orders: DataFrame) -> DataFrame:
    """What each product brought in each minute: one row, when nothing more can come for that minute."""
    counted = orders.groupBy(F.window("paid_at", "1 minute"), "product").agg(
        F.count("*").alias("orders"), F.sum("cents").alias("cents")
    )
    row = F.struct(F.unix_millis("window.start").alias("minute_ms"), "product", "orders", "cents")
    return counted.select(F.col("product").cast("binary").alias("key"), F.to_json(row).cast("binary").alias("value"))


def declared_paid_orders(bootstrap: str, directory: Path) -> Declared:
    """One decision a batch over a table, a database and a topic."""
    database = ToDatabase(
        f"sqlite:///{directory / 'shop.db'}",
        name="database",
        table=PAID_ORDERS,
        # By which a row tells its batch, so that an audit can read it again.
        options={"batch_column": "batch"},
    )
    return Declared(
        name=PAID_ORDERS,
        source=FromTopic(ORDERS, options={"kafka.isolation.level": "read_uncommitted"}),
        transform=lambda orders: paid_orders(decoded(orders.select("record.*"))),
        sink=[
            ToTable(str(directory / PAID_ORDERS), format="delta", name="table"),
            database,
            ToTopic(PAID, key="order"),
        ],
        trigger=TRIGGER,
        bootstrap=bootstrap,
    )


class Pipeline:
    """The three queries, each with its checkpoint."""

    def __init__(self, spark: SparkSession, bootstrap: str, directory: Path) -> None:
        self._spark = spark
        self._bootstrap = bootstrap
        self._directory = directory

    def start(self) -> list[StreamingQuery]:
        """Start all queries, each where it is."""
        dead = self._to_topic(dead_letters(self._read("dead_letters")), DEAD_LETTERS)
        counted = self._to_topic(revenue(paid_orders(self._read(REVENUE_GROUP))), REVENUE)
        return [self._started("dead_letters", dead), self._paid(), self._started("revenue", counted)]

    def _paid(self) -> StreamingQuery:
        declared = declared_paid_orders(self._bootstrap, self._directory)
        run = PipelineRun(self._spark, PipelineFile(self._directory / "orders.py", [declared], []))
        run.start()
        (query,) = run.queries
        return query

    def _read(self, group: str) -> DataFrame:
        return decoded(read_orders(self._spark, self._bootstrap, group))

    def _to_topic(self, rows: DataFrame, topic: str) -> DataStreamWriter:
        return (
            rows.writeStream.format("tidelog")
            .option("kafka.bootstrap.servers", self._bootstrap)
            .option("topic", topic)
            .option("delivery", "exactly_once")
        )

    def _started(self, name: str, writer: DataStreamWriter) -> StreamingQuery:
        checkpoint = str(self._directory / "checkpoints" / name)
        named = writer.queryName(name).outputMode("append").option("checkpointLocation", checkpoint)
        query = named.trigger(processingTime=TRIGGER).start()
        for _ in range(START_ATTEMPTS_MAX):
            # Each source is a Python process, and Spark gives it ten seconds to call back. So one query starts after another,
            # and on a machine that is too busy even for that it tries again.
            while query.isActive and query.status["message"] == "Initializing sources":
                time.sleep(START_POLL_S)
            if query.isActive:
                break
            query = named.start()
        return query


class Teller(StreamingQueryListener):
    """Says on standard output what each batch did."""

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802 - Spark's name
        pass

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802
        tell_of(event.progress)

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802
        pass


class Follower:
    """Says the same of a query that listeners do not hear of: that of a pipeline has a session of its own."""

    def __init__(self, query: StreamingQuery) -> None:
        self._query = query
        self._told: set[tuple[int, str]] = set()

    def look(self) -> None:
        for progress in self._query.recentProgress:
            if (progress.batchId, progress.timestamp) not in self._told:
                self._told.add((progress.batchId, progress.timestamp))
                tell_of(progress)


def tell_of(progress: StreamingQueryProgress) -> None:
    # A row that the watermark shut out would be lost without a word.
    dropped = sum(operator.numRowsDroppedByWatermark for operator in progress.stateOperators)
    tell(query=progress.name, batch=progress.batchId, rows=progress.numInputRows, dropped=dropped)


def tell(**what: object) -> None:
    print(json.dumps(what), flush=True)


def run(bootstrap: str, directory: Path) -> None:
    spark = local_session()
    spark.streams.addListener(Teller())
    queries = Pipeline(spark, bootstrap, directory).start()
    paid = Follower(queries[1])
    tell(ready=True)
    input_ended = threading.Event()

    def read_input() -> None:
        sys.stdin.read()
        input_ended.set()

    threading.Thread(target=read_input, name="standard input", daemon=True).start()
    while not input_ended.wait(WATCH_S):
        paid.look()
        for query in queries:
            failed = query.exception()
            if failed is not None:
                raise failed
    for query in queries:
        query.processAllAvailable()
        query.stop()
    paid.look()
    spark.stop()


def main() -> None:
    if len(sys.argv) != 3:
        sys.exit("usage: python -m examples.orders_demo.pipeline BOOTSTRAP DIRECTORY")
    run(sys.argv[1], Path(sys.argv[2]))


if __name__ == "__main__":
    main()
