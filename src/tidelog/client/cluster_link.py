"""Requests to a cluster: finds a node that answers, learns which versions each node speaks, and asks.

    async with ClusterLink(loop, transport, random, ["127.0.0.1:9092"]) as link:
        answer = await link.ask(MetadataRequest(...), MetadataResponse)
        answer = await link.ask(DescribeConfigsRequest(...), DescribeConfigsResponse, node_id=2)

One request at a time to a node is all that administration needs. Nothing is tried twice, except to reach a node at all: whether
a change that got no answer was made is for a person to find out.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from random import Random
from types import TracebackType
from typing import Self, TypeVar

from tidelog import __version__
from tidelog.client.errors import ClientError, NotReachedError, UnsupportedError, refusal
from tidelog.model.errors import ErrorCode
from tidelog.net.address import Address
from tidelog.net.errors import RequestFailedError
from tidelog.net.node_connection import NodeConnection
from tidelog.net.transport import Transport
from tidelog.wire.apis import ApiKey, api
from tidelog.wire.errors import WireError
from tidelog.wire.frames import SIZE_BYTES, read_response, request_frame
from tidelog.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from tidelog.wire.messages.metadata import MetadataRequest, MetadataResponse
from tidelog.wire.schema import Request, Response

CLIENT_ID = "tidelog-admin"
CONNECT_TIMEOUT_MS = 5_000
REQUEST_TIMEOUT_MS = 30_000
DEFAULT_PORT = 9092
_PORT_MAX = 65535

R = TypeVar("R", bound=Response)


def parse_bootstrap(text: str) -> list[Address]:
    """The nodes in `host:port,host:port`. ClientError for what is not that."""
    addresses = [_parse_address(each.strip()) for each in text.split(",") if each.strip()]
    if not addresses:
        raise ClientError("no node is named: expected host:port, as in 127.0.0.1:9092")
    return addresses


def _parse_address(text: str) -> Address:
    host, colon, port = text.rpartition(":")
    if not colon or (text.startswith("[") and text.endswith("]")):
        host, port = text, str(DEFAULT_PORT)
    bare = host.removeprefix("[").removesuffix("]")
    is_port = port.isascii() and port.isdigit() and len(port) <= 5 and 0 < int(port) <= _PORT_MAX
    if not bare or not is_port or (":" in bare and host == bare):
        raise ClientError(f"{text!r} is not the address of a node: expected host:port, as in 127.0.0.1:9092")
    return Address(bare, int(port))


class ClusterLink:
    """The connections of one client. Lives on one loop; `close` ends them all."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        transport: Transport,
        random: Random,
        bootstrap: Sequence[Address],
        *,
        request_timeout_ms: int = REQUEST_TIMEOUT_MS,
    ) -> None:
        self._loop = loop
        self._transport = transport
        self._random = random
        self._bootstrap = bootstrap
        self._request_timeout_ms = request_timeout_ms
        self._first: _NodeLink | None = None
        self._by_id: dict[int, _NodeLink] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        for link in (*self._by_id.values(), *filter(None, [self._first])):
            link.close()

    async def ask(
        self, request: Request | Callable[[int], Request], answer: type[R], *, node_id: int | None = None
    ) -> R:
        """The answer of any node, or of the one with this id. A request that depends on its version is given as a function.

        NotReachedError or UnsupportedError where there is no answer; errors inside of an answer are the caller's to read.
        """
        link = await (self._any() if node_id is None else self._node(node_id))
        return await link.ask(request, answer)

    async def _any(self) -> _NodeLink:
        if self._first is None:
            problems = []
            for address in self._bootstrap:
                link = self._link(address)
                try:
                    await link.greet()
                except NotReachedError as error:
                    link.close()
                    problems.append(str(error))
                    continue
                self._first = link
                break
            else:
                raise NotReachedError("; ".join(problems))
        return self._first

    async def _node(self, node_id: int) -> _NodeLink:
        known = self._by_id.get(node_id)
        if known is not None:
            return known
        request = MetadataRequest(topics=[], allow_auto_topic_creation=False, include_topic_authorized_operations=False)
        metadata = await self.ask(request, MetadataResponse)
        broker = next((each for each in metadata.brokers if each.node_id == node_id), None)
        if broker is None:
            raise ClientError(f"the cluster has no broker {node_id} at the moment")
        link = self._by_id[node_id] = self._link(Address(broker.host, broker.port))
        await link.greet()
        return link

    def _link(self, address: Address) -> _NodeLink:
        connection = NodeConnection(
            self._loop,
            self._transport,
            address.host,
            address.port,
            self._random,
            connect_timeout_ms=CONNECT_TIMEOUT_MS,
        )
        return _NodeLink(connection, self._request_timeout_ms)


class _NodeLink:
    """One node, and the versions that it speaks."""

    def __init__(self, connection: NodeConnection, request_timeout_ms: int) -> None:
        self._connection = connection
        self._request_timeout_ms = request_timeout_ms
        self._versions: Mapping[int, tuple[int, int]] = {}

    def close(self) -> None:
        self._connection.close()

    async def greet(self) -> None:
        """Ask for the versions, as every client does first."""
        highest = api(ApiKey.API_VERSIONS).versions.highest
        answer = await self._greet(highest)
        if answer.error_code == ErrorCode.UNSUPPORTED_VERSION:
            # A node older than this client names the versions of ApiVersions that it has (KIP-511).
            theirs = [each.max_version for each in answer.api_keys if each.api_key == ApiKey.API_VERSIONS]
            answer = await self._greet(min(highest, *theirs) if theirs else 0)
        if answer.error_code:
            raise refusal(answer.error_code, None, about=str(self._connection.address))
        self._versions = {each.api_key: (each.min_version, each.max_version) for each in answer.api_keys}

    async def _greet(self, version: int) -> ApiVersionsResponse:
        request = ApiVersionsRequest(client_software_name="tidelog", client_software_version=__version__)
        return await self._send(request, ApiVersionsResponse, version)

    async def ask(self, request: Request | Callable[[int], Request], answer: type[R]) -> R:
        version = self._version_of(answer.api_key)
        return await self._send(request if isinstance(request, Request) else request(version), answer, version)

    def _version_of(self, key: int) -> int:
        ours = api(key)
        lowest, highest = self._versions.get(key, (0, -1))
        version = min(highest, ours.stable_versions.highest)
        if version < max(lowest, ours.versions.lowest):
            raise UnsupportedError(f"{self._connection.address} does not offer {ours.name} in a version known here")
        return version

    async def _send(self, request: Request, answer: type[R], version: int) -> R:
        address = self._connection.address
        try:
            frame = request_frame(request, version, self._connection.next_correlation_id(), CLIENT_ID)[SIZE_BYTES:]
        except WireError as error:
            raise ClientError(f"the request cannot be sent: {error}") from error
        try:
            received = await self._connection.request([frame], timeout_ms=self._request_timeout_ms)
            _, response = read_response(received, answer.api_key, version)
        except RequestFailedError as error:
            raise NotReachedError(str(error)) from error
        except WireError as error:
            raise NotReachedError(f"{address} does not answer as a Kafka node would: {error}") from error
        assert isinstance(response, answer)
        return response
