"""Programs that nobody here wrote around Iceberg tables: its own REST catalog, and a Spark 4.1 with its runtime."""

from __future__ import annotations

import fcntl
import json
import shutil
import subprocess
import venv
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.support.apache_kafka import REPOSITORY, KafkaError, require

PLACE = Path(__file__).parent
HOME = REPOSITORY / ".compat" / "iceberg"
SPARK = "pyspark==4.1.*"
DEADLINE_S = 600


@contextmanager
def rest_catalog(place: Path) -> Iterator[str]:
    """The URL of Iceberg's own, over its JDBC catalog."""
    place.mkdir(parents=True, exist_ok=True)
    jars = _installed("rest", _fetch_rest)
    command = [require("java", "openjdk-17-jdk-headless"), "-cp", f"{jars}/*", str(PLACE / "IcebergRestCatalog.java")]
    command += [str(place / "rest.db"), f"file://{place}/warehouse"]
    with (place / "rest.log").open("w") as log:
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True)
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            port = process.stdout.readline().strip()
            assert port.isdecimal(), (place / "rest.log").read_text()
            yield f"http://127.0.0.1:{port}"
        finally:
            process.stdin.close()
            process.stdout.close()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def run_spark(script: Path, **settings: str) -> Any:
    """What a script prints last, as JSON. It runs in an environment of its own, with the settings of its session as argument."""
    jars = _installed("spark", lambda fresh: _maven(PLACE / "iceberg" / "spark" / "pom.xml", fresh))
    python = _installed("environment", _make_environment) / "bin" / "python"
    settings["spark.jars"] = ",".join(str(each) for each in sorted(jars.glob("*.jar")))
    done = subprocess.run(
        [str(python), str(script), json.dumps(settings)],
        capture_output=True,
        text=True,
        check=False,
        timeout=DEADLINE_S,
        # Nothing of ours may be seen there.
        env={"PATH": "/usr/bin:/bin", "HOME": str(HOME), "SPARK_LOCAL_IP": "127.0.0.1"},
    )
    assert done.returncode == 0, f"{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
    return json.loads(done.stdout.strip().splitlines()[-1])


def _installed(name: str, install: Any) -> Path:
    HOME.mkdir(parents=True, exist_ok=True)
    with (HOME / f".{name}-lock").open("w") as lock:
        # Two test runs at once install it once.
        fcntl.lockf(lock, fcntl.LOCK_EX)
        marker = HOME / f".{name}-installed"
        if not marker.exists():
            # An interrupted download must not pass for an installation.
            shutil.rmtree(HOME / name, ignore_errors=True)
            install(HOME / name)
            marker.touch()
    return HOME / name


def _fetch_rest(fresh: Path) -> None:
    _maven(PLACE / "iceberg" / "pom.xml", fresh)


def _make_environment(fresh: Path) -> None:
    venv.create(fresh, with_pip=True)
    _run([str(fresh / "bin" / "python"), "-m", "pip", "install", "-q", SPARK])


def _maven(pom: Path, fresh: Path) -> None:
    maven = require("mvn", "maven")
    _run([maven, "-q", "-B", "-f", str(pom), "dependency:copy-dependencies", f"-DoutputDirectory={fresh}"])


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=DEADLINE_S)
    if done.returncode != 0:
        raise KafkaError(f"{command[0]} failed:\n{(done.stdout + done.stderr)[-2000:]}")
