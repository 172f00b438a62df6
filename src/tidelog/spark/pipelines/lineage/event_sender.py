"""Events on their way to a collector or a file, on a thread of their own: no batch ever waits for them.

What does not find room is dropped and counted, and the log says so once until something arrives again.
"""

from __future__ import annotations

import json
import logging
import os
import queue
import ssl
import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import unquote, urlsplit

from tidelog.spark.pipelines.errors import PipelineError

log = logging.getLogger(__name__)

# An event a minute and query, and three more: hours of a collector that is down.
EVENTS_MAX = 1_000
# An end of a run is worth a short wait, and a collector that hangs none.
CLOSE_PATIENCE_S = 5.0
ATTEMPTS_MAX = 3
_CONNECT_TIMEOUT_S = 3.0
_ANSWER_TIMEOUT_S = 5.0
_BACKOFF_S = 0.5
_DEFAULT_PATH = "/api/v1/lineage"
_SERVER_ERROR, _TOO_MANY = 500, 429


class LineageError(PipelineError):
    """A place that no events can go to."""


class Transport(Protocol):
    """Where events go. OSError where one does not arrive, and may later."""

    def send(self, event: bytes) -> None: ...


class EventRefusedError(Exception):
    """The collector has the event, and does not want it: no other try changes that."""


class EventFile:
    """A line of JSON for each event, added to what is there."""

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            path.open("ab").close()
        except OSError as error:
            raise LineageError(f"{path} cannot hold events of lineage: {error.strerror or error}") from error

    def send(self, event: bytes) -> None:
        with self._path.open("ab") as file:
            file.write(event + b"\n")


class Collector:
    """A server that takes OpenLineage's events, such as Marquez."""

    def __init__(self, url: str, api_key: str | None = None) -> None:
        parts = urlsplit(url)
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise LineageError(f"{url!r} is no place for events of lineage: expected http://HOST:PORT or a file")
        if parts.username is not None:
            raise LineageError("the place for events of lineage must hold no password: OPENLINEAGE_API_KEY has the key")
        path = _DEFAULT_PATH if parts.path in {"", "/"} else parts.path
        self._url = parts._replace(path=path).geturl()
        self._headers = {"Content-Type": "application/json"}
        if api_key:
            self._headers["Authorization"] = f"Bearer {api_key}"

    def send(self, event: bytes) -> None:
        # Loads http.client and ssl: only for those who have a collector.
        from http.client import HTTPException  # noqa: PLC0415
        from urllib.error import HTTPError  # noqa: PLC0415
        from urllib.request import Request  # noqa: PLC0415

        from tidelog.security.http_post import opener  # noqa: PLC0415

        request = Request(self._url, event, self._headers, method="POST")  # noqa: S310 - the scheme was checked
        context = ssl.create_default_context() if self._url.startswith("https:") else None
        try:
            opener(context, _ANSWER_TIMEOUT_S).open(request, timeout=_CONNECT_TIMEOUT_S).close()
        except HTTPError as error:
            error.close()
            if error.code < _SERVER_ERROR and error.code != _TOO_MANY:
                raise EventRefusedError(f"it answers with status {error.code}") from error
            raise
        except HTTPException as error:
            raise OSError(str(error) or type(error).__name__) from error


def transport_to(place: str, environment: Mapping[str, str] = os.environ) -> Transport:
    """A collector's URL, or a file by its path or as file:///PATH. LineageError."""
    scheme = urlsplit(place).scheme
    if scheme == "file":
        return EventFile(Path(unquote(urlsplit(place).path)))
    if "://" not in place:
        return EventFile(Path(place).absolute())
    return Collector(place, environment.get("OPENLINEAGE_API_KEY"))


class EventSender:
    """Close it to have what is left sent, for a while."""

    def __init__(self, transport: Transport, *, close_patience_s: float = CLOSE_PATIENCE_S) -> None:
        self.dropped = 0
        self._transport = transport
        self._patience_s = close_patience_s
        self._waiting: queue.Queue[bytes | None] = queue.Queue(EVENTS_MAX)
        self._closing = threading.Event()
        self._has_complained = False
        # Of no importance to the end of the process.
        self._thread = threading.Thread(target=self._run, name="tidelog-lineage", daemon=True)
        self._thread.start()

    def send(self, event: Mapping[str, Any]) -> None:
        """Later, or never. Does not wait."""
        try:
            self._waiting.put_nowait(json.dumps(event, separators=(",", ":")).encode())
        except queue.Full:
            self._drop("it is too slow")

    def close(self) -> None:
        self._closing.set()
        # Where there is no room for it, the thread sees `_closing` behind the last event.
        with suppress(queue.Full):
            self._waiting.put_nowait(None)
        self._thread.join(self._patience_s)
        left = self._waiting.qsize()
        if self._thread.is_alive() and left:
            log.warning("%d events of lineage were not sent: %s is too slow", left, self._where)

    def _run(self) -> None:
        while (event := self._waiting.get()) is not None:
            self._deliver(event)
            if self._closing.is_set() and self._waiting.empty():
                return

    def _deliver(self, event: bytes) -> None:
        for attempt in range(1, ATTEMPTS_MAX + 1):
            try:
                self._transport.send(event)
            except EventRefusedError as error:
                return self._drop(str(error))
            except OSError as error:
                if attempt == ATTEMPTS_MAX:
                    return self._drop(str(getattr(error, "reason", None) or error.strerror or error))
                # An end that is asked for does not wait for another try.
                self._closing.wait(_BACKOFF_S * attempt)
            else:
                self._has_complained = False
                return None
        return None

    def _drop(self, why: str) -> None:
        self.dropped += 1
        if not self._has_complained:
            self._has_complained = True
            log.warning("events of lineage are lost, since %s does not take them: %s", self._where, why)

    @property
    def _where(self) -> str:
        return "their file" if isinstance(self._transport, EventFile) else "their collector"
