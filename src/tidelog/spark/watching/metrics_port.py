"""Metrics of queries over HTTP, as a node shows its own: `/metrics`, on a thread of its own that nobody waits for."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from http import HTTPStatus
from typing import Self

from tidelog.client.background import Background
from tidelog.model.metrics import Family
from tidelog.model.metrics_text import CONTENT_TYPE, render
from tidelog.net.http_endpoint import HttpEndpoint, Page
from tidelog.net.transport import LoopTransport

DEFAULT_HOST = "127.0.0.1"


class MetricsPort:
    """An open port, until `close`. What is read at a request has to stand the reader's thread: frozen structs do."""

    def __init__(self, port: int, families: Callable[[], Iterable[Family]], *, host: str = DEFAULT_HOST) -> None:
        """Port 0 is any one. ListenError where it cannot be had."""
        self._background = Background.acquire()
        try:
            self._endpoint = self._background.call(self._open(host, port, families))
        except BaseException:
            self._background.release()
            raise

    @property
    def url(self) -> str:
        host, port = self._endpoint.address
        return f"http://{f'[{host}]' if ':' in host else host}:{port}/metrics"

    def close(self) -> None:
        self._background.call(self._close())
        self._background.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    async def _open(self, host: str, port: int, families: Callable[[], Iterable[Family]]) -> HttpEndpoint:
        loop = self._background.loop
        pages = {"/metrics": lambda _request: Page(HTTPStatus.OK, CONTENT_TYPE, render(families()))}
        return await HttpEndpoint.open(loop, LoopTransport(loop), host, port, pages)

    async def _close(self) -> None:
        self._endpoint.close()
