"""The driver of a batch, with a Spark and a committer that do as a test says: when a job is run again, and what is taken back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pyarrow as pa
import pytest

from tests.support.log_builder import ManualClock
from tidelog.spark.errors import SinkError
from tidelog.spark.outputs.kind import kind_of
from tidelog.spark.outputs.staged import AttemptName, StagedPart, Target
from tidelog.spark.pipelines import FromTopic, Pipeline, ToDatabase, ToFiles, ToTopic, batch_writing
from tidelog.spark.pipelines.batch_accounts import QuerySinks, TopicGroup
from tidelog.spark.pipelines.batch_rows import SinkRows
from tidelog.spark.pipelines.batch_writing import JOBS_MAX, BatchWriting
from tidelog.spark.pipelines.sink_targets import StagedSink, cluster_target, staged_sinks
from tidelog.spark.pipelines.sink_writing import MESSAGE, TaskMessage, TopicCluster, TopicPlan
from tidelog.spark.sink.audit_entry import encode_audit
from tidelog.spark.sink.sink_batch import BatchWork
from tidelog.spark.sink.sink_options import parse_sink_options
from tidelog.spark.sink.sink_participant import Participant
from tidelog.spark.sink.sink_state import Decision, SinkState, encode_state

SCHEMA = pa.schema({"n": pa.int64()})
OTHER = Target("topic", "other:9092")
INDETERMINATE = "a shuffle map stage with indeterminate output was failed and retried. However, Spark cannot rollback"


@dataclass
class FakeSpark:
    """Jobs that come out as they are told, each with the attempts that its stages have had, the last stage's messages last."""

    outcomes: list[Exception | dict[int, int]]
    messages: Sequence[TaskMessage] = (TaskMessage(7),)
    jobs: list[dict[int, int]] = field(default_factory=lambda: [{1: 3}])
    """One was there before, with a stage that was started again: it is none of ours."""

    def collect(self) -> list[list[bytes]]:
        outcome = self.outcomes.pop(0)
        if isinstance(outcome, Exception):
            self.jobs.append({})
            raise outcome
        self.jobs.append(outcome)
        return [[msgspec.json.encode(each)] for each in self.messages]

    # The names are Spark's.

    @property
    def sparkSession(self) -> Any:  # noqa: N802
        bus = SimpleNamespace(waitUntilEmpty=lambda _ms: None)
        context = SimpleNamespace(
            getLocalProperty={"sql.streaming.queryId": "query", "spark.jobGroup.id": "run"}.get,
            statusTracker=lambda: self,
            _jsc=SimpleNamespace(sc=lambda: SimpleNamespace(listenerBus=lambda: bus)),
        )
        return SimpleNamespace(sparkContext=context)

    def mapInArrow(self, plan: Callable[..., Any], schema: str) -> FakeSpark:  # noqa: N802
        assert schema == f"{MESSAGE} binary"
        return self

    def getJobIdsForGroup(self, group: str) -> list[int]:  # noqa: N802
        assert group == "run"
        return list(range(len(self.jobs)))

    def getJobInfo(self, job: int) -> Any:  # noqa: N802
        # Without the last one, which messages tell of.
        return SimpleNamespace(stageIds=list(self.jobs[job])[:-1])

    def getStageInfo(self, stage: int) -> Any:  # noqa: N802
        found = [job[stage] for job in self.jobs if stage in job]
        return SimpleNamespace(currentAttemptId=found[-1]) if found else None


class FakeCommitter:
    def __init__(self, error: Exception | None = None) -> None:
        self.error = error
        self.committed: list[BatchWork] = []
        self.aborted: list[BatchWork] = []

    def commit(self, work: BatchWork) -> None:
        if self.error is not None:
            raise self.error
        self.committed.append(work)

    def abort(self, work: BatchWork) -> None:
        self.aborted.append(work)

    def protected_manifests(self) -> frozenset[str] | None:
        return frozenset()

    def close(self) -> None:
        pass


def query_sinks(directory: Path) -> QuerySinks:
    """A directory of files, and topics on two clusters."""
    (directory / "checkpoint" / "offsets").mkdir(parents=True)
    (directory / "checkpoint" / "offsets" / "0").write_text('v1\n{}\n{"in":{"0":5}}')
    options = parse_sink_options({"kafka.bootstrap.servers": "a:9092", "topic": "t"}, is_stream=True)
    clusters = [TopicCluster(options, (TopicPlan(label, n + 1, label, False),)) for n, label in enumerate(("t", "u"))]
    staged = StagedSink("files", Target("files", str(directory / "files")), str(directory / "staging"), {})
    return QuerySinks(
        pipeline="p",
        checkpoint=str(directory / "checkpoint"),
        prefix="tidelog-spark",
        rows=[SinkRows(label, (), cast("Any", None)) for label in ("files", "t", "u")],
        staged=[staged],
        schemas={"files": SCHEMA},
        topics=[TopicGroup(clusters[0], None), TopicGroup(clusters[1], OTHER)],
    )


@pytest.fixture(autouse=True)
def without_a_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch_writing, "rows_to_write", lambda rows, _sinks: rows)
    monkeypatch.setattr(batch_writing, "warn_of_open_transactions", lambda *_: None)


def write(sinks: QuerySinks, spark: FakeSpark, committer: FakeCommitter) -> BatchWriting:
    writing = BatchWriting(sinks, lambda _identity, _run: committer, clock=ManualClock())
    writing(cast("Any", spark), 0)
    return writing


def staged_part(sink: StagedSink) -> StagedPart:
    attempt = kind_of(sink.target, sink.staging, {}).open_attempt(AttemptName("run", 0, 0, 0, 1), SCHEMA)
    attempt.write(pa.RecordBatch.from_pydict({"n": [1]}, schema=SCHEMA))
    return attempt.hand_over()


@pytest.mark.parametrize(
    ("outcomes", "jobs"),
    [
        ([{5: 0, 6: 0, 7: 0}], 1),
        ([{5: 0, 6: 0, 7: 1}, {8: 0, 7: 0}], 2),
        # One in the middle, whose rows the last one had not read yet.
        ([{5: 0, 6: 1, 7: 0}, {8: 0, 9: 0, 7: 0}], 2),
        ([{5: 2, 6: 0, 7: 0}, RuntimeError(INDETERMINATE), {8: 0, 9: 0, 7: 0}], 3),
    ],
)
def test_a_job_is_run_again_where_a_stage_was_started_again_whichever_it_was(
    tmp_path: Path, outcomes: list[Exception | dict[int, int]], jobs: int
) -> None:
    committer, spark = FakeCommitter(), FakeSpark([*outcomes])

    write(query_sinks(tmp_path), spark, committer)

    assert len(spark.jobs) - 1 == jobs
    assert [each.batch_id for each in committer.committed] == [0]
    assert committer.aborted == []


def test_a_batch_whose_workers_are_lost_each_time_is_given_up(tmp_path: Path) -> None:
    committer, spark = FakeCommitter(), FakeSpark([{5: 1, 7: 0}, RuntimeError(INDETERMINATE)] * JOBS_MAX)

    with pytest.raises(SinkError, match=f"batch 0 of p was computed {JOBS_MAX} times, .* nothing of it counts"):
        write(query_sinks(tmp_path), spark, committer)

    assert len(spark.jobs) - 1 == JOBS_MAX
    assert (committer.committed, len(committer.aborted)) == ([], 1)


def test_a_job_that_fails_has_all_its_clusters_looked_at(tmp_path: Path) -> None:
    committer = FakeCommitter()

    with pytest.raises(RuntimeError, match="no such column"):
        write(query_sinks(tmp_path), FakeSpark([RuntimeError("no such column")]), committer)

    (given,) = committer.aborted
    assert [(each.sink, each.cluster, each.participants) for each in given.topics] == [
        ("t", None, ()),
        ("u", OTHER, ()),
    ]


def test_what_tasks_have_handed_over_is_taken_back_where_it_cannot_be_decided(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sinks, committer = query_sinks(tmp_path), FakeCommitter()
    participant = Participant.of("id", 1, 0, records=1, partitions={("u", 0)})
    message = TaskMessage(7, {"files": staged_part(sinks.staged[0])}, {1: participant})

    def failing(*_: object, **__: object) -> None:
        raise OSError("the disk is full")

    monkeypatch.setattr(batch_writing, "write_manifest", failing)
    with pytest.raises(OSError, match="the disk is full"):
        write(sinks, FakeSpark([{7: 0}], [message]), committer)

    (given,) = committer.aborted
    assert [each.cluster for each in given.topics] == [None, OTHER]


def test_a_decision_names_secrets_by_reference_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("STORE_SECRET", "DATABASE_PASSWORD", "LOGIN_PASSWORD"):
        monkeypatch.setenv(name, f"plain-{name}")
    topic = ToTopic(
        "u",
        bootstrap="other:9092",
        options={"kafka.sasl.mechanism": "PLAIN", "kafka.sasl.password": "${env:LOGIN_PASSWORD}"},
    )
    pipeline = Pipeline(
        name="p",
        source=FromTopic("in"),
        sink=[
            ToFiles(str(tmp_path / "files")),
            ToDatabase("postgresql://me:${env:DATABASE_PASSWORD}@host/d", table="t"),
            topic,
        ],
        storage={"AWS_SECRET_ACCESS_KEY": "${env:STORE_SECRET}"},
        staging=str(tmp_path / "staging"),
    )
    database, files = staged_sinks(pipeline, "checkpoint", str)
    given = query_sinks(tmp_path)
    group = TopicGroup(given.topics[1].cluster, cluster_target(pipeline, topic))
    schemas = {each.label: SCHEMA for each in (database, files)}
    rows = [*given.rows, replace(given.rows[0], label="t")]
    sinks = replace(given, rows=rows, staged=[database, files], topics=[group], schemas=schemas)
    part = staged_part(files)
    committer = FakeCommitter()
    participant = Participant.of("id", 1, 0, records=1, partitions={("u", 0)})

    write(sinks, FakeSpark([{7: 0}], [TaskMessage(7, {"t": part, "files": part}, {0: participant})]), committer)

    (work,) = committer.committed
    record = encode_state(SinkState("prefix", "run").decided(Decision.of(work))).decode()
    assert "plain-" not in record
    for reference in ("${env:STORE_SECRET}", "me:${env:DATABASE_PASSWORD}@host", "${env:LOGIN_PASSWORD}"):
        assert reference in record
    assert work.audit is not None
    assert "plain-" not in encode_audit(work.audit).decode()
