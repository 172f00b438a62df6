"""Fetch: what is answered in which version, within which limits, and when a fetch that found too little is answered."""

from __future__ import annotations

import errno
from collections.abc import Sequence
from typing import Any

import pytest

from tests.support.appends import as_follower, coordinated, produced
from tests.support.data_node import NODE, OTHER, DataNode, Denying
from tests.support.log_builder import LogBuilder
from tidelog.broker.data.delayed_fetch import WAIT_MS_MAX
from tidelog.broker.handlers.fetch import fetch
from tidelog.model.acl import AclOperation
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import ZERO_UUID, TopicName
from tidelog.model.pending import Pending
from tidelog.net.parts import SENDFILE_BYTES_MIN
from tidelog.storage.file_region import FileRegion
from tidelog.wire.codec import decode, encode_parts
from tidelog.wire.control_records import ControlType, build_end_txn_marker
from tidelog.wire.messages.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
    ReplicaState,
)
from tidelog.wire.record_batch import HEADER_BYTES
from tidelog.wire.records import each_record

BATCHES = LogBuilder()
LATEST = 18
ALL_VERSIONS = range(4, 19)
EVERYTHING = 1 << 20


@pytest.fixture
def node() -> DataNode:
    node = DataNode()
    node.create_topic("orders", partitions=3)
    return node


def wanted(
    topic: str, index: int = 0, offset: int = 0, bytes_max: int = EVERYTHING, **fields: Any
) -> tuple[str, FetchPartition]:
    return topic, FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=bytes_max, **fields)


def request_for(node: DataNode, *partitions: tuple[str, FetchPartition], **options: Any) -> FetchRequest:
    topics = [
        FetchTopic(topic=name, topic_id=node.image.topic_ids.get(TopicName(name), ZERO_UUID), partitions=[partition])
        for name, partition in partitions
    ]
    options = {"max_wait_ms": 0, "min_bytes": 1, "max_bytes": EVERYTHING, "session_epoch": -1, **options}
    return FetchRequest(topics=topics, forgotten_topics_data=[], **options)


def as_client_sees(response: FetchResponse, version: int) -> FetchResponse:
    """The response over the wire, its files read."""
    parts = encode_parts(response, version)
    return decode(
        FetchResponse,
        version,
        b"".join(part.read() if isinstance(part, FileRegion) else bytes(part) for part in parts),  # type: ignore[arg-type]
    )


def fetched(
    node: DataNode, *partitions: tuple[str, FetchPartition], version: int = LATEST, **options: Any
) -> list[PartitionData]:
    response = as_client_sees(node.answered(fetch, request_for(node, *partitions, **options), version), version)
    assert response.error_code == 0
    return [partition for topic in response.responses for partition in topic.partitions]


def values(partition: PartitionData) -> list[str]:
    assert isinstance(partition.records, (bytes, memoryview))
    return [(record.value or b"").decode() for record in each_record(partition.records)]


def append(node: DataNode, *texts: str, topic: str = "orders", index: int = 0) -> None:
    produced(node.partition(topic, index), BATCHES.batch(*texts))


def waiting(node: DataNode, *partitions: tuple[str, FetchPartition], **options: Any) -> Pending[FetchResponse]:
    answer = node.ask(fetch, request_for(node, *partitions, max_wait_ms=500, **options), LATEST)
    assert isinstance(answer, Pending)
    assert not answer.is_complete
    return answer


def answered_values(answer: Pending[FetchResponse]) -> list[list[str]]:
    response = as_client_sees(answer.value, LATEST)
    return [values(partition) for topic in response.responses for partition in topic.partitions]


# What is answered


@pytest.mark.parametrize("version", ALL_VERSIONS)
def test_records_from_an_offset_on(node: DataNode, version: int) -> None:
    append(node, "a", "b")
    append(node, "c")

    (partition,) = fetched(node, wanted("orders", offset=2), version=version)

    assert values(partition) == ["c"]
    assert partition.error_code == 0
    assert (partition.high_watermark, partition.last_stable_offset) == (3, 3)
    assert partition.log_start_offset == (0 if version >= 5 else -1)
    assert partition.aborted_transactions is None
    assert partition.preferred_read_replica == -1


def test_a_few_records_are_copied_and_more_stay_in_their_file(node: DataNode) -> None:
    append(node, "a" * (SENDFILE_BYTES_MIN // 2))
    append(node, "b" * (SENDFILE_BYTES_MIN // 2), index=1)

    response = node.answered(fetch, request_for(node, wanted("orders"), wanted("orders", 1)), LATEST)

    copied, region = (each.records for each in response.responses[0].partitions)
    assert isinstance(copied, bytes)
    assert isinstance(region, FileRegion)
    assert region.file is not None


def test_partitions_of_one_topic_in_a_row_are_answered_together(node: DataNode) -> None:
    node.create_topic("payments")

    response = node.answered(
        fetch, request_for(node, wanted("orders", 2), wanted("orders", 0), wanted("payments"), wanted("orders", 1)), 12
    )

    found = [(topic.topic, [each.partition_index for each in topic.partitions]) for topic in response.responses]
    assert found == [("orders", [2, 0]), ("payments", [0]), ("orders", [1])]


def test_an_empty_partition_has_no_records_and_is_no_error(node: DataNode) -> None:
    (partition,) = fetched(node, wanted("orders"))

    assert (partition.error_code, partition.records) == (0, b"")


def test_readers_of_committed_records_are_told_what_was_aborted(node: DataNode) -> None:
    partition = node.partition("orders")
    produced(partition, BATCHES.batch("a", producer_id=5, producer_epoch=0, base_sequence=0, is_transactional=True))
    marker = build_end_txn_marker(
        ControlType.ABORT, producer_id=5, producer_epoch=0, coordinator_epoch=0, timestamp=node.clock.ms
    )
    coordinated(partition, marker)
    produced(partition, BATCHES.batch("b", producer_id=6, producer_epoch=0, base_sequence=0, is_transactional=True))

    (committed,) = fetched(node, wanted("orders"), isolation_level=1)
    (uncommitted,) = fetched(node, wanted("orders"), isolation_level=0)

    assert committed.aborted_transactions == [AbortedTransaction(producer_id=5, first_offset=0)]
    assert (committed.high_watermark, committed.last_stable_offset) == (3, 2)
    assert values(committed) == ["a"]
    assert uncommitted.aborted_transactions is None
    assert values(uncommitted) == ["a", "b"]


def test_readers_of_committed_records_get_an_empty_list_where_nothing_was_aborted(node: DataNode) -> None:
    append(node, "a")

    (partition,) = fetched(node, wanted("orders"), isolation_level=1)

    assert partition.aborted_transactions == []


# Limits


def test_the_first_partition_with_records_gives_a_whole_batch_whatever_the_limits(node: DataNode) -> None:
    append(node, "a" * 100, index=1)
    append(node, "b" * 100, index=2)

    found = fetched(node, *[wanted("orders", index, bytes_max=1) for index in range(3)], max_bytes=1)

    assert [values(partition) for partition in found] == [[], ["a" * 100], []]


def test_a_partition_gives_no_more_than_its_own_limit(node: DataNode) -> None:
    for text in "abcd":
        append(node, text)
    size = HEADER_BYTES + 8

    (partition,) = fetched(node, wanted("orders", bytes_max=2 * size + 10))

    assert isinstance(partition.records, (bytes, memoryview))
    assert len(partition.records) == 2 * size + 10
    assert values(partition) == ["a", "b"]


def test_all_partitions_together_give_no_more_than_the_request_and_the_broker_allow(node: DataNode) -> None:
    for index in range(3):
        for _ in range(10):
            append(node, "a" * 100, index=index)
    everything = [wanted("orders", index) for index in range(3)]

    limited = fetched(node, *everything, max_bytes=2000)
    node.fetch_sessions.max_bytes = 1024
    by_broker = fetched(node, *everything)

    def total(partitions: Sequence[PartitionData]) -> int:
        return sum(len(each.records) for each in partitions if isinstance(each.records, (bytes, memoryview)))

    assert total(limited) == 2000
    assert total(by_broker) == 1024


def test_a_negative_limit_is_none_at_all(node: DataNode) -> None:
    append(node, "a", index=0)
    append(node, "b", index=1)

    first, second = fetched(node, wanted("orders", 0, bytes_max=-1), wanted("orders", 1, bytes_max=-5))

    assert (values(first), values(second)) == (["a"], [])


# Errors


def test_unknown_topics_and_partitions(node: DataNode) -> None:
    by_name = fetched(node, wanted("x"), wanted("orders", 9), version=12)
    by_id = fetched(node, wanted("x"), wanted("orders", 9))

    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert [each.error_code for each in by_name] == [unknown, unknown]
    assert [each.error_code for each in by_id] == [ErrorCode.UNKNOWN_TOPIC_ID, unknown]
    assert [each.high_watermark for each in by_id] == [-1, -1]


def test_an_offset_out_of_range(node: DataNode) -> None:
    (partition,) = fetched(node, wanted("orders", offset=5))

    assert partition.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert (partition.high_watermark, partition.log_start_offset, partition.records) == (-1, -1, b"")


@pytest.mark.parametrize("version", [12, 15, 16, 18])
def test_who_asks_the_wrong_broker_is_told_where_to_go(node: DataNode, version: int) -> None:
    node.register_broker(OTHER, "other.example", 9093)
    node.create_topic("elsewhere", replicas=(OTHER,), leader=OTHER)
    request = request_for(node, wanted("elsewhere"))

    response = as_client_sees(node.answered(fetch, request, version), version)

    (partition,) = response.responses[0].partitions
    assert partition.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    if version >= 16:
        assert partition.current_leader == LeaderIdAndEpoch(leader_id=OTHER, leader_epoch=0)
        assert response.node_endpoints == [NodeEndpoint(node_id=OTHER, host="other.example", port=9093, rack="r1")]


def test_a_leader_epoch_that_is_over_or_still_to_come(node: DataNode) -> None:
    node.change("orders", leader=NODE)

    old, current, new = (fetched(node, wanted("orders", current_leader_epoch=epoch))[0] for epoch in (0, 1, 2))

    assert old.error_code == ErrorCode.FENCED_LEADER_EPOCH
    assert old.current_leader == LeaderIdAndEpoch(leader_id=NODE, leader_epoch=1)
    assert current.error_code == 0
    assert new.error_code == ErrorCode.UNKNOWN_LEADER_EPOCH


def test_a_reader_that_diverged_is_told_where(node: DataNode) -> None:
    append(node, "a", "b")
    for _ in range(2):
        node.change("orders", leader=NODE)
    append(node, "c")

    (partition,) = fetched(node, wanted("orders", offset=3, last_fetched_epoch=0), max_wait_ms=500, min_bytes=1)

    assert partition.diverging_epoch == EpochEndOffset(epoch=0, end_offset=2)
    assert (partition.error_code, partition.records) == (0, b"")


@pytest.mark.parametrize(
    ("version", "code"), [(5, ErrorCode.NOT_LEADER_OR_FOLLOWER), (6, ErrorCode.KAFKA_STORAGE_ERROR)]
)
def test_a_failed_disk(node: DataNode, version: int, code: ErrorCode) -> None:
    node.disk.fail("pwritev", "*.log", errno.EIO)
    append(node, "a")

    (partition,) = fetched(node, wanted("orders"), version=version)

    assert partition.error_code == code


def test_topics_that_the_caller_may_not_read() -> None:
    node = DataNode(authorizer=Denying((AclOperation.READ, "orders"), (AclOperation.READ, "x")))
    node.create_topic("orders")
    node.create_topic("payments")

    by_id = fetched(node, wanted("orders"), wanted("payments"))
    by_name = fetched(node, wanted("orders"), wanted("x"), version=12)

    failed = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    # What is refused without a look at a replica comes last.
    assert [each.error_code for each in by_id] == [0, failed]
    assert [each.error_code for each in by_name] == [failed, failed]


# Waiting


def test_a_fetch_that_will_not_wait_is_answered_with_nothing(node: DataNode) -> None:
    assert fetched(node, wanted("orders"), max_wait_ms=0)[0].records == b""
    assert fetched(node, wanted("orders"), max_wait_ms=500, min_bytes=0)[0].records == b""
    assert node.timers.pending == 0


def test_a_fetch_waits_for_the_first_record(node: DataNode) -> None:
    answer = waiting(node, wanted("orders", 0), wanted("orders", 1))

    append(node, "a", index=1)

    assert answered_values(answer) == [[], ["a"]]
    assert node.timers.pending == 0
    assert [node.partition("orders", index).watcher_count for index in range(3)] == [0, 0, 0]


def test_a_fetch_that_has_enough_does_not_wait(node: DataNode) -> None:
    append(node, "a")

    assert values(fetched(node, wanted("orders"), max_wait_ms=500)[0]) == ["a"]


def test_a_fetch_is_answered_with_what_there_is_when_its_time_is_over(node: DataNode) -> None:
    append(node, "a")
    answer = waiting(node, wanted("orders", 0), wanted("orders", 1), min_bytes=100_000)

    node.timers.advance(499)
    assert not answer.is_complete
    node.timers.advance(1)

    assert answered_values(answer) == [["a"], []]
    assert node.partition("orders").watcher_count == 0


def test_a_fetch_waits_for_as_many_bytes_as_it_wants_over_all_partitions(node: DataNode) -> None:
    append(node, "a" * 100)
    size = node.log("orders").size_bytes
    answer = waiting(node, wanted("orders", 0), wanted("orders", 1), min_bytes=3 * size)

    append(node, "b" * 100, index=1)
    assert not answer.is_complete
    append(node, "c" * 100, index=1)

    assert answered_values(answer) == [["a" * 100], ["b" * 100, "c" * 100]]


def test_what_is_waited_for_is_no_more_than_may_be_answered(node: DataNode) -> None:
    append(node, "a" * 100)

    (partition,) = fetched(node, wanted("orders"), max_wait_ms=500, min_bytes=10_000, max_bytes=100)

    assert values(partition) == ["a" * 100]


def test_a_consumer_waits_for_the_high_watermark_and_a_follower_for_the_log_end(node: DataNode) -> None:
    node.create_topic("copied", replicas=(NODE, OTHER))
    consumer = waiting(node, wanted("copied"))
    follower = waiting(node, wanted("copied"), replica_state=ReplicaState(replica_id=OTHER, replica_epoch=1))

    append(node, "a", topic="copied")
    assert not consumer.is_complete
    assert answered_values(follower) == [["a"]]
    behind = fetched(node, wanted("copied", offset=1), replica_state=ReplicaState(replica_id=OTHER, replica_epoch=1))

    assert behind[0].records == b""
    assert answered_values(consumer) == [["a"]]


def test_followers_of_older_versions_name_themselves_in_the_old_field(node: DataNode) -> None:
    node.create_topic("copied", replicas=(NODE, OTHER))
    append(node, "a", topic="copied")

    (partition,) = fetched(node, wanted("copied"), version=14, replica_id=OTHER)

    assert values(partition) == ["a"]
    assert fetched(node, wanted("copied"), version=14)[0].records == b""


@pytest.mark.parametrize("version", [10, 14, LATEST])
def test_a_tool_looks_into_any_replica_as_far_as_its_log_goes(node: DataNode, version: int) -> None:
    node.create_topic("copied", replicas=(NODE, OTHER))
    append(node, "a", topic="copied")
    looking: dict[str, Any] = {"replica_state": ReplicaState(replica_id=-2)} if version >= 15 else {"replica_id": -2}

    led = fetched(node, wanted("copied"), version=version, **looking)
    node.change("copied", leader=OTHER)
    followed = fetched(node, wanted("copied"), version=version, **looking)

    assert [values(*led), values(*followed)] == [["a"], ["a"]]


def test_a_follower_has_to_be_allowed_to_act_for_the_cluster(node: DataNode) -> None:
    node.authorizer = Denying((AclOperation.CLUSTER_ACTION, None))

    (partition,) = fetched(node, wanted("orders"), replica_state=ReplicaState(replica_id=OTHER, replica_epoch=1))

    assert partition.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED


def test_a_fetch_that_waits_is_told_when_its_partition_is_gone(node: DataNode) -> None:
    answer = waiting(node, wanted("orders", 0), wanted("orders", 1))

    node.delete_topic("orders")

    codes = [each.error_code for topic in answer.value.responses for each in topic.partitions]
    assert ErrorCode.UNKNOWN_TOPIC_OR_PARTITION in codes
    assert node.timers.pending == 0


def test_a_fetch_that_waits_is_told_when_another_one_leads(node: DataNode) -> None:
    node.create_topic("copied", replicas=(NODE, OTHER))
    answer = node.ask(fetch, request_for(node, wanted("copied"), max_wait_ms=500), 10)

    node.change("copied", leader=OTHER)

    assert answer.value.responses[0].partitions[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_fetch_that_waits_is_told_when_the_epoch_that_it_knows_is_over(node: DataNode) -> None:
    answer = waiting(node, wanted("orders", current_leader_epoch=0))

    node.change("orders", leader=NODE)

    assert answer.value.responses[0].partitions[0].error_code == ErrorCode.FENCED_LEADER_EPOCH


def test_what_was_read_before_the_wait_is_read_anew_in_the_end(node: DataNode) -> None:
    append(node, "a", "b")
    answer = waiting(node, wanted("orders", 0), wanted("orders", 1), min_bytes=100_000)
    node.partition("orders").delete_records(2)
    assert answer.is_complete

    codes = [each.error_code for topic in answer.value.responses for each in topic.partitions]

    assert codes == [ErrorCode.OFFSET_OUT_OF_RANGE, 0]


def test_a_stretch_of_a_file_that_was_cut_during_the_wait_is_not_sent(node: DataNode) -> None:
    node.create_topic("copied", partitions=2, replicas=(NODE, OTHER), leader=OTHER)
    first, second = node.log("copied", 0), node.log("copied", 1)
    as_follower(first, BATCHES.batch("lost", leader_epoch=0))
    first.set_high_watermark(1)
    answer = waiting(node, wanted("copied", 0), wanted("copied", 1), min_bytes=2 * first.size_bytes)

    first.truncate_to(0)
    as_follower(first, BATCHES.batch("kept, and longer", leader_epoch=1))
    first.set_high_watermark(1)
    as_follower(second, BATCHES.batch("more", leader_epoch=1))
    second.set_high_watermark(1)
    node.partitions.wakeups.changed(node.partition("copied", 1))

    assert answered_values(answer) == [["kept, and longer"], ["more"]]


def test_a_fetch_that_waits_gets_a_whole_batch_whatever_its_limits(node: DataNode) -> None:
    answer = waiting(node, wanted("orders", 0, bytes_max=1), wanted("orders", 1, bytes_max=1))

    append(node, "a" * 100, index=1)

    assert answered_values(answer) == [[], ["a" * 100]]


def test_an_unknown_topic_beside_known_ones_does_not_end_the_wait(node: DataNode) -> None:
    answer = waiting(node, wanted("x"), wanted("orders"))

    append(node, "a")

    assert answered_values(answer) == [["a"], []]


def test_a_fetch_with_nothing_to_read_waits_for_nothing(node: DataNode) -> None:
    assert fetched(node, wanted("x"), max_wait_ms=500)[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID
    assert fetched(node, max_wait_ms=500) == []


def test_nobody_is_kept_waiting_for_weeks(node: DataNode) -> None:
    answer = node.ask(fetch, request_for(node, wanted("orders"), max_wait_ms=2**31 - 1), LATEST)

    node.timers.advance(WAIT_MS_MAX)

    assert answered_values(answer) == [[]]


def test_each_of_many_waiting_fetches_is_answered_once(node: DataNode) -> None:
    answers = [waiting(node, wanted("orders", index % 3)) for index in range(9)]

    for index in range(3):
        append(node, "a", index=index)
        append(node, "b", index=index)

    assert [answered_values(answer) for answer in answers] == [[["a"]]] * 9
    assert node.timers.pending == 0


# Rights that are lost


@pytest.mark.parametrize("version", [12, LATEST])
def test_a_fetch_that_waits_gives_nothing_to_who_has_lost_the_right_meanwhile(version: int) -> None:
    authorizer = Denying()
    node = DataNode(authorizer=authorizer)
    node.create_topic("orders", partitions=2)
    node.create_topic("open")
    asked = [wanted("orders"), wanted("orders", 1), wanted("open")]
    answer = node.ask(fetch, request_for(node, *asked, max_wait_ms=500), version)
    assert isinstance(answer, Pending)

    authorizer.change((AclOperation.READ, "orders"))
    append(node, "secret")
    append(node, "known", topic="open")

    told = [each for topic in as_client_sees(answer.value, version).responses for each in topic.partitions]
    errors = {(each.partition_index, each.error_code) for each in told}
    assert {(0, ErrorCode.TOPIC_AUTHORIZATION_FAILED), (1, ErrorCode.TOPIC_AUTHORIZATION_FAILED)} <= errors
    assert all(not each.records or values(each) == ["known"] for each in told)


def test_a_fetch_that_has_read_already_gives_nothing_either(node: DataNode) -> None:
    authorizer = Denying()
    node.authorizer = authorizer
    append(node, "secret")
    answer = waiting(node, wanted("orders"), min_bytes=EVERYTHING)

    authorizer.change((AclOperation.READ, "orders"))
    node.timers.advance(500)

    (told,) = as_client_sees(answer.value, LATEST).responses[0].partitions
    assert (told.error_code, bytes(told.records or b"")) == (ErrorCode.TOPIC_AUTHORIZATION_FAILED, b"")  # type: ignore[arg-type]


def test_a_fetch_that_waits_goes_on_where_other_rights_have_changed(node: DataNode) -> None:
    authorizer = Denying()
    node.authorizer = authorizer
    answer = waiting(node, wanted("orders"))

    authorizer.change((AclOperation.WRITE, "orders"))
    append(node, "hello")

    assert answered_values(answer) == [["hello"]]


def test_a_follower_that_is_none_any_more_gets_nothing(node: DataNode) -> None:
    authorizer = Denying()
    node.authorizer = authorizer
    node.create_topic("spread", replicas=(NODE, OTHER))
    state = ReplicaState(replica_id=OTHER, replica_epoch=2)
    answer = waiting(node, wanted("spread"), replica_state=state)

    authorizer.change((AclOperation.CLUSTER_ACTION, None))
    append(node, "secret", topic="spread")

    (told,) = as_client_sees(answer.value, LATEST).responses[0].partitions
    assert told.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert not told.records
