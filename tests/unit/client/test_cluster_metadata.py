"""Connections, metadata and coordinators against a scripted cluster on virtual time."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.support.scripted_cluster import PORT, Fault, ScriptedCluster
from tidelog.client.cluster_metadata import ClusterMetadata, Leader
from tidelog.client.connections import Connections
from tidelog.client.coordinators import CoordinatorKind, Coordinators
from tidelog.client.errors import ClosedError, NotReachedError, RefusedError, TimedOutError, UnsupportedError
from tidelog.client.options import ClientOptions, parse_options
from tidelog.model.errors import ErrorCode
from tidelog.net.address import Address
from tidelog.wire.messages.api_versions import ApiVersionsRequest
from tidelog.wire.messages.cluster import DescribeClusterRequest, DescribeClusterResponse
from tidelog.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from tidelog.wire.messages.metadata import MetadataRequest, MetadataResponse
from tidelog.wire.schema import Request, Response


class Client:
    """The shared parts of a client."""

    def __init__(self, world: ScriptedCluster, **options: Any) -> None:
        self.options = parse_options(ClientOptions, {"bootstrap_servers": world.bootstrap_servers, **options})
        self.connections = Connections(world.seams, self.options)
        self.metadata = ClusterMetadata(world.seams, self.connections, self.options)
        self.coordinators = Coordinators(world.seams, self.connections, self.metadata, self.options)

    def close(self) -> None:
        self.metadata.close()
        self.connections.close()


def all_topics() -> MetadataRequest:
    return MetadataRequest(topics=None, include_topic_authorized_operations=False)


def test_the_bootstrap_connection_goes_on_as_the_brokers() -> None:
    world = ScriptedCluster(topics={"orders": 2})

    async def main(world: ScriptedCluster) -> None:
        client = Client(world)
        topic = await client.metadata.topic("orders", 1000)
        assert [each.leader for each in topic.partitions] == [Leader(1, 0), Leader(1, 0)]
        await client.connections.ask(1, all_topics(), MetadataResponse)
        assert world.brokers[1].asked(ApiVersionsRequest) == 1
        assert client.metadata.controller_id == 1
        client.close()

    world.run(main)


def test_a_topic_that_comes_later_is_waited_for() -> None:
    world = ScriptedCluster()

    async def main(world: ScriptedCluster) -> None:
        client = Client(world)
        world.loop.call_later(3, world.create, "late")
        assert len((await client.metadata.topic("late", 10_000)).partitions) == 1
        assert 3 <= world.loop.time() < 4.5
        # With growing waits, not as often as answers come.
        assert world.brokers[1].asked(MetadataRequest) < 12
        client.close()

    world.run(main)


def test_a_leader_epoch_never_goes_back() -> None:
    world = ScriptedCluster(brokers=2, topics={"orders": 1})

    async def main(world: ScriptedCluster) -> None:
        client = Client(world)
        await client.metadata.topic("orders", 1000)
        assert client.metadata.learn_leader("orders", 0, Leader(2, 5), [(2, Address("broker-2", PORT))])
        assert not client.metadata.learn_leader("orders", 0, Leader(1, 5))
        client.metadata.request_update()
        await client.metadata.updated(1000)
        assert client.metadata.leader_of("orders", 0) == Leader(2, 5)
        # Another topic of the same name begins anew.
        world.topic_id = lambda name: b"other-topic-id!!"  # type: ignore[method-assign]  # noqa: ARG005
        client.metadata.request_update()
        await client.metadata.updated(1000)
        assert client.metadata.leader_of("orders", 0) == Leader(1, 0)
        client.close()

    world.run(main)


def test_metadata_is_asked_for_when_it_is_old() -> None:
    world = ScriptedCluster(topics={"orders": 1})

    async def main(world: ScriptedCluster) -> None:
        client = Client(world, metadata_max_age_ms=60_000)
        await client.metadata.topic("orders", 1000)
        world.move("orders", 0, 1)
        await asyncio.sleep(59)
        assert client.metadata.leader_of("orders", 0) == Leader(1, 0)
        await asyncio.sleep(2)
        assert client.metadata.leader_of("orders", 0) == Leader(1, 1)
        client.close()

    world.run(main)


def test_once_nobody_known_is_reached_the_client_begins_again() -> None:
    world = ScriptedCluster(brokers=3, topics={"orders": 1})

    async def main(world: ScriptedCluster) -> None:
        world.brokers[3].kill()
        client = Client(world, bootstrap_servers="broker-1:9092,broker-3:9092")
        await client.metadata.topic("orders", 1000)
        world.brokers[1].kill()
        world.brokers[2].kill()
        await world.brokers[3].start()
        world.move("orders", 0, 3)
        client.metadata.request_update()
        while client.metadata.leader_of("orders", 0) != Leader(3, 1):
            await client.metadata.updated(10_000)
        assert list(client.metadata.brokers) == [3]
        client.close()

    world.run(main)


def test_failures_are_errors_of_one_kind() -> None:
    world = ScriptedCluster(brokers=2, topics={"orders": 1})

    async def main(world: ScriptedCluster) -> None:
        client = Client(world, request_timeout_ms=500)
        await client.metadata.topic("orders", 1000)
        with pytest.raises(NotReachedError, match="no broker 9"):
            await client.connections.ask(9, all_topics(), MetadataResponse)
        describe = DescribeClusterRequest(include_cluster_authorized_operations=False, include_fenced_brokers=False)
        with pytest.raises(UnsupportedError, match="does not offer DescribeCluster"):
            await client.connections.ask(1, describe, DescribeClusterResponse)
        world.brokers[1].script = lambda _request: Fault.IGNORE
        with pytest.raises(TimedOutError):
            await client.connections.ask(1, all_topics(), MetadataResponse)
        world.brokers[1].script = lambda _request: None
        world.brokers[2].kill()
        await asyncio.sleep(1)
        with pytest.raises(NotReachedError, match="refused"):
            await client.connections.ask(2, all_topics(), MetadataResponse)
        client.close()
        with pytest.raises(ClosedError):
            await client.connections.ask(1, all_topics(), MetadataResponse)

    world.run(main)


def test_a_throttled_node_is_left_alone() -> None:
    world = ScriptedCluster(topics={"orders": 1})

    async def main(world: ScriptedCluster) -> None:
        client = Client(world)
        await client.metadata.topic("orders", 1000)

        def throttle(request: Request) -> Response | None:
            if not isinstance(request, MetadataRequest):
                return None
            answer = world.metadata(request)
            answer.throttle_time_ms = 2000
            return answer

        world.brokers[1].script = throttle
        await client.connections.ask(1, all_topics(), MetadataResponse)
        world.brokers[1].script = lambda _request: None
        before = world.loop.time()
        await client.connections.ask(1, all_topics(), MetadataResponse)
        assert 2 <= world.loop.time() - before < 2.1
        client.close()

    world.run(main)


def test_idle_connections_are_closed_and_opened_again() -> None:
    world = ScriptedCluster(topics={"orders": 1})

    async def main(world: ScriptedCluster) -> None:
        client = Client(world, connections_max_idle_ms=10_000)
        await client.metadata.topic("orders", 1000)
        assert len(world.brokers[1].host.endpoints()) == 1
        await asyncio.sleep(20)
        assert world.brokers[1].host.endpoints() == []
        await client.connections.ask(1, all_topics(), MetadataResponse)
        client.close()

    world.run(main)


def test_a_coordinator_is_found_kept_and_found_again() -> None:
    world = ScriptedCluster(brokers=2)

    async def main(world: ScriptedCluster) -> None:
        client = Client(world)
        find = client.coordinators.find
        busy = 2

        def load(request: Request) -> Response | None:
            nonlocal busy
            if not isinstance(request, FindCoordinatorRequest) or not busy:
                return None
            busy -= 1
            answer = world.answer(world.brokers[1], request)
            assert isinstance(answer, FindCoordinatorResponse)
            answer.coordinators[0].error_code = ErrorCode.COORDINATOR_NOT_AVAILABLE
            return answer

        for broker in world.brokers.values():
            broker.script = load
        assert await find(CoordinatorKind.GROUP, "billing", timeout_ms=5000) == 1
        asked = sum(broker.asked(FindCoordinatorRequest) for broker in world.brokers.values())
        assert asked == 3
        assert await find(CoordinatorKind.GROUP, "billing", timeout_ms=5000) == 1
        assert sum(broker.asked(FindCoordinatorRequest) for broker in world.brokers.values()) == asked
        world.brokers[1].kill()
        client.coordinators.lost(CoordinatorKind.GROUP, "billing")
        assert await find(CoordinatorKind.GROUP, "billing", timeout_ms=5000) == 2
        client.close()

    world.run(main)


def test_a_coordinator_that_is_refused_is_not_looked_for_again() -> None:
    world = ScriptedCluster()

    async def main(world: ScriptedCluster) -> None:
        client = Client(world)

        def refuse(request: Request) -> Response | None:
            if not isinstance(request, FindCoordinatorRequest):
                return None
            answer = world.answer(world.brokers[1], request)
            assert isinstance(answer, FindCoordinatorResponse)
            answer.coordinators[0].error_code = ErrorCode.GROUP_AUTHORIZATION_FAILED
            return answer

        world.brokers[1].script = refuse
        with pytest.raises(RefusedError, match="GROUP_AUTHORIZATION_FAILED"):
            await client.coordinators.find(CoordinatorKind.GROUP, "billing", timeout_ms=5000)
        client.close()

    world.run(main)
