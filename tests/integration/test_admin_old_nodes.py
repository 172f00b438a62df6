"""An admin in front of nodes that are old, or none at all."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Awaitable, Callable

import pytest

from tidelog.client.admin import AsyncAdmin, ConfigResource, GroupState, NewTopic, OffsetSpec, ResourceKind
from tidelog.client.errors import NotReachedError, UnsupportedError
from tidelog.model.errors import ErrorCode
from tidelog.wire.apis import ApiKey
from tidelog.wire.frames import response_frame
from tidelog.wire.messages.api_versions import ApiVersion, ApiVersionsResponse
from tidelog.wire.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from tidelog.wire.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from tidelog.wire.messages.topics import CreatableTopicResult, CreateTopicsResponse

Answer = Callable[[int, int, int, int], bytes]


def versions(error: ErrorCode, *keys: tuple[ApiKey, int, int]) -> ApiVersionsResponse:
    rows = [ApiVersion(api_key=key, min_version=lowest, max_version=highest) for key, lowest, highest in keys]
    return ApiVersionsResponse(error_code=error, api_keys=rows, throttle_time_ms=0)


def ask(answer: Answer, work: Callable[[AsyncAdmin], Awaitable[object]]) -> object:
    """What `work` gets from a node that answers each request (its key, version, correlation id and port) with `answer`."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                (size,) = struct.unpack(">i", await reader.readexactly(4))
                frame = await reader.readexactly(size)
                key, version, correlation_id = struct.unpack_from(">hhi", frame)
                writer.write(answer(key, version, correlation_id, writer.get_extra_info("sockname")[1]))
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    async def session() -> object:
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        options = AsyncAdmin(bootstrap_servers=f"127.0.0.1:{port}", default_api_timeout_ms=2000, retry_backoff_ms=10)
        try:
            async with options as admin:
                return await work(admin)
        finally:
            server.close()

    return asyncio.run(session())


def metadata(port: int) -> MetadataResponse:
    """One broker with one topic of one partition."""
    partition = MetadataResponsePartition(
        error_code=0, partition_index=0, leader_id=1, replica_nodes=[1], isr_nodes=[1], offline_replicas=[]
    )
    topic = MetadataResponseTopic(error_code=0, name="old", topic_id=bytes(16), partitions=[partition])
    return MetadataResponse(
        throttle_time_ms=0,
        brokers=[MetadataResponseBroker(node_id=1, host="127.0.0.1", port=port)],
        cluster_id="old",
        controller_id=1,
        topics=[topic],
        error_code=0,
    )


def test_an_old_node_is_asked_again_in_the_version_it_names() -> None:
    asked: list[tuple[int, int]] = []

    def answer(key: int, version: int, correlation_id: int, port: int) -> bytes:
        asked.append((key, version))
        if key == ApiKey.METADATA:
            return response_frame(metadata(port), version, correlation_id)
        if version > 2:
            told = versions(ErrorCode.UNSUPPORTED_VERSION, (ApiKey.API_VERSIONS, 0, 2))
            return response_frame(told, 0, correlation_id)
        told = versions(ErrorCode.NONE, (ApiKey.API_VERSIONS, 0, 2), (ApiKey.METADATA, 0, 7))
        return response_frame(told, version, correlation_id)

    async def work(admin: AsyncAdmin) -> object:
        return [topic.name for topic in await admin.list_topics()]

    assert ask(answer, work) == ["old"]
    assert asked == [(ApiKey.API_VERSIONS, 4), (ApiKey.API_VERSIONS, 2), (ApiKey.METADATA, 7)]


async def describe_cluster(admin: AsyncAdmin) -> object:
    return await admin.describe_cluster()


def test_an_api_that_the_node_lacks_is_one_sentence() -> None:
    def answer(key: int, version: int, correlation_id: int, port: int) -> bytes:
        return response_frame(versions(ErrorCode.NONE, (ApiKey.API_VERSIONS, 0, 4)), version, correlation_id)

    with pytest.raises(UnsupportedError, match="does not offer DescribeCluster"):
        ask(answer, describe_cluster)


@pytest.mark.parametrize(
    "garbage",
    [
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        struct.pack(">ii", 4, 77),
        struct.pack(">iih", 6, 0, 0),
        struct.pack(">iihI", 10, 0, 0, 2**31),
        struct.pack(">i", -1),
    ],
)
def test_what_is_no_kafka_node_is_one_error(garbage: bytes) -> None:
    with pytest.raises(NotReachedError):
        ask(lambda _key, _version, _correlation_id, _port: garbage, AsyncAdmin.connect)


async def topics_by_id(admin: AsyncAdmin) -> object:
    return await admin.describe_topics_by_id(["lVCKPia3QaybVbQxCQec5w"])


async def delete_by_id(admin: AsyncAdmin) -> object:
    return await admin.delete_topics_by_id(["lVCKPia3QaybVbQxCQec5w"])


async def largest_timestamp(admin: AsyncAdmin) -> object:
    return await admin.list_offset("old", 0, OffsetSpec.MAX_TIMESTAMP)


async def groups_by_state(admin: AsyncAdmin) -> object:
    return await admin.list_groups(states=[GroupState.EMPTY])


async def config_resources(admin: AsyncAdmin) -> object:
    return await admin.list_config_resources([ResourceKind.GROUP])


@pytest.mark.parametrize("work", [topics_by_id, delete_by_id, largest_timestamp, groups_by_state, config_resources])
def test_what_the_node_is_too_old_for_is_said_and_not_asked(work: Callable[[AsyncAdmin], Awaitable[object]]) -> None:
    def answer(key: int, version: int, correlation_id: int, port: int) -> bytes:
        if key == ApiKey.METADATA:
            return response_frame(metadata(port), version, correlation_id)
        assert key == ApiKey.API_VERSIONS
        told = versions(
            ErrorCode.NONE,
            (ApiKey.API_VERSIONS, 0, 4),
            (ApiKey.METADATA, 0, 9),
            (ApiKey.DELETE_TOPICS, 0, 5),
            (ApiKey.LIST_OFFSETS, 0, 6),
            (ApiKey.LIST_GROUPS, 0, 3),
            (ApiKey.LIST_CONFIG_RESOURCES, 0, 0),
        )
        return response_frame(told, version, correlation_id)

    with pytest.raises(UnsupportedError, match="too old"):
        ask(answer, work)


def test_a_change_without_an_answer_is_not_made_twice() -> None:
    asked: list[int] = []

    def answer(key: int, version: int, correlation_id: int, port: int) -> bytes:
        asked.append(key)
        if key == ApiKey.METADATA:
            return response_frame(metadata(port), version, correlation_id)
        if key == ApiKey.CREATE_TOPICS:
            return struct.pack(">i", -1)
        told = versions(
            ErrorCode.NONE, (ApiKey.API_VERSIONS, 0, 4), (ApiKey.METADATA, 0, 9), (ApiKey.CREATE_TOPICS, 0, 7)
        )
        return response_frame(told, version, correlation_id)

    async def work(admin: AsyncAdmin) -> object:
        return await admin.create_topics([NewTopic("orders")])

    with pytest.raises(NotReachedError):
        ask(answer, work)
    assert asked.count(ApiKey.CREATE_TOPICS) == 1


def test_a_question_without_an_answer_is_asked_again_until_the_time_is_over() -> None:
    asked: list[int] = []

    def answer(key: int, version: int, correlation_id: int, port: int) -> bytes:
        asked.append(key)
        if key == ApiKey.METADATA:
            return response_frame(metadata(port), version, correlation_id)
        if key == ApiKey.DESCRIBE_CONFIGS:
            return struct.pack(">i", -1)
        told = versions(
            ErrorCode.NONE, (ApiKey.API_VERSIONS, 0, 4), (ApiKey.METADATA, 0, 9), (ApiKey.DESCRIBE_CONFIGS, 0, 4)
        )
        return response_frame(told, version, correlation_id)

    resource = ConfigResource(ResourceKind.BROKER, "1")

    async def work(admin: AsyncAdmin) -> object:
        return (await admin.describe_configs([resource]))[resource]

    assert isinstance(ask(answer, work), NotReachedError)
    assert asked.count(ApiKey.DESCRIBE_CONFIGS) > 1


def test_a_leader_that_has_moved_is_looked_for_again() -> None:
    asked: list[int] = []

    def answer(key: int, version: int, correlation_id: int, port: int) -> bytes:
        asked.append(key)
        if key == ApiKey.METADATA:
            return response_frame(metadata(port), version, correlation_id)
        if key == ApiKey.LIST_OFFSETS:
            code = ErrorCode.NOT_LEADER_OR_FOLLOWER if asked.count(key) == 1 else ErrorCode.NONE
            partition = ListOffsetsPartitionResponse(partition_index=0, error_code=code, offset=7)
            topic = ListOffsetsTopicResponse(name="old", partitions=[partition])
            return response_frame(ListOffsetsResponse(throttle_time_ms=0, topics=[topic]), version, correlation_id)
        told = versions(
            ErrorCode.NONE, (ApiKey.API_VERSIONS, 0, 4), (ApiKey.METADATA, 0, 9), (ApiKey.LIST_OFFSETS, 0, 6)
        )
        return response_frame(told, version, correlation_id)

    async def work(admin: AsyncAdmin) -> object:
        return (await admin.list_offset("old", 0)).offset

    assert ask(answer, work) == 7
    assert [key for key in asked if key != ApiKey.API_VERSIONS] == [ApiKey.METADATA, ApiKey.LIST_OFFSETS] * 2


def test_a_change_that_a_former_controller_refused_is_made_by_the_next() -> None:
    asked: list[int] = []

    def answer(key: int, version: int, correlation_id: int, port: int) -> bytes:
        asked.append(key)
        if key == ApiKey.METADATA:
            return response_frame(metadata(port), version, correlation_id)
        if key == ApiKey.CREATE_TOPICS:
            code = ErrorCode.NOT_CONTROLLER if asked.count(key) == 1 else ErrorCode.NONE
            topic = CreatableTopicResult(
                name="orders", topic_id=bytes(16), error_code=code, error_message=None, configs=[]
            )
            return response_frame(CreateTopicsResponse(throttle_time_ms=0, topics=[topic]), version, correlation_id)
        told = versions(
            ErrorCode.NONE, (ApiKey.API_VERSIONS, 0, 4), (ApiKey.METADATA, 0, 9), (ApiKey.CREATE_TOPICS, 0, 5)
        )
        return response_frame(told, version, correlation_id)

    async def work(admin: AsyncAdmin) -> object:
        return (await admin.create_topic("orders")).name

    assert ask(answer, work) == "orders"
    assert asked.count(ApiKey.CREATE_TOPICS) == 2
    assert asked.count(ApiKey.METADATA) == 2
