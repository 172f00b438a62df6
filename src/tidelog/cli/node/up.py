"""`tidelog up`: a cluster on this machine, each node a process of its own, until SIGINT or SIGTERM.

    DIR/cluster.json                  the nodes that run: [{"node": 1, "pid": 4711, "port": 9092, "dir": "...", "http": "..."}]
    DIR/cluster.lock                  held by the one `up` that uses the directory
    DIR/node-1/server.properties      written at every start; Apache Kafka starts with it too
    DIR/node-1/data/                  the node's log directory
    DIR/security/                     what a secured cluster and its clients need (`broker.node.local_security`)
    DIR/node-1/restart                there for a moment: the node is started again when it ends (`rolling-restart`)

    starting -> ready -> stopping. A node that ends while they start ends the cluster; later the others go on without it, until
    none is left.

A directory that holds a cluster is started with as many nodes as it has, and with their controller ports, which the quorum has
written down. Nodes get their own process groups, so that Ctrl-C reaches them once, from here; their processes are
started first of all and led through a pipe (`node_process`).
"""

from __future__ import annotations

import errno
import json
import os
import selectors
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from random import SystemRandom
from typing import TYPE_CHECKING

from tidelog.broker.config.server_properties import check_properties, gather_properties, resolve_properties
from tidelog.broker.node.local_cluster import (
    HOST,
    NODES_MAX,
    LocalNode,
    check_local_settings,
    controller_ports_of,
    local_properties,
    log_directory_of,
    server_properties_of,
    write_server_properties,
)
from tidelog.cli.node.console_process import ConsoleProcess
from tidelog.cli.node.node_process import NodeProcess, close_pipes, end_unused, start_process, tell_config
from tidelog.cli.node.play import NodePlay
from tidelog.cli.node.up_options import UpOptions
from tidelog.cli.rendering import printable
from tidelog.model.clock import SystemClock
from tidelog.model.config import ConfigError
from tidelog.storage.errors import StorageError
from tidelog.storage.os_files import OsFiles

if TYPE_CHECKING:
    from tidelog.broker.node.local_security import LocalSecurity

EXIT_FAILED = 1
EXIT_WRONG_QUESTION = 2

CLUSTER_FILE = "cluster.json"
LOCK_FILE = "cluster.lock"
RESTART_FILE = "restart"
SECURITY_FOLDER = "security"

# A clean stop takes milliseconds, or as long as the disk needs for what is not written yet. Then the nodes are killed.
STOP_TIMEOUT_S = 30.0

_PORT_MAX = 65535

# With so many failures in a row the machine has no ports left.
_PORT_ATTEMPTS_MAX = 20

_HEAD = "Written by `tidelog up` at every start; settings that are to stay belong on its command line."
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class UpError(Exception):
    """The cluster cannot run, in one sentence."""


def restart_mark(directory: str) -> Path:
    """The file that says that the node with this log directory is to be started again when it ends."""
    return Path(directory).parent / RESTART_FILE


def run_up(options: UpOptions, ahead: dict[int, NodeProcess]) -> int:
    """Run a cluster until a signal. The exit code. `ahead` are the nodes whose processes wait already."""
    try:
        with ExitStack() as stack:
            stack.callback(end_unused, ahead)
            signals = stack.enter_context(_signals_as_bytes())
            directory = stack.enter_context(_directory(options))
            nodes = _nodes(options, directory)
            security = _security(options, directory, nodes)
            _prepare(nodes, options.settings, security)
            cluster = _Cluster(nodes, directory, options, signals, ahead, security)
            return cluster.run()
    except ConfigError as error:
        return _complain(error, EXIT_WRONG_QUESTION)
    except (UpError, StorageError) as error:
        return _complain(error, EXIT_FAILED)
    except OSError as error:
        return _complain(f"{error.filename or 'the system'}: {error.strerror}", EXIT_FAILED)


@contextmanager
def _directory(options: UpOptions) -> Iterator[Path]:
    """The cluster's directory, locked. A temporary one is removed in the end."""
    if (options.nodes or 1) > NODES_MAX:
        raise ConfigError(f"{options.nodes} nodes are more than one machine is for: {NODES_MAX} at most")
    if options.directory == "":
        raise ConfigError("--dir is empty: name a directory, or leave --dir out for a temporary one")
    given = resolve_properties(gather_properties(settings=options.settings), os.environ)
    for name, reason in check_properties(given).without_effect.items():
        sys.stderr.write(f"tidelog up: {name} is without effect: {reason}\n")
    directory = Path(options.directory or tempfile.mkdtemp(prefix="tidelog-")).absolute()
    try:
        _make(directory)
        lock = OsFiles().lock(str(directory / LOCK_FILE))
        try:
            yield directory
        finally:
            lock.release()
    finally:
        if options.directory is None:
            shutil.rmtree(directory, ignore_errors=True)


def _make(directory: Path) -> None:
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        wrong = next(path for path in (directory, *directory.parents) if path.exists())
        raise ConfigError(f"{wrong} is a file, no directory: choose another one with --dir") from None
    except OSError as error:
        raise UpError(f"{directory} cannot be made: {error.strerror}; choose another one with --dir") from None


def _nodes(options: UpOptions, directory: Path) -> list[LocalNode]:
    """The nodes with their ports, all of which are free at the moment."""
    known = controller_ports_of(OsFiles(), str(directory))
    count = options.nodes or len(known) or 1
    if known and count != len(known):
        raise ConfigError(
            f"{directory} holds a cluster of {len(known)} nodes, not of {count}: leave --nodes out, or choose another directory"
        )
    first = options.port or _free_ports(count)
    if first + count - 1 > _PORT_MAX:
        raise ConfigError(f"there is no port {first + count - 1}: choose a lower one with --port")
    if options.metrics_port is not None and options.metrics_port + count - 1 > _PORT_MAX:
        raise ConfigError(f"there is no port {options.metrics_port + count - 1}: lower --metrics-port")
    ports = range(first, first + count)
    for port in ports:
        if (reason := _why_not(port)) is not None:
            raise UpError(f"port {port} {reason}: choose another one with --port, or --port 0 for any")
    controller_ports = (
        _known_controller_ports(known, ports) if count > 1 and known else _controller_ports(options, ports)
    )
    return [
        LocalNode(number, log_directory_of(str(directory), number), port, controller_port)
        for number, (port, controller_port) in enumerate(zip(ports, controller_ports, strict=True), start=1)
    ]


def _known_controller_ports(known: Sequence[int], ports: range) -> Sequence[int]:
    """Those under which the voters know each other. UpError where others have taken one."""
    for number, port in enumerate(known, start=1):
        if port in ports:
            raise UpError(f"port {port} is the controller port of node {number}: choose another one with --port")
        if (reason := _why_not(port)) is not None:
            raise UpError(
                f"port {port}, the controller port of node {number}, {reason}: it must be free to start again"
            )
    return known


def _controller_ports(options: UpOptions, ports: range) -> list[int]:
    """Those after the ports of the nodes, or others where one of them is taken."""
    metrics_ports = range(options.metrics_port or 0, (options.metrics_port or 0) + len(ports))
    chosen: list[int] = []
    for port in range(ports.stop, ports.stop + len(ports)):
        is_usable = port <= _PORT_MAX and port not in metrics_ports and _is_free(port)
        while not is_usable:
            port = _free_ports(1)  # noqa: PLW2901 - the same node's port, chosen anew
            is_usable = port not in ports and port not in chosen and port not in metrics_ports
        chosen.append(port)
    return chosen


def _is_free(port: int) -> bool:
    return _why_not(port) is None


def _why_not(port: int) -> str | None:
    """Why a port cannot be listened on, as the end of a sentence."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # As a node listens: connections of an earlier one that linger do not count.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except PermissionError:
            return "may not be listened on by this user (the system keeps the lowest ports for root)"
        except OSError as error:
            return "is in use" if error.errno == errno.EADDRINUSE else f"cannot be listened on ({error.strerror})"
    return None


def _free_ports(count: int) -> int:
    """The first of so many ports in a row that are free."""
    for _ in range(_PORT_ATTEMPTS_MAX):
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
            probe.bind((HOST, 0))
            first: int = probe.getsockname()[1]
        if first + count - 1 <= _PORT_MAX and all(_is_free(first + number) for number in range(1, count)):
            return first
    raise UpError(f"there are no {count} free ports in a row: choose them with --port")


def _security(options: UpOptions, directory: Path, nodes: Sequence[LocalNode]) -> LocalSecurity | None:
    """What secures the cluster: made at its first start, found at later ones. A secured one is never started without."""
    if options.security is None and not (directory / SECURITY_FOLDER).exists():
        return None
    # Only a secured cluster needs what this imports.
    from tidelog.broker.node.local_security import LocalSecurity, SecurityMode, security_of  # noqa: PLC0415

    files = OsFiles()
    known = security_of(files, str(directory))
    if options.security is None and known is None:
        return None
    if known is None and controller_ports_of(files, str(directory)):
        raise ConfigError(
            f"{directory} holds a cluster without security: leave out --tls, --mtls and --sasl, or choose another directory"
        )
    mode = SecurityMode.parse(options.security) if options.security is not None else known
    assert mode is not None
    return LocalSecurity.open(files, str(directory), mode, nodes, clock=SystemClock(), random=SystemRandom())


def _prepare(nodes: Sequence[LocalNode], settings: Sequence[str], security: LocalSecurity | None) -> None:
    """Write what the nodes start with; format the directories of several, which must agree on who they are, and of a secured
    one, whose log begins with its users."""
    given = gather_properties(settings=settings)
    check_local_settings(given, len(nodes), "`tidelog up`")
    files = OsFiles()
    if len(nodes) > 1 or security is not None:
        # Only these need them before they start, and they take a while to import.
        from tidelog.broker.node.local_formatting import format_nodes  # noqa: PLC0415

        first_records = () if security is None else security.first_records(SystemRandom())
        format_nodes(nodes, files=files, clock=SystemClock(), random=SystemRandom(), first_records=first_records)
    for node in nodes:
        Path(server_properties_of(node)).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        secured = {} if security is None else security.node_properties(node, nodes)
        write_server_properties(files, node, {**local_properties(node, nodes), **secured, **given}, _HEAD)


class _Cluster:
    """The processes of the nodes: started, watched, stopped."""

    def __init__(
        self,
        nodes: Sequence[LocalNode],
        directory: Path,
        options: UpOptions,
        signals: socket.socket,
        ahead: dict[int, NodeProcess],
        security: LocalSecurity | None,
    ) -> None:
        self._nodes = nodes
        self._directory = directory
        self._options = options
        self._signals = signals
        self._ahead = ahead
        self._security = security
        self._processes: dict[int, NodeProcess] = {}
        self._addresses: dict[int, str] = {}
        # Where each shows its metrics and what happens in it.
        self._watched_at: dict[int, str] = {}
        self._gone: set[int] = set()
        self._is_ready = False
        self._selector = selectors.DefaultSelector()
        self._console: ConsoleProcess | None = None

    def run(self) -> int:
        """Start, tell, wait for a signal, stop."""
        cluster_file = self._directory / CLUSTER_FILE
        try:
            self._selector.register(self._signals, selectors.EVENT_READ)
            for node in self._nodes:
                # A mark left behind by a `rolling-restart` that was killed.
                restart_mark(node.directory).unlink(missing_ok=True)
                self._start(node)
            self._until_ready_or_signalled()
            if len(self._addresses) == len(self._nodes):
                self._is_ready = True
                self._write_cluster_file(cluster_file)
                self._tell_ready()
                if self._options.has_console:
                    self._start_console()
                self._until_signalled(cluster_file)
        finally:
            if self._console is not None:
                self._console.end()
            codes = self._stop()
            cluster_file.unlink(missing_ok=True)
            self._selector.close()
        if any(codes[node_id] for node_id in self._addresses.keys() - self._gone):
            raise UpError("a node did not stop cleanly; its next start recovers")
        return 0

    def _start(self, node: LocalNode) -> None:
        process = self._ahead.pop(node.node_id, None) or start_process(self._options, node.node_id)
        tell_config(process, server_properties_of(node))
        self._processes[node.node_id] = process
        assert process.stdout is not None
        self._selector.register(process.stdout, selectors.EVENT_READ, node.node_id)

    def _until_ready_or_signalled(self) -> None:
        while len(self._addresses) < len(self._nodes) and not self._next_event():
            pass

    def _until_signalled(self, cluster_file: Path) -> None:
        """UpError where the last node ends before."""
        while not self._next_event():
            self._write_cluster_file(cluster_file)

    def _next_event(self) -> bool:
        """Wait for a signal (True), or for a node to be ready or to end (False). UpError where the cluster ends with it."""
        for key, _ in self._selector.select(None if self._console is None else self._console.play.wait_s):
            if key.data is None:
                self._signals.recv(64)
                return True
            if isinstance(key.data, ConsoleProcess):
                key.data.take(key.fileobj)
                continue
            node_id: int = key.data
            line = self._processes[node_id].stdout.readline().decode(errors="replace")  # type: ignore[union-attr]
            if line:
                *_, self._addresses[node_id], self._watched_at[node_id] = line.split()
            else:
                self._selector.unregister(key.fileobj)
                self._ended(node_id)
        if self._console is not None:
            self._console.play.release_due()
        return False

    def _ended(self, node_id: int) -> None:
        how = f"node {node_id} {self._how_it_ended(node_id)}"
        node = next(each for each in self._nodes if each.node_id == node_id)
        if self._is_ready and restart_mark(node.directory).exists():
            self._start_again(node)
            return
        self._gone.add(node_id)
        if not self._is_ready or len(self._gone) == len(self._nodes):
            raise UpError(how)
        again = f"tidelog broker --config {shlex.quote(server_properties_of(node))}"
        _complain(f"{how}; the others go on, and `{again}` starts it again", EXIT_FAILED)

    def _start_again(self, node: LocalNode) -> None:
        restart_mark(node.directory).unlink(missing_ok=True)
        close_pipes(self._processes[node.node_id])
        # Its address is set again once it serves.
        self._addresses.pop(node.node_id, None)
        self._start(node)

    def _start_console(self) -> None:
        self._console = ConsoleProcess(
            self._selector,
            NodePlay([node.node_id for node in self._nodes], self._running_pid, self._start_gone),
            bootstrap=self._bootstrap(),
            port=self._options.console_port,
            http={node_id: address for node_id, address in self._watched_at.items() if address != "-"},
            login=[] if self._security is None else _console_login(self._security),
        )

    def _running_pid(self, node_id: int) -> int | None:
        """The process of a node that serves; None while it is down or starts."""
        process = self._processes.get(node_id)
        is_there = process is not None and node_id in self._addresses and node_id not in self._gone
        return process.pid if process is not None and is_there and process.poll() is None else None

    def _start_gone(self, node_id: int) -> None:
        """Start a node again that has ended."""
        if node_id not in self._gone:
            return
        self._gone.discard(node_id)
        self._start_again(next(each for each in self._nodes if each.node_id == node_id))

    def _how_it_ended(self, node_id: int) -> str:
        try:
            code = self._processes[node_id].wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            return "does not answer"
        was = "ended" if node_id in self._addresses else "could not start"
        if code == 0:
            return f"{was}: somebody asked it to stop, which it did cleanly"
        return f"{was}: " + (
            f"it was killed by signal {-code}" if code < 0 else f"it said why above (exit code {code})"
        )

    def _write_cluster_file(self, path: Path) -> None:
        rows = [
            {
                "node": node.node_id,
                "pid": self._processes[node.node_id].pid,
                "port": int(self._addresses[node.node_id].rpartition(":")[2]),
                "dir": node.directory,
                "http": self._watched_at[node.node_id],
            }
            for node in self._nodes
            if node.node_id in self._addresses and node.node_id not in self._gone
        ]
        unfinished = path.with_suffix(".tmp")
        unfinished.write_text(json.dumps(rows) + "\n")
        unfinished.replace(path)

    def _tell_ready(self) -> None:
        sys.stdout.write(
            f"ready: {self._bootstrap()} serves, data in {printable(str(self._directory))}, Ctrl-C stops it\n"
        )
        if self._security is not None:
            for line in self._security.lines():
                sys.stdout.write(f"{printable(line)}\n")
        sys.stdout.flush()

    def _bootstrap(self) -> str:
        return ",".join(self._addresses[node.node_id] for node in self._nodes)

    def _stop(self) -> dict[int, int]:
        """Stop every node that runs, cleanly unless a second signal or the deadline comes first. Their exit codes."""
        running = {node_id: each for node_id, each in self._processes.items() if each.poll() is None}
        for process in running.values():
            process.terminate()
        deadline = time.monotonic() + STOP_TIMEOUT_S
        while running and time.monotonic() < deadline:
            for key, _ in self._selector.select(deadline - time.monotonic()):
                if key.data is None:
                    self._signals.recv(64)
                    for process in running.values():
                        process.terminate()
                elif not os.read(key.fd, 4096):
                    self._selector.unregister(key.fd)
                    running.pop(key.data, None)
        for process in running.values():
            process.kill()
        codes = {}
        for node_id, process in self._processes.items():
            codes[node_id] = process.wait()
            close_pipes(process)
        return codes


def _console_login(security: LocalSecurity) -> list[str]:
    """How the console reaches a secured cluster: people log in by SASL; with certificates alone all of them are alice."""
    properties = security.client_properties()
    named = properties.pop("sasl.jaas.config", None) is None and security.mode.mutual
    if not named:
        properties = {key: value for key, value in properties.items() if not key.startswith("ssl.keystore")}
    options = [word for key, value in properties.items() for word in ("-X", f"{key}={value}")]
    return [*options, "--as", "alice"] if named else options


@contextmanager
def _signals_as_bytes() -> Iterator[socket.socket]:
    """A socket that becomes readable when a signal comes, so that one wait serves for signals and nodes."""
    receiving, sending = socket.socketpair()
    receiving.setblocking(False)
    sending.setblocking(False)
    # The descriptor first: a signal that met these handlers without it would be lost.
    earlier_descriptor = signal.set_wakeup_fd(sending.fileno())
    earlier = {number: signal.signal(number, lambda _number, _frame: None) for number in _SIGNALS}
    try:
        yield receiving
    finally:
        for number, handler in earlier.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(earlier_descriptor)
        receiving.close()
        sending.close()


def _complain(error: object, code: int) -> int:
    sys.stderr.write(f"tidelog up: {printable(str(error))}\n")
    return code
