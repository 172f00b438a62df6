"""The link to a cluster, in front of nodes that are old, or none at all."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Awaitable, Callable
from random import Random

import pytest

from tidelog.client.cluster_link import ClusterLink
from tidelog.client.errors import ClientError, NotReachedError, UnsupportedError
from tidelog.model.errors import ErrorCode
from tidelog.net.address import Address
from tidelog.net.transport import LoopTransport
from tidelog.wire.apis import ApiKey
from tidelog.wire.frames import response_frame
from tidelog.wire.messages.api_versions import ApiVersion, ApiVersionsResponse
from tidelog.wire.messages.cluster import DescribeClusterRequest, DescribeClusterResponse
from tidelog.wire.messages.metadata import MetadataRequest, MetadataResponse

Answer = Callable[[int, int, int], bytes]


def versions(error: ErrorCode, *keys: tuple[ApiKey, int, int]) -> ApiVersionsResponse:
    rows = [ApiVersion(api_key=key, min_version=lowest, max_version=highest) for key, lowest, highest in keys]
    return ApiVersionsResponse(error_code=error, api_keys=rows, throttle_time_ms=0)


def ask(answer: Answer, work: Callable[[ClusterLink], Awaitable[object]]) -> object:
    """What `work` gets from a node that answers each request (its key, version and correlation id) with `answer`."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                (size,) = struct.unpack(">i", await reader.readexactly(4))
                frame = await reader.readexactly(size)
                writer.write(answer(*struct.unpack_from(">hhi", frame)))
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    async def session() -> object:
        loop = asyncio.get_running_loop()
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        address = Address(*server.sockets[0].getsockname())
        try:
            async with ClusterLink(loop, LoopTransport(loop), Random(1), [address], request_timeout_ms=5000) as link:
                return await work(link)
        finally:
            server.close()

    return asyncio.run(session())


def test_an_old_node_is_asked_again_in_the_version_it_names() -> None:
    asked: list[tuple[int, int]] = []

    def answer(key: int, version: int, correlation_id: int) -> bytes:
        asked.append((key, version))
        if key == ApiKey.METADATA:
            metadata = MetadataResponse(
                throttle_time_ms=0, brokers=[], cluster_id="old", controller_id=1, topics=[], error_code=0
            )
            return response_frame(metadata, version, correlation_id)
        if version > 2:
            told = versions(ErrorCode.UNSUPPORTED_VERSION, (ApiKey.API_VERSIONS, 0, 2))
            return response_frame(told, 0, correlation_id)
        told = versions(ErrorCode.NONE, (ApiKey.API_VERSIONS, 0, 2), (ApiKey.METADATA, 0, 7))
        return response_frame(told, version, correlation_id)

    async def work(link: ClusterLink) -> object:
        request = MetadataRequest(topics=[], allow_auto_topic_creation=False, include_topic_authorized_operations=False)
        return (await link.ask(request, MetadataResponse)).cluster_id

    assert ask(answer, work) == "old"
    assert asked == [(ApiKey.API_VERSIONS, 4), (ApiKey.API_VERSIONS, 2), (ApiKey.METADATA, 7)]


def test_an_api_that_the_node_lacks_is_one_sentence() -> None:
    def answer(key: int, version: int, correlation_id: int) -> bytes:
        return response_frame(versions(ErrorCode.NONE, (ApiKey.API_VERSIONS, 0, 4)), version, correlation_id)

    async def work(link: ClusterLink) -> object:
        request = DescribeClusterRequest(include_cluster_authorized_operations=False, include_fenced_brokers=False)
        return await link.ask(request, DescribeClusterResponse)

    with pytest.raises(UnsupportedError, match="does not offer DescribeCluster"):
        ask(answer, work)


async def greet(link: ClusterLink) -> object:
    request = MetadataRequest(topics=[], allow_auto_topic_creation=False, include_topic_authorized_operations=False)
    return await link.ask(request, MetadataResponse)


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
        ask(lambda _key, _version, _correlation_id: garbage, greet)


def test_a_value_that_no_request_can_hold_is_one_error() -> None:
    def answer(key: int, version: int, correlation_id: int) -> bytes:
        told = versions(ErrorCode.NONE, (ApiKey.API_VERSIONS, 0, 4), (ApiKey.DESCRIBE_CLUSTER, 0, 0))
        return response_frame(told, version, correlation_id)

    async def work(link: ClusterLink) -> object:
        # Version 0 cannot say it.
        request = DescribeClusterRequest(include_cluster_authorized_operations=False, include_fenced_brokers=True)
        return await link.ask(request, DescribeClusterResponse)

    with pytest.raises(ClientError, match="cannot be sent"):
        ask(answer, work)
