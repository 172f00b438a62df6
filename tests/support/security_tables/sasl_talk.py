"""One connection on which a client proves who it is, byte by byte, and notes of what the broker said.

A note has no chance in it: nonces, salts and what follows from them are masked. A broker that says nothing is known by what it
says to the next request, and a closed connection by its end, so that nobody waits for a time.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import re
import socket
import struct
from collections.abc import Iterator
from contextlib import suppress
from types import TracebackType
from typing import Any, Self

from tests.support.recorded_answers import names_of
from tests.support.security_tables.secured_node import SCRAM_MECHANISMS
from tidelog.model.errors import ErrorCode
from tidelog.wire.apis import api
from tidelog.wire.frames import read_response, request_frame
from tidelog.wire.messages.api_versions import ApiVersionsRequest
from tidelog.wire.messages.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from tidelog.wire.schema import Request

DEADLINE_S = 10.0
CLIENT_NONCE = "rOprNGfwEbeRWgbNEkqO"
CLOSED = "closed"
_SECRETS = [
    (re.compile(re.escape(CLIENT_NONCE) + r"[^,]+"), f"{CLIENT_NONCE}<nonce>"),
    (re.compile(r"\bs=[^,]+"), "s=<salt>"),
    (re.compile(r"\bv=[A-Za-z0-9+/=]{20,}"), "v=<signature>"),
]


class SaslTalk:
    """What is sent is a request, or any bytes; what is answered is noted."""

    def __init__(self, address: str) -> None:
        host, port = address.rsplit(":", 1)
        self._socket = socket.create_connection((host, int(port)), DEADLINE_S)
        self._asked: dict[int, tuple[int, int]] = {}
        self._correlation_id = 0
        self.notes: list[str] = []

    # --- requests and answers ----------------------------------------------------------------------------------------------

    def frame(self, request: Request, version: int) -> bytes:
        """A request with its size; its answer will be known by its correlation id."""
        self._correlation_id += 1
        self._asked[self._correlation_id] = (type(request).api_key, version)
        return request_frame(request, version, self._correlation_id, "client")

    def send(self, data: bytes) -> None:
        # The end of the connection is noted where an answer is looked for.
        with suppress(BrokenPipeError, ConnectionResetError):
            self._socket.sendall(data)

    def sized(self, data: bytes) -> None:
        self.send(struct.pack(">i", len(data)) + data)

    def ask(self, request: Request, version: int) -> Any:
        self.send(self.frame(request, version))
        return self.answer()

    def received(self) -> bytes | None:
        """One frame without its size, or None at the end of the connection."""
        size = self._exactly(4)
        return None if size is None else self._exactly(struct.unpack(">i", size)[0])

    def _exactly(self, count: int) -> bytes | None:
        found = b""
        while len(found) < count:
            try:
                piece = self._socket.recv(count - len(found))
            except ConnectionResetError:
                piece = b""
            if not piece:
                return None
            found += piece
        return found

    def answer(self) -> Any:
        """The next answer, noted; None where the connection has ended."""
        frame = self.received()
        if frame is None:
            self.notes.append(CLOSED)
            return None
        key, version = self._asked[struct.unpack_from(">i", frame)[0]]
        response = self.read(frame)
        self.notes.append(f"{api(key).name} v{version}: {_shown(response)}")
        return response

    def read(self, frame: bytes) -> Any:
        """What is answered to one of the requests of this connection."""
        key, version = self._asked[struct.unpack_from(">i", frame)[0]]
        return read_response(frame, key, version)[1]

    def probe(self) -> None:
        """Whether there is still somebody, and whether ApiVersions may be asked now."""
        self.ask(ApiVersionsRequest(client_software_name="", client_software_version=""), 0)

    # --- SASL --------------------------------------------------------------------------------------------------------------

    def handshake(self, mechanism: str, version: int = 1) -> Any:
        return self.ask(SaslHandshakeRequest(mechanism=mechanism), version)

    def authenticate(self, token: bytes, version: int = 2) -> Any:
        return self.ask(SaslAuthenticateRequest(auth_bytes=token), version)

    def bare(self, token: bytes) -> bytes | None:
        """A token as after SaslHandshake v0, and its answer."""
        self.sized(token)
        found = self.received()
        self.notes.append(CLOSED if found is None else f"token {_masked(found)}")
        return found

    def plain(self, user: str, password: str, version: int = 2) -> Any:
        self.handshake("PLAIN")
        return self.authenticate(plain_token(user, password), version)

    def scram(self, mechanism: str, user: str, password: str, *, first: bytes | None = None) -> Any:
        """Both steps, with the right proof for that password."""
        self.handshake(mechanism)
        bare = f"n={user},r={CLIENT_NONCE}"
        told = self.authenticate(first or b"n,," + bare.encode())
        if told is None or told.error_code:
            return told
        return self.authenticate(scram_final(mechanism, bare, bytes(told.auth_bytes).decode(), password))

    def close(self) -> None:
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def plain_token(user: str, password: str, authzid: str = "") -> bytes:
    return f"{authzid}\0{user}\0{password}".encode()


def scram_final(
    mechanism: str,
    first_bare: str,
    server_first: str,
    password: str,
    *,
    channel: str = "biws",
    nonce: str | None = None,
) -> bytes:
    """The client's last message; with another channel binding or nonce where they are given."""
    digest = SCRAM_MECHANISMS[mechanism][1]
    said = dict(part.split("=", 1) for part in server_first.split(","))
    salted = hashlib.pbkdf2_hmac(digest, password.encode(), base64.b64decode(said["s"]), int(said["i"]))
    client_key = hmac.digest(salted, b"Client Key", digest)
    without_proof = f"c={channel},r={said['r'] if nonce is None else nonce}"
    signature = hmac.digest(
        hashlib.new(digest, client_key).digest(), f"{first_bare},{server_first},{without_proof}".encode(), digest
    )
    proof = bytes(one ^ other for one, other in zip(client_key, signature, strict=True))
    return f"{without_proof},p={base64.b64encode(proof).decode()}".encode()


def unsecured_token(claims: dict[str, Any]) -> str:
    """A bearer's token that nobody has signed."""

    def part(value: dict[str, Any]) -> str:
        return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()

    return f"{part({'alg': 'none'})}.{part(claims)}."


def _masked(token: bytes) -> str:
    text = token.decode("utf-8", "backslashreplace")
    for pattern, mask in _SECRETS:
        text = pattern.sub(mask, text)
    return repr(text)


def _shown(response: Any) -> str:
    if isinstance(response, SaslHandshakeResponse):
        return f"{ErrorCode.of(response.error_code).name} {sorted(response.mechanisms)}"
    if isinstance(response, SaslAuthenticateResponse):
        error, text = ErrorCode.of(response.error_code).name, response.error_message
        return f"{error} {text!r} {_masked(bytes(response.auth_bytes))} {response.session_lifetime_ms}"
    return " ".join(sorted(codes_of(response))) or "answered"


def codes_of(value: Any) -> Iterator[str]:
    """All error codes within an answer."""
    if isinstance(value, list):
        for each in value:
            yield from codes_of(each)
    for name in names_of(value):
        inner = getattr(value, name)
        if name.endswith("error_code"):
            yield ErrorCode.of(inner).name
        else:
            yield from codes_of(inner)
