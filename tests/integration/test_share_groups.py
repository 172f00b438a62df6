"""Share groups at a node, in raw requests: sessions, acquiring, acknowledging, and who is woken by what."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from tests.support.raw_client import RawClient
from tests.support.running_node import RunningNode
from tests.support.share_member import ShareMember, begin_share_state, got, read_start_offset
from tidelog import Admin, Producer
from tidelog.client.admin import QuotaEntity
from tidelog.model.errors import ErrorCode
from tidelog.wire.messages.configs import (
    IncrementalAlterConfigsAlterableConfig,
    IncrementalAlterConfigsAlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from tidelog.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from tidelog.wire.messages.share_fetch import ShareAcknowledgeResponse, ShareFetchResponse
from tidelog.wire.messages.topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from tidelog.wire.records import Record, build_batch

ACCEPT, RELEASE, REJECT, RENEW = 1, 2, 3, 4
GROUP_RESOURCE = 32
SETTINGS = {
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "share.coordinator.state.topic.num.partitions": "2",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "2",
    "group.share.max.share.sessions": "4",
    "group.share.min.record.lock.duration.ms": "1000",
}


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningNode]:
    with RunningNode(tmp_path_factory.mktemp("node"), settings=SETTINGS) as running:
        yield running


@pytest.fixture
def client(node: RunningNode) -> Iterator[RawClient]:
    with RawClient(node.bootstrap) as connected:
        yield connected


class World:
    """A topic of one partition with a group on it."""

    def __init__(self, node: RunningNode, client: RawClient, name: str) -> None:
        self.node, self.client, self.name = node, client, name
        self._members: list[ShareMember] = []
        topic = CreatableTopic(name=name, num_partitions=1, replication_factor=1, assignments=[], configs=[])
        client.call(CreateTopicsRequest(topics=[topic]), CreateTopicsResponse, 7)
        begin_share_state(client, name, name, start_offset=0)

    def member(self, member_id: str = "a") -> ShareMember:
        member = ShareMember(self.node.bootstrap, self.name, member_id, self.name)
        self._members.append(member)
        return member

    def write(self, *counts: int) -> None:
        """A batch of so many records for each count."""
        for count in counts:
            records = [Record(each, int(time.time() * 1000), None, b"v" * 100) for each in range(count)]
            error, _ = self.client.produce(self.name, 0, build_batch(records))
            assert error == ErrorCode.NONE

    def configure(self, **settings: str) -> None:
        """The group's own configuration, with underscores."""
        changes = [
            IncrementalAlterConfigsAlterableConfig(name=name.replace("_", "."), config_operation=0, value=value)
            for name, value in settings.items()
        ]
        resource = IncrementalAlterConfigsAlterConfigsResource(
            resource_type=GROUP_RESOURCE, resource_name=self.name, configs=changes
        )
        answer = self.client.call(
            IncrementalAlterConfigsRequest(resources=[resource], validate_only=False),
            IncrementalAlterConfigsResponse,
            1,
        )
        assert answer.responses[0].error_code == ErrorCode.NONE, answer.responses[0].error_message

    @property
    def start(self) -> tuple[int, int]:
        return read_start_offset(self.client, self.name, self.name)

    def close(self) -> None:
        for member in self._members:
            member.close()


@pytest.fixture
def world(node: RunningNode, client: RawClient, request: pytest.FixtureRequest) -> Iterator[World]:
    made = World(node, client, request.node.name[5:60].replace("[", "-").replace("]", ""))
    yield made
    made.close()


def test_what_is_accepted_with_the_next_fetch_is_durable_when_that_is_answered(world: World) -> None:
    world.write(10, 10)
    member = world.member()

    first = member.fetch(records=10)
    second = member.fetch((0, 9, [ACCEPT]), records=10)

    assert first.acquired == [(0, 9, 1)]
    assert first.offsets == list(range(10))
    assert second.acquired == [(10, 19, 1)]
    assert second.offsets == list(range(10, 20))
    assert member.acknowledge((10, 19, [ACCEPT])).error_code == ErrorCode.NONE
    # What is written with an acknowledgement is the start before it.
    assert world.start == (10, 10)


def test_many_records_leave_as_a_part_of_the_file_cut_at_batches(world: World) -> None:
    world.write(*[100] * 10)

    first = world.member("a").fetch(records=450)
    second = world.member("b").fetch(records=450)

    assert first.offsets == list(range(500))
    assert second.offsets == list(range(500, 1000))


def test_the_record_limit_gives_no_more_than_was_asked_for(world: World) -> None:
    world.write(10)

    got_a = world.member("a").fetch(records=4, mode=1)
    got_b = world.member("b").fetch(records=4, mode=1)

    assert got_a.acquired == [(0, 3, 1)]
    assert got_b.acquired == [(4, 7, 1)]


def test_a_fetch_waits_for_records_and_is_woken_by_them(world: World) -> None:
    member = world.member()
    sent = member.send_fetch(wait_ms=20_000)
    world.write(1)

    assert got(member.receive_fetch(sent)).acquired == [(0, 0, 1)]


def test_a_fetch_that_finds_nothing_in_time_is_answered_with_its_partition_the_first_time_alone(world: World) -> None:
    member = world.member()

    first = member.receive_fetch(member.send_fetch(wait_ms=10))
    second = member.receive_fetch(member.send_fetch(wait_ms=10))

    assert len(first.responses) == 1
    assert second.responses == []
    assert first.acquisition_lock_timeout_ms == second.acquisition_lock_timeout_ms == 30_000


def test_a_release_wakes_another_member_which_is_told_of_the_second_delivery(world: World) -> None:
    world.write(10)
    first, second = world.member("a"), world.member("b")
    first.fetch()
    sent = second.send_fetch(wait_ms=20_000)

    first.acknowledge((0, 9, [ACCEPT] * 5 + [RELEASE] * 5))

    assert got(second.receive_fetch(sent)).acquired == [(5, 9, 2)]


def test_a_member_that_dies_gives_its_records_back_at_once(world: World) -> None:
    world.write(10)
    first, second = world.member("a"), world.member("b")
    first.fetch()
    sent = second.send_fetch(wait_ms=20_000)

    first.close()

    assert got(second.receive_fetch(sent)).acquired == [(0, 9, 2)]


def test_an_ended_session_gives_its_records_back_and_is_unknown_from_then_on(world: World) -> None:
    world.write(10)
    first, second = world.member("a"), world.member("b")
    first.fetch()
    sent = second.send_fetch(wait_ms=20_000)

    assert first.end_session() == ErrorCode.NONE
    assert got(second.receive_fetch(sent)).acquired == [(0, 9, 2)]
    assert first.end_session() == ErrorCode.SHARE_SESSION_NOT_FOUND


def test_a_lock_that_ends_wakes_another_member(world: World) -> None:
    world.configure(share_record_lock_duration_ms="1000")
    world.write(10)
    world.member("a").fetch()

    assert world.member("b").fetch(wait_ms=20_000).acquired == [(0, 9, 2)]


def test_a_renewed_lock_lasts_and_a_request_that_renews_fetches_nothing(world: World) -> None:
    world.configure(share_record_lock_duration_ms="1000")
    world.write(10, 10)
    member = world.member()
    member.fetch(records=10)

    for _ in range(3):
        assert member.acknowledge((0, 9, [RENEW]), renews=True).error_code == ErrorCode.NONE
    renewed = member.fetch((0, 9, [RENEW]), records=0, wait_ms=0, max_bytes=0, renews=True)

    assert renewed == ([], [], 0, 0)
    refused = member.receive_fetch(member.send_fetch((0, 9, [RENEW]), renews=True))
    assert refused.error_code == ErrorCode.INVALID_REQUEST


def test_what_was_read_by_the_last_leader_and_not_settled_comes_again(world: World) -> None:
    world.write(10, 10, 10)
    member = world.member()
    member.fetch(records=30)
    member.acknowledge((10, 19, [ACCEPT]))
    member.close()

    # The share partition is forgotten with the last connection of its group, and read again.
    again = world.member("b")
    found = again.fetch(records=100)

    assert [each[:2] for each in found.acquired] == [(0, 9), (20, 29)]


def test_a_group_that_reads_committed_records_waits_for_the_end_and_is_not_given_what_was_aborted(
    world: World,
) -> None:
    world.configure(share_isolation_level="read_committed")
    world.write(10)
    member = world.member()
    with Producer(bootstrap_servers=world.node.bootstrap, transactional_id=world.name) as producer:
        producer.init_transactions()
        for is_committed in (False, True):
            producer.begin_transaction()
            for _ in range(5):
                producer.send(world.name, b"of a transaction")
            producer.flush()
            if is_committed:
                # Offset 16 and on: nothing of an open transaction is given out.
                assert member.fetch(wait_ms=1).acquired == [(0, 9, 1), (15, 15, 1)]
                producer.commit_transaction()
            else:
                producer.abort_transaction()

    # The markers are acquired with what lies before them, and are gaps for a client.
    assert member.fetch(wait_ms=20_000).acquired == [(16, 21, 1)]
    assert (
        member.acknowledge((0, 9, [ACCEPT]), (15, 15, [0]), (16, 21, [ACCEPT] * 5 + [0])).error_code == ErrorCode.NONE
    )
    assert member.fetch(wait_ms=1).acquired == []
    member.close()
    assert world.member("b").fetch(wait_ms=100).acquired == []


def test_a_member_that_has_had_too_much_waits_and_loses_no_delivery(world: World) -> None:
    world.write(*[10] * 6)
    member = world.member()
    with Admin(bootstrap_servers=world.node.bootstrap) as admin:
        raw = QuotaEntity(client_id="raw")
        admin.alter_client_quota(raw, {"consumer_byte_rate": 300})
        answers = [member.receive_fetch(member.send_fetch(records=10))]
        while not answers[-1].throttle_time_ms:
            answers.append(member.receive_fetch(member.send_fetch(records=10)))
        admin.alter_client_quota(raw, {"consumer_byte_rate": None})
    after = member.fetch(records=10)

    count = len(answers) - 1
    assert answers[-1].responses == []
    assert [row for answer in answers for row in got(answer).acquired] == [
        (10 * number, 10 * number + 9, 1) for number in range(count)
    ]
    assert after.acquired == [(10 * count, 10 * count + 9, 1)]


def test_records_that_are_deleted_are_gone_for_the_group_too(world: World) -> None:
    world.write(10, 10)
    topic = DeleteRecordsTopic(name=world.name, partitions=[DeleteRecordsPartition(partition_index=0, offset=10)])
    world.client.call(DeleteRecordsRequest(topics=[topic], timeout_ms=10_000), DeleteRecordsResponse, 2)

    assert world.member().fetch().acquired == [(10, 19, 1)]


def test_a_group_of_which_nothing_is_initialised_is_told_so(world: World) -> None:
    member = ShareMember(world.node.bootstrap, "nobody-knows-this-group", "a", world.name)

    answer = member.receive_fetch(member.send_fetch(wait_ms=5000))

    assert answer.responses[0].partitions[0].error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    member.close()


@pytest.mark.parametrize("epoch", [2, 7, -2])
def test_a_request_with_another_epoch_than_the_next_is_refused(world: World, epoch: int) -> None:
    member = world.member()
    member.fetch(wait_ms=1)

    refused = member.receive_fetch(member.send_fetch(epoch=epoch))

    assert refused.error_code == ErrorCode.INVALID_SHARE_SESSION_EPOCH


def test_an_acknowledgement_opens_no_session_and_needs_one(world: World) -> None:
    member = world.member()
    at_zero = member.client.receive(member.send_acknowledge((0, 0, [ACCEPT]), epoch=0), ShareAcknowledgeResponse)
    at_one = member.client.receive(member.send_acknowledge((0, 0, [ACCEPT]), epoch=1), ShareAcknowledgeResponse)
    with_fetch = member.receive_fetch(member.send_fetch((0, 0, [ACCEPT]), epoch=0))

    assert at_zero.error_code == ErrorCode.INVALID_SHARE_SESSION_EPOCH
    assert at_one.error_code == ErrorCode.SHARE_SESSION_NOT_FOUND
    assert with_fetch.error_code == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(
    ("first", "last", "types"),
    [(5, 4, [ACCEPT]), (0, 9, []), (0, 9, [ACCEPT, ACCEPT]), (0, 9, [5]), (0, 9, [-1]), (0, 9, [RENEW])],
)
def test_what_makes_no_sense_of_a_partition_is_refused_for_that_partition(
    world: World, first: int, last: int, types: list[int]
) -> None:
    world.write(10)
    member = world.member()
    member.fetch()

    assert member.acknowledge((first, last, types)).error_code == ErrorCode.INVALID_REQUEST
    assert member.acknowledge((0, 9, [ACCEPT])).error_code == ErrorCode.NONE


def test_what_another_has_in_hand_is_refused_with_the_reason(world: World) -> None:
    world.write(10)
    world.member("a").fetch()
    other = world.member("b")
    other.fetch(wait_ms=1)

    refused = other.acknowledge((0, 9, [ACCEPT]))

    assert refused.error_code == ErrorCode.INVALID_RECORD_STATE
    assert refused.error_message == "Member is not the owner of batch record"


def test_who_finds_no_room_for_a_session_waits_and_is_told_so(world: World) -> None:
    members = [world.member(str(each)) for each in range(5)]
    answers = [member.receive_fetch(member.send_fetch(wait_ms=1)) for member in members]

    assert [answer.error_code for answer in answers] == [0, 0, 0, 0, ErrorCode.SHARE_SESSION_LIMIT_REACHED]


def test_a_fetch_that_waits_when_the_next_request_of_its_session_comes_acquires_nothing(world: World) -> None:
    member, second = world.member(), RawClient(world.node.bootstrap)
    member.fetch(wait_ms=1)
    waiting = member.send_fetch(wait_ms=20_000)
    first_client, member.client = member.client, second
    later = member.send_fetch(wait_ms=20_000)

    refused = first_client.receive(waiting, ShareFetchResponse)
    world.write(3)

    assert refused.error_code == ErrorCode.INVALID_SHARE_SESSION_EPOCH
    assert got(member.receive_fetch(later)).acquired == [(0, 2, 1)]
    first_client.__exit__(None, None, None)


def test_a_record_that_fails_every_time_is_given_up_after_the_limit_and_the_others_go_on(world: World) -> None:
    world.configure(share_delivery_count_limit="3")
    world.write(1, 1)
    member = world.member()
    counts = []
    found = member.fetch(records=1, mode=1)
    while found.acquired[0][0] == 0:
        counts.append(found.acquired[0][2])
        member.acknowledge((0, 0, [RELEASE]))
        found = member.fetch(records=1, mode=1)

    assert counts == [1, 2, 3]
    assert found.acquired == [(1, 1, 1)]


@pytest.mark.parametrize(
    ("reset", "wanted"), [("earliest", [(0, 9, 1)]), ("latest", []), ("by_duration:PT1H", [(0, 9, 1)])]
)
def test_a_group_begins_where_its_configuration_says(
    world: World, reset: str, wanted: list[tuple[int, int, int]]
) -> None:
    world.write(10)
    begin_share_state(world.client, world.name, world.name, start_offset=-1, epoch=1)
    world.configure(share_auto_offset_reset=reset)

    assert world.member().fetch(wait_ms=500).acquired == wanted
