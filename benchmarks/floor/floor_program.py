"""The C program in the node's place, compiled when it is first used."""

from __future__ import annotations

import hashlib
import os
import subprocess
from pathlib import Path

from benchmarks.broker.contestants import Contestant
from benchmarks.broker.figures import FLOOR
from benchmarks.broker.load_client import LoadError, cache_directory

SOURCE = Path(__file__).resolve().parent / "floor.c"


class Floor(Contestant):
    """Started and stopped as brokers are; what it holds is gone with it."""

    name = FLOOR

    def _format(self, properties: Path, log: int) -> None:
        del properties, log

    def _command(self, properties: Path) -> list[str]:
        return [str(built()), str(self.port), str(properties.parent)]

    def _environment(self) -> dict[str, str]:
        return dict(os.environ)


def built() -> Path:
    """Kept under a digest of its source. LoadError where it does not compile."""
    program = cache_directory() / f"floor-{hashlib.sha256(SOURCE.read_bytes()).hexdigest()[:16]}"
    if not program.exists():
        program.parent.mkdir(parents=True, exist_ok=True)
        fresh = program.with_suffix(f".{os.getpid()}")
        command = ["cc", "-O2", "-march=native", "-o", str(fresh), str(SOURCE)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False)
        except FileNotFoundError:
            raise LoadError("`cc` is missing: install a C compiler (Debian: gcc and libc6-dev)") from None
        if done.returncode != 0:
            raise LoadError(f"the floor does not compile: {done.stderr[-2000:]}")
        fresh.replace(program)
    return program
