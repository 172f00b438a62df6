"""Transactions request by request over a real connection: what arrives late, both levels of the feature, two phases."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.log_builder import LogBuilder
from tests.support.raw_client import RawClient
from tests.support.running_node import RunningNode
from tests.support.transactional_clients import TRANSACTION_SETTINGS, make_topic, new_name, read_all
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import ZERO_UUID
from tidelog.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from tidelog.wire.messages.configs import (
    IncrementalAlterConfigsAlterableConfig,
    IncrementalAlterConfigsAlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from tidelog.wire.messages.features import FeatureUpdateKey, UpdateFeaturesRequest, UpdateFeaturesResponse
from tidelog.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from tidelog.wire.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from tidelog.wire.messages.producers import InitProducerIdRequest, InitProducerIdResponse
from tidelog.wire.messages.transactions import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    EndTxnRequest,
    EndTxnResponse,
)

BATCHES = LogBuilder()
TRANSACTION = 1
DOWNGRADE = 2
UPGRADE = 1
BROKER = 4


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningNode]:
    with RunningNode(tmp_path_factory.mktemp("node"), settings=TRANSACTION_SETTINGS) as running:
        yield running


@pytest.fixture
def client(node: RunningNode) -> Iterator[RawClient]:
    with RawClient(node.bootstrap) as client:
        yield client


class RawProducer:
    """Sends what it is told to, in whatever order."""

    def __init__(self, client: RawClient, topic: str, **options: bool) -> None:
        self.client = client
        self.topic = topic
        self.name = new_name("id")
        find = FindCoordinatorRequest(key_type=TRANSACTION, coordinator_keys=[self.name])
        assert client.call(find, FindCoordinatorResponse, 6).coordinators[0].error_code == 0
        given = self.init(**options)
        assert given.error_code == ErrorCode.NONE
        self.producer_id, self.epoch = given.producer_id, given.producer_epoch

    def init(self, **options: bool) -> InitProducerIdResponse:
        version = 6 if options else 5
        request = InitProducerIdRequest(transactional_id=self.name, transaction_timeout_ms=60_000, **options)
        return self.client.call(request, InitProducerIdResponse, version)

    def produce(self, value: str, *, epoch: int | None = None, sequence: int = 0, partition: int = 0) -> ErrorCode:
        return self._produce(value, 12, self.epoch if epoch is None else epoch, sequence, partition)

    def produce_as_before(self, value: str, *, sequence: int = 0, partition: int = 0, version: int = 11) -> ErrorCode:
        return self._produce(value, version, self.epoch, sequence, partition)

    def _produce(self, value: str, version: int, epoch: int, sequence: int, partition: int) -> ErrorCode:
        batch = BATCHES.batch(
            value,
            producer_id=self.producer_id,
            producer_epoch=epoch,
            base_sequence=sequence,
            is_transactional=True,
        )
        data = PartitionProduceData(index=partition, records=bytes(batch))
        topic = TopicProduceData(name=self.topic, topic_id=ZERO_UUID, partition_data=[data])
        request = ProduceRequest(transactional_id=self.name, acks=-1, timeout_ms=5_000, topic_data=[topic])
        answer = self.client.call(request, ProduceResponse, version)
        return ErrorCode.of(answer.responses[0].partition_responses[0].error_code)

    def add(self, partition: int = 0) -> ErrorCode:
        request = AddPartitionsToTxnRequest(
            transactions=[],
            v3_and_below_transactional_id=self.name,
            v3_and_below_producer_id=self.producer_id,
            v3_and_below_producer_epoch=self.epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name=self.topic, partitions=[partition])],
        )
        answer = self.client.call(request, AddPartitionsToTxnResponse, 3)
        return ErrorCode.of(answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code)

    def end(self, *, commit: bool = True, epoch: int | None = None, version: int = 5) -> EndTxnResponse:
        request = EndTxnRequest(
            transactional_id=self.name,
            producer_id=self.producer_id,
            producer_epoch=self.epoch if epoch is None else epoch,
            committed=commit,
        )
        answer = self.client.call(request, EndTxnResponse, version)
        if epoch is None and version == 5 and answer.error_code == ErrorCode.NONE:
            self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch
        return answer


# Late requests


def test_a_late_produce_stays_out_of_the_next_transaction(node: RunningNode, client: RawClient) -> None:
    producer = RawProducer(client, make_topic(node.bootstrap, partitions=2))
    producer.produce("first")
    producer.end()
    producer.produce("second")
    earlier = producer.epoch - 1

    assert producer.produce("late", epoch=earlier, sequence=1) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert producer.produce("late", epoch=earlier, partition=1) is ErrorCode.INVALID_PRODUCER_EPOCH
    producer.end()

    assert read_all(node.bootstrap, producer.topic, committed=False, partitions=2) == ["first", "second"]


@pytest.mark.parametrize("commit", [True, False])
def test_a_late_end_leaves_the_next_transaction_open(node: RunningNode, client: RawClient, commit: bool) -> None:
    producer = RawProducer(client, make_topic(node.bootstrap))
    producer.produce("first")
    producer.end()
    producer.produce("second")

    late = producer.end(commit=commit, epoch=producer.epoch - 1)

    assert late.error_code == ErrorCode.PRODUCER_FENCED
    assert read_all(node.bootstrap, producer.topic) == ["first"]
    assert producer.produce("third", sequence=1) is ErrorCode.NONE
    assert producer.end().error_code == ErrorCode.NONE
    assert read_all(node.bootstrap, producer.topic) == ["first", "second", "third"]


def test_an_end_that_is_asked_for_again_gets_the_same_answer(node: RunningNode, client: RawClient) -> None:
    producer = RawProducer(client, make_topic(node.bootstrap))
    producer.produce("first")
    before = producer.epoch
    first = producer.end()

    again = producer.end(epoch=before)

    assert (again.error_code, again.producer_id, again.producer_epoch) == (0, first.producer_id, first.producer_epoch)
    assert producer.end(commit=False, epoch=before).error_code == ErrorCode.INVALID_TXN_STATE


def test_a_late_produce_before_anything_of_the_next_transaction_hangs_nobody(
    node: RunningNode, client: RawClient
) -> None:
    producer = RawProducer(client, make_topic(node.bootstrap))
    producer.produce("first")
    producer.end(commit=False)

    assert producer.produce("late", epoch=producer.epoch - 1, sequence=1) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert read_all(node.bootstrap, producer.topic, committed=False) == ["first"]
    assert read_all(node.bootstrap, producer.topic) == []


def test_a_late_produce_of_an_older_client_hangs_nobody(node: RunningNode, client: RawClient) -> None:
    producer = RawProducer(client, make_topic(node.bootstrap))
    producer.add()
    producer.produce_as_before("first")
    producer.end(version=4)

    assert producer.produce_as_before("late", sequence=1) is ErrorCode.TRANSACTION_ABORTABLE
    assert producer.produce_as_before("late", sequence=1, version=9) is ErrorCode.INVALID_TXN_STATE
    assert read_all(node.bootstrap, producer.topic) == ["first"]


# Two phases


def test_a_prepared_transaction_is_ended_by_whoever_knows_its_name(node: RunningNode, client: RawClient) -> None:
    producer = RawProducer(client, make_topic(node.bootstrap), enable_2pc=True)
    producer.produce("prepared")
    prepared = (producer.producer_id, producer.epoch)

    given = producer.init(enable_2pc=True, keep_prepared_txn=True)

    assert (given.ongoing_txn_producer_id, given.ongoing_txn_producer_epoch) == prepared
    assert producer.end().error_code == ErrorCode.PRODUCER_FENCED
    producer.producer_id, producer.epoch = given.producer_id, given.producer_epoch
    assert producer.end().error_code == ErrorCode.NONE
    assert read_all(node.bootstrap, producer.topic) == ["prepared"]


# Verification


def test_verification_can_be_switched_off_while_the_node_runs(node: RunningNode, client: RawClient) -> None:
    producer = RawProducer(client, make_topic(node.bootstrap))
    assert producer.produce_as_before("not added") is ErrorCode.TRANSACTION_ABORTABLE

    verify(client, "false")
    try:
        assert producer.produce_as_before("not added") is ErrorCode.NONE
    finally:
        verify(client, "true")


def verify(client: RawClient, value: str) -> None:
    change = IncrementalAlterConfigsAlterableConfig(
        name="transaction.partition.verification.enable", config_operation=0, value=value
    )
    resource = IncrementalAlterConfigsAlterConfigsResource(resource_type=BROKER, resource_name="", configs=[change])
    request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=False)
    answer = client.call(request, IncrementalAlterConfigsResponse, 1)
    assert answer.responses[0].error_code == ErrorCode.NONE, answer.responses[0].error_message


# Levels


def update_level(client: RawClient, level: int) -> None:
    kind = UPGRADE if level == 2 else DOWNGRADE
    update = FeatureUpdateKey(feature="transaction.version", max_version_level=level, upgrade_type=kind)
    answer = client.call(
        UpdateFeaturesRequest(feature_updates=[update], timeout_ms=10_000, validate_only=False),
        UpdateFeaturesResponse,
        2,
    )
    assert answer.error_code == ErrorCode.NONE, answer.error_message


def announced_level(client: RawClient) -> int:
    request = ApiVersionsRequest(client_software_name="raw", client_software_version="1")
    answer = client.call(request, ApiVersionsResponse, 4)
    levels = {each.name: each.max_version_level for each in answer.finalized_features}
    return levels.get("transaction.version", 0)


def test_the_level_of_the_feature_may_go_down_and_up_again(node: RunningNode, client: RawClient) -> None:
    topic = make_topic(node.bootstrap)
    assert announced_level(client) == 2
    update_level(client, 1)
    try:
        assert announced_level(client) == 1
        producer = RawProducer(client, topic)
        producer.add()
        producer.produce_as_before("at level 1")
        assert producer.end(version=4).error_code == ErrorCode.NONE
    finally:
        update_level(client, 2)
    producer = RawProducer(client, topic)
    producer.produce("at level 2")
    producer.end()

    assert announced_level(client) == 2
    assert producer.epoch == 1
    assert read_all(node.bootstrap, topic) == ["at level 1", "at level 2"]
