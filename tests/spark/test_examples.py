"""The examples of Spark, each with small data of its own."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from examples.spark import change_events, dead_letters, join_streams, replay_time_range, sessions, topic_to_parquet
from examples.spark.local import MINUTE_MS, OPENING_MS, Example
from tidelog.testing import EmbeddedCluster

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "spark"


def _after(minutes: int) -> int:
    return OPENING_MS + minutes * MINUTE_MS


# Each one, and the rows that come of it.
RESULTS: dict[Example, list[tuple[object, ...]]] = {
    sessions.example: [
        ("ann", _after(0), _after(25), 3),
        ("ann", _after(90), _after(90), 1),
        ("bob", _after(5), _after(5), 1),
        ("bob", _after(50), _after(50), 1),
    ],
    join_streams.example: [("a", True), ("b", False), ("c", False), ("later", True)],
    change_events.example: [("1", "Anna", "Dover"), ("3", "Cleo", "Essen")],
    replay_time_range.example: [("tea", 300)],
    topic_to_parquet.example: [
        ("sensor-0", '{"reading": 0}', "2026-06-01 09:00"),
        ("sensor-1", '{"reading": 1}', "2026-06-01 21:00"),
        ("sensor-0", '{"reading": 2}', "2026-06-02 09:00"),
        ("sensor-1", '{"reading": 3}', "2026-06-02 21:00"),
        ("sensor-0", '{"reading": 4}', "2026-06-03 09:00"),
    ],
    dead_letters.example: [
        (dead_letters.DEAD, '{"sensor": "cellar", "fahrenheit": 50}', "no temperature"),
        (dead_letters.DEAD, "not even JSON", "no sensor"),
        (dead_letters.GOOD, '{"sensor":"roof","celsius":21.5}', None),
        (dead_letters.GOOD, '{"sensor":"cellar","celsius":10.0}', None),
    ],
}


@pytest.mark.parametrize("example", RESULTS, ids=lambda each: each.__module__.rpartition(".")[2])
def test_an_example_gives_what_it_says(
    example: Example, spark: SparkSession, cluster: EmbeddedCluster, tmp_path: Path
) -> None:
    rows = example(spark, cluster.bootstrap_servers, tmp_path).collect()

    assert [tuple(row) for row in rows] == RESULTS[example]


def test_every_example_is_tested_and_listed() -> None:
    listed = (EXAMPLES.parent / "README.md").read_text()
    programs = {path.stem for path in EXAMPLES.glob("*.py")} - {"local"}
    assert programs == {example.__module__.rpartition(".")[2] for example in RESULTS}
    assert all(f"spark/{name}.py" in listed for name in programs)
