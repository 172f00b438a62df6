"""Another release of Spark in an environment of its own, made once: its PySpark goes before all that this environment has."""

from __future__ import annotations

import fcntl
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

from tests.support.apache_kafka import REPOSITORY, KafkaError

_TIMEOUT_S = 900.0


def environment_of(spark: str) -> Path:
    """The Python of the environment that has this PySpark, as pip asks for it: '4.2.*'."""
    home = REPOSITORY / ".compat" / f"spark-{spark.rstrip('.*')}"
    home.mkdir(parents=True, exist_ok=True)
    with (home / ".install-lock").open("w") as lock:
        # Two test runs at once install it once.
        fcntl.lockf(lock, fcntl.LOCK_EX)
        if not (home / "venv").exists():
            _install(home, spark)
    return home / "venv" / "bin" / "python"


def _install(home: Path, spark: str) -> None:
    # Into a directory of its own first: an interrupted download must not pass for an installation.
    fresh = home / "venv.fetching"
    shutil.rmtree(fresh, ignore_errors=True)
    for command in (
        # Programs of an environment name its place, and only its Python is called here.
        [sys.executable, "-m", "venv", str(fresh)],
        [str(fresh / "bin" / "python"), "-m", "pip", "install", "-q", f"pyspark=={spark}"],
    ):
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_TIMEOUT_S)
        if done.returncode != 0:
            raise KafkaError(f"{command[0]} could not fetch Spark {spark}:\n{(done.stdout + done.stderr)[-2000:]}")
    (site,) = fresh.glob("lib/python*/site-packages")
    places = [sysconfig.get_path("purelib"), sysconfig.get_path("platlib"), str(REPOSITORY / "src")]
    (site / "beside.pth").write_text("\n".join(dict.fromkeys(places)) + "\n")
    fresh.rename(home / "venv")
