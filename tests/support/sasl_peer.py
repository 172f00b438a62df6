"""One connection to a SASL listener, as bytes."""

from __future__ import annotations

import socket
import ssl
import struct
from pathlib import Path
from typing import Self

from tests.support.running_node import DEADLINE_S, RunningNode
from tests.support.sasl_node import sasl_bootstrap


class Peer:
    """Frames out, answers back."""

    def __init__(self, node: RunningNode) -> None:
        host, _, port = sasl_bootstrap(node).rpartition(":")
        self.socket = socket.create_connection((host, int(port)), DEADLINE_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send(self, *frames: bytes) -> None:
        self.socket.sendall(b"".join(struct.pack(">i", len(each)) + each for each in frames))

    def answer(self) -> bytes | None:
        """The next answer; None at the end of the connection."""
        size = self._exactly(4)
        return None if size is None else self._exactly(struct.unpack(">i", size)[0])

    def _exactly(self, count: int) -> bytes | None:
        received = b""
        while len(received) < count:
            try:
                piece = self.socket.recv(count - len(received))
            except ConnectionResetError:
                return None
            if not piece:
                return None
            received += piece
        return received

    @property
    def is_open(self) -> bool:
        """Whether the node has not closed it within a moment."""
        self.socket.settimeout(0.05)
        try:
            return self.socket.recv(1) != b""
        except TimeoutError:
            return True


class TlsPeer(Peer):
    """The same over TLS. An end without the word of TLS for it raises."""

    def __init__(self, bootstrap: str, truststore: Path) -> None:
        host, _, port = bootstrap.rpartition(":")
        self.socket = ssl.create_default_context(cafile=str(truststore)).wrap_socket(
            socket.create_connection((host, int(port)), DEADLINE_S), server_hostname=host, suppress_ragged_eofs=False
        )
