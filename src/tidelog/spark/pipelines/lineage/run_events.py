"""The events of one run of a query, in OpenLineage's own form (2-0-2). Pure.

    START      the query has started
    RUNNING    it has done batches since the last event; at most once a minute
    COMPLETE   it has caught up, and was asked to end then
    ABORT      somebody has stopped it
    FAIL       it has failed

One run of a query is one run there, by Spark's own run id. Counts are of the whole run so far.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

from tidelog.spark.pipelines.lineage.datasets import Dataset
from tidelog.spark.pipelines.progress import QueryProgress
from tidelog.spark.watching.query_figures import State

_SPEC = "https://openlineage.io/spec/2-0-2/OpenLineage.json#/$defs"
_FACETS = "https://openlineage.io/spec/facets"
_EVENT_TYPES: Mapping[State, str] = {
    "running": "RUNNING",
    "caught up": "COMPLETE",
    "stopped": "ABORT",
    "failed": "FAIL",
}
START = "START"


class Job(NamedTuple):
    """What stays the same over all runs of a query."""

    namespace: str
    name: str
    sql: str | None
    producer: str
    """Who tells: tidelog with its version, as a URI."""
    spark_version: str
    adapter_version: str


class Input(NamedTuple):
    dataset: Dataset
    rows: int | None
    """None where a source has several topics, whose rows Spark counts as one."""


class Output(NamedTuple):
    dataset: Dataset
    rows: int | None
    """None where Spark's own sink writes."""


def run_event(
    job: Job,
    progress: QueryProgress,
    inputs: Sequence[Input],
    outputs: Sequence[Output],
    *,
    at_ms: int,
    is_first: bool = False,
) -> dict[str, Any]:
    facet = _Facets(job.producer)
    run_facets = {
        "processing_engine": facet.of(
            "1-1-1/ProcessingEngineRunFacet",
            version=job.spark_version,
            name="spark",
            openlineageAdapterVersion=job.adapter_version,
        ),
        # No facet of the standard has these.
        "tidelog_progress": {
            "_producer": job.producer,
            "_schemaURL": f"{_SPEC}/RunFacet",
            "queryId": progress.query_id,
            "batchId": progress.batch_id,
            "batches": progress.run_batches,
            "rows": progress.run_rows,
            "lag": progress.lag,
            "lagMs": progress.lag_ms,
        },
    }
    if progress.error is not None:
        run_facets["errorMessage"] = facet.of(
            "1-0-1/ErrorMessageRunFacet", message=progress.error, programmingLanguage="PYTHON"
        )
    return {
        "eventType": START if is_first else _EVENT_TYPES[progress.state],
        "eventTime": datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds"),
        "producer": job.producer,
        "schemaURL": f"{_SPEC}/RunEvent",
        "run": {"runId": progress.run_id, "facets": run_facets},
        "job": {"namespace": job.namespace, "name": job.name, "facets": _job_facets(job, facet)},
        "inputs": [
            _dataset(each.dataset, "inputFacets", "inputStatistics", _counted(facet, "Input", each.rows))
            for each in inputs
        ],
        "outputs": [
            _dataset(each.dataset, "outputFacets", "outputStatistics", _counted(facet, "Output", each.rows))
            for each in outputs
        ],
    }


def _job_facets(job: Job, facet: _Facets) -> dict[str, Any]:
    facets = {
        "jobType": facet.of("2-0-4/JobTypeJobFacet", processingType="STREAMING", integration="TIDELOG", jobType="QUERY")
    }
    if job.sql is not None:
        facets["sql"] = facet.of("1-1-0/SQLJobFacet", query=job.sql, dialect="spark")
    return facets


def _counted(facet: _Facets, side: str, rows: int | None) -> dict[str, Any] | None:
    version = "1-0-2" if side == "Output" else "1-0-0"
    return None if rows is None else facet.of(f"{version}/{side}Statistics{side}DatasetFacet", rowCount=rows)


def _dataset(dataset: Dataset, facets: str, name: str, facet: dict[str, Any] | None) -> dict[str, Any]:
    found: dict[str, Any] = {"namespace": dataset.namespace, "name": dataset.name}
    return found if facet is None else {**found, facets: {name: facet}}


class _Facets(NamedTuple):
    producer: str

    def of(self, versioned: str, **fields: object) -> dict[str, Any]:
        """As the standard has it: 1-0-0/NAME."""
        name = versioned.rpartition("/")[2]
        return {"_producer": self.producer, "_schemaURL": f"{_FACETS}/{versioned}.json#/$defs/{name}", **fields}
