"""`survives_kills`: a pipeline that is right survives every step of the protocol, and those with a planted mistake do not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from tidelog.spark import batch_steps
from tidelog.spark.pipelines import FromTopic, Json, Pipeline, ToTopic
from tidelog.spark.testing_kit.errors import PipelineTestError, RowsDifferError
from tidelog.spark.testing_kit.pipeline_test import PipelineTest

Make: TypeAlias = Callable[..., PipelineTest]

PLANTED = Path(__file__).parent / "planted"


def orders(*minutes: int) -> list[dict[str, Any]]:
    return [
        {"id": f"o{minute}", "product": "apples", "price": 1.5, "at": f"2026-11-18T08:{minute:02}:00Z"}
        for minute in minutes
    ]


def test_a_right_pipeline_survives_a_kill_at_every_step(tidelog_pipeline: Make) -> None:
    pipeline = tidelog_pipeline(PLANTED / "right.py", only=["copies"])
    pipeline.given("orders", orders(1, 2))

    report = pipeline.survives_kills()

    steps = [kill.step for kill in report.kills]
    assert [each for each in steps if each not in {"list", "claim", "abort"}] == [
        "begin",
        "write",
        "manifest of orders",
        "take over",
        "check",
        "pin",
        "decision",
        "end of orders",
        "end of topics",
        "finish",
        "return",
    ]


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("counts_twice", r"numbered, after a kill behind \w+ of batch 0 of counts-twice: .* 2 rows are there and not"),
        (
            "commits_first",
            r"new, after \d+ kills, the last behind \w+ of batch 0 of commits-first: 2 rows are undisturbed and not",
        ),
    ],
)
def test_a_mistake_that_a_restart_brings_out_is_found(tidelog_pipeline: Make, name: str, sentence: str) -> None:
    pipeline = tidelog_pipeline(PLANTED / f"{name}.py")
    pipeline.given("orders", [{"id": "o1"}, {"id": "o2"}])

    with pytest.raises(RowsDifferError, match=f"^{sentence}"):
        pipeline.survives_kills()


def test_rows_that_are_delivered_at_least_once_are_found_twice(tidelog_pipeline: Make) -> None:
    pipeline = tidelog_pipeline(
        Pipeline(
            name="at-least-once",
            source=FromTopic("orders", Json("id string")),
            sink=ToTopic("copies", delivery="at_least_once"),
        )
    )
    pipeline.given("orders", [{"id": "o1"}])

    with pytest.raises(RowsDifferError) as raised:
        pipeline.survives_kills()

    told = "0 rows are undisturbed and not there, 1 row is there and not undisturbed"
    assert str(raised.value).splitlines() == [
        f"copies, after a kill behind Spark's commit of batch 0 of at-least-once: {told}",
        '  surplus  {"id": "o1"}',
    ]


def test_rows_that_come_late_and_are_lost_are_found(tidelog_pipeline: Make) -> None:
    def course(name: str) -> PipelineTest:
        pipeline = tidelog_pipeline(PLANTED / f"{name}.py", only=["sums" if name == "right" else "loses-late"])
        pipeline.given("orders", orders(1, 6))
        pipeline.run()
        pipeline.given("orders", orders(2))
        pipeline.advance_time("1 hour")
        pipeline.run()
        return pipeline

    expected = [{"product": "apples", "minute": f"2026-11-18T08:0{minute}:00Z", "orders": 1} for minute in (1, 2, 6)]

    course("right").expect("sums", expected)
    with pytest.raises(RowsDifferError, match="1 row is expected and not there, 0 rows are there"):
        course("loses_late").expect("sums", expected)


def test_a_test_of_kills_needs_rows_that_can_be_lost(tidelog_pipeline: Make) -> None:
    pipeline = tidelog_pipeline(PLANTED / "right.py", only=["sums"])

    with pytest.raises(PipelineTestError, match="nothing has been given"):
        pipeline.survives_kills()
    pipeline.given("orders", orders(1))
    with pytest.raises(PipelineTestError, match="undisturbed nothing comes out"):
        pipeline.survives_kills()


def test_nobody_listens_to_steps_unless_asked() -> None:
    assert batch_steps.listener is None
