"""Queries whose sources come in time, late, or never."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

from pyspark.errors import PySparkException
from pyspark.sql.streaming.query import StreamingQuery

from tidelog.spark.pipelines.query_start import ATTEMPTS_MAX, start_query

LATE = "Python worker failed to connect back."


class Query:
    """As much of a streaming query as its start has to do with: some looks at it, then it runs or has failed."""

    def __init__(self, looks: int, error: str | None = None) -> None:
        self._looks = looks
        self._error = error
        self.waits = 0

    @property
    def isActive(self) -> bool:  # noqa: N802 - Spark's name
        return self._error is None or self.waits < self._looks

    @property
    def status(self) -> dict[str, str]:
        return {"message": "Initializing sources" if self.waits < self._looks else "Waiting for data to arrive"}

    def awaitTermination(self, timeout: float) -> bool:  # noqa: N802
        self.waits += 1
        if not self.isActive:
            raise PySparkException(self._error)
        return False

    def exception(self) -> PySparkException | None:
        return None if self.isActive else PySparkException(self._error)


def started(*queries: Query) -> tuple[Query, list[Query]]:
    """What a start comes to, and what is left of these, one of which is handed out for each start."""
    left: Iterator[Query] = iter(queries)
    query = start_query(lambda: cast("StreamingQuery", next(left)))
    return cast("Query", query), list(left)


def test_a_start_waits_for_the_sources() -> None:
    query, _ = started(Query(looks=3))

    assert query.waits == 3


def test_one_that_was_late_is_started_again() -> None:
    late, in_time, spare = Query(2, LATE), Query(1), Query(0)

    assert started(late, in_time, spare) == (in_time, [spare])


def test_not_for_ever() -> None:
    late = [Query(1, LATE) for _ in range(ATTEMPTS_MAX)]
    spare = Query(0)

    assert started(*late, spare) == (late[-1], [spare])


def test_another_failure_is_left_as_it_is() -> None:
    failed, spare = Query(1, "there is no topic orders"), Query(0)

    assert started(failed, spare) == (failed, [spare])
