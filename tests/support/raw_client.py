"""A client with no opinion: one request down a blocking socket, one answer back, with our messages and any broker."""

from __future__ import annotations

import select
import socket
import ssl
import struct
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self, TypeVar

from tidelog.model.ids import ZERO_UUID
from tidelog.wire.apis import api
from tidelog.wire.codec import decode, decode_from, encode
from tidelog.wire.messages.headers import RequestHeader, ResponseHeader
from tidelog.wire.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from tidelog.wire.messages.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from tidelog.wire.schema import Request, Response

_R = TypeVar("_R", bound=Response)

PRODUCE_VERSION = 9


class Sent(NamedTuple):
    """A request that waits for its answer."""

    api_key: int
    version: int
    correlation_id: int


class RawClient:
    """A connection on which requests are answered one after another."""

    def __init__(self, bootstrap: str, truststore: Path | None = None) -> None:
        """With a trust store the connection is one of TLS."""
        host, port = bootstrap.rsplit(":", 1)
        self._socket = socket.create_connection((host, int(port)), 30)
        if truststore is not None:
            context = ssl.create_default_context(cafile=str(truststore))
            self._socket = context.wrap_socket(self._socket, server_hostname=host)
        self._correlation_id = 0

    def log_in(self, user: str, password: str) -> bool:
        """By PLAIN. Whether the node lets that user in."""
        handshake = SaslHandshakeRequest(mechanism="PLAIN")
        assert self.call(handshake, SaslHandshakeResponse, 1).error_code == 0
        token = f"\0{user}\0{password}".encode()
        return self.call(SaslAuthenticateRequest(auth_bytes=token), SaslAuthenticateResponse, 2).error_code == 0

    @property
    def certificate_serial(self) -> str:
        """Of what the node shows over TLS."""
        assert isinstance(self._socket, ssl.SSLSocket)
        return str((self._socket.getpeercert() or {})["serialNumber"])

    def call(self, request: Request, answer: type[_R], version: int) -> _R:
        return self.receive(self.send(request, version), answer)

    def send(self, request: Request, version: int) -> Sent:
        """A request whose answer is received later. Until then no other one is sent."""
        self._correlation_id += 1
        header = RequestHeader(
            request_api_key=request.api_key,
            request_api_version=version,
            correlation_id=self._correlation_id,
            client_id="raw",
        )
        is_flexible = version in type(request).flexible
        frame = encode(header, 2 if is_flexible else 1) + encode(request, version)
        self._socket.sendall(struct.pack(">i", len(frame)) + frame)
        return Sent(request.api_key, version, self._correlation_id)

    def receive(self, sent: Sent, answer: type[_R]) -> _R:
        received = self._receive(struct.unpack(">i", self._receive(4))[0])
        header_version = api(sent.api_key).response_header_version(sent.version)
        found, position = decode_from(ResponseHeader, header_version, received)
        assert found.correlation_id == sent.correlation_id
        return decode(answer, sent.version, received[position:])

    @property
    def has_answer(self) -> bool:
        """Whether something has arrived that nobody has received yet."""
        return bool(select.select([self._socket], [], [], 0)[0])

    def _receive(self, count: int) -> bytes:
        received = b""
        while len(received) < count:
            piece = self._socket.recv(count - len(received))
            if not piece:
                raise ConnectionError("the broker closed the connection")
            received += piece
        return received

    def produce(self, topic: str, partition: int, batch: bytes) -> tuple[int, int]:
        """Produces one batch as it is, and returns the error code and the base offset that the broker answered."""
        data = TopicProduceData(
            name=topic, topic_id=ZERO_UUID, partition_data=[PartitionProduceData(index=partition, records=batch)]
        )
        request = ProduceRequest(transactional_id=None, acks=-1, timeout_ms=30_000, topic_data=[data])
        answer = self.call(request, ProduceResponse, PRODUCE_VERSION).responses[0].partition_responses[0]
        return answer.error_code, answer.base_offset

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._socket.close()
