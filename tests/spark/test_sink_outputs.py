"""One decision over topics on two clusters and files, with real ones: ended wherever a driver dies, refused, skipped, audited.
And what queries that never come back have left open."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import msgspec
import pyarrow as pa
import pytest

from tests.spark.sink_tasks import Died, Moment, MortalCommitter, Tasks
from tests.spark.written import committed_numbers, transactional_ids
from tests.support.command_line import json_lines, tidelog
from tidelog import Admin, AsyncAdmin, Consumer, TopicPartition
from tidelog.client.admin import ConfigResource, ResourceKind
from tidelog.model.clock import SystemClock, system_now_ms
from tidelog.spark.errors import (
    LostTransactionError,
    OptionError,
    OutputStoppedError,
    SinkError,
    UndecidedError,
    UnfinishedError,
)
from tidelog.spark.outputs.kind import kind_of
from tidelog.spark.outputs.manifest_store import manifest_of, write_manifest
from tidelog.spark.outputs.staged import AttemptName, StagedOutput, Target, app_id
from tidelog.spark.pipelines.audit_verification import Outcome, verify_sink
from tidelog.spark.sink import sink_cluster, staged_ends
from tidelog.spark.sink.audit_entry import AuditEntry, PartitionRange, SinkAudit, decode_audit
from tidelog.spark.sink.open_transactions import OpenElsewhere, open_elsewhere, tell_open_elsewhere
from tidelog.spark.sink.sink_batch import BatchInput, BatchWork, TopicOutput
from tidelog.spark.sink.sink_decisions import (
    AUDIT_RETENTION_MS,
    AUDIT_TOPIC,
    TOPIC,
    audit_topic_warnings,
    deciding_cluster,
    topic_problems,
)
from tidelog.spark.sink.sink_effects import CheckStaged, Effect, End, EndStaged, Pin, Unended
from tidelog.spark.sink.sink_participant import SinkIdentity
from tidelog.spark.sink.sink_recovery import recover, recover_all
from tidelog.spark.sink.staged_ends import StagedEnds
from tidelog.testing import EmbeddedCluster

SCHEMA = pa.schema([("number", pa.int64())])


@pytest.fixture(scope="module")
def clusters() -> Iterator[tuple[str, str]]:
    with EmbeddedCluster() as one, EmbeddedCluster() as other:
        yield one.bootstrap_servers, other.bootstrap_servers


class Pipeline:
    """With a topic on each of two clusters, and a directory of files."""

    def __init__(self, clusters: tuple[str, str], directory: Path) -> None:
        self.bootstrap, self.other = clusters
        name = uuid4().hex[:12]
        self.identity = SinkIdentity(f"query-{name}")
        self.topics = [Tasks(bootstrap, f"out-{name}", self.identity) for bootstrap in clusters]
        for each in self.topics:
            each.admin.create_topic(each.topic, partitions=1)
        self.place = directory / "files"
        self.staging = directory / "staging"
        self.staging.mkdir()
        self.decided_at = deciding_cluster({"bootstrap_servers": self.bootstrap})

    def close(self) -> None:
        for each in self.topics:
            each.close()

    def work(self, run: str, batch_id: int) -> BatchWork:
        one = self.topics[0].write(run, [batch_id])
        other = self.topics[1].write(run, [batch_id], decided_at=self.decided_at)
        given = BatchInput(f"hash of {batch_id}", 3, batch_id)
        entry = AuditEntry(
            "orders",
            self.identity.query,
            run,
            batch_id,
            (PartitionRange("in", 0, batch_id, batch_id + 1),),
            given.hash,
            (SinkAudit("files", "files", str(self.place), 1, 5, files=1),),
            "v1",
            system_now_ms(),
        )
        topics = (
            TopicOutput("near", participants=(one,)),
            TopicOutput("far", Target("topic", self.other, options={"client.id": "far"}), (other,)),
        )
        return BatchWork(batch_id, given, topics, (self.staged(run, batch_id),), audit=entry)

    def staged(self, run: str, batch_id: int) -> StagedOutput:
        target = Target("files", str(self.place))
        kind = kind_of(target, str(self.staging), {})
        attempt = kind.open_attempt(AttemptName(run, batch_id, 0, 0, 0), SCHEMA)
        attempt.write(pa.RecordBatch.from_pydict({"number": [batch_id]}, schema=SCHEMA))
        part = attempt.hand_over()
        manifest = manifest_of("files", app_id("orders", "files", self.identity.query), batch_id, SCHEMA, [part])
        return write_manifest(target, str(self.staging), {}, manifest, run=run).output

    def committer(self, run: str) -> MortalCommitter:
        return MortalCommitter(self.identity, run, {"bootstrap_servers": self.bootstrap})

    def recover(self, *skip_sinks: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Which sinks stand still, and which were skipped."""
        report = recover(self.identity.query, {"bootstrap_servers": self.bootstrap}, skip_sinks=skip_sinks)
        (found,) = report.sinks
        return found.stopped, found.skipped

    @property
    def seen(self) -> list[list[int]]:
        files = sorted(int(str(each.name).split("-")[1]) for each in self.place.glob("part-*"))
        return [*(committed_numbers(each.bootstrap, each.topic) for each in self.topics), files]

    @property
    def still_open(self) -> list[str]:
        return [name for each in self.topics for name in transactional_ids(each.bootstrap, self.identity.query)]

    @property
    def audit(self) -> list[AuditEntry]:
        with Consumer(bootstrap_servers=self.bootstrap, isolation_level="read_committed") as consumer:
            partition = TopicPartition(AUDIT_TOPIC, 0)
            consumer.assign([partition])
            consumer.seek_to_beginning()
            end = consumer.end_offsets([partition])[partition]
            found = []
            while consumer.position(partition) < end:
                found += [decode_audit(each.value) for each in consumer.poll(1000)]
        return [each for each in found if each is not None and each.query == self.identity.query]


@pytest.fixture
def pipeline(clusters: tuple[str, str], tmp_path: Path) -> Iterator[Pipeline]:
    pipeline = Pipeline(clusters, tmp_path)
    yield pipeline
    pipeline.close()


def test_one_decision_ends_files_and_topics_on_two_clusters_wherever_a_driver_dies(pipeline: Pipeline) -> None:
    deaths: list[tuple[type[Effect], Moment]] = [
        (CheckStaged, Moment.AFTER),
        (Pin, Moment.AFTER),
        (EndStaged, Moment.BEFORE),
        (EndStaged, Moment.AFTER),
        (End, Moment.AFTER),
    ]
    for batch_id, (effect, moment) in enumerate(deaths):
        with pytest.raises(Died):
            pipeline.committer(f"run{batch_id}").dying(effect, moment).commit(pipeline.work(f"run{batch_id}", batch_id))

        again = pipeline.work(f"again{batch_id}", batch_id)
        pipeline.committer(f"again{batch_id}").commit(again)

        assert pipeline.seen == [list(range(batch_id + 1))] * 3, (effect, moment)
        assert pipeline.still_open == []
        # What was staged once more is gone, unless it is what counts.
        is_replay = effect in (EndStaged, End)
        assert Path(again.staged[0].manifest_path).exists() is not is_replay

    audit = pipeline.audit
    assert [(each.batch_id, each.run) for each in audit] == [
        (0, "again0"),
        (1, "again1"),
        (2, "run2"),
        (3, "run3"),
        (4, "run4"),
    ]
    assert all(each.started_ms <= each.decided_ms <= each.finished_ms for each in audit)
    with Admin(bootstrap_servers=pipeline.bootstrap) as admin:
        topic = ConfigResource(ResourceKind.TOPIC, AUDIT_TOPIC)
        configs = admin.describe_configs([topic])[topic]
    assert not isinstance(configs, Exception)
    assert (configs["cleanup.policy"].value, configs["retention.ms"].value) == ("delete", str(AUDIT_RETENTION_MS))


def test_a_sink_that_refuses_after_the_decision_is_skipped_only_by_recover(pipeline: Pipeline) -> None:
    work = pipeline.work("run1", 0)
    with pytest.raises(Died):
        pipeline.committer("run1").dying(EndStaged, Moment.BEFORE).commit(work)
    # Somebody tidies up what he does not know.
    (staged,) = pipeline.place.glob("_staging/**/part-*")
    staged.unlink()

    with pytest.raises(
        OutputStoppedError, match=f"sink files .* refuses its 1 rows, which are staged in {pipeline.staging}"
    ):
        pipeline.committer("run2").commit(pipeline.work("run2", 0))

    assert pipeline.seen == [[0], [0], []]
    with pytest.raises(SinkError, match="waits for a sink other, so that none is skipped; it waits for files"):
        pipeline.recover("other")
    assert len(pipeline.recover()[0]) == 1
    told = tidelog("pipeline", "recover", pipeline.identity.query, "--bootstrap", pipeline.bootstrap)
    assert (told.exit_code, "--skip-sink files" in told.stderr) == (1, True)
    skipped = tidelog(
        *("pipeline", "recover", pipeline.identity.query, "--bootstrap", pipeline.bootstrap, "--skip-sink", "files")
    )
    assert skipped.exit_code == 0, skipped.stderr
    assert skipped.stdout.endswith("0 aborted; it counts without files\n")
    pipeline.committer("run3").commit(pipeline.work("run3", 0))
    pipeline.committer("run3").commit(pipeline.work("run3", 1))
    assert pipeline.seen == [[0, 1], [0, 1], [1]]
    assert [[each.is_skipped for each in entry.sinks] for entry in pipeline.audit] == [[True], [False]]
    assert pipeline.still_open == []
    # The rows of the first batch are left to a person, for as long as somebody decides here.
    with pipeline.committer("run4") as later:
        assert later.protected_manifests() is None, "it has not decided anything yet"
        later.commit(pipeline.work("run4", 2))
        assert later.protected_manifests() == frozenset({work.staged[0].manifest_path})
        pipeline.committer("run5").commit(pipeline.work("run5", 3))
        assert later.protected_manifests() is None


def test_what_is_lost_and_accepted_is_told_by_the_account_of_the_batch(pipeline: Pipeline) -> None:
    work = pipeline.work("run1", 0)
    far, audit = work.topics[1], work.audit
    assert audit is not None
    of_topics = (
        SinkAudit("near", "topic", pipeline.topics[0].topic, 1, 5),
        SinkAudit("far", "topic", pipeline.topics[1].topic, 1, 5, cluster=far.cluster),
    )
    entry = msgspec.structs.replace(audit, sinks=(*audit.sinks, *of_topics))
    with pytest.raises(Died):
        pipeline.committer("run1").dying(End, Moment.BEFORE).commit(msgspec.structs.replace(work, audit=entry))
    # Somebody ends what he takes for left behind.
    with Admin(bootstrap_servers=pipeline.other) as admin:
        admin.fence_producer(far.participants[0].transactional_id)
    with pytest.raises(LostTransactionError):
        pipeline.committer("run2").commit(pipeline.work("run2", 0))
    cli = ("pipeline", "recover", pipeline.identity.query, "--bootstrap", pipeline.bootstrap, "--accept-loss")
    assert tidelog(*cli).exit_code == 0

    empty = BatchWork(1, BatchInput("hash of 1", 0, 0), audit=msgspec.structs.replace(audit, batch_id=1, sinks=()))
    pipeline.committer("run3").commit(empty)

    assert pipeline.seen == [[0], [], [0]]
    lost, without_rows = pipeline.audit
    assert (lost.batch_id, lost.lost_rows) == (0, far.rows)
    assert {each.sink: each.is_partial for each in lost.sinks} == {"files": False, "near": False, "far": True}
    assert verify_sink(lost.sinks[2], {"bootstrap_servers": pipeline.bootstrap}).outcome is Outcome.UNKNOWN
    shown = tidelog("pipeline", "audit", "orders", "--query", pipeline.identity.query, "--batch", "0", *cli[3:5])
    assert "  without 1 row for topics, which were aborted" in shown.stdout
    assert without_rows.started_ms <= without_rows.decided_ms <= without_rows.finished_ms


def test_a_sink_that_is_not_reached_is_asked_again_for_some_time(monkeypatch: pytest.MonkeyPatch) -> None:
    output = StagedOutput("files", Target("files", "/nowhere"), "/nowhere/m", 1, "", 1, 1)
    failures = 2

    def failing(_output: StagedOutput) -> None:
        nonlocal failures
        failures -= 1
        if failures >= 0:
            raise OSError("it starts again")

    monkeypatch.setattr(staged_ends, "_end", failing)
    assert asyncio.run(StagedEnds(SystemClock()).end(output)) is None
    failures = 10**6
    found = asyncio.run(StagedEnds(SystemClock(), reach_timeout_ms=0).end(output))
    assert found == Unended("the sink files is not reached: it starts again", is_refused=False)


@pytest.mark.parametrize(
    "error",
    [OptionError("the variable PASSWORD is not set"), pa.ArrowInvalid("odd"), KeyError("x"), Exception("a\n panic")],
    ids=lambda error: type(error).__name__,
)
def test_whatever_else_a_sink_raises_is_a_refusal(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    output = StagedOutput("files", Target("files", "/nowhere"), "/nowhere/m", 1, "", 1, 1)

    def failing(_output: StagedOutput) -> None:
        raise error

    for name in ("_end", "_check", "_discard"):
        monkeypatch.setattr(staged_ends, name, failing)
    ends = StagedEnds(SystemClock())

    found = asyncio.run(ends.end(output))
    assert found is not None
    assert (found.is_refused, "\n" in found.reason) == (True, False)
    assert asyncio.run(ends.check([output])) == (found.reason,)
    assert str(error).split()[-1] in found.reason
    asyncio.run(ends.discard([output]))


def test_an_end_that_raises_what_nobody_expects_keeps_no_other_sink_waiting_and_can_be_skipped(
    pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(_output: StagedOutput) -> None:
        raise ValueError("it is not a table")

    monkeypatch.setattr(staged_ends, "_end", failing)
    with pytest.raises(OutputStoppedError, match=r"sink files .*refuses its 1 rows.*ValueError: it is not a table"):
        pipeline.committer("run1").commit(pipeline.work("run1", 0))

    assert pipeline.seen == [[0], [0], []]
    assert pipeline.still_open == []
    assert pipeline.recover("files") == ((), ("files",))


def test_a_far_cluster_whose_secret_is_missing_keeps_no_other_from_being_committed(
    pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = pipeline.work("run1", 0)
    near, far = work.topics
    assert far.cluster is not None
    secret = msgspec.structs.replace(far.cluster, options={"client.id": "${env:FAR_NAME}"})
    monkeypatch.setenv("FAR_NAME", "x")
    topics = (msgspec.structs.replace(far, cluster=secret), near)
    with pytest.raises(Died):
        pipeline.committer("run1").dying(End, Moment.BEFORE).commit(msgspec.structs.replace(work, topics=topics))
    monkeypatch.delenv("FAR_NAME")

    with pytest.raises(UnfinishedError, match="FAR_NAME"):
        pipeline.recover()
    assert pipeline.seen == [[0], [], [0]]
    monkeypatch.setenv("FAR_NAME", "x")
    assert pipeline.recover() == ((), ())
    assert pipeline.seen == [[0]] * 3


def test_a_sink_that_is_not_reached_after_the_decision_is_ended_by_the_next_run(
    pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(_output: StagedOutput) -> None:
        raise OSError("it is away")

    with monkeypatch.context() as patched:
        patched.setattr(staged_ends, "_end", failing)
        patched.setattr(sink_cluster, "StagedEnds", lambda clock: StagedEnds(clock, reach_timeout_ms=0))
        with pytest.raises(
            UnfinishedError, match="its sink files does not have it yet: the sink files is not reached: it is away"
        ):
            pipeline.committer("run1").commit(pipeline.work("run1", 0))
        assert pipeline.seen == [[0], [0], []]
        # It may have come to its end without an answer.
        (stopped,), skipped = pipeline.recover("files")
        assert skipped == ()
        assert "is not reached, and may have its 1 rows" in stopped
        assert "--skip-sink files --skip-unreached" in stopped

    pipeline.committer("run2").commit(pipeline.work("run2", 0))

    assert pipeline.seen == [[0]] * 3


def test_what_is_decided_is_left_alone_by_a_recovery_at_a_cluster_that_has_not_the_decision(pipeline: Pipeline) -> None:
    """Readers of the far topic wait, and somebody wants them to go on, where he sees it."""
    work = pipeline.work("run1", 0)
    with pytest.raises(Died):
        pipeline.committer("run1").dying(End, Moment.BEFORE).commit(work)
    (far,) = work.topics[1].participants
    where = (
        f"`tidelog pipeline recover {pipeline.identity.query} --bootstrap {pipeline.bootstrap}` at the cluster "
        f"{pipeline.decided_at.cluster_id}, which has the decisions about them"
    )

    settings = {"bootstrap_servers": pipeline.other}
    (warning,) = tell_open_elsewhere(settings, [pipeline.topics[1].topic], age_ms_min=0)
    assert warning.endswith(f"end them by {where}")
    told = tidelog("pipeline", "recover", pipeline.identity.query, "--bootstrap", pipeline.other)
    assert (told.exit_code, where in told.stderr) == (1, True)
    everything = tidelog(*("pipeline", "recover", "--all", "--older-than", "0ms", "--bootstrap", pipeline.other))
    assert (everything.exit_code, where in everything.stderr) == (1, True)
    with pytest.raises(SinkError, match=f"waits for a sink files, so that none is skipped; .*{pipeline.bootstrap}"):
        recover(pipeline.identity.query, settings, skip_sinks=["files"])
    early = recover_all(settings, older_than_ms=600_000)
    assert (early.sinks, early.elsewhere) == ((), ())
    assert far.transactional_id in pipeline.still_open

    assert pipeline.recover() == ((), ())
    assert pipeline.seen == [[0]] * 3
    assert pipeline.still_open == []
    pipeline.committer("run2").commit(pipeline.work("run2", 0))
    assert pipeline.seen == [[0]] * 3


# What queries have left open.


def test_who_has_what_open_elsewhere(clusters: tuple[str, str]) -> None:
    name = uuid4().hex[:8]
    tasks = [
        Tasks(clusters[0], f"{topic}-{name}", SinkIdentity(f"{query}-{name}"))
        for topic, query in (("a", "one"), ("a", "other"), ("b", "third"))
    ]
    for topic in {each.topic for each in tasks}:
        tasks[0].admin.create_topic(topic, partitions=1)
    for each in tasks:
        each.write("run", [1])
    now_ms = system_now_ms() + 600_000

    async def look() -> list[OpenElsewhere]:
        async with AsyncAdmin(bootstrap_servers=clusters[0]) as admin:
            return await open_elsewhere(
                admin, [f"a-{name}"], now_ms=now_ms, but=SinkIdentity(f"other-{name}"), age_ms_min=0
            )

    (found,) = asyncio.run(look())
    settings = {"bootstrap_servers": clusters[0]}
    (sentence,) = tell_open_elsewhere(settings, [f"b-{name}"], age_ms_min=0)
    assert f"the query third-{name} has 1 transactions open on b-{name} for 0 s" in sentence
    assert tell_open_elsewhere(settings, [f"b-{name}"]) == []
    (untold,) = tell_open_elsewhere({"bootstrap_servers": "127.0.0.1:1", "max_block_ms": 100}, ["b"])
    assert "whether older transactions are open on b is not known" in untold

    assert (found.identity, found.topics, found.count) == (SinkIdentity(f"one-{name}"), (f"a-{name}",), 1)
    assert str(msgspec.structs.replace(found, age_ms=605_000)) == (
        f"the query one-{name} has 1 transactions open on a-{name} for 10 minutes, and readers of what is committed wait "
        f"for them: if it does not come back, end them by `tidelog pipeline recover one-{name}`"
    )
    for each in tasks:
        recover(each.identity.query, {"bootstrap_servers": clusters[0]})
        each.close()


def test_all_queries_that_are_silent_are_recovered_and_no_others(pipeline: Pipeline) -> None:
    prefix = f"prefix-{uuid4().hex[:8]}"
    left = Tasks(pipeline.bootstrap, pipeline.topics[0].topic, SinkIdentity("left", prefix=prefix))
    decided = Tasks(pipeline.bootstrap, pipeline.topics[0].topic, SinkIdentity("decided", prefix=prefix))
    orphan, batch = left.write("run", [-1]), decided.write("run", [7])
    with pytest.raises(Died):
        MortalCommitter(decided.identity, "run", {"bootstrap_servers": pipeline.bootstrap}).dying(
            End, Moment.BEFORE
        ).commit(BatchWork.of_topic(0, [batch]))
    others = pipeline.topics[0].write("run", [-2])

    early = recover_all({"bootstrap_servers": pipeline.bootstrap}, older_than_ms=600_000, prefix=prefix)
    assert early.sinks == ()
    done = tidelog(
        *("pipeline", "recover", "--all", "--older-than", "0ms", "--prefix", prefix, "--json"),
        *("--bootstrap", pipeline.bootstrap),
    )

    assert done.exit_code == 0, done.stderr
    assert [(row["query"], row["committed"], row["aborted"]) for row in json_lines(done)] == [
        ("decided", [batch.transactional_id], []),
        ("left", [], [orphan.transactional_id]),
    ]
    assert pipeline.still_open == [others.transactional_id]
    for question in (
        ["--all", "q"],
        ["--older-than", "1m", "q"],
        [],
        ["--all", "--skip-sink", "x"],
        ["--all", "--older-than", "x"],
    ):
        refused = tidelog("pipeline", "recover", *question, "--bootstrap", pipeline.bootstrap)
        assert (refused.exit_code, len(refused.stderr.splitlines())) == (2, 1), question
    recover(pipeline.identity.query, {"bootstrap_servers": pipeline.bootstrap})
    assert committed_numbers(pipeline.bootstrap, pipeline.topics[0].topic) == [7]
    left.close()
    decided.close()


# The topic of decisions.


def test_a_topic_of_decisions_that_forgets_is_refused() -> None:
    with EmbeddedCluster() as cluster, Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
        admin.create_topic(TOPIC, partitions=1, configs={"cleanup.policy": "compact,delete"})
        tasks = Tasks(cluster.bootstrap_servers, "out", SinkIdentity("query"))
        sink = MortalCommitter(tasks.identity, "run", {"bootstrap_servers": cluster.bootstrap_servers})

        with pytest.raises(SinkError, match=f"{TOPIC} has cleanup.policy=compact,delete.*tidelog configs set topic"):
            sink.commit(BatchWork(0))

        told = tidelog(
            *("configs", "set", "topic", TOPIC, "cleanup.policy=compact", "--bootstrap", cluster.bootstrap_servers)
        )
        assert told.exit_code == 0, told.stderr
        sink.commit(BatchWork(0))
        tasks.close()


def test_a_first_batch_without_rows_makes_the_topic_of_accounts_as_any_other(
    clusters: tuple[str, str], tmp_path: Path
) -> None:
    with EmbeddedCluster() as one, Admin(bootstrap_servers=one.bootstrap_servers) as admin:
        pipeline = Pipeline((one.bootstrap_servers, clusters[1]), tmp_path)
        audit = pipeline.work("run1", 0).audit
        assert audit is not None
        empty = BatchWork(0, BatchInput("hash of 0", 0, 0), audit=msgspec.structs.replace(audit, sinks=()))

        with pipeline.committer("run1") as sink:
            sink.commit(empty)

        topic = ConfigResource(ResourceKind.TOPIC, AUDIT_TOPIC)
        configs = admin.describe_configs([topic])[topic]
        assert not isinstance(configs, Exception)
        assert configs["retention.ms"].value == str(AUDIT_RETENTION_MS)
        assert configs["unclean.leader.election.enable"].value == "false"
        assert [each.batch_id for each in pipeline.audit] == [0]
        pipeline.close()


def test_a_batch_whose_account_is_too_large_for_its_topic_is_not_decided(
    clusters: tuple[str, str], tmp_path: Path
) -> None:
    with EmbeddedCluster() as one, Admin(bootstrap_servers=one.bootstrap_servers) as admin:
        admin.create_topic(AUDIT_TOPIC, partitions=1, configs={"max.message.bytes": "200"})
        pipeline = Pipeline((one.bootstrap_servers, clusters[1]), tmp_path)
        work = pipeline.work("run1", 0)

        with pytest.raises(
            UndecidedError, match=f"its account could not be written to {AUDIT_TOPIC}: .*MESSAGE_TOO_LARGE"
        ):
            pipeline.committer("run1").commit(work)
        pipeline.committer("run1").abort(work)

        assert pipeline.seen == [[], [], []]
        assert pipeline.still_open == []
        admin.alter_config(ResourceKind.TOPIC, AUDIT_TOPIC, set={"max.message.bytes": "100000"})
        with pipeline.committer("run2") as sink:
            for batch_id in range(2):
                sink.commit(pipeline.work("run2", batch_id))
        assert pipeline.seen == [[0, 1]] * 3
        assert [each.batch_id for each in pipeline.audit] == [0, 1]
        pipeline.close()


def test_a_topic_of_decisions_that_one_broker_can_lose_is_told() -> None:
    well = {"cleanup.policy": "compact", "min.insync.replicas": "2"}
    assert topic_problems(well, replicas=3, brokers=5) == ("", [])
    assert topic_problems({}, replicas=1, brokers=1) == ("", [])
    assert "1 of 3 replicas" in topic_problems({}, replicas=1, brokers=3)[1][0]
    problem, (warning,) = topic_problems({**well, "min.insync.replicas": "1"}, replicas=3, brokers=3)
    assert (problem, "min.insync.replicas=1" in warning) == ("", True)
    assert audit_topic_warnings(replicas=3, brokers=5) == audit_topic_warnings(replicas=1, brokers=1) == []
    (warning,) = audit_topic_warnings(replicas=1, brokers=3)
    assert "1 of 3 replicas: while its broker is away no batch is decided" in warning
    assert "set it to compact" in topic_problems({"cleanup.policy": "delete"}, replicas=3, brokers=3)[0]
