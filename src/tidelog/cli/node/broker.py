"""`tidelog broker`: one node, as a service manager runs it.

Standard output gets one line that begins with `ready`, once the node serves; standard error gets the log. SIGTERM and SIGINT stop
the node cleanly, a second one at once. The exit code is 0 only after a clean stop.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import resource
import signal
import sys
from collections.abc import Coroutine, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeVar

from tidelog.broker.config.server_properties import (
    ServerProperties,
    check_properties,
    gather_properties,
    resolve_properties,
)
from tidelog.broker.node.hosting import START_ERRORS, HostedNode, new_event_loop
from tidelog.broker.node.node import BrokerNode, describe
from tidelog.cli.node.broker_options import BrokerOptions
from tidelog.cli.node.log_lines import log_to_stderr
from tidelog.cli.node.node_process import config_from_stdin
from tidelog.cli.rendering import printable
from tidelog.model.config import ConfigError
from tidelog.net.address import Address
from tidelog.net.http_endpoint import OPEN_ACCESS, HttpAccess

logger = logging.getLogger(__name__)

T = TypeVar("T")

EXIT_FAILED = 1
EXIT_WRONG_QUESTION = 2

# Every segment, index and connection is a descriptor. Where the system sets no limit, this is enough for any node.
OPEN_FILES_MAX = 1 << 20

# A server.properties is a page or two; a larger file is another one, named by mistake.
PROPERTIES_BYTES_MAX = 1 << 20


class Stoppable(Protocol):
    """A node, as far as stopping it is concerned."""

    async def stop(self) -> None: ...

    def abandon(self) -> None: ...


def run_broker(options: BrokerOptions) -> int:
    """Run a node until it is told to stop. The exit code."""
    path = options.config_path
    if options.is_led_by_stdin:
        if path is not None:
            return complain("broker", "standard input names the configuration: leave --config out", EXIT_WRONG_QUESTION)
        path = config_from_stdin()
        if path is None:
            return 0
    try:
        properties = read_server_properties(path, options.settings, strict=options.is_strict)
    except ConfigError as error:
        return complain("broker", error, EXIT_WRONG_QUESTION)
    log_to_stderr(options.log_format, options.log_level)
    raise_open_files_limit()
    for name, reason in properties.without_effect.items():
        logger.info("%s is without effect: %s", name, reason)
    for problem in properties.unknown.values():
        logger.warning("%s It is ignored.", problem if problem.endswith("?") else f"{problem}.")
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        return runner.run(_serve(properties, options))


def read_server_properties(path: str | None, settings: Sequence[str], *, strict: bool = False) -> ServerProperties:
    """The configuration in a file, the environment and the settings of a command line. ConfigError for what is wrong."""
    content = b""
    if path is not None:
        try:
            with Path(path).open("rb") as file:
                content = file.read(PROPERTIES_BYTES_MAX + 1)
        except OSError as error:
            raise ConfigError(f"Cannot read {path}: {error.strerror}") from None
        if len(content) > PROPERTIES_BYTES_MAX:
            raise ConfigError(f"{path} is larger than a server.properties can be: is it another file?")
    given = resolve_properties(gather_properties(content, os.environ, settings), os.environ)
    return check_properties(given, strict=strict)


def raise_open_files_limit() -> None:
    """As many open files as the system lets this process have."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = OPEN_FILES_MAX if hard == resource.RLIM_INFINITY else hard
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    except (OSError, ValueError) as error:
        logger.warning("the node may have only %d open files: %s", soft, error)


def spare_the_collector() -> None:
    """Freeze what the start has allocated: it is permanent, and traversing it in each collection would delay requests."""
    gc.freeze()
    gc.enable()


def complain(command: str, error: object, code: int) -> int:
    """One sentence on standard error, and the exit code that goes with it."""
    sys.stderr.write(f"tidelog {command}: {printable(str(error))}\n")
    return code


async def _serve(properties: ServerProperties, options: BrokerOptions) -> int:
    told = _Told()
    told.listen(stops_with_stdin=options.is_led_by_stdin)
    try:
        starting = HostedNode.start(
            properties.values, metrics_address=_metrics_address(options), metrics_access=_metrics_access(options)
        )
        hosted = await _start(starting, told)
    except ConfigError as error:
        return complain("broker", error, EXIT_WRONG_QUESTION)
    except START_ERRORS as error:
        return complain("broker", error, EXIT_FAILED)
    if hosted is None:
        return complain("broker", "stopped while it was starting; the next start recovers", EXIT_FAILED)
    spare_the_collector()
    node = hosted.node
    logger.info("%s serves", describe(node))
    if node.metrics_url is not None:
        logger.info("metrics are at %s", node.metrics_url)
    _tell(f"ready: {describe(node)}" if not options.is_led_by_stdin else ready_line(node))
    await _either(told.stop.wait(), _ended(node))
    if node.fault is not None:
        hosted.abandon()
        return complain("broker", node.fault, EXIT_FAILED)
    logger.info("%s stops", describe(node))
    return await _stop(hosted, told)


def _metrics_address(options: BrokerOptions) -> Address | None:
    return None if options.metrics_port is None else Address(options.metrics_host, options.metrics_port)


def _metrics_access(options: BrokerOptions) -> HttpAccess:
    if (options.metrics_cert, options.metrics_key, options.metrics_token_file) == (None, None, None):
        return OPEN_ACCESS
    # What most nodes do without is not imported at every start.
    from tidelog.cli.node.metrics_access import metrics_access  # noqa: PLC0415

    return metrics_access(options)


def ready_line(node: BrokerNode) -> str:
    """What the parent of a node is told, which goes by its last two words: where clients and where watchers find it."""
    return f"ready: {describe(node)} {node.http_address.rpartition('/')[2] or '-'}"


async def _start(start: Coroutine[Any, Any, T], told: _Told) -> T | None:
    """What the start gives; None where a signal came first: a recovery may take long, and a service manager does not wait."""
    starting = asyncio.ensure_future(start)
    await _either(told.stop.wait(), asyncio.wait([starting]))
    if not starting.done():
        starting.cancel()
        await asyncio.wait([starting])
    return None if starting.cancelled() else starting.result()


async def _stop(hosted: Stoppable, told: _Told) -> int:
    stopping = asyncio.ensure_future(hosted.stop())
    await _either(told.stop_at_once.wait(), asyncio.wait([stopping]))
    if not stopping.done():
        # The clean stop first: what it would still write must not follow what a crash leaves.
        stopping.cancel()
        await asyncio.wait([stopping])
        hosted.abandon()
        return complain("broker", "stopped at once; the next start recovers what was not written down", EXIT_FAILED)
    try:
        stopping.result()
    except START_ERRORS as error:
        return complain("broker", f"the stop was not clean: {error}", EXIT_FAILED)
    return 0


async def _ended(node: BrokerNode) -> None:
    await asyncio.wait([node.stopped])


async def _either(first: Coroutine[Any, Any, object], second: Coroutine[Any, Any, object]) -> None:
    """Until one of two is done; the other is cancelled."""
    tasks = [asyncio.ensure_future(first), asyncio.ensure_future(second)]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()


class _Told:
    """What signals, and the end of standard input, ask for."""

    def __init__(self) -> None:
        self.stop = asyncio.Event()
        self.stop_at_once = asyncio.Event()

    def listen(self, *, stops_with_stdin: bool) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._signalled)
        if stops_with_stdin:
            loop.add_reader(sys.stdin.fileno(), self._stdin_readable)

    def _signalled(self) -> None:
        if self.stop.is_set():
            self.stop_at_once.set()
        self.stop.set()

    def _stdin_readable(self) -> None:
        descriptor = sys.stdin.fileno()
        if not os.read(descriptor, 4096):
            asyncio.get_running_loop().remove_reader(descriptor)
            self.stop.set()


def _tell(line: str) -> None:
    """Whoever started the node may not listen any more; the node serves all the same."""
    try:
        sys.stdout.write(line + "\n")
        sys.stdout.flush()
    except OSError:
        logger.debug("nobody reads standard output")
