"""The programs that carry the load, one for each client; all speak alike."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.broker.contestants import Contestant, tidelog_environment
from benchmarks.broker.load_client import LoadError, cache_directory
from tests.support.apache_kafka import ApacheKafka, require

HERE = Path(__file__).resolve().parent
GO_MODULE = HERE.parent.parent / "tests" / "compat" / "franz"
TIMEOUT_S = 300.0
JAVA = ("-Xms512M", "-Xmx512M", "-XX:+UseG1GC")


@dataclass(frozen=True)
class Done:
    """What a load says of itself, and what it took the broker while it counted."""

    records: int
    seconds: float
    client_cpu_s: float
    bytes: float = 0.0
    mean_ms: float = 0.0
    p50_ms: float = 0.0
    p99_ms: float = 0.0
    broker_cpu_s: float = 0.0


@dataclass(frozen=True)
class Load:
    """A client, by the command that runs its program."""

    name: str
    command: Callable[[], Sequence[str]]

    def run(self, node: Contestant, kind: str, topic: str, partitions: int, count: int, size: int) -> Done:
        """LoadError where a record was lost, doubled or changed. A round trip's first ones do not count, nor does their CPU."""
        command = [*self.command(), kind, node.bootstrap, topic, str(partitions), str(count), str(size)]
        before_s = node.cpu_s()
        with subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=_environment(),
        ) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            try:
                said = process.stdout.readline() if kind == "round-trip" else ""
                if said == "ready\n":
                    before_s = node.cpu_s()
                    process.stdin.write("go\n")
                out, complaint = process.communicate(timeout=TIMEOUT_S)
            except subprocess.TimeoutExpired:
                raise LoadError(f"{self.name}: {kind} on {node.name} did not end within {TIMEOUT_S:.0f} s") from None
            finally:
                process.kill()
        used_s = node.cpu_s() - before_s
        if process.returncode != 0:
            raise LoadError(f"{self.name}: {kind} on {node.name} failed: {complaint.strip()[-500:]}")
        told = json.loads(out.splitlines()[-1])
        told["records"] = int(told["records"])
        return Done(**told, broker_cpu_s=used_s)


def java_load() -> Load:
    """Compiled by the JVM itself as it starts. Kafka's jars are needed, whoever the broker is."""

    def command() -> Sequence[str]:
        return ApacheKafka.installed().command(str(HERE / "Load.java"), jvm=JAVA)

    return Load("java", command)


def own_load() -> Load:
    return Load("own", lambda: [sys.executable, "-m", "benchmarks.sessions.own_load"])


def franz_load() -> Load:
    return Load("franz", lambda: [str(_built_with_go())])


def _built_with_go() -> Path:
    """Kept under a digest of its source and of the versions that its module names."""
    go = require("go", "golang-go")
    sources = (HERE / "franz" / "main.go", GO_MODULE / "go.mod", GO_MODULE / "go.sum")
    digest = hashlib.sha256(b"\0".join(each.read_bytes() for each in sources)).hexdigest()[:16]
    program = cache_directory() / f"franz-{digest}"
    if not program.exists():
        program.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory() as folder:
            for each in sources:
                shutil.copy(each, folder)
            fresh = Path(folder) / "program"
            done = subprocess.run(
                [go, "build", "-o", str(fresh), "."], cwd=folder, capture_output=True, text=True, check=False
            )
            if done.returncode != 0:
                raise LoadError(f"the load in Go does not build: {done.stderr[-1000:]}")
            moved = program.with_suffix(f".{os.getpid()}")
            shutil.copy(fresh, moved)
            moved.replace(program)
    return program


def _environment() -> dict[str, str]:
    return tidelog_environment()
