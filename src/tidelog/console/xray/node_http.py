"""What nodes tell over HTTP: one JSON answer (`/log`), or lines without end (`/trace`). Bounded, whatever a node sends.

    found = await access.json("http://127.0.0.1:9644", "/log", {"topic": "orders", "partition": "0", "offset": "42"})
    async for line in access.lines(url, "/trace", {...}): ...

The token and the authorities are the console's own; nothing of them is ever in an answer or an error.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlencode, urlsplit

import msgspec

ANSWER_BYTES_MAX = 4 * 1024 * 1024
LINE_BYTES_MAX = 64 * 1024
_HEAD_LINES_MAX = 100
_CONNECT_S = 3.0
_ANSWER_S = 5.0
# A node says every 5 seconds that it is there.
_SILENCE_S = 16.0


class NodeHttpError(Exception):
    """A node does not tell. `status` is None where nothing came back."""

    def __init__(self, sentence: str, status: int | None = None) -> None:
        super().__init__(sentence)
        self.status = status


class NodeHttp:
    def __init__(self, token: str | None = None, authorities: str | None = None) -> None:
        self._token = token
        self._authorities = authorities
        self._context: ssl.SSLContext | None = None

    async def json(self, url: str, path: str, query: Mapping[str, str]) -> Any:
        """NodeHttpError for anything but an answer of JSON with status 200."""
        try:
            async with asyncio.timeout(_ANSWER_S), self._asked(url, path, query) as (reader, status, headers):
                body = await _body(reader, headers)
        except TimeoutError:
            raise NodeHttpError(f"{url} did not answer in {_ANSWER_S:.0f} s") from None
        if status != 200:
            raise NodeHttpError(body.decode(errors="replace").strip()[:300] or f"status {status}", status)
        try:
            return msgspec.json.decode(body)
        except msgspec.DecodeError:
            raise NodeHttpError(f"{url} answers with what is no JSON", status) from None

    async def lines(self, url: str, path: str, query: Mapping[str, str]) -> AsyncIterator[bytes]:
        """Each line as it comes, until the node ends. NodeHttpError where it tells nothing, or nothing more."""
        async with self._asked(url, path, query) as (reader, status, headers):
            if status != 200:
                async with asyncio.timeout(_ANSWER_S):
                    body = await _body(reader, headers)
                raise NodeHttpError(body.decode(errors="replace").strip()[:300] or f"status {status}", status)
            pending = b""
            async for piece in _pieces(reader, headers):
                *lines, pending = (pending + piece).split(b"\n")
                for line in lines:
                    if line:
                        yield line
                if len(pending) > LINE_BYTES_MAX:
                    raise NodeHttpError(f"{url} sends a line of more than {LINE_BYTES_MAX} bytes")

    @asynccontextmanager
    async def _asked(
        self, url: str, path: str, query: Mapping[str, str]
    ) -> AsyncIterator[tuple[asyncio.StreamReader, int, dict[str, str]]]:
        parts = urlsplit(url)
        host, is_tls = parts.hostname or "", parts.scheme == "https"
        port = parts.port or (443 if is_tls else 80)
        try:
            async with asyncio.timeout(_CONNECT_S):
                reader, writer = await asyncio.open_connection(
                    host, port, limit=LINE_BYTES_MAX, ssl=self._tls() if is_tls else None
                )
        except (OSError, TimeoutError, ssl.SSLError) as error:
            reason = getattr(error, "strerror", None) or str(error) or "no answer"
            raise NodeHttpError(f"{url} is not reached: {reason}") from None
        try:
            shown = f"[{host}]" if ":" in host else host
            head = [f"GET {path}?{urlencode(query)} HTTP/1.1", f"Host: {shown}:{port}", "Connection: close"]
            # Never in the clear: whoever listens on the way would have it.
            if self._token is not None and is_tls:
                head.append(f"Authorization: Bearer {self._token}")
            writer.write("\r\n".join([*head, "", ""]).encode())
            async with asyncio.timeout(_ANSWER_S):
                await writer.drain()
                status, headers = await _head(reader, url)
            yield reader, status, headers
        except (OSError, asyncio.IncompleteReadError, ValueError, TimeoutError) as error:
            raise NodeHttpError(f"{url} has ended the answer: {type(error).__name__}") from None
        finally:
            writer.close()

    def _tls(self) -> ssl.SSLContext:
        if self._context is None:
            self._context = ssl.create_default_context(cafile=self._authorities)
        return self._context


async def _head(reader: asyncio.StreamReader, url: str) -> tuple[int, dict[str, str]]:
    words = (await reader.readline()).decode("latin-1").split(maxsplit=2)
    if len(words) < 2 or not words[0].startswith("HTTP/1.") or not words[1].isdigit():
        raise NodeHttpError(f"{url} speaks no HTTP")
    headers: dict[str, str] = {}
    for _ in range(_HEAD_LINES_MAX):
        line = (await reader.readline()).decode("latin-1").strip()
        if not line:
            return int(words[1]), headers
        name, _, value = line.partition(":")
        headers[name.lower()] = value.strip().lower()
    raise NodeHttpError(f"{url} sends more than {_HEAD_LINES_MAX} headers")


async def _body(reader: asyncio.StreamReader, headers: Mapping[str, str]) -> bytes:
    read = bytearray()
    async for piece in _pieces(reader, headers):
        read += piece
        if len(read) > ANSWER_BYTES_MAX:
            raise NodeHttpError(f"an answer of more than {ANSWER_BYTES_MAX} bytes")
    return bytes(read)


async def _pieces(reader: asyncio.StreamReader, headers: Mapping[str, str]) -> AsyncIterator[bytes]:
    if "chunked" in headers.get("transfer-encoding", ""):
        while True:
            async with asyncio.timeout(_SILENCE_S):
                size = int((await reader.readline()).split(b";")[0].strip() or b"0", 16)
                if size > ANSWER_BYTES_MAX:
                    raise NodeHttpError("a piece of an answer is too large")
                piece = await reader.readexactly(size + 2)
            if not size:
                return
            yield piece[:-2]
    length = headers.get("content-length")
    if length is not None:
        if not length.isdigit() or int(length) > ANSWER_BYTES_MAX:
            raise NodeHttpError("an answer is too large")
        yield await reader.readexactly(int(length))
        return
    while piece := await reader.read(LINE_BYTES_MAX):
        yield piece
