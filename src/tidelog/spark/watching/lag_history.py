"""How far behind a query was, over time: a bounded number of moments, the worst of each, for a picture. Pure.

The file that holds it also says where logs ended when they were last looked at: the next run measures by it how old the records
are that came while nobody ran.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from tidelog.spark.watching.batch_report import BatchReport
from tidelog.spark.watching.log_ends import Look

# As wide as a picture needs them. An hour then has a moment each fifteen seconds, a day one each six minutes.
SAMPLES_MAX = 240
_FIRST_STEP_MS = 1_000


class LagSample(msgspec.Struct, frozen=True, array_like=True):
    """The worst of one step of time."""

    at_ms: int
    lag: int
    lag_ms: int | None
    rows: int
    """Read in that step."""


class SeenEnds(msgspec.Struct, frozen=True):
    """Where logs ended at a moment, for each source of the query by topic and partition."""

    at_ms: int
    sources: tuple[dict[str, dict[str, int]], ...]


class QueryHistory(msgspec.Struct, frozen=True, kw_only=True):
    """Of one query, over all of its runs."""

    query: str
    step_ms: int = _FIRST_STEP_MS
    samples: tuple[LagSample, ...] = ()
    ends: SeenEnds | None = None

    def with_batch(self, report: BatchReport, lag_ms: int | None) -> QueryHistory:
        """One more of Spark's reports. One that does not tell how far behind the query is leaves no trace."""
        if report.lag is None or report.at_ms is None:
            return self
        done_at_ms = report.at_ms + (report.duration_ms if report.rows else 0)
        samples = _joined([*self.samples, LagSample(done_at_ms, report.lag, lag_ms, report.rows)], self.step_ms)
        step_ms = self.step_ms
        while len(samples) > SAMPLES_MAX:
            step_ms *= 2
            samples = _joined(samples, step_ms)
        return msgspec.structs.replace(self, step_ms=step_ms, samples=tuple(samples))

    def with_ends(self, look: Look | None) -> QueryHistory:
        """Where logs ended when it was looked last, for the next run."""
        if look is None:
            return self
        sources: list[dict[str, dict[str, int]]] = []
        for (source, topic, partition), end in sorted(look.ends.items()):
            sources += [{} for _ in range(source + 1 - len(sources))]
            sources[source].setdefault(topic, {})[str(partition)] = end
        return msgspec.structs.replace(self, ends=SeenEnds(look.at_ms, tuple(sources)))

    @property
    def last_look(self) -> Look | None:
        """What an earlier run has seen; None where there was none, or its file holds no such thing."""
        if self.ends is None:
            return None
        found = {}
        for source, topics in enumerate(self.ends.sources):
            for topic, partitions in topics.items():
                for partition, end in partitions.items():
                    if not (partition.isascii() and partition.isdigit()):
                        return None
                    found[source, topic, int(partition)] = end
        return Look(self.ends.at_ms, found)


class PipelineHistory(msgspec.Struct, frozen=True):
    """Of all queries of a pipeline."""

    queries: tuple[QueryHistory, ...]

    @property
    def by_query(self) -> Mapping[str, QueryHistory]:
        return {each.query: each for each in self.queries}


def _joined(samples: list[LagSample], step_ms: int) -> list[LagSample]:
    """One for each step of time. A clock that was set back begins anew."""
    found: list[LagSample] = []
    for each in samples:
        last = found[-1] if found else None
        if last is not None and each.at_ms < last.at_ms:
            found = [before for before in found if before.at_ms < each.at_ms]
            last = found[-1] if found else None
        if last is None or last.at_ms // step_ms != each.at_ms // step_ms:
            found.append(each)
            continue
        ages = [age for age in (last.lag_ms, each.lag_ms) if age is not None]
        found[-1] = LagSample(each.at_ms, max(last.lag, each.lag), max(ages) if ages else None, last.rows + each.rows)
    return found
