"""The same operations while somebody listens to their partition: all that is told is encoded, sent and read."""

from __future__ import annotations

import socket
import threading

from benchmarks.instructions.operations import Fetch, Operation, Produce, SessionFetch

_TIMEOUT_S = 300.0


class Listened(Operation):
    """With one listener of the topic's partition, which reads whatever comes."""

    is_watched = True

    def prepare(self, times: int) -> None:
        super().prepare(times)  # type: ignore[safe-super]  # of the operation it is mixed with
        (topic,) = self.setting.topics
        listener = socket.create_connection(("127.0.0.1", self.setting.node.http_port), _TIMEOUT_S)
        path = f"/trace?topic={topic}&partition=0"
        listener.sendall(f"GET {path} HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n".encode())
        head = b""
        while b'"hello"' not in head:
            piece = listener.recv(4096)
            if not piece or not head.startswith(b"HTTP/1.1 200"[: len(head)]):
                raise RuntimeError(f"nobody may listen: {head!r}")
            head += piece
        threading.Thread(target=_read_on, args=(listener,), daemon=True).start()


def _read_on(listener: socket.socket) -> None:
    while listener.recv(1 << 16):
        pass


class ProduceListened(Listened, Produce):
    name = "produce, 1 listener"
    without = "produce"


class FetchListened(Listened, Fetch):
    name = "fetch without a session, 1 listener"
    without = "fetch"


class SessionFetchListened(Listened, SessionFetch):
    name = "fetch in a session of 1 partition, 1 listener"
    without = "fetch-session"


TRACED: dict[str, type[Operation]] = {
    "produce-listened": ProduceListened,
    "fetch-listened": FetchListened,
    "fetch-session-listened": SessionFetchListened,
}
