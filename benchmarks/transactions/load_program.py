"""The load: a C program over the librdkafka that the wheel of confluent-kafka brings, compiled when it is first used."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from benchmarks.broker.load_client import LoadError, bundled_librdkafka, cache_directory

SOURCE = Path(__file__).parent / "load.c"
HEADER = Path(__file__).parent.parent / "broker" / "load" / "librdkafka.h"
RUN_TIMEOUT_S = 300.0


@dataclass(frozen=True)
class Done:
    """What a load says about itself."""

    transactions: int
    records: int
    seconds: float
    p50_ms: float
    p99_ms: float
    client_cpu_s: float


class LoadProgram:
    """Kept under a digest of its source and of the library, so that an edit or an update compiles it again."""

    def __init__(self, *command: str) -> None:
        self._command = command

    @classmethod
    def built(cls) -> LoadProgram:
        """LoadError where there is no compiler or no library."""
        library = bundled_librdkafka()
        digest = hashlib.sha256(b"\0".join([SOURCE.read_bytes(), HEADER.read_bytes(), str(library).encode()]))
        program = cache_directory() / f"transactions-{digest.hexdigest()[:16]}"
        if not program.exists():
            program.parent.mkdir(parents=True, exist_ok=True)
            # Under another name first: an interrupted compiler must not leave a program.
            fresh = program.with_suffix(f".{os.getpid()}")
            options = ["-O2", "-pthread", "-o", str(fresh), str(SOURCE), str(library), f"-Wl,-rpath,{library.parent}"]
            try:
                done = subprocess.run(["cc", *options], capture_output=True, text=True, check=False)
            except FileNotFoundError:
                raise LoadError("`cc` is missing: install a C compiler (Debian: gcc and libc6-dev)") from None
            if done.returncode != 0:
                raise LoadError(f"the load does not compile: {done.stderr[-2000:]}")
            fresh.replace(program)
        return cls(str(program))

    @classmethod
    def own_client(cls) -> LoadProgram:
        """Tidelog's own producer, which takes and says the same."""
        return cls(sys.executable, "-m", "benchmarks.transactions.own_client")

    def run(self, arguments: list[str], cpu_s: Callable[[], float]) -> tuple[Done, float]:
        """Carries a load to its end: what it says, and what `cpu_s` grew by from when it was ready."""
        with subprocess.Popen(
            [*self._command, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as process:
            killer = threading.Timer(RUN_TIMEOUT_S, process.kill)
            killer.start()
            try:
                assert process.stdout is not None
                is_ready = process.stdout.readline() == "ready\n"
                before_s = cpu_s()
                told, complaint = process.communicate()
                used_s = cpu_s() - before_s
            finally:
                killer.cancel()
        # librdkafka logs what it repairs by itself, too; a broker that needs repairing has not carried the load.
        if process.returncode != 0 or complaint.strip() or not is_ready:
            raise LoadError(f"{arguments[:2]} failed: {complaint.strip() or f'exit code {process.returncode}'}")
        return Done(**json.loads(told)), used_s
