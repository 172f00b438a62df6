"""A console as a process: a socket, uvicorn on it, until a signal or the end of whoever started it."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import signal
import socket
import sys
from collections.abc import Iterator

import uvicorn

from tidelog.console.app import application
from tidelog.console.console import Console
from tidelog.console.options import ConsoleOptions
from tidelog.console.play import Play

# Pages that load and streams that stay, of all browsers together; the next is told 503.
CONNECTIONS_MAX = 500
_BACKLOG = 128
# Streams end when the console does: nobody has to wait for them.
_GRACE_S = 1
_IDLE_S = 75
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class ServerError(Exception):
    """The console cannot serve, in one sentence."""


class _Server(uvicorn.Server):
    """Signals are the process's own: Ctrl-C is how a person ends a console, and no error."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def run_console(options: ConsoleOptions) -> int:
    """Serve until SIGINT or SIGTERM. The exit code. ServerError where it cannot begin."""
    with listen(options.host, options.port) as listening:
        asyncio.run(_until_signalled(options, listening))
    return 0


async def _until_signalled(options: ConsoleOptions, listening: socket.socket) -> None:
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in _SIGNALS:
        loop.add_signal_handler(number, ended.set)
    await serve(options, listening, ended)


async def serve(options: ConsoleOptions, listening: socket.socket, ended: asyncio.Event) -> None:
    """Serve on a socket that listens, until `ended` is set. ServerError where it cannot begin."""
    port = listening.getsockname()[1]
    try:
        console = Console(options, port)
    except OSError as error:
        raise ServerError(f"{options.audit_file}: {error.strerror}") from error
    config = uvicorn.Config(
        application(console),
        log_config=None,
        access_log=False,
        lifespan="off",
        server_header=False,
        date_header=True,
        proxy_headers=False,
        limit_concurrency=CONNECTIONS_MAX,
        timeout_keep_alive=_IDLE_S,
        timeout_graceful_shutdown=_GRACE_S,
        ssl_certfile=options.tls_certificate,
        ssl_keyfile=options.tls_key,
    )
    try:
        # Reads the certificate, whose faults are the person's who named it.
        config.load()
    except OSError as error:
        raise ServerError(f"{options.tls_certificate} cannot be served with: {error.strerror or error}") from error
    logging.getLogger("uvicorn.error").addFilter(_is_news)
    server = _Server(config)

    async def end() -> None:
        await ended.wait()
        server.should_exit = True

    loop = asyncio.get_running_loop()
    tasks = [loop.create_task(console.views.watch()), loop.create_task(end())]
    if options.play_fd is not None:
        console.play = await Play.open(options.play_fd)
        tasks.append(loop.create_task(_end_with(console.play, ended)))
    try:
        _say(options, port)
        await server.serve(sockets=[listening])
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await console.close()
        if console.play is not None:
            console.play.close()


def _is_news(record: logging.LogRecord) -> bool:
    """That streams are cut off at the end is how a console ends; each would be told of with a traceback."""
    is_cut_off = record.exc_info is not None and isinstance(record.exc_info[1], asyncio.CancelledError)
    return not is_cut_off and "timeout graceful shutdown exceeded" not in record.getMessage()


async def _end_with(play: Play, ended: asyncio.Event) -> None:
    """A console that `up` has started ends with it, however that ends."""
    await play.run()
    ended.set()


def _say(options: ConsoleOptions, port: int) -> None:
    scheme = "http" if options.tls_certificate is None else "https"
    host = f"[{options.host}]" if ":" in options.host else options.host
    shown = ", ".join(f"{each.name} ({each.bootstrap})" for each in options.clusters)
    sys.stdout.write(f"ready: {scheme}://{host}:{port}/ shows {shown}, Ctrl-C stops it\n")
    sys.stdout.flush()
    if not options.is_loopback and options.tls_certificate is None:
        sys.stderr.write(
            "tidelog console: others can read what goes to and from it, passwords too: give it --tls-cert and --tls-key\n"
        )


def listen(host: str, port: int) -> socket.socket:
    """A socket for `serve`. ServerError."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, kind, protocol, _, address = found[0]
        listening = socket.socket(family, kind, protocol)
    except OSError as error:
        raise ServerError(f"{host} is no address of this machine: {error.strerror}") from error
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        listening.listen(_BACKLOG)
    except OSError as error:
        listening.close()
        if error.errno == errno.EADDRINUSE:
            raise ServerError(f"port {port} is taken: choose another one with --port, or --port 0 for any") from error
        raise ServerError(f"{host}:{port}: {error.strerror}") from error
    listening.setblocking(False)
    return listening
