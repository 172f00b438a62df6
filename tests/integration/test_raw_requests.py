"""Bytes that no client should send, over a raw socket: the connection is closed, nobody else notices, the node lives on."""

from __future__ import annotations

import logging
import socket
import struct
from collections.abc import Iterator, Sequence
from random import Random

import pytest

from tests.support.message_values import values_for
from tests.support.raw_client import PRODUCE_VERSION, RawClient
from tests.support.running_node import DEADLINE_S, RunningNode
from tidelog.broker.node.node import load_handlers
from tidelog.broker.requests.handling import HANDLERS
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import ZERO_UUID
from tidelog.wire.codec import decode, encode
from tidelog.wire.compression import Compression
from tidelog.wire.messages import all_messages
from tidelog.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from tidelog.wire.messages.headers import RequestHeader
from tidelog.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from tidelog.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tidelog.wire.messages.topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from tidelog.wire.records import Record, build_batch
from tidelog.wire.schema import Request, Response, Struct

REQUEST_BYTES_MAX = 300_000
API_VERSIONS = ApiVersionsRequest.api_key
METADATA = MetadataRequest.api_key
PRODUCE = ProduceRequest.api_key

NO_TOPICS = encode(MetadataRequest(topics=[], include_topic_authorized_operations=False), 12)
ORDERS = MetadataRequest(
    topics=[MetadataRequestTopic(name="orders", topic_id=ZERO_UUID)], include_topic_authorized_operations=False
)


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningNode]:
    settings = {"socket.request.max.bytes": str(REQUEST_BYTES_MAX)}
    with RunningNode(tmp_path_factory.mktemp("node"), settings=settings) as running:
        yield running


@pytest.fixture(scope="module")
def other(node: RunningNode) -> Iterator[RawClient]:
    """A client that behaves, on one connection for the whole module: it must never notice."""
    with RawClient(node.bootstrap) as client:
        create(client, "orders")
        yield client


def create(client: RawClient, name: str) -> None:
    """A topic of one partition, unless it is there."""
    topic = CreatableTopic(name=name, num_partitions=1, replication_factor=1, assignments=[], configs=[])
    client.call(CreateTopicsRequest(topics=[topic]), CreateTopicsResponse, 7)


def frame(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


def header(api_key: int, version: int, correlation_id: int = 7) -> bytes:
    """A request header of the second version, with no tagged fields."""
    return struct.pack(">hhi", api_key, version, correlation_id) + struct.pack(">h", 3) + b"raw" + b"\x00"


def everything_until_the_end(node: RunningNode, *sent: bytes, shut: bool = False) -> bytes:
    """What the node sends to a connection until it closes it."""
    host, _, port = node.bootstrap.rpartition(":")
    received = b""
    with socket.create_connection((host, int(port)), DEADLINE_S) as connection:
        try:
            for piece in sent:
                connection.sendall(piece)
            if shut:
                connection.shutdown(socket.SHUT_WR)
            while piece := connection.recv(65_536):
                received += piece
        except (ConnectionResetError, BrokenPipeError):
            pass
    return received


def serves(client: RawClient) -> None:
    """A client that was there before, and the node as a whole, are as they were."""
    answer = client.call(ORDERS, MetadataResponse, 8)
    assert [topic.error_code for topic in answer.topics] == [ErrorCode.NONE]


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param(b"GET / HTTP/1.1\r\nHost: tidelog\r\n\r\n", id="another protocol"),
        pytest.param(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x00" * 64, id="a TLS handshake"),
        pytest.param(struct.pack(">i", -1), id="a negative size"),
        pytest.param(struct.pack(">i", -(2**31)), id="the most negative size"),
        pytest.param(struct.pack(">i", 2**31 - 1), id="the largest size"),
        pytest.param(struct.pack(">i", REQUEST_BYTES_MAX + 1), id="one byte too many"),
        pytest.param(struct.pack(">i", 0), id="an empty frame"),
        pytest.param(frame(b"\x00"), id="half a key"),
        pytest.param(frame(struct.pack(">hh", METADATA, 9)), id="a header cut short"),
        pytest.param(frame(struct.pack(">hhi", METADATA, 9, 1) + b"\x7f\xff"), id="a client id cut short"),
        pytest.param(frame(header(9_999, 0)), id="an unknown API"),
        pytest.param(frame(header(-1, 0)), id="a negative API"),
        pytest.param(frame(header(METADATA, 99)), id="an unknown version"),
        pytest.param(frame(header(METADATA, -1)), id="a negative version"),
        pytest.param(frame(header(PRODUCE, 2)), id="a version that is no more"),
        pytest.param(frame(header(METADATA, 12)), id="a missing body"),
        pytest.param(frame(header(METADATA, 12) + b"\xff\xff\xff\xff\x0f"), id="four thousand million topics"),
        pytest.param(frame(header(METADATA, 12) + b"\xff" * 10), id="a varint without end"),
        pytest.param(frame(header(PRODUCE, 9) + b"\x00\xff\xff\x00"), id="a produce cut short"),
    ],
)
def test_garbage_closes_its_connection_and_no_other(node: RunningNode, other: RawClient, sent: bytes) -> None:
    assert everything_until_the_end(node, sent) == b""
    serves(other)


def test_garbage_takes_no_answer_from_the_requests_before_it(node: RunningNode, other: RawClient) -> None:
    asked = frame(header(METADATA, 12) + NO_TOPICS)

    received = everything_until_the_end(node, asked + asked + frame(header(9_999, 0)) + asked)

    (size,) = struct.unpack_from(">i", received)
    assert len(received) == 2 * (4 + size)
    serves(other)


def test_a_connection_may_end_in_the_middle_of_a_frame(node: RunningNode, other: RawClient) -> None:
    assert everything_until_the_end(node, struct.pack(">i", 1_000) + b"only this", shut=True) == b""
    serves(other)


def test_an_unknown_version_of_api_versions_is_answered_with_the_known_ones(node: RunningNode) -> None:
    """KIP-511: in version 0, with the range, so that a newer client can try again on the same connection."""
    host, _, port = node.bootstrap.rpartition(":")
    with socket.create_connection((host, int(port)), DEADLINE_S) as connection:
        connection.sendall(frame(header(API_VERSIONS, 99)))
        received = _answer(connection)
        assert received[:4] == struct.pack(">i", 7)
        answer = decode(ApiVersionsResponse, 0, received[4:])
        assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION
        (itself,) = [each for each in answer.api_keys if each.api_key == API_VERSIONS]
        assert (itself.min_version, itself.max_version) == (0, 4)
        body = encode(ApiVersionsRequest(client_software_name="raw", client_software_version="1"), itself.max_version)
        connection.sendall(frame(header(API_VERSIONS, itself.max_version) + body))
        again = decode(ApiVersionsResponse, itself.max_version, _answer(connection)[4:])
        assert again.error_code == ErrorCode.NONE


def test_a_frame_that_comes_byte_by_byte_is_a_frame(node: RunningNode) -> None:
    host, _, port = node.bootstrap.rpartition(":")
    with socket.create_connection((host, int(port)), DEADLINE_S) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in frame(header(METADATA, 12) + NO_TOPICS):
            connection.sendall(bytes([byte]))
        assert _answer(connection)[:4] == struct.pack(">i", 7)


def test_answers_come_in_the_order_of_the_requests(node: RunningNode, other: RawClient) -> None:
    """A slow one (acks=all, a topic to be created) holds back those behind it."""
    host, _, port = node.bootstrap.rpartition(":")
    requests = []
    for number in range(40):
        if number % 2:
            topic = CreatableTopic(
                name=f"in-order-{number}", num_partitions=1, replication_factor=1, assignments=[], configs=[]
            )
            body = encode(CreateTopicsRequest(topics=[topic]), 7)
            requests.append(frame(header(CreateTopicsRequest.api_key, 7, number) + body))
        else:
            requests.append(frame(header(METADATA, 12, number) + NO_TOPICS))
    with socket.create_connection((host, int(port)), DEADLINE_S) as connection:
        connection.sendall(b"".join(requests))
        assert [struct.unpack_from(">i", _answer(connection))[0] for _ in requests] == list(range(40))
    serves(other)


@pytest.mark.parametrize("seed", range(8))
def test_a_produce_request_with_changed_bytes_is_refused_or_stored_whole(
    node: RunningNode, other: RawClient, seed: int
) -> None:
    random = Random(seed)
    batch = build_batch([Record(0, 1_700_000_000_000, b"k", b"v" * 200, ())], codec=Compression.GZIP)
    for _ in range(25):
        damaged = bytearray(batch)
        for _ in range(random.randint(1, 4)):
            damaged[random.randrange(len(damaged))] = random.randrange(256)
        with RawClient(node.bootstrap) as client:
            code, offset = client.produce("orders", 0, bytes(damaged))
            assert (code == ErrorCode.NONE) == (offset >= 0)
    code, _ = other.produce("orders", 0, batch)
    assert code == ErrorCode.NONE
    serves(other)


@pytest.mark.parametrize("seed", range(8))
def test_a_frame_with_changed_bytes_never_disturbs_the_node(node: RunningNode, other: RawClient, seed: int) -> None:
    random = Random(seed)
    batch = build_batch([Record(0, 1_700_000_000_000, b"k", b"v" * 50, ())])
    bodies = [
        (METADATA, 12, encode(ORDERS, 12)),
        (PRODUCE, PRODUCE_VERSION, _produce_body(batch)),
    ]
    for _ in range(25):
        api_key, version, body = random.choice(bodies)
        damaged = bytearray(body)
        damaged[random.randrange(len(damaged))] = random.randrange(256)
        # Half-closed, so that a request that is valid after all ends as well.
        everything_until_the_end(node, frame(header(api_key, version) + bytes(damaged)), shut=True)
    serves(other)


def test_a_request_of_the_largest_size_is_taken(node: RunningNode, other: RawClient) -> None:
    value = Random(1).randbytes(REQUEST_BYTES_MAX - 1_000)
    code, _ = other.produce("orders", 0, build_batch([Record(0, 1_700_000_000_000, None, value, ())]))
    assert code == ErrorCode.NONE


def _produce_body(batch: bytes) -> bytes:
    data = TopicProduceData(
        name="orders", topic_id=ZERO_UUID, partition_data=[PartitionProduceData(index=0, records=batch)]
    )
    request = ProduceRequest(transactional_id=None, acks=-1, timeout_ms=1_000, topic_data=[data])
    return encode(request, PRODUCE_VERSION)


def _answer(connection: socket.socket) -> bytes:
    def receive(count: int) -> bytes:
        received = b""
        while len(received) < count:
            piece = connection.recv(count - len(received))
            assert piece, "the node closed the connection"
            received += piece
        return received

    return receive(struct.unpack(">i", receive(4))[0])


def _pairs() -> list[tuple[type[Request], int]]:
    load_handlers()
    requests = {message.api_key: message for message in all_messages() if issubclass(message, Request)}
    return [
        (requests[handler.key], version)
        for handler in HANDLERS.values()
        if "broker" in handler.listener_kinds
        for version in range(handler.lowest, handler.highest + 1)
    ]


def _tame(message: Struct, random: Random) -> None:
    """Of what was made up, some names and numbers that exist here, and nothing that asks the node to wait for long."""
    known: dict[str, Sequence[object]] = {
        "name": ("asked-about", "nowhere", ""),
        "topic": ("asked-about", "nowhere"),
        "partition": (0, 1, -1),
        "partition_index": (0, 1, -1),
        "index": (0, 1, -1),
        "num_partitions": (1, 2, -1, 0),
        "count": (1, 2, 0, -1),
        "timeout_ms": (0, 5_000),
        "max_wait_ms": (0, 1),
        "acks": (-1, 1, 2),
        "records": (None, b"", build_batch([Record(0, 1_700_000_000_000, b"k", b"v", ())])),
    }
    for name in message.__struct_fields__:
        value = getattr(message, name)
        if name in known and not isinstance(value, list):
            setattr(message, name, random.choice(known[name]))
        elif isinstance(value, Struct):
            _tame(value, random)
        elif isinstance(value, list):
            for each in value:
                if isinstance(each, Struct):
                    _tame(each, random)


@pytest.mark.parametrize(
    ("request_type", "version"), _pairs(), ids=lambda value: str(value) if isinstance(value, int) else value.__name__
)
def test_every_version_of_every_api_answers_whatever_values_it_is_asked_with(
    node: RunningNode,
    other: RawClient,
    caplog: pytest.LogCaptureFixture,
    request_type: type[Request],
    version: int,
) -> None:
    answers = {message.api_key: message for message in all_messages() if issubclass(message, Response)}
    random = Random(version)
    for seed in range(3):
        create(other, "asked-about")
        asked = values_for(request_type, version, seed)
        _tame(asked, random)
        with RawClient(node.bootstrap) as client:
            client.call(asked, answers[request_type.api_key], version)
    assert [record.message for record in caplog.records if record.levelno >= logging.ERROR] == []
    serves(other)


def test_the_header_written_here_is_the_one_that_the_codec_writes() -> None:
    written = RequestHeader(request_api_key=METADATA, request_api_version=12, correlation_id=7, client_id="raw")
    assert header(METADATA, 12) == encode(written, 2)
