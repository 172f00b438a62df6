"""Callers that are somebody, without authentication: whoever comes by a listener is the principal it stands for."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pytest

from tests.support.access_table import ADMIN, ALICE, BROKER, CONTROLLER
from tests.support.raw_client import RawClient
from tests.support.running_node import RunningNode
from tidelog.model.authorizer_config import STANDARD_AUTHORIZER
from tidelog.model.principal import Principal
from tidelog.net.connection import Connection, FrameHandler
from tidelog.net.socket_server import SocketServer
from tidelog.wire.apis import api
from tidelog.wire.schema import Request, Response

# By listener: who comes there.
LISTENERS = {
    "ADMIN": (ADMIN, BROKER),
    "ALICE": (ALICE, BROKER),
    "CONTROLLER": (ADMIN, CONTROLLER),
    "ALICECONTROLLER": (ALICE, CONTROLLER),
}


class NamedPeers:
    """A frame handler that says who is at the other end, and has another one do the rest."""

    def __init__(self, handler: FrameHandler, user: str) -> None:
        self._handler = handler
        self._user = user
        self.frame = handler.frame
        self.frames_done = handler.frames_done
        self.connection_closed = handler.connection_closed

    def connection_opened(self, connection: Connection) -> None:
        connection.principal = Principal("User", self._user)
        self._handler.connection_opened(connection)


def name_peers(monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on nodes of this process take whoever comes by one of `LISTENERS` for its user."""
    listen = SocketServer.listen

    async def listen_by_name(
        server: SocketServer, name: str, host: str, port: int, handler: FrameHandler, **options: Any
    ) -> Any:
        known = LISTENERS.get(name)
        return await listen(server, name, host, port, NamedPeers(handler, known[0]) if known else handler, **options)

    monkeypatch.setattr(SocketServer, "listen", listen_by_name)


def guarded_settings(settings: Mapping[str, str] | None = None) -> dict[str, str]:
    """The configuration of a node with an authoriser and a listener for each user."""
    names = ",".join(name for name, (_, kind) in LISTENERS.items() if kind == CONTROLLER)
    return {
        "listeners": ",".join(f"{name}://127.0.0.1:0" for name in LISTENERS),
        "controller.listener.names": ",".join(sorted(names.split(","), key=len)),
        "listener.security.protocol.map": ",".join(f"{name}:PLAINTEXT" for name in LISTENERS),
        "authorizer.class.name": STANDARD_AUTHORIZER,
        "super.users": "User:admin",
        "offsets.topic.num.partitions": "1",
        "transaction.state.log.num.partitions": "1",
        "offsets.topic.replication.factor": "1",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        **(settings or {}),
    }


class GuardedNode:
    """A node with ACLs, and a connection for each user and kind of listener. `name_peers` first."""

    def __init__(self, directory: Path, settings: Mapping[str, str] | None = None) -> None:
        self.running = RunningNode(directory, settings=guarded_settings(settings))
        self._clients: dict[tuple[str, str], RawClient] = {}

    def __enter__(self) -> Self:
        self.running.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for client in self._clients.values():
            client.__exit__(kind, error, trace)
        self.running.__exit__(kind, error, trace)

    def client(self, user: str, listener: str) -> RawClient:
        """That user's connection, opened when it is first asked for."""
        if (user, listener) not in self._clients:
            self._clients[user, listener] = self.new_client(user, listener)
        return self._clients[user, listener]

    def new_client(self, user: str, listener: str) -> RawClient:
        name = next(name for name, known in LISTENERS.items() if known == (user, listener))
        endpoint = self.running.node.endpoint(name)
        return RawClient(f"127.0.0.1:{endpoint.port}")

    def ask(self, user: str, listener: str, request: Request, version: int) -> Response:
        answer: type[Response] = api(request.api_key).response
        return self.client(user, listener).call(request, answer, version)
