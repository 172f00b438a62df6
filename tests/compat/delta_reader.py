"""Spark with Delta's own jar, in an environment of its own: fetched once by pip and Maven."""

from __future__ import annotations

import fcntl
import json
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.support.apache_kafka import REPOSITORY, KafkaError, require

# The last Spark that a jar of Delta is built for; pom.xml has the jar.
SPARK_VERSION = "4.2.0"
POM = Path(__file__).parent / "delta" / "pom.xml"
PROGRAM = Path(__file__).parent / "delta" / "run_sql.py"
HOME = REPOSITORY / ".compat" / "delta-reader"
_TIMEOUT_S = 600.0


def delta_sql(statements: Sequence[str]) -> list[tuple[dict[str, str], list[dict[str, Any]]]]:
    """Types and rows of each, from one session. MissingProgramError where nothing can fetch what it needs."""
    return [(types, rows) for types, rows in json.loads(delta_program(PROGRAM, json.dumps(list(statements))))]


def delta_program(program: Path, given: str) -> str:
    """What a program prints last that is started with the jars as its argument, and given this to read. Errors as above."""
    _installed()
    jars = ",".join(str(each) for each in sorted((HOME / "lib").glob("*.jar")))
    command = [str(HOME / "venv" / "bin" / "python"), str(program), jars]
    done = subprocess.run(command, input=given, capture_output=True, text=True, check=False, timeout=_TIMEOUT_S)
    if done.returncode != 0:
        raise KafkaError(f"Spark with Delta's jar failed:\n{done.stderr[-3000:]}")
    return done.stdout.splitlines()[-1]


def _installed() -> None:
    require("java", "openjdk-17-jdk-headless")
    HOME.mkdir(parents=True, exist_ok=True)
    with (HOME / ".install-lock").open("w") as lock:
        # Two test runs at once install it once.
        fcntl.lockf(lock, fcntl.LOCK_EX)
        if not (HOME / "lib").exists():
            _install()


def _install() -> None:
    # Into a directory of its own first: an interrupted download must not pass for an installation.
    fresh, environment = HOME / "lib.fetching", HOME / "venv"
    for each in (fresh, environment):
        shutil.rmtree(each, ignore_errors=True)
    maven = ["-q", "-B", "-f", str(POM), "dependency:copy-dependencies", f"-DoutputDirectory={fresh}"]
    # Everything else that it names is in Spark.
    chosen = ["-DincludeScope=runtime", "-DincludeGroupIds=io.delta,io.unitycatalog"]
    python = str(environment / "bin" / "python")
    for command in (
        [require("mvn", "maven"), *maven, *chosen],
        [sys.executable, "-m", "venv", str(environment)],
        [python, "-m", "pip", "install", "-q", f"pyspark=={SPARK_VERSION}"],
    ):
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_TIMEOUT_S)
        if done.returncode != 0:
            raise KafkaError(
                f"{command[0]} could not fetch Spark with Delta's jar:\n{(done.stdout + done.stderr)[-2000:]}"
            )
    fresh.rename(HOME / "lib")
