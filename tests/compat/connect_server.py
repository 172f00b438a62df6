"""A server of Spark Connect as a process of its own, which PySpark brings along."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark

from tests.support.command_process import environment
from tidelog.spark.java_home import ensure_java
from tidelog.spark.worker_python import worker_python

DEADLINE_S = 180.0


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


class ConnectServer:
    """`kill` ends it as a machine that is gone does: its Python goes with it."""

    def __init__(self, directory: Path, port: int) -> None:
        ensure_java()
        home = Path(pyspark.__file__).parent
        conf = {
            "spark.connect.grpc.binding.address": "127.0.0.1",
            "spark.connect.grpc.binding.port": str(port),
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.host": "127.0.0.1",
            "spark.ui.enabled": "false",
            "spark.sql.shuffle.partitions": "2",
            "spark.sql.warehouse.dir": str(directory / "warehouse"),
        }
        options = [text for name, value in conf.items() for text in ("--conf", f"{name}={value}")]
        server = "org.apache.spark.sql.connect.service.SparkConnectServer"
        self.url = f"sc://127.0.0.1:{port}"
        self._port = port
        self._log = (directory / f"connect-{time.monotonic_ns()}.log").open("wb")
        self._process = subprocess.Popen(
            [home / "bin" / "spark-submit", "--class", server, "--master", "local[2]", *options, "spark-internal"],
            cwd=directory,
            env=environment({"SPARK_HOME": str(home), "PYSPARK_PYTHON": worker_python()}),
            stdout=self._log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    def await_start(self) -> None:
        until_s = time.monotonic() + DEADLINE_S
        while True:
            try:
                socket.create_connection(("127.0.0.1", self._port), 1).close()
            except OSError:
                assert self._process.poll() is None, self.said()
                assert time.monotonic() < until_s, self.said()
                time.sleep(0.1)
            else:
                return

    def said(self) -> str:
        return Path(self._log.name).read_bytes().decode(errors="replace")[-4000:]

    def kill(self) -> None:
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._log.close()


@contextmanager
def connect_server(directory: Path, port: int | None = None) -> Iterator[ConnectServer]:
    server = ConnectServer(directory, port or free_port())
    try:
        server.await_start()
        yield server
    finally:
        server.kill()
