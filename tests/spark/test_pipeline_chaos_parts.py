"""What `tidelog pipeline chaos` does without a cluster: rows that are made up, questions that are wrong, processes that die."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from random import Random

import pytest
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    DateType,
    DayTimeIntervalType,
    DecimalType,
    DoubleType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from tests.support.command_line import tidelog
from tidelog.cli.pipeline.mortal_driver import MortalDriver
from tidelog.cli.pipeline.pipeline_chaos import goes_on
from tidelog.spark.testing_kit.chaos_driver import ChaosJob
from tidelog.spark.testing_kit.errors import PipelineTestError
from tidelog.spark.testing_kit.random_rows import RandomRows

NOW = dt.datetime(2026, 11, 19, 8, tzinfo=dt.UTC)


def columns_of(**kinds: DataType) -> StructType:
    return StructType([StructField(name, kind) for name, kind in kinds.items()])


def test_one_seed_makes_one_sequence_of_rows() -> None:
    columns = columns_of(
        id=StringType(),
        n=IntegerType(),
        at=TimestampType(),
        day=DateType(),
        ok=BooleanType(),
        sum=DecimalType(10, 2),
        tags=ArrayType(StringType()),
        more=MapType(StringType(), DoubleType()),
        inner=columns_of(price=DoubleType()),
    )

    def rows(seed: int) -> list[dict[str, object]]:
        made = RandomRows(columns, Random(seed), "at", dt.timedelta(minutes=5))
        return [made.row(number, NOW) for number in range(50)]

    assert rows(1) == rows(1) != rows(2)
    assert len({row["id"] for row in rows(1)}) == 50
    assert len({row["n"] for row in rows(1)}) <= 10


def test_rows_are_late_by_no_more_than_was_asked_for() -> None:
    columns = columns_of(at=TimestampType(), at_ms=LongType())
    late = RandomRows(columns, Random(1), "at", dt.timedelta(minutes=5))
    punctual = RandomRows(columns, Random(1), "at_ms", dt.timedelta())

    times = [dt.datetime.fromisoformat(late.row(number, NOW)["at"]) for number in range(200)]
    in_time = {punctual.row(number, NOW)["at_ms"] for number in range(200)}

    assert NOW - dt.timedelta(minutes=5) <= min(times) < NOW - dt.timedelta(minutes=4)
    assert max(times) == NOW
    assert in_time == {int(NOW.timestamp() * 1000)}


def test_a_column_of_which_nothing_can_be_made_up_is_told() -> None:
    with pytest.raises(PipelineTestError, match="no values can be made up for the column gap"):
        RandomRows(columns_of(gap=DayTimeIntervalType()), Random(1), None, dt.timedelta())


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("nowhere.py",), "there is no file nowhere.py"),
        (("FILE", "--rows", "orders"), "--rows orders: give TOPIC=FILE"),
        (("FILE", "--rows", "orders=nowhere.json"), "nowhere.json cannot be read"),
        (("FILE", "--minutes", "600", "--rate", "10000"), "360,000,000 rows are too many to compare"),
    ],
)
def test_a_wrong_question_starts_nothing(arguments: tuple[str, ...], sentence: str) -> None:
    file = Path(__file__).parent / "planted" / "right.py"

    asked = tidelog("pipeline", "chaos", *[str(file) if each == "FILE" else each for each in arguments])

    assert (asked.exit_code, asked.stdout) == (2, "")
    assert sentence in asked.stderr


def test_a_driver_that_does_not_start_says_why_and_is_gone(tmp_path: Path) -> None:
    conf = {"spark.master": "local[0]", "spark.driver.memory": "nonsense"}
    driver = MortalDriver(ChaosJob([], "jobs.py", b"", conf), tmp_path)

    driver.start()
    has_started = driver.wait_until_running()
    sentence = driver.sentence
    driver.kill()

    assert not has_started
    assert not driver.is_up
    assert sentence


def test_chaos_goes_on_until_each_kind_was_killed_and_not_for_ever() -> None:
    assert goes_on(59, 1, [])
    assert goes_on(61, 1, ["driver", "broker"])
    assert not goes_on(61, 1, ["driver", "broker", "worker"])
    assert not goes_on(4 * 60 + 121, 1, ["driver", "broker"])
