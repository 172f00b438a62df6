"""Holding, killing and starting nodes, where `tidelog up` has started this console: over the socket that it was given.

    play = await Play.open(fd)
    answer = await play.ask("hold", 2, seconds=30)      # {"nodes": [...], "error": None}

A node that is held is released when its time is over, when the window closes that held it, or when the console ends.
"""

from __future__ import annotations

import asyncio
import json
import socket
from typing import Any, Self

from tidelog.console.serving.api_error import ApiError
from tidelog.console.serving.sessions import Session

_ANSWER_S = 5.0


class Play:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._turn = asyncio.Lock()
        self._answers: asyncio.Queue[bytes] = asyncio.Queue()
        self._holders: dict[int, str] = {}
        """Whose session holds a node, by the session's token."""
        self._windows: dict[str, int] = {}
        """How many windows of a session watch a partition."""

    @classmethod
    async def open(cls, descriptor: int) -> Self:
        reader, writer = await asyncio.open_connection(sock=socket.socket(fileno=descriptor))
        return cls(reader, writer)

    async def ask(self, action: str, node: int | None = None, **more: Any) -> list[dict[str, Any]]:
        """The nodes as they are afterwards. ApiError where it cannot be done."""
        # One answer follows one request: nobody else asks in between.
        async with self._turn:
            try:
                while not self._answers.empty():
                    # To a question that nobody waits for any more.
                    self._answers.get_nowait()
                self._writer.write(json.dumps({"do": action, "node": node, **more}).encode() + b"\n")
                async with asyncio.timeout(_ANSWER_S):
                    await self._writer.drain()
                    line = await self._answers.get()
                answer = json.loads(line)
            except (OSError, TimeoutError, ValueError) as error:
                raise ApiError(504, "NETWORK_EXCEPTION", "`tidelog up` does not answer the console") from error
        if answer["error"] is not None:
            raise ApiError(409, "PLAY_REFUSED", answer["error"])
        nodes: list[dict[str, Any]] = answer["nodes"]
        return nodes

    def held_by(self, node: int, session: Session) -> None:
        self._holders[node] = session.csrf

    def window_opened(self, session: Session | None) -> None:
        if session is not None:
            self._windows[session.csrf] = self._windows.get(session.csrf, 0) + 1

    async def window_closed(self, session: Session | None) -> None:
        """Release what the last window of a session has held."""
        if session is None:
            return
        left = self._windows.get(session.csrf, 0) - 1
        if left > 0:
            self._windows[session.csrf] = left
            return
        self._windows.pop(session.csrf, None)
        for node in [each for each, holder in self._holders.items() if holder == session.csrf]:
            del self._holders[node]
            await self.ask("release", node)

    async def run(self) -> None:
        """Take answers, until whoever started the console is gone."""
        while line := await self._reader.readline():
            self._answers.put_nowait(line)

    def close(self) -> None:
        self._writer.close()
