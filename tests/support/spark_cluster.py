"""A standalone Spark cluster of this machine: a master, and a worker on each of some loopback addresses, from pip's PySpark."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import pyspark

SPARK_HOME = Path(pyspark.__file__).parent
HOSTS = ("127.0.0.1", "127.0.0.2")
DEADLINE_S = 120


class SparkCluster:
    """Workers have a core each, and know nothing of this environment but the path of Spark."""

    def __init__(self, directory: Path, hosts: Sequence[str] = HOSTS) -> None:
        self._directory = directory
        self._hosts = hosts
        self._processes: list[subprocess.Popen[bytes]] = []
        with socket.socket() as free:
            free.bind((hosts[0], 0))
            self._port: int = free.getsockname()[1]

    @property
    def master(self) -> str:
        return f"spark://{self._hosts[0]}:{self._port}"

    def __enter__(self) -> Self:
        try:
            self._start("master", "master.Master", "--host", self._hosts[0], "--port", str(self._port))
            for host in self._hosts:
                work = ["--host", host, "--cores", "1", "--memory", "640m", "--work-dir", str(self.work_of(host))]
                self._start(f"worker-{host}", "worker.Worker", *work, self.master)
            for host in self._hosts:
                self._wait_for(f"worker-{host}", "Successfully registered with master")
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def work_of(self, host: str) -> Path:
        """Where a worker keeps what its executors do."""
        return self._directory / f"work-{host}"

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for each in reversed(self._processes):
            each.terminate()
        for each in self._processes:
            try:
                each.wait(20)
            except subprocess.TimeoutExpired:
                each.kill()
                each.wait()

    def _start(self, name: str, daemon: str, *arguments: str) -> None:
        self._directory.mkdir(parents=True, exist_ok=True)
        # Neither the tests' own modules nor their Python.
        kept = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "PYSPARK", "SPARK"))}
        java = [
            "java",
            "-Xmx192m",
            "-XX:TieredStopAtLevel=1",
            "-Dspark.master.rest.enabled=false",
            "-cp",
            f"{SPARK_HOME}/jars/*",
        ]
        with (self._directory / f"{name}.log").open("wb") as log:
            self._processes.append(
                subprocess.Popen(
                    [*java, f"org.apache.spark.deploy.{daemon}", "--webui-port", "0", *arguments],
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    cwd=self._directory,
                    # What Spark's own scripts set: without the version executors do not find their jars.
                    env={**kept, "SPARK_HOME": str(SPARK_HOME), "SPARK_SCALA_VERSION": "2.13"},
                )
            )

    def _wait_for(self, name: str, words: str) -> None:
        log = self._directory / f"{name}.log"
        deadline_s = time.monotonic() + DEADLINE_S
        while words not in log.read_text(errors="replace"):
            if time.monotonic() > deadline_s or any(each.poll() is not None for each in self._processes):
                raise AssertionError(f"{name} did not come up: {log.read_text(errors='replace')[-2000:]}")
            time.sleep(0.1)
