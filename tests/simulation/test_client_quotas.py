"""Quotas of a whole node on virtual time: what clients are told, and when they are heard again."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from tests.support.simulated_cluster import SimulatedCluster
from tests.support.simulated_node import Asker, World
from tidelog.broker.config.server_properties import check_properties
from tidelog.broker.node.node import BrokerNode
from tidelog.model.broker_config import BROKER_KEYS
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import ZERO_UUID, TopicName
from tidelog.model.listener_config import MAX_CONNECTIONS
from tidelog.model.quota_config import MAX_CONNECTION_CREATION_RATE
from tidelog.net.connection_rates import NO_RATE
from tidelog.net.errors import RequestFailedError
from tidelog.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from tidelog.wire.messages.client_quotas import (
    AlterClientQuotasEntryData,
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    EntityData,
    OpData,
)
from tidelog.wire.messages.configs import (
    IncrementalAlterConfigsAlterableConfig,
    IncrementalAlterConfigsAlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from tidelog.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from tidelog.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from tidelog.wire.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from tidelog.wire.messages.topics import (
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
)
from tidelog.wire.records import Record, build_batch

CLIENT_ID = "asker"
VERSIONS = ApiVersionsRequest(client_software_name="asker", client_software_version="1")
TEXTS = {
    "node.id": "1",
    "listeners": "PLAINTEXT://node:9092,CONTROLLER://node:9093",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "log.dirs": "/logs",
}
Story = Callable[[World, BrokerNode, Asker], Awaitable[None]]


def told(seed: int, story: Story) -> None:
    async def run(world: World) -> None:
        node = await world.start()
        asker = Asker(world)
        assert await asker.create("orders") == ErrorCode.NONE
        await story(world, node, asker)
        asker.close()
        await node.stop()

    World(seed).run(run)


async def set_limit(asker: Asker, key: str, value: float | None, **entity: str | None) -> None:
    parts = [EntityData(entity_type=kind.replace("_", "-"), entity_name=name) for kind, name in entity.items()]
    op = OpData(key=key, value=value or 0.0, remove=value is None)
    request = AlterClientQuotasRequest(
        entries=[AlterClientQuotasEntryData(entity=parts, ops=[op])], validate_only=False
    )
    answer = await asker.call(request, AlterClientQuotasResponse, 1)
    assert [each.error_code for each in answer.entries] == [ErrorCode.NONE]


def produce_request(value: bytes, acks: int = -1) -> ProduceRequest:
    batch = build_batch([Record(0, 1_704_067_200_000, None, value, ())])
    data = PartitionProduceData(index=0, records=batch)
    topic = TopicProduceData(name="orders", topic_id=ZERO_UUID, partition_data=[data])
    return ProduceRequest(transactional_id=None, acks=acks, timeout_ms=30_000, topic_data=[topic])


async def produced(asker: Asker, value: bytes) -> int:
    """The throttle time of a Produce."""
    answer = await asker.call(produce_request(value), ProduceResponse, 9)
    assert answer.responses[0].partition_responses[0].error_code == ErrorCode.NONE
    return answer.throttle_time_ms


async def fetched(
    asker: Asker,
    offset: int | None,
    *,
    max_bytes: int = 1 << 20,
    min_bytes: int = 1,
    session: tuple[int, int] = (0, -1),
) -> FetchResponse:
    """Of a session, an offset of None leaves what it asks for as it is."""
    partition = FetchPartition(
        partition=0,
        current_leader_epoch=-1,
        fetch_offset=offset or 0,
        last_fetched_epoch=-1,
        log_start_offset=-1,
        partition_max_bytes=1 << 20,
    )
    request = FetchRequest(
        replica_id=-1,
        max_wait_ms=0,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        isolation_level=0,
        session_id=session[0],
        session_epoch=session[1],
        topics=[] if offset is None else [FetchTopic(topic="orders", topic_id=ZERO_UUID, partitions=[partition])],
        forgotten_topics_data=[],
        rack_id="",
    )
    return await asker.call(request, FetchResponse, 12)


def test_a_producer_above_its_rate_is_answered_at_once_and_then_not_heard_until_its_time_is_over() -> None:
    async def story(world: World, _node: BrokerNode, asker: Asker) -> None:
        await set_limit(asker, "producer_byte_rate", 1_000, client_id=CLIENT_ID)
        began_ms = world.clock.monotonic_ms()

        throttle_ms = await produced(asker, bytes(20_000))

        # 20,000 bytes and what is around them, at 1,000 a second over ten seconds.
        assert 10_000 <= throttle_ms < 10_300
        assert world.clock.monotonic_ms() - began_ms < 100
        # Our asker does not wait by itself.
        await asker.call(VERSIONS, ApiVersionsResponse, 3)
        assert throttle_ms <= world.clock.monotonic_ms() - began_ms < throttle_ms + 100

    told(1, story)


def test_requests_that_were_read_with_the_one_that_was_too_much_wait_too() -> None:
    async def story(world: World, _node: BrokerNode, asker: Asker) -> None:
        await set_limit(asker, "producer_byte_rate", 1_000, client_id=CLIENT_ID)
        began_ms = world.clock.monotonic_ms()

        async def answered(value: bytes) -> tuple[int, int]:
            throttle_ms = await produced(asker, value)
            return throttle_ms, world.clock.monotonic_ms() - began_ms

        # All of them leave in one write.
        first, second, third = await asyncio.gather(*(answered(bytes(12_000)) for _ in range(3)))

        assert 2_000 <= first[0] < 2_300
        assert first[1] < 100
        # What was recorded is over the rate for longer than the wait: the first two are in the same ten seconds.
        assert first[0] <= second[1] < first[0] + 100
        assert second[0] > 10_000
        assert second[1] + second[0] <= third[1] < second[1] + second[0] + 100

    told(2, story)


def test_acks_0_is_muted_as_well() -> None:
    async def story(world: World, node: BrokerNode, asker: Asker) -> None:
        await set_limit(asker, "producer_byte_rate", 1_000, client_id=CLIENT_ID)
        began_ms = world.clock.monotonic_ms()
        asker.send_unanswered(produce_request(bytes(20_000), acks=0), 9)

        await asker.call(VERSIONS, ApiVersionsResponse, 3)

        assert 10_000 <= world.clock.monotonic_ms() - began_ms < 10_400
        assert await asker.fetch("orders", 0) == [bytes(20_000)]
        assert node.quotas.is_on

    told(3, story)


def test_a_consumer_above_its_rate_gets_nothing_and_pays_for_nothing_and_gets_it_later() -> None:
    async def story(world: World, _node: BrokerNode, asker: Asker) -> None:
        for _ in range(3):
            await produced(asker, bytes(6_000))
        await set_limit(asker, "consumer_byte_rate", 1_000, client_id=CLIENT_ID)
        first = await fetched(asker, 0, max_bytes=6_100)
        assert first.throttle_time_ms == 0
        began_ms = world.clock.monotonic_ms()

        second = await fetched(asker, 1, max_bytes=6_100)

        # 12,000 bytes are too much for ten seconds.
        assert second.throttle_time_ms > 2_000
        assert second.responses == []
        assert world.clock.monotonic_ms() - began_ms < 100
        while second.throttle_time_ms:
            second = await fetched(asker, 1, max_bytes=6_100)
        assert second.responses[0].partitions[0].records
        # It was refused until the first fetch was out of the windows, and what was refused did not count.
        assert world.clock.monotonic_ms() - began_ms < 13_000

    told(4, story)


def test_a_fetch_never_reads_more_than_may_pass_at_once() -> None:
    async def story(_world: World, _node: BrokerNode, asker: Asker) -> None:
        for _ in range(5):
            await produced(asker, bytes(4_000))
        await set_limit(asker, "consumer_byte_rate", 1_000, client_id=CLIENT_ID)

        answer = await fetched(asker, 0, min_bytes=1 << 20)

        # What is around the records is a little too much for ten seconds, and not for any more.
        assert answer.throttle_time_ms < 100
        answer = await fetched(asker, 0, min_bytes=1 << 20)
        assert answer.throttle_time_ms == 0
        records = answer.responses[0].partitions[0].records
        assert isinstance(records, bytes | memoryview)
        assert len(records) == 10_000

    told(5, story)


def test_a_session_that_is_told_nothing_for_now_is_told_everything_later() -> None:
    async def story(_world: World, _node: BrokerNode, asker: Asker) -> None:
        first = await fetched(asker, 0, session=(0, 0))
        assert first.session_id
        await produced(asker, bytes(6_000))
        await set_limit(asker, "consumer_byte_rate", 1_000, client_id=CLIENT_ID)
        # Another fetch has used most of it.
        assert (await fetched(asker, 0)).throttle_time_ms == 0

        epoch = 1
        answer = await fetched(asker, None, session=(first.session_id, epoch))
        assert answer.throttle_time_ms
        assert (answer.error_code, answer.session_id, answer.responses) == (0, first.session_id, [])
        while answer.throttle_time_ms:
            epoch += 1
            answer = await fetched(asker, None, session=(first.session_id, epoch))

        (partition,) = answer.responses[0].partitions
        assert partition.records
        assert partition.high_watermark == 1

    told(15, story)


def test_a_full_fetch_that_is_told_nothing_gets_no_session() -> None:
    async def story(_world: World, _node: BrokerNode, asker: Asker) -> None:
        await produced(asker, bytes(6_000))
        await set_limit(asker, "consumer_byte_rate", 1_000, client_id=CLIENT_ID)
        assert (await fetched(asker, 0)).throttle_time_ms == 0

        answer = await fetched(asker, 0, session=(0, 0))

        assert answer.throttle_time_ms
        assert (answer.session_id, answer.responses) == (0, [])

    told(16, story)


def test_a_limit_that_is_removed_holds_nobody_any_more() -> None:
    async def story(world: World, node: BrokerNode, asker: Asker) -> None:
        await set_limit(asker, "producer_byte_rate", 1_000, client_id=None)
        assert await produced(asker, bytes(20_000)) > 0
        other = Asker(world)
        await set_limit(other, "producer_byte_rate", None, client_id=None)
        other.close()

        assert await produced(asker, bytes(20_000)) == 0
        assert not node.quotas.is_on

    told(6, story)


def test_a_user_shares_its_limit_over_all_connections() -> None:
    async def story(world: World, _node: BrokerNode, asker: Asker) -> None:
        await set_limit(asker, "producer_byte_rate", 1_000, user="ANONYMOUS")
        assert await produced(asker, bytes(9_000)) == 0
        other = Asker(world)

        assert 8_000 <= await produced(other, bytes(9_000)) < 8_500
        other.close()

    told(7, story)


def creating(name: str, partitions: int) -> CreateTopicsRequest:
    topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1, assignments=[], configs=[])
    return CreateTopicsRequest(topics=[topic])


def test_a_client_that_changes_too_much_is_refused_and_waits() -> None:
    async def story(world: World, _node: BrokerNode, asker: Asker) -> None:
        await set_limit(asker, "controller_mutation_rate", 1.0, user=None)
        first = await asker.call(creating("a", 21), CreateTopicsResponse, 7)
        # There was something in the bucket, and now ten are owed.
        assert (first.topics[0].error_code, first.throttle_time_ms) == (ErrorCode.NONE, 0)
        began_ms = world.clock.monotonic_ms()

        second = await asker.call(creating("b", 1), CreateTopicsResponse, 7)

        assert second.topics[0].error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
        assert second.topics[0].error_message == "The throttling quota has been exceeded."
        assert 9_900 <= second.throttle_time_ms <= 10_000
        third = await asker.call(creating("b", 1), CreateTopicsResponse, 7)
        assert 9_900 <= world.clock.monotonic_ms() - began_ms < 10_200
        assert (third.topics[0].error_code, third.throttle_time_ms) == (ErrorCode.NONE, 0)

    told(8, story)


def test_a_topic_that_is_made_because_it_is_named_is_refused_like_any_other() -> None:
    """As in Kafka, whose brokers ask the controller in its newest version, on behalf of the client."""

    async def story(_world: World, node: BrokerNode, asker: Asker) -> None:
        await set_limit(asker, "controller_mutation_rate", 1.0, user=None)
        assert await asker.create("large", 16) == ErrorCode.NONE
        named = MetadataRequest(
            topics=[MetadataRequestTopic(topic_id=ZERO_UUID, name="named")],
            allow_auto_topic_creation=True,
            include_topic_authorized_operations=False,
        )

        answer = await asker.call(named, MetadataResponse, 12)

        assert answer.topics[0].error_code != ErrorCode.NONE
        assert node.image.topic(TopicName("named")) is None
        # Five are owed, at one a second.
        await asyncio.sleep(6)
        await asker.call(named, MetadataResponse, 12)
        await asyncio.sleep(1)
        assert node.image.topic(TopicName("named")) is not None

    told(21, story)


def test_what_an_older_client_asks_for_is_done_and_paid_for_afterwards() -> None:
    async def story(world: World, _node: BrokerNode, asker: Asker) -> None:
        await set_limit(asker, "controller_mutation_rate", 1.0, user=None)
        created = await asker.call(creating("a", 16), CreateTopicsResponse, 5)
        assert (created.topics[0].error_code, created.throttle_time_ms) == (ErrorCode.NONE, 5_000)
        began_ms = world.clock.monotonic_ms()

        deleted = await asker.call(
            DeleteTopicsRequest(topics=[], topic_names=["a"], timeout_ms=1_000), DeleteTopicsResponse, 4
        )

        assert deleted.responses[0].error_code == ErrorCode.NONE
        assert 4_900 <= world.clock.monotonic_ms() - began_ms < 5_200
        assert 15_500 < deleted.throttle_time_ms <= 16_000

    told(9, story)


def test_a_connection_that_ends_while_it_is_muted_leaves_nothing_behind() -> None:
    async def story(world: World, node: BrokerNode, asker: Asker) -> None:
        await set_limit(asker, "producer_byte_rate", 1, client_id=CLIENT_ID)
        assert await produced(asker, bytes(20_000)) > 1_000_000
        assert len(node.timers) == 1

        asker.close()
        await asyncio.sleep(1)

        assert len(node.timers) == 0

    told(10, story)


def test_what_clients_take_is_shown() -> None:
    async def story(_world: World, node: BrokerNode, asker: Asker) -> None:
        assert shown(node, "kafka_server_produce_byte_rate") == {}
        await set_limit(asker, "producer_byte_rate", 1_000, client_id=CLIENT_ID)
        await set_limit(asker, "controller_mutation_rate", 1, user=None)
        throttle_ms = await produced(asker, bytes(20_000))
        await asyncio.sleep(throttle_ms / 1000)
        await asker.create("more", 3)

        assert 1_900 < shown(node, "kafka_server_produce_byte_rate")["", CLIENT_ID] < 2_100
        assert shown(node, "kafka_server_produce_throttle_time") == {("", CLIENT_ID): throttle_ms}
        assert 8 <= shown(node, "kafka_server_controller_mutation_tokens")["ANONYMOUS", ""] < 9
        assert shown(node, "kafka_server_controller_mutation_mutation_rate")["ANONYMOUS", ""] > 0

    told(14, story)


def shown(node: BrokerNode, name: str) -> dict[tuple[str, ...], float]:
    (family,) = [each for each in node.metrics.registry if each.name == name]
    return {labels: value for labels, value in family.read() if isinstance(value, int | float)}


def test_limits_survive_a_restart() -> None:
    async def run(world: World) -> None:
        node = await world.start()
        asker = Asker(world)
        await asker.create("orders")
        await set_limit(asker, "producer_byte_rate", 1_000, client_id=CLIENT_ID)
        asker.close()
        await node.stop()
        node = await world.start()
        asker = Asker(world)

        assert await produced(asker, bytes(20_000)) >= 10_000

        asker.close()
        await node.stop()

    World(11).run(run)


def test_an_address_that_makes_too_many_connections_is_kept_waiting_and_turned_away() -> None:
    async def story(world: World, node: BrokerNode, asker: Asker) -> None:
        # The address of a simulated machine is its name, which only a resolver knows.
        await set_limit(asker, "connection_creation_rate", 1, ip=None)
        others = [Asker(world) for _ in range(11)]
        for other in others[:10]:
            await other.call(VERSIONS, ApiVersionsResponse, 3)
        began_ms = world.clock.monotonic_ms()

        with pytest.raises(RequestFailedError):
            await others[10].call(VERSIONS, ApiVersionsResponse, 3)

        assert world.clock.monotonic_ms() - began_ms >= 900
        assert len(node._server.connections) == 11
        assert sum(node._server.throttled.values()) == 1
        await asyncio.sleep(11)
        await others[10].call(VERSIONS, ApiVersionsResponse, 3)
        for other in others:
            other.close()

    told(12, story)


def test_a_node_accepts_connections_no_faster_than_it_may() -> None:
    async def run(world: World) -> None:
        world.config = BROKER_KEYS.parse({**TEXTS, "max.connection.creation.rate": "2"})
        node = await world.start()
        askers = [Asker(world) for _ in range(25)]
        began_ms = world.clock.monotonic_ms()

        await asyncio.gather(*(asker.call(VERSIONS, ApiVersionsResponse, 3) for asker in askers))

        # Twenty in ten seconds, and two a second from then on; the last one that is let in waits for the one before.
        assert 1_900 <= world.clock.monotonic_ms() - began_ms < 4_000
        for asker in askers:
            asker.close()
        await node.stop()

    World(13).run(run)


def test_a_listener_may_have_a_rate_of_its_own_and_brokers_do_not_wait_for_the_nodes() -> None:
    async def run(world: World) -> None:
        world.config = check_properties(
            {
                **TEXTS,
                "listeners": "CLIENTS://node:9092,BROKERS://node:9094,CONTROLLER://node:9093",
                "listener.security.protocol.map": "CLIENTS:PLAINTEXT,BROKERS:PLAINTEXT,CONTROLLER:PLAINTEXT",
                "inter.broker.listener.name": "BROKERS",
                "max.connection.creation.rate": "7",
                "listener.name.clients.max.connection.creation.rate": "3",
            }
        ).values
        node = await world.start()

        rates = {name: node.listeners.connection_rates(name) for name in ("CLIENTS", "BROKERS", "CONTROLLER")}

        assert rates == {"CLIENTS": (7, 3), "BROKERS": (NO_RATE, NO_RATE), "CONTROLLER": (NO_RATE, NO_RATE)}
        await node.stop()

    World(17).run(run)


@pytest.mark.parametrize(
    "named", [{"inter.broker.listener.name": "BROKERS"}, {"security.inter.broker.protocol": "PLAINTEXT"}]
)
def test_the_listener_between_brokers_is_never_held_back_by_clients(named: dict[str, str]) -> None:
    between = named.get("inter.broker.listener.name", "PLAINTEXT")

    async def run(world: World) -> None:
        world.config = check_properties(
            {
                **TEXTS,
                "listeners": f"CLIENTS://node:9092,{between}://node:9094,CONTROLLER://node:9093",
                "listener.security.protocol.map": f"CLIENTS:PLAINTEXT,{between}:PLAINTEXT,CONTROLLER:PLAINTEXT",
                **named,
                "max.connection.creation.rate": "7",
                "max.connections": "2",
            }
        ).values
        node = await world.start()
        clients = [Asker(world), Asker(world)]
        for client in clients:
            await client.call(VERSIONS, ApiVersionsResponse, 3)

        assert node.listeners.connection_rates(between) == (NO_RATE, NO_RATE)
        assert node._server._quota.has_room(between)
        assert not node._server._quota.has_room("CLIENTS")
        for client in clients:
            client.close()
        await node.stop()

    World(18).run(run)


def test_limits_of_connections_change_at_run_time_and_a_listener_has_its_own() -> None:
    async def run(world: World) -> None:
        world.config = check_properties({**TEXTS, "listener.name.plaintext.max.connections": "2"}).values
        node = await world.start()
        askers = [Asker(world) for _ in range(5)]
        first, second, third, refused, again = askers
        await first.call(VERSIONS, ApiVersionsResponse, 3)
        await second.call(VERSIONS, ApiVersionsResponse, 3)
        waiting = asyncio.ensure_future(third.call(VERSIONS, ApiVersionsResponse, 3))
        await asyncio.sleep(1)
        assert not waiting.done()

        await set_config(first, "1", "listener.name.plaintext.max.connections", "4")
        await waiting
        assert len(node._server.connections) == 3

        # As Kafka does: of those that are there already, whoever has been silent for the longest goes.
        await set_config(third, "", "max.connections", "2")
        await asyncio.sleep(1)
        assert len(node._server.connections) == 2

        await set_config(third, "", "max.connections", "10")
        await set_config(third, "", "max.connections.per.ip", "2")
        with pytest.raises(RequestFailedError):
            await refused.call(VERSIONS, ApiVersionsResponse, 3)

        await set_config(third, "", "max.connections.per.ip.overrides", "client:3")
        await asyncio.sleep(1)
        await again.call(VERSIONS, ApiVersionsResponse, 3)
        for asker in askers:
            asker.close()
        await node.stop()

    World(19).run(run)


def test_a_controller_that_is_no_broker_follows_what_is_changed_at_run_time() -> None:
    async def story(cluster: SimulatedCluster) -> None:
        await cluster.start()
        controller = cluster.machines[1].node
        assert controller is not None
        asker = Asker(cluster, "node-2")

        await set_config(asker, "", "max.connection.creation.rate", "7")
        await set_config(asker, "", "max.connections", "11")

        await cluster.until(lambda: controller.config[MAX_CONNECTIONS] == 11, "the controller's configuration")
        assert controller.config[MAX_CONNECTION_CREATION_RATE] == 7
        await cluster.until(lambda: controller._server._quota.connections_max == 11, "its limit of connections")
        asker.close()

    SimulatedCluster(20, 2, roles={1: "controller", 2: "broker"}).run(story)


async def set_config(asker: Asker, name: str, key: str, value: str) -> None:
    """For one broker, or for all of them."""
    change = IncrementalAlterConfigsAlterableConfig(name=key, config_operation=0, value=value)
    resource = IncrementalAlterConfigsAlterConfigsResource(resource_type=4, resource_name=name, configs=[change])
    request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=False)
    answer = await asker.call(request, IncrementalAlterConfigsResponse, 1)
    assert [(each.error_code, each.error_message) for each in answer.responses] == [(0, None)]
