"""An admin's calls about transactions against scripted brokers: who is asked, in which version, and what is asked again."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from tests.support.scripted_cluster import Fault, ScriptedBroker, ScriptedCluster
from tidelog import TopicPartition
from tidelog.client.admin import (
    AsyncAdmin,
    FencedProducer,
    OpenTransaction,
    PinnedTransaction,
    ProducerState,
    TransactionDescription,
    TransactionListing,
    TransactionState,
)
from tidelog.client.errors import ClientError, RefusedError, TimedOutError, UnknownTopicError, UnsupportedError
from tidelog.model.errors import ErrorCode
from tidelog.wire.apis import ApiKey, api
from tidelog.wire.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
)
from tidelog.wire.messages.find_coordinator import FindCoordinatorRequest
from tidelog.wire.messages.producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
    PartitionResponse,
    ProducerState as WireProducer,
    TopicResponse,
)
from tidelog.wire.messages.transaction_admin import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    ListTransactionsRequest,
    ListTransactionsResponse,
    ListTransactionsTransactionState,
    TopicData,
    TransactionState as WireTransaction,
)
from tidelog.wire.messages.transactions import (
    EndTxnRequest,
    EndTxnResponse,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from tidelog.wire.schema import Request, Response

_KEYS = (
    ApiKey.METADATA,
    ApiKey.API_VERSIONS,
    ApiKey.FIND_COORDINATOR,
    ApiKey.LIST_TRANSACTIONS,
    ApiKey.DESCRIBE_TRANSACTIONS,
    ApiKey.DESCRIBE_PRODUCERS,
    ApiKey.WRITE_TXN_MARKERS,
    ApiKey.END_TXN,
    ApiKey.INIT_PRODUCER_ID,
)
HOUR_MS = 3_600_000


class AdminCluster(ScriptedCluster):
    """Two brokers, of which the first coordinates; each lists the transactions that it is given."""

    def __init__(self, *, version: int = 2) -> None:
        super().__init__(brokers=2, topics={"orders": 2, "bills": 1})
        self.version = version
        self.listed: dict[int, list[tuple[str, int, str]]] = {1: [], 2: []}
        self.described: dict[str, WireTransaction] = {}
        self.producers: dict[tuple[str, int], list[WireProducer]] = {}

    def answer(self, broker: ScriptedBroker, request: Request) -> Response:
        match request:
            case ApiVersionsRequest():
                feature = FinalizedFeatureKey(
                    name="transaction.version", max_version_level=self.version, min_version_level=0
                )
                return ApiVersionsResponse(
                    error_code=0,
                    api_keys=[
                        ApiVersion(api_key=key, min_version=lowest, max_version=highest)
                        for key in _KEYS
                        for lowest, highest in [self.versions.get(key, tuple(api(key).announced_versions))]
                    ],
                    throttle_time_ms=0,
                    finalized_features_epoch=1,
                    finalized_features=[feature],
                )
            case ListTransactionsRequest():
                return ListTransactionsResponse(
                    throttle_time_ms=0,
                    error_code=0,
                    unknown_state_filters=[],
                    transaction_states=[
                        ListTransactionsTransactionState(
                            transactional_id=name, producer_id=each, transaction_state=state
                        )
                        for name, each, state in self.listed[broker.node_id]
                        if not request.producer_id_filters or each in request.producer_id_filters
                    ],
                )
            case DescribeTransactionsRequest():
                (name,) = request.transactional_ids
                found = self.described.get(name) or transaction(
                    name, error_code=ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, state=""
                )
                return DescribeTransactionsResponse(throttle_time_ms=0, transaction_states=[found])
            case DescribeProducersRequest():
                return DescribeProducersResponse(
                    throttle_time_ms=0,
                    topics=[
                        TopicResponse(
                            name=topic.name,
                            partitions=[
                                PartitionResponse(
                                    partition_index=index,
                                    error_code=0,
                                    active_producers=self.producers.get((topic.name, index), []),
                                )
                                for index in topic.partition_indexes
                            ],
                        )
                        for topic in request.topics
                    ],
                )
            case WriteTxnMarkersRequest():
                return markers_answer(request, ErrorCode.NONE)
            case EndTxnRequest():
                return EndTxnResponse(throttle_time_ms=0, error_code=0)
            case InitProducerIdRequest():
                return InitProducerIdResponse(throttle_time_ms=0, error_code=0, producer_id=5, producer_epoch=8)
        return super().answer(broker, request)


def transaction(
    name: str, *, error_code: int = 0, state: str = "Ongoing", start_time_ms: int = 1000, **topics: list[int]
) -> WireTransaction:
    return WireTransaction(
        error_code=error_code,
        transactional_id=name,
        transaction_state=state,
        transaction_timeout_ms=60_000,
        transaction_start_time_ms=start_time_ms,
        producer_id=5,
        producer_epoch=7,
        topics=[TopicData(topic=topic, partitions=indexes) for topic, indexes in topics.items()],
    )


def wire_producer(producer_id: int, *, start_offset: int = -1, timestamp_ms: int = 0) -> WireProducer:
    return WireProducer(
        producer_id=producer_id,
        producer_epoch=3,
        last_sequence=9,
        last_timestamp=timestamp_ms,
        coordinator_epoch=-1,
        current_txn_start_offset=start_offset,
    )


def markers_answer(request: WriteTxnMarkersRequest, code: ErrorCode) -> WriteTxnMarkersResponse:
    return WriteTxnMarkersResponse(
        markers=[
            WritableTxnMarkerResult(
                producer_id=marker.producer_id,
                topics=[
                    WritableTxnMarkerTopicResult(
                        name=topic.name,
                        partitions=[
                            WritableTxnMarkerPartitionResult(partition_index=index, error_code=code)
                            for index in topic.partition_indexes
                        ],
                    )
                    for topic in marker.topics
                ],
            )
            for marker in request.markers
        ]
    )


def play(world: AdminCluster, main: Callable[[AsyncAdmin], Coroutine[Any, Any, None]], **options: Any) -> AdminCluster:
    async def played(_world: ScriptedCluster) -> None:
        async with AsyncAdmin.on(world.seams, bootstrap_servers=world.bootstrap_servers, **options) as admin:
            await main(admin)

    world.run(played)
    return world


def first(count: int, kind: type[Request], act: Callable[[Any], Response | Fault]) -> Callable[[Request], Any]:
    seen = 0

    def script(request: Request) -> Response | Fault | None:
        nonlocal seen
        if not isinstance(request, kind) or seen >= count:
            return None
        seen += 1
        return act(request)

    return script


def test_every_broker_lists_what_it_coordinates() -> None:
    world = AdminCluster()
    world.listed = {1: [("b", 2, "Ongoing"), ("odd", 4, "Puzzled")], 2: [("a", 1, "PrepareEpochFence")]}

    async def main(admin: AsyncAdmin) -> None:
        assert await admin.list_transactions(
            states=[TransactionState.ONGOING], producer_ids=[1, 2, 4], duration_ms=10, pattern="x.*"
        ) == [
            TransactionListing("a", 1, TransactionState.PREPARE_EPOCH_FENCE, 2),
            TransactionListing("b", 2, TransactionState.ONGOING, 1),
            TransactionListing("odd", 4, TransactionState.UNKNOWN, 1),
        ]

    play(world, main)
    for broker in world.brokers.values():
        asked = next(each for each in broker.requests if isinstance(each, ListTransactionsRequest))
        assert (asked.state_filters, asked.producer_id_filters) == (["Ongoing"], [1, 2, 4])
        assert (asked.duration_filter, asked.transactional_id_pattern) == (10, "x.*")


@pytest.mark.parametrize(("highest", "filters"), [(0, {"duration_ms": 5}), (1, {"pattern": "x"})])
def test_a_filter_that_an_old_cluster_would_not_see_is_refused(highest: int, filters: dict[str, Any]) -> None:
    world = AdminCluster()
    world.versions[ApiKey.LIST_TRANSACTIONS] = (0, highest)

    async def main(admin: AsyncAdmin) -> None:
        assert await admin.list_transactions() == []
        with pytest.raises(UnsupportedError, match="too old to list transactions by their age or a pattern"):
            await admin.list_transactions(**filters)

    play(world, main)


def test_a_coordinator_that_has_moved_is_found_again() -> None:
    world = AdminCluster()
    world.described = {
        "open": transaction("open", orders=[1, 0], bills=[0]),
        "idle": transaction("idle", state="Empty", start_time_ms=-1),
    }
    moved = transaction("open", error_code=ErrorCode.NOT_COORDINATOR)
    world.brokers[1].script = first(
        2,
        DescribeTransactionsRequest,
        lambda _request: DescribeTransactionsResponse(throttle_time_ms=0, transaction_states=[moved]),
    )

    async def main(admin: AsyncAdmin) -> None:
        described = await admin.describe_transaction("open")
        assert described == TransactionDescription(
            "open",
            1,
            TransactionState.ONGOING,
            5,
            7,
            60_000,
            1000,
            (TopicPartition("bills", 0), TopicPartition("orders", 0), TopicPartition("orders", 1)),
        )
        outcomes = await admin.describe_transactions(["idle", "nobody"])
        idle, nobody = outcomes["idle"], outcomes["nobody"]
        assert isinstance(idle, TransactionDescription)
        assert (idle.state, idle.start_time_ms, idle.partitions) == (TransactionState.EMPTY, None, ())
        assert isinstance(nobody, RefusedError)
        assert nobody.code is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND

    play(world, main)
    found = sum(broker.asked(FindCoordinatorRequest) for broker in world.brokers.values())
    assert found == 3 + 2


@pytest.mark.parametrize(("version", "expected"), [(1, 4), (2, 5)])
def test_an_end_goes_in_the_version_that_the_cluster_has_agreed_on(version: int, expected: int) -> None:
    async def main(admin: AsyncAdmin) -> None:
        await admin.end_transaction("payments", 5, 7, commit=True)

    world = play(AdminCluster(version=version), main)
    assert [each for kind, each in world.brokers[1].versions if kind is EndTxnRequest] == [expected]
    (asked,) = (each for each in world.brokers[1].requests if isinstance(each, EndTxnRequest))
    assert (asked.transactional_id, asked.producer_id, asked.producer_epoch, asked.committed) == (
        "payments",
        5,
        7,
        True,
    )


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (ErrorCode.INVALID_TXN_STATE, "has no open transaction, or it has ended the other way"),
        (ErrorCode.PRODUCER_FENCED, "belongs to a newer producer"),
        (ErrorCode.INVALID_PRODUCER_ID_MAPPING, "belongs to a newer producer"),
        (ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "transactional id payments"),
    ],
)
def test_an_end_that_is_refused_says_why(code: ErrorCode, words: str) -> None:
    world = AdminCluster()
    world.brokers[1].script = first(
        1, EndTxnRequest, lambda _request: EndTxnResponse(throttle_time_ms=0, error_code=code)
    )

    async def main(admin: AsyncAdmin) -> None:
        with pytest.raises(RefusedError, match=words) as raised:
            await admin.end_transaction("payments", 5, 7, commit=False)
        assert raised.value.code is code

    play(world, main)


@pytest.mark.parametrize("fault", list(Fault))
def test_an_end_without_an_answer_is_asked_again(fault: Fault) -> None:
    world = AdminCluster()
    world.brokers[1].script = first(1, EndTxnRequest, lambda _request: fault)

    async def main(admin: AsyncAdmin) -> None:
        await admin.end_transaction("payments", 5, 7, commit=True)

    play(world, main, request_timeout_ms=1000)
    assert world.brokers[1].asked(EndTxnRequest) == 2


def test_a_coordinator_that_is_still_busy_is_asked_until_there_is_no_time() -> None:
    busy = InitProducerIdResponse(
        throttle_time_ms=0, error_code=ErrorCode.CONCURRENT_TRANSACTIONS, producer_id=-1, producer_epoch=-1
    )
    world = AdminCluster()
    world.brokers[1].script = first(3, InitProducerIdRequest, lambda _request: busy)

    async def main(admin: AsyncAdmin) -> None:
        assert await admin.fence_producers(["payments"]) == {"payments": FencedProducer(5, 8)}
        world.brokers[1].script = first(1000, InitProducerIdRequest, lambda _request: busy)
        with pytest.raises(TimedOutError, match="CONCURRENT_TRANSACTIONS"):
            await admin.fence_producer("payments")

    play(world, main, default_api_timeout_ms=5000)


def test_an_open_transaction_is_pinned_and_one_that_is_not_open_is_told() -> None:
    kept = InitProducerIdResponse(
        throttle_time_ms=0,
        error_code=0,
        producer_id=5,
        producer_epoch=8,
        ongoing_txn_producer_id=5,
        ongoing_txn_producer_epoch=7,
    )
    asked: list[InitProducerIdRequest] = []

    def keeping(request: Request) -> Response:
        assert isinstance(request, InitProducerIdRequest)
        asked.append(request)
        return kept

    world = AdminCluster()
    world.versions[ApiKey.INIT_PRODUCER_ID] = (0, 6)
    world.brokers[1].script = first(1, InitProducerIdRequest, keeping)

    async def main(admin: AsyncAdmin) -> None:
        assert await admin.pin_transaction("payments") == PinnedTransaction(5, 8, (5, 7))
        assert await admin.pin_transaction("payments") == PinnedTransaction(5, 8, None)

    play(world, main)
    assert [(each.enable_2pc, each.keep_prepared_txn, each.producer_id) for each in asked] == [(True, True, -1)]


def test_a_cluster_without_two_phase_commit_pins_nothing() -> None:
    world = AdminCluster()
    world.versions[ApiKey.INIT_PRODUCER_ID] = (0, 5)
    refusing = AdminCluster()
    refusing.versions[ApiKey.INIT_PRODUCER_ID] = (0, 6)
    refused = InitProducerIdResponse(
        throttle_time_ms=0, error_code=ErrorCode.UNSUPPORTED_VERSION, producer_id=-1, producer_epoch=-1
    )
    refusing.brokers[1].script = first(1, InitProducerIdRequest, lambda _request: refused)

    async def too_old(admin: AsyncAdmin) -> None:
        with pytest.raises(UnsupportedError, match="does not offer two-phase commit"):
            await admin.pin_transaction("payments")

    async def switched_off(admin: AsyncAdmin) -> None:
        with pytest.raises(RefusedError) as raised:
            await admin.pin_transaction("payments")
        assert raised.value.code is ErrorCode.UNSUPPORTED_VERSION

    play(world, too_old)
    play(refusing, switched_off)


def test_a_marker_follows_the_leader() -> None:
    world = AdminCluster()
    world.brokers[2].script = first(
        1, WriteTxnMarkersRequest, lambda request: markers_answer(request, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    )

    async def main(admin: AsyncAdmin) -> None:
        await admin.abort_transaction(("orders", 1), 5, 7, None)
        with pytest.raises(RefusedError, match="topic orders has no partition 7"):
            await admin.abort_transaction(("orders", 7), 5, 7, None)

    play(world, main)
    asked = [each for each in world.brokers[2].requests if isinstance(each, WriteTxnMarkersRequest)]
    assert len(asked) == 2
    (marker,) = asked[-1].markers
    assert (marker.producer_id, marker.producer_epoch, marker.coordinator_epoch) == (5, 7, 0)
    assert not marker.transaction_result


def test_what_hangs_is_what_is_old_and_no_coordinator_knows() -> None:
    world = AdminCluster()

    async def main(admin: AsyncAdmin) -> None:
        now_ms = world.seams.clock.now_ms()
        old, new = now_ms - HOUR_MS, now_ms - 1000
        world.producers = {
            ("orders", 0): [
                wire_producer(1, start_offset=10, timestamp_ms=old),  # its coordinator waits for it
                wire_producer(2, start_offset=20, timestamp_ms=old),  # nobody has ever heard of it
                wire_producer(3, start_offset=30, timestamp_ms=new),  # young
                wire_producer(4, timestamp_ms=old),  # nothing open
            ],
            # Known, but not in this partition.
            ("bills", 0): [wire_producer(1, start_offset=40, timestamp_ms=old)],
            # Its id has expired in between.
            ("orders", 1): [wire_producer(6, start_offset=50, timestamp_ms=old)],
        }
        world.listed[1] = [("one", 1, "Ongoing"), ("gone", 6, "Empty")]
        world.described = {"one": transaction("one", orders=[0])}

        found = await admin.find_hanging_transactions()
        assert [(each.partition, each.producer.producer_id) for each in found] == [
            (("bills", 0), 1),
            (("orders", 0), 2),
            (("orders", 1), 6),
        ]
        assert found[1] == OpenTransaction(found[1].partition, ProducerState(2, 3, 9, old, None, 20))
        assert await admin.find_hanging_transactions(topic="orders", partition=0) == found[1:2]
        assert len(await admin.find_hanging_transactions(max_transaction_timeout_ms=500)) == 4
        assert await admin.find_hanging_transactions(max_transaction_timeout_ms=2 * HOUR_MS) == []
        on_second = await admin.find_hanging_transactions(broker_id=2)
        assert [each.partition for each in on_second] == [("orders", 1)]

        assert (await admin.find_open_transaction(("orders", 0), 30)).producer.producer_id == 3
        with pytest.raises(RefusedError, match="no open transaction that begins at offset 31"):
            await admin.find_open_transaction(("orders", 0), 31)
        await admin.abort_hanging(found[0])
        producers = await admin.describe_producers([("orders", 0), ("nothing", 0)])
        assert [type(each) for each in producers.values()] == [list, UnknownTopicError]
        assert all(not isinstance(each, ClientError) for each in [producers[found[1].partition]])

    play(world, main)
    assert world.brokers[1].asked(WriteTxnMarkersRequest) == 1
