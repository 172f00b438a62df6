"""The console under `tidelog up --console`: one more process, with a socket of its own by which it may play with the nodes.

It ends with `up`: by SIGTERM, or where its socket ends because `up` was killed. When it ends first, the cluster goes on.
"""

from __future__ import annotations

import selectors
import socket
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress

from tidelog.cli.node.play import NodePlay
from tidelog.cli.rendering import printable

# A request has some fifty bytes; whoever sends more without an end is no console.
_PENDING_MAX = 65_536
_END_S = 5.0


class ConsoleProcess:
    """Its output and its socket are registered with a selector, each with this object as the data."""

    def __init__(
        self,
        selector: selectors.BaseSelector,
        play: NodePlay,
        *,
        bootstrap: str,
        port: int | None,
        http: Mapping[int, str],
        login: list[str],
    ) -> None:
        self.play = play
        self._selector = selector
        ours, theirs = socket.socketpair()
        command = [sys.executable, "-P", "-m", "tidelog.cli", "console", "--bootstrap", bootstrap, "--name", "local"]
        command += ["--port", str(_port(port)), "--play-fd", str(theirs.fileno()), *login]
        for node_id, address in http.items():
            command += ["--trace", f"{node_id}=http://{address}"]
        with theirs:
            self._process = subprocess.Popen(  # noqa: S603
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                pass_fds=[theirs.fileno()],
                # Ctrl-C reaches it once, from here.
                process_group=0,
            )
        self._socket = ours
        self._socket.setblocking(False)
        self._pending = b""
        assert self._process.stdout is not None
        self._stdout = self._process.stdout
        selector.register(self._stdout, selectors.EVENT_READ, self)
        selector.register(self._socket, selectors.EVENT_READ, self)

    def take(self, fileobj: object) -> None:
        """What has come from it: the line that it serves, or a request."""
        if fileobj is self._socket:
            self._take_requests()
            return
        line = self._stdout.readline().decode(errors="replace")
        if line:
            words = line.split()
            sys.stdout.write(f"console: {printable(words[1]) if len(words) > 1 else printable(line.strip())}\n")
            sys.stdout.flush()
            return
        self._selector.unregister(self._stdout)
        code = self._process.wait()
        if code:
            sys.stderr.write("tidelog up: the console ended, and said why above; the cluster goes on\n")
            sys.stderr.flush()

    def _take_requests(self) -> None:
        try:
            read = self._socket.recv(4096)
        except (BlockingIOError, ConnectionError):
            read = b""
        if not read or len(self._pending) > _PENDING_MAX:
            self._selector.unregister(self._socket)
            # Whoever held a node is gone.
            self.play.release_all()
            return
        *lines, self._pending = (self._pending + read).split(b"\n")
        for line in lines:
            # A console that does not read its answers gets none.
            with suppress(BlockingIOError, ConnectionError):
                self._socket.send(self.play.answer(line))

    def end(self) -> None:
        """End it, for the cluster ends. Its part of the selector is over."""
        self.play.release_all()
        for each in (self._stdout, self._socket):
            with suppress(KeyError, ValueError):
                self._selector.unregister(each)
        self._process.terminate()
        try:
            self._process.wait(_END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._stdout.close()
        self._socket.close()


def _port(asked: int | None) -> int:
    """The one that was asked for; else the usual one, or any where that is taken."""
    if asked is not None:
        return asked
    usual = 8080
    with socket.socket() as tried:
        tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            tried.bind(("127.0.0.1", usual))
        except OSError:
            return 0
    return usual
