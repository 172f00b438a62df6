"""The driver's half of the sink against a node with real transactions, in both of their versions."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest

from tests.spark.sink_tasks import DEADLINE_S, Died, Moment, MortalCommitter, Tasks
from tests.spark.written import committed_numbers, transactional_ids
from tidelog import Admin, AsyncAdmin, Producer
from tidelog.client.admin import TransactionState
from tidelog.client.admin.cluster import UpgradeType
from tidelog.client.admin.transactions import TransactionDescription
from tidelog.client.errors import ProducerFencedError
from tidelog.client.seams import ClientSeams
from tidelog.spark.errors import (
    BatchInputError,
    BatchOrderError,
    LostTransactionError,
    SinkError,
    SupersededError,
    UndecidedError,
    UnfinishedError,
)
from tidelog.spark.sink.sink_batch import BatchInput, BatchWork
from tidelog.spark.sink.sink_cluster import ending_of
from tidelog.spark.sink.sink_committer import SinkCommitter
from tidelog.spark.sink.sink_decisions import RECORD_BYTES_MAX, TOPIC, SinkDecisions
from tidelog.spark.sink.sink_effects import Effect, End, Ending, Pin
from tidelog.spark.sink.sink_participant import (
    DecidingCluster,
    Participant,
    SinkIdentity,
    attempt_id,
    parse_transactional_id,
    transactional_id,
)
from tidelog.spark.sink.sink_recovery import recover
from tidelog.spark.sink.sink_state import Decision, SinkState, encode_key, encode_state
from tidelog.testing import EmbeddedCluster

# Transactions that time out are looked for so often.
_CLEANUP = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": 50}
_SHORT_MS = 400


@pytest.fixture(scope="module", params=[2, 1], ids=["version2", "version1"])
def version(request: pytest.FixtureRequest) -> int:
    """Of the transactions (KIP-890)."""
    level: int = request.param
    return level


@pytest.fixture(scope="module")
def bootstrap(version: int) -> Iterator[str]:
    with EmbeddedCluster(config=_CLEANUP) as cluster:
        if version == 1:
            with Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
                admin.update_features({"transaction.version": 1}, upgrade_type=UpgradeType.SAFE_DOWNGRADE)
        yield cluster.bootstrap_servers


@pytest.fixture(scope="module")
def can_pin(version: int) -> bool:
    """Whether the cluster has two-phase commit, which needs transactions of version 2."""
    return version > 1


@pytest.fixture
def tasks(bootstrap: str) -> Iterator[Tasks]:
    """Of a new query, into a new topic."""
    name = uuid4().hex[:12]
    tasks = Tasks(bootstrap, f"out-{name}", SinkIdentity(f"query-{name}"))
    tasks.admin.create_topic(tasks.topic, partitions=2)
    yield tasks
    tasks.close()


def committer(tasks: Tasks, run: str) -> MortalCommitter:
    return MortalCommitter(tasks.identity, run, {"bootstrap_servers": tasks.bootstrap, "linger_ms": 3})


def seen(tasks: Tasks) -> list[int]:
    return committed_numbers(tasks.bootstrap, tasks.topic)


def still_open(tasks: Tasks) -> list[str]:
    return transactional_ids(tasks.bootstrap, tasks.identity.query)


def wait_for_time_out(tasks: Tasks, participant: Participant) -> None:
    """Until the coordinator has aborted it."""
    pause = threading.Event()
    for _ in range(DEADLINE_S * 20):
        if tasks.state(participant) is TransactionState.COMPLETE_ABORT:
            return
        pause.wait(0.05)
    raise AssertionError(f"{participant} does not time out")


def test_a_batch_is_there_once_it_is_committed_and_nothing_stays_open(tasks: Tasks) -> None:
    sink = committer(tasks, "run1")

    for batch_id in range(3):
        first = tasks.write("run1", [batch_id * 10, batch_id * 10 + 1])
        second = tasks.write("run1", [batch_id * 10 + 2], partition=1)
        tasks.write("run1", [-1])
        sink.commit(BatchWork.of_topic(batch_id, [first, second]))

    assert seen(tasks) == [0, 1, 2, 10, 11, 12, 20, 21, 22]
    assert still_open(tasks) == []


def test_a_batch_without_rows_is_decided_as_well(tasks: Tasks) -> None:
    committer(tasks, "run1").commit(BatchWork.of_topic(7, []))

    with pytest.raises(BatchOrderError, match="comes after batch 7 was written"):
        committer(tasks, "run1").commit(BatchWork.of_topic(6, []))


def test_a_replayed_batch_is_aborted(tasks: Tasks) -> None:
    committer(tasks, "run1").commit(BatchWork.of_topic(0, [tasks.write("run1", [1])]))

    committer(tasks, "run2").commit(BatchWork.of_topic(0, [tasks.write("run2", [1])]))

    assert seen(tasks) == [1]
    assert still_open(tasks) == []


def test_an_old_checkpoint_is_an_error(tasks: Tasks) -> None:
    committer(tasks, "run1").commit(BatchWork.of_topic(5, [tasks.write("run1", [5])]))
    late = tasks.write("run2", [4])

    with pytest.raises(BatchOrderError):
        committer(tasks, "run2").commit(BatchWork.of_topic(4, [late]))
    committer(tasks, "run2").abort(BatchWork.of_topic(4, [late]))

    assert seen(tasks) == [5]
    assert still_open(tasks) == []


def test_an_aborted_batch_is_not_seen_and_may_come_again(tasks: Tasks) -> None:
    committer(tasks, "run1").abort(BatchWork.of_topic(0, [tasks.write("run1", [1])]))
    assert still_open(tasks) == []

    committer(tasks, "run1").commit(BatchWork.of_topic(0, [tasks.write("run1", [1])]))

    assert seen(tasks) == [1]


def test_a_superseded_run_fails_and_aborts_what_it_has_just_written(tasks: Tasks) -> None:
    committer(tasks, "run1").commit(BatchWork.of_topic(0, [tasks.write("run1", [0])]))
    committer(tasks, "run2").commit(BatchWork.of_topic(1, [tasks.write("run2", [1])]))
    late = tasks.write("run1", [1])

    with pytest.raises(SupersededError, match="run2"):
        committer(tasks, "run1").commit(BatchWork.of_topic(1, [late]))
    with pytest.raises(SupersededError):
        committer(tasks, "run1").abort(BatchWork.of_topic(1, [late]))

    assert still_open(tasks) == []
    committer(tasks, "run2").commit(BatchWork.of_topic(2, [tasks.write("run2", [2])]))
    assert seen(tasks) == [0, 1, 2]


def test_a_new_run_aborts_what_runs_before_it_left_open(tasks: Tasks) -> None:
    committer(tasks, "run1").commit(BatchWork.of_topic(0, [tasks.write("run1", [0])]))
    tasks.write("run1", [-1])
    tasks.write("never came to a commit", [-1])

    committer(tasks, "run2").commit(BatchWork.of_topic(1, [tasks.write("run2", [1])]))

    assert seen(tasks) == [0, 1]
    assert still_open(tasks) == []
    with pytest.raises(SupersededError):
        committer(tasks, "never came to a commit").commit(BatchWork.of_topic(1, []))


def test_an_owner_leaves_alone_what_a_newer_run_has_open(tasks: Tasks) -> None:
    committer(tasks, "run1").commit(BatchWork.of_topic(0, [tasks.write("run1", [0])]))
    newer = tasks.write("run2", [1])

    committer(tasks, "run1").commit(BatchWork.of_topic(1, [tasks.write("run1", [1])]))
    assert still_open(tasks) == [newer.transactional_id]

    committer(tasks, "run2").commit(BatchWork.of_topic(1, [newer]))
    assert seen(tasks) == [0, 1]
    assert still_open(tasks) == []


def test_others_are_left_alone_however_alike_their_names(tasks: Tasks) -> None:
    identity = tasks.identity
    others = [
        Tasks(tasks.bootstrap, tasks.topic, other)
        for other in (
            SinkIdentity(f"{identity.query}.more"),
            SinkIdentity(f"{identity.query}x"),
            SinkIdentity(identity.query, "late"),
            SinkIdentity("other", prefix=identity.ids_start.removesuffix(".")),
        )
    ]
    theirs = [other.write("run1", [index]) for index, other in enumerate(others)]

    committer(tasks, "run2").commit(BatchWork.of_topic(0, [tasks.write("run2", [100])]))

    for other, participant in zip(others, theirs, strict=True):
        assert other.state(participant) is TransactionState.ONGOING
        committer(other, "run1").commit(BatchWork.of_topic(0, [participant]))
        other.close()
    assert seen(tasks) == [0, 1, 2, 3, 100]


def test_a_decided_batch_is_finished_by_the_abort_that_follows_a_failed_commit(tasks: Tasks) -> None:
    batch = [tasks.write("run1", [1]), tasks.write("run1", [2], partition=1)]
    with pytest.raises(Died):
        committer(tasks, "run1").dying(End, Moment.WITHIN).commit(BatchWork.of_topic(0, batch))
    assert len(still_open(tasks)) == 1

    committer(tasks, "run1").abort(BatchWork.of_topic(0, batch))

    assert seen(tasks) == [1, 2]
    assert still_open(tasks) == []


def test_a_transaction_that_has_timed_out_before_is_not_decided_on(tasks: Tasks) -> None:
    early = tasks.write("run1", [1], timeout_ms=_SHORT_MS)
    late = tasks.write("run1", [2])
    wait_for_time_out(tasks, early)

    with pytest.raises(UndecidedError, match="1 of its 2 transactions"):
        committer(tasks, "run1").commit(BatchWork.of_topic(0, [early, late]))
    committer(tasks, "run1").abort(BatchWork.of_topic(0, [early, late]))

    assert seen(tasks) == []
    assert still_open(tasks) == []
    committer(tasks, "run2").commit(BatchWork.of_topic(0, [tasks.write("run2", [1, 2])]))
    assert seen(tasks) == [1, 2]


def test_a_decided_transaction_that_times_out_stops_the_query_with_batch_and_partitions(
    tasks: Tasks, can_pin: bool
) -> None:
    if can_pin:
        pytest.skip("what is decided has no time-out here")
    kept = tasks.write("run1", [1])
    lost = tasks.write("run1", [2, 3], partition=1, timeout_ms=_SHORT_MS)
    with pytest.raises(Died):
        committer(tasks, "run1").dying(End, Moment.WITHIN).commit(BatchWork.of_topic(4, [kept, lost]))
    wait_for_time_out(tasks, lost)
    again = tasks.write("run2", [1, 2, 3])

    sentence = (
        f"batch 4 of {tasks.identity} was decided, but 1 of its 2 transactions, with 2 records for {tasks.topic}-1"
    )
    with pytest.raises(LostTransactionError, match=sentence):
        committer(tasks, "run2").commit(BatchWork.of_topic(4, [again]))
    with pytest.raises(LostTransactionError):
        committer(tasks, "run2").abort(BatchWork.of_topic(4, [again]))
    assert seen(tasks) == [1]

    report = recover(tasks.identity.query, {"bootstrap_servers": tasks.bootstrap})
    assert [each.lost for each in report.sinks] == [(lost,)]
    assert not report.is_complete
    with pytest.raises(LostTransactionError):
        committer(tasks, "run3").commit(BatchWork.of_topic(5, []))
    recover(tasks.identity.query, {"bootstrap_servers": tasks.bootstrap}, accept_loss=True)
    committer(tasks, "run4").commit(BatchWork.of_topic(4, [tasks.write("run4", [1, 2, 3])]))
    committer(tasks, "run4").commit(BatchWork.of_topic(5, [tasks.write("run4", [5])]))
    assert seen(tasks) == [1, 5]
    assert still_open(tasks) == []


def test_a_decision_of_which_nothing_came_to_be_is_made_anew(tasks: Tasks, can_pin: bool) -> None:
    if can_pin:
        pytest.skip("what is decided has no time-out here")
    batch = [tasks.write("run1", [each], timeout_ms=_SHORT_MS) for each in (1, 2)]
    with pytest.raises(Died):
        committer(tasks, "run1").dying(End, Moment.BEFORE).commit(BatchWork.of_topic(0, batch))
    for each in batch:
        wait_for_time_out(tasks, each)

    with pytest.raises(LostTransactionError):
        committer(tasks, "run2").commit(BatchWork.of_topic(1, []))
    committer(tasks, "run2").commit(BatchWork.of_topic(0, [tasks.write("run2", [1, 2])]))

    assert seen(tasks) == [1, 2]
    assert still_open(tasks) == []


def test_what_is_decided_waits_for_ever_and_what_is_not_ends_by_itself(tasks: Tasks, can_pin: bool) -> None:
    if not can_pin:
        pytest.skip("the cluster has no two-phase commit")
    batch = [tasks.write("run1", [each], timeout_ms=_SHORT_MS) for each in (1, 2)]
    orphan = tasks.write("run1", [-1], timeout_ms=_SHORT_MS)
    with pytest.raises(Died):
        committer(tasks, "run1").dying(End, Moment.BEFORE).commit(BatchWork.of_topic(0, batch))

    wait_for_time_out(tasks, orphan)
    assert [tasks.state(each) for each in batch] == [TransactionState.ONGOING] * 2
    committer(tasks, "run2").commit(BatchWork.of_topic(0, [tasks.write("run2", [1, 2])]))

    assert seen(tasks) == [1, 2]
    assert still_open(tasks) == []


def test_transactions_that_were_pinned_and_not_decided_are_ended_by_recovery(tasks: Tasks, can_pin: bool) -> None:
    batch = [tasks.write("run1", [each]) for each in (1, 2)]
    with pytest.raises(Died):
        committer(tasks, "run1").dying(Pin, Moment.AFTER).commit(BatchWork.of_topic(0, batch))
    timeout_ms = {tasks.admin.describe_transaction(each.transactional_id).timeout_ms for each in batch}
    assert timeout_ms == {2**31 - 1 if can_pin else 60_000}

    report = recover(tasks.identity.query, {"bootstrap_servers": tasks.bootstrap})

    assert [sorted(each.aborted) for each in report.sinks] == [sorted(each.transactional_id for each in batch)]
    assert still_open(tasks) == []
    assert seen(tasks) == []


def test_an_abort_ends_what_a_failed_commit_has_pinned(tasks: Tasks) -> None:
    batch = [tasks.write("run1", [each]) for each in (1, 2)]
    with pytest.raises(Died):
        committer(tasks, "run1").dying(Pin, Moment.AFTER).commit(BatchWork.of_topic(0, batch))

    committer(tasks, "run1").abort(BatchWork.of_topic(0, batch))

    assert still_open(tasks) == []
    committer(tasks, "run1").commit(BatchWork.of_topic(0, [tasks.write("run1", [1, 2])]))
    assert seen(tasks) == [1, 2]


def test_a_transaction_that_another_producer_has_taken_is_not_decided_on(tasks: Tasks) -> None:
    taken, other = tasks.write("run1", [1]), tasks.write("run1", [2])
    # Somebody uses the id: what was open is aborted, and something else is open.
    with Producer(bootstrap_servers=tasks.bootstrap, transactional_id=taken.transactional_id, linger_ms=0) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(tasks.topic, b"-1", partition=0).result(DEADLINE_S)
        with pytest.raises(UndecidedError, match="1 of its 2 transactions"):
            committer(tasks, "run1").commit(BatchWork.of_topic(0, [taken, other]))
        committer(tasks, "run1").abort(BatchWork.of_topic(0, [taken, other]))

    assert seen(tasks) == []
    assert still_open(tasks) == []


def test_a_batch_is_known_by_its_input(tasks: Tasks, caplog: pytest.LogCaptureFixture) -> None:
    given = BatchInput("a hash", 1, 2**64 - 1)
    committer(tasks, "run1").commit(BatchWork.of_topic(0, [tasks.write("run1", [1])], given))
    committer(tasks, "run2").commit(BatchWork.of_topic(0, [tasks.write("run2", [1])], given))
    assert caplog.messages == []
    other = BatchWork.of_topic(0, [tasks.write("run3", [2])], BatchInput("another", 1, 5))

    with pytest.raises(BatchInputError, match="from other input"):
        committer(tasks, "run3").commit(other)
    committer(tasks, "run3").abort(other)
    committer(tasks, "run3").commit(BatchWork.of_topic(0, [tasks.write("run3", [1])], BatchInput("a hash", 2, 7)))

    assert seen(tasks) == [1]
    assert still_open(tasks) == []
    assert "is a replay of the same input, but had 1 rows then and 2 now" in "".join(caplog.messages)


def test_a_batch_that_nobody_comes_with_again_leaves_no_key(tasks: Tasks) -> None:
    work = BatchWork.of_topic(0, [tasks.write("run1", [1])], BatchInput(None, 1, 1), is_once=True)

    committer(tasks, "run1").commit(work)

    assert seen(tasks) == [1]
    assert recover(tasks.identity.query, {"bootstrap_servers": tasks.bootstrap}).sinks == ()


def test_what_an_earlier_release_has_decided_is_ended_from_its_own_bytes(tasks: Tasks) -> None:
    batch = [tasks.write("run1", [1]), tasks.write("run1", [2], partition=1)]
    committer(tasks, "run0").commit(BatchWork(41))
    # As version 1 wrote it.
    participants = [
        {
            "transactional_id": each.transactional_id,
            "producer_id": each.producer_id,
            "producer_epoch": each.producer_epoch,
            "records": each.records,
            "partitions": list(each.partitions),
        }
        for each in batch
    ]
    state = {
        "prefix": "tidelog-spark",
        "owner": "run1",
        "superseded": ["run0"],
        "finished_batch_id": 41,
        "decision": {"batch_id": 42, "participants": participants},
    }
    with Producer(bootstrap_servers=tasks.bootstrap) as producer:
        value = json.dumps({"version": 1, "state": state}).encode()
        producer.send(TOPIC, value, key=encode_key(tasks.identity), partition=0).result(DEADLINE_S)

    committer(tasks, "run2").commit(BatchWork.of_topic(42, [tasks.write("run2", [1, 2])]))
    committer(tasks, "run2").commit(BatchWork.of_topic(43, [tasks.write("run2", [3])]))

    assert seen(tasks) == [1, 2, 3]
    assert still_open(tasks) == []


def test_a_decision_about_eight_hundred_tasks_of_a_thousand_partitions_is_recorded(tasks: Tasks) -> None:
    partitions = {(f"{tasks.topic}-with-a-long-name", number) for number in range(1000)}
    participants = [
        Participant.of(
            attempt_id(tasks.identity, uuid4().hex, number, 0, 0, DecidingCluster("c" * 22, "broker.example.com:9092")),
            2**62 + number,
            2**15 - 1,
            records=10**9,
            partitions=partitions,
            checksum=2**64 - 1,
        )
        for number in range(800)
    ]
    decision = Decision.of(BatchWork.of_topic(0, participants, BatchInput("ab" * 32, 10**12, 2**64 - 1)))
    state = SinkState(tasks.identity.prefix, "run1").decided(decision)

    async def record() -> SinkState | None:
        settings: dict[str, Any] = {"bootstrap_servers": tasks.bootstrap}
        seams = ClientSeams.of(asyncio.get_running_loop())
        async with AsyncAdmin.on(seams, **settings) as admin:
            first = SinkDecisions(seams, admin, tasks.identity, settings)
            await first.take_over("run1")
            assert await first.record(state)
            await first.close()
            second = SinkDecisions(seams, admin, tasks.identity, settings)
            found = await second.take_over("run2")
            await second.close()
            return found

    assert asyncio.run(record()) == state
    assert len(encode_state(state)) < RECORD_BYTES_MAX / 20, "a thousand bytes a task"


def test_a_task_that_wakes_up_after_the_decision_cannot_take_its_rows_back(tasks: Tasks, can_pin: bool) -> None:
    if not can_pin:
        pytest.skip("the cluster has no two-phase commit")
    name = attempt_id(tasks.identity, "run1", 0, 0, 0)
    with Producer(bootstrap_servers=tasks.bootstrap, transactional_id=name, linger_ms=0) as zombie:
        zombie.init_transactions()
        zombie.begin_transaction()
        zombie.send(tasks.topic, b"1", partition=0).result(DEADLINE_S)
        found = tasks.admin.describe_transaction(name)
        participant = Participant.of(
            name, found.producer_id, found.producer_epoch, records=1, partitions=[(tasks.topic, 0)]
        )
        with pytest.raises(Died):
            committer(tasks, "run1").dying(End, Moment.BEFORE).commit(BatchWork.of_topic(0, [participant]))

        with pytest.raises(ProducerFencedError):
            zombie.abort_transaction()
        assert tasks.state(participant) is TransactionState.ONGOING

    committer(tasks, "run2").commit(BatchWork.of_topic(0, [tasks.write("run2", [1])]))
    assert seen(tasks) == [1]
    assert still_open(tasks) == []


def test_a_long_lived_driver_keeps_its_connections(tasks: Tasks) -> None:
    with committer(tasks, "run1") as sink:
        deciders = set()
        for batch_id in range(3):
            sink.commit(BatchWork.of_topic(batch_id, [tasks.write("run1", [batch_id])]))
            assert sink._kept is not None
            deciders.add(sink._kept.cluster._decisions._decider)
        assert len(deciders) == 1
        # Another run takes over in between.
        committer(tasks, "run2").commit(BatchWork.of_topic(3, [tasks.write("run2", [3])]))
        with pytest.raises(SupersededError):
            sink.commit(BatchWork.of_topic(4, [tasks.write("run1", [4])]))
        assert sink._kept is None

    assert seen(tasks) == [0, 1, 2, 3]
    assert still_open(tasks) == []


def test_recovery_commits_what_is_decided_and_aborts_the_rest(tasks: Tasks) -> None:
    batch = [tasks.write("run1", [1]), tasks.write("run1", [2])]
    orphan = tasks.write("run1", [-1])
    late = Tasks(tasks.bootstrap, tasks.topic, SinkIdentity(tasks.identity.query, "late"))
    undecided = late.write("run1", [-2])
    late.close()
    with pytest.raises(Died):
        committer(tasks, "run1").dying(End, Moment.BEFORE).commit(BatchWork.of_topic(3, batch))

    report = recover(tasks.identity.query, {"bootstrap_servers": tasks.bootstrap})

    found = {each.identity: each for each in report.sinks}
    assert report.is_complete
    assert found[tasks.identity].last_batch_id == 3
    assert [each.transactional_id for each in found[tasks.identity].committed] == [
        each.transactional_id for each in batch
    ]
    assert found[tasks.identity].aborted == (orphan.transactional_id,)
    assert found[late.identity].last_batch_id is None
    assert found[late.identity].aborted == (undecided.transactional_id,)
    assert seen(tasks) == [1, 2]
    assert still_open(tasks) == []
    with pytest.raises(SupersededError):
        committer(tasks, "run1").commit(BatchWork.of_topic(4, []))
    committer(tasks, "run2").commit(BatchWork.of_topic(3, [tasks.write("run2", [1, 2])]))
    committer(tasks, "run2").commit(BatchWork.of_topic(4, [tasks.write("run2", [4])]))
    assert seen(tasks) == [1, 2, 4]


def test_recovery_of_a_query_that_nobody_knows_finds_nothing(tasks: Tasks) -> None:
    assert recover("nobody", {"bootstrap_servers": tasks.bootstrap}).sinks == ()


def test_another_prefix_is_refused(tasks: Tasks) -> None:
    committer(tasks, "run1").commit(BatchWork.of_topic(0, []))
    other = SinkIdentity(tasks.identity.query, prefix="other")

    with pytest.raises(SinkError, match="transactionalIdPrefix=tidelog-spark, now it is other"):
        SinkCommitter(other, "run2", {"bootstrap_servers": tasks.bootstrap}).commit(BatchWork.of_topic(1, []))


def test_a_cluster_that_is_not_there_is_one_sentence() -> None:
    sink = SinkCommitter(SinkIdentity("query"), "run", {"bootstrap_servers": "127.0.0.1:1", "max_block_ms": 200})

    with pytest.raises(UnfinishedError, match="batch 0 of query is not finished"):
        sink.commit(BatchWork.of_topic(0, []))


def test_the_topic_of_decisions_is_compacted_and_has_one_partition(tasks: Tasks) -> None:
    committer(tasks, "run1").commit(BatchWork.of_topic(0, []))

    topic = tasks.admin.describe_topic(TOPIC)

    assert len(topic.partitions) == 1


def test_a_decision_far_from_the_end_is_found(tasks: Tasks) -> None:
    committer(tasks, "run1").commit(BatchWork.of_topic(3, []))
    other = Tasks(tasks.bootstrap, tasks.topic, SinkIdentity(f"busy-{uuid4().hex}"))
    for batch_id in range(40):
        committer(other, "run1").commit(BatchWork.of_topic(batch_id, []))
    other.close()

    with pytest.raises(BatchOrderError):
        committer(tasks, "run1").commit(BatchWork.of_topic(2, []))


# A driver that dies.


def _effects(tasks: Tasks) -> list[type[Effect]]:
    """What a first commit of two tasks and an orphan asks for."""
    sink = committer(tasks, "all is well")
    batch = [tasks.write("all is well", [1]), tasks.write("all is well", [2], partition=1)]
    tasks.write("all is well", [-1])
    sink.commit(BatchWork.of_topic(0, batch))
    return [type(each) for each in sink.done]


def test_each_row_is_there_once_wherever_a_driver_dies(tasks: Tasks, version: int, can_pin: bool) -> None:
    names = [each.__name__ for each in _effects(tasks)]
    assert names == [
        *("TakeOver", "ListOpen", "Record", "Pin", "Record", "End", "Record", "ListOpen", "AbortOrphans"),
    ]
    end = names.index(End.__name__)
    # The version makes a difference to ends alone.
    numbers = range(len(names)) if version > 1 else range(end, end + 2)
    deaths = [(number, moment) for number in numbers for moment in (Moment.BEFORE, Moment.AFTER)]
    deaths.append((end, Moment.WITHIN))
    deaths += [(names.index(Pin.__name__), Moment.WITHIN)] if can_pin else []

    batch_id, run_id, expected = 0, 0, [1, 2]
    for number, moment in deaths:
        # Each time another run writes the next batch and dies; the run after it replays the batch.
        batch_id, run_id = batch_id + 1, run_id + 1
        values = [batch_id * 10, batch_id * 10 + 1]
        batch = [tasks.write(f"run{run_id}", values[:1]), tasks.write(f"run{run_id}", values[1:], partition=1)]
        tasks.write(f"run{run_id}", [-1])
        sink = committer(tasks, f"run{run_id}").dying(number, moment)
        with pytest.raises(Died):
            sink.commit(BatchWork.of_topic(batch_id, batch))
        if run_id % 2:
            committer(tasks, f"run{run_id}").abort(BatchWork.of_topic(batch_id, batch))

        run_id += 1
        committer(tasks, f"run{run_id}").commit(BatchWork.of_topic(batch_id, [tasks.write(f"run{run_id}", values)]))

        expected += values
        assert seen(tasks) == expected, (number, moment)
        assert still_open(tasks) == [], (number, moment)


# What is pure.


@pytest.mark.parametrize(
    ("identity", "run"),
    [
        (SinkIdentity("query"), "run"),
        (SinkIdentity("a.b~c d%", "x.y", "team.spark"), "1.2"),
        (SinkIdentity("größe", "日本"), "run~1"),
    ],
)
def test_a_transactional_id_is_read_back(identity: SinkIdentity, run: str) -> None:
    name = transactional_id(identity, run, "worker.1", 12)

    parsed = parse_transactional_id(name, identity.prefix)

    assert parsed == (identity, run, None, ("worker.1", "12"))
    assert name.startswith(identity.ids_start)
    for cluster in (None, DecidingCluster("a-B_c~1", "[::1]:9092,größe.example:9093")):
        named = attempt_id(identity, run, 7, 0, 12, cluster)
        assert parse_transactional_id(named, identity.prefix) == (identity, run, cluster, ("7", "0", "12"))
        assert named.startswith(identity.ids_start)
        longer = f"{identity.prefix}.more{named.removeprefix(identity.prefix)}"
        assert parse_transactional_id(longer, identity.prefix) is None


def test_an_id_names_some_servers_of_the_cluster_that_decides() -> None:
    servers = ",".join(f"broker-{number}.example.com:9092" for number in range(100))

    found = DecidingCluster.at("id", servers)

    assert servers.startswith(f"{found.address},")
    assert 100 < len(found.address) <= 200
    assert DecidingCluster.at("id", "x" * 300).address == "x" * 300


@pytest.mark.parametrize(
    "name",
    [
        "tidelog-spark.query.decider",
        "tidelog-spark.more.query.run.worker.0",
        "tidelog-spark.query.run.worker.x",
        "tidelog-spark.query~.run.worker.0",
        "tidelog-spark..run.worker.0",
        "tidelog-spark.query.run..0",
        "tidelog-spark.query..0.0.0",
        "tidelog-spark.query.run~.0.0.0",
        "tidelog-spark.query.run.0.x.0",
        "tidelog-spark.more.query.run.0.0.0",
        "other.query.run.worker.0",
        "tidelog-spark",
    ],
)
def test_other_transactional_ids_are_nobodys(name: str) -> None:
    assert parse_transactional_id(name) is None


@pytest.mark.parametrize(
    ("state", "producer_id", "epoch", "ending"),
    [
        (TransactionState.COMPLETE_COMMIT, 7, 4, Ending.COMMITTED),
        (TransactionState.COMPLETE_COMMIT, 7, 3, Ending.COMMITTED),
        (TransactionState.COMPLETE_ABORT, 7, 5, Ending.ABORTED),
        (TransactionState.COMPLETE_ABORT, 7, 6, Ending.UNKNOWN),
        (TransactionState.COMPLETE_COMMIT, 8, 4, Ending.UNKNOWN),
        (TransactionState.ONGOING, 7, 4, Ending.UNKNOWN),
        (TransactionState.EMPTY, 7, 4, Ending.UNKNOWN),
    ],
)
def test_what_became_of_a_transaction(state: TransactionState, producer_id: int, epoch: int, ending: Ending) -> None:
    found = TransactionDescription("id", 1, state, producer_id, epoch, 1000, None, ())

    assert ending_of(Participant("id", 7, 3), found) is ending
