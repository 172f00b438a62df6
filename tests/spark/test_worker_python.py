"""The interpreter of Spark's workers: the same Python, without the archive that Spark puts on its path."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

from tidelog.spark import worker_python as module
from tidelog.spark.worker_python import worker_python

ARCHIVES = Path(pyspark.__file__).parent / "python" / "lib"
PROGRAM = "import json, os, pyspark, sys; print(json.dumps([pyspark.__file__, sys.prefix, os.environ['PYTHONPATH'], sys.argv]))"


def run(path: list[str]) -> list[object]:
    ran = subprocess.run(
        [worker_python(), "-c", PROGRAM, "an argument", "*"],
        env={**os.environ, "PYTHONPATH": ":".join(path)},
        capture_output=True,
        text=True,
        check=True,
    )
    told: list[object] = json.loads(ran.stdout)
    return told


def test_workers_import_the_pyspark_that_is_installed() -> None:
    archives = [str(each) for each in sorted(ARCHIVES.glob("*.zip"))]
    assert len(archives) == 2, "PySpark and py4j"

    told = run([*archives, "/somewhere/with a space", "/else/pyspark.zip"])

    assert told == [
        pyspark.__file__,
        sys.prefix,
        "/somewhere/with a space:/else/pyspark.zip",
        ["-c", "an argument", "*"],
    ]


def test_an_empty_path_stays_empty() -> None:
    assert run([])[2] == ""


def test_it_is_written_once() -> None:
    first = Path(worker_python())
    before = first.stat().st_mtime_ns

    assert worker_python() == str(first)
    assert first.stat().st_mtime_ns == before


def test_where_nothing_can_be_written_it_is_this_interpreter(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(_script: str, _target: Path) -> Path:
        raise PermissionError

    monkeypatch.setattr(module, "_written", refused)

    assert worker_python() == sys.executable
