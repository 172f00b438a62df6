"""A console in a thread of the test's process, and a browser's part of the talk with it over real HTTP."""

from __future__ import annotations

import asyncio
import http.client
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, Self
from urllib.parse import quote

from tidelog.console.options import ClusterOptions, ConsoleOptions
from tidelog.console.server import listen, serve

_TIMEOUT_S = 30.0


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Browser:
    """One session with a console: it keeps its cookie and its token."""

    def __init__(self, port: int, cluster: str = "cluster") -> None:
        self.port = port
        self.cluster = cluster
        self.headers: dict[str, str] = {}

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> Answer:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=_TIMEOUT_S)
        try:
            sent = None if body is None else json.dumps(body).encode()
            connection.request(method, path, sent, {**self.headers, **headers})
            response = connection.getresponse()
            answer = Answer(response.status, {k.lower(): v for k, v in response.getheaders()}, response.read())
        finally:
            connection.close()
        cookie = answer.headers.get("set-cookie")
        if cookie is not None:
            self.headers["Cookie"] = cookie.partition(";")[0]
            self.headers["X-Tidelog-Console"] = answer.json["csrf"]
        return answer

    def begin(self) -> Self:
        """Get a session, as the page does first of all."""
        assert self.ask("GET", "/api/session").status == 200
        return self

    def log_in(self, user: str, password: str, mechanism: str = "SCRAM-SHA-256") -> Answer:
        given = {"mechanism": mechanism, "username": user, "password": password}
        return self.ask("POST", f"/api/session/{self.cluster}/login", given)

    def get(self, path: str) -> Any:
        """The JSON of an answer that went well."""
        answer = self.ask("GET", f"/api/c/{self.cluster}{path}")
        assert answer.status == 200, answer
        return answer.json

    def change(self, method: str, path: str, body: Any = None) -> Any:
        answer = self.ask(method, f"/api/c/{self.cluster}{path}", body)
        assert answer.status == 200, answer
        return answer.json

    def refused(self, path: str, body: Any = None, method: str = "") -> tuple[int, str]:
        """Status and code of an answer that did not."""
        answer = self.ask(method or ("GET" if body is None else "POST"), f"/api/c/{self.cluster}{path}", body)
        error = answer.json["error"]
        assert error["message"]
        return answer.status, error["code"]

    @contextmanager
    def events(self, path: str) -> Iterator[Iterator[tuple[str, Any]]]:
        """Server-sent events, each its name and its JSON; the stream is left at the end of the `with`."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=_TIMEOUT_S)
        try:
            connection.request("GET", f"/api/c/{self.cluster}{path}", headers=self.headers)
            response = connection.getresponse()
            assert response.status == 200, response.read()
            assert response.headers["content-type"].startswith("text/event-stream")
            yield _events(response)
        finally:
            connection.close()


def _events(response: http.client.HTTPResponse) -> Iterator[tuple[str, Any]]:
    name = ""
    for line in response:
        text = line.decode().rstrip("\n")
        if text.startswith("event: "):
            name = text.removeprefix("event: ")
        elif text.startswith("data: "):
            yield name, json.loads(text.removeprefix("data: "))


@contextmanager
def running_console(*clusters: ClusterOptions, **options: Any) -> Iterator[Browser]:
    """A console for some clusters, on any port, and a browser that looks at the first of them."""
    started = threading.Event()
    ends: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []
    listening = listen("127.0.0.1", 0)

    async def run() -> None:
        ended = asyncio.Event()
        ends.append((asyncio.get_running_loop(), ended))
        started.set()
        await serve(ConsoleOptions(clusters, **options), listening, ended)

    thread = threading.Thread(target=lambda: asyncio.run(run()), name="console")
    with listening:
        thread.start()
        assert started.wait(_TIMEOUT_S)
        try:
            yield Browser(listening.getsockname()[1], clusters[0].name)
        finally:
            loop, ended = ends[0]
            loop.call_soon_threadsafe(ended.set)
            thread.join(_TIMEOUT_S)
            assert not thread.is_alive(), "the console does not end"


def path_of(name: str) -> str:
    """A name as a part of a path."""
    return quote(name, safe="")
