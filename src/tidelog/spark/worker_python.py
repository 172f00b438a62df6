"""The interpreter of Spark's workers on this machine: this one, and quicker to start than Spark would have it.

Spark puts an archive of PySpark's sources first on the path of each Python process that it starts. What is imported from it is
compiled anew every time, which takes a second of CPU in each of them, and a query with a source and a sink in Python has about
ten. The same PySpark is installed, and compiled. So the interpreter is a few lines of shell that take the archive off the
path.
"""

from __future__ import annotations

import hashlib
import importlib.util
import shlex
import sys
import tempfile
from pathlib import Path

_SCRIPT = """#!/bin/sh
# Python without PySpark's archive on its path: the same PySpark is installed here, and compiled.
kept=
IFS=:
for each in $PYTHONPATH; do
    case "$each" in {archives}/*.zip) ;; *) kept="$kept:$each" ;; esac
done
unset IFS
PYTHONPATH="${{kept#:}}" exec {python} "$@"
"""


def worker_python() -> str:
    """What PYSPARK_PYTHON should be where Spark and its workers are on this machine; at the least, this interpreter.

    >>> os.environ["PYSPARK_PYTHON"] = worker_python()
    """
    found = importlib.util.find_spec("pyspark")
    if found is None or found.origin is None:
        return sys.executable
    archives = Path(found.origin).parent / "python" / "lib"
    if not (archives / "pyspark.zip").exists():
        return sys.executable
    script = _SCRIPT.format(archives=shlex.quote(str(archives)), python=shlex.quote(sys.executable))
    name = f"spark-python-{hashlib.sha256(script.encode()).hexdigest()[:12]}"
    # In the environment, where it may be written to; else where its user may.
    for directory in (Path(sys.prefix) / "share" / "tidelog", Path.home() / ".cache" / "tidelog"):
        try:
            return str(_written(script, directory / name))
        except OSError:
            continue
    return sys.executable


def _written(script: str, target: Path) -> Path:
    """The script, in place as a whole: others may be doing the same."""
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=target.parent, delete=False) as made:
            made.write(script)
        Path(made.name).chmod(0o755)
        Path(made.name).replace(target)
    return target
