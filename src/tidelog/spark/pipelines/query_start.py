"""Starting a query, one after another.

Each source in Python is a process, and Spark gives it ten seconds to call back. Several that start at once on a machine of two
cores, beside a Java that has just started itself, may take longer. So each has the machine to itself until its sources are
there, and one that was too late is started again: it had not read anything.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from pyspark.errors import PySparkException

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

ATTEMPTS_MAX = 3
_POLL_S = 0.05
# Spark's words.
_STARTS = "Initializing sources"
_WAS_LATE = "Python worker failed to connect back"


def start_query(start: Callable[[], StreamingQuery]) -> StreamingQuery:
    """The query once its sources are there, or as it has failed."""
    query = start()
    for _ in range(ATTEMPTS_MAX - 1):
        while query.isActive and query.status["message"] == _STARTS:
            with suppress(PySparkException):  # how it has failed is asked below
                query.awaitTermination(_POLL_S)  # type: ignore[arg-type]  # seconds, also parts of one
        if query.isActive or _WAS_LATE not in str(query.exception()):
            break
        query = start()
    return query
