"""Queries of any Spark session, watched: what Spark tells of them as metrics.

    listener = QueryListener(metrics_port=9405)
    spark.streams.addListener(listener)

Spark calls a listener on a thread of its own, after the fact: nothing here holds up a batch, and nothing that fails here is
Spark's concern.
"""

from __future__ import annotations

import json
import logging
import threading
from collections import OrderedDict
from collections.abc import Iterable
from typing import TYPE_CHECKING

import msgspec
from pyspark.sql.streaming.listener import StreamingQueryListener

from tidelog.spark.watching.batch_report import moment_ms, read_report
from tidelog.spark.watching.log_ends import LogEnds
from tidelog.spark.watching.query_figures import QueryFigures, advance, idle
from tidelog.spark.watching.query_metrics import QUERY_METRICS, families, text_of

if TYPE_CHECKING:
    from pyspark.sql.streaming.listener import (
        QueryIdleEvent,
        QueryProgressEvent,
        QueryStartedEvent,
        QueryTerminatedEvent,
    )

    from tidelog.model.metrics import Family
    from tidelog.spark.watching.metrics_port import MetricsPort

log = logging.getLogger(__name__)

# A session that starts a query a minute for years has no more; those that have ended long ago go first.
QUERIES_MAX = 1000
_LABELS = ("query", "query_id")


class QueryListener(StreamingQueryListener):
    """All queries of the sessions that it is added to. Close it when they are done, if it has a port."""

    def __init__(self, *, metrics_port: int | None = None, metrics_host: str = "127.0.0.1") -> None:
        """With a port, 0 for any, metrics are shown at `metrics_url`. ListenError where it cannot be had."""
        self._lock = threading.Lock()
        self._figures: OrderedDict[str, QueryFigures] = OrderedDict()
        """By the id that stays the same after a restart."""
        self._ends: dict[str, LogEnds] = {}
        self._port: MetricsPort | None = None
        if metrics_port is not None:
            from tidelog.spark.watching.metrics_port import MetricsPort  # noqa: PLC0415 - brings the client's loop along

            self._port = MetricsPort(metrics_port, self.families, host=metrics_host)

    @property
    def metrics_url(self) -> str | None:
        return None if self._port is None else self._port.url

    @property
    def queries(self) -> list[QueryFigures]:
        """All that are known, those that have ended included."""
        with self._lock:
            return list(self._figures.values())

    def families(self) -> Iterable[Family]:
        return families("tidelog_query", QUERY_METRICS, _LABELS, self._labelled)

    def metrics(self) -> str:
        """In Prometheus' text format."""
        return text_of(self.families())

    def close(self) -> None:
        """Give the port back."""
        if self._port is not None:
            self._port.close()
            self._port = None

    # What Spark calls.

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802
        query_id = str(event.id)
        with self._lock:
            self._figures[query_id] = QueryFigures(
                query=event.name or query_id, query_id=query_id, run_id=str(event.runId)
            )
            self._figures.move_to_end(query_id)
            self._ends.setdefault(query_id, LogEnds())
            self._forget()

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802
        report = read_report(json.loads(event.progress.json))
        query_id = str(event.progress.id)
        with self._lock:
            known = self._figures.get(query_id)
            if known is None:
                # It ran before there was anybody to listen.
                name = event.progress.name or query_id
                known = QueryFigures(query=name, query_id=query_id, run_id=str(event.progress.runId))
            self._figures[query_id] = advance(known, report, self._ends.setdefault(query_id, LogEnds()))
            self._forget()

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802
        """It has read all that there is."""
        query_id = str(event.id)
        at_ms = moment_ms(event.timestamp)
        with self._lock:
            known = self._figures.get(query_id)
            if known is not None and at_ms is not None:
                self._figures[query_id] = idle(known, at_ms)

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802
        query_id = str(event.id)
        with self._lock:
            known = self._figures.get(query_id)
            if known is not None:
                error = event.exception
                self._figures[query_id] = msgspec.structs.replace(
                    known, state="stopped" if error is None else "failed", error=error
                )

    def _labelled(self) -> list[tuple[tuple[str, ...], QueryFigures]]:
        return [((each.query, each.query_id), each) for each in self.queries]

    def _forget(self) -> None:
        while len(self._figures) > QUERIES_MAX:
            ended = (name for name, each in self._figures.items() if each.state != "running")
            gone = next(ended, None) or next(iter(self._figures))
            del self._figures[gone]
            self._ends.pop(gone, None)
