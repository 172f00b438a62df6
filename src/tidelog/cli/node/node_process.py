"""The process of a node under `tidelog up`, which leads it through its standard input.

    start_process   the node imports what it needs and waits; it has not touched anything
    tell_config     the path of its configuration and a NUL byte: the node starts
    the end         of standard input: the node stops, or has nothing to do. A parent that is killed takes its nodes along.

A node spends most of its start on imports, and its parent takes nearly as long until the configuration is written. So
`start_ahead` comes first of all, and both work at the same time. A node that waits says nothing, whatever is wrong with it:
the parent may have found the same fault and told of it.
"""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import suppress

from tidelog.cli.node.broker_options import DEFAULT_METRICS_HOST, LED_BY_STDIN
from tidelog.cli.node.up_options import UpOptions

NodeProcess = subprocess.Popen[bytes]

# Linux's PATH_MAX, and more than other systems have.
_PATH_BYTES_MAX = 4096


def start_ahead(options: UpOptions) -> dict[int, NodeProcess]:
    """Processes of the first nodes, as many as the machine has cores: more would only hold each other up."""
    ahead: dict[int, NodeProcess] = {}
    # What cannot be started now is tried again, and complained of, when it is that node's time.
    with suppress(OSError):
        for node_id in range(1, min(options.nodes or 1, os.cpu_count() or 1) + 1):
            ahead[node_id] = start_process(options, node_id)
    return ahead


def start_process(options: UpOptions, node_id: int) -> NodeProcess:
    """A node that waits for its configuration."""
    # -P: what lies in the current directory is not taken for a module of Python's.
    command = [sys.executable, "-P", "-m", "tidelog.cli", "broker", LED_BY_STDIN]
    command += ["--log-format", options.log_format, "--log-level", options.log_level]
    if options.metrics_port is None:
        # Any port, for this machine alone.
        command += ["--metrics-port", "0", "--metrics-host", DEFAULT_METRICS_HOST]
    else:
        # The first node has number 1.
        port = options.metrics_port and options.metrics_port + node_id - 1
        command += ["--metrics-port", str(port), "--metrics-host", options.metrics_host]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, process_group=0)  # noqa: S603


def tell_config(process: NodeProcess, path: str) -> None:
    """Let a node start. A no-op for one that has ended already, which its closed output tells."""
    assert process.stdin is not None
    with suppress(BrokenPipeError):
        os.write(process.stdin.fileno(), os.fsencode(path) + b"\0")


def end_unused(ahead: dict[int, NodeProcess]) -> None:
    """End the processes that have not been told anything."""
    for process in ahead.values():
        process.kill()
        process.wait()
        close_pipes(process)
    ahead.clear()


def close_pipes(process: NodeProcess) -> None:
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            pipe.close()


def config_from_stdin() -> str | None:
    """The path that the parent sends, read on the node's side; None where the pipe ends without one."""
    told = b""
    while not told.endswith(b"\0"):
        read = os.read(sys.stdin.fileno(), _PATH_BYTES_MAX + 1)
        if not read or len(told) > _PATH_BYTES_MAX:
            return None
        told += read
    return os.fsdecode(told[:-1])
