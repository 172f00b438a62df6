"""The load: a C program over the librdkafka that the wheel of confluent-kafka brings, compiled when it is first used.

It is kept under a digest of its source and of the library, so that an edit or an update compiles it again. An outcome is
returned only if the program has accounted for every record.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import confluent_kafka

SOURCE = Path(__file__).parent / "load"
RUN_TIMEOUT_S = 180.0
PLAINTEXT = "PLAINTEXT"

Properties = Mapping[str, str | int]


class LoadError(Exception):
    """The load could not be built, or was not carried as it should have been; one sentence says why."""


@dataclass(frozen=True)
class Carried:
    """What a load says about itself. Quantiles are those of a round trip."""

    records: int
    seconds: float
    bytes: float = 0.0
    p50_ms: float = 0.0
    p99_ms: float = 0.0
    max_ms: float = 0.0
    client_cpu_s: float = 0.0


@dataclass(frozen=True)
class Job:
    """A load on a topic: `produce`, `consume` or `round-trip`, with librdkafka's own properties, by one of the listeners."""

    kind: str
    partitions: int
    count: int
    size_bytes: int
    properties: Properties
    listener: str = PLAINTEXT


class LoadClient:
    def __init__(self, program: Path) -> None:
        self._program = program

    @classmethod
    def built(cls) -> LoadClient:
        """The program, compiled unless it is there already. LoadError where there is no compiler or no library."""
        library = bundled_librdkafka()
        sources = sorted(SOURCE.glob("*.[ch]"))
        digest = hashlib.sha256(b"\0".join([*(each.read_bytes() for each in sources), str(library).encode()]))
        program = cache_directory() / f"load-{digest.hexdigest()[:16]}"
        if not program.exists():
            program.parent.mkdir(parents=True, exist_ok=True)
            # Under another name first: an interrupted compiler must not leave a program.
            fresh = program.with_suffix(f".{os.getpid()}")
            source = str(SOURCE / "load.c")
            command = ["cc", "-O2", "-o", str(fresh), source, str(library), f"-Wl,-rpath,{library.parent}"]
            try:
                done = subprocess.run(command, capture_output=True, text=True, check=False)
            except FileNotFoundError:
                raise LoadError("`cc` is missing: install a C compiler (Debian: gcc and libc6-dev)") from None
            if done.returncode != 0:
                raise LoadError(f"the load does not compile: {done.stderr[-2000:]}")
            fresh.replace(program)
        return cls(program)

    def version(self) -> str:
        """librdkafka's."""
        return subprocess.run([self._program, "version"], capture_output=True, text=True, check=True).stdout.strip()

    def run(self, job: Job, bootstrap: str, topic: str) -> Carried:
        """Carries a load to its end. LoadError where a record was lost, doubled or changed, or the client met any error."""
        numbers = (str(job.partitions), str(job.count), str(job.size_bytes))
        properties = [f"{name}={value}" for name, value in job.properties.items()]
        command = [str(self._program), job.kind, bootstrap, topic, *numbers, *properties]
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=RUN_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            raise LoadError(f"{job.kind} on {bootstrap} did not end within {RUN_TIMEOUT_S:.0f} s") from None
        complaint = done.stderr.strip()
        # librdkafka logs what it repairs by itself, too; a broker that needs repairing has not carried the load.
        if done.returncode != 0 or complaint:
            raise LoadError(f"{job.kind} on {bootstrap} failed: {complaint or f'exit code {done.returncode}'}")
        return Carried(**json.loads(done.stdout))


def bundled_librdkafka() -> Path:
    """The library inside of the installed wheel."""
    places = Path(confluent_kafka.__file__).parent.parent / "confluent_kafka.libs"
    found = sorted(places.glob("librdkafka-*.so*"))
    if not found:
        raise LoadError(f"{places} has no librdkafka: install confluent-kafka as a wheel")
    return found[0]


def cache_directory() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "tidelog" / "benchmarks"
