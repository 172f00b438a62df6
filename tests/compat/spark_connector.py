"""Spark's own Kafka connector, fetched by Maven once."""

from __future__ import annotations

import fcntl
import shutil
import subprocess
from pathlib import Path

from tests.support.apache_kafka import REPOSITORY, KafkaError, require

POM = Path(__file__).parent / "spark" / "pom.xml"
HOME = REPOSITORY / ".compat" / "spark-connector"


def connector_jars() -> list[Path]:
    """The jars that a session takes as `spark.jars`. MissingProgramError where nothing can fetch them."""
    require("java", "openjdk-17-jdk-headless")
    HOME.mkdir(parents=True, exist_ok=True)
    with (HOME / ".install-lock").open("w") as lock:
        # Two test runs at once install it once.
        fcntl.lockf(lock, fcntl.LOCK_EX)
        if not (HOME / "lib").exists():
            _install()
    return sorted((HOME / "lib").glob("*.jar"))


def _install() -> None:
    # Into a directory of its own first: an interrupted download must not pass for an installation.
    fresh = HOME / "lib.fetching"
    shutil.rmtree(fresh, ignore_errors=True)
    maven = require("mvn", "maven")
    command = [maven, "-q", "-B", "-f", str(POM), "dependency:copy-dependencies", f"-DoutputDirectory={fresh}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise KafkaError(f"maven could not fetch Spark's Kafka connector:\n{(done.stdout + done.stderr)[-2000:]}")
    fresh.rename(HOME / "lib")
