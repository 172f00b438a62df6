"""What the source, the sink and a recovery have to be allowed, and that it is no more: docs/spark.md lists the same.

Each runs as a user who may do exactly that, and then once without each of the rights.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from uuid import uuid4

import msgspec
import pyarrow as pa
import pytest
from pyspark import TaskContext
from pyspark.sql.types import BinaryType, StructField, StructType

from tidelog import Admin, Consumer, Producer
from tidelog.client.admin import AclBinding, AclBindingFilter, TransactionState
from tidelog.client.consumer.topic_partition import TopicPartition
from tidelog.client.errors import ClientError
from tidelog.model.acl import AclOperation, PatternType, ResourceType
from tidelog.spark.errors import SinkError, SourceError, UndecidedError
from tidelog.spark.sink.audit_entry import AuditEntry, SinkAudit
from tidelog.spark.sink.sink import BatchSink, TaskWritten
from tidelog.spark.sink.sink_batch import BatchWork
from tidelog.spark.sink.sink_committer import SinkCommitter
from tidelog.spark.sink.sink_decisions import AUDIT_TOPIC, TOPIC as DECISIONS
from tidelog.spark.sink.sink_options import parse_sink_options
from tidelog.spark.sink.sink_recovery import recover
from tidelog.spark.sink.sink_task import close_kept as close_producers
from tidelog.spark.sink.sink_transactions import close_transactions
from tidelog.spark.source.planning import divide, plan_read
from tidelog.spark.source.source_cluster import SourceCluster
from tidelog.spark.source.source_options import batch_bounds, parse_source_options
from tidelog.spark.source.task_reading import close_kept, read_range
from tidelog.testing import EmbeddedCluster

ALICE = "User:alice"
SCHEMA = StructType([StructField("value", BinaryType())])

Right = tuple[ResourceType, str, AclOperation]


@pytest.fixture(scope="module")
def secured() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(security="plain", config={"transaction.two.phase.commit.enable": True}) as cluster:
        with Admin(**cluster.client_options("admin")) as admin:
            admin.delete_acls([AclBindingFilter(principal=ALICE)])
        yield cluster


@pytest.fixture
def admin(secured: EmbeddedCluster) -> Iterator[Admin]:
    with Admin(**secured.client_options("admin")) as admin:
        yield admin


@pytest.fixture(autouse=True)
def one_task(monkeypatch: pytest.MonkeyPatch) -> None:
    """All that is written here is written by one task."""
    context = SimpleNamespace(
        partitionId=lambda: 0,
        attemptNumber=lambda: 0,
        taskAttemptId=lambda: 0,
        stageId=lambda: 0,
        getLocalProperty=lambda _name: None,
    )
    monkeypatch.setattr(TaskContext, "get", lambda: context)


@contextmanager
def allowed(admin: Admin, rights: Iterable[Right]) -> Iterator[None]:
    """Within the block alice may do this and nothing else. Transactional ids are prefixes."""
    acls = [
        AclBinding(
            kind,
            name,
            ALICE,
            operation,
            pattern_type=PatternType.PREFIXED if kind is ResourceType.TRANSACTIONAL_ID else PatternType.LITERAL,
        )
        for kind, name, operation in rights
    ]
    assert not any(admin.create_acls(acls).values())
    try:
        yield
    finally:
        admin.delete_acls([AclBindingFilter(principal=ALICE)])
        # Connections of before may have been let in to what is not allowed any more.
        close_kept()
        close_transactions()
        close_producers()


def each_is_needed(
    admin: Admin, rights: list[Right], work: Callable[[], object], *, is_done: Callable[[], bool] = lambda: True
) -> None:
    """With all of them it is done; without any one of them it is not."""
    for missing in rights:
        with allowed(admin, [each for each in rights if each != missing]):
            try:
                work()
            except (SourceError, SinkError, ClientError) as error:
                assert "uthoriz" in str(error), f"without {missing}: {error}"  # noqa: PT017 - each is another one
                continue
            assert not is_done(), f"it went without {missing}"
    with allowed(admin, rights):
        work()
        assert is_done()


def options_of(cluster: EmbeddedCluster, **more: str) -> dict[str, str]:
    login = {f"kafka.{name}": text for name, text in cluster.client_properties("alice").items()}
    return {**login, **{name.replace("__", "."): each for name, each in more.items()}}


def values_in(cluster: EmbeddedCluster, topic: str) -> list[bytes]:
    with Consumer(**cluster.client_options("admin"), isolation_level="read_committed") as consumer:
        partition = TopicPartition(topic, 0)
        consumer.assign([partition])
        consumer.seek_to_beginning(partition)
        end = consumer.end_offsets([partition])[partition]
        found = []
        while consumer.position(partition) < end:
            found += [each.value for each in consumer.poll(1_000)]
        return found


def test_a_read_and_its_group(secured: EmbeddedCluster, admin: Admin) -> None:
    name = f"in-{uuid4().hex[:8]}"
    secured.create_topic(name)
    with Producer(**secured.client_options("admin")) as producer:
        producer.send(name, b"1").result(30)
    options = parse_source_options(options_of(secured, subscribe=name, kafka__group__id=f"g-{name}"))

    def read() -> None:
        cluster = SourceCluster(options)
        try:
            ranges = divide(plan_read(cluster, options, *batch_bounds(options)), options)
            cluster.commit({each.partition: each.end for each in ranges})
        finally:
            cluster.close()
        rows = [
            row for each in ranges for batch in read_range(options, each) for row in batch.column("value").to_pylist()
        ]
        assert rows == [b"1"]

    def is_committed() -> bool:
        found = admin.list_group_offsets(f"g-{name}")
        return [each.offset for each in found.values() if each is not None] == [1]

    each_is_needed(
        admin,
        [(ResourceType.TOPIC, name, AclOperation.READ), (ResourceType.GROUP, f"g-{name}", AclOperation.READ)],
        read,
        is_done=is_committed,
    )


def written(cluster: EmbeddedCluster, *values: bytes, is_left: bool = False, **more: str) -> None:
    """What Spark does with a batch of one task, in one process; or only what its task does."""
    sink = BatchSink(parse_sink_options(options_of(cluster, **more), is_stream=False), SCHEMA, overwrite=False)
    message = sink.write(iter([pa.RecordBatch.from_pydict({"value": list(values)})]))
    if not is_left:
        sink.commit([message])


def test_a_write_at_least_once(secured: EmbeddedCluster, admin: Admin) -> None:
    name = f"out-{uuid4().hex[:8]}"
    secured.create_topic(name)

    each_is_needed(admin, [(ResourceType.TOPIC, name, AclOperation.WRITE)], lambda: written(secured, b"1", topic=name))
    assert values_in(secured, name) == [b"1"]


def test_a_write_exactly_once_and_its_recovery(secured: EmbeddedCluster, admin: Admin) -> None:
    name = f"out-{uuid4().hex[:8]}"
    secured.create_topic(name)
    rights: list[Right] = [
        (ResourceType.TOPIC, name, AclOperation.WRITE),
        (ResourceType.TRANSACTIONAL_ID, "tidelog-spark.", AclOperation.WRITE),
        (ResourceType.TOPIC, DECISIONS, AclOperation.READ),
        (ResourceType.TOPIC, DECISIONS, AclOperation.WRITE),
    ]
    creates = (ResourceType.TOPIC, DECISIONS, AclOperation.CREATE)
    pins = (ResourceType.TRANSACTIONAL_ID, "tidelog-spark.", AclOperation.TWO_PHASE_COMMIT)
    version = iter(range(100))

    def write(*, is_left: bool = False) -> None:
        step = str(next(version))
        written(
            secured, step.encode(), is_left=is_left, topic=name, delivery="exactly_once", txnAppId=name, txnVersion=step
        )

    with allowed(admin, [*rights, pins]), pytest.raises(SinkError, match="TOPIC_AUTHORIZATION_FAILED"):
        write()
    assert DECISIONS not in {each.name for each in admin.list_topics()}, "who may not create it has it created"
    with allowed(admin, [*rights, creates, pins]):
        write()
    assert values_in(secured, name) == [b"1"]
    before = len(values_in(secured, name))

    each_is_needed(admin, rights, write, is_done=lambda: len(values_in(secured, name)) > before)
    with allowed(admin, [*rights, pins]):
        write()
    seen = values_in(secured, name)
    assert len(seen) == before + 2, "with and without two-phase commit"

    # An account of the batch, as pipelines have it: the right to write it is asked for before anything is decided.
    settings = parse_sink_options(options_of(secured, topic=name), is_stream=False).client
    accounts: list[Right] = [
        (ResourceType.TOPIC, AUDIT_TOPIC, AclOperation.WRITE),
        (ResourceType.TOPIC, AUDIT_TOPIC, AclOperation.CREATE),
    ]

    def write_with_account() -> None:
        step = next(version)
        more = {"delivery": "exactly_once", "txnAppId": name, "txnVersion": str(step)}
        sink = BatchSink(
            parse_sink_options(options_of(secured, topic=name, **more), is_stream=False), SCHEMA, overwrite=False
        )
        message = sink.write(iter([pa.RecordBatch.from_pydict({"value": [str(step).encode()]})]))
        assert isinstance(message, TaskWritten)
        assert message.write is not None
        assert message.participant is not None
        entry = AuditEntry(
            "p", name, message.write.run, step, (), None, (SinkAudit("out", "topic", name, 1, 0),), "", 1
        )
        work = BatchWork.of_topic(step, [message.participant])
        committer = SinkCommitter(message.write.identity, message.write.run, settings)
        try:
            committer.commit(msgspec.structs.replace(work, audit=entry))
        except SinkError:
            committer.abort(work)
            raise

    for missing in reversed(accounts):
        left = [each for each in accounts if each != missing]
        with allowed(admin, [*rights, pins, *left]), pytest.raises(UndecidedError, match="TOPIC_AUTHORIZATION_FAILED"):
            write_with_account()
        assert values_in(secured, name) == seen
    with allowed(admin, [*rights, pins, *accounts]):
        write_with_account()
    assert len(values_in(secured, name)) == len(seen) + 1
    assert len(values_in(secured, AUDIT_TOPIC)) == 1
    seen = values_in(secured, name)

    # One that is left open: whoever recovers may write its ids, and read and write the decisions.
    with allowed(admin, [*rights, pins]):
        write(is_left=True)
    each_is_needed(
        admin,
        rights[1:],
        lambda: recover(name, settings),
        is_done=lambda: (
            not admin.list_transactions(pattern=f"tidelog-spark\\.{name}.*", states=[TransactionState.ONGOING])
        ),
    )
    assert values_in(secured, name) == seen
