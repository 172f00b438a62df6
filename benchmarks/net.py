"""What a frame and a gigabyte of file cost on a connection, beside the least that Python and the kernel can do it for.

The server runs in a process of its own and reports its own CPU time; the load is the same blocking client for both sides.

    echo of 1 KB frames, pipelined      tidelog's server beside a bare uvloop BufferedProtocol: frames split in place, joined into
                                        one write, and nothing else (no order of answers, no limits, no frame beyond the buffer)
    1 MB regions by sendfile            tidelog's server beside a blocking loop of recv and os.sendfile
    copy or sendfile, by size           the same server with the threshold below and above that size
    5,000 idle connections              resident memory for each, printed only
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import resource
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import cast

from benchmarks.compare import ROUNDS, Comparison, finish

FRAME = struct.pack(">i", 1020) + bytes(1020)
WINDOW_FRAMES = 100
REGION_BYTES = 1 << 20
FILE_BYTES = 64 << 20
IDLE_CONNECTIONS = 5000


# The servers, each in a process of its own.


async def serve_tidelog(path: str, region_bytes: int, sendfile_bytes_min: int) -> int:
    from tidelog.net import parts

    # Before the others are imported: the kernel takes it over then.
    parts.SENDFILE_BYTES_MIN = sendfile_bytes_min
    from tidelog.net.connection import Connection
    from tidelog.net.limits import NodeLimits, SocketOptions
    from tidelog.net.socket_server import SocketServer
    from tidelog.net.transport import LoopTransport
    from tidelog.storage.file_region import FileRegion
    from tidelog.storage.os_files import OsFiles

    file = OsFiles().open(path, writable=False)

    class Handler:
        def __init__(self) -> None:
            self.position = 0

        def connection_opened(self, connection: Connection) -> None: ...

        def connection_closed(self, connection: Connection) -> None: ...

        def frames_done(self, connection: Connection) -> None: ...

        def frame(self, connection: Connection, frame: memoryview) -> None:
            slot = connection.expect_answer()
            if len(frame) > 8:
                slot.send([bytes(frame)])
            else:
                self.position = (self.position + region_bytes) % (FILE_BYTES - region_bytes)
                slot.send([b"header of the answer", FileRegion(file, self.position, region_bytes)])

    loop = asyncio.get_running_loop()
    # Both sides with what the system chooses: the comparison is about what we add.
    limits = NodeLimits(socket=SocketOptions(backlog=1000, send_buffer_bytes=-1, receive_buffer_bytes=-1))
    server = SocketServer(loop, LoopTransport(loop), limits)
    listener = await server.listen("PLAINTEXT", "127.0.0.1", 0, Handler())
    return listener.address.port


async def serve_bare() -> int:
    class Echo(asyncio.BufferedProtocol):
        def __init__(self) -> None:
            self.buffer = bytearray(256 * 1024)
            self.left = 0

        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            self.transport = cast("asyncio.Transport", transport)

        def get_buffer(self, _sizehint: int) -> memoryview:
            return memoryview(self.buffer)[self.left :]

        def buffer_updated(self, nbytes: int) -> None:
            view = memoryview(self.buffer)
            # What was left of the last read lies in front of this one.
            position = 0
            nbytes += self.left
            answers: list[bytes | memoryview] = []
            while nbytes - position >= 4:
                end = position + 4 + int.from_bytes(view[position : position + 4], "big")
                if end > nbytes:
                    break
                answers += [view[position : position + 4], bytes(view[position + 4 : end])]
                position = end
            self.transport.write(b"".join(answers))
            self.left = nbytes - position
            view[: self.left] = view[position:nbytes]

    server = await asyncio.get_running_loop().create_server(Echo, "127.0.0.1", 0)
    return int(server.sockets[0].getsockname()[1])


def serve_sendfile(path: str, region_bytes: int) -> None:
    """One connection after the other; what C would do, in the same calls."""
    with socket.create_server(("127.0.0.1", 0)) as listening, Path(path).open("rb") as file:
        print(listening.getsockname()[1], flush=True)
        head = struct.pack(">i", 20 + region_bytes) + b"header of the answer"
        while True:
            sock, _ = listening.accept()
            with sock, contextlib.suppress(ConnectionError):
                position = 0
                while request := sock.recv(4096):
                    if request[4:] == b"cpu?":
                        sock.sendall(usage())
                        continue
                    for _ in range(len(request) // 8):
                        position = (position + region_bytes) % (FILE_BYTES - region_bytes)
                        sock.send(head, socket.MSG_MORE)
                        sent = 0
                        while sent < region_bytes:
                            sent += os.sendfile(sock.fileno(), file.fileno(), position + sent, region_bytes - sent)


def usage() -> bytes:
    resident = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * 4096
    return struct.pack(">dq", time.process_time(), resident)


async def serve_usage() -> int:
    """A second port on which a server says what it has used."""

    async def answer(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(usage())
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    return int(server.sockets[0].getsockname()[1])


def serve(kind: str, path: str, region_bytes: int, sendfile_bytes_min: int) -> None:
    if kind == "sendfile":
        serve_sendfile(path, region_bytes)
        return
    import uvloop

    async def main() -> None:
        port = await (serve_tidelog(path, region_bytes, sendfile_bytes_min) if kind == "tidelog" else serve_bare())
        print(port, await serve_usage(), flush=True)
        await asyncio.Event().wait()

    uvloop.run(main())


# The load.


class Server:
    """A server process and one connection to it."""

    def __init__(self, kind: str, path: str, region_bytes: int = REGION_BYTES, sendfile_bytes_min: int = 16384) -> None:
        command = [
            sys.executable,
            "-m",
            "benchmarks.net",
            "serve",
            kind,
            path,
            str(region_bytes),
            str(sendfile_bytes_min),
        ]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        ports = self.process.stdout.readline().split()
        self.port, self.usage_port = int(ports[0]), int(ports[-1])
        self.region_bytes = region_bytes
        self.socket = socket.create_connection(("127.0.0.1", self.port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def used(self) -> tuple[float, int]:
        """CPU seconds and resident bytes of the server."""
        if self.port == self.usage_port:
            self.socket.sendall(struct.pack(">i", 4) + b"cpu?")
            answer = self.socket.recv(16, socket.MSG_WAITALL)
        else:
            with socket.create_connection(("127.0.0.1", self.usage_port)) as asking:
                answer = asking.recv(16, socket.MSG_WAITALL)
        cpu_s, resident_bytes = struct.unpack(">dq", answer)
        return cpu_s, resident_bytes

    def receive(self, count: int, scratch: bytearray) -> None:
        view = memoryview(scratch)
        while count:
            got = self.socket.recv_into(view[: min(count, len(scratch))])
            if not got:
                sys.exit("the server closed the connection")
            count -= got

    def close(self) -> None:
        self.socket.close()
        self.process.kill()
        self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()


def echo(frames: int) -> Callable[[Server], float]:
    def run(server: Server) -> float:
        window = FRAME * WINDOW_FRAMES
        scratch = bytearray(1 << 20)
        before_s, _ = server.used()
        for _ in range(frames // WINDOW_FRAMES):
            server.socket.sendall(window)
            server.receive(len(window), scratch)
        return (server.used()[0] - before_s) / frames

    return run


def regions(total_bytes: int) -> Callable[[Server], float]:
    def run(server: Server) -> float:
        scratch = bytearray(4 << 20)
        count = max(1, total_bytes // server.region_bytes)
        before_s, _ = server.used()
        for _ in range(count):
            server.socket.sendall(struct.pack(">i", 4) + b"read")
            server.receive(4 + 20 + server.region_bytes, scratch)
        return (server.used()[0] - before_s) / (count * server.region_bytes)

    return run


def measure(
    name: str,
    servers: dict[str, Server],
    run: Callable[[Server], float],
    *,
    at_most: float | None,
    unit: str,
    rounds: int,
) -> Comparison:
    """As `compare`, for servers in other processes: rounds in turn, the ratio within each round."""
    samples: dict[str, list[float]] = {each: [] for each in servers}
    for server in servers.values():
        run(server)
    for _ in range(rounds):
        for each, server in servers.items():
            samples[each].append(run(server))
    ours, theirs = list(samples.values())[:2]
    ratios = [a / b if b else 1.0 for a, b in zip(ours, theirs, strict=True)]
    result = Comparison(
        name=name,
        seconds={each: max(statistics.median(taken), 1e-12) for each, taken in samples.items()},
        ratio=statistics.median(ratios),
        ratio_min=min(ratios),
        ratio_max=max(ratios),
        at_most=at_most,
        unit=unit,
        rounds=rounds,
    )
    print(result.line(), flush=True)
    return result


def idle_connections(path: str, count: int) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = 3 * count + 100
    if hard < needed:
        print(f"idle connections: left out, the limit of open files is {hard}")
        return
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, needed), hard))
    server = Server("tidelog", path)
    try:
        _, before_bytes = server.used()
        clients = []
        for _ in range(count):
            clients.append(client := socket.create_connection(("127.0.0.1", server.port)))
            # Each has sent something, as every real one has.
            client.sendall(FRAME)
            client.recv(len(FRAME), socket.MSG_WAITALL)
        _, after_bytes = server.used()
        print(f"{count} idle connections: {(after_bytes - before_bytes) / count / 1024:.1f} KB resident each")
        for client in clients:
            client.close()
    finally:
        server.close()


def main(arguments: Sequence[str]) -> None:
    smoke = "--smoke" in arguments
    rounds = 1 if smoke else ROUNDS
    frames, total_bytes = (2000, 8 << 20) if smoke else (100_000, 512 << 20)
    comparisons = []
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        path = str(Path(folder) / "log")
        Path(path).write_bytes(os.urandom(1 << 20) * (FILE_BYTES >> 20))

        def started(kind: str, *settings: int) -> Server:
            server = Server(kind, path, *settings)
            stack.callback(server.close)
            return server

        pair = {"tidelog": started("tidelog"), "uvloop": started("bare")}
        comparisons.append(
            measure("echo of 1 KB frames, pipelined", pair, echo(frames), at_most=2.5, unit="frames", rounds=rounds)
        )
        pair = {"tidelog": pair["tidelog"], "sendfile": started("sendfile")}
        comparisons.append(
            measure("1 MB regions by sendfile", pair, regions(total_bytes), at_most=1.5, unit="B", rounds=rounds)
        )
        for size in (4096, 8192, 16384, 32768, 65536):
            pair = {"sendfile": started("tidelog", size, 1), "copy": started("tidelog", size, 1 << 30)}
            measured = regions(total_bytes // 16)
            comparisons.append(
                measure(
                    f"{size // 1024} KB regions: sendfile, not copy",
                    pair,
                    measured,
                    at_most=None,
                    unit="B",
                    rounds=rounds,
                )
            )
            for each in pair.values():
                each.close()
        idle_connections(path, 200 if smoke else IDLE_CONNECTIONS)
    if not smoke:
        finish("net", comparisons)


if __name__ == "__main__":
    if sys.argv[1:2] == ["serve"]:
        serve(sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5]))
    else:
        main(sys.argv[1:])
