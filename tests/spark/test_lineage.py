"""Lineage: events are those of OpenLineage's own client, names those of its conventions, and nobody waits for a collector."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from openlineage.client import event_v2
from openlineage.client.generated.error_message_run import ErrorMessageRunFacet
from openlineage.client.generated.input_statistics_input_dataset import InputStatisticsInputDatasetFacet
from openlineage.client.generated.job_type_job import JobTypeJobFacet
from openlineage.client.generated.output_statistics_output_dataset import OutputStatisticsOutputDatasetFacet
from openlineage.client.generated.processing_engine_run import ProcessingEngineRunFacet
from openlineage.client.generated.sql_job import SQLJobFacet
from openlineage.client.naming import dataset as naming
from openlineage.client.serde import Serde
from pyspark.sql import SparkSession

from tests.spark.topics import fill
from tests.support.command_line import tidelog
from tests.support.log_builder import ManualClock
from tidelog.spark.pipelines import FromTopic, Json, Pipeline, Text, ToDatabase, ToFiles, ToTable, ToTopic
from tidelog.spark.pipelines.errors import QueryFailedError
from tidelog.spark.pipelines.lineage.datasets import Dataset, sink_dataset
from tidelog.spark.pipelines.lineage.event_sender import (
    EVENTS_MAX,
    Collector,
    EventFile,
    EventSender,
    LineageError,
    transport_to,
)
from tidelog.spark.pipelines.lineage.run_events import Input, Job, Output, run_event
from tidelog.spark.pipelines.lineage.run_lineage import BATCH_INTERVAL_MS, Lineage
from tidelog.spark.pipelines.pipeline_file import PipelineFile
from tidelog.spark.pipelines.pipeline_run import PipelineRun
from tidelog.spark.pipelines.progress import QueryProgress
from tidelog.testing import EmbeddedCluster

RUN_ID = "3f5e83fa-3480-44ff-99c5-ff943904e5e8"
JOB = Job("shop", "revenue", "SELECT 1", "urn:tidelog:0.1.0", "4.3.0", "0.1.0")
FACETS = {
    "processing_engine": ProcessingEngineRunFacet,
    "errorMessage": ErrorMessageRunFacet,
    "jobType": JobTypeJobFacet,
    "sql": SQLJobFacet,
    "inputStatistics": InputStatisticsInputDatasetFacet,
    "outputStatistics": OutputStatisticsOutputDatasetFacet,
}


def progress(**fields: Any) -> QueryProgress:
    return QueryProgress(query="revenue", query_id="q", run_id=RUN_ID, **fields)


def through_their_client(event: Mapping[str, Any]) -> dict[str, Any]:
    """The same event, built of the classes that OpenLineage generates from its schema, and written by its client."""

    def facets(found: Mapping[str, Any]) -> dict[str, Any]:
        built = {}
        for name, facet in found.items():
            fields = {key: value for key, value in facet.items() if not key.startswith("_")}
            built[name] = FACETS[name](**fields, producer=facet["_producer"])
        return built

    run = event["run"]
    job = event["job"]
    built = event_v2.RunEvent(
        eventType=event_v2.RunState[event["eventType"]],
        eventTime=event["eventTime"],
        producer=event["producer"],
        run=event_v2.Run(runId=run["runId"], facets=facets(run["facets"])),
        job=event_v2.Job(namespace=job["namespace"], name=job["name"], facets=facets(job["facets"])),
        inputs=[
            event_v2.InputDataset(each["namespace"], each["name"], inputFacets=facets(each.get("inputFacets", {})))
            for each in event["inputs"]
        ],
        outputs=[
            event_v2.OutputDataset(each["namespace"], each["name"], outputFacets=facets(each.get("outputFacets", {})))
            for each in event["outputs"]
        ],
    )
    written: dict[str, Any] = json.loads(Serde.to_json(built))
    return written


@pytest.mark.parametrize(
    ("state", "is_first", "kind"),
    [
        ("running", True, "START"),
        ("running", False, "RUNNING"),
        ("caught up", False, "COMPLETE"),
        ("stopped", False, "ABORT"),
        ("failed", False, "FAIL"),
    ],
)
def test_an_event_is_the_one_that_openlineages_own_client_writes(state: Any, is_first: bool, kind: str) -> None:
    error = "the table is gone" if state == "failed" else None
    event = run_event(
        JOB,
        progress(state=state, error=error, run_batches=2, run_rows=30, batch_id=7, lag=4),
        [Input(Dataset("kafka://a:9092", "orders"), 30), Input(Dataset("kafka://a:9092", "prices"), None)],
        [Output(Dataset("file", "/lake/orders"), 28)],
        at_ms=1_763_500_000_123,
        is_first=is_first,
    )

    ours = json.loads(json.dumps(event))
    own = ours["run"]["facets"].pop("tidelog_progress")
    theirs = through_their_client(ours)

    assert without_empty(theirs) == without_empty(ours)
    assert ours["eventType"] == kind
    assert own["batchId"] == 7
    assert own["_schemaURL"].startswith("https://openlineage.io/spec/")


def without_empty(value: Any) -> Any:
    """Their client writes what is not there as an empty object, at times."""
    if isinstance(value, dict):
        found = {key: without_empty(each) for key, each in value.items()}
        return {key: each for key, each in found.items() if each not in ({}, None)}
    return [without_empty(each) for each in value] if isinstance(value, list) else value


def test_datasets_have_the_names_of_openlineages_conventions() -> None:
    def named(sink: Any) -> Dataset:
        pipeline = Pipeline(name="p", source=FromTopic("orders"), sink=sink, bootstrap="k1:9092,k2:9092")
        return sink_dataset(pipeline, sink, lambda path: path if "://" in path else f"/jobs/{path}")

    def theirs(found: naming.DatasetNaming) -> Dataset:
        return Dataset(found.get_namespace(), found.get_name())

    assert named(ToTopic("paid")) == theirs(naming.Kafka("k1", "9092", "paid"))
    assert named(ToTable("lake/orders", format="delta")) == theirs(naming.LocalFileSystem("/jobs/lake/orders"))
    assert named(ToFiles("s3a://lake/raw/orders")) == theirs(naming.S3("lake", "raw/orders"))
    assert named(ToDatabase("postgresql://u:${env:P}@db/shop", table="paid")) == theirs(
        naming.Postgres("db", "5432", "shop", "public", "paid")
    )
    assert named(ToDatabase("mariadb://u:${env:P}@db:3307/shop", table="paid")) == theirs(
        naming.MySQL("db", "3307", "shop", "paid")
    )
    assert named(ToDatabase("sqlite:///shop.db", table="paid")) == Dataset("file", "/jobs/shop.db/paid")
    iceberg = ToTable(name="shop.paid", format="iceberg", catalog={"type": "rest", "uri": "http://u:p@cat:8181"})
    assert named(iceberg) == Dataset("http://cat:8181", "shop.paid")


class Heard:
    def __init__(self) -> None:
        self.events: list[Mapping[str, Any]] = []

    def send(self, event: Mapping[str, Any]) -> None:
        self.events.append(event)

    @property
    def kinds(self) -> list[str]:
        return [each["eventType"] for each in self.events]


def test_batches_are_told_once_a_minute_at_most_and_an_end_at_once() -> None:
    clock, heard = ManualClock(), Heard()
    pipeline = Pipeline(name="revenue", source=FromTopic("orders"), sink=ToTopic("paid"), bootstrap="k:9092")
    lineage = Lineage(heard, "shop", "4.3.0", clock).of(pipeline, "revenue", str)
    report = {"sources": [{"endOffset": {"orders": {"0": 9}}, "numInputRows": 9}]}

    lineage.started(progress())
    for batch in range(1, 4):
        lineage.took(report)
        lineage.looked(progress(run_batches=batch), {"paid": batch * 9})
    assert heard.kinds == ["START"]

    clock.advance(BATCH_INTERVAL_MS)
    lineage.looked(progress(run_batches=3), {"paid": 27})
    clock.advance(BATCH_INTERVAL_MS)
    lineage.looked(progress(run_batches=3), {"paid": 27})
    assert heard.kinds == ["START", "RUNNING"], "no batch since then is no news"
    assert heard.events[1]["inputs"][0]["inputFacets"]["inputStatistics"]["rowCount"] == 27
    assert heard.events[1]["outputs"][0]["outputFacets"]["outputStatistics"]["rowCount"] == 27

    lineage.looked(progress(state="stopped", run_batches=3), {"paid": 27})
    assert heard.kinds == ["START", "RUNNING", "ABORT"]


def test_rows_are_told_only_where_they_are_known_to_be_of_one_topic() -> None:
    heard = Heard()
    sources = [FromTopic(pattern="shop-.*", name="shops"), FromTopic("prices")]
    pipeline = Pipeline(name="p", source=sources, transform="SELECT 1", sink=ToTopic("out"), bootstrap="k:9092")
    lineage = Lineage(heard, "shop", "4.3.0", ManualClock()).of(pipeline, "p", str)

    # In the order of the plan, not of the declaration; one source is read twice.
    lineage.took(
        {
            "sources": [
                {"endOffset": {"prices": {"0": 5}}, "numInputRows": 5},
                {"endOffset": json.dumps({"shop-a": {"0": 1}, "shop-b": {"0": 1}}), "numInputRows": 2},
                {"endOffset": {"prices": {"0": 5}}, "numInputRows": 5},
            ]
        }
    )
    lineage.looked(progress(state="caught up"), {})

    inputs = {each["name"]: each.get("inputFacets") for each in heard.events[0]["inputs"]}
    assert inputs == {"shop-a": None, "shop-b": None, "prices": None}


@contextmanager
def collector(statuses: list[int]) -> Iterator[tuple[str, list[tuple[str, str | None, Any]]]]:
    """A server that answers with these in turn, then with the last one; and what it was sent."""
    seen: list[tuple[str, str | None, Any]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            seen.append((self.path, self.headers.get("Authorization"), json.loads(body)))
            self.send_response(statuses.pop(0) if len(statuses) > 1 else statuses[0])
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *arguments: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", seen
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def test_a_collector_is_sent_each_event_with_the_key_and_again_where_it_fails() -> None:
    with collector([503, 201]) as (url, seen):
        sender = EventSender(transport_to(url, {"OPENLINEAGE_API_KEY": "secret"}))
        sender.send({"n": 1})
        sender.send({"n": 2})
        sender.close()

    assert seen == [("/api/v1/lineage", "Bearer secret", {"n": n}) for n in (1, 1, 2)]
    assert sender.dropped == 0


def test_an_event_that_is_refused_is_not_sent_again_and_said_once(caplog: pytest.LogCaptureFixture) -> None:
    with collector([422]) as (url, seen):
        sender = EventSender(Collector(f"{url}/own/path"))
        sender.send({"n": 1})
        sender.send({"n": 2})
        sender.close()

    assert [each[0] for each in seen] == ["/own/path", "/own/path"]
    assert sender.dropped == 2
    assert [each.message for each in caplog.records] == [
        "events of lineage are lost, since their collector does not take them: it answers with status 422"
    ]


def test_a_collector_that_hangs_holds_up_neither_events_nor_the_end(caplog: pytest.LogCaptureFixture) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        sender = EventSender(Collector(f"http://127.0.0.1:{silent.getsockname()[1]}"), close_patience_s=0.05)
        for number in range(EVENTS_MAX + 10):
            sender.send({"n": number})
        assert sender.dropped >= 9
        sender.close()

    assert any("events of lineage were not sent" in each.message for each in caplog.records)


def test_a_file_holds_a_line_for_each_event_behind_what_is_there(tmp_path: Path) -> None:
    path = tmp_path / "lineage.jsonl"
    path.write_text('{"n": 0}\n')
    sender = EventSender(transport_to(str(path)))
    sender.send({"n": 1})
    sender.close()

    assert [json.loads(line)["n"] for line in path.read_text().splitlines()] == [0, 1]
    assert isinstance(transport_to(f"file://{path}"), EventFile)


@pytest.mark.parametrize(
    ("place", "sentence"),
    [
        ("ftp://host/x", "'ftp://host/x' is no place for events of lineage: expected http://HOST:PORT or a file"),
        ("http://u:p@host", "the place for events of lineage must hold no password: OPENLINEAGE_API_KEY has the key"),
        ("/nowhere/at/all.jsonl", "/nowhere/at/all.jsonl cannot hold events of lineage: No such file or directory"),
    ],
)
def test_a_place_that_takes_no_events_is_refused(place: str, sentence: str) -> None:
    with pytest.raises(LineageError) as refused:
        transport_to(place)
    assert str(refused.value) == sentence


def test_a_place_that_takes_no_events_is_told_before_spark_is_started(tmp_path: Path) -> None:
    file = tmp_path / "jobs.py"
    file.write_text(
        "from tidelog.spark.pipelines import *\n"
        "p = Pipeline(name='p', source=FromTopic('a', Text()), sink=ToTopic('b'))\n"
    )
    done = tidelog("pipeline", "run", file, "--lineage", "ftp://host")
    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr == (
        "tidelog pipeline: 'ftp://host' is no place for events of lineage: expected http://HOST:PORT or a file\n"
    )


def test_a_run_tells_what_it_reads_and_writes_and_how_it_ended(
    spark: SparkSession, cluster: EmbeddedCluster, topic: str, tmp_path: Path
) -> None:
    fill(cluster.bootstrap_servers, topic, range(12))
    cluster.create_topic(f"{topic}.copy", partitions=1)
    pipeline = Pipeline(
        name=f"copy-{topic}",
        source=FromTopic(topic, Text()),
        sink=[ToTopic(f"{topic}.copy"), ToTable(str(tmp_path / "lake"), name="lake", format="delta")],
        bootstrap=cluster.bootstrap_servers,
    )
    heard = Heard()
    clock = ManualClock()
    file = PipelineFile(tmp_path / "jobs.py", [pipeline], [])

    run = PipelineRun(spark, file, until_caught_up=True, lineage=Lineage(heard, "shop", spark.version, clock))
    run.start()
    run.follow(lambda _: None)

    assert heard.kinds == ["START", "COMPLETE"]
    last = heard.events[-1]
    assert last["run"]["runId"] == heard.events[0]["run"]["runId"] == str(run.queries[0].runId)
    assert [(each["name"], each["inputFacets"]["inputStatistics"]["rowCount"]) for each in last["inputs"]] == [
        (topic, 12)
    ]
    counted = {each["name"]: each["outputFacets"]["outputStatistics"]["rowCount"] for each in last["outputs"]}
    assert counted == {f"{topic}.copy": 12, str(tmp_path / "lake"): 12}


def test_a_run_that_fails_says_why(spark: SparkSession, cluster: EmbeddedCluster, topic: str, tmp_path: Path) -> None:
    fill(cluster.bootstrap_servers, topic, range(1))
    cluster.create_topic(f"{topic}.out", partitions=1)
    pipeline = Pipeline(
        name=f"fails-{topic}",
        source=FromTopic(topic, Json("id string"), expect={}),
        transform=f"SELECT raise_error('no such luck') AS value FROM {topic.replace('-', '_')}",
        sink=ToTopic(f"{topic}.out"),
        bootstrap=cluster.bootstrap_servers,
    )
    heard = Heard()

    run = PipelineRun(
        spark,
        PipelineFile(tmp_path / "jobs.py", [pipeline], []),
        until_caught_up=True,
        lineage=Lineage(heard, "shop", spark.version, ManualClock()),
    )
    run.start()
    with pytest.raises(QueryFailedError):
        run.follow(lambda _: None)

    assert heard.kinds == ["START", "FAIL"]
    assert heard.events[1]["run"]["facets"]["errorMessage"]["message"]
