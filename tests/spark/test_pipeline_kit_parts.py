"""What the kit does without Spark: rows compared, names of a test's own, durations, and a start of pytest that stays light."""

from __future__ import annotations

import datetime as dt
import decimal
import subprocess
import sys

import pytest

from tidelog.spark.pipelines import FromTopic, Json, Pipeline, ToFiles, ToTable, ToTopic, Watermark
from tidelog.spark.pipelines.validation import problems_of
from tidelog.spark.testing_kit.errors import PipelineTestError, RowsDifferError
from tidelog.spark.testing_kit.isolation import Place, in_reading_order, isolated, source_topics, written_topics
from tidelog.spark.testing_kit.row_differences import SHOWN_MAX, check_rows, differences
from tidelog.spark.testing_kit.time_marks import duration_of

ORDERS = FromTopic("orders", Json("id string"))


def test_rows_are_compared_as_often_as_they_are_there_in_any_order() -> None:
    expected = [{"a": 1}, {"a": 1}, {"a": 2}]

    assert not differences(expected, [{"a": 2}, {"a": 1}, {"a": 1}])
    assert differences(expected, [{"a": 2}, {"a": 2}, {"a": 1}]) == (('{"a": 1}',), ('{"a": 2}',))
    assert differences([], [{"a": 2}]).surplus == ('{"a": 2}',)


def test_rows_are_compared_by_the_columns_that_are_expected() -> None:
    assert not differences([{"a": 1}], [{"a": 1, "b": 2}])
    assert differences([{"a": 1, "b": None}], [{"a": 1, "b": 2}])
    assert not differences([{"a": 1, "b": None}], [{"a": 1}])


def test_values_that_say_the_same_are_the_same() -> None:
    at = dt.datetime(2026, 11, 18, 8, tzinfo=dt.UTC)
    pairs = [
        (at, "2026-11-18T08:00:00.000Z"),
        (at, "2026-11-18 08:00:00"),
        (at, at.replace(tzinfo=None)),
        (at.date(), "2026-11-18"),
        (3, 3.0),
        (decimal.Decimal("1.50"), decimal.Decimal("1.5")),
        (b"x", "x"),
        ({"b": [at]}, {"b": ["2026-11-18T08:00:00Z"]}),
    ]

    assert [pair for pair in pairs if differences([{"a": pair[0]}], [{"a": pair[1]}])] == []
    assert differences([{"a": "2026-11-18"}], [{"a": "2026-11-19"}])
    assert differences([{"a": 0.5}], [{"a": 0.25}])


def test_a_failure_shows_so_many_rows() -> None:
    with pytest.raises(RowsDifferError) as raised:
        check_rows("orders", [{"a": n} for n in range(SHOWN_MAX + 2)], [])

    lines = str(raised.value).splitlines()
    assert lines[0] == "orders: 22 rows are expected and not there, 0 rows are there and not expected"
    assert lines[1] == '  missing  {"a": 0}'
    assert lines[-1] == "  missing  and 2 more"
    assert len(lines) == SHOWN_MAX + 2


def test_everything_of_a_pipeline_becomes_the_tests_own() -> None:
    declared = Pipeline(
        name="shop",
        source=[
            FromTopic(
                "orders,payments",
                Json("id string, at timestamp"),
                dead_letters="dead",
                watermark=Watermark("at", "1 minute"),
                options={"startingOffsets": "latest", "maxOffsetsPerTrigger": 5, "kafka.ssl.key.password": "x"},
            ),
            FromTopic(pattern="returns-.*", decode=Json("id string"), name="returns", bootstrap="other:9092"),
        ],
        transform="SELECT orders_payments.id FROM orders_payments JOIN returns USING (id)",
        sink=[
            ToTopic("out", options={"kafka.sasl.mechanism": "PLAIN", "kafka.linger.ms": 3}),
            ToFiles("s3://bucket/a/b", storage={"AWS_REGION": "eu"}),
            ToTable("/tables/c", format="delta"),
        ],
        kafka={"security.protocol": "SSL", "client.id": "shop"},
        checkpoint="s3://bucket/checkpoint",
        staging="s3://bucket/staging",
        trigger="10 seconds",
    )

    (own,) = isolated([declared], Place("t1", "here:1", {"security.protocol": "PLAINTEXT"}))

    first, second = own.sources
    assert (own.name, own.bootstrap, own.checkpoint, own.staging, own.trigger) == (
        "shop.t1",
        "here:1",
        "checkpoints/shop.t1",
        None,
        None,
    )
    assert own.kafka == {"client.id": "shop", "security.protocol": "PLAINTEXT"}
    assert (first.topic, first.view, first.dead_letters) == ("orders.t1,payments.t1", "orders_payments", "dead.t1")
    assert first.options == {"maxOffsetsPerTrigger": 5}
    assert (second.pattern, second.view, second.bootstrap) == (r"(?:returns-.*)\.t1", "returns", None)
    assert [each.label for each in own.sinks] == [each.label for each in declared.sinks]
    assert [getattr(each, "topic", None) or getattr(each, "path", None) for each in own.sinks] == [
        "out.t1",
        "files/b",
        "tables/c",
    ]
    assert getattr(own.sinks[0], "options", None) == {"kafka.linger.ms": 3}
    assert problems_of([own]) == []
    assert (source_topics([declared]), written_topics([declared])) == (["orders", "payments"], ["out", "dead"])


@pytest.mark.parametrize(
    ("sink", "sentence"),
    [
        (ToTopic("", encode="columns"), "writes to topics that its rows name"),
        (ToTable("t", format="jdbc"), "writes in the format jdbc"),
    ],
)
def test_what_a_test_cannot_have_for_itself_is_refused(sink: ToTopic | ToTable, sentence: str) -> None:
    with pytest.raises(PipelineTestError, match=f"^shop {sentence}"):
        isolated([Pipeline(name="shop", source=ORDERS, sink=sink)], Place("t1", "here:1"))


def test_whoever_writes_a_topic_goes_before_those_that_read_it() -> None:
    last = Pipeline(name="last", source=FromTopic("b"), sink=ToTopic("c"))
    middle = Pipeline(name="middle", source=FromTopic(pattern="a|x"), sink=ToTopic("b"))
    first = Pipeline(name="first", source=ORDERS, sink=ToTopic("a"))
    circle = [Pipeline(name=str(n), source=FromTopic(f"t{n}"), sink=ToTopic(f"t{1 - n}")) for n in range(2)]

    assert [each.name for each in in_reading_order([last, first, middle])] == ["first", "middle", "last"]
    assert [each.name for each in in_reading_order(circle)] == ["0", "1"]


def test_durations_are_read_as_people_write_them() -> None:
    assert duration_of("10 minutes") == dt.timedelta(minutes=10)
    assert duration_of("1 hour 30 minutes") == dt.timedelta(minutes=90)
    assert duration_of("0.5 days") == dt.timedelta(hours=12)
    for wrong in ("10", "minutes", "0 minutes", "10 years", "5 minutes ago"):
        with pytest.raises(PipelineTestError):
            duration_of(wrong)


def test_pytest_starts_without_spark_where_the_kit_is_installed() -> None:
    program = (
        "import sys; import tidelog.spark.testing_kit.plugin; "
        "print([name for name in ('pyspark', 'pyarrow', 'tidelog.client', 'tidelog.spark.pipelines') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=120)

    assert done.stdout.strip() == "[]"
