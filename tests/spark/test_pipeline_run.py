"""Pipelines run by a real Spark against a real cluster, to the end and again."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from tests.spark.topics import fill
from tests.support.command_line import json_lines, tidelog
from tidelog import Producer
from tidelog.spark.pipelines import FromTopic, Json, Pipeline, Text, ToTable, ToTopic, Watermark
from tidelog.spark.pipelines.checkpoint_files import CheckpointFiles
from tidelog.spark.pipelines.errors import DefinitionError, QueryFailedError
from tidelog.spark.pipelines.pipeline_file import PipelineFile, load_pipelines
from tidelog.spark.pipelines.pipeline_run import PipelineRun
from tidelog.spark.pipelines.progress import PipelineProgress, read_progress
from tidelog.spark.pipelines.query_plan import plan_checked, plan_pipeline
from tidelog.spark.pipelines.schema_text import SIMPLE_TYPES, unknown_types
from tidelog.spark.pipelines.validation import check_pipeline
from tidelog.testing import EmbeddedCluster

ORDER = Json("id string, product string, price double, at timestamp")


def send(cluster: EmbeddedCluster, topic: str, values: Iterable[str | bytes]) -> None:
    with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        sent = [
            producer.send(topic, each if isinstance(each, bytes) else each.encode(), headers=[("trace", b"%d" % index)])
            for index, each in enumerate(values)
        ]
        for each in sent:
            each.result(30)


def order(number: int, price: float, second: int) -> str:
    at = f"2026-11-16T08:{second // 60:02}:{second % 60:02}Z"
    return json.dumps({"id": f"o{number}", "product": f"p{number % 2}", "price": price, "at": at})


def committed(cluster: EmbeddedCluster, topic: str, expected: int) -> list[tuple[str | None, str, dict[str, str]]]:
    """Key, value and headers of all records that a reader of what is committed sees, with librdkafka."""
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": f"reader-of-{topic}",
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
            "enable.partition.eof": False,
        }
    )
    consumer.subscribe([topic])
    found: list[tuple[str | None, str, dict[str, str]]] = []
    try:
        while len(found) < expected:
            polled = consumer.consume(expected - len(found), timeout=30)
            assert polled, f"only {len(found)} of {expected} are there"
            for each in polled:
                assert each.error() is None, each.error()
                given: Any = each.headers() or []
                headers = {name: bytes(text or b"").decode() for name, text in given}
                key: Any = each.key()
                value: Any = each.value() or b""
                found.append((None if key is None else key.decode(), value.decode(), headers))
        # One poll more shows what is there too often.
        found += [("too many", str(each.value()), {}) for each in consumer.consume(1, timeout=0.5)]
    finally:
        consumer.close()
    return found


def run_to_the_end(spark: SparkSession, directory: Path, *pipelines: Pipeline) -> list[PipelineProgress]:
    run = PipelineRun(spark, PipelineFile(directory / "jobs.py", pipelines, []), until_caught_up=True)
    run.start()
    seen: list[Sequence[PipelineProgress]] = []
    run.follow(seen.append)
    assert seen[-1] == run.progress
    return run.progress


def test_orders_become_revenue_and_broken_ones_dead_letters_each_once(
    spark: SparkSession, cluster: EmbeddedCluster, topic: str, tmp_path: Path
) -> None:
    pipeline = Pipeline(
        name=f"revenue-{topic}",
        source=FromTopic(
            topic,
            ORDER,
            name="orders",
            expect={"the price is not negative": "price >= 0"},
            dead_letters=f"{topic}.dead",
            watermark=Watermark("at", "10 seconds"),
        ),
        transform="""
            SELECT product, window.start AS minute, count(*) AS orders, sum(price) AS revenue
            FROM orders GROUP BY product, window(at, '1 minute')
        """,
        sink=ToTopic(f"{topic}.revenue", key="product"),
        bootstrap=cluster.bootstrap_servers,
    )
    cluster.create_topic(f"{topic}.revenue", partitions=1)
    cluster.create_topic(f"{topic}.dead", partitions=1)
    send(cluster, topic, [order(number, 1.5, second=number) for number in range(20)])
    send(
        cluster,
        topic,
        ["no json", '{"id": 5, "price": "much"}', b"", order(98, -1, second=3), order(99, 7, second=600)],
    )

    (progress,) = run_to_the_end(spark, tmp_path, pipeline)

    (main,) = progress.queries
    # Each record is read once, though some become dead letters and the others are summed up.
    assert (main.query, main.state, main.run_rows, main.lag) == (pipeline.name, "caught up", 25, 0)
    rows = [(key, json.loads(value)) for key, value, _ in committed(cluster, f"{topic}.revenue", 2)]
    minute = {"minute": "2026-11-16T08:00:00.000Z", "orders": 10, "revenue": 15.0}
    assert sorted(rows, key=str) == [(f"p{n}", {"product": f"p{n}", **minute}) for n in range(2)]
    letters = committed(cluster, f"{topic}.dead", 4)
    assert sorted((value, headers["tidelog.dead-letter.reason"]) for _, value, headers in letters) == [
        ("", "the value cannot be decoded"),
        ("no json", "the value cannot be decoded"),
        (order(98, -1, second=3), "the price is not negative"),
        ('{"id": 5, "price": "much"}', "the value cannot be decoded"),
    ]
    (headers,) = (headers for _, value, headers in letters if value == "no json")
    assert (headers["trace"], headers["tidelog.dead-letter.topic"]) == ("0", topic)
    assert set(headers) == {
        "trace",
        *(
            f"tidelog.dead-letter.{name}"
            for name in ("pipeline", "reason", "topic", "partition", "offset", "timestamp")
        ),
    }

    # What comes later goes on where this has ended, with the state that it left.
    send(cluster, topic, [order(100, 2.5, second=601), order(101, 1, second=1200)])
    (again,) = run_to_the_end(spark, tmp_path, pipeline)
    assert again.queries[0].run_rows == 2
    assert again.queries[0].query_id == main.query_id
    later = [json.loads(value) for _, value, _ in committed(cluster, f"{topic}.revenue", 2)]
    assert sorted((row["product"], row["orders"], row["revenue"]) for row in later) == [("p0", 1, 2.5), ("p1", 1, 7.0)]

    file = tmp_path / "status.py"
    file.write_text(
        textwrap.dedent(f"""
        from tidelog.spark.pipelines import FromTopic, Json, Pipeline, ToTopic

        pipeline = Pipeline(
            name={pipeline.name!r},
            source=FromTopic({topic!r}, Json("id string"), dead_letters="d"),
            sink=ToTopic("t"),
        )
        """)
    )
    (status,) = json_lines(tidelog("pipeline", "status", file, "--bootstrap", cluster.bootstrap_servers, "--json"))
    assert (status["state"], status["lag"], status["batch_rows"]) == ("caught up", 0, 2)
    assert status["query_id"] == main.query_id


def test_a_query_that_ends_after_it_was_looked_at_is_told_with_how_it_ended(
    spark: SparkSession, cluster: EmbeddedCluster, topic: str, tmp_path: Path
) -> None:
    cluster.create_topic(f"{topic}.copy", partitions=1)
    send(cluster, topic, ["{}"])
    pipeline = Pipeline(
        name=f"copy-{topic}",
        source=FromTopic(topic, Text()),
        sink=ToTopic(f"{topic}.copy"),
        bootstrap=cluster.bootstrap_servers,
    )
    run = PipelineRun(spark, PipelineFile(tmp_path / "jobs.py", [pipeline], []))
    run.start()

    def end(progress: Sequence[PipelineProgress]) -> None:
        for each in run.queries:
            each.stop()

    run.follow(end)

    assert [each.state for each in run.progress[0].queries] == ["caught up"]
    assert read_progress(CheckpointFiles.at(str(tmp_path / "checkpoints" / pipeline.name), {})) == run.progress[0]


def test_a_function_joins_two_topics_into_a_table_by_day(
    spark: SparkSession, cluster: EmbeddedCluster, topic: str, tmp_path: Path
) -> None:
    def joined(orders: DataFrame, payments: DataFrame) -> DataFrame:
        return orders.join(payments, orders.id == payments.order_id).selectExpr("id", "price", "paid", "'d1' AS day")

    cluster.create_topic(f"{topic}.paid", partitions=1)
    send(cluster, topic, [order(number, number, second=number) for number in range(4)])
    send(cluster, f"{topic}.paid", ['{"order_id": "o1", "paid": 1}', '{"order_id": "o3", "paid": 3}'])
    pipeline = Pipeline(
        name=f"paid-{topic}",
        source=[
            FromTopic(topic, ORDER, name="orders"),
            FromTopic(f"{topic}.paid", Json("order_id string, paid double"), name="payments"),
        ],
        transform=joined,
        sink=ToTable("tables/paid", partition_by=["day"]),
        bootstrap=cluster.bootstrap_servers,
    )

    (progress,) = run_to_the_end(spark, tmp_path, pipeline)

    assert progress.queries[0].run_rows == 6
    assert read_progress(CheckpointFiles.at(str(tmp_path / "checkpoints" / pipeline.name), {})) == progress
    rows = spark.read.parquet(str(tmp_path / "tables" / "paid")).orderBy("id").collect()
    assert [tuple(row) for row in rows] == [("o1", 1.0, 1.0, "d1"), ("o3", 3.0, 3.0, "d1")]


def test_a_value_that_cannot_be_decoded_stops_a_pipeline_without_dead_letters(
    spark: SparkSession, cluster: EmbeddedCluster, topic: str, tmp_path: Path
) -> None:
    cluster.create_topic(f"{topic}.other", partitions=1)
    send(cluster, topic, ["no json"])
    fill(cluster.bootstrap_servers, f"{topic}.other", range(3), partition=0)
    broken = Pipeline(
        name=f"broken-{topic}",
        source=FromTopic(topic, ORDER),
        sink=ToTable("tables/broken"),
        bootstrap=cluster.bootstrap_servers,
    )
    fine = replace(
        broken, name=f"fine-{topic}", source=FromTopic(f"{topic}.other", Text()), sink=ToTable("tables/fine")
    )
    run = PipelineRun(spark, PipelineFile(tmp_path / "jobs.py", [fine, broken], []))

    run.start()
    with pytest.raises(QueryFailedError, match=rf"^broken-{topic}: .*[Mm]alformed record"):
        run.follow(lambda _: None)

    states = {each.queries[0].query: each.queries[0].state for each in run.progress}
    assert states == {fine.name: "stopped", broken.name: "failed"}
    left = read_progress(CheckpointFiles.at(str(tmp_path / "checkpoints" / broken.name), {}))
    assert left is not None
    assert "alformed" in (left.queries[0].error or "")


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"transform": "SELECT nope FROM orders"}, r"`nope` cannot be resolved\. Did you mean .*`product`"),
        ({"transform": "SELEC id FROM orders"}, "Syntax error at or near 'SELEC'"),
        ({"transform": "SELECT product, count(*) FROM orders GROUP BY product"}, "without watermark"),
        ({"transform": "SELECT 1 AS one"}, "does not come from the source"),
        ({"transform": lambda orders: orders.count}, "the function returns method"),
        ({"sink": ToTopic("t", key="nope")}, "`nope` cannot be resolved"),
        ({"sink": ToTopic("t", encode="columns")}, "encode is columns, and what comes out has no column value"),
        ({"source": FromTopic("o", name="orders")}, "nothing but record comes out"),
        ({"sink": ToTable("t", format="xml2")}, "Spark has no format xml2: the jar that brings it is not there"),
        ({"sink": ToTable("t", format="jdbc")}, "Spark writes no streams in the format jdbc"),
        ({"source": FromTopic("o", Json("id bigin"), name="orders")}, 'Unsupported data type "BIGIN"'),
        ({"source": FromTopic("o", Json("record string"), name="orders")}, "the values have a column record"),
    ],
)
def test_what_only_spark_can_know_is_told_before_anything_runs(
    spark: SparkSession, changes: dict[str, object], sentence: str
) -> None:
    pipeline = Pipeline(name="p", source=FromTopic("o", ORDER, name="orders"), sink=ToTopic("t"))

    with pytest.raises(DefinitionError, match=f"^p: .*{sentence}"):
        plan_pipeline(spark, replace(pipeline, **changes))  # type: ignore[arg-type]  # each by its name


def test_formats_that_spark_has_are_none_of_its_business(spark: SparkSession) -> None:
    pipeline = Pipeline(name="p", source=FromTopic("o", ORDER, name="orders"), sink=ToTopic("t"))

    for name in ("parquet", "json", "csv", "orc", "console", "noop", "tidelog"):
        assert plan_pipeline(spark, replace(pipeline, sink=ToTable("t", format=name)))


def test_all_that_spark_can_know_is_told_at_once(spark: SparkSession) -> None:
    orders = FromTopic(
        "o", ORDER, name="orders", expect={"it is cheap": "prize < 5", "it is sold": "id <"}, dead_letters="dead"
    )
    pipeline = Pipeline(name="p", source=orders, transform="SELEC id FROM orders", sink=ToTopic("t", key="id +"))

    with pytest.raises(DefinitionError) as raised:
        plan_pipeline(spark, pipeline)

    found = raised.value.problems
    assert [each[: each.index("Syntax" if "Syntax" in each else "A column")] for each in found] == [
        "p: source: expect 'it is cheap': ",
        "p: source: expect 'it is sold': ",
        "p: transform: ",
        "p: sink: ",
    ]


def test_what_depends_on_a_mistake_is_only_read(spark: SparkSession) -> None:
    orders = FromTopic("o", Json("id bigin"), name="orders", expect={"it is sold": "id <"}, dead_letters="dead")
    checked = check_pipeline(
        Pipeline(
            name="p",
            source=[orders, FromTopic("p", ORDER, options={"startingOffset": "x"}), FromTopic("q", Text("a b"))],
            transform="SELECT id, any FROM orders JOIN p USING (id) JOIN",
            sink=ToTopic("t", key="any", encode="xml"),
        )
    )

    queries, found = plan_checked(spark, checked)

    assert queries == []
    assert len(checked.problems) == 4
    assert [each[: each.index("Syntax")] for each in found] == ["p: source 1: expect 'it is sold': ", "p: transform: "]


def test_a_function_that_raises_is_a_sentence(spark: SparkSession) -> None:
    def transform(orders: DataFrame) -> DataFrame:
        raise KeyError("price")

    pipeline = Pipeline(name="p", source=FromTopic("o", ORDER), transform=transform, sink=ToTopic("t"))

    with pytest.raises(DefinitionError, match=r"^p: transform: the function raises KeyError: 'price'$"):
        plan_pipeline(spark, pipeline)


def test_the_types_of_a_schema_are_sparks(spark: SparkSession) -> None:
    for name in sorted(SIMPLE_TYPES):
        length = "(10)" if name in {"char", "character", "varchar", "geometry", "geography"} else ""
        text = f"a {name}{length}, b array<{name}{length}>, c map<string, struct<d: {name}{length} NOT NULL>>"
        if name in {"geometry", "geography"}:
            text = text.replace("(10)", "(4326)")
        assert unknown_types(text) == []
        assert StructType.fromDDL(text) is not None
    for name in ("bigin", "bool", "text", "datetime", "float64"):
        assert len(unknown_types(f"a int, b {name}")) == 1
        with pytest.raises(PySparkException):
            StructType.fromDDL(f"a int, b {name}")


def test_the_examples_have_no_mistake(spark: SparkSession) -> None:
    folder = Path(__file__).resolve().parents[2] / "examples" / "pipelines"
    # Some of them are programs that read what a pipeline has written.
    files = [path for path in sorted(folder.glob("*.py")) if "Pipeline(" in path.read_text()]
    assert len(files) > 5
    for path in files:
        for pipeline in load_pipelines(path).pipelines:
            assert plan_pipeline(spark, pipeline)
