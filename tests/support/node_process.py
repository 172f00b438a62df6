"""A node as a process of its own, to be killed. Run as a module, it is that process: it prints its address and serves."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Self

import uvloop

from tests.support.running_node import DEADLINE_S, node_properties, start_node

_REPOSITORY = Path(__file__).resolve().parents[2]
# Internal topics have as many replicas as there are nodes.
_ONE_NODE = {
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
}


class NodeProcess:
    """Serves inside a `with`; whatever is left of it then is killed."""

    def __init__(self, directory: Path, *, port: int = 0) -> None:
        self._arguments = [sys.executable, "-m", "tests.support.node_process", str(directory), str(port)]

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(self._arguments, cwd=_REPOSITORY, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        self.bootstrap = self._process.stdout.readline().strip()
        if not self.bootstrap:
            self._end()
            raise RuntimeError("the node did not start; its standard error says why")
        return self

    @property
    def port(self) -> int:
        return int(self.bootstrap.rpartition(":")[2])

    def kill(self) -> None:
        """SIGKILL, and wait until nothing of the process is left."""
        self._process.kill()
        self._process.wait(DEADLINE_S)

    def stop(self) -> int:
        """SIGTERM; the exit code once the node has stopped."""
        self._process.terminate()
        return self._process.wait(DEADLINE_S)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def _end(self) -> None:
        self.kill()
        if self._process.stdout is not None:
            self._process.stdout.close()


async def _serve(directory: Path, port: int) -> None:
    node, slow_work = await start_node(node_properties(directory, port=port, settings=_ONE_NODE))
    asked = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, asked.set)
    sys.stdout.write(f"{node.bootstrap_address}\n")
    sys.stdout.flush()
    await asked.wait()
    await node.stop()
    slow_work.close()


if __name__ == "__main__":
    uvloop.run(_serve(Path(sys.argv[1]), int(sys.argv[2])))
