"""What nodes tell over HTTP: one answer of JSON (`/log`), or lines that go on (`/trace`). Bounded, whatever a node sends.

pages = NodePages({1: "http://127.0.0.1:39041"})
pages.log(1, topic, partition, offset)                      a dict, or a sentence why not
listener = pages.listen(1, {"group": "g"}, deliver)         a thread of its own, until `close`
"""

from __future__ import annotations

import http.client
import socket
import ssl
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any
from urllib.parse import urlencode, urlsplit

import msgspec

ANSWER_BYTES_MAX = 4 * 1024 * 1024
LINE_BYTES_MAX = 64 * 1024
_ANSWER_S = 10.0
# A node says every 5 seconds that it is there.
_SILENCE_S = 16.0
# The thread ends with the process in any case.
_CLOSE_S = 2.0

Deliver = Callable[[Mapping[str, Any] | str], None]
"""Takes a line, or the sentence with which it ends."""


class Listener:
    """One stream of one node. `deliver` is called on its thread."""

    def __init__(self, pages: NodePages, node: int, query: Mapping[str, str], deliver: Deliver) -> None:
        self.is_open = threading.Event()
        """Set once the first line is there, or none will be."""
        self._pages = pages
        self._node = node
        self._query = query
        self._deliver = deliver
        # A response takes the socket away from its connection.
        self._socket: socket.socket | None = None
        self._is_closed = False
        self._thread = threading.Thread(target=self._run, name=f"xray of node {node}", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._is_closed = True
        if self._socket is not None:
            with suppress(OSError):
                # Whoever reads from it in the other thread is woken.
                self._socket.shutdown(socket.SHUT_RDWR)
        self._thread.join(_CLOSE_S)

    def _run(self) -> None:
        try:
            self._deliver(self._read())
        except (OSError, http.client.HTTPException, ValueError) as error:
            if not self._is_closed:
                self._deliver(f"node {self._node} tells nothing more: {_reason(error)}")
        finally:
            self.is_open.set()

    def _read(self) -> str:
        connection = self._pages.connect(self._node, _SILENCE_S)
        try:
            connection.connect()
            self._socket = connection.sock
            response = self._pages.ask(connection, self._node, "/trace", self._query)
            if response.status != http.HTTPStatus.OK:
                return _sentence(response)
            while not self._is_closed and (line := response.readline(LINE_BYTES_MAX + 1)):
                if len(line) > LINE_BYTES_MAX:
                    return f"node {self._node} has sent a line of more than {LINE_BYTES_MAX} bytes"
                decoded = msgspec.json.decode(line)
                if isinstance(decoded, dict):
                    self._deliver(decoded)
                    self.is_open.set()
        finally:
            connection.close()
        return f"node {self._node} has ended its stream"


class NodePages:
    """The ports of nodes, by their ids."""

    def __init__(self, urls: Mapping[int, str], token: str | None = None, authorities: str | None = None) -> None:
        self.urls = dict(urls)
        self._token = token
        self._context: ssl.SSLContext | None = None
        self._authorities = authorities

    def log(self, node: int, topic: str, partition: int, offset: int) -> dict[str, Any] | str:
        """What `/log` of a node answers, or a sentence."""
        query = {"topic": topic, "partition": str(partition), "offset": str(offset)}
        try:
            connection = self.connect(node, _ANSWER_S)
            try:
                response = self.ask(connection, node, "/log", query)
                if response.status != http.HTTPStatus.OK:
                    return _sentence(response)
                body = response.read(ANSWER_BYTES_MAX + 1)
            finally:
                connection.close()
            found = msgspec.json.decode(body)
        except (OSError, http.client.HTTPException, ValueError) as error:
            return f"{self.urls[node]} does not answer: {_reason(error)}"
        return found if isinstance(found, dict) else f"{self.urls[node]} answers with what is no object"

    def listen(self, node: int, query: Mapping[str, str], deliver: Deliver) -> Listener:
        return Listener(self, node, query, deliver)

    def connect(self, node: int, timeout_s: float) -> http.client.HTTPConnection:
        parts = urlsplit(self.urls[node])
        host = parts.hostname or ""
        if parts.scheme == "https":
            if self._context is None:
                self._context = ssl.create_default_context(cafile=self._authorities)
            return http.client.HTTPSConnection(host, parts.port, timeout=timeout_s, context=self._context)
        return http.client.HTTPConnection(host, parts.port, timeout=timeout_s)

    def ask(
        self, connection: http.client.HTTPConnection, node: int, path: str, query: Mapping[str, str]
    ) -> http.client.HTTPResponse:
        headers = {}
        # Never in the clear: whoever listens on the way would have it.
        if self._token is not None and self.urls[node].startswith("https:"):
            headers["Authorization"] = f"Bearer {self._token}"
        connection.request("GET", f"{path}?{urlencode(query)}", headers=headers)
        return connection.getresponse()


def _sentence(response: http.client.HTTPResponse) -> str:
    text = response.read(1000).decode(errors="replace").strip()
    return text or f"it answers {response.status}"


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error) or type(error).__name__
